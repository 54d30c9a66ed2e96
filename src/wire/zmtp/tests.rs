use super::*;

/// The greeting of a libzmq subscriber.
fn greeting(minor: u8) -> Vec<u8> {
    let mut out = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, minor];
    out.extend_from_slice(b"NULL");
    out.resize(64, 0);
    out
}

fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend_from_slice(&(kind.len() as u32).to_be_bytes());
    body.extend_from_slice(kind.as_bytes());
    framed(COMMAND, &body)
}

fn decode(bytes: &[u8], size: usize) -> Result<Vec<Command>, ZmtpError> {
    let mut decoder = SubscriberDecoder::default();
    let mut commands = Vec::new();
    for chunk in bytes.chunks(size) {
        decoder.decode(chunk, |command| commands.push(command))?;
    }
    Ok(commands)
}

#[test]
fn a_subscriber_is_understood_however_its_words_arrive() {
    let topic = "x".repeat(300);
    let said = [
        greeting(1),
        ready("SUB"),
        b"\x00\x01\x01".to_vec(),
        framed(0, format!("\u{1}{topic}").as_bytes()),
        framed(COMMAND, b"\x09SUBSCRIBEbroadcast"),
        framed(COMMAND, b"\x06CANCELbroadcast"),
        framed(0, b"\x00away"),
        framed(COMMAND, b"\x04PING\x00\x0ahello"),
        framed(COMMAND, b"\x04PONG"),
    ]
    .concat();
    let topic = topic.into_bytes();
    let expected = [
        Command::Ready,
        Command::Subscribe(Vec::new()),
        Command::Subscribe(topic),
        Command::Subscribe(b"broadcast".to_vec()),
        Command::Cancel(b"broadcast".to_vec()),
        Command::Cancel(b"away".to_vec()),
        Command::Ping(b"hello".to_vec()),
        Command::Other,
    ];
    for size in [1, 7, 63, 64, 65, 10_000] {
        assert_eq!(decode(&said, size).unwrap(), expected, "{size}");
    }
}

#[test]
fn whoever_is_no_subscriber_is_refused_at_once() {
    assert_eq!(
        decode(b"GET / HTTP/1.0", 1),
        Err(ZmtpError::Greeting(Spoken::Http))
    );
    let mut old = greeting(0);
    old[10] = 1;
    assert_eq!(
        decode(&old[..11], 11),
        Err(ZmtpError::Greeting(Spoken::Unknown))
    );
    let mut curve = greeting(0);
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(decode(&curve, 64), Err(ZmtpError::Mechanism));
    let after = |rest: Vec<u8>| decode(&[greeting(1), rest].concat(), 1000);
    assert_eq!(after(b"\x00\x01\x01".to_vec()), Err(ZmtpError::Unready));
    assert_eq!(after(ready("DEALER")), Err(ZmtpError::Socket));
    assert_eq!(after(framed(COMMAND, b"\x05READY")), Err(ZmtpError::Socket));
    let broken = framed(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x09SUB");
    assert_eq!(after(broken), Err(ZmtpError::Frame));
    // A length is refused before that much is buffered.
    assert_eq!(
        after(b"\x02\x00\x00\x00\x00\x00\x00\x10\x01".to_vec()),
        Err(ZmtpError::Frame)
    );
    assert_eq!(
        after(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()),
        Err(ZmtpError::Frame)
    );
    assert_eq!(after(b"\x80\x00".to_vec()), Err(ZmtpError::Frame));
    assert_eq!(after(framed(COMMAND, b"\x09PING")), Err(ZmtpError::Frame));
    for message in [
        framed(0, b"x"),
        framed(0, b""),
        framed(MORE, b"\x01not alone"),
    ] {
        let said = [ready("SUB"), message].concat();
        assert_eq!(after(said), Err(ZmtpError::Message));
    }
}

#[test]
fn frames_have_their_lengths() {
    assert_eq!(part(b"ab", true), b"\x01\x02ab");
    let long = part(&[7; 256], false);
    assert_eq!(&long[..9], b"\x02\x00\x00\x00\x00\x00\x00\x01\x00");
    assert_eq!(long.len(), 265);
    assert_eq!(pong(b"x"), b"\x04\x06\x04PONGx");
    assert_eq!(ping(), b"\x04\x07\x04PING\x00\x00");
    let hello = hello();
    assert_eq!(hello[..64], greeting(1)[..]);
    let (flags, body, used) = frame(&hello[64..], LARGEST).unwrap().unwrap();
    assert_eq!((flags, used), (COMMAND, hello.len() - 64));
    assert_eq!(
        property(&body[6..], b"socket-type"),
        Ok(Some(b"PUB".as_slice()))
    );
}
