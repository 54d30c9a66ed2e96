//! Connectors of the collective against a real `nats-server`.

use halite::collective::broker::{Heard, Place, To, Unsent};
use halite::collective::wire::{Federation, Identity, Packet, Refused};
use halite::wire::{Map, Value};
use serde_json::{Value as Json, json};
use std::path::Path;
use testing::authority::Authority;
use testing::collective::{Peer, discovery, main_collective, node, packet, settings, to};
use testing::{NatsServer, short_dir, wait_for, wait_until};

/// MD5 of the caller id.
const TOKEN: &str = "37bdf08389145a56c13096c178802d3b";

#[test]
fn requests_and_answers_come_to_their_places() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let (client, servant) = (Peer::at(&server), Peer::at(&server));
    assert_eq!(client.up(), format!("nats://{}", server.address()));
    servant.up();
    let places = [discovery(), node("node1.example")];
    for place in &places {
        servant.connector.subscribe(place);
    }
    servant.hears(&server, "mcollective.broadcast.agent.discovery");
    servant.hears(&server, "mcollective.node.node1.example");
    let replies = Place::Replies(main_collective());
    client.connector.subscribe(&replies);
    for (number, place) in places.iter().enumerate() {
        let asked = packet(&format!("question {number}"));
        client
            .connector
            .publish(&to(place), asked.clone(), true, 60)
            .unwrap();
        let (where_to, question) = servant.packet();
        assert_eq!(where_to.as_ref(), Some(place));
        assert_eq!(question.data, asked.data);
        let reply_to = question.reply_to.unwrap();
        assert!(
            reply_to.starts_with(&format!(
                "mcollective.reply.{TOKEN}.{}.",
                std::process::id()
            )),
            "{reply_to}"
        );
        let answer = packet(&format!("answer {number}"));
        servant
            .connector
            .publish(&To::Reply(reply_to), answer.clone(), false, 60)
            .unwrap();
        assert_eq!(client.packet(), (Some(replies.clone()), answer));
    }
    let named = server.connections();
    assert!(
        named.iter().all(|one| one["name"] == "rip.mcollective"),
        "{named:?}"
    );
    servant.connector.unsubscribe(&places[0]);
    client
        .connector
        .publish(&to(&places[0]), packet("nobody"), true, 60)
        .unwrap();
    let mut heard_after = 0;
    wait_until("the subscription has ended", || {
        client
            .connector
            .publish(&to(&places[0]), packet("nobody"), true, 60)
            .unwrap();
        client
            .connector
            .publish(&to(&places[1]), packet("mark"), true, 60)
            .unwrap();
        let mut nobody = 0;
        loop {
            let (_, packet) = servant.packet();
            match packet.data.as_slice() {
                b"mark" => break,
                _ => nobody += 1,
            }
        }
        heard_after += nobody;
        nobody == 0
    });
    assert!(heard_after < 1000);
}

