//! `halite-call`.

use super::*;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use testing::network::{Network, runs_apart};
use testing::process::Process;

pub fn call(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_halite-call"))
        .arg("-c")
        .arg(dir)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        out.status.code().unwrap(),
        text(out.stdout),
        text(out.stderr),
    )
}

pub fn local() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), [1, 1], "m1", "");
    dir
}

#[test]
fn without_a_master() {
    let dir = local();
    let run = |args: &[&str]| call(dir.path(), args);
    assert_eq!(
        run(&["--local", "test.ping"]),
        (0, "local:\n    True\n".into(), String::new())
    );
    let (status, out, _) = run(&[
        "--local",
        "--out=json",
        "--out-indent=-1",
        "test.arg",
        "é",
        "n=[1, 2]",
    ]);
    let got: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &got["local"]["args"][0]), (0, &"é".into()));
    assert_eq!(got["local"]["kwargs"]["n"], serde_json::json!([1, 2]));
    assert!(!dir.path().join("etc").exists(), "no keys are made");
}

#[test]
fn exit_statuses() {
    let dir = local();
    let run = |args: &[&str]| call(dir.path(), args);
    assert_eq!(run(&["--local", "test.false"]).0, 0);
    assert_eq!(run(&["--local", "cmd.run", "exit 3"]).0, 1);
    assert_eq!(
        run(&["--local", "--retcode-passthrough", "cmd.run", "exit 3"]).0,
        3
    );
    assert_eq!(
        run(&["--local", "no.such"]),
        (255, String::new(), "'no.such' is not available.\n".into())
    );
    let (status, _, err) = run(&["--local", "test.sleep"]);
    assert_eq!(status, 1);
    assert!(err.starts_with("\nPassed invalid arguments: "), "{err}");
    assert_eq!(run(&["--local"]).0, 64);
    assert_eq!(run(&["--nonsense"]).0, 64);
}

/// What the last template saw is kept until the end of the process, which it must not abort.
#[test]
fn the_only_template_of_a_process() {
    let dir = local();
    let text = "{{ grains.get('ip_interfaces') is mapping }}";
    let args = [
        "--local",
        "file.apply_template_on_contents",
        text,
        "jinja",
        "{}",
        "{}",
        "base",
    ];
    let (status, out, err) = call(dir.path(), &args);
    assert_eq!((status, out.as_str()), (0, "local:\n    True\n"), "{err}");
}

#[test]
fn grains_and_documentation() {
    let dir = local();
    std::fs::write(dir.path().join("grains"), "rack: 7\n").unwrap();
    let (status, out, _) = call(dir.path(), &["--local", "-g", "--out=json"]);
    let got: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &got["local"]["id"], &got["local"]["rack"]),
        (0, &"m1".into(), &7.into())
    );
    let (_, out, _) = call(dir.path(), &["--local", "--id=other", "grains.get", "id"]);
    assert_eq!(out, "local:\n    other\n");
    let (status, out, _) = call(dir.path(), &["-d", "test.pi"]);
    assert!(status == 0 && out.starts_with("test.ping:\n"), "{out}");
}

#[test]
fn with_a_master() {
    let master = Master::start("");
    let mut bus = listen(&master);
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), ports(&master), "m1", "");
    let (status, out, err) = call(dir.path(), &["test.echo", "hello"]);
    assert_eq!((status, out.as_str()), (0, "local:\n    hello\n"), "{err}");
    let (event, data) = wait(&mut bus, |e, _| e.tag.ends_with("/ret/m1"));
    assert_eq!(event.tag, format!("salt/job/{}/ret/m1", text(&data, "jid")));
    assert_eq!(
        (text(&data, "return"), text(&data, "fun")),
        ("hello", "test.echo")
    );
    assert_eq!(
        data.get("fun_args"),
        Some(&Value::Array(vec!["hello".into()]))
    );
}

#[test]
fn a_key_that_is_not_accepted() {
    let include = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(include.path(), "auto_accept: false\n").unwrap();
    let master = Master::start(&format!("include: {}", include.path().display()));
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), ports(&master), "m1", "");
    let (status, out, err) = call(dir.path(), &["test.ping"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("has the minion key been accepted?"), "{err}");
}

