//! ARENA from end to end: a real master with its gateway, mosquitto, and real runtimes that execute real modules.

use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use testing::arena::{Events, present};
use testing::arena_runtime::{Rig, Runtime, compile};
use testing::harness::free_ports;
use testing::{Cli, Master, Minion, wait_for, wait_until};

const MODULE: &str = "44c72c87-c4ec-4759-b587-30ddc8590f6b";
const STAYS: &str = "44c72c87-c4ec-4759-b587-30ddc8590f6c";

/// A module that writes one line and waits for an hour.
fn waiting() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/arena/wat/sleep.wat"
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.starts_with(";;"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("good ", "good\\n")
}

fn uuid(number: usize) -> String {
    format!(
        "{number}{number}{number}{number}{number}{number}{number}{number}-0000-4000-8000-000000000001"
    )
}

/// What a function returned on one runtime.
fn told(cli: &Cli, words: &[&str]) -> Json {
    let mut all = cli.ask(words).unwrap();
    all.remove(words[0])
        .unwrap_or_else(|| panic!("{words:?}: no answer in {all:?}"))
}

/// The minion id under which a module last wrote `good`, and how often it did.
fn written(events: &Events, module: &str) -> usize {
    let all = events.all(&format!("arena/module/{module}/stdout"));
    let good = |event: &&Json| event["lines"] == json!(["good"]);
    all.iter().filter(good).count()
}

/// What ARENA's own tools are told, who do not log in.
fn asked(port: u16, path: &str) -> Option<Json> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /api/{path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let is_there = head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200");
    is_there.then(|| serde_json::from_str(body).unwrap())
}

