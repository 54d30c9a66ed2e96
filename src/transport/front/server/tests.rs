use super::*;
use crate::front::Zmtp;
use crate::poll::Poller;
use halite_wire::zmtp::{handshake, part};
use std::io::Write;
use std::net::TcpStream;

const SECOND: Duration = Duration::from_secs(1);

fn front_options() -> RequestOptions {
    RequestOptions {
        backlog: 10,
        max_message: 4 << 20,
        ipv6: false,
        keepalive: KeepAlive::REQUEST_SERVER,
        most_connections: 8,
        heartbeat: 3600 * SECOND,
        stalled: 3600 * SECOND,
    }
}

fn front_with(change: impl FnOnce(&mut RequestOptions)) -> (RequestServer<Zmtp>, SocketAddr) {
    let mut options = front_options();
    change(&mut options);
    let front = RequestServer::bind("127.0.0.1", 0, &options).unwrap();
    let address = front.address().unwrap();
    (front, address)
}

fn front() -> (RequestServer<Zmtp>, SocketAddr) {
    front_with(|_| ())
}

/// The next message, as the server gets it.
fn next<C: RequestCodec>(front: &mut RequestServer<C>) -> Received {
    loop {
        let mut poller = Poller::new();
        poller.add(front.source());
        if !front.has_waiting() {
            poller.wait(Some(60 * SECOND)).unwrap();
        }
        match front.receive().unwrap() {
            Received::Nothing => {}
            message => return message,
        }
    }
}

/// The REQ socket of libzmq, which stock peers have.
fn client(address: SocketAddr) -> zmq::Socket {
    let client = zmq::Context::new().socket(zmq::REQ).unwrap();
    client.set_linger(0).unwrap();
    client.connect(&format!("tcp://{address}")).unwrap();
    client
}

fn served(front: &mut RequestServer<Zmtp>, client: &zmq::Socket) {
    client.send(&b"question"[..], 0).unwrap();
    let Received::Request(request) = next(front) else {
        panic!("no request");
    };
    let answer = [b"answer to ", &*request.body].concat();
    front.answer(&request.from, answer.into()).unwrap();
    assert_eq!(client.recv_bytes(0).unwrap(), b"answer to question");
}

/// A connection that has completed its handshake, and says nothing since.
fn silent(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&handshake("REQ")).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1024]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Looks after connections until the stream is closed.
fn tend_until_closed(front: &mut RequestServer<Zmtp>, stream: &mut TcpStream, memory: Pressure) {
    while !is_closed(stream) {
        front.turn().unwrap();
        front.looked -= ROUND;
        front.tend(memory).unwrap();
    }
}

fn connected(front: &mut RequestServer<Zmtp>, count: usize) {
    while front.connections.len() < count {
        front.turn().unwrap();
    }
}

#[test]
fn a_request_is_answered_to_the_one_who_asked() {
    let (mut front, address) = front();
    assert!(matches!(front.receive().unwrap(), Received::Nothing));
    let clients = ["one", "two"].map(|question| {
        let client = client(address);
        client.send(question, 0).unwrap();
        client
    });
    for _ in &clients {
        let Received::Request(request) = next(&mut front) else {
            panic!("no request");
        };
        assert_eq!(request.peer, "127.0.0.1");
        let answer = [b"answer to ", &*request.body].concat();
        front.answer(&request.from, answer.into()).unwrap();
    }
    let answers = clients.map(|client| client.recv_bytes(0).unwrap());
    assert_eq!(answers, [b"answer to one", b"answer to two"]);
    assert!(front.answer(b"nobody", b"answer".to_vec().into()).is_err());
    assert!(
        front
            .answer(&99u64.to_be_bytes(), b"answer".to_vec().into())
            .is_err()
    );
}

#[test]
fn large_messages_pass_both_ways_and_leave_no_memory_behind() {
    let (mut front, address) = front();
    let client = client(address);
    for length in [255, 256, 70_000, 4 << 20] {
        let body: Vec<u8> = (0..length).map(|i| i as u8).collect();
        client.send(&body, 0).unwrap();
        let Received::Request(request) = next(&mut front) else {
            panic!("no request");
        };
        assert!(*request.body == *body);
        front.answer(&request.from, body.clone().into()).unwrap();
        loop {
            match client.recv_bytes(zmq::DONTWAIT) {
                Ok(answer) => {
                    assert!(answer == body);
                    break;
                }
                Err(zmq::Error::EAGAIN) => front.turn().unwrap(),
                Err(e) => panic!("{e}"),
            }
        }
        let connection = front.connections.values().next().unwrap();
        assert_eq!(
            (connection.codec.held(), connection.output.capacity()),
            (0, 0)
        );
    }
    client.send(vec![0; (4 << 20) + 1], 0).unwrap();
    while !front.connections.is_empty() {
        assert!(matches!(front.receive().unwrap(), Received::Nothing));
    }
}

