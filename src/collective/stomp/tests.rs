use super::*;

fn frames(stream: &[u8], size: usize, escapes: bool) -> Result<Vec<Frame>, StompError> {
    let mut decoder = Decoder::new(1000);
    decoder.set_escapes(escapes);
    let mut out = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame()? {
            out.push(frame);
        }
    }
    Ok(out)
}

fn all(stream: &[u8]) -> Vec<Frame> {
    let whole = frames(stream, stream.len(), false).unwrap();
    for size in 1..5 {
        assert_eq!(frames(stream, size, false).unwrap(), whole);
    }
    whole
}

fn refused(stream: &[u8]) -> StompError {
    let whole = frames(stream, stream.len().max(1), true).unwrap_err();
    frames(stream, 1, true).unwrap_err();
    whole
}

#[test]
fn frames_have_bytes_as_body_and_line_ends_between_them() {
    let stream = b"\n\r\nMESSAGE\nsubscription:1\ncontent-length:4\n\n\x00\n\x00\xff\0\n\n\
        MESSAGE\r\nmc_sender:node1\r\nreply-to: /temp-queue/a:b\r\n\r\nno length\0RECEIPT\nreceipt-id:7\n\n\0\n";
    let found = all(stream);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].body, b"\0\n\0\xff");
    assert_eq!(found[0].header("subscription"), Some("1"));
    assert_eq!(found[1].header("reply-to"), Some(" /temp-queue/a:b"));
    assert_eq!(found[1].body, b"no length");
    assert_eq!(found[2], Frame::new("RECEIPT").with("receipt-id", "7"));
}

#[test]
fn the_first_of_two_headers_counts() {
    let found = all(b"MESSAGE\na:1\na:2\n\n\0");
    assert_eq!(found[0].header("a"), Some("1"));
    assert_eq!(found[0].header("b"), None);
}

#[test]
fn headers_have_escapes_in_1_1_only() {
    let frame = Frame::new("SEND").with("a:b", "c:d\\e\nf");
    let mut out = Vec::new();
    frame.encode(true, &mut out).unwrap();
    assert_eq!(out, b"SEND\na\\cb:c\\cd\\\\e\\nf\n\n\0");
    assert_eq!(frames(&out, 3, true).unwrap(), [frame]);
    let plain = all(b"MESSAGE\na:b\\nc\n\n\0");
    assert_eq!(plain[0].header("a"), Some("b\\nc"));
    // Frames that open a connection never have escapes.
    let opened = frames(b"CONNECTED\nserver:a\\b\n\n\0", 50, true).unwrap();
    assert_eq!(opened[0].header("server"), Some("a\\b"));
}

#[test]
fn nobody_smuggles_a_header_in() {
    for (name, value) in [
        ("a", "b\nc:d"),
        ("a", "b\0"),
        ("a", "b\r"),
        ("a:b", "c"),
        ("a\nb", "c"),
    ] {
        let mut out = b"before".to_vec();
        let frame = Frame::new("SEND").with("x", "y").with(name, value);
        assert!(frame.encode(false, &mut out).is_err());
        assert_eq!(out, b"before");
    }
}

#[test]
fn the_length_of_a_body_is_told() {
    let mut frame = Frame::new("SEND").with("destination", "/queue/a");
    frame.body = b"\0\0".to_vec();
    let mut out = Vec::new();
    frame.encode(false, &mut out).unwrap();
    assert_eq!(
        out,
        b"SEND\ndestination:/queue/a\ncontent-length:2\n\n\0\0\0"
    );
}

/// What is decoded after a frame that is skipped, and why it was; in pieces of every size the same.
fn skipped(stream: &[u8]) -> StompError {
    let whole = [stream, b"\n\nMESSAGE\na:b\n\nnext\0"].concat();
    let mut reasons = Vec::new();
    for size in [1, 2, 3, 1000, whole.len()] {
        let mut decoder = Decoder::new(1000);
        decoder.set_escapes(true);
        let (mut found, mut why) = (Vec::new(), Vec::new());
        for piece in whole.chunks(size) {
            decoder.push(piece);
            while let Some(frame) = decoder.next_frame().unwrap() {
                found.push(frame);
            }
            why.extend(decoder.take_skipped());
            assert!(decoder.buffer.len() <= LARGEST_HEAD + size);
        }
        let mut next = Frame::new("MESSAGE").with("a", "b");
        next.body = b"next".to_vec();
        assert_eq!(found, [next], "pieces of {size}");
        assert_eq!(why.len(), 1, "{why:?}");
        reasons.extend(why);
    }
    assert!(reasons.iter().all(|why| *why == reasons[0]));
    reasons.remove(0)
}

/// Anybody who may publish can send such frames; others' messages must not be lost by that.
#[test]
fn frames_over_a_limit_are_skipped() {
    let large = StompError::TooLarge("bytes of body");
    // Zeros and blank lines in it mean nothing.
    let body = b"\0\n\nMESSAGE\n\nforged\0".repeat(250);
    let mut stream = format!("MESSAGE\ncontent-length:{}\n\n", body.len()).into_bytes();
    stream.extend(body);
    stream.push(0);
    assert_eq!(skipped(&stream), large);
    let endless = [b"MESSAGE\n\n".as_slice(), &[b'x'; 3000], b"\0"].concat();
    assert_eq!(skipped(&endless), large);
    let headers = StompError::TooLarge("bytes of headers");
    let long = vec![b'x'; LARGEST_HEAD];
    for length in ["", "content-length:4\n"] {
        let head = [b"MESSAGE\na:".as_slice(), &long, b"\n", length.as_bytes()].concat();
        let body: &[u8] = if length.is_empty() {
            b"\nab\0"
        } else {
            b"\na\0b\0\0"
        };
        assert_eq!(skipped(&[&head, body].concat()), headers);
    }
    let many = [
        b"MESSAGE\n".to_vec(),
        b"a:b\n".repeat(129),
        b"\nbody\0".to_vec(),
    ]
    .concat();
    assert_eq!(skipped(&many), StompError::TooLarge("headers"));
    for head in [
        b"MESSAGE\nno colon".as_slice(),
        b"MESSAGE\na:\xff",
        b"MESSAGE\na:\\x",
    ] {
        let frame = [head, b"\ncontent-length:2\n\n\0\n\0"].concat();
        assert!(matches!(skipped(&frame), StompError::Malformed(_)));
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    for stream in [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".as_slice(),
        b"MESSAGE\ncontent-length:-1\n\n\0",
        b"MESSAGE\ncontent-length:x\n\n\0",
        b"MESSAGE\ncontent-length:1\n\nab\0",
        b"\0",
    ] {
        let error = match stream {
            b"\0" => frames(b"\0\n\n", 3, false).unwrap_err(),
            _ => refused(stream),
        };
        assert!(
            matches!(error, StompError::Malformed(_)),
            "{stream:?}: {error}"
        );
    }
    // A length that nobody can have is waited for, without memory.
    let mut decoder = Decoder::new(1000);
    decoder.push(b"MESSAGE\ncontent-length:18446744073709551615\n\nabc\0");
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.buffer.is_empty());
}
