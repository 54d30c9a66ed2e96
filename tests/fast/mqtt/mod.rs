//! Connections to MQTT brokers against a real `mosquitto`.

mod entry;

use halite::arena::mqtt::{MqttEvent, MqttSettings, Publication, Qos, Unsent};
use std::time::Duration;
use testing::mosquitto::{Peer, Rules, publication, settings};
use testing::proxy::Proxy;
use testing::{Mosquitto, wait_until};

/// A message that shows that nothing before it is still on its way.
const MARK: &str = "mark";

/// What this client hears up to the mark that another sends now.
fn before_mark(peer: &Peer, other: &Peer) -> Vec<String> {
    other.publish(MARK, "");
    let mut topics = Vec::new();
    loop {
        let topic = peer.message("the mark", |_| true).topic;
        if topic == MARK {
            return topics;
        }
        topics.push(topic);
    }
}

/// One connection through a relay that can be cut.
fn behind(proxy: &Proxy, client_id: &str) -> MqttSettings {
    settings(&[format!("127.0.0.1:{}", proxy.port)], client_id)
}

#[test]
fn messages_arrive_as_they_were_sent() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let (one, other) = (
        broker.peer("one", &["t/#", MARK]),
        broker.peer("other", &[]),
    );
    for qos in [Qos::Zero, Qos::One, Qos::Two] {
        for payload in [&b""[..], b"text", &[0, 255, 10], &[7; 100_000]] {
            let sent = Publication {
                qos,
                properties: vec![("a".into(), "b".into()), ("a".into(), "ä".into())],
                ..publication("t/x", payload)
            };
            assert_eq!(other.mqtt.publish(sent.clone()), Ok(()));
            let heard = one.on("t/x");
            assert_eq!(heard.payload, payload);
            assert_eq!(heard.properties, sent.properties);
            assert!(!heard.retained);
        }
    }
    assert!(before_mark(&one, &other).is_empty());
    assert_eq!((one.mqtt.dropped(), other.mqtt.refused()), (0, 0));
    // The broker keeps its own version.
    one.mqtt.subscribe("$SYS/broker/version", false);
    assert!(one.on("$SYS/broker/version").retained);
}

#[test]
fn many_messages_arrive_once_and_in_order() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    for qos in [Qos::One, Qos::Two] {
        let (one, other) = (broker.peer("one", &["t/#"]), broker.peer("other", &[]));
        // Far more than may be on their way at once.
        for number in 0..3000 {
            let sent = Publication {
                qos,
                ..publication("t/x", number.to_string())
            };
            assert_eq!(other.mqtt.publish(sent), Ok(()));
            // Subscriptions in between take ids too.
            if number % 10 == 0 {
                other.mqtt.subscribe(&format!("u/{number}"), false);
            }
        }
        let mut heard: Vec<usize> = Vec::new();
        while heard.len() < 3000 {
            let payload = one.on("t/x").payload;
            heard.push(std::str::from_utf8(&payload).unwrap().parse().unwrap());
        }
        if !heard.is_sorted() {
            let at = heard.windows(2).position(|w| w[0] > w[1]).unwrap();
            eprintln!(
                "{qos:?} at {at}: {:?}",
                &heard[at.saturating_sub(30)..(at + 40).min(3000)]
            );
        }
        assert!(heard.iter().copied().eq(0..3000));
        other.settle();
    }
}

#[test]
fn own_messages_come_only_where_they_are_wanted() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let filters = [("own/#", false), ("others/#", true), (MARK, false)];
    let one = Peer::with_room(&broker.settings("one"), &filters, 100);
    one.up();
    let other = broker.peer("other", &[]);
    for topic in ["own/1", "others/1"] {
        one.publish(topic, "mine");
    }
    assert_eq!(before_mark(&one, &other), ["own/1"]);
    other.publish("others/2", "");
    assert_eq!(before_mark(&one, &other), ["others/2"]);
    // The same filter in the other way, and none at all.
    one.mqtt.subscribe("others/#", false);
    one.mqtt.unsubscribe("own/#");
    one.settle();
    for topic in ["own/2", "others/3"] {
        one.publish(topic, "mine");
    }
    assert_eq!(before_mark(&one, &other), ["others/3"]);
}