#[test]
fn a_flood_of_connections_displaces_itself() {
    let (mut front, address) = front();
    let asking = client(address);
    served(&mut front, &asking);
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        streams.push(silent(address));
        connected(&mut front, 8.min(streams.len()) + 1);
        front.tend(Pressure::None).unwrap();
        served(&mut front, &asking);
    }
    for stream in &mut streams[..13] {
        tend_until_closed(&mut front, stream, Pressure::None);
    }
    assert_eq!(front.connections.len(), 8);
    served(&mut front, &asking);
    // Short of memory, the number does not grow, and stays.
    streams.drain(13..17);
    while front.connections.len() > 4 {
        front.turn().unwrap();
    }
    front.tend(Pressure::Scarce).unwrap();
    let _more = silent(address);
    tend_until_closed(&mut front, &mut streams[13], Pressure::Scarce);
    served(&mut front, &asking);
}

#[test]
fn a_message_without_an_end_costs_its_connection() {
    let (mut front, address) = front();
    let asking = client(address);
    served(&mut front, &asking);
    // Frames of one byte, again and again.
    let mut frames = silent(address);
    frames.set_nonblocking(false).unwrap();
    frames.write_all(&b"\x01\x01x".repeat(20)).unwrap();
    frames.set_nonblocking(true).unwrap();
    tend_until_closed(&mut front, &mut frames, Pressure::None);
    // A long frame that does not end; it may, if there is memory.
    let mut long = silent(address);
    let mut sent = part(&vec![0; 3 << 20], false);
    sent.pop();
    let mut left = &sent[..];
    while !left.is_empty() {
        match long.write(left) {
            Ok(n) => left = &left[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => panic!("{e}"),
        }
        front.turn().unwrap();
    }
    while front
        .connections
        .values()
        .all(|c| c.codec.held() < sent.len())
    {
        front.turn().unwrap();
    }
    assert!(!front.tend(Pressure::None).unwrap());
    assert!(front.tend(Pressure::Growing).unwrap());
    tend_until_closed(&mut front, &mut long, Pressure::None);
    served(&mut front, &asking);
    assert!(!front.tend(Pressure::Growing).unwrap());
}

#[test]
fn a_peer_without_a_sign_of_life_is_left() {
    let (mut front, address) = front_with(|options| options.heartbeat = Duration::from_millis(300));
    let asking = client(address);
    let mut stream = silent(address);
    tend_until_closed(&mut front, &mut stream, Pressure::None);
    served(&mut front, &asking);
}

#[test]
fn a_peer_that_stops_midway_is_left() {
    let (mut front, address) = front_with(|options| options.stalled = Duration::from_millis(200));
    let asking = client(address);
    served(&mut front, &asking);
    let mut shy = TcpStream::connect(address).unwrap();
    shy.set_nonblocking(true).unwrap();
    let mut half = silent(address);
    half.write_all(&part(b"", true)).unwrap();
    // One that asks and does not read.
    let mut deaf = silent(address);
    deaf.write_all(&[part(b"", true), part(b"x", false)].concat())
        .unwrap();
    let Received::Request(request) = next(&mut front) else {
        panic!("no request");
    };
    front
        .answer(&request.from, vec![0; 64 << 20].into())
        .unwrap();
    tend_until_closed(&mut front, &mut shy, Pressure::None);
    tend_until_closed(&mut front, &mut half, Pressure::None);
    while front.connections.len() > 1 {
        front.looked -= ROUND;
        front.tend(Pressure::None).unwrap();
    }
    served(&mut front, &asking);
}

#[test]
fn whoever_does_not_wait_for_replies_is_cut_off() {
    let (mut front, address) = front();
    let mut flood = silent(address);
    let request = [part(b"", true), part(b"x", false)].concat();
    flood
        .write_all(&request.repeat(Zmtp::MAX_MESSAGES + 1))
        .unwrap();
    tend_until_closed(&mut front, &mut flood, Pressure::None);
    let asking = client(address);
    asking.send("question", 0).unwrap();
    while let Received::Request(request) = next(&mut front) {
        if &*request.body == b"question" {
            return;
        }
        assert!(
            front
                .answer(&request.from, b"late".to_vec().into())
                .is_err()
        );
    }
    panic!("malformed");
}

#[test]
fn what_no_client_sends_is_malformed() {
    let (mut front, address) = front();
    let dealer = zmq::Context::new().socket(zmq::DEALER).unwrap();
    dealer.connect(&format!("tcp://{address}")).unwrap();
    for parts in [
        &["body"][..],
        &["", "body", "more"],
        &["", "body", "more", "and more", "and more"],
        &["not empty", "body"],
    ] {
        dealer.send_multipart(parts, 0).unwrap();
        assert!(matches!(next(&mut front), Received::Malformed), "{parts:?}");
    }
    dealer.send_multipart(["", "body"], 0).unwrap();
    assert!(matches!(next(&mut front), Received::Request(_)));
}

#[test]
fn other_peers_are_refused() {
    let (mut front, address) = front();
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &handshake("SUB"), &[0; 100]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(words).unwrap();
        stream.set_nonblocking(true).unwrap();
        tend_until_closed(&mut front, &mut stream, Pressure::None);
    }
}

