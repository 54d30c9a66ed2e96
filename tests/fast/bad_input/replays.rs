//! A request counts once.

use super::*;
use nix::sys::signal::Signal;
use testing::harness::{eventually, send};

/// A sealed event of a minion, which the master has accepted.
fn accepted_event(target: &Target, peer: &Peer) -> Vec<u8> {
    let load =
        peer.load(map! {"cmd" => "_minion_event", "tag" => "my/event", "data" => Map::new()});
    let request = peer.session.seal_raw("m1", &load);
    assert_eq!(
        peer.session.open(NONCE, &target.ask(&request)),
        Ok(Value::Nil)
    );
    request
}

#[test]
fn a_request_counts_once() {
    let mut target = Target::start();
    let peer = Peer::sign_in(&target, "m1");
    let mut events = target.listen();
    let request = accepted_event(&target, &peer);
    for _ in 0..3 {
        assert_eq!(
            msgpack::decode(&target.ask(&request)).unwrap(),
            "bad load".into()
        );
    }
    let seen = events_until_marker(&peer, &mut events);
    assert_eq!(seen.iter().filter(|e| e.tag == "my/event").count(), 1);
    drop(peer);
    target.is_fine("replays");
}

/// Whoever makes the request server restart does not make it forget.
#[test]
fn a_request_counts_once_also_after_a_restart_of_the_request_server() {
    let target = Target::start();
    let peer = Peer::sign_in(&target, "m1");
    let request = accepted_event(&target, &peer);
    let server = || target.master.role(" ReqServer MWorkerQueue").map(|p| p.pid);
    let before = server();
    send(before.unwrap(), Signal::SIGKILL);
    eventually("another request server", || {
        server().is_some_and(|pid| Some(pid) != before)
    });
    assert_eq!(
        msgpack::decode(&target.ask(&request)).unwrap(),
        "bad load".into()
    );
}

#[test]
fn a_request_sent_many_times_at_once_counts_once() {
    let mut target = Target::start();
    let peer = Peer::sign_in(&target, "m1");
    let mut events = target.listen();
    let context = zmq::Context::new();
    for round in 0..20 {
        let load = peer.load(
            map! {"cmd" => "_minion_event", "tag" => "my/event", "data" => map! {"round" => round}},
        );
        let request = peer.session.seal_raw("m1", &load);
        let sockets: Vec<zmq::Socket> = (0..8).map(|_| context.socket(zmq::REQ).unwrap()).collect();
        for socket in &sockets {
            socket.set_linger(0).unwrap();
            socket.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
            socket
                .connect(&tcp_url("127.0.0.1", target.master.ret_port))
                .unwrap();
        }
        sockets.iter().for_each(|s| s.send(&request, 0).unwrap());
        let accepted = sockets
            .iter()
            .filter(|s| peer.session.open(NONCE, &s.recv_bytes(0).unwrap()).is_ok())
            .count();
        assert_eq!(accepted, 1, "round {round}");
    }
    let seen = events_until_marker(&peer, &mut events);
    assert_eq!(seen.iter().filter(|e| e.tag == "my/event").count(), 20);
    drop(peer);
    target.is_fine("parallel replays");
}
