//! The gateway for ARENA: a real master, mosquitto, and simulated runtimes.

mod trouble;

use halite::sys::procs;
use serde_json::{Value, json};
use std::time::Duration;
use testing::arena::{Events, Runtime, master, present};
use testing::mosquitto::Mosquitto;
use testing::{Cli, Master, wait_for, wait_until};

const R1: &str = "11111111-0000-4000-8000-000000000001";
const R2: &str = "22222222-0000-4000-8000-000000000002";
const R3: &str = "33333333-0000-4000-8000-000000000003";
const M1: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const M2: &str = "aaaaaaaa-0000-4000-8000-000000000002";

/// Metadata of runtimes that confirm what they are asked.
fn ours() -> Value {
    json!({"metadata": {"halite": "1", "host": "node-a"}})
}

/// What a function returned on one minion.
fn told(cli: &Cli, words: &[&str]) -> Value {
    let mut all = cli.ask(words).unwrap();
    all.remove(words[0])
        .unwrap_or_else(|| panic!("{words:?}: no answer in {all:?}"))
}

fn gateway(master: &Master) -> Option<i32> {
    let family = procs::family(master.id() as u32).unwrap();
    let mut all = family.iter();
    let found = all.find(|p| p.title.contains("gateway-arena"));
    found.map(|process| process.pid as i32)
}

/// Kills the gateway, and waits for its successor.
fn replace(master: &Master) {
    let pid = gateway(master).expect("there is a gateway");
    let signal = nix::sys::signal::Signal::SIGKILL;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("it is ours");
    wait_until("there is another gateway", || {
        gateway(master).is_some_and(|new| new != pid)
    });
}

/// Runs a command of the CLI beside the test.
fn beside(master: &Master, words: &[&str]) -> std::thread::JoinHandle<testing::cli::Ran> {
    let cli = master.halite_cli();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    std::thread::spawn(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cli.salt(&words)
    })
}