#[test]
fn requests_over_tcp_are_answered_in_any_order() {
    use crate::front::Tcp;
    use halite_wire::tcp::{FrameDecoder, request};
    let options = front_options();
    let mut front = RequestServer::<Tcp>::bind("127.0.0.1", 0, &options).unwrap();
    let address = front.address().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let bodies = [&b"\x01"[..], b"\x02", b"\x03"];
    for (mid, body) in ["a", "b", "c"].into_iter().zip(bodies) {
        stream.write_all(&request(mid, body)).unwrap();
    }
    // A head that nobody needs is not worth the memory.
    stream
        .write_all(&request(&"x".repeat(1000), b"\x04"))
        .unwrap();
    let mut asked = Vec::new();
    for body in bodies {
        let Received::Request(request) = next(&mut front) else {
            panic!("no request");
        };
        assert_eq!(&*request.body, body);
        asked.push(request.from);
    }
    assert!(matches!(next(&mut front), Received::Malformed));
    for (from, body) in asked.iter().zip(bodies).rev() {
        front.answer(from, body.to_vec().into()).unwrap();
    }
    let (mut decoder, mut replies) = (FrameDecoder::default(), Vec::new());
    while replies.len() < 3 {
        let mut chunk = [0; 7];
        let n = stream.read(&mut chunk).unwrap();
        decoder
            .decode(&chunk[..n], 100, |frame| {
                replies.push((frame.head.to_vec(), frame.body.to_vec()));
            })
            .unwrap();
    }
    let head = |mid: u8| vec![0x81, 0xa3, b'm', b'i', b'd', 0xa1, mid];
    let expected = [b'c', b'b', b'a'].map(head);
    assert!(replies.iter().map(|(head, _)| head).eq(&expected));
    // Silence is no reason to end a connection, half a frame is.
    front.options.heartbeat = Duration::ZERO;
    front.options.stalled = Duration::ZERO;
    front.check_all(Instant::now() + SECOND);
    assert_eq!(front.connections.len(), 1);
    stream.write_all(b"\x82\xa4he").unwrap();
    while front.connections.values().all(|c| c.codec.held() == 0) {
        front.turn().unwrap();
    }
    front.check_all(Instant::now() + SECOND);
    assert!(front.connections.is_empty());
}

#[test]
fn requests_over_websocket_are_answered() {
    use crate::client::{Connection, Server};
    use crate::front::Ws;
    use crate::zmtp::{Event, SocketType};
    use halite_wire::Transport;
    let mut front = RequestServer::<Ws>::bind("127.0.0.1", 0, &front_options()).unwrap();
    let peer = Server {
        address: front.address().unwrap(),
        host: "localhost",
        transport: Transport::Ws,
        keepalive: KeepAlive::REQUEST_SERVER,
        tls: None,
    };
    let mut client = Connection::open(&peer, SocketType::Req).unwrap();
    let mut replies = Vec::new();
    for body in [&b"\xa3one"[..], &vec![b'x'; 100_000]] {
        client.request(body).unwrap();
        replies.clear();
        while replies.is_empty() {
            if let Received::Request(request) = front.receive().unwrap() {
                let reply = request.body.to_vec().into();
                front.answer(&request.from, reply).unwrap();
            }
            client
                .step(&mut |event| {
                    if let Event::Message(frames) = event {
                        replies.extend(frames);
                    }
                })
                .unwrap();
        }
        assert_eq!(replies, [body]);
    }
    assert!(client.is_ready());
    // Others are refused, and told why.
    let mut other = TcpStream::connect(peer.address).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    other.set_nonblocking(true).unwrap();
    while !is_closed(&mut other) {
        front.turn().unwrap();
    }
}