#[test]
fn modules_and_grains_of_the_site() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "own/greet.sh",
        "#!/bin/sh\nif [ \"$1\" = describe ]; then\n  echo '{\"functions\": {\"hello\": {\"doc\": \"Greets.\", \"args\": [\"who\"]}}}'\n  exit\nfi\n\
         sed 's/.*\"who\":\"\\([a-z]*\\)\".*/{\"return\": \"hello \\1\"}/'\n",
    );
    put("facts/rack", "#!/bin/sh\necho '{\"rack\": 7}'\n");
    let root = dir.path().display();
    put(
        "minion",
        &format!(
            "id: m\nroot_dir: {root}\nmodule_dirs: ['{root}/own']\ngrains_dirs: ['{root}/facts']\n"
        ),
    );
    let said = |args: &[&str]| call(dir.path(), args).1;
    assert_eq!(
        said(&["--local", "--out=json", "greet.hello", "you"]),
        "{\n    \"local\": \"hello you\"\n}\n"
    );
    assert_eq!(
        said(&["--local", "--out=json", "grains.get", "rack"]),
        "{\n    \"local\": 7\n}\n"
    );
    assert!(said(&["-d", "greet"]).contains("Greets."));
    assert!(
        said(&["--local", "--out=json", "sys.list_functions", "greet"]).contains("greet.hello")
    );
}

#[test]
fn functions_of_the_master_beside_the_minion() {
    let pair = Pair::start("", "");
    let dir = pair.master.dir.path();
    // The minion's configuration beside the master's.
    std::fs::copy(pair.minion.path("minion"), dir.join("minion")).unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let (_, out, err) = call(dir, &[&["--local", "--out=json"], args].concat());
        let mut all: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        all["local"].take()
    };
    let arg = json(&[
        "saltutil.runner",
        "test.arg",
        "arg=['# 1', \"05\"]",
        "kwarg={foo: bar}",
        "x=1",
    ]);
    let want = serde_json::json!({"args": ["# 1", "05"], "kwargs": {"foo": "bar", "x": 1}});
    assert_eq!(arg, want);
    let mut full = json(&["saltutil.wheel", "key.list", "accepted"]);
    let fields = full.as_object_mut().unwrap();
    assert!(
        fields
            .remove("jid")
            .is_some_and(|jid| jid.as_str().unwrap().len() == 20)
    );
    let want = serde_json::json!({
        "fun": "wheel.key.list", "user": "UNKNOWN", "fun_args": ["accepted"],
        "return": {"minions": ["m1"]}, "success": true,
    });
    assert_eq!(full, want);
    let full = json(&["saltutil.runner", "test.arg", "full_return=True"]);
    assert_eq!(full["fun"], "runner.test.arg");
    assert_eq!(full["success"], true);
    for fun in ["saltutil.cmd", "saltutil.cmd_iter"] {
        let told = json(&[fun, "m1", "test.echo", "arg=['x']"]);
        assert_eq!(
            (&told["m1"]["ret"], &told["m1"]["retcode"]),
            (&"x".into(), &0.into())
        );
        assert!(told["m1"]["jid"].is_string());
    }
    assert_eq!(
        json(&["saltutil.cmd", "nobody", "test.ping"]),
        serde_json::json!({})
    );
    // Neither there nor here.
    let (_, _, err) = call(dir, &["--local", "saltutil.runner", "no.such"]);
    assert!(err.contains("KeyError: 'no.such'"), "{err}");
    let alone = local();
    let (status, _, err) = call(
        alone.path(),
        &["--local", "saltutil.wheel", "key.list", "all"],
    );
    assert_eq!(status, 1);
    assert!(
        err.contains("only be executed on a minion that is located on the master"),
        "{err}"
    );
}

/// A name server that is silent keeps nobody from ending what asks it.
#[test]
fn a_signal_ends_a_call_that_waits_for_a_name() {
    if runs_apart("minion::call::a_signal_ends_a_call_that_waits_for_a_name") {
        return;
    }
    let Some(network) = Network::start(1) else {
        return;
    };
    let dir = local();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "resolv.conf",
        "nameserver 127.0.0.53\noptions timeout:30 attempts:5\n",
    );
    let root = dir.path().display();
    let minion = format!("id: m1\nmaster: salt.example.com\nroot_dir: {root}\n");
    write("minion", &minion);
    let server = network.at(0, || UdpSocket::bind("127.0.0.53:53")).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let mut command = Command::new("unshare");
    let line = format!("mount --bind {root}/resolv.conf /etc/resolv.conf && exec \"$@\"");
    let call = env!("CARGO_BIN_EXE_halite-call");
    command
        .args(["-m", "sh", "-c", &line, "sh", call, "-c"])
        .arg(dir.path())
        .arg("test.ping");
    let mut call = network.at(0, || {
        Process::start("call", &mut command, &dir.path().join("log"))
    });
    server.recv_from(&mut [0; 512]).unwrap();
    call.terminate();
    assert_eq!(call.status().and_then(|status| status.code()), Some(130));
}

