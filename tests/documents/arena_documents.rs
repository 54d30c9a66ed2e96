//! What `docs/gateways/arena.md` gives to copy works: the rules for a broker, and the reactor.

use halite::arena::mqtt::MqttSettings;
use halite::arena::wire::{Place, Scheme, Stream, Topics, Uuid};
use serde_json::json;
use std::path::Path;
use testing::arena::{Events, Runtime};
use testing::mosquitto::{Mosquitto, Peer, Rules};
use testing::{Master, wait_for};

/// Runtimes, which are users of the broker by these names.
const ONE: &str = "5f937916-d29d-4f66-801e-3d69f57728e2";
const OTHER: &str = "059ec980-c38f-4612-a655-cc4c1ef9624c";

/// The block of the document that begins with this line, without its indentation.
fn documented(first: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gateways/arena.md");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().skip_while(|line| line.trim_start() != first);
    let block = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    block
        .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect()
}

fn id(text: &str) -> Uuid {
    text.parse().unwrap()
}

/// How many of these a client may not publish.
fn refused(peer: &Peer, topics: &[String]) -> Vec<String> {
    let mut refused = Vec::new();
    for topic in topics {
        let before = peer.mqtt.refused();
        peer.publish(topic, "x");
        if peer.mqtt.refused() > before {
            refused.push(topic.clone());
        }
    }
    refused
}

#[test]
fn runtimes_can_do_what_they_must_and_no_more() {
    let mut rules = Rules::default().acl(&documented("# The orchestrator."));
    for user in ["halite", "alice", ONE, OTHER] {
        rules = rules.user(user, user);
    }
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let topics = Topics::new("realm", Scheme::Draft).unwrap();
    let at = |place: &Place| topics.topic(place).to_string();
    let client = |user: &str, filters: &[String]| {
        let settings = MqttSettings {
            user: Some(user.into()),
            password: Some(user.into()),
            ..broker.settings(user)
        };
        let filters: Vec<(&str, bool)> = filters.iter().map(|f| (f.as_str(), true)).collect();
        let peer = Peer::with_room(&settings, &filters, 1000);
        peer.up();
        peer
    };
    let log = at(&Place::Log);
    let master = client("halite", &topics.orchestrator_filters());
    let one = client(ONE, &topics.runtime_filters(&id(ONE)));
    // It tries to listen to its neighbour as well.
    let other = client(
        OTHER,
        &[
            topics.runtime_filters(&id(OTHER)),
            topics.runtime_filters(&id(ONE)),
        ]
        .concat(),
    );
    let alice = client("alice", &[at(&Place::Control(None)), log.clone()]);

    // A runtime speaks for itself and its modules.
    let output = Place::Stdio(id("m"), Stream::Both);
    let own = [
        at(&Place::Reg(Some(id(ONE)))),
        at(&Place::Keepalive(Some(id(ONE)))),
        at(&Place::Control(Some(id(ONE)))),
        at(&Place::Control(None)),
        at(&output),
        at(&Place::Stdio(id("m"), Stream::Stdout)),
    ];
    assert_eq!(refused(&one, &own), [""; 0]);
    for topic in &own {
        master.on(topic);
    }
    one.publish("realm/kitchen/light", "on");
    assert_eq!(one.mqtt.refused(), 0);

    // Not for another, nor for the orchestrator.
    let foreign = [
        at(&Place::Reg(Some(id(OTHER)))),
        at(&Place::Keepalive(Some(id(OTHER)))),
        at(&Place::Control(Some(id(OTHER)))),
        at(&Place::Reg(None)),
        log.clone(),
        "realm/elsewhere".to_owned(),
    ];
    assert_eq!(refused(&one, &foreign), foreign);

    // The orchestrator reaches everybody, and nobody else hears it.
    let said = [
        at(&Place::Control(Some(id(ONE)))),
        at(&Place::Reg(Some(id(ONE)))),
        at(&Place::Stdio(id("m"), Stream::Stdin)),
        at(&Place::Control(Some(id(OTHER)))),
        at(&Place::Control(None)),
        log.clone(),
        at(&Place::Notif),
    ];
    assert_eq!(refused(&master, &said), [""; 0]);
    one.on(&said[0]);
    one.on(&said[1]);
    // The last that is for the other comes first: what came before it was not let through.
    let first = other.message("a message", |_| true);
    assert_eq!(first.topic, said[3]);

    // Users ask at one place, and learn what was wrong.
    alice.on(&log);
    assert_eq!(refused(&alice, &[at(&Place::Control(None))]), [""; 0]);
    master.on(&at(&Place::Control(None)));
    let straight = [
        at(&Place::Control(Some(id(ONE)))),
        at(&Place::Reg(Some(id(ONE)))),
        log,
    ];
    assert_eq!(refused(&alice, &straight), straight);
}

/// The reactor starts a module again that has crashed, and leaves alone one that has ended by itself.
#[test]
fn the_reactor_starts_a_module_again() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let sls = dir.path().join("blink.sls");
    let block = documented("# /etc/halite/master");
    let (config, reaction) = block.split_once("# /srv/reactor/blink.sls\n").unwrap();
    std::fs::write(&sls, reaction).unwrap();
    let config = config.replace("/srv/reactor/blink.sls", &sls.to_string_lossy());
    let master = Master::halite(&format!(
        "{config}\ngateways: {{arena: {{servers: '{}', auto_accept: true}}}}\n",
        broker.address()
    ));
    let events = Events::of(&master);
    let apis = json!({"apis": ["wasm", "wasi", "channels"]});
    let rt = Runtime::new(&broker, ONE, "rt1", apis);
    rt.join();
    let start = |uuid: &str| {
        let data = json!({"type": "module", "uuid": uuid, "name": "blink", "file": "blink.wasm", "parent": ONE});
        rt.say("realm/proc/control", "create", data);
        assert_eq!(rt.asked("create")["data"]["uuid"], uuid);
    };
    start("m1");
    rt.exited("m1", json!({"status": "crashed", "reason": "unreachable"}));
    let again = rt.asked("create");
    let data = &again["data"];
    assert_eq!(
        (&data["name"], &data["file"]),
        (&json!("blink"), &json!("blink.wasm"))
    );
    let channels = json!([{"path": "light", "mode": "rw", "topic": "realm/kitchen/light"}]);
    assert_eq!(
        (&data["channels"], &data["apis"]),
        (&channels, &json!(["wasm", "wasi", "channels"]))
    );
    let uuid = data["uuid"].as_str().unwrap().to_owned();
    assert_ne!(uuid, "m1");

    rt.exited(&uuid, json!({"status": "exited", "exit_code": 0}));
    events.one(&format!("arena/module/{uuid}/exited"));
    // Reactions keep the order of events: when the next has come, the one before would be there.
    start("m3");
    rt.exited("m3", json!({"status": "killed"}));
    let third = rt.asked("create");
    let cli = master.halite_cli();
    let modules = wait_for("the modules of the runtime", || {
        cli.ask(&["rt1", "arena.modules"]).ok()
    });
    let uuids: Vec<_> = modules["rt1"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["uuid"])
        .collect();
    assert_eq!(uuids, [&third["data"]["uuid"]]);
}