#[test]
fn a_module_outlives_its_runtime() {
    let Some(rig) = Rig::new() else {
        return;
    };
    let roots = rig.dir.path().join("srv");
    compile(&waiting(), &roots.join("modules/waits.wasm"));
    compile(&waiting(), &rig.module("waits"));
    let [port, _] = free_ports();
    let master = Master::halite(&format!(
        "api: {{port: {port}, host: 127.0.0.1, disable_ssl: true, arena: true}}\n\
         gather_job_timeout: 1\nfile_roots: {{base: ['{}']}}\ngateways: {{arena: {{servers: '{}', keepalive: 2}}}}",
        roots.display(),
        rig.broker.address()
    ));
    let cli = master.halite_cli();
    let events = Events::of(&master);

    // A minion of this host, whose identity fetches files of the master.
    let minion = Minion::halite(&master, "host1", "");
    let waits = |id: &str| {
        wait_until(&format!("{id} waits to be accepted"), || {
            let listed = cli.key(&["-l", "un", "--out=json"]).json();
            listed.is_ok_and(|keys| {
                let waiting = keys["minions_pre"].as_array();
                waiting.is_some_and(|ids| ids.contains(&id.into()))
            })
        });
    };
    waits("host1");
    cli.key(&["-y", "-a", "host1"]).ok().unwrap();
    let options = |number: usize| {
        let dir = minion.home.config_dir();
        format!(
            "uuid: {}\nminion_config_dir: {}",
            uuid(number),
            dir.display()
        )
    };
    let mut runtimes: Vec<Runtime> = (1..=3)
        .map(|number| rig.start(&format!("rt{number}"), &options(number)))
        .collect();
    for number in 1..=3 {
        let id = format!("rt{number}");
        waits(&id);
        cli.key(&["-y", "-a", &id]).ok().unwrap();
        events.one(&format!("arena/runtime/{}/registered", uuid(number)));
    }
    present(&cli, &["host1", "rt1", "rt2", "rt3"]);
    let grains = told(&cli, &["rt1", "grains.get", "arena"]);
    assert_eq!(grains["uuid"], uuid(1).as_str());

    let runtimes_there = asked(port, "runtimes/").unwrap();
    assert_eq!(runtimes_there["count"], 3, "{runtimes_there}");
    let second = asked(port, "runtimes/rt2/").unwrap();
    assert_eq!(second["uuid"], uuid(2).as_str());
    assert_eq!(asked(port, "runtimes/nobody/"), None);

    // A module from the master's files, on the first.
    let made = told(
        &cli,
        &[
            "rt1",
            "arena.create",
            "file=salt://modules/waits.wasm",
            "name=waits",
            "policy=move",
            &format!("uuid={MODULE}"),
        ],
    );
    assert_eq!(
        (&made["uuid"], &made["state"]),
        (&MODULE.into(), &"alive".into()),
        "{made}"
    );
    let event = events.one(&format!("arena/module/{MODULE}/stdout"));
    assert_eq!(
        (&event["id"], &event["lines"]),
        (&"rt1".into(), &json!(["good"]))
    );
    let rows = wait_for("it is known what the module uses", || {
        let rows = told(&cli, &["rt1", "arena.modules"]);
        (rows[0]["memory"].as_u64()? >= 65536).then_some(rows)
    });
    assert_eq!(rows[0]["name"], "waits");
    assert_eq!(told(&cli, &["rt1", "arena.logs", "waits"]), "good\n");

    let listed = asked(port, "modules/").unwrap();
    assert_eq!(listed["results"][0]["uuid"], MODULE, "{listed}");
    assert_eq!(
        asked(port, "modules/waits/").unwrap()["parent"],
        uuid(1).as_str()
    );

    // Its runtime is killed: it comes up on another.
    runtimes[0].end(Signal::SIGKILL);
    let moved = events.one(&format!("arena/module/{MODULE}/moved"));
    assert_eq!(moved["from_id"], "rt1");
    let now = moved["id"].as_str().unwrap().to_owned();
    assert!(["rt2", "rt3"].contains(&now.as_str()), "{moved}");
    wait_until("it has written again", || written(&events, MODULE) == 2);
    let again = events.all(&format!("arena/module/{MODULE}/stdout"));
    assert_eq!(again[1]["id"], now.as_str());
    let rows = told(&cli, &[&now, "arena.modules"]);
    assert_eq!(
        (&rows[0]["uuid"], &rows[0]["state"]),
        (&MODULE.into(), &"alive".into())
    );
    present(&cli, &["host1", "rt2", "rt3"]);

    // By order, it ends.
    let ended = told(&cli, &[&now, "arena.delete", "waits"]);
    assert_eq!(ended["exit"]["status"], "deleted", "{ended}");
    assert_eq!(told(&cli, &[&now, "arena.modules"]), json!([]));

    // One that is to wait for its runtime comes back with it, also after an orderly end.
    let made = told(
        &cli,
        &[
            "rt3",
            "arena.create",
            "file=waits.wasm",
            "policy=wait",
            &format!("uuid={STAYS}"),
        ],
    );
    assert_eq!(made["state"], "alive", "{made}");
    wait_until("it has written", || written(&events, STAYS) == 1);
    assert_eq!(runtimes[2].end(Signal::SIGTERM), Some(0));
    present(&cli, &["host1", "rt2"]);
    runtimes[2] = rig.start("rt3", &options(3));
    wait_until("it has written again", || written(&events, STAYS) == 2);
    present(&cli, &["host1", "rt2", "rt3"]);

    // Each stream is told as what it is; input goes to the module.
    compile("args", &rig.module("args"));
    let args = "44c72c87-c4ec-4759-b587-30ddc8590f6d";
    let uuid = format!("uuid={args}");
    told(
        &cli,
        &["rt2", "arena.create", "file=args.wasm", "env={A: 1}", &uuid],
    );
    let lines = |event: Json| event["lines"].clone();
    let out = events.one(&format!("arena/module/{args}/stdout"));
    assert_eq!(lines(out), json!(["args.wasm"]));
    let err = events.one(&format!("arena/module/{args}/stderr"));
    assert_eq!(lines(err), json!(["A=1"]));
    compile("cat", &rig.module("cat"));
    let words = "apis=['wasm', 'wasi', 'stdio:in']";
    let made = told(
        &cli,
        &["rt2", "arena.create", "file=cat.wasm", "name=cat", words],
    );
    assert_eq!(made["state"], "alive", "{made}");
    wait_until("it has read", || {
        assert_eq!(told(&cli, &["rt2", "arena.send", "cat", "hello"]), true);
        told(&cli, &["rt2", "arena.logs", "cat"])
            .as_str()
            .is_some_and(|text| text.starts_with("hello\n"))
    });
    let ended = told(&cli, &["rt2", "arena.delete", "cat"]);
    assert_eq!(ended["exit"]["status"], "deleted", "{ended}");

    // What cannot be had is told with the reason.
    let ran = cli.salt(&[
        "rt2",
        "arena.create",
        "file=salt://modules/none.wasm",
        "--out=json",
    ]);
    assert_ne!(ran.status, Some(0));
    assert!(
        ran.describe().contains("file not found"),
        "{}",
        ran.describe()
    );
    let ran = cli.salt(&["rt2", "arena.create", "file=../waits.wasm", "--out=json"]);
    assert_ne!(ran.status, Some(0), "{}", ran.describe());
}