#[test]
fn subscriptions_outlive_the_broker() {
    let Some(mut server) = NatsServer::start(&[]) else {
        return;
    };
    let peer = Peer::at(&server);
    peer.connector.subscribe(&node("node1.example"));
    peer.up();
    peer.hears(&server, "mcollective.node.node1.example");
    for round in 0..2 {
        server.kill();
        let why = peer.down();
        assert!(why.contains("is lost"), "{why}");
        // Of what waits, only what somebody still listens to goes out.
        let stale = peer
            .connector
            .publish(&to(&node("node1.example")), packet("stale"), true, 0);
        stale.unwrap();
        let text = format!("fresh {round}");
        peer.connector
            .publish(&to(&node("node1.example")), packet(&text), true, 3600)
            .unwrap();
        server.restart();
        loop {
            match peer.next() {
                Heard::Down(why) => assert!(why.contains("cannot be used"), "{why}"),
                Heard::Up(_) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(peer.packet().1.data, text.as_bytes());
    }
}

#[test]
fn what_is_too_large_or_too_much_is_not_sent_at_all() {
    let Some(mut server) = NatsServer::start(&[]) else {
        return;
    };
    let peer = Peer::at(&server);
    peer.up();
    let mut listener = server.client();
    listener.subscribe(">", "");
    let place = to(&discovery());
    let mut large = packet("");
    large.data = vec![7; 800_000];
    let refused = peer.connector.publish(&place, large, true, 60);
    assert_eq!(refused, Err(Unsent::TooLarge(1 << 20)));
    let mut fitting = packet("");
    fitting.data = vec![7; 700_000];
    peer.connector
        .publish(&place, fitting.clone(), true, 60)
        .unwrap();
    let first = Packet::from_json(&listener.next().payload).unwrap();
    assert_eq!(first.data, fitting.data);

    server.kill();
    peer.down();
    // 68 of these fill the 64 MiB that may wait.
    let mut taken = 0;
    while peer
        .connector
        .publish(&place, fitting.clone(), true, 60)
        .is_ok()
    {
        taken += 1;
        assert!(taken < 100);
    }
    assert!(taken > 50, "{taken}");
    assert_eq!(
        peer.connector.publish(&place, fitting, true, 60),
        Err(Unsent::Full)
    );
}

#[test]
fn what_finds_no_room_is_counted() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let peer = Peer::open(&settings(&[server.address()], Map::new()), 4);
    peer.connector.subscribe(&discovery());
    peer.up();
    peer.hears(&server, "mcollective.broadcast.agent.discovery");
    let mut client = server.client();
    for number in 0..100 {
        let text = packet(&number.to_string()).to_json();
        client.publish("mcollective.broadcast.agent.discovery", &text);
    }
    wait_until("the rest is dropped", || peer.connector.dropped() == 96);
    for number in 0..4 {
        assert_eq!(peer.packet().1.data, number.to_string().as_bytes());
    }
}

#[test]
fn what_is_no_packet_is_told_and_forged_addresses_are_not_served() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let peer = Peer::at(&server);
    peer.connector.subscribe(&discovery());
    peer.up();
    peer.hears(&server, "mcollective.broadcast.agent.discovery");
    let mut client = server.client();
    client.publish("mcollective.broadcast.agent.discovery", b"{\"data\":");
    assert!(matches!(peer.next(), Heard::Refused(Refused::Malformed(_))));
    for forged in [
        "mcollective.broadcast.agent.shell",
        "mcollective.reply.>",
        "a b",
        "",
    ] {
        let sent = peer
            .connector
            .publish(&To::Reply(forged.into()), packet("x"), false, 60);
        assert_eq!(sent, Err(Unsent::Forbidden), "{forged}");
    }
}

fn vectors(name: &str) -> Vec<(String, Json)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/collective");
    let text = std::fs::read_to_string(path.join(name)).unwrap();
    let whole: Json = serde_json::from_str(&text).unwrap();
    let messages = whole["messages"].as_array().unwrap().iter();
    messages
        .map(|message| {
            let subject = message["subject"].as_str().unwrap().to_owned();
            (subject, message["transport"].clone())
        })
        .collect()
}

