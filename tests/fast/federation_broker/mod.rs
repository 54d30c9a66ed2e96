//! `halite-federation-broker` between two networks with a `nats-server` each.

mod networks;

use halite::collective::broker::{Place, To};
use halite::collective::wire::{Federation, Packet};
use halite::map;
use halite::wire::Value;
use networks::{Client, Networks, REPLY, WINDOW, nodes};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use std::process::Command;
use std::time::Duration;
use testing::collective::{Peer, discovery, main_collective, node, packet, settings, to};
use testing::{NatsClient, halite_program, short_dir, wait_for, wait_until};

const STREAM: u64 = 3000;

#[test]
fn one_broker_of_three_dies_and_nothing_comes_twice() {
    let Some(mut networks) = Networks::new(3, "") else {
        return;
    };
    let nodes = nodes(&networks.collective);
    let mut client = Client::new(&networks.federation);
    networks.warm(&mut client);
    let warm = client.next;
    client.repeated = 0;
    let victim = networks.brokers.remove(1);
    let before: u64 = networks
        .brokers
        .iter()
        .map(|b| b.received("federation"))
        .sum();
    client.stream(STREAM, |asked| {
        if asked == STREAM / 3 {
            victim.process.signal(Signal::SIGKILL);
        }
    });
    // Each was answered by both nodes, and no answer came twice.
    for number in warm..warm + STREAM {
        for node in ["n1", "n2"] {
            let of = client
                .replies
                .range((number, 0, String::new())..(number + 1, 0, String::new()));
            assert!(
                of.into_iter().any(|(_, _, who)| who == node),
                "{number} {node}"
            );
        }
    }
    assert_eq!(client.duplicates, 0);
    // Only what the dead one held was lost: never more than was on its way.
    assert!(
        client.repeated <= WINDOW as u64,
        "{} repeated",
        client.repeated
    );
    let carried: u64 = networks
        .brokers
        .iter()
        .map(|b| b.received("federation"))
        .sum();
    assert!(carried - before >= STREAM * 2 / 3 / 2, "{before} {carried}");
    for broker in &networks.brokers {
        assert!(broker.received("federation") > STREAM / 4);
        let stats = broker.stats().unwrap();
        for side in ["federation", "collective"] {
            assert!(
                stats[side]["refused"]
                    .as_object()
                    .unwrap()
                    .values()
                    .all(|n| *n == 0)
            );
            assert_eq!(stats[side]["dropped"], 0);
        }
    }
    eprintln!(
        "{STREAM} requests to 2 nodes each, one of three brokers killed: {} repeated, {} replies",
        client.repeated,
        client.replies.len()
    );
    networks.collective.client().publish("test.end", b"");
    assert!(nodes.join().unwrap() >= STREAM * 2);
}

#[test]
fn a_broker_that_is_stopped_leaves_quietly_and_another_takes_its_place() {
    let Some(mut networks) = Networks::new(2, "drain_timeout: 20") else {
        return;
    };
    let nodes = nodes(&networks.collective);
    let mut client = Client::new(&networks.federation);
    networks.warm(&mut client);
    client.repeated = 0;
    let mut leaving = networks.brokers.remove(0);
    client.stream(STREAM, |asked| {
        if asked == STREAM / 3 {
            leaving.process.signal(Signal::SIGTERM);
        }
    });
    let status = wait_for("its end", || leaving.process.status());
    assert_eq!(status.code(), Some(0), "{}", leaving.process.tail());
    assert!(!networks.dir.path().join("b1/pid").exists());
    assert_eq!(client.duplicates, 0);
    assert!(
        client.repeated <= WINDOW as u64,
        "{} repeated",
        client.repeated
    );
    eprintln!(
        "{STREAM} requests, one of two brokers stopped: {} repeated",
        client.repeated
    );
    networks.start(3, "");
    networks.warm(&mut client);
    networks.collective.client().publish("test.end", b"");
    nodes.join().unwrap();
}

