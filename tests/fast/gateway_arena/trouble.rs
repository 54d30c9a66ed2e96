//! Bad input, rules of a broker, files that are missing.

use super::{M1, M2, R1, R2, R3, gateway, told};
use halite::arena::mqtt::MqttSettings;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use testing::arena::{Runtime, master, present};
use testing::authority::{Authority, Issued};
use testing::mosquitto::{Mosquitto, Rules};
use testing::{Master, wait_until};

/// What the master counts.
fn metrics(master: &Master) -> HashMap<String, f64> {
    let mut text = String::new();
    let path = master.home.sockets().join("master_status.ipc");
    let mut socket = UnixStream::connect(path).unwrap();
    socket.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// Whatever comes in: one error, nothing changed, the process lives.
#[test]
fn bad_input_changes_nothing() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let master = master(&broker, "auto_accept: true");
    let cli = master.halite_cli();
    let rt = Runtime::new(&broker, R1, "rt1", json!({}));
    rt.join();
    let gone = Runtime::new(&broker, R2, "rt2", json!({}));
    gone.join();
    gone.leave();
    present(&cli, &["rt1"]);
    cli.ask(&["rt1", "arena.create", "a.wasm", &format!("uuid={M1}")])
        .unwrap();
    rt.asked("create");
    let before = told(&cli, &["rt1", "arena.modules"]);
    let pid = gateway(&master).unwrap();
    let user = broker.peer("user", &["realm/proc/log/#"]);

    let module = |data: Value| {
        json!({"object_id": "bad", "action": "create", "type": "req", "data": data}).to_string()
    };
    for (payload, desc) in [
        ("{no json".to_owned(), "Invalid JSON"),
        ("[1, 2]".to_owned(), "Invalid JSON"),
        (module(json!({"type": "module"})), "missing field"),
        (module(json!({"type": "module", "file": 7})), "invalid field"),
        (module(json!({"type": "module", "file": "a", "args": 7})), "invalid field"),
        (module(json!({"name": "a"})), "missing field"),
        (
            module(json!({"type": "module", "uuid": M1, "file": "a"})),
            "duplicate module UUID; request ignored",
        ),
        (
            module(json!({"type": "module", "file": "a", "parent": R2})),
            "runtime is not connected",
        ),
        (
            module(json!({"type": "module", "file": "a", "parent": R3})),
            "invalid Runtime Name/UUID",
        ),
        (
            module(json!({"type": "module", "file": "a", "channels": [{"path": "p", "mode": "rw", "topic": "a/#"}]})),
            "invalid field",
        ),
        (
            module(json!({"type": "module", "file": "a", "uuid": "../a"})),
            "invalid field",
        ),
        (module(json!({"type": "runtime", "name": "x"})), "missing field"),
        (
            json!({"object_id": "bad", "action": "frob", "type": "req", "data": {"type": "module"}}).to_string(),
            "invalid action/type",
        ),
    ] {
        user.publish("realm/proc/control", payload.as_str());
        let error = user.json(&payload, |_, json| json["action"] == "error");
        let found = error["data"]["desc"].as_str().unwrap();
        assert_eq!(found, desc, "{payload}: {error}");
    }
    // A flood of them is counted, not answered.
    for _ in 0..3000 {
        let sent = user
            .mqtt
            .publish(testing::mosquitto::publication("realm/proc/control", "{"));
        assert_eq!(sent, Ok(()));
    }
    user.settle();
    assert_eq!(told(&cli, &["rt1", "arena.modules"]), before);
    let answer = told(
        &cli,
        &["rt1", "arena.create", "a.wasm", &format!("uuid={M1}")],
    );
    assert_eq!(
        answer
            .as_str()
            .map(|text| text.starts_with("arena.create: duplicate module UUID")),
        Some(true),
        "{answer}"
    );
    let ran = cli.salt(&[
        "rt1",
        "arena.create",
        "file=a",
        "channels=[{path: p, mode: w, topic: 'a/+'}]",
    ]);
    assert_eq!(ran.status, Some(1), "{}", ran.describe());
    // Nobody signs in at the ports of Salt under the id of a runtime.
    let _thief = testing::Minion::halite(&master, "rt1", "");
    wait_until("the thief's key is denied", || {
        let listed = cli.key(&["-l", "den", "--out=json"]).json();
        listed.is_ok_and(|listed| listed["minions_denied"] == json!(["rt1"]))
    });
    assert_eq!(told(&cli, &["rt1", "test.ping"]), true);
    assert_eq!(gateway(&master), Some(pid));
    // None of it has reached the runtime: the first request that it gets is that for a good module.
    cli.ask(&["rt1", "arena.create", "a.wasm", &format!("uuid={M2}")])
        .unwrap();
    assert_eq!(rt.asked("create")["data"]["uuid"], M2);
    wait_until("all is counted", || {
        let metrics = metrics(&master);
        let of = |name: &str| metrics.get(name).copied().unwrap_or(0.0);
        of("halite_arena_faults_total") >= 3013.0
            && of("halite_arena_muted_total") > 0.0
            && of("halite_arena_up") == 1.0
            && of("halite_arena_runtimes{state=\"alive\"}") == 1.0
            && of("halite_arena_runtimes{state=\"dead\"}") == 1.0
            && of("halite_arena_modules{state=\"alive\"}") == 2.0
    });
}