/// Every captured message goes through the broker twice: from a bare client to the connector, and from the connector to
/// a bare client.
#[test]
fn captured_exchanges_pass_the_broker_octet_by_octet() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let (mut requests, mut replies) = (0, 0);
    for name in [
        "choria-seed-generation-nats.json",
        "choria-v1-json-nats.json",
    ] {
        let peer = Peer::at(&server);
        let ours = Place::Replies(main_collective());
        peer.connector.subscribe(&ours);
        peer.connector.subscribe(&discovery());
        for name in ["rpcutil", "nosuch"] {
            let agent = name.parse().unwrap();
            peer.connector
                .subscribe(&Place::Broadcast(main_collective(), agent));
        }
        for name in ["node1.example", "node2.example"] {
            peer.connector.subscribe(&node(name));
        }
        peer.up();
        for subject in [
            "broadcast.agent.rpcutil",
            "node.node1.example",
            "node.node2.example",
        ] {
            peer.hears(&server, &format!("mcollective.{subject}"));
        }
        peer.hears(&server, "mcollective.broadcast.agent.discovery");
        // Our own reply subject shows in a request.
        let mut listener = server.client();
        listener.subscribe("mcollective.node.nobody", "");
        peer.connector
            .publish(&to(&node("nobody")), packet(""), true, 60)
            .unwrap();
        let own = listener.next().reply.unwrap();
        peer.hears(&server, &own);
        let mut sender = server.client();
        for (subject, transport) in vectors(name) {
            let bytes = serde_json::to_vec(&transport).unwrap();
            let expected = Packet::from_json(&bytes).unwrap();
            let answer = subject.contains(".reply.");
            sender.publish(if answer { &own } else { &subject }, &bytes);
            let (place, heard) = peer.packet();
            assert_eq!(heard, expected);
            match place.unwrap() {
                Place::Replies(_) => {
                    assert!(answer);
                    replies += 1;
                    let mut client = server.client();
                    client.subscribe(&subject, "");
                    peer.connector
                        .publish(&To::Reply(subject.clone()), heard, false, 60)
                        .unwrap();
                    let again = client.next();
                    assert_eq!((again.subject, again.reply), (subject, None));
                    assert_eq!(again.payload, bytes);
                }
                place => {
                    requests += 1;
                    let mut client = server.client();
                    client.subscribe(&subject, "");
                    peer.connector
                        .publish(&to(&place), heard, true, 60)
                        .unwrap();
                    let again = client.next();
                    assert_eq!(again.subject, subject);
                    assert_eq!(again.reply.as_ref(), Some(&own));
                    let mut wire: Json = serde_json::from_slice(&again.payload).unwrap();
                    wire["headers"]["reply-to"] = transport["headers"]["reply-to"].clone();
                    assert_eq!(serde_json::to_vec(&wire).unwrap(), bytes);
                    // The connector hears its own request as well.
                    peer.packet();
                }
            }
        }
    }
    assert_eq!((requests, replies), (14, 18));
}

#[test]
fn requests_to_federations_name_their_targets() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let names = vec![Value::from("colla"), Value::from("collb")];
    let more = halite::map! {"federations" => names};
    let peer = Peer::open(&settings(&[server.address()], more), 1000);
    peer.up();
    let mut broker = server.client();
    broker.subscribe("choria.federation.*.federation", "");
    let nodes: Vec<Identity> = (0..450)
        .map(|n| format!("n{n}.example").parse().unwrap())
        .collect();
    let mut asked = packet("question");
    asked.federation = Some(Federation {
        request: "a9c8115fda9c567c97b78f4ffd935290".into(),
        ..Federation::default()
    });
    let everywhere = To::Nodes(main_collective(), nodes);
    peer.connector
        .publish(&everywhere, asked, true, 60)
        .unwrap();
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..6 {
        let message = broker.next();
        let packet = Packet::from_json(&message.payload).unwrap();
        let federation = packet.federation.unwrap();
        assert_eq!(federation.request, "a9c8115fda9c567c97b78f4ffd935290");
        assert_eq!(federation.reply_to, None);
        assert!(federation.targets.len() <= 200);
        assert_eq!(packet.reply_to, message.reply);
        let which = usize::from(message.subject == "choria.federation.collb.federation");
        seen[which].extend(federation.targets);
    }
    let expected: Vec<String> = (0..450)
        .map(|n| format!("mcollective.node.n{n}.example"))
        .collect();
    assert_eq!(seen, [expected.clone(), expected]);
    // An answer that comes through a broker comes without the header; one of ours to it goes with it.
    let mut servant = packet("answer");
    let back = To::Reply("choria.federation.colla.collective".into());
    let sent = peer.connector.publish(&back, servant.clone(), false, 60);
    assert_eq!(sent, Err(Unsent::Forbidden));
    servant.federation = Some(Federation {
        request: "a9c8115fda9c567c97b78f4ffd935290".into(),
        reply_to: Some("mcollective.reply.x.1.1".into()),
        targets: Vec::new(),
    });
    broker.subscribe("choria.federation.colla.collective", "");
    peer.connector
        .publish(&back, servant.clone(), false, 60)
        .unwrap();
    assert_eq!(Packet::from_json(&broker.next().payload).unwrap(), servant);
}