#[test]
fn captured_messages_go_through_a_live_broker_as_they_did() {
    let Some(networks) = Networks::new(1, "") else {
        return;
    };
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors/collective/choria-federation.json");
    let whole: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let messages = whole["messages"].as_array().unwrap();
    let on = |network: &'static str| messages.iter().filter(move |m| m["network"] == network);
    let mut federation = networks.federation.client();
    federation.subscribe("mcollective.reply.>", "");
    let mut collective = networks.collective.client();
    collective.subscribe("mcollective.>", "");
    // The servers' names in recorded routes are those of this run.
    let here = |headers: &Json| {
        let text = headers.to_string();
        let text = text.replace("127.0.0.1:15423", &networks.federation.address());
        let text = text.replace("127.0.0.1:15422", &networks.collective.address());
        serde_json::from_str::<Json>(&text).unwrap()
    };
    let mut seen = 0;
    let mut pass =
        |from: &'static str, heard: &str, source: &mut NatsClient, sink: &mut NatsClient| {
            let to = if from == "federation" {
                "collective"
            } else {
                "federation"
            };
            for message in on(from).filter(|m| m["subject"] == heard) {
                seen += 1;
                let mut transport = message["transport"].clone();
                transport["headers"] = here(&transport["headers"]);
                if transport["data"] == "(same bytes as above)" {
                    transport["data"] = Json::from("AQID\n");
                }
                let federation = &message["transport"]["headers"]["federation"];
                let expected = on(to).filter(|m| {
                    let headers = &m["transport"]["headers"];
                    let sender =
                        headers["mc_sender"] == message["transport"]["headers"]["mc_sender"];
                    match to {
                        "collective" => sender && headers["federation"]["req"] == federation["req"],
                        _ => sender && m["subject"] == federation["reply-to"],
                    }
                });
                source.publish(heard, &serde_json::to_vec(&transport).unwrap());
                for expected in expected {
                    seen += 1;
                    let came = sink.next();
                    assert_eq!(came.subject, expected["subject"].as_str().unwrap());
                    assert_eq!(came.reply, None);
                    let wire: Json = serde_json::from_slice(&came.payload).unwrap();
                    let broker = here(&expected["transport"]["headers"]);
                    assert_eq!(wire["headers"], broker);
                    assert_eq!(wire["data"], transport["data"]);
                }
            }
        };
    pass(
        "federation",
        "choria.federation.colla.federation",
        &mut federation,
        &mut collective,
    );
    pass(
        "collective",
        "choria.federation.colla.collective",
        &mut collective,
        &mut federation,
    );
    assert_eq!(seen, 17);
}

#[test]
fn our_own_connectors_reach_each_other_through_it() {
    let Some(networks) = Networks::new(1, "record_route: true") else {
        return;
    };
    let names = vec![Value::from("colla")];
    let more = map! {"federations" => names};
    let client = Peer::open(&settings(&[networks.federation.address()], more), 100);
    let replies = Place::Replies(main_collective());
    client.connector.subscribe(&replies);
    client.up();
    let servant = Peer::at(&networks.collective);
    let places = [discovery(), node("node1.example")];
    for place in &places {
        servant.connector.subscribe(place);
    }
    servant.up();
    servant.hears(
        &networks.collective,
        "mcollective.broadcast.agent.discovery",
    );
    servant.hears(&networks.collective, "mcollective.node.node1.example");
    for place in &places {
        client
            .connector
            .publish(&to(place), packet("question"), true, 60)
            .unwrap();
        let (heard_at, question) = servant.packet();
        assert_eq!(
            (heard_at.as_ref(), question.data.as_slice()),
            (Some(place), b"question".as_slice())
        );
        assert_eq!(question.seen_by.as_ref().unwrap().len(), 2);
        let mut answer = packet("answer");
        answer.federation = question.federation;
        answer.seen_by = question.seen_by;
        let back = To::Reply(question.reply_to.unwrap());
        servant.connector.publish(&back, answer, false, 60).unwrap();
        let (heard_at, reply) = client.packet();
        assert_eq!(
            (heard_at, reply.data.as_slice()),
            (Some(replies.clone()), b"answer".as_slice())
        );
        assert_eq!(reply.federation, None);
        let route = reply.seen_by.unwrap();
        assert_eq!(route.len(), 4);
        assert_eq!(
            (route[0][1].as_str(), route[2][1].as_str()),
            ("colla:a1", "colla:a1")
        );
    }
}

