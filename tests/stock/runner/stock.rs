//! Stock `salt-run` and stock's Python clients on a halite master, and `halite-run` beside them on
//! the same directory.
//!
//! Declared differences, for which stock is no model: wrong arguments, unknown functions and
//! jobs, and errors end with a status other than 0 and no traceback.

use serde_json::{Value, json};
use std::time::Duration;
use testing::check::same;
use testing::{Checks, Master, Minion, Stock, cli, wait_for};

/// Commands of which both must print the same; `JID` is a job of `test.ping`.
#[rustfmt::skip]
const EQUAL: &[&[&str]] = &[
    &["jobs.list_jobs", "search_function=test.*"],
    &["jobs.list_jobs", "search_function=test.ping,x.y", "search_target=*", "--out=json"],
    &["jobs.list_jobs", "search_function=test.*", "start_time=2001, Mar 16 19:00"],
    &["jobs.list_jobs", "search_function=test.*", "end_time=2001, Mar 16 19:00"],
    &["jobs.list_job", "JID"],
    &["jobs.print_job", "JID", "--out=yaml"],
    &["jobs.lookup_jid", "JID"],
    &["jobs.lookup_jid", "JID", "missing=True", "returned=False"],
    &["jobs.exit_success", "JID"],
    &["jobs.last_run", "function=test.ping"],
    &["jobs.last_run", "function=no.such"],
    &["jobs.list_jobs_filter", "0"],
    &["config.get", "worker_threads"],
    &["config.get", "nope", "default=7"],
    &["test.arg", "1", "b", "a=2"],
    &["test.raw_arg", "1", "b", "a=2", "--out=json"],
    &["test.metasyntactic", "locality=uk"],
    &["test.metasyntactic", "locality=uk", "--quiet"],
    &["test.stdout_print"],
    &["test.sleep", "0.1"],
    &["manage.up"],
    &["manage.down"],
    &["manage.status"],
    &["manage.present"],
    &["manage.alived", "show_ip=True"],
    &["manage.not_present"],
    &["manage.list_not_state", "subset=[m1]"],
    &["cache.grains", "m1", "--out=json"],
    &["cache.pillar", "m1"],
    &["cache.mine", "m1"],
    &["cache.list", "halite_test"],
    &["cache.fetch", "halite_test/bank", "k"],
    &["cache.fetch", "halite_test/bank", "nope"],
    &["error.error"],
    &["event.send", "my/tag", "{a: 1}"],
    &["survey.hash", "*", "test.ping"],
    &["survey.diff", "*", "test.ping"],
    &["salt.cmd", "test.ping"],
    &["salt.cmd", "test.arg", "1", "a=2"],
    &["salt.execute", "*", "test.ping"],
];

/// What stock's Python clients are told to do; one JSON value a line.
const CLIENTS: &str = r#"
import json, os, sys
import salt.config, salt.runner, salt.version, salt.wheel
opts = salt.config.client_config(sys.argv[1])
user = opts["user"]
with open(os.path.join(opts["cachedir"], "." + user + "_key")) as f:
    proof = {"user": user, "key": f.read()}
def low(fun, **more):
    return dict(more, fun=fun, **proof)
def say(what):
    print(json.dumps(what))
def failing(f):
    try:
        f()
    except Exception as e:
        say(type(e).__name__ + ": " + str(e))
runner = salt.runner.RunnerClient(opts)
wheel = salt.wheel.WheelClient(opts)
say(sorted(runner.cmd_async(low("test.metasyntactic"))))
say(runner.cmd_sync(low("test.metasyntactic", locality="uk"), timeout=60))
say(runner.cmd_sync(low("test.arg", arg=[1, "a"], kwarg={"x": 3}), timeout=60))
say(runner.cmd_sync(low("manage.up"), timeout=60))
say(runner.cmd_sync(low("error.error", name="ValueError", message="hu"), timeout=60, full_return=True)["data"]["success"])
failing(lambda: runner.cmd_async(dict(low("test.arg"), key="wrong")))
failing(lambda: runner.cmd_async({"fun": "test.arg", "eauth": "pam", "username": "joe", "password": "x"}))
say(wheel.cmd_sync(low("key.list", match="acc"))["data"]["return"])
say(wheel.cmd_sync(low("key.name_match", arg=["m*"], kwarg={}))["data"]["return"])
say(wheel.cmd_sync(low("key.nope"))["data"]["success"])
say(sorted(wheel.cmd_async(low("minions.connected"))))
say(sorted(wheel.cmd_sync(low("key.finger_master"))["data"]))
# The same functions by stock itself, in this process.
for fun, arg in json.loads(sys.argv[2]):
    here = wheel.cmd(fun, list(arg), print_event=False)
    there = wheel.cmd_sync(low(fun, arg=arg, kwarg={}))["data"]["return"]
    if fun == "key.list_all" and salt.version.__saltstack_version__.major >= 3008:
        # 3008 names the master's own files after the master, and lists what lies there; halite's are called "master".
        own = opts["id"].removesuffix("_master")
        here["local"] = [own + name.removeprefix("master") for name in here["local"]]
    if here != there:
        say([fun, here, there])
"#;