#[test]
fn runtimes_are_minions() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let master = master(&broker, "keepalive: 60, create_timeout: 60");
    let cli = master.halite_cli();
    let events = Events::of(&master);

    // It waits for the operator, who is told; it is told as well.
    let rt = Runtime::new(&broker, R1, "rt1", ours());
    let answer = rt.register();
    assert_eq!(answer["result"], "error", "{answer}");
    let waiting = events.one(&format!("arena/runtime/{R1}/waiting"));
    assert_eq!(waiting["id"], "rt1");
    let listed = cli.key(&["-l", "un", "--out=json"]).json().unwrap();
    assert_eq!(listed["minions_pre"], json!(["rt1"]));
    assert_eq!(cli.salt(&["*", "test.ping"]).status, Some(2));

    // The key is accepted, and the confirmation comes by itself.
    cli.key(&["-y", "-a", "rt1"]).ok().unwrap();
    events.one(&format!("arena/runtime/{R1}/registered"));
    events.one("salt/minion/rt1/start");
    let confirmed = rt.register();
    assert_eq!(confirmed["result"], "ok", "{confirmed}");
    assert_eq!(confirmed["ka_interval_sec"], 60);
    present(&cli, &["rt1"]);

    // What it tells are grains.
    assert_eq!(told(&cli, &["rt1", "test.ping"]), true);
    let grains = told(&cli, &["rt1", "grains.items"]);
    assert_eq!(grains["arena"]["uuid"], R1);
    assert_eq!(grains["host"], "node-a");
    for (kind, target, count) in [
        ("-G", "arena:apis:wasm", 1),
        ("-G", "arena:apis:stdio:in", 1),
        ("-G", "arena:apis:python:python3", 0),
        ("-G", "arena:name:rt*", 1),
        ("-G", "gateway:arena", 1),
        ("-C", "G@arena:realm:realm and not rt2", 1),
    ] {
        let found = cli.ask(&[kind, target, "test.ping"]).unwrap_or_default();
        assert_eq!(found.len(), count, "{target}");
    }
    assert_eq!(told(&cli, &["rt1", "grains.get", "arena:name"]), "rt1");
    let names = told(&cli, &["rt1", "sys.list_functions"]);
    assert!(names.as_array().unwrap().contains(&json!("arena.create")));
    let answer = told(&cli, &["rt1", "cmd.run", "true"]);
    assert_eq!(answer, "'cmd.run' is not available.");

    // A module: the answer comes when the runtime has confirmed it.
    let asked = beside(
        &master,
        &[
            "rt1",
            "arena.create",
            "file=echo.wasm",
            "name=echo",
            &format!("uuid={M1}"),
            "argv=['a', 'b']",
            "env={A: 1}",
            "channels=[{path: light, mode: rw, topic: realm/kitchen/light}]",
            "apis=wasm,wasi,stdio:in",
            "--out=json",
        ],
    );
    let request = rt.asked("create");
    let data = &request["data"];
    assert_eq!(data["uuid"], M1);
    assert_eq!(data["file"], "echo.wasm");
    assert_eq!(data["args"], json!({"argv": ["a", "b"], "env": ["A=1"]}));
    assert_eq!(data["channels"][0]["topic"], "realm/kitchen/light");
    assert!(!asked.is_finished());
    rt.answer(&request, json!({"result": "ok", "details": {"uuid": M1}}));
    let ran = asked.join().unwrap();
    let record = &ran.returns().unwrap()["rt1"];
    assert_eq!(ran.status, Some(0), "{}", ran.describe());
    assert_eq!(
        (&record["uuid"], &record["state"]),
        (&json!(M1), &json!("alive"))
    );
    for what in ["sent", "started"] {
        let event = events.one(&format!("arena/module/{M1}/{what}"));
        assert_eq!(
            (&event["id"], &event["name"]),
            (&json!("rt1"), &json!("echo"))
        );
        assert_eq!(event.get("env"), None);
    }

    // What it uses and writes.
    rt.keepalive(json!([{"uuid": M1, "active": -1, "cpu_usage_percent": 1.5, "mem_usage": 65536}]));
    let rows = wait_for("it is known what the module uses", || {
        let rows = told(&cli, &["rt1", "arena.modules"]);
        (rows[0]["memory"] == 65536).then_some(rows)
    });
    assert_eq!(rows[0]["cpu_percent"], 1.5);
    assert_eq!(
        (&rows[0]["restarts"], &rows[0]["active"]),
        (&json!(0), &Value::Null)
    );
    rt.writes(M1, "stdout", "one\ntwo\n");
    rt.writes(M1, "stderr", "oh\n");
    let event = events.one(&format!("arena/module/{M1}/stdout"));
    assert_eq!(
        (&event["lines"], &event["dropped"]),
        (&json!(["one", "two"]), &json!(0))
    );
    assert_eq!(
        events.one(&format!("arena/module/{M1}/stderr"))["lines"],
        json!(["oh"])
    );
    assert_eq!(told(&cli, &["rt1", "arena.logs", "echo"]), "one\ntwo\noh\n");
    assert_eq!(told(&cli, &["rt1", "arena.logs", M1, "lines=1"]), "oh\n");
    assert_eq!(
        told(&cli, &["rt1", "arena.module", "echo"])["argv"],
        json!(["a", "b"])
    );
    assert_eq!(told(&cli, &["rt1", "arena.runtime"])["modules"], 1);

    // What it reads.
    let stdin = broker.peer("stdin", &[&format!("realm/proc/io/{M1}/stdin")]);
    assert_eq!(told(&cli, &["rt1", "arena.send", "echo", "hello"]), true);
    assert_eq!(stdin.within(testing::LONG).unwrap().payload, "hello\n");

    // Its end: by itself and by order.
    let asked = beside(&master, &["rt1", "arena.delete", "echo", "--out=json"]);
    let request = rt.asked("delete");
    assert_eq!(request["data"]["uuid"], M1);
    events.one(&format!("arena/module/{M1}/stopping"));
    rt.exited(M1, json!({"status": "deleted", "exit_code": 0}));
    let ran = asked.join().unwrap();
    let record = &ran.returns().unwrap()["rt1"];
    assert_eq!(
        record["exit"],
        json!({"status": "deleted", "exit_code": 0}),
        "{}",
        ran.describe()
    );
    let event = events.one(&format!("arena/module/{M1}/exited"));
    assert_eq!(
        (&event["status"], &event["id"]),
        (&json!("deleted"), &json!("rt1"))
    );
    assert_eq!(told(&cli, &["rt1", "arena.modules"]), json!([]));

    // A module that ends before it was confirmed has an end, not a start.
    let asked = beside(
        &master,
        &[
            "rt1",
            "arena.create",
            "bad.wasm",
            &format!("uuid={M2}"),
            "--out=json",
        ],
    );
    rt.asked("create");
    rt.exited(M2, json!({"status": "crashed", "reason": "no such file"}));
    let ran = asked.join().unwrap();
    assert_eq!(
        ran.returns().unwrap()["rt1"]["exit"]["reason"],
        "no such file"
    );
    assert_eq!(ran.status, Some(1), "{}", ran.describe());

    // One that the runtime does not take.
    let asked = beside(
        &master,
        &[
            "rt1",
            "arena.create",
            "bad.wasm",
            "name=third",
            "--out=json",
        ],
    );
    let request = rt.asked("create");
    rt.answer(
        &request,
        json!({"result": "error", "details": {"desc": "no launcher"}}),
    );
    let ran = asked.join().unwrap();
    let record = &ran.returns().unwrap()["rt1"];
    assert_eq!(record["error"], "refused by the runtime: no launcher");
    let third = record["uuid"].as_str().unwrap();
    let event = events.one(&format!("arena/module/{third}/refused"));
    assert_eq!(
        (&event["reason"], &event["state"]),
        (&json!("no launcher"), &json!("dead"))
    );

    // What it tells anew, and what it runs by itself.
    let mut changed = rt.data.clone();
    changed["metadata"]["host"] = json!("node-b");
    rt.say(&format!("realm/proc/reg/{R1}"), "create", changed);
    events.one(&format!("arena/runtime/{R1}/changed"));
    wait_until("grains follow", || {
        cli.ask(&["-G", "host:node-b", "test.ping"])
            .is_ok_and(|found| found.len() == 1)
    });
    rt.keepalive(json!([{"uuid": "other", "name": "own", "active": -1, "cpu_usage_percent": 0, "mem_usage": 1}]));
    let foreign = events.one("arena/module/other/foreign");
    assert_eq!(
        (&foreign["foreign"], &foreign["id"]),
        (&json!(true), &json!("rt1"))
    );

    // A key that goes while nobody hears of it: the next gateway does not let its runtime in.
    std::fs::remove_file(master.home.pki().join("minions/rt1")).unwrap();
    replace(&master);
    let gone = events.one(&format!("arena/runtime/{R1}/gone"));
    assert_eq!(gone["reason"], "its key is not accepted");
    wait_until("it waits again", || {
        let listed = cli.key(&["-l", "un", "--out=json"]).json();
        listed.is_ok_and(|listed| listed["minions_pre"] == json!(["rt1"]))
    });
    cli.key(&["-y", "-a", "rt1"]).ok().unwrap();
    present(&cli, &["rt1"]);

    // A key that is deleted ends it at once; it waits again when it registers again.
    cli.key(&["-y", "-d", "rt1"]).ok().unwrap();
    wait_until("it is gone again", || {
        events.all(&format!("arena/runtime/{R1}/gone")).len() == 2
    });
    present(&cli, &[]);
    assert_eq!(rt.register()["result"], "error");
    cli.key(&["-y", "-r", "rt1"]).ok().unwrap();
    let answer = rt.register();
    assert!(answer.to_string().contains("not accepted"), "{answer}");
}