#[test]
fn forged_subjects_and_circles_are_refused_and_counted() {
    let Some(networks) = Networks::new(1, "stats_interval: 1") else {
        return;
    };
    let mut federation = networks.federation.client();
    federation.subscribe("choria.federation.colla.stats", "");
    let mut collective = networks.collective.client();
    collective.subscribe("mcollective.>", "");
    let send = |client: &mut NatsClient, target: &str, reply_to: &str| {
        let mut asked = packet("x");
        asked.reply_to = Some(reply_to.into());
        asked.federation = Some(Federation {
            request: "1".into(),
            reply_to: None,
            targets: vec![target.into()],
        });
        client.publish("choria.federation.colla.federation", &asked.to_json());
    };
    send(
        &mut federation,
        "mcollective.node.a",
        "mcollective.broadcast.agent.shell",
    );
    send(&mut federation, "mcollective.>", REPLY);
    send(&mut federation, "choria.federation.collb.federation", REPLY);
    federation.publish("choria.federation.colla.federation", b"noise");
    send(&mut federation, "mcollective.node.good", REPLY);
    // The good one comes, and first.
    assert_eq!(collective.next().subject, "mcollective.node.good");
    let stats = wait_for("all counters", || {
        let stats = networks.brokers[0].stats()?;
        (stats["collective"]["sent"] == 1).then_some(stats)
    });
    let refused = &stats["federation"]["refused"];
    for reason in ["forged_reply_to", "bad_target", "loop", "unreadable"] {
        assert_eq!(refused[reason], 1, "{reason}: {stats}");
    }
    assert_eq!(stats["federation"]["received"], 5);
    assert_eq!(stats["status"], "OK");
    assert_eq!(
        stats["federation"]["source"],
        "choria.federation.colla.federation"
    );
    let server = format!("nats://{}", networks.collective.address());
    assert_eq!(stats["collective"]["connected_server"], server.as_str());
    // The same figures come over NATS.
    let told = wait_for("statistics", || {
        let message = federation.next();
        let told: Json = serde_json::from_slice(&message.payload).unwrap();
        (told["federation"]["received"] == 5).then_some(told)
    });
    assert_eq!(
        told["federation"]["refused"],
        stats["federation"]["refused"]
    );
    assert_eq!(
        (&told["cluster"], &told["instance"]),
        (&"colla".into(), &"a1".into())
    );
}

#[test]
fn names_of_the_seed_and_a_side_that_was_away() {
    let Some(mut networks) = Networks::new(1, "naming: seed") else {
        return;
    };
    let ask = |networks: &Networks, text: &str| {
        let mut collective = networks.collective.client();
        collective.subscribe("mcollective.node.a", "");
        let mut asked = packet(text);
        asked.reply_to = Some(REPLY.into());
        asked.federation = Some(Federation {
            request: "1".into(),
            reply_to: None,
            targets: vec!["mcollective.node.a".into()],
        });
        let mut federation = networks.federation.client();
        federation.subscribe(REPLY, "");
        let came = wait_for("the request", || {
            federation.publish("federation.network.colla", &asked.to_json());
            collective.within(Duration::from_millis(200))
        });
        let question = Packet::from_json(&came.payload).unwrap();
        assert_eq!(
            question.reply_to.as_deref(),
            Some("federation.network.colla")
        );
        let mut answer = packet("back");
        answer.federation = question.federation;
        collective.publish("federation.network.colla", &answer.to_json());
        let back = Packet::from_json(&federation.next().payload).unwrap();
        assert_eq!(back.data, b"back");
    };
    ask(&networks, "first");
    networks.collective.kill();
    wait_until("the broker has noticed", || {
        networks.brokers[0]
            .stats()
            .is_some_and(|stats| stats["status"] == "DISCONNECTED")
    });
    networks.collective.restart();
    ask(&networks, "second");
    networks.federation.kill();
    networks.federation.restart();
    ask(&networks, "third");
}

#[test]
fn what_is_missing_in_the_configuration_is_said() {
    let dir = short_dir();
    let run = |text: &str| {
        std::fs::write(dir.path().join("federation-broker"), text).unwrap();
        let mut command = Command::new(halite_program("halite-federation-broker"));
        let done = command.arg("-c").arg(dir.path()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (status, words) = run("cluster: colla\n");
    assert_eq!(status, Some(78));
    assert!(words.contains("federation_servers"), "{words}");
    let (status, words) = run("cluster: 'a b'\n");
    assert_eq!(status, Some(1));
    assert!(words.contains("cluster"), "{words}");
}
