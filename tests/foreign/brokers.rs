//! The connector for STOMP against a real `rabbitmq-server`.

use halite::collective::broker::{Heard, Place, To, Unsent};
use halite::config::CollectiveGateway;
use halite::map;
use halite::wire::Map;
use testing::authority::Authority;
use testing::collective::{Peer, discovery, main_collective, node, packet, settings, to};
use testing::{RabbitMq, short_dir, wait_for};

fn login(server: &RabbitMq, more: Map) -> CollectiveGateway {
    let mut all = map! {
        "connector" => "rabbitmq", "security" => "psk", "psk_file" => "/psk",
        "user" => "choria", "password" => "s3cret",
    };
    for (name, value) in more.0 {
        all.set(name.as_str().unwrap(), value);
    }
    settings(&[server.address()], all)
}

fn peer(server: &RabbitMq, places: &[Place]) -> Peer {
    let peer = Peer::open(&login(server, Map::new()), 1000);
    for place in places {
        peer.connector.subscribe(place);
    }
    assert_eq!(peer.up(), server.address());
    peer
}

/// One question to each place, and the answers.
fn converse(client: &Peer, servant: &Peer, places: &[Place]) {
    for (number, place) in places.iter().enumerate() {
        let mut asked = packet("");
        asked.data = (0..=255).collect();
        asked.data.push(u8::try_from(number).unwrap());
        client
            .connector
            .publish(&to(place), asked.clone(), true, 60)
            .unwrap();
        let (where_to, question) = servant.packet();
        assert_eq!(where_to.as_ref(), Some(place));
        assert_eq!(question.data, asked.data);
        assert_eq!(question.sender, asked.sender);
        let reply_to = question.reply_to.unwrap();
        assert!(reply_to.starts_with("/reply-queue/"), "{reply_to}");
        let answer = packet(&format!("answer {number}"));
        servant
            .connector
            .publish(&To::Reply(reply_to), answer.clone(), false, 60)
            .unwrap();
        let (where_to, reply) = client.packet();
        assert_eq!(where_to, Some(Place::Replies(main_collective())));
        assert_eq!(reply.data, answer.data);
    }
}

#[test]
fn requests_and_answers_pass_rabbitmq_and_outlive_it() {
    let Some(mut server) = RabbitMq::start(&["mcollective"]) else {
        return;
    };
    let places = [discovery(), node("node1.example")];
    let servant = peer(&server, &places);
    let client = peer(&server, &[Place::Replies(main_collective())]);
    converse(&client, &servant, &places);
    assert!(server.log().contains("STOMP"), "{}", server.log());

    // What is for others does not come here; what comes is in order.
    client
        .connector
        .publish(&to(&node("node2.example")), packet("other"), true, 60)
        .unwrap();
    let nodes = To::Nodes(
        main_collective(),
        ["node2.example", "node1.example"]
            .map(|n| n.parse().unwrap())
            .to_vec(),
    );
    client
        .connector
        .publish(&nodes, packet("both"), true, 60)
        .unwrap();
    assert_eq!(servant.packet().1.data, b"both");

    // No longer subscribed.
    servant.connector.unsubscribe(&places[0]);
    servant.connector.subscribe(&node("later.example"));
    wait_for("the new subscription", || {
        client
            .connector
            .publish(&to(&places[0]), packet("early"), true, 60)
            .unwrap();
        client
            .connector
            .publish(&to(&node("later.example")), packet("mark"), true, 60)
            .unwrap();
        let heard = servant
            .heard
            .recv_timeout(std::time::Duration::from_millis(200))
            .ok()?;
        matches!(heard, Heard::Packet(Some(Place::Node(..)), _)).then_some(())
    });
    client
        .connector
        .publish(&to(&places[0]), packet("nobody"), true, 60)
        .unwrap();
    client
        .connector
        .publish(&to(&node("node1.example")), packet("last"), true, 60)
        .unwrap();
    let place = wait_for("the last", || match servant.packet() {
        (place, packet) if packet.data == b"last" => Some(place),
        (_, packet) => {
            assert_ne!(packet.data, b"nobody");
            None
        }
    });
    assert_eq!(place, Some(places[1].clone()));
    servant.connector.unsubscribe(&node("later.example"));
    servant.connector.subscribe(&places[0]);

    server.kill();
    for peer in [&client, &servant] {
        let why = wait_for("the end of the connection", || match peer.next() {
            Heard::Down(why) => Some(why),
            _ => None,
        });
        assert!(why.contains("is lost"), "{why}");
    }
    server.restart();
    for peer in [&client, &servant] {
        wait_for("a new connection", || match peer.next() {
            Heard::Up(server) => Some(server),
            Heard::Down(why) => {
                assert!(why.contains("cannot be used"), "{why}");
                None
            }
            other => panic!("{other:?}"),
        });
    }
    converse(&client, &servant, &places);

    for forged in [
        "/exchange/mcollective_broadcast/shell",
        "/queue/a",
        "/reply-queue/a\nb:c",
    ] {
        let sent = client
            .connector
            .publish(&To::Reply(forged.into()), packet("x"), false, 60);
        assert_eq!(sent, Err(Unsent::Forbidden), "{forged}");
    }

    // What is wrong is told in words.
    let bad = Peer::open(&login(&server, map! {"password" => "guess"}), 10);
    let why = bad.down();
    assert!(
        why.contains("Access refused") && !why.contains("guess"),
        "{why}"
    );
    let lost = Peer::open(&login(&server, Map::new()), 10);
    let elsewhere: Place = Place::Broadcast("other".parse().unwrap(), "discovery".parse().unwrap());
    lost.connector.subscribe(&elsewhere);
    let why = wait_for("a complaint", || match lost.next() {
        Heard::Down(why) => Some(why),
        _ => None,
    });
    assert!(
        why.contains("other_broadcast") && why.contains("declare"),
        "{why}"
    );
}

#[test]
fn tls_takes_certificates_of_the_own_ca_only() {
    let dir = short_dir();
    let authority = Authority::new(&dir.path().join("ours"), "ours");
    let stranger = Authority::new(&dir.path().join("theirs"), "theirs");
    let of_server = authority.issue("localhost");
    let Some(server) = RabbitMq::start_tls(&["mcollective"], &authority.file(), &of_server) else {
        return;
    };
    let text = |path: &std::path::Path| path.display().to_string();
    let peer = |ca: &Authority, by: &Authority| {
        let own = by.issue("rip.mcollective");
        let mut settings = login(
            &server,
            map! {
                "tls" => true, "tls_ca" => text(&ca.file()),
                "tls_cert" => text(&own.certificate), "tls_key" => text(&own.key),
            },
        );
        settings.servers = vec![format!("localhost:{}", server.port)];
        Peer::open(&settings, 100)
    };
    let good = peer(&authority, &authority);
    good.connector.subscribe(&node("a"));
    assert_eq!(good.up(), format!("localhost:{}", server.port));
    // More than a record of TLS, in both directions.
    let mut large = packet("");
    large.data = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    for _ in 0..5 {
        good.connector
            .publish(&to(&node("a")), large.clone(), true, 60)
            .unwrap();
    }
    for _ in 0..5 {
        let came = wait_for("it", || match good.next() {
            Heard::Packet(_, packet) => Some(packet),
            _ => None,
        });
        assert_eq!(came.data, large.data);
    }
    let why = peer(&stranger, &authority).down();
    assert!(why.contains("certificate"), "{why}");
    let why = peer(&authority, &stranger).down();
    assert!(why.contains("cannot be used"), "{why}");
}
