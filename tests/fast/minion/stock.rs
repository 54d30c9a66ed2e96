//! Under a stock master, driven by the stock `salt` command.
//!
//! Needs virtual environments with Salt in them, named by `HALITE_SALT_3006` and
//! `HALITE_SALT_3008`; without them these tests say so and pass.

use super::*;
use serde_json::Value as Json;

/// A stock master of one series; dropping it ends its process group.
struct Stock {
    dir: tempfile::TempDir,
    bin: PathBuf,
    ports: [u16; 2],
    child: Child,
}

impl Stock {
    fn start(variable: &str) -> Option<Stock> {
        use std::os::unix::process::CommandExt;
        let Some(venv) = std::env::var_os(variable) else {
            eprintln!("{variable} is not set; skipped");
            return None;
        };
        let bin = PathBuf::from(venv).join("bin");
        let dir = tempfile::tempdir().unwrap();
        let ports = testing::harness::free_ports();
        let root = dir.path().display();
        let text = format!(
            "root_dir: {root}\ninterface: 127.0.0.1\npublish_port: {}\nret_port: {}\nauto_accept: true\n\
             worker_threads: 2\nsock_dir: {root}/run\nlog_level: quiet\nuser: {}\n\
             signing_algorithm: PKCS1v15-SHA1\npillar_roots:\n  base: [{root}/pillar]\n\
             file_roots:\n  base: [{root}/files]\n",
            ports[0],
            ports[1],
            halite::sys::process::user_name(),
        );
        std::fs::write(dir.path().join("master"), text).unwrap();
        std::fs::create_dir(dir.path().join("pillar")).unwrap();
        std::fs::write(dir.path().join("pillar/top.sls"), "base: {'*': [data]}\n").unwrap();
        std::fs::write(dir.path().join("pillar/data.sls"), "colour: blau ☃\n").unwrap();
        let child = Command::new(bin.join("salt-master"))
            .arg("-c")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let stock = Stock {
            dir,
            bin,
            ports,
            child,
        };
        let socket = stock.dir.path().join("run/master_event_pub.ipc");
        eventually("the stock master's bus", || {
            Subscriber::connect(&socket).is_ok()
        });
        Some(stock)
    }

    fn listen(&self) -> Subscriber {
        Subscriber::connect(self.dir.path().join("run/master_event_pub.ipc")).unwrap()
    }

