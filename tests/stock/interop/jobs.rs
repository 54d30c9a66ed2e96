//! Jobs through one command line tool.

use crate::interop::fleet::{Fleet, NEW, OLD, OWN};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use testing::check::same;
use testing::{Checks, Cli};

/// Time for returns to be kept.
const PATIENCE: Duration = Duration::from_secs(20);

/// All checks of jobs.
pub fn all(fleet: &Fleet, cli: &Cli, checks: &mut Checks) {
    let on = |name: &str| format!("{}: {name}", cli.name);
    checks.run(&on("test.ping"), || ping(fleet, cli));
    checks.run(&on("test.arg"), || arguments(fleet, cli));
    checks.run(&on("cmd.run"), || commands(fleet, cli));
    checks.run(&on("a failing command"), || failing(fleet, cli));
    checks.run(&on("several functions"), || several(fleet, cli));
    checks.run(&on("an unknown function"), || unknown(fleet, cli));
    targets(cli, checks);
    checks.run(&on("nobody matches"), || nobody(cli));
    checks.run(&on("batch"), || batch(fleet, cli));
    checks.run(&on("async and lookup"), || detached(fleet, cli));
}

/// Every minion of `all` returned exactly `value`.
fn each(all: &Map<String, Value>, ids: &[&str], value: &Value) -> Result<(), String> {
    let expected: Map<String, Value> = ids
        .iter()
        .map(|id| ((*id).to_owned(), value.clone()))
        .collect();
    same(Value::Object(all.clone()), Value::Object(expected))
}

fn ping(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let ran = cli.salt(&["*", "test.ping", "--out=json"]);
    each(&ran.returns()?, &fleet.ids(), &json!(true))?;
    same(ran.status, Some(0))
}

fn arguments(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let all = cli.ask(&[
        "*",
        "test.arg",
        "grüße ∀ 🧂",
        "[1, 2.5, {a: [x, null]}]",
        "0644",
        "'0644'",
        "yes",
        "~",
        "a=b c",
        "key=Wert ü",
        "deep={'x': {'y': [1, 'zwei', true]}}",
        "big=12345678901234567890",
    ])?;
    for id in fleet.ids() {
        let found = all.get(id).ok_or(format!("{id} did not return"))?;
        let args = json!(["grüße ∀ 🧂", [1, 2.5, {"a": ["x", null]}], 644, "0644", true, null]);
        same(&found["args"], &args).map_err(|e| format!("{id}: {e}"))?;
        let mut keyword = found["kwargs"].as_object().cloned().unwrap_or_default();
        keyword.retain(|name, _| !name.starts_with("__pub_"));
        let expected = json!({
            "a": "b c",
            "key": "Wert ü",
            "deep": {"x": {"y": [1, "zwei", true]}},
            "big": 12_345_678_901_234_567_890_u64,
        });
        same(Value::Object(keyword), expected).map_err(|e| format!("{id}: {e}"))?;
        let keyword = &found["kwargs"];
        same(keyword["__pub_fun"].as_str(), Some("test.arg")).map_err(|e| format!("{id}: {e}"))?;
        same(keyword["__pub_tgt"].as_str(), Some("*")).map_err(|e| format!("{id}: {e}"))?;
    }
    Ok(())
}

fn commands(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let all = cli.ask(&[
        "*",
        "cmd.run",
        "printf 'ä\\n%s' \"$WHO\"",
        "env={'WHO': 'Welt'}",
    ])?;
    each(&all, &fleet.ids(), &json!("ä\nWelt"))?;
    let all = cli.ask(&["*", "cmd.run_all", "echo out; echo err >&2; exit 3"])?;
    for id in fleet.ids() {
        let found = all.get(id).ok_or(format!("{id} did not return"))?;
        same(&found["stdout"], &json!("out")).map_err(|e| format!("{id}: {e}"))?;
        same(&found["stderr"], &json!("err")).map_err(|e| format!("{id}: {e}"))?;
        same(&found["retcode"], &json!(3)).map_err(|e| format!("{id}: {e}"))?;
    }
    Ok(())
}

/// The status of a tool tells that a command failed on a minion.
fn failing(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    for id in fleet.ids() {
        let ran = cli.salt(&[id, "cmd.run", "echo before; exit 7", "--out=json"]);
        same(ran.returns()?.get(id), Some(&json!("before"))).map_err(|e| format!("{id}: {e}"))?;
        same(ran.status, Some(1)).map_err(|e| format!("{id}: {e}\n{}", ran.describe()))?;
    }
    Ok(())
}