#[test]
fn the_will_is_said_when_the_connection_breaks_and_not_when_it_is_closed() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let listener = broker.peer("listener", &["will/#", MARK]);
    let with_will = |proxy: &Proxy, name: &str| MqttSettings {
        will: Some(Publication {
            properties: vec![("who".into(), name.into())],
            ..publication(&format!("will/{name}"), format!("{name} is gone"))
        }),
        ..behind(proxy, name)
    };
    let proxy = Proxy::to(broker.port);
    let broken = Peer::open(&with_will(&proxy, "broken"), &[]);
    broken.up();
    proxy.mend();
    let will = listener.on("will/broken");
    assert_eq!(will.payload, &b"broken is gone"[..]);
    assert_eq!(will.properties, [("who".to_owned(), "broken".to_owned())]);
    assert!(!will.retained);
    assert!(broken.down().contains("is lost"));
    broken.up();

    let direct = |name: &str| MqttSettings {
        servers: vec![broker.address()],
        ..with_will(&proxy, name)
    };
    let closed = Peer::open(&direct("closed"), &["#"]);
    let dropped = Peer::open(&direct("dropped"), &["#"]);
    for peer in [&closed, &dropped] {
        peer.up();
    }
    // Much is on its way to them, which they do not read any more.
    for _ in 0..200 {
        let sent = listener.mqtt.publish(publication("noise", vec![1; 10_000]));
        assert_eq!(sent, Ok(()));
    }
    closed.mqtt.close(Duration::from_secs(5));
    drop(dropped);
    wait_until("the broker has seen both go", || {
        let log = broker.log();
        ["closed", "dropped"]
            .iter()
            .all(|name| log.contains(&format!("Client {name} ")))
    });
    listener.settle();
    assert!(before_mark(&listener, &broker.peer("another", &[])).is_empty());
}

#[test]
fn all_is_as_before_when_the_broker_comes_back() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let one = broker.peer("one", &["t/+"]);
    let other = broker.peer("other", &[]);
    for round in 0..2 {
        // Once without a word, once in order.
        match round {
            0 => broker.kill(),
            _ => broker.stop(),
        }
        for peer in [&one, &other] {
            let why = peer.down();
            assert!(why.contains("is lost"), "{why}");
            assert!(!peer.mqtt.settled());
        }
        // What changes meanwhile counts as well.
        one.mqtt.unsubscribe("t/+");
        let filter = format!("u/{round}/#");
        one.mqtt.subscribe(&filter, false);
        let waiting: Vec<String> = (0..50)
            .map(|number| format!("u/{round}/{number}"))
            .collect();
        broker.restart();
        one.up();
        for topic in &waiting {
            let sent = other.mqtt.publish(publication(topic, "waited"));
            assert_eq!(sent, Ok(()));
        }
        other.up();
        let heard: Vec<String> = waiting
            .iter()
            .map(|_| one.message("all", |_| true).topic)
            .collect();
        assert_eq!(heard, waiting);
    }
    other.publish("t/x", "");
    one.mqtt.subscribe("t/#", false);
    one.settle();
    other.publish("t/y", "");
    assert_eq!(one.message("the first", |_| true).topic, "t/y");
}

#[test]
fn what_was_not_acknowledged_is_sent_again() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let listener = broker.peer("listener", &["t/#"]);
    let proxy = Proxy::to(broker.port);
    let one = Peer::open(&behind(&proxy, "one"), &[]);
    one.up();
    // The broker gets these, but its answers are lost: of those with QoS 2 it hands on nothing.
    proxy.deafen();
    for number in 0..100 {
        let sent = publication(&format!("t/{number}"), "x");
        assert_eq!(one.mqtt.publish(sent), Ok(()));
    }
    assert!(!one.mqtt.settled());
    proxy.mend();
    one.down();
    one.up();
    one.settle();
    let mut heard: Vec<String> = Vec::new();
    while heard.last().is_none_or(|topic| topic != "t/99") {
        let topic = listener.message("all of them", |_| true).topic;
        if !heard.contains(&topic) {
            heard.push(topic);
        }
    }
    let all: Vec<String> = (0..100).map(|number| format!("t/{number}")).collect();
    assert_eq!(heard, all);
}

#[test]
fn closing_sends_what_waits() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let listener = broker.peer("listener", &["t/#"]);
    let one = broker.peer("one", &[]);
    for number in 0..500 {
        let sent = publication(&format!("t/{number}"), "x");
        assert_eq!(one.mqtt.publish(sent), Ok(()));
    }
    one.mqtt.close(testing::LONG);
    for number in 0..500 {
        let topic = listener.message("all of them", |_| true).topic;
        assert_eq!(topic, format!("t/{number}"));
    }
    // Also when there is no broker for a while; and not for ever.
    let late = broker.peer("late", &[]);
    broker.kill();
    late.down();
    assert_eq!(late.mqtt.publish(publication("t/late", "x")), Ok(()));
    late.mqtt.close(Duration::from_millis(1));
    listener.down();
    let proxy = Proxy::to(broker.port);
    let late = Peer::open(&behind(&proxy, "late"), &[]);
    late.down();
    assert_eq!(late.mqtt.publish(publication("t/later", "x")), Ok(()));
    let closing = std::thread::spawn(move || late.mqtt.close(testing::LONG));
    // It gets through once somebody listens.
    proxy.cut();
    broker.restart();
    listener.up();
    proxy.mend();
    closing.join().unwrap();
    assert_eq!(listener.message("it", |_| true).topic, "t/later");
}

