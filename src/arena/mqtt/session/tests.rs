use super::*;
use bytes::Bytes;
use rumqttc::v5::mqttbytes::v5::{SubAck, SubscribeReasonCode, UnsubAck, UnsubAckReason};

fn session(flying: u16) -> Session {
    Session::new(Limits {
        flying,
        qos: Qos::Two,
    })
}

fn waiting(publish: Publish) -> Waiting {
    Waiting {
        publish,
        lane: Lane::Rest,
        number: 0,
    }
}

fn message(topic: &str, qos: QoS) -> Waiting {
    waiting(Publish::new(topic, qos, vec![1, 2, 3], None))
}

fn id(packet: &Packet) -> u16 {
    match packet {
        Packet::Publish(publish) => publish.pkid,
        Packet::Subscribe(subscribe) => subscribe.pkid,
        Packet::Unsubscribe(unsubscribe) => unsubscribe.pkid,
        other => panic!("{other:?}"),
    }
}

fn said(packet: Packet) -> Frame {
    Frame::Packet(Box::new(packet))
}

fn ack(step: AckKind, id: u16) -> Frame {
    Frame::Ack(step, id, None)
}

fn want(filter: &str, no_local: bool) -> (String, Option<bool>) {
    (filter.to_owned(), Some(no_local))
}

fn answered(id: u16, codes: &[SubscribeReasonCode]) -> Frame {
    said(Packet::SubAck(SubAck {
        pkid: id,
        return_codes: codes.to_vec(),
        properties: None,
    }))
}

#[test]
fn a_publication_flies_until_its_last_acknowledgement() {
    let mut session = session(2);
    let one = id(&session.publish(message("1", QoS::AtLeastOnce)));
    let two = id(&session.publish(message("2", QoS::ExactlyOnce)));
    assert_ne!(one, two);
    assert!(!session.has_room(Lane::Rest));
    assert_eq!(id(&session.publish(message("0", QoS::AtMostOnce))), 0);
    session.handle_frame(ack(AckKind::There, one)).unwrap();
    assert!(session.has_room(Lane::Rest));
    let outcome = session.handle_frame(ack(AckKind::Received, two)).unwrap();
    assert!(matches!(outcome.answer, Some(Packet::PubRel(release)) if release.pkid == two));
    assert_eq!(session.flying(), 1);
    session.handle_frame(ack(AckKind::Complete, two)).unwrap();
    assert_eq!((session.flying(), session.bytes), (0, 0));
}

#[test]
fn what_flies_comes_back_in_order() {
    let mut session = session(100);
    let ids: Vec<u16> = (0..50)
        .map(|number| id(&session.publish(message(&number.to_string(), QoS::ExactlyOnce))))
        .collect();
    for gone in [3, 17] {
        session
            .handle_frame(ack(AckKind::Received, ids[gone]))
            .unwrap();
        session
            .handle_frame(ack(AckKind::Complete, ids[gone]))
            .unwrap();
    }
    // Received, but perhaps not forwarded.
    session
        .handle_frame(ack(AckKind::Received, ids[5]))
        .unwrap();
    let topics = session
        .unacknowledged()
        .into_iter()
        .map(|p| p.publish.topic);
    let left = (0..50).filter(|number| ![3, 17].contains(number));
    assert!(topics.eq(left.map(|number: i32| number.to_string())));
}

#[test]
fn places_are_kept_for_what_comes_first() {
    let mut session = session(20);
    while session.has_room(Lane::Rest) {
        session.publish(message("t", QoS::AtLeastOnce));
    }
    assert_eq!(session.flying(), 18);
    while session.has_room(Lane::First) {
        session.publish(message("t", QoS::AtLeastOnce));
    }
    assert_eq!(session.flying(), 20);
}

#[test]
fn a_refused_publication_makes_room() {
    let mut session = session(1);
    for (qos, step) in [
        (QoS::AtLeastOnce, AckKind::There),
        (QoS::ExactlyOnce, AckKind::Received),
    ] {
        for _ in 0..3 {
            assert!(session.has_room(Lane::Rest));
            let number = id(&session.publish(message("t", qos)));
            let outcome = session
                .handle_frame(Frame::Ack(step, number, Some(0x87)))
                .unwrap();
            let (publish, why) = outcome.refused.unwrap();
            assert_eq!((&publish.topic[..], why), (&b"t"[..], "not authorized"));
        }
    }
    assert!(session.has_room(Lane::Rest));
}

#[test]
fn ids_of_what_is_on_its_way_are_not_given_again() {
    let mut session = session(u16::MAX);
    let kept = id(&session.publish(message("kept", QoS::ExactlyOnce)));
    let asked = id(&session.change_filters(vec![want("a", false)])[0]);
    for _ in 0..70_000 {
        let number = id(&session.publish(message("t", QoS::AtLeastOnce)));
        assert!(number != kept && number != asked && number != 0);
        session.handle_frame(ack(AckKind::There, number)).unwrap();
    }
}