/// TLS, certificates of clients, and the rules for a broker that the documentation of the gateway gives.
#[test]
fn a_broker_may_have_rules() {
    let dir = testing::short_dir();
    let authority = Authority::new(&dir.path().join("ca"), "The CA");
    let [server, own, runtime, second] =
        ["localhost", "halite", R1, R3].map(|name| authority.issue(name));
    for issued in [&own, &runtime, &second] {
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&issued.key, mode).unwrap();
    }
    let rules = Rules::default()
        .tls(&authority.file(), &server)
        .certificates()
        .acl(
            "user halite\ntopic readwrite realm/proc/#\n\
         pattern readwrite realm/proc/reg/%u\npattern readwrite realm/proc/control/%u\n\
         pattern write realm/proc/keepalive/%u\npattern write realm/proc/control\n",
        );
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let files = format!(
        "tls: true, tls_ca: '{}', tls_cert: '{}', tls_key: '{}', auto_accept: true",
        authority.file().display(),
        own.certificate.display(),
        own.key.display()
    );
    let master = master(&broker, &files);
    let cli = master.halite_cli();
    let settings_of = |uuid: &str, issued: &Issued| MqttSettings {
        tls: true,
        tls_ca: authority.file(),
        tls_cert: issued.certificate.clone(),
        tls_key: issued.key.clone(),
        ..broker.settings(uuid)
    };
    let rt = Runtime::over(&settings_of(R1, &runtime), R1, "rt1", json!({}));
    rt.join();
    // The broker does not let it speak for another.
    let other = json!({"type": "runtime", "uuid": R2, "name": "rt2", "apis": ["wasm"]});
    rt.say(&format!("realm/proc/reg/{R2}"), "create", other);
    // Nor does the gateway, where the topic is its own and the message names another.
    let second = Runtime::over(&settings_of(R3, &second), R3, "rt3", json!({}));
    second.join();
    let other = json!({"type": "runtime", "uuid": R3, "name": "rt2", "apis": ["wasm"]});
    for action in ["create", "delete"] {
        rt.say(&format!("realm/proc/reg/{R1}"), action, other.clone());
    }
    let ran = cli
        .ask(&["rt1", "arena.create", "a.wasm", &format!("uuid={M1}")])
        .unwrap();
    assert_eq!(ran["rt1"]["state"], "alive");
    assert_eq!(rt.asked("create")["data"]["uuid"], M1);
    rt.exited(M1, json!({}));
    wait_until("it has ended", || {
        told(&cli, &["rt1", "arena.modules"]) == json!([])
    });
    let known = cli.key(&["-L", "--out=json"]).json().unwrap();
    assert_eq!(known["minions"], json!(["rt1", "rt3"]));
    let known = cli
        .runner(&["arena.runtimes", "--out=json"])
        .json()
        .unwrap();
    for (id, uuid) in [("rt1", R1), ("rt3", R3)] {
        assert_eq!(known[id]["uuid"], uuid);
        assert_eq!(
            (&known[id]["name"], &known[id]["state"]),
            (&json!(id), &json!("alive"))
        );
    }
}

/// The master serves its minions whatever is wrong with the files of the gateway; `--check-config` tells it.
#[test]
fn a_gateway_without_its_certificates_leaves_the_master_alone() {
    let options = "gateways: {arena: {tls: true, tls_ca: /nonexistent/ca.pem}}";
    let master = Master::halite(options);
    let up = master.halite_cli().runner(&["manage.up", "--out=json"]);
    assert_eq!(up.json(), Ok(json!([])), "{}", up.describe());
    let run = |flag: &str| {
        std::process::Command::new(testing::halite_program("halite-master"))
            .arg("-c")
            .arg(master.home.config_dir())
            .arg(flag)
            .output()
            .unwrap()
    };
    let checked = run("--check-config");
    let text = [checked.stdout, checked.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let expected = "gateways:arena:tls_ca: /nonexistent/ca.pem: there is no such file";
    assert!(text.contains(expected), "{text}");
    let shown = run("--topology").stdout;
    assert!(String::from_utf8_lossy(&shown).contains("gateway-arena"));
}