    fn salt(&self, args: &[&str]) -> (i32, Json) {
        let out = Command::new(self.bin.join("salt"))
            .arg("-c")
            .arg(self.dir.path())
            .args(["--out=json", "-t", "30"])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let json = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text} {}", String::from_utf8_lossy(&out.stderr)));
        (out.status.code().unwrap(), json)
    }

    fn value(&self, args: &[&str]) -> Json {
        let (status, mut json) = self.salt(args);
        assert_eq!(status, 0, "{args:?}: {json}");
        json["m1"].take()
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::killpg(group, Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = nix::sys::signal::killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn under_stock(variable: &str) {
    let Some(stock) = Stock::start(variable) else {
        return;
    };
    let mut bus = stock.listen();
    let _minion = Minion::start(
        stock.ports,
        "m1",
        "minion_sign_messages: true\nacceptance_wait_time: 1",
    );
    wait(&mut bus, |e, _| e.tag == "salt/minion/m1/start");

    assert_eq!(stock.value(&["m1", "test.ping"]), true);
    // Its chunks have 256 KiB.
    let sizes = [
        0,
        1,
        (1 << 18) - 1,
        1 << 18,
        (1 << 18) + 1,
        1 << 19,
        1_000_000,
    ];
    let from = stock.dir.path().join("files/sizes");
    files::write(&from, &sizes);
    let to = stock.dir.path().join("to");
    stock.value(&[
        "m1",
        "cp.get_dir",
        "salt://sizes",
        &to.display().to_string(),
    ]);
    files::compare(&from, &to.join("sizes"), &sizes);
    let got = stock.value(&["m1", "test.arg", "grüße ☃", "7", "key=wért", "list=[1, 2]"]);
    assert_eq!(got["args"], serde_json::json!(["grüße ☃", 7]));
    assert_eq!(
        (&got["kwargs"]["key"], &got["kwargs"]["list"]),
        (&"wért".into(), &serde_json::json!([1, 2]))
    );
    assert_eq!(
        stock.value(&["m1", "cmd.run", "echo out; echo err >&2"]),
        "out\nerr"
    );
    let (status, got) = stock.salt(&["m1", "cmd.run", "exit 4"]);
    assert_eq!((status, &got["m1"]), (1, &"".into()));
    assert_eq!(stock.value(&["m1", "grains.items"])["id"], "m1");
    assert_eq!(stock.value(&["m1", "pillar.raw", "colour"]), "blau ☃");
    assert_eq!(stock.value(&["-G", "kernel:Linux", "test.ping"]), true);
    assert_eq!(
        stock.value(&["-C", "G@kernel:Linux and I@colour:blau*", "test.ping"]),
        true
    );

    // A job that runs: published without waiting, found, killed.
    let out = Command::new(stock.bin.join("salt"))
        .arg("-c")
        .arg(stock.dir.path())
        .args(["--async", "m1", "test.sleep", "300"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let jid = said.trim().rsplit(' ').next().unwrap().to_owned();
    let found = loop {
        let found = stock.value(&["m1", "saltutil.find_job", &jid]);
        if found.as_object().is_some_and(|o| !o.is_empty()) {
            break found;
        }
    };
    assert_eq!(
        (&found["fun"], &found["jid"]),
        (&"test.sleep".into(), &jid.as_str().into())
    );
    let said = stock.value(&["m1", "saltutil.kill_job", &jid]);
    assert!(
        said.as_str().unwrap().starts_with("Signal 9 sent"),
        "{said}"
    );
    let tag = format!("salt/job/{jid}/ret/m1");
    wait(&mut bus, |e, data| {
        e.tag == tag && text(data, "return").contains("signal 9")
    });

    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), stock.ports, "caller", "acceptance_wait_time: 1");
    let called = Command::new(env!("CARGO_BIN_EXE_halite-call"))
        .arg("-c")
        .arg(dir.path())
        .args(["--out=json", "pillar.raw", "colour"])
        .output()
        .unwrap();
    let got: Json = serde_json::from_slice(&called.stdout).unwrap();
    assert_eq!(got["local"], "blau ☃");
    wait(&mut bus, |e, data| {
        e.tag.ends_with("/ret/caller") && data.str("fun") == Some("pillar.raw")
    });
}

#[test]
fn under_a_stock_3006_master() {
    under_stock("HALITE_SALT_3006");
}

#[test]
fn under_a_stock_3008_master() {
    under_stock("HALITE_SALT_3008");
}

/// An installed Salt reads users' files as well; halite's modules of them keep what they have.
#[test]
fn modules_of_users_work_beside_an_installed_salt() {
    let Some(venv) = std::env::var_os("HALITE_SALT_3008").filter(|v| !v.is_empty()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (path, text) in [
        (
            "_states/own.py",
            "def go(name):\n    return {'name': name, 'result': __salt__['test.ping'](), 'comment': __grains__['id'], 'changes': {}}\n",
        ),
        (
            "_modules/own.py",
            "def go():\n    return ['own.nosuch' in __salt__, __salt__['test.ping']()]\n",
        ),
        (
            "own.sls",
            "{% if 'own.nosuch' in salt %}{% endif %}\nx:\n  own.go: []\ny:\n  test.show_notification:\n    - text: '{{ salt['own.go']() | json }}'\n",
        ),
    ] {
        let path = at("srv").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let text = format!(
        "id: m\nroot_dir: {root}/root\nlegacy_salt: {}\nfile_client: local\nfile_roots: {{base: [{root}/srv]}}\n",
        Path::new(&venv).display(),
        root = dir.path().display(),
    );
    std::fs::write(at("minion"), text).unwrap();
    let call = |fun: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite-call"));
        command
            .arg("-c")
            .arg(dir.path())
            .args(["--local", "--out=json", fun]);
        command.args(more).output().unwrap()
    };
    call("saltutil.sync_all", &[]);
    let out = call("state.apply", &["own"]);
    let err = String::from_utf8_lossy(&out.stderr);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect(&err);
    let own = &value["local"]["own_|-x_|-x_|-go"];
    assert_eq!(
        (&own["result"], &own["comment"]),
        (&true.into(), &"m".into()),
        "{value} {err}"
    );
    let shown = &value["local"]["test_|-y_|-y_|-show_notification"]["comment"];
    assert_eq!(shown, "[false, true]", "{value} {err}");
}

#[test]
fn an_installed_salt_runs_what_halite_lacks() {
    let Some(venv) = std::env::var_os("HALITE_SALT_3008").filter(|v| !v.is_empty()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let venv = Path::new(&venv).display();
    let text = format!("id: m\nroot_dir: {root}\ngrains: {{rack: 7}}\nlegacy_salt: {venv}\n");
    std::fs::write(dir.path().join("minion"), text).unwrap();
    let call = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_halite-call"))
            .arg("-c")
            .arg(dir.path())
            .args(["--local", "--out=json"])
            .args(args)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let (out, err) = call(&["salt_version.get_release_number", "Sodium"]);
    assert_eq!(out, "{\n    \"local\": \"3001\"\n}\n", "{err}");
    assert!(err.contains("was run by Salt 3008.3 in"), "{err}");
    // Its own errors, and none of its functions where halite has one.
    let (_, err) = call(&["salt_version.get_release_number"]);
    assert!(
        err.contains("missing 1 required positional argument: 'name'"),
        "{err}"
    );
    let (_, err) = call(&["test.ping"]);
    assert!(!err.contains("was run by"), "{err}");
    let (out, err) = call(&["state.single", "test.succeed_without_changes", "name=x"]);
    assert!(out.contains("\"result\": true"), "{out}{err}");
    // A state of its own, in a run of halite's.
    let (out, err) = call(&["state.single", "highstate_doc.note", "name=x", "contents=y"]);
    assert!(out.contains("\"result\": true"), "{out}{err}");
    let told = "parts of state.single were run by Salt 3008.3 in";
    assert!(err.contains(told), "{err}");
    // Its documentation stands beside halite's.
    let (out, err) = call(&["sys.argspec", "salt_version.get_release_number"]);
    assert!(
        out.contains("\"args\": [\n                \"name\""),
        "{out}{err}"
    );
    for (question, name) in [
        ("sys.doc", "salt_version.get_release_number"),
        ("sys.state_doc", "highstate_doc.note"),
    ] {
        let (out, err) = call(&[question, name]);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        let doc = value["local"][name].as_str();
        assert!(doc.is_some_and(|doc| doc.len() > 20), "{out}{err}");
    }
    let (out, _) = call(&["sys.list_modules", "salt_version"]);
    assert!(out.contains("salt_version"), "{out}");
    let (_, err) = call(&["nosuch.fun"]);
    assert!(err.contains("'nosuch.fun' is not available."), "{err}");
    // The command on the master says so too, beside what it shows.
    let pair = Pair::start("", &format!("legacy_salt: {venv}"));
    let halite = |fun: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_halite"))
            .arg("-c")
            .arg(pair.master.dir.path())
            .args(["--out=json", "-t", "30", "m1"])
            .args(fun)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let (out, err) = halite(&["salt_version.get_release_number", "Sodium"]);
    assert_eq!(out, "{\n    \"m1\": \"3001\"\n}\n", "{err}");
    let said = "salt_version.get_release_number was run by Salt 3008.3 in";
    assert!(err.starts_with(said) && err.ends_with(" on m1\n"), "{err}");
    let (_, err) = halite(&["test.ping"]);
    assert_eq!(err, "");
}

/// Hosts without a minion, named by a roster in Python: `ssh.cmd` of an installed Salt. Nobody listens at the port that it names, and that
/// is what is told.
#[test]
fn an_installed_salt_and_a_roster_of_ones_own_reach_hosts_without_a_minion() {
    let Some(venv) = std::env::var_os("HALITE_SALT_3008").filter(|v| !v.is_empty()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let venv = Path::new(&venv).display();
    let key = dir.path().join("key");
    std::fs::write(&key, "").unwrap();
    let text = format!(
        "root_dir: {root}\nextension_modules: /ext\nlegacy_salt: {venv}\nroster: racks\nssh_priv_key: {}\n",
        key.display()
    );
    std::fs::write(dir.path().join("master"), text).unwrap();
    let rosters = dir.path().join("ext/roster");
    std::fs::create_dir_all(&rosters).unwrap();
    let roster = "def targets(tgt, tgt_type='glob', **kwargs):\n    return {tgt + '1': {'host': '127.0.0.1', 'port': 1, 'timeout': 5}} if tgt == 'web' else {}\n";
    let roster_file = rosters.join("racks.py");
    std::fs::write(&roster_file, roster).unwrap();
    let run = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_halite-run"))
            .arg("-c")
            .arg(dir.path())
            .arg("--out=json")
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let (out, err) = run(&["ssh.cmd", "web", "test.ping"]);
    let value: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let told = value["web1"].to_string();
    assert!(told.contains("port 1: Connection refused"), "{told}{err}");
    // Salt itself would go to any host that has a name.
    std::fs::write(dir.path().join("roster"), "other: {host: 127.0.0.1}\n").unwrap();
    let (out, err) = run(&["ssh.cmd", "root@localhost", "test.ping"]);
    assert!(!out.contains("localhost"), "{out}{err}");
    assert!(err.contains("No matching targets"), "{out}{err}");
    // And import what anybody has put into directories of a stock Salt.
    let runners = dir.path().join("ext/runners");
    std::fs::create_dir_all(&runners).unwrap();
    let paths = "import sys\ndef strange():\n    import salt.config\n    salt.config.master_config(None)\n    return [one for one in sys.path if 'extmods' in one]\n";
    std::fs::write(runners.join("paths.py"), paths).unwrap();
    let (out, err) = run(&["paths.strange"]);
    assert_eq!(out.trim(), "[]", "{err}");
    // Salt's own loaders would take what anybody may write.
    let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&roster_file, anybody).unwrap();
    let (out, err) = run(&["ssh.cmd", "web", "test.ping"]);
    assert!(!out.contains("web1"), "{out}");
    assert!(err.contains("racks.py"), "{err}");
}