#[test]
fn what_is_large_waits_for_room_too() {
    let mut session = session(u16::MAX);
    let large = Publish::new("t", QoS::AtLeastOnce, vec![0; WINDOW_BYTES], None);
    let number = id(&session.publish(waiting(large)));
    assert!(!session.has_room(Lane::Rest));
    assert!(session.has_room(Lane::First));
    session.handle_frame(ack(AckKind::There, number)).unwrap();
    assert!(session.has_room(Lane::Rest));
}

#[test]
fn a_broker_that_knows_less_gets_less() {
    let mut session = Session::new(Limits {
        flying: 10,
        qos: Qos::One,
    });
    let Packet::Publish(sent) = session.publish(message("t", QoS::ExactlyOnce)) else {
        panic!("a publication");
    };
    assert_eq!(sent.qos, QoS::AtLeastOnce);
    session
        .handle_frame(ack(AckKind::There, sent.pkid))
        .unwrap();
    assert_eq!(session.flying(), 0);
}

#[test]
fn acknowledgements_that_do_not_fit_end_the_connection() {
    let with_flight = || {
        let mut session = session(10);
        let number = id(&session.publish(message("t", QoS::ExactlyOnce)));
        (session, number)
    };
    for step in [AckKind::There, AckKind::Complete] {
        let (mut session, number) = with_flight();
        session.handle_frame(ack(step, number)).unwrap_err();
    }
    let (mut session, number) = with_flight();
    session
        .handle_frame(ack(AckKind::Received, number + 1))
        .unwrap_err();
    session.handle_frame(answered(number, &[])).unwrap_err();
    let unsubscribed = UnsubAck {
        pkid: 9,
        reasons: vec![UnsubAckReason::Success],
        properties: None,
    };
    session
        .handle_frame(said(Packet::UnsubAck(unsubscribed)))
        .unwrap_err();
    session
        .handle_frame(Frame::Goodbye("bye".into()))
        .unwrap_err();
}

#[test]
fn the_same_message_is_told_once() {
    let mut session = session(10);
    let incoming = |pkid| {
        let mut publish = message("t", QoS::ExactlyOnce).publish;
        publish.pkid = pkid;
        said(Packet::Publish(publish))
    };
    let release = |pkid| said(Packet::PubRel(PubRel::new(pkid, None)));
    let outcome = session.handle_frame(incoming(5)).unwrap();
    assert!(outcome.message.is_some());
    assert!(matches!(outcome.answer, Some(Packet::PubRec(ack)) if ack.pkid == 5));
    let again = session.handle_frame(incoming(5)).unwrap();
    assert!(again.message.is_none() && again.answer.is_some());
    let outcome = session.handle_frame(release(5)).unwrap();
    assert!(matches!(outcome.answer, Some(Packet::PubComp(ack)) if ack.pkid == 5));
    assert!(session.handle_frame(incoming(5)).unwrap().message.is_some());
    let mut nameless = message("", QoS::AtMostOnce).publish;
    nameless.topic = Bytes::new();
    session
        .handle_frame(said(Packet::Publish(nameless)))
        .unwrap_err();
}

#[test]
fn filters_are_asked_for_in_parts() {
    let mut session = session(10);
    let many: Vec<_> = (0..250)
        .map(|number| want(&number.to_string(), true))
        .collect();
    let packets = session.change_filters(many.clone());
    let sizes: Vec<usize> = packets
        .iter()
        .map(|packet| match packet {
            Packet::Subscribe(subscribe) => subscribe.filters.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(session.asked(), 3);
    // Nothing new.
    assert!(session.change_filters(many).is_empty());
    let long = vec![want(&"x".repeat(FILTERS_BYTES), false), want("y", false)];
    assert_eq!(session.change_filters(long).len(), 2);
}

#[test]
fn changes_of_a_filter_are_told_and_refusals_heard() {
    let mut session = session(10);
    let first = session.change_filters(vec![want("a", false), want("b", true)]);
    let Packet::Subscribe(subscribe) = &first[0] else {
        panic!("{first:?}");
    };
    let sent: Vec<_> = subscribe
        .filters
        .iter()
        .map(|f| (f.path.as_str(), f.nolocal, f.qos))
        .collect();
    assert_eq!(
        sent,
        [
            ("a", false, QoS::ExactlyOnce),
            ("b", true, QoS::ExactlyOnce)
        ]
    );
    let codes = [
        SubscribeReasonCode::Success(QoS::AtMostOnce),
        SubscribeReasonCode::NotAuthorized,
    ];
    let outcome = session
        .handle_frame(answered(subscribe.pkid, &codes))
        .unwrap();
    assert_eq!(outcome.denied, [("b".to_owned(), "not authorized")]);
    assert_eq!(session.asked(), 0);
    // The other way round: first unsubscribed, then subscribed again.
    let again = session.change_filters(vec![
        want("a", true),
        ("b".to_owned(), None),
        ("c".to_owned(), None),
    ]);
    assert!(matches!(&again[0], Packet::Unsubscribe(packet) if packet.filters == ["a", "b"]));
    assert!(matches!(&again[1], Packet::Subscribe(packet) if packet.filters[0].nolocal));
    assert_eq!(again.len(), 2);
}
