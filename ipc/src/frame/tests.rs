//! Frames: vectors, splits, limits.

use super::*;
use crate::Event;

const EVENT: &str = include_str!("../../../tests/vectors/event.json");

/// The hex string under a key of the vector.
fn vector(key: &str) -> Vec<u8> {
    let at = EVENT.find(&format!("\"{key}\": \"")).unwrap() + key.len() + 5;
    let hex = &EVENT[at..at + EVENT[at..].find('"').unwrap()];
    unhex(hex)
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

fn all(decoder: &mut Decoder) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut out = Vec::new();
    while let Some(body) = decoder.next_body()? {
        out.push(body.to_vec());
    }
    Ok(out)
}

fn decode(bytes: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    all(&mut decoder)
}

#[test]
fn vectors_byte_for_byte() {
    let body = vector("packed_hex");
    assert_eq!(encode(&body, Framing::Bare), vector("frame_msg_hex"));
    assert_eq!(
        encode(&body, Framing::Prefixed),
        vector("frame_msg_ipc_hex")
    );
    assert_eq!(decode(&vector("frame_msg_hex")), Ok(vec![body.clone()]));
    assert_eq!(decode(&vector("frame_msg_ipc_hex")), Ok(vec![body.clone()]));
    let event = Event::from_body(&body).unwrap();
    assert_eq!(event.tag, "salt/test");
    assert_eq!(event.stamp_text(), Some("2023-11-14T22:13:20.000000"));
    assert_eq!(event.body(), body);
}

/// Frames captured on the sockets of 3006.28, 3007.15 and 3008.3.
#[test]
fn captured_frames() {
    let prefixed = "0000003d82a46865616480a4626f6479c42f612f620a0a83a16ba176a16e01a65f7374616d70ba323032362d31312d32315430393a33303a30322e313934393737";
    let bare = "82a46865616480a4626f6479c436612f620a0a83a16ba176a16e01a65f7374616d70d920323032362d31312d32315430393a33303a31392e3338343237322b30303a3030";
    for (hex, framing) in [(prefixed, Framing::Prefixed), (bare, Framing::Bare)] {
        let bodies = decode(&unhex(hex)).unwrap();
        let event = Event::from_body(&bodies[0]).unwrap();
        assert_eq!((event.tag.as_str(), bodies.len()), ("a/b", 1));
        assert_eq!(event.frame(framing), unhex(hex));
    }
}

#[test]
fn both_framings_in_one_stream_at_any_split() {
    let bodies: Vec<Vec<u8>> = [0, 1, 40, 300, 70_000]
        .iter()
        .map(|n| vec![b'x'; *n])
        .collect();
    let mut stream = Vec::new();
    for (i, body) in bodies.iter().enumerate() {
        stream.extend(encode(body, [Framing::Bare, Framing::Prefixed][i % 2]));
        stream.extend(encode(body, [Framing::Prefixed, Framing::Bare][i % 2]));
    }
    let want: Vec<_> = bodies.iter().flat_map(|b| [b.clone(), b.clone()]).collect();
    for cut in (0..900).chain([stream.len() - 1, stream.len()]) {
        let mut decoder = Decoder::default();
        let mut got = Vec::new();
        for part in [&stream[..cut], &stream[cut..]] {
            decoder.push(part);
            got.extend(all(&mut decoder).unwrap());
        }
        assert!(got == want, "cut at {cut}");
        assert!(!decoder.in_frame());
    }
}

#[test]
fn other_shapes_of_frame() {
    // A head that is not empty, and the body first, as text.
    let frames: [&[u8]; 2] = [
        b"\x82\xa4head\x81\xa3mid\xcd\x01\x00\xa4body\xa3abc",
        b"\x82\xa4body\xd9\x03abc\xa4head\x80",
    ];
    for frame in frames {
        assert_eq!(decode(frame), Ok(vec![b"abc".to_vec()]));
    }
}

#[test]
fn what_is_no_frame() {
    let cases: [(&[u8], FrameError); 7] = [
        (b"GET / HTTP/1.1\r\n", FrameError::NotAFrame(b'G')),
        (b"\x81\xa4body\xa1x", FrameError::NotAFrame(0x81)),
        (b"\x82\xa4head\x80\xa4body\xc1", FrameError::NotMsgpack),
        (b"\x82\xa4head\x80\xa4body\x07", FrameError::NoBody),
        (b"\x82\x01\x02\x03\x04", FrameError::NoBody),
        (b"\x00\x00\x00\x01\x80", FrameError::NoBody),
        // A length that covers more than the map.
        (
            b"\x00\x00\x00\x0e\x82\xa4head\x80\xa4body\xa0\x00",
            FrameError::NoBody,
        ),
    ];
    for (bytes, why) in cases {
        assert_eq!(decode(bytes), Err(why), "{bytes:x?}");
    }
    assert_eq!(decode(b"\x00\x00\x00\x00"), Err(FrameError::NoBody));
}

#[test]
fn limits_hold_before_anything_arrives() {
    let too_large: [&[u8]; 4] = [
        b"\x00\x00\x10\x01",
        b"\x82\xa4head\x80\xa4body\xc6\x00\x00\x10\x00",
        // A claim of 2^32 children.
        b"\x82\xa4head\xdf\xff\xff\xff\xff",
        b"\x82\xa4head\xdd\xff\xff\xff\xff",
    ];
    for bytes in too_large {
        let mut decoder = Decoder::new(4096);
        decoder.push(bytes);
        let got = decoder.next_body().map(|b| b.is_some());
        assert!(
            matches!(got, Err(FrameError::TooLarge { limit: 4096, .. })),
            "{bytes:x?}"
        );
    }
    // Exactly at the limit is fine.
    let body = vec![0; 4096 - OPENING.len() - 3];
    for framing in [Framing::Bare, Framing::Prefixed] {
        let mut decoder = Decoder::new(4096);
        decoder.push(&encode(&body, framing));
        assert_eq!(all(&mut decoder), Ok(vec![body.clone()]));
    }
}

/// Deep nesting costs no stack, and a frame of many small values arriving one
/// byte at a time is not scanned anew each time (this test would take minutes).
#[test]
fn many_values_byte_by_byte() {
    let mut frame = b"\x82\xa4head".to_vec();
    frame.extend(std::iter::repeat_n(0x91, 200_000));
    frame.push(0xc0);
    frame.extend(b"\xa4body\xa1x");
    let mut decoder = Decoder::default();
    let mut got = Vec::new();
    for octet in &frame {
        decoder.push(std::slice::from_ref(octet));
        got.extend(all(&mut decoder).unwrap());
    }
    assert_eq!(got, [b"x".to_vec()]);
}

#[test]
fn memory_is_given_back() {
    let mut decoder = Decoder::default();
    decoder.push(&encode(&vec![0; 4 << 20], Framing::Prefixed));
    assert!(decoder.next_body().unwrap().is_some());
    decoder.push(&encode(b"x", Framing::Prefixed));
    assert!(decoder.buf.capacity() < 1 << 20);
    assert_eq!(decoder.next_body(), Ok(Some(&b"x"[..])));
}