#[test]
fn the_way_of_a_message_is_noted_where_it_asks_for_it() {
    let Some(server) = NatsServer::start(&[]) else {
        return;
    };
    let peer = Peer::at(&server);
    let place = node("node1.example");
    peer.connector.subscribe(&place);
    peer.up();
    peer.hears(&server, "mcollective.node.node1.example");
    let mut asked = packet("x");
    asked.seen_by = Some(Vec::new());
    peer.connector
        .publish(&to(&place), asked, true, 60)
        .unwrap();
    let (_, mut heard) = peer.packet();
    let at = format!("nats://{}", server.address());
    let route = heard.seen_by.clone().unwrap();
    assert_eq!(
        json!(route),
        json!([["rip.mcollective", at], [at, "node1.example"]])
    );
    heard.sender = Some("node1.example".into());
    let mut client = server.client();
    client.subscribe("mcollective.reply.x", "");
    let back = To::Reply("mcollective.reply.x".into());
    peer.connector.publish(&back, heard, false, 60).unwrap();
    let route = Packet::from_json(&client.next().payload)
        .unwrap()
        .seen_by
        .unwrap();
    assert_eq!(
        json!(route),
        json!([["rip.mcollective", at], [at, "node1.example", at]])
    );
}

#[test]
fn the_next_server_is_tried_and_bad_passwords_are_told_in_words() {
    let Some(server) = NatsServer::start(&["--user", "choria", "--pass", "s3cret"]) else {
        return;
    };
    let gone = testing::ports::Ports::hold(1).numbers()[0];
    let servers = [format!("127.0.0.1:{gone}"), server.address()];
    let login = |password: &str| {
        let more = halite::map! {"user" => "choria", "password" => password};
        Peer::open(&settings(&servers, more), 1000)
    };
    let good = login("s3cret");
    let first = good.down();
    assert!(first.contains(&servers[0]), "{first}");
    assert_eq!(good.up(), format!("nats://{}", server.address()));
    let bad = login("guess");
    let why = wait_for("a refusal", || {
        Some(bad.down()).filter(|why| why.contains(&servers[1]))
    });
    assert!(why.contains("authorization"), "{why}");
    assert!(!why.contains("guess"));
}

#[test]
fn tls_takes_certificates_of_the_own_ca_only() {
    let dir = short_dir();
    let authority = Authority::new(&dir.path().join("ours"), "ours");
    let stranger = Authority::new(&dir.path().join("theirs"), "theirs");
    let of_server = authority.issue("localhost");
    let Some(server) =
        NatsServer::start_tls(&authority.file(), &of_server.certificate, &of_server.key)
    else {
        return;
    };
    let text = |path: &Path| path.display().to_string();
    let peer = |ca: &Authority, by: &Authority| {
        let own = by.issue("rip.mcollective");
        let more = halite::map! {
            "tls" => true, "tls_ca" => text(&ca.file()),
            "tls_cert" => text(&own.certificate), "tls_key" => text(&own.key),
        };
        Peer::open(
            &settings(&[format!("localhost:{}", server.port)], more),
            1000,
        )
    };
    let good = peer(&authority, &authority);
    good.connector.subscribe(&node("a"));
    assert_eq!(good.up(), format!("nats://localhost:{}", server.port));
    good.connector
        .publish(&to(&node("a")), packet("sealed"), true, 60)
        .unwrap();
    assert_eq!(good.packet().1.data, b"sealed");
    let why = peer(&stranger, &authority).down();
    assert!(why.to_lowercase().contains("certificate"), "{why}");
    let why = peer(&authority, &stranger).down();
    assert!(why.contains("cannot be used"), "{why}");
}
