//! Bytes and connections below the level of requests.

use super::*;

fn greeting() -> Vec<u8> {
    let mut out = vec![0u8; 64];
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    out[12..16].copy_from_slice(b"NULL");
    out
}

/// Waits until the master ends the connection.
fn read_to_end(mut stream: TcpStream) {
    let mut sink = [0u8; 4096];
    // A reset is as good an end as a proper one; a time-out is none.
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the master keeps the connection")
            }
            Err(_) => return,
        }
    }
}

#[test]
fn octets_that_are_no_zmtp() {
    let mut target = Target::start();
    let mut other_mechanism = greeting();
    other_mechanism[12..17].copy_from_slice(b"CURVE");
    let mut inputs = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f".to_vec(),
        b"\x01\x00".to_vec(),
        vec![0; 1000],
        vec![0xff; 1000],
        Vec::new(),
        other_mechanism,
        [greeting(), noise(1, 500)].concat(),
        [zmtp::handshake("NONSENSE"), noise(2, 500)].concat(),
        [zmtp::handshake("REQ"), vec![4, 3, 9, b'X', b'Y']].concat(),
        [zmtp::handshake("SUB"), vec![4, 0]].concat(),
        zmtp::handshake("PAIR"),
    ];
    inputs.extend((10..40).map(|seed| noise(seed, 20 + seed as usize * 37)));
    for port in target.ports() {
        for input in &inputs {
            // The master may hang up while we write.
            let _ = target.raw(port).write_all(input);
        }
    }
    target.is_fine("noise");
}

#[test]
fn frames_too_long_or_cut_off() {
    let mut target = Target::start();
    for port in target.ports() {
        for length in [1u64 << 63, u64::MAX, 1 << 40, (1 << 32) + 5] {
            let mut stream = target.raw(port);
            let kind = if port == target.master.ret_port {
                "REQ"
            } else {
                "SUB"
            };
            let mut bytes = zmtp::handshake(kind);
            bytes.push(2);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&noise(length, 3000));
            let _ = stream.write_all(&bytes);
            read_to_end(stream);
        }
        // Announced and never sent.
        for announced in [200u8, 1] {
            let mut stream = target.raw(port);
            stream.write_all(&zmtp::handshake("REQ")).unwrap();
            stream.write_all(&[0, announced]).unwrap();
        }
    }
    // Larger than `max_request_size` is refused by the header; so much is never read.
    let limit = target.master.config().max_request_size;
    let mut stream = target.raw(target.master.ret_port);
    let mut bytes = zmtp::handshake("REQ");
    bytes.extend_from_slice(&[1, 0, 2]);
    bytes.extend_from_slice(&(limit + 1).to_be_bytes());
    let _ = stream.write_all(&bytes);
    read_to_end(stream);
    target.is_fine("wrong frames");
}

#[test]
fn messages_with_wrong_frames() {
    let mut target = Target::start();
    let context = zmq::Context::new();
    let url = tcp_url("127.0.0.1", target.master.ret_port);
    let dealer = || {
        let socket = context.socket(zmq::DEALER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
        socket.connect(&url).unwrap();
        socket
    };
    let body = msgpack::encode(
        &Value::Map(map! {"enc" => "clear", "load" => map! {"cmd" => "ping"}, "version" => 3}),
        Profile::Wire,
    );
    let served = |socket: &zmq::Socket| {
        socket.send_multipart([b"".as_slice(), &body], 0).unwrap();
        let pong = msgpack::encode(&Value::Map(map! {"cmd" => "ping"}), Profile::Wire);
        assert_eq!(socket.recv_multipart(0).unwrap(), [Vec::new(), pong]);
    };
    let wrong: [&[&[u8]]; 5] = [
        &[b""],
        &[&body],
        &[b"not empty", &body],
        &[b"", b"", &body],
        &[b"", &body, &body],
    ];
    // The same connection still serves a right message.
    let socket = dealer();
    for parts in wrong {
        socket.send_multipart(parts, 0).unwrap();
    }
    served(&socket);
    // A message of many frames costs its connection, and nobody else's.
    for count in [10, 5000] {
        let flood = dealer();
        flood
            .send_multipart(vec![b"x".as_slice(); count], 0)
            .unwrap();
        served(&socket);
        served(&dealer());
    }
    target.is_fine("wrong messages");
}

#[test]
fn connections_that_say_nothing() {
    let mut target = Target::start();
    let limit = halite::sys::process::raise_open_files(4096).unwrap();
    let count = 2000.min(limit as usize / 2);
    let silent: Vec<TcpStream> = (0..count)
        .map(|n| target.raw(target.ports()[n % 2]))
        .collect();
    target.is_fine("2000 silent connections");
    drop(silent);
    target.is_fine("the end of 2000 silent connections");
}

#[test]
fn connections_that_speak_slowly() {
    let mut target = Target::start();
    let mut bytes = zmtp::handshake("REQ");
    // A request of 60 000 octets of which one comes now and then.
    bytes.extend_from_slice(&[1, 0, 2]);
    bytes.extend_from_slice(&60_000u64.to_be_bytes());
    let mut slow: Vec<TcpStream> = (0..400)
        .map(|n| target.raw(target.ports()[n % 2]))
        .collect();
    for part in bytes.chunks(bytes.len() / 3 + 1) {
        for octet in part {
            slow.retain_mut(|s| s.write_all(&[*octet]).is_ok());
        }
        target.is_fine("slow octets");
    }
    assert!(
        slow.len() >= 200,
        "the request server bears them: {}",
        slow.len()
    );
}
