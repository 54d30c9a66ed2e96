use super::*;
use proptest::prelude::*;

fn frames(largest: usize, bytes: &[u8]) -> Result<Vec<Frame>, String> {
    let mut decoder = Decoder::new(largest);
    let mut frames = Vec::new();
    for byte in bytes {
        decoder.push(&[*byte]);
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

#[test]
fn frames_are_cut_where_they_end() {
    // PINGRESP, PUBLISH of QoS 0 and of QoS 2.
    let bytes = b"\xd0\x00\x30\x05\x00\x01a\x00x\x34\x06\x00\x01a\x00\x07\x00";
    let frames = frames(100, bytes).unwrap();
    let packet = |at: usize| match &frames[at] {
        Frame::Packet(packet) => packet.as_ref(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(packet(0), Packet::PingResp(_)));
    let Packet::Publish(first) = packet(1) else {
        panic!("{frames:?}");
    };
    assert_eq!(
        (&first.topic[..], &first.payload[..]),
        (&b"a"[..], &b"x"[..])
    );
    let Packet::Publish(second) = packet(2) else {
        panic!("{frames:?}");
    };
    assert_eq!((second.pkid, second.payload.len()), (7, 0));
    assert_eq!(frames.len(), 3);
}

#[test]
fn acknowledgements_are_read_with_any_reason() {
    let read = |bytes: &[u8]| match frames(100, bytes).unwrap().pop() {
        Some(Frame::Ack(step, id, refused)) => (step, id, refused),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(b"\x40\x02\x00\x05"), (AckKind::There, 5, None));
    assert_eq!(read(b"\x40\x03\x01\x05\x10"), (AckKind::There, 261, None));
    assert_eq!(
        read(b"\x50\x04\x00\x05\x87\x00"),
        (AckKind::Received, 5, Some(0x87))
    );
    // Not a valid reason code for PUBREC.
    assert_eq!(
        read(b"\x50\x03\x00\x05\x95"),
        (AckKind::Received, 5, Some(0x95))
    );
    assert_eq!(read(b"\x70\x02\x00\x05"), (AckKind::Complete, 5, None));
    assert!(frames(100, b"\x50\x01\x00").is_err());
}

#[test]
fn refusals_and_goodbyes_say_why() {
    let read = |bytes: &[u8]| match frames(100, bytes).unwrap().pop() {
        Some(Frame::Refused(why) | Frame::Goodbye(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(b"\x20\x02\x00\x05"), "it does not speak MQTT 5");
    assert_eq!(read(b"\x20\x03\x00\x86\x00"), "it refuses user or password");
    assert_eq!(
        read(b"\x20\x09\x00\x85\x06\x1f\x00\x03bad"),
        "it refuses the client id (bad)"
    );
    assert_eq!(read(b"\xe0\x00"), "it disconnected: normal disconnection");
    assert_eq!(read(b"\xe0\x01\x8b"), "it disconnected: it shuts down");
    assert_eq!(
        read(b"\xe0\x02\x8e\x00"),
        "it disconnected: another client has connected with the same client id"
    );
}

#[test]
fn what_is_too_large_or_no_packet_is_refused() {
    let why = |bytes: &[u8]| frames(10, bytes).unwrap_err();
    // Known from the length alone.
    assert!(
        why(b"\x30\x09").contains("11 bytes"),
        "{}",
        why(b"\x30\x09")
    );
    assert!(why(b"\x30\xff\xff\xff\xff").contains("MQTT 5"));
    for wrong in [
        &b"\x00\x00"[..],
        b"\xf0\x00",
        b"\x30\x02\x00\x09",
        b"\x90\x02\x00\x01",
        b"\x36\x03\x00\x01a",
    ] {
        let words = why(wrong);
        assert!(words.contains("MQTT 5"), "{words}");
    }
}

#[test]
fn codes_have_words() {
    assert_eq!(
        subscribe_error(SubscribeReasonCode::NotAuthorized),
        Some("not authorized")
    );
    let fine = SubscribeReasonCode::Success(rumqttc::v5::mqttbytes::QoS::AtMostOnce);
    assert_eq!(subscribe_error(fine), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No input makes the thread panic, not even garbage after a correct header.
    #[test]
    fn nothing_breaks_the_decoder(first in any::<u8>(), mut content in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = frames(50, &content);
        content.insert(0, content.len() as u8);
        content.insert(0, first);
        let _ = frames(100, &content);
    }
}