/// Users of the realm, and places that are taken.
#[test]
fn users_ask_over_mqtt_and_modules_wait() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let master = master(&broker, "auto_accept: true");
    let cli = master.halite_cli();
    let events = Events::of(&master);
    let rt = Runtime::new(&broker, R1, "rt1", json!({"max_nmodules": 1}));
    rt.join();
    let user = broker.peer("user", &["realm/proc/control", "realm/proc/log/#"]);
    let create = |uuid: &str, more: &str| {
        format!(
            r#"{{"object_id": "u-{uuid}", "action": "create", "type": "req", "data":
                {{"type": "module", "uuid": "{uuid}", "name": "user", "file": "x.wasm"{more}}}}}"#
        )
    };
    user.publish("realm/proc/control", create(M1, ""));
    let answer = user.json("an answer", |_, json| json["type"] == "resp");
    assert_eq!(answer["object_id"], format!("u-{M1}"));
    assert_eq!(answer["data"]["result"], "ok", "{answer}");
    assert_eq!(rt.asked("create")["data"]["uuid"], M1);

    // It is full: the second waits.
    user.publish(
        "realm/proc/control",
        create(M2, &format!(r#", "parent": "{R1}""#)),
    );
    let queued = events.one(&format!("arena/module/{M2}/queued"));
    assert_eq!(queued["state"], "queued");
    let rows = told(&cli, &["rt1", "arena.modules"]);
    assert_eq!(rows.as_array().unwrap().len(), 2);
    let answer = told(&cli, &["rt1", "arena.send", M2, "x"]);
    assert_eq!(answer, format!("arena.send: {M2} is queued"));
    rt.exited(M1, json!({}));
    assert_eq!(rt.asked("create")["data"]["uuid"], M2);

    // The runners say where, and why not.
    let runner = |words: &[&str]| {
        let mut all = words.to_vec();
        all.push("--out=json");
        cli.runner(&all)
    };
    let second = Runtime::new(&broker, R2, "rt2", json!({"apis": ["python:python3"]}));
    second.join();
    let told = wait_for("the store knows both", || {
        let told = runner(&["arena.schedule", "apis=wasm"]).json().ok()?;
        (told["runtimes"].as_object()?.len() == 2).then_some(told)
    });
    assert_eq!(told["chosen"], Value::Null);
    assert_eq!(told["later"], true);
    assert_eq!(told["runtimes"]["rt1"]["verdict"], "is full");
    assert_eq!(told["runtimes"]["rt2"]["verdict"], "lacks wasm");
    let known = runner(&["arena.runtimes"]).json().unwrap();
    assert_eq!(
        (&known["rt1"]["modules"], &known["rt2"]["state"]),
        (&json!(1), &json!("alive"))
    );
    let ran = runner(&[
        "arena.create",
        "file=s.py",
        "name=py",
        "apis=python:python3",
        "argv=[1]",
    ]);
    let record = ran.json().unwrap();
    assert_eq!(
        (&record["id"], &record["scheduled"]),
        (&json!("rt2"), &json!(true)),
        "{}",
        ran.describe()
    );
    assert_eq!(second.asked("create")["data"]["args"]["argv"], json!(["1"]));
    let ran = runner(&["arena.create", "file=x", "apis=none"]);
    assert!(
        ran.err.contains("rt1 lacks none; rt2 lacks none"),
        "{}",
        ran.describe()
    );
    let listed = wait_for("the store knows the module", || {
        let rows = runner(&["arena.modules"]).json().ok()?;
        rows.as_array()?
            .iter()
            .any(|row| row["name"] == "py")
            .then_some(rows)
    });
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let master_dir = master.home.config_dir();
    let ending = std::thread::spawn(move || {
        Cli::halite(master_dir).runner(&["arena.delete", "py", "--out=json"])
    });
    let request = second.asked("delete");
    second.exited(
        request["data"]["uuid"].as_str().unwrap(),
        json!({"status": "deleted"}),
    );
    let ran = ending.join().unwrap();
    assert_eq!(
        ran.json().unwrap()["exit"]["status"],
        "deleted",
        "{}",
        ran.describe()
    );
    let docs = cli.runner(&["-d", "arena.schedule"]);
    assert!(
        docs.out.contains("Shows where a module"),
        "{}",
        docs.describe()
    );
}

/// A gateway that is killed, a broker that is away, a runtime that falls silent.
#[test]
fn whatever_goes_comes_again() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let master = master(&broker, "auto_accept: true, keepalive: 2, policy: move");
    let cli = master.halite_cli();
    let events = Events::of(&master);
    let rt = Runtime::new(&broker, R1, "rt1", json!({}));
    rt.join();
    let ran = cli
        .ask(&["rt1", "arena.create", "a.wasm", &format!("uuid={M1}")])
        .unwrap();
    assert_eq!(ran["rt1"]["state"], "alive");
    rt.asked("create");
    rt.keepalive(json!([{"uuid": M1, "active": -1, "cpu_usage_percent": 0.0, "mem_usage": 1}]));
    events.one(&format!("arena/module/{M1}/started"));

    // Its successor knows the module, and a runtime that it has never heard of as soon as that speaks.
    replace(&master);
    let second = Runtime::new(&broker, R2, "rt2", json!({}));
    wait_until("who only sends keepalives is adopted", || {
        second.keepalive(json!([]));
        rt.keepalive(json!([{"uuid": M1, "active": -1, "cpu_usage_percent": 0.0, "mem_usage": 1}]));
        let ran = cli.runner(&["manage.present", "--out=json"]);
        ran.json()
            .is_ok_and(|present| present == json!(["rt1", "rt2"]))
    });
    let rows = told(&cli, &["rt1", "arena.modules"]);
    assert_eq!(
        (&rows[0]["uuid"], &rows[0]["state"]),
        (&json!(M1), &json!("alive"))
    );

    // The broker goes, which is told at once, and comes; all subscribe again.
    broker.kill();
    wait_for("it is told that the broker is away", || {
        let told = cli.ask(&["rt1", "arena.create", "b.wasm"]).ok()?;
        let text = told.get("rt1")?.as_str()?.to_owned();
        text.contains("cannot be reached").then_some(())
    });
    present(&cli, &[]);
    broker.restart();
    wait_until("both are heard again", || {
        second.keepalive(json!([]));
        rt.keepalive(json!([{"uuid": M1, "active": -1, "cpu_usage_percent": 0.0, "mem_usage": 2}]));
        let rows = cli.ask(&["rt1", "arena.modules"]).unwrap_or_default();
        rows.get("rt1").is_some_and(|rows| rows[0]["memory"] == 2)
    });

    // One falls silent: its module goes to the other.
    let request = wait_for("the module is moved", || {
        second.keepalive(json!([]));
        second.asked_within("create", Duration::from_millis(500))
    });
    assert_eq!(request["data"]["uuid"], M1);
    events.one(&format!("arena/runtime/{R1}/late"));
    let lost = events.one(&format!("arena/runtime/{R1}/lost"));
    assert_eq!(
        (&lost["reason"], &lost["id"]),
        (&json!("silent"), &json!("rt1"))
    );
    events.one(&format!("arena/module/{M1}/lost"));
    let moved = events.one(&format!("arena/module/{M1}/moved"));
    assert_eq!(
        (&moved["from_id"], &moved["id"]),
        (&json!("rt1"), &json!("rt2"))
    );
    wait_until("it is not present any more", || {
        second.keepalive(
            json!([{"uuid": M1, "active": -1, "cpu_usage_percent": 0.0, "mem_usage": 2}]),
        );
        let ran = cli.runner(&["manage.present", "--out=json"]);
        ran.json().is_ok_and(|present| present == json!(["rt2"]))
    });
}