#[test]
fn what_comes_first_overtakes_what_waits() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let listener = broker.peer("listener", &["t/#"]);
    let proxy = Proxy::to(broker.port);
    proxy.cut();
    let settings = MqttSettings {
        max_waiting: 1000,
        ..behind(&proxy, "one")
    };
    let one = Peer::open(&settings, &[]);
    let topics = |lane: &str, count: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("t/{lane}/{number}"))
            .collect()
    };
    let (rest, first) = (topics("rest", 1000), topics("first", 30));
    for topic in &rest {
        assert_eq!(one.mqtt.publish(publication(topic, "xy")), Ok(()));
    }
    let more = publication("t/more", "xy");
    assert_eq!(one.mqtt.publish(more.clone()), Err(Unsent::Full));
    for topic in &first {
        assert_eq!(one.mqtt.publish_first(publication(topic, "xy")), Ok(()));
    }
    assert_eq!(one.mqtt.waiting(), (1030, 2060));
    let bad = one.mqtt.publish_first(publication("#", "xy"));
    assert_eq!(bad, Err(Unsent::BadTopic));
    proxy.mend();
    one.up();
    one.settle();
    assert_eq!(one.mqtt.waiting(), (0, 0));
    for topic in first.iter().chain(&rest) {
        assert_eq!(&listener.message("all of them", |_| true).topic, topic);
    }
    assert_eq!(one.mqtt.publish(more), Ok(()));
    assert_eq!(listener.message("one more", |_| true).topic, "t/more");
}

#[test]
fn queues_have_limits_in_both_directions() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let small = MqttSettings {
        max_waiting: 10,
        max_packet: 2000,
        ..broker.settings("small")
    };
    let one = Peer::with_room(&small, &[("t/#", false)], 5);
    one.up();
    let bad = |topic: &str| one.mqtt.publish(publication(topic, ""));
    for topic in ["", "a/#", "+/b", "a\0", "a\n"] {
        assert_eq!(bad(topic), Err(Unsent::BadTopic), "{topic:?}");
    }
    let odd = Publication {
        properties: vec![("a".into(), "b\n".into())],
        ..publication("t/x", "")
    };
    assert_eq!(one.mqtt.publish(odd), Err(Unsent::BadTopic));
    let large = publication("t/x", vec![1; 2000]);
    assert_eq!(one.mqtt.publish(large), Err(Unsent::TooLarge(2000)));
    let long = Publication {
        properties: vec![("a".into(), "b".repeat(70_000))],
        ..publication("t/x", "")
    };
    assert_eq!(one.mqtt.publish(long), Err(Unsent::TooLarge(65_535)));

    // Nobody takes what is heard: five messages have room, the connection goes on.
    let other = broker.peer("other", &[]);
    for number in 0..20 {
        other.publish("t/x", number.to_string());
    }
    wait_until("all have come", || one.mqtt.dropped() == 15);
    for number in 0..5 {
        let kept = one.on("t/x").payload;
        assert_eq!(kept, number.to_string().as_bytes());
    }

    broker.kill();
    one.down();
    for _ in 0..10 {
        assert_eq!(one.mqtt.publish(publication("t/x", "y")), Ok(()));
    }
    assert_eq!(one.mqtt.publish(publication("t/x", "y")), Err(Unsent::Full));
    broker.restart();
    one.up();
    one.settle();
    assert_eq!(one.mqtt.publish(publication("t/x", "y")), Ok(()));
}