/// Wheel functions that give the same on both. `key.finger` is not among them: 3008 takes
/// fingerprints of whole key files, which no minion prints.
#[rustfmt::skip]
const WHEEL: &[(&str, &[&str])] = &[
    ("key.list", &["acc"]), ("key.list", &["un"]), ("key.list", &["rej"]), ("key.list", &["x"]),
    ("key.name_match", &["*"]), ("key.name_match", &["a,m*"]), ("key.print", &["m1"]),
    ("key.finger_master", &[]), ("key.finger_master", &["md5"]), ("key.list_all", &[]),
    ("key.accept", &["none"]), ("key.reject", &["none"]), ("key.delete", &["none"]),
    ("key.gen_accept", &["m1"]),
    ("file_roots.find", &["a/b.sls"]), ("file_roots.find", &["bin"]), ("file_roots.find", &["nope"]),
    ("file_roots.find", &["a/b.sls", "dev"]), ("file_roots.find", &["../etc"]),
    ("file_roots.list_env", &[]), ("file_roots.list_env", &["nope"]), ("file_roots.list_roots", &[]),
    ("file_roots.read", &["a/b.sls"]), ("file_roots.read", &["bin"]),
    ("file_roots.write", &["text", "new/file"]), ("file_roots.write", &["text", "/etc/x"]),
    ("file_roots.write", &["text", "x", "nope"]), ("file_roots.read", &["new/file"]),
    ("pillar_roots.list_roots", &[]), ("pillar_roots.find", &["top.sls"]),
    ("pillar_roots.read", &["top.sls"]), ("pillar_roots.write", &["a: 1", "new.sls"]),
    ("minions.connected", &[]), ("error.error", &[]),
];

fn series(name: &str) {
    let Some(stock) = Stock::find(name) else {
        return;
    };
    let extra = format!("salt_series: {name}\njob_cache_compat: full\nauto_accept: true");
    let dir = testing::short_dir();
    let root = |name: &str| dir.path().join(name);
    for (file, content) in [
        ("files/a/b.sls", "x: 1\n".as_bytes()),
        ("files/bin", b"\x00\x01"),
        ("pillar/top.sls", b"base: {}\n"),
    ] {
        let path = root(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let extra = format!(
        "{extra}\nfile_roots: {{base: [{}]}}\npillar_roots: {{base: [{}]}}",
        root("files").display(),
        root("pillar").display()
    );
    let master = Master::halite(&extra);
    let _minion = Minion::halite(&master, "m1", "");
    let (ours, theirs) = (master.halite_cli(), master.stock_cli(&stock));
    wait_for("the minion answers", || {
        let up = ours.runner(&["-t", "1", "manage.up"]);
        up.out.contains("m1").then_some(())
    });
    assert_eq!(ours.salt(&["*", "test.ping"]).status, Some(0));
    let stored = ours.runner(&["cache.store", "halite_test/bank", "k", "{a: [1, x]}"]);
    assert_eq!(stored.status, Some(0), "{}", stored.describe());
    let last = ours.runner(&["jobs.last_run", "function=test.ping", "--out=json"]);
    let last = last.json().unwrap();
    let jid = last.as_object().unwrap().keys().next().unwrap().clone();

    let mut checks = Checks::default();
    for args in EQUAL {
        let args: Vec<&str> = args
            .iter()
            .map(|a| if *a == "JID" { jid.as_str() } else { a })
            .collect();
        checks.run(&args.join(" "), || {
            // Stock first: halite must not write what stock then reads.
            let (theirs, ours) = (theirs.runner(&args), ours.runner(&args));
            let json = args.contains(&"--out=json");
            same(shown(&ours, json), shown(&theirs, json))
                .map_err(|e| format!("{e}\n{}\n{}", theirs.describe(), ours.describe()))
        });
    }
    checks.run("stock's Python clients", || clients(&stock, &master));
    checks.finish();
}

/// What was printed, and the status. Stock lists jobs in the order of directories, which JSON
/// does not hide: its lines are sorted.
fn shown(ran: &cli::Ran, json: bool) -> (String, Option<i32>) {
    let mut lines: Vec<&str> = ran.out.lines().collect();
    if json {
        lines.iter_mut().for_each(|l| *l = l.trim_end_matches(','));
        lines.sort_unstable();
    }
    (lines.join("\n"), ran.status)
}

fn clients(stock: &Stock, master: &Master) -> Result<(), String> {
    let script = master.place("clients.py");
    std::fs::write(&script, CLIENTS).map_err(|e| e.to_string())?;
    let mut command = std::process::Command::new(stock.program("python"));
    command
        .arg(&script)
        .arg(master.home.config_dir().join("master"))
        .arg(json!(WHEEL).to_string());
    let ran = cli::run(command, "clients.py".into(), Duration::from_secs(120));
    let found: Result<Vec<Value>, _> = ran.out.lines().map(serde_json::from_str).collect();
    let mut found = found.map_err(|e| format!("{e}\n{}", ran.describe()))?;
    // 3006 tells the time as well.
    if let Some(Value::Array(keys)) = found.get_mut(11) {
        keys.retain(|k| k != "_stamp");
    }
    let expected = vec![
        json!(["jid", "tag"]),
        json!(["wibble", "wobble", "wubble", "flob"]),
        json!({"args": [1, "a"], "kwargs": {"x": 3}}),
        json!(["m1"]),
        json!(false),
        json!("SaltException: Authentication failure of type \"user\" occurred"),
        json!(
            "EauthAuthenticationError: Authentication failure of type \"eauth\" occurred for user joe."
        ),
        json!({"minions": ["m1"]}),
        json!({"minions": ["m1"]}),
        json!(false),
        json!(["jid", "tag"]),
        json!(["fun", "jid", "return", "success", "tag", "user"]),
    ];
    same(found, expected).map_err(|e| format!("{e}\n{}", ran.describe()))
}

#[test]
fn on_a_master_as_3006() {
    series("3006");
}

#[test]
fn on_a_master_as_3008() {
    series("3008");
}