/// `sudo_user`: values arrive as they were, and so do the result and its return code.
#[test]
fn another_account_runs_the_function() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let text = format!("id: m\nroot_dir: {root}\nfile_client: local\nsudo_user: shop\n");
    std::fs::write(dir.path().join("minion"), text).unwrap();
    let sudo = dir.path().join("sudo");
    let script = format!("#!/bin/sh\necho \"$1 $2 $3\" >>'{root}/asked'\nshift 4\nexec \"$@\"\n");
    std::fs::write(&sudo, script).unwrap();
    std::fs::set_permissions(&sudo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let call = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_halite-call"))
            .env("PATH", format!("{root}:{path}"))
            .arg("-c")
            .arg(dir.path())
            .args(["--out=json", "--metadata"])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let said: serde_json::Value = serde_json::from_str(&text).expect(&text);
        said["local"].clone()
    };
    let words = [
        "--",
        "test.arg",
        "true",
        "'true'",
        "a b'\"$HOME\\n",
        "[1, {x: 'no'}]",
        "--word",
        "2026-11-29",
        "3_4",
        "key=null",
        "text='null'",
        "line='a: b # c'",
        "odd=\"\u{e4}\\x85\\x7f\\U0001f600\"",
    ];
    let said = |executors: &str| {
        let mut said = call(&[&[executors], &words[..]].concat())["return"].clone();
        let keywords = said["kwargs"].as_object_mut().expect("keywords");
        keywords.retain(|name, _| !name.starts_with("__pub_"));
        assert_eq!(keywords.len(), 4);
        said
    };
    let sudo = "--module-executors=sudo";
    assert_eq!(said(sudo), said("--module-executors=direct_call"));
    assert_eq!(call(&[sudo, "test.retcode", "42"])["retcode"], 42);
    let asked = std::fs::read_to_string(dir.path().join("asked")).unwrap();
    assert_eq!(asked, "-n -u shop\n-n -u shop\n");
    let said = call(&[sudo, "state.single", "test.nop", "name=x"]);
    assert_eq!(said["retcode"], 0, "no other run is under way: {said}");
    // What it says of itself.
    let said = call(&[sudo, "test.exception", "message=gone"]);
    assert_eq!(said["retcode"], 1, "{said}");
    assert!(said["return"].as_str().unwrap().contains("gone"), "{said}");
}

