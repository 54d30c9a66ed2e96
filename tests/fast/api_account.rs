//! The REST service as a daemon of its own account, beside a master of another one.

use crate::api::{log_in, request};
use crate::api_service::Stream;
use nix::unistd::User;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use testing::config::Home;
use testing::ports::Ports;
use testing::process::Process;
use testing::{halite_program, short_dir, wait_until};

/// Starts a program with the configuration of a place.
fn start(program: &str, home: &Home, change: impl FnOnce(&mut Command)) -> Process {
    let mut command = Command::new(halite_program(program));
    command.arg("-c").arg(home.config_dir());
    change(&mut command);
    Process::start(program, &mut command, &home.log())
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn it_serves_without_what_the_master_has() {
    let [of_master, of_api] = ["daemon", "nobody"].map(|name| User::from_name(name).unwrap());
    let (true, Some(of_master), Some(of_api)) =
        (nix::unistd::geteuid().is_root(), of_master, of_api)
    else {
        return eprintln!("skipped: only root changes to other accounts");
    };
    let dir = short_dir();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let home = Home::create(dir.path().join("d"), "master");
    let ports = Ports::hold(3);
    let numbers = ports.numbers();
    let users = dir.path().join("users");
    fs::write(&users, "alice:wonder\nbob:builder\n").unwrap();
    fs::set_permissions(&users, PermissionsExt::from_mode(0o600)).unwrap();
    nix::unistd::chown(&users, Some(of_master.uid), Some(of_master.gid)).unwrap();
    let audit = dir.path().join("audit");
    fs::write(&audit, "").unwrap();
    nix::unistd::chown(&audit, Some(of_api.uid), None).unwrap();
    home.write(&format!(
        "root_dir: {}\ninterface: 127.0.0.1\npublish_port: {}\nret_port: {}\nworker_threads: 1\nauto_accept: true\n\
         timeout: 2\nmetrics_address: ''\naudit_log: ''\nuser: daemon\nlog_file: {}\n\
         external_auth:\n  file:\n    ^filename: {}\n    ^filetype: text\n    alice: ['.*', '@runner', '@wheel']\n    bob: ['test.*']\n\
         netapi_enable_clients: [local, local_async, runner]\n\
         api: {{user: nobody, audit_log: {}, host: 127.0.0.1, port: {}, disable_ssl: true}}\n",
        home.root().display(), numbers[0], numbers[1], home.root().join("log").display(), users.display(),
        audit.display(), numbers[2],
    ));
    ports.release();
    let mut master = start("halite-master", &home, |_| {});

    // As a unit starts it: under its account, with the group of the master's.
    let port = numbers[2];
    let mut api = start("halite-api", &home, |command| {
        command.uid(of_api.uid.as_raw());
        command.gid(of_master.gid.as_raw());
    });
    wait_until("it serves", || {
        api.must_live();
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            && request(port, "GET", "/ready", "", "").0 == 200
    });

    // Its key is its own, and the master keeps the digest alone.
    for (name, owner) in [("api_key", &of_api), ("api_key.sha256", &of_master)] {
        let meta = fs::metadata(home.cache().join(name)).unwrap();
        assert_eq!(
            (meta.uid(), meta.mode() & 0o777),
            (owner.uid.as_raw(), 0o600),
            "{name}"
        );
    }

    let minion = Home::create(dir.path().join("m"), "minion");
    minion.write(&format!(
        "root_dir: {}\nid: m1\nmaster: 127.0.0.1\nmaster_port: {}\npublish_port: {}\n",
        minion.root().display(),
        numbers[1],
        numbers[0],
    ));
    let _minion = start("halite-minion", &minion, |_| {});

    let token = log_in(port, "alice", "wonder");
    let head = format!("X-Auth-Token: {token}\r\n{JSON}");
    let run = |head: &str, low: &str| {
        let (status, body) = request(port, "POST", "/", head, low);
        (
            status,
            serde_json::from_str::<Value>(&body).unwrap_or_default(),
        )
    };
    let ping = r#"{"client": "local", "tgt": "*", "fun": "test.ping"}"#;
    wait_until("the minion answers", || {
        run(&head, ping).1["return"][0]["m1"] == true
    });
    let arg = r#"{"client": "runner", "fun": "test.arg", "arg": ["x"]}"#;
    assert_eq!(run(&head, arg).1["return"][0]["args"][0], "x");
    // A user may not do more than before.
    let bob = log_in(port, "bob", "builder");
    assert_eq!(run(&format!("X-Auth-Token: {bob}\r\n{JSON}"), arg).0, 401);

    // What was before a listener comes from the job cache, which it cannot read itself.
    let low = r#"{"tgt": "*", "fun": "test.ping"}"#;
    let (_, made) = request(port, "POST", "/minions", &head, low);
    let made: Value = serde_json::from_str(&made).unwrap();
    let jid = made["return"][0]["jid"].as_str().unwrap();
    wait_until("the job has ended", || {
        let look = format!(r#"{{"client": "runner", "fun": "jobs.list_job", "jid": "{jid}"}}"#);
        run(&head, &look).1["return"][0]["Result"]["m1"]["return"] == true
    });
    let path = format!("/jobs/{jid}/events");
    let (status, mut told) = Stream::open(port, &path, &head);
    assert_eq!(status, 200);
    let event = told.event().unwrap();
    assert_eq!(event["event"], "return");
    assert!(event["data"].contains("\"id\": \"m1\""), "{event:?}");

    // Hooks are fired by the master.
    let (_, mut listener) = Stream::open(port, "/events?tag=salt/netapi/hook/*", &head);
    let (status, body) = request(port, "POST", "/hook/built", &head, "{}");
    assert_eq!(status, 200, "{body}");
    assert_eq!(listener.event().unwrap()["tag"], "salt/netapi/hook/built");
    assert!(fs::read_to_string(&audit).unwrap().contains("/hook/built"));

    // Without the master it says so within seconds, and goes on when there is one again.
    master.terminate();
    wait_until("it is not ready", || {
        request(port, "GET", "/ready", "", "").0 == 503
    });
    assert_eq!(request(port, "GET", "/health", "", "").0, 200);
    let _master = start("halite-master", &home, |_| {});
    wait_until("it is ready again", || {
        request(port, "GET", "/ready", "", "").0 == 200
    });
    wait_until("the minion answers again", || {
        run(&head, ping).1["return"][0]["m1"] == true
    });
    api.terminate();
}
