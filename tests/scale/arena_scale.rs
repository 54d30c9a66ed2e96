//! Five hundred simulated runtimes of ARENA with ten modules each at one gateway: registered, filled, kept alive, asked, and one manager
//! of them gone and back. Figures are printed; nothing is judged by a clock.

use halite::arena::mqtt::MqttSettings;
use halite::wire::Value;
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use testing::arena_fleet::{ArenaFleet, Offer, name, value};
use testing::mosquitto::{Peer, publication, settings};
use testing::proxy::Proxy;
use testing::scale::{Gateway, job, patiently, run};
use testing::{Master, Mosquitto, wait_until};

const MANAGERS: usize = 5;
/// Runtimes of each.
const EACH: usize = 100;
const RUNTIMES: usize = MANAGERS * EACH;
/// Modules of each runtime.
const MODULES: usize = 10;
const ALL: usize = RUNTIMES * MODULES;
/// Seconds between keepalives.
const INTERVAL: u64 = 5;
/// Intervals in which nothing may be lost.
const INTERVALS: usize = 4;
/// Requests for modules without an answer.
const AT_ONCE: usize = 200;
const JOBS: u32 = 3;
const CONTROL: &str = "realm/proc/control";
const LOG: &str = "realm/proc/log/orchestrator";

/// Rows of `halite-run arena.<what>`.
fn rows(master: &Master, what: &str) -> Json {
    let ran = master.halite_cli().runner(&[what, "--out=json"]);
    ran.json().unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// How many runtimes are alive, as the operator sees it.
fn alive(master: &Master) -> usize {
    let runtimes = rows(master, "arena.runtimes");
    let runtimes = runtimes.as_object().expect("runtimes by their ids");
    let states = runtimes.values().map(|one| &one["state"]);
    states.filter(|state| *state == "alive").count()
}

/// Modules in each state, and how many alive ones each runtime has.
fn modules(master: &Master) -> (HashMap<String, usize>, HashMap<String, usize>) {
    let (mut states, mut places) = (HashMap::new(), HashMap::new());
    for module in rows(master, "arena.modules").as_array().expect("modules") {
        let state = module["state"].as_str().expect("a state").to_owned();
        if state == "alive" {
            let id = module["id"].as_str().expect("a runtime").to_owned();
            *places.entry(id).or_default() += 1;
        }
        *states.entry(state).or_default() += 1;
    }
    (states, places)
}

fn all_alive(master: &Master) -> bool {
    modules(master).0 == HashMap::from([("alive".to_owned(), ALL)])
}

/// Asks for all modules, so many at a time; the gateway chooses where they go.
fn create_all(user: &Peer) {
    let mut answered = HashSet::new();
    for number in 0..ALL {
        if number >= AT_ONCE {
            answered.insert(answer(user));
        }
        let request = json!({"object_id": format!("create-{number}"), "action": "create", "type": "req",
            "data": {"type": "module", "uuid": format!("eeeeeeee-0000-4000-8000-{number:012}"),
                "name": format!("m{number}"), "file": "echo.wasm", "apis": ["wasm", "wasi"],
                "args": {"argv": ["a"], "env": []},
                "channels": [{"path": "light", "mode": "rw", "topic": "realm/kitchen/light"}]}});
        let sent = user.mqtt.publish(publication(CONTROL, request.to_string()));
        assert_eq!(sent, Ok(()));
    }
    for _ in 0..AT_ONCE {
        answered.insert(answer(user));
    }
    assert_eq!(answered.len(), ALL);
}

/// The id of the next request that is answered.
fn answer(user: &Peer) -> String {
    let answer = user.json("an answer", |topic, json| {
        topic == CONTROL && json["type"] == "resp"
    });
    assert_eq!(answer["data"]["result"], "ok", "{answer}");
    answer["object_id"].as_str().expect("an id").to_owned()
}

#[test]
fn five_hundred_runtimes_with_ten_modules_each() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let master = Master::halite(&format!(
        "gather_job_timeout: 30\ngateways: {{arena: {{servers: ['{}'], auto_accept: true, keepalive: {INTERVAL}}}}}",
        broker.address()
    ));
    let mut gateway = Gateway::find(&master, "arena");
    let filters = [(CONTROL, true), (LOG, true)];
    let user = Peer::with_room(&broker.settings("user"), &filters, 100_000);
    user.up();
    wait_until("the gateway hears", || {
        user.publish(CONTROL, "{}");
        let told = |message: &halite::arena::mqtt::Incoming| message.topic == LOG;
        user.find(Duration::from_millis(200), told).is_some()
    });
    let empty = gateway.memory();
    gateway.spent();

    // The first manager's network can be cut.
    let proxy = Proxy::to(broker.port);
    let connections: Vec<MqttSettings> = (0..MANAGERS)
        .map(|n| {
            let server = match n {
                0 => format!("127.0.0.1:{}", proxy.port),
                _ => broker.address(),
            };
            settings(&[server], &format!("manager-{n}"))
        })
        .collect();
    let offer = Offer {
        realm: "realm".into(),
        max_modules: MODULES,
        apis: ["wasm", "wasi", "channels"].map(str::to_owned).to_vec(),
    };
    let begin = Instant::now();
    let fleet = ArenaFleet::start(&connections, EACH, &offer);
    let tally = &fleet.tally;
    patiently("all are confirmed", || value(&tally.confirmed) == RUNTIMES);
    let took = begin.elapsed();
    println!(
        "{RUNTIMES} runtimes behind {MANAGERS} managers registered in {took:.2?}: {:.0}/s, gateway {:.0} ms CPU, memory {empty} -> {} KiB PSS",
        RUNTIMES as f64 / took.as_secs_f64(),
        gateway.spent(),
        gateway.memory()
    );
    patiently("the operator sees them", || alive(&master) == RUNTIMES);

    let begin = Instant::now();
    create_all(&user);
    patiently("all run", || value(&tally.modules) == ALL);
    let took = begin.elapsed();
    println!(
        "{ALL} modules placed and started in {took:.2?}: {:.0}/s, gateway {:.0} ms CPU, memory {} KiB PSS",
        ALL as f64 / took.as_secs_f64(),
        gateway.spent(),
        gateway.memory()
    );
    patiently("the operator sees them alive", || all_alive(&master));
    let (_, places) = modules(&master);
    let full = |n: usize| places.get(&name(n)) == Some(&MODULES);
    assert!((0..RUNTIMES).all(full), "{places:?}");

    // Nothing is lost while they are kept alive.
    gateway.spent();
    let (begin, before) = (Instant::now(), value(&tally.keepalives));
    patiently("keepalives", || {
        value(&tally.keepalives) - before >= INTERVALS * RUNTIMES
    });
    let (took, sent) = (begin.elapsed(), value(&tally.keepalives) - before);
    println!(
        "{sent} keepalives with {MODULES} children in {took:.2?}: gateway {:.3} ms CPU each, memory {} KiB PSS",
        gateway.spent() / sent as f64,
        gateway.memory()
    );
    assert!(all_alive(&master), "{:?}", modules(&master).0);
    assert_eq!(alive(&master), RUNTIMES);
    assert_eq!((value(&tally.creates), value(&tally.deletes)), (ALL, 0));

    // Asked, by programs and by the operator.
    let config = halite::config::load_master(&master.home.config_dir()).unwrap();
    let ids: Vec<String> = (0..RUNTIMES).map(name).collect();
    for (what, fun) in [
        ("test.ping", "test.ping"),
        ("what runs there", "arena.modules"),
    ] {
        gateway.spent();
        let job = job(fun, vec![], Value::from("*"), "glob");
        let took: Duration = (0..JOBS).map(|_| run(&config, &job, &ids)).sum();
        println!(
            "{what} of all: {:.2?} until all are in the job cache, gateway {:.0} ms CPU a job, memory {} KiB PSS",
            took / JOBS,
            gateway.spent() / f64::from(JOBS),
            gateway.memory()
        );
    }
    let answers = master.halite_cli().ask(&["*", "test.ping"]).unwrap();
    assert_eq!(answers.len(), RUNTIMES);
    assert!(
        answers.values().all(|answer| *answer == true),
        "{answers:?}"
    );

    // A manager is gone: its will ends its runtimes. It comes back: so do they, and their modules.
    gateway.spent();
    let (begin, before) = (Instant::now(), value(&tally.registrations));
    proxy.mend();
    let killed = || modules(&master).0.get("killed").copied().unwrap_or(0);
    patiently("it registers anew", || {
        value(&tally.registrations) >= before + EACH
    });
    patiently("all is as before", || {
        alive(&master) == RUNTIMES && all_alive(&master)
    });
    println!(
        "a manager of {EACH} runtimes gone and back in {:.2?}, gateway {:.0} ms CPU",
        begin.elapsed(),
        gateway.spent()
    );
    assert_eq!(killed(), 0);
    // A keepalive that was under way when the connection ended arrives first on the next one and names what still runs,
    // so that this runtime is not asked to start its modules again.
    let again = value(&tally.creates) - ALL;
    assert!((1..=EACH * MODULES).contains(&again), "{again}");
    assert_eq!(value(&tally.modules), ALL);
    assert_eq!(value(&tally.broken), 0);
    let each = gateway.memory().saturating_sub(empty) as f64 / RUNTIMES as f64;
    println!("{each:.1} KiB a runtime with its modules");
}