fn several(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let all = cli.ask(&["*", "test.ping,test.echo,test.arg", ",eins,zwei"])?;
    for id in fleet.ids() {
        let found = all.get(id).ok_or(format!("{id} did not return"))?;
        same(&found["test.ping"], &json!(true)).map_err(|e| format!("{id}: {e}"))?;
        same(&found["test.echo"], &json!("eins")).map_err(|e| format!("{id}: {e}"))?;
        same(&found["test.arg"]["args"], &json!(["zwei"])).map_err(|e| format!("{id}: {e}"))?;
    }
    Ok(())
}

fn unknown(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let ran = cli.salt(&["*", "test.no_such_function", "--out=json"]);
    let text = "'test.no_such_function' is not available.";
    each(&ran.returns()?, &fleet.ids(), &json!(text))?;
    same(ran.status, Some(1)).map_err(|e| format!("{e}\n{}", ran.describe()))
}

fn targets(cli: &Cli, checks: &mut Checks) {
    let cases: &[(&[&str], &[&str])] = &[
        (&["m300?"], &[OLD, NEW]),
        (&["m[!3]*"], &[OWN]),
        (&["-E", "m(3006|halite)$"], &[OLD, OWN]),
        (&["-L", "m3006,mhalite"], &[OLD, OWN]),
        (&["-G", "role:web"], &[OLD, OWN]),
        (&["-G", "site:rack:r[2-9]"], &[NEW, OWN]),
        (&["-G", "os_family:Debian"], &[OLD, NEW, OWN]),
        (&["-P", "role:^(web|x)$"], &[OLD, OWN]),
        (&["-P", "site:rack:r1"], &[OLD]),
        (&["-S", "127.0.0.1"], &[OLD, NEW, OWN]),
        (&["-S", "127.0.0.0/8"], &[OLD, NEW, OWN]),
        (&["-C", "G@role:web and not m3006"], &[OWN]),
        (
            &["-C", "m3008 or ( P@site:rack:r1 and E@m3.* )"],
            &[OLD, NEW],
        ),
        (
            &["-C", "L@m3006,m3008 and S@127.0.0.1 and not N@old"],
            &[NEW],
        ),
        (&["-N", "webs"], &[OLD, OWN]),
    ];
    for (target, expected) in cases {
        checks.run(
            &format!("{}: target {}", cli.name, target.join(" ")),
            || {
                let mut args = target.to_vec();
                args.push("test.ping");
                each(&cli.ask(&args)?, expected, &json!(true))
            },
        );
    }
}

fn nobody(cli: &Cli) -> Result<(), String> {
    for target in [
        &["-I", "no:such"][..],
        &["-J", "no:such.*"],
        &["nobody*"],
        &["-G", "role:cook"],
    ] {
        let mut args = target.to_vec();
        args.push("test.ping");
        let ran = cli.salt(&args);
        let said = ran.out.contains("No minions matched the target")
            || ran.err.contains("No minions matched the target");
        same((said, ran.status), (true, Some(2)))
            .map_err(|e| format!("{e}\n{}", ran.describe()))?;
    }
    Ok(())
}

fn batch(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    for size in ["1", "2", "100%"] {
        let ran = cli.salt(&["-b", size, "*", "test.echo", "da", "--out=txt"]);
        for id in fleet.ids() {
            let line = format!("{id}: da");
            let count = ran.out.lines().filter(|l| l.trim() == line).count();
            same(count, 1)
                .map_err(|e| format!("{line:?} with -b {size}: {e}\n{}", ran.describe()))?;
        }
        same(ran.status, Some(0)).map_err(|e| format!("-b {size}: {e}\n{}", ran.describe()))?;
    }
    Ok(())
}

fn detached(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let ran = cli.salt(&["--async", "*", "test.echo", "später"]);
    let text = ran.clone().ok()?;
    let jid = text
        .split_whitespace()
        .find(|w| w.len() == 20 && w.bytes().all(|b| b.is_ascii_digit()))
        .ok_or(ran.describe())?
        .to_owned();
    if cli.is_halite() && fleet.master.is_stock() {
        // halite-run reads the job store of a halite master only.
        return Ok(());
    }
    let all = looked_up(fleet, cli, &jid)?;
    each(&all, &fleet.ids(), &json!("später"))?;
    let list = cli.runner(&["jobs.list_jobs", "--out=json"]);
    let jobs = list.json()?;
    same(jobs[&jid]["Function"].as_str(), Some("test.echo"))
        .map_err(|e| format!("{e}\n{}", list.describe()))
}

/// Asks for a job until all have returned, or for the time of [`PATIENCE`].
fn looked_up(fleet: &Fleet, cli: &Cli, jid: &str) -> Result<Map<String, Value>, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let ran = cli.runner(&["jobs.lookup_jid", jid, "--out=json"]);
        match ran.json() {
            Ok(Value::Object(all)) if all.len() == fleet.ids().len() => return Ok(all),
            _ if Instant::now() > end => return Err(ran.describe()),
            _ => {}
        }
    }
}
