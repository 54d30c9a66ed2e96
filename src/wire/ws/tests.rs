use super::*;
use crate::Spoken;

const MAX: usize = 1000;

fn decoded(pieces: &[&[u8]]) -> Result<Vec<WsEvent>, WsError> {
    let mut decoder = FrameDecoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.decode(piece, MAX, |event| events.push(event))?;
    }
    Ok(events)
}

fn unmasked(body: &[u8]) -> Vec<u8> {
    [message_start(body.len()), body.to_vec()].concat()
}

#[test]
fn messages_arrive_however_they_are_divided() {
    let long = vec![7; 900];
    let stream = [
        unmasked(b"one"),
        masked_message(b"two", [1, 2, 3, 4]),
        // Three fragments with a heartbeat in between.
        b"\x02\x01a\x89\x01p\x00\x01b\x80\x01c".to_vec(),
        masked_pong(b"x", [9; 4]),
        b"\x81\x02no".to_vec(),
        masked_message(&long, [0xff, 0, 1, 0x80]),
    ]
    .concat();
    let message = |body: &[u8]| WsEvent::Message(body.to_vec());
    let expected = [
        message(b"one"),
        message(b"two"),
        WsEvent::Ping(b"p".to_vec()),
        message(b"abc"),
        message(&long),
    ];
    for size in [1, 2, 3, 7, 64, 500, 5000] {
        let pieces: Vec<&[u8]> = stream.chunks(size).collect();
        assert_eq!(decoded(&pieces).unwrap(), expected, "{size}");
    }
    assert_eq!(pong(b"p"), b"\x8a\x01p");
    assert_eq!(message_start(70_000), b"\x82\x7f\0\0\0\0\0\x01\x11\x70");
}

#[test]
fn what_the_protocol_does_not_allow_is_refused() {
    for (bytes, error) in [
        (&b"\x82\x7f\0\0\0\0\0\0\x03\xe9"[..], WsError::TooLarge),
        (
            b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
            WsError::TooLarge,
        ),
        (b"\x89\x7e\0\x80", WsError::TooLarge),
        (b"\x80\x01a", WsError::Frame),
        (b"\x02\x01a\x82\x01b", WsError::Frame),
        (b"\xc2\x01a", WsError::Frame),
        (b"\x83\x01a", WsError::Frame),
        (b"\x09\x01a", WsError::Frame),
        (b"\x88\x02\x03\xe8", WsError::Closed),
        (b"\x81\x05close", WsError::Closed),
    ] {
        assert_eq!(decoded(&[bytes]), Err(error), "{bytes:02x?}");
    }
    let half = [b"\x02\x7e\x03\x00".to_vec(), vec![0; 0x300]].concat();
    let more = [b"\x80\x7e\x03\x00".to_vec(), vec![0; 0x300]].concat();
    assert_eq!(decoded(&[&half, &more]), Err(WsError::TooLarge));
}

/// The request and response of stock (reference vectors `transports/ws-3008.json`).
#[test]
fn the_upgrade_is_that_of_stock() {
    let asked = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:33616\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: nWALFiFzJcMriSTWwBIXNA==\r\nAccept: */*\r\n\r\nrest";
    for size in [1, 10, 1000] {
        let mut server = ServerUpgrade::default();
        let answers = asked.chunks(size).map(|piece| server.push(piece).unwrap());
        let mut answers = answers.skip_while(Option::is_none);
        let (response, rest) = answers.next().unwrap().unwrap();
        assert!(b"rest".starts_with(&rest));
        let text = String::from_utf8(response).unwrap();
        assert!(
            text.contains("Sec-WebSocket-Accept: r4HQAkNZIOFDQ5HkQGIujn7kKX0=\r\n"),
            "{text}"
        );
        assert_eq!(rest.len() == 4, size == 1000);
    }
}

#[test]
fn both_sides_agree() {
    let nonce = [5; 16];
    let (mut server, mut client) = (ServerUpgrade::default(), ClientUpgrade::new(nonce));
    let asked = request("/ws", "[::1]:4505", nonce);
    let (response, rest) = server.push(&asked).unwrap().unwrap();
    assert!(rest.is_empty());
    assert_eq!(client.push(&response).unwrap(), Some(Vec::new()));
    let other = |response: &[u8]| ClientUpgrade::new([6; 16]).push(response).unwrap_err();
    assert_eq!(other(&response), UpgradeError::Refused);
    assert_eq!(
        other(b"HTTP/1.1 404 Not Found\r\n\r\n"),
        UpgradeError::Refused
    );
    assert_eq!(other(b"\xff\0"), UpgradeError::NotHttp(Spoken::ZeroMq));
    let refused = |asked: &[u8]| ServerUpgrade::default().push(asked).unwrap_err();
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), UpgradeError::NoUpgrade);
    assert_eq!(refused(b"POST / HTTP/1.1\r\n"), UpgradeError::NoUpgrade);
    assert_eq!(refused(b"\x82\xa4"), UpgradeError::NotHttp(Spoken::Tcp));
    let endless = [b"GET /".to_vec(), vec![b'x'; 9000]].concat();
    assert_eq!(refused(&endless), UpgradeError::Malformed);
}