/// States that are packed in a file run with its grains, pillar and files; without its hash, nothing does.
#[test]
fn packed_states() {
    let dir = local();
    let packed = dir.path().join("packed");
    std::fs::create_dir_all(packed.join("base")).unwrap();
    let out = dir.path().join("out").display().to_string();
    let low = serde_json::json!([
        {"state": "file", "fun": "managed", "name": out, "source": "salt://f", "template": "jinja",
         "require": [{"test": "first"}], "__id__": "f", "__sls__": "x", "__env__": "base", "order": 10000},
        {"state": "test", "fun": "nop", "name": "n", "__id__": "first", "__sls__": "x", "__env__": "base", "order": 10001},
    ]);
    let text = "{{ pillar.a }} {{ grains.g }} {{ grains.os is defined }}\n";
    for (name, text) in [
        ("lowstate.json", low.to_string().as_str()),
        ("pillar.json", r#"{"a": 1}"#),
        ("roster_grains.json", r#"{"g": 2}"#),
        ("base/f", text),
    ] {
        std::fs::write(packed.join(name), text).unwrap();
    }
    let tar = dir.path().join("p.tgz").display().to_string();
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(&packed)
        .args(["-czf", tar.as_str(), "."]);
    assert!(command.status().unwrap().success());
    let run = |args: &[&str]| call(dir.path(), &[&["--local", "--out=json"], args].concat());
    let (status, sum, _) = run(&["hashutil.digest_file", &tar, "sha256"]);
    assert_eq!(status, 0);
    let sum: serde_json::Value = serde_json::from_str(&sum).unwrap();
    let sum = sum["local"].as_str().unwrap();
    let (status, _, err) = run(&["state.pkg", &tar, &"0".repeat(64), "sha256"]);
    assert!(status != 0 && err.contains("has the hash"), "{err}");
    assert!(!Path::new(&out).exists());
    let (status, told, err) = run(&["state.pkg", &tar, sum, "sha256"]);
    assert_eq!((status, err.as_str()), (0, ""), "{told}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "1 2 False\n");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let file = &told["local"][format!("file_|-f_|-{out}_|-managed")];
    assert_eq!(file["__run_num__"], 1, "its requisite comes first: {told}");
    let left = std::fs::read_dir(dir.path()).unwrap().flatten();
    assert!(
        !left
            .into_iter()
            .any(|e| e.file_name().to_string_lossy().contains("state_pkg"))
    );
}

/// What stock 3008.3 says with the same programs in place of pip and virtualenv; the last three ask a real interpreter.
#[test]
fn versions_and_places_of_python_packages() {
    let dir = local();
    let bin = dir.path().join("venv/bin");
    fs::create_dir_all(&bin).unwrap();
    let program = |name: &str, text: &str| {
        let path = bin.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let new = program(
        "pip-new",
        "#!/bin/sh\ncase \"$*\" in\n--version) echo 'pip 23.0.1 from /x';;\n*'index versions foo --index-url http://i') \
         echo 'Available versions: 10.0, 3.0.dev1, 2.0rc1, 2.0, 1.2b1, 1.1a1, 1.0';;\nesac\n",
    );
    let old = program(
        "pip-old",
        "#!/bin/sh\ncase \"$*\" in\n--version) echo 'pip 20.3.4 from /x';;\n*'--use-deprecated=legacy-resolver install foo==versions') \
         echo 'ERROR: none satisfies it (from versions: 1.0, 10.0, 2.0)' >&2; exit 1;;\nesac\n",
    );
    let virtualenv = program(
        "virtualenv",
        "#!/bin/sh\necho 'virtualenv 20.17.1+ds from /x'\n",
    );
    let exec = "#!/bin/sh\nexec python3 \"$@\"\n";
    program("python", exec);
    let venv = dir.path().join("venv").display().to_string();
    let run = |args: &[&str]| {
        let all = [&["--local", "--out=json"], args].concat();
        let (status, out, err) = call(dir.path(), &all);
        assert_eq!(status, 0, "{args:?}: {err}");
        let mut out: serde_json::Value = serde_json::from_str(&out).unwrap();
        out["local"].take()
    };
    let versions = |pip: &str, more: &[&str]| {
        let env = format!("bin_env={pip}");
        run(&[&["pip.list_all_versions", "foo", &env], more].concat())
    };
    let index = "index_url=http://i";
    assert_eq!(
        versions(&new, &[index]),
        serde_json::json!(["1.0", "2.0", "3.0.dev1", "10.0"])
    );
    assert_eq!(
        versions(&new, &[index, "include_beta=true", "include_rc=true"]),
        serde_json::json!(["1.0", "1.2b1", "2.0rc1", "2.0", "3.0.dev1", "10.0"])
    );
    assert_eq!(versions(&new, &[]), serde_json::Value::Null);
    let env = format!("bin_env={old}");
    let option = ["--local", "pip.list_all_versions", "pkg=--log=/x", &env];
    let (status, _, err) = call(dir.path(), &option);
    assert_eq!(status, 1);
    assert!(err.contains("is not the name of a package"), "{err}");
    assert_eq!(
        versions(&old, &[]),
        serde_json::json!(["1.0", "2.0", "10.0"])
    );
    assert_eq!(
        run(&["virtualenv.virtualenv_ver", &virtualenv]),
        serde_json::json!([20, 17, 1])
    );
    let packages = run(&["virtualenv.get_site_packages", &venv]);
    assert!(
        packages.as_str().unwrap().ends_with("-packages"),
        "{packages}"
    );
    let (package, resource) = ("package=json", "resource=tool.py");
    let path = run(&["virtualenv.get_resource_path", &venv, package, resource]);
    let text = run(&["virtualenv.get_resource_content", &venv, package, resource]);
    let absolute = run(&[
        "virtualenv.get_resource_path",
        &venv,
        package,
        "resource=/etc/passwd",
    ]);
    assert!(absolute.as_str().unwrap().ends_with("/json/etc/passwd"));
    assert_eq!(text, fs::read_to_string(path.as_str().unwrap()).unwrap());
}