#[test]
fn large_packets_are_refused_without_an_end_of_the_connection() {
    let rules = Rules::default().more("max_packet_size 5000");
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let one = broker.peer("one", &["t/#"]);
    let large = |topic| publication(topic, vec![1; 6000]);
    assert_eq!(one.mqtt.publish(large("t/x")), Err(Unsent::TooLarge(5000)));
    one.publish("t/x", vec![1; 4900]);
    assert_eq!(one.on("t/x").payload.len(), 4900);

    // What was taken before the broker was known.
    let late = Peer::open(
        &settings(&["127.0.0.1:1".into(), broker.address()], "late"),
        &["t/late"],
    );
    let before = late.mqtt.publish(large("t/late"));
    late.up();
    match before {
        Ok(()) => wait_until("it is refused", || late.mqtt.refused() == 1),
        Err(why) => assert_eq!(why, Unsent::TooLarge(5000)),
    }
    late.publish("t/late", "small");
    assert_eq!(late.on("t/late").payload, &b"small"[..]);

    // The broker keeps from us what is too large for us.
    let small = MqttSettings {
        max_packet: 1024,
        ..broker.settings("small")
    };
    let small = Peer::open(&small, &["t/#"]);
    small.up();
    one.publish("t/large", vec![1; 3000]);
    one.publish("t/small", vec![1; 300]);
    assert_eq!(small.message("the small one", |_| true).topic, "t/small");
}

#[test]
fn messages_that_only_the_broker_finds_too_large_are_counted() {
    let rules = Rules::default().more("message_size_limit 5000");
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let one = broker.peer("one", &["t/#"]);
    // More than may be on their way at once: refusals make room again.
    for _ in 0..60 {
        one.publish("t/x", vec![1; 6000]);
    }
    one.publish("t/x", "small");
    assert_eq!(
        one.message("the small one", |_| true).payload,
        &b"small"[..]
    );
    assert_eq!(one.mqtt.refused(), 60);
    let connected = broker.log().matches("New client connected").count();
    assert_eq!(connected, 1, "{}", broker.log());
}

#[test]
fn thousands_of_subscriptions_come_back() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let (one, other) = (broker.peer("one", &[]), broker.peer("other", &[]));
    let filter = |number: usize| format!("realm/proc/control/{number}");
    for number in 0..5000 {
        one.mqtt.subscribe(&filter(number), false);
    }
    one.settle();
    let all_hear = |numbers: &[usize]| {
        for number in numbers {
            other.publish(&filter(*number), "");
            assert_eq!(one.message("a message", |_| true).topic, filter(*number));
        }
    };
    all_hear(&[0, 99, 100, 2500, 4999]);
    broker.kill();
    one.down();
    other.down();
    // One half goes, another thousand comes, while nobody is there to be told.
    for number in 0..2500 {
        one.mqtt.unsubscribe(&filter(number));
    }
    for number in 5000..6000 {
        one.mqtt.subscribe(&filter(number), false);
    }
    broker.restart();
    one.up();
    other.up();
    other.publish(&filter(0), "");
    all_hear(&[2500, 4999, 5000, 5999]);
    for number in 2500..6000 {
        one.mqtt.unsubscribe(&filter(number));
    }
    one.settle();
    other.publish(&filter(5999), "");
    one.subscribe(MARK);
    assert!(before_mark(&one, &other).is_empty());
}

#[test]
fn servers_are_tried_in_turn() {
    let Some(mut first) = Mosquitto::start() else {
        return;
    };
    let second = Mosquitto::start().unwrap();
    first.kill();
    let one = Peer::open(
        &settings(&[first.address(), second.address()], "one"),
        &["t"],
    );
    let why = one.down();
    assert!(
        why.contains(&first.address()) && why.contains("refused"),
        "{why}"
    );
    assert_eq!(one.up(), format!("mqtt://{}", second.address()));
    first.restart();
    drop(second);
    one.down();
    assert_eq!(one.up(), format!("mqtt://{}", first.address()));
    one.publish("t", "x");
    one.on("t");
}

#[test]
fn a_silent_broker_is_left() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let settings = MqttSettings {
        keep_alive: Duration::from_secs(1),
        ..broker.settings("one")
    };
    let one = Peer::open(&settings, &["t"]);
    one.up();
    broker.freeze(true);
    let why = one.down();
    assert!(why.contains("nothing was received"), "{why}");
    broker.freeze(false);
    one.up();
    one.publish("t", "x");
    one.on("t");
}

#[test]
fn the_last_word_about_the_connection_waits_for_room() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let one = Peer::with_room(&broker.settings("one"), &[("t", false)], 1);
    one.up();
    let other = broker.peer("other", &[]);
    other.publish("t", "fills the queue");
    other.publish("t", "is dropped");
    wait_until("the second is dropped", || one.mqtt.dropped() == 1);
    broker.kill();
    other.down();
    broker.restart();
    wait_until("it is there again", || one.mqtt.settled());
    // Down had no room and is old; Up comes.
    assert!(matches!(one.next(), MqttEvent::Message(_)));
    assert!(matches!(one.next(), MqttEvent::Up(_)));
}
