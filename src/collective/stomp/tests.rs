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
    assert!(matches!(
        refused(b"MESSAGE\na:\\x\n\n\0"),
        StompError::Malformed(_)
    ));
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

#[test]
fn limits_hold_before_memory_is_taken() {
    assert_eq!(
        refused(b"MESSAGE\ncontent-length:1001\n\n"),
        StompError::TooLarge("bytes of body")
    );
    assert_eq!(
        refused(b"MESSAGE\ncontent-length:18446744073709551615\n\n"),
        StompError::TooLarge("bytes of body")
    );
    let endless = [b"MESSAGE\n\n".as_slice(), &[b'x'; 1001]].concat();
    assert_eq!(refused(&endless), StompError::TooLarge("bytes of body"));
    let long = [b"MESSAGE\na:".as_slice(), &vec![b'x'; LARGEST_HEAD]].concat();
    assert_eq!(refused(&long), StompError::TooLarge("bytes of headers"));
    let many = [
        b"MESSAGE\n".to_vec(),
        b"a:b\n".repeat(129),
        b"\n\0".to_vec(),
    ]
    .concat();
    assert_eq!(refused(&many), StompError::TooLarge("headers"));
}

#[test]
fn what_is_no_frame_is_refused() {
    for stream in [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".as_slice(),
        b"MESSAGE\nno colon\n\n\0",
        b"MESSAGE\na:\xff\n\n\0",
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
}
