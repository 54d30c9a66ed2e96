//! Subscribers of the transports tcp and ws.

use super::*;
use crate::client::Server;
use crate::subscription::Subscription;
use halite_wire::Transport;

/// Subscribers of the TCP transport: they get everything until it is known who they are.
#[test]
fn who_is_registered_gets_only_its_topics() {
    let mut server = server::<Tcp>(PublishOptions::default());
    let address = server.address().unwrap();
    let connect = |server: &mut PublishServer<Tcp>, claim: &[u8]| {
        let peer = Server {
            address,
            host: "localhost",
            transport: Transport::Tcp,
            keepalive: KeepAlive::REQUEST_SERVER,
            tls: None,
        };
        let mut new = Subscription::open(&peer, claim).unwrap();
        let mut claims = Vec::new();
        drive(server, "a claim", |_| {
            new.advance();
            new.is_ready()
        });
        while claims.is_empty() {
            server.turn(Instant::now()).unwrap();
            claims = server.take_claims();
        }
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].envelope, claim);
        (new, claims[0].token)
    };
    let mut stranger = connect(&mut server, b"\x01").0;
    let (mut minion, token) = connect(&mut server, b"\x02");
    server.register(token, &[b"broadcast".to_vec(), b"m".to_vec()]);
    let (mut liar, token) = connect(&mut server, b"\x03");
    let topics = |names: &[&str]| -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    };
    server.publish(&topics(&["m", "n", "broadcast"]), b"for m and others");
    server.publish(&topics(&["n"]), b"for n");
    server.publish(&[], b"for all");
    server.refuse(token, "it lies");
    server.publish(&topics(&["broadcast"]), b"end");
    let mut heard = [Vec::new(), Vec::new()];
    drive(&mut server, "publications", |_| {
        heard[0].extend(stranger.receive());
        heard[1].extend(minion.receive());
        let end = b"end".to_vec();
        heard.iter().all(|heard| heard.last() == Some(&end))
    });
    let all = ["for m and others", "for n", "for all", "end"];
    assert!(
        heard[0]
            .iter()
            .map(Vec::as_slice)
            .eq(all.map(str::as_bytes))
    );
    assert!(
        heard[1]
            .iter()
            .map(Vec::as_slice)
            .eq([all[0], all[2], all[3]].map(str::as_bytes))
    );
    drive(&mut server, "the end of a connection", |_| {
        liar.advance();
        liar.lost().is_some()
    });
    assert_eq!(server.counters().refused, 1);
    // Whoever says nothing is not kept, nor whoever says too much.
    server.cx.options.handshake = Duration::ZERO;
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    drive(&mut server, "a connection", |s| s.waiting().0 == 3);
    drive(&mut server, "the end of silence", |s| {
        s.counters().ended == 1
    });
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)));
    let mut loud = TcpStream::connect(address).unwrap();
    server.cx.options.handshake = LIMIT;
    loud.write_all(&halite_wire::tcp::message(b"\x01").repeat(17))
        .unwrap();
    drive(&mut server, "the end of too much", |s| {
        s.counters().refused == 2
    });
}

/// A subscriber of WebSocket gets everything, also what was published before the stream was open.
#[test]
fn who_speaks_websocket_misses_nothing() {
    let mut server = server::<Ws>(PublishOptions::default());
    let peer = Server {
        address: server.address().unwrap(),
        host: "localhost",
        transport: Transport::Ws,
        keepalive: KeepAlive::REQUEST_SERVER,
        tls: None,
    };
    let mut subscription = Subscription::open(&peer, b"m1").unwrap();
    drive(&mut server, "a connection", |s| s.waiting().0 == 1);
    server.publish(&[], b"early");
    server.publish(&[b"m".to_vec(), b"n".to_vec()], b"once");
    let mut heard = Vec::new();
    drive(&mut server, "what was early", |_| {
        heard.extend(subscription.receive());
        heard.len() == 2
    });
    server.publish(&[b"m".to_vec()], b"later");
    server.publish(&[], &vec![b'x'; 70_000]);
    drive(&mut server, "what was later", |_| {
        heard.extend(subscription.receive());
        heard.len() == 4
    });
    assert_eq!(
        heard,
        [
            b"early".to_vec(),
            b"once".to_vec(),
            b"later".to_vec(),
            vec![b'x'; 70_000]
        ]
    );
    let [claim] = &server.take_claims()[..] else {
        panic!("it says once who it is");
    };
    assert_eq!(claim.envelope, b"m1");
    server.register(claim.token, &[b"m".to_vec()]);
    server.publish(&[b"n".to_vec()], b"for others");
    server.publish_exact(b"m", b"for m alone");
    drive(&mut server, "what is for it", |_| {
        heard.extend(subscription.receive());
        heard.len() == 5
    });
    assert_eq!(heard[4], b"for m alone");
}
