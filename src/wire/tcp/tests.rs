use super::*;
use crate::Value;

/// Head and body of each frame.
type Frames = Vec<(Vec<u8>, Vec<u8>)>;

fn decoded(pieces: &[&[u8]]) -> Result<Frames, TcpError> {
    let mut decoder = FrameDecoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.decode(piece, 1000, |frame| {
            frames.push((frame.head.to_vec(), frame.body.to_vec()));
        })?;
    }
    assert_eq!(decoder.held(), 0);
    Ok(frames)
}

/// One of each kind of msgpack item.
fn every_kind() -> Vec<u8> {
    let mut body = vec![0xdc, 0, 20];
    for item in [
        &b"\x05"[..],
        b"\x81\x01\x02",
        b"\x91\xc0",
        b"\xa2ab",
        b"\xc2",
        b"\xc4\x02xy",
        b"\xc5\0\x01x",
        b"\xc6\0\0\0\x01x",
        b"\xc7\x01\x05x",
        b"\xca\0\0\0\0",
        b"\xcb\0\0\0\0\0\0\0\0",
        b"\xcc\xff",
        b"\xcd\xff\xff",
        b"\xce\0\0\0\0",
        b"\xd3\0\0\0\0\0\0\0\0",
        b"\xd4\x01x",
        b"\xd8\x010123456789abcdef",
        b"\xd9\x01x",
        b"\xdd\0\0\0\x01\xff",
        b"\xde\0\x01\x01\xda\0\x01x",
    ] {
        body.extend_from_slice(item);
    }
    body
}

#[test]
fn frames_arrive_however_they_are_divided() {
    let bodies = [
        b"\xc0".to_vec(),
        every_kind(),
        msgpack::encode(&Value::Bytes(vec![7; 600]), Profile::Wire),
    ];
    let stream: Vec<u8> = bodies.iter().flat_map(|b| request("m", b)).collect();
    let expected: Vec<_> = bodies
        .iter()
        .map(|b| (b"\x81\xa3mid\xa1m".to_vec(), b.clone()))
        .collect();
    for size in [1, 2, 3, 7, 64, 500, 5000] {
        let pieces: Vec<&[u8]> = stream.chunks(size).collect();
        assert_eq!(decoded(&pieces).unwrap(), expected, "{size}");
    }
    assert_eq!(mid(&expected[0].0), Some("m"));
}

#[test]
fn others_are_told_apart_by_their_first_byte() {
    for (start, spoken) in [
        (&b"\xff\0\0"[..], Spoken::ZeroMq),
        (b"\x16\x03\x01", Spoken::Tls),
        (b"GET / HTTP/1.1", Spoken::Http),
        (b"\x93", Spoken::Unknown),
    ] {
        assert_eq!(decoded(&[start]), Err(TcpError::NotAFrame(spoken)));
        let after = [&message(b"\xc0"), start].concat();
        assert_eq!(decoded(&[&after]), Err(TcpError::NotAFrame(spoken)));
    }
}

#[test]
fn what_is_too_large_is_refused_by_its_header() {
    for (start, error) in [
        // A map of 2^32 pairs, a body of 2^32 bytes, and many values.
        (&b"\xdf\xff\xff\xff\xff"[..], TcpError::TooLarge),
        (
            b"\x82\xa4head\x80\xa4body\xc6\xff\xff\xff\xff",
            TcpError::TooLarge,
        ),
        (b"\x82\xa4head\x80\xa4body\xdc\x03\xe8", TcpError::TooLarge),
        (b"\x82\xa4head\x80\xa4body\xc1", DecodeError::BadCode.into()),
        (b"\x80", TcpError::Incomplete),
        (b"\x81\xa4head\x80", TcpError::Incomplete),
        (
            b"\x82\xa4head\x80\xa4head\x80",
            DecodeError::BadFields.into(),
        ),
    ] {
        assert_eq!(decoded(&[start]), Err(error), "{start:02x?}");
    }
    let nested = [&message(b"\x91".repeat(300).as_slice())[..], b"\xc0"].concat();
    assert!(matches!(decoded(&[&nested]), Err(TcpError::Malformed(_))));
}

/// Frames of stock programs (reference vectors `transports/tcp-300x.json`).
#[test]
fn publications_of_all_series_hold_the_same() {
    let inner = b"\x81\xa3enc\xa3aes";
    let wrapped = publication(inner);
    assert_eq!(
        wrapped,
        b"\x82\xa4head\x80\xa4body\xc4\x09\x81\xa3enc\xa3aes"
    );
    for frame in [wrapped, message(inner)] {
        let body = Frame::parse(&frame).unwrap().body;
        assert_eq!(&body[unwrapped(body)], inner);
    }
}

/// Whoever has sent no key yet cannot make us count for long.
#[test]
fn a_frame_has_a_limit_of_values() {
    let many = |n: usize| {
        let mut body = Vec::new();
        msgpack::put_array_header(&mut body, n);
        body.resize(body.len() + n, 0xc0);
        let mut decoder = FrameDecoder::default();
        decoder.decode(&message(&body), 1 << 30, |_| ())
    };
    assert_eq!(many(budget::MAX_VALUES), Ok(()));
    assert_eq!(many(budget::MAX_VALUES + 64), Err(TcpError::TooLarge));
}
