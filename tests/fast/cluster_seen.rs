//! A request that one master has answered counts at no other one, although the session is valid there.

use halite::client::swarm::session::{MinionKeys, Session, SignIn};
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::{Map, Value, msgpack};
use testing::cluster::{Cluster, metric};
use testing::harness::{LIMIT, keys};
use testing::{Master, wait_for, wait_until};

fn ask(master: &Master, body: &[u8]) -> Vec<u8> {
    let url = tcp_url("127.0.0.1", master.ret_port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    let reply = requester.ask(body, LIMIT).expect("it can be asked");
    reply.expect("it answers")
}

fn sign_in(master: &Master, keys: &MinionKeys) -> Option<Session> {
    let (sign_in, request) = SignIn::begin("m1", keys, None, None);
    sign_in.finish(None, &ask(master, &request)).ok()
}

#[test]
fn a_recorded_request_fails_at_another_master() {
    let Some(cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let [one, two] = &cluster.masters;
    let keys = keys("minion");
    let session = wait_for("the key is accepted", || sign_in(one, &keys));
    let event = halite::wire::map! {
        "cmd" => "_minion_event", "tag" => "my/event", "data" => Map::new(),
    };
    let learned = |master| metric(master, "halite_requests_learned_total");
    assert_eq!(learned(two), 0.0);
    let (request, nonce) = session.seal("m1", &keys, &event);
    assert_eq!(session.open(&nonce, &ask(one, &request)), Ok(Value::Nil));
    wait_until("the other master has heard of it", || learned(two) == 1.0);
    let said = msgpack::decode(&ask(two, &request)).expect("an answer");
    assert_eq!(said, "bad load".into());
    // The same session goes on there.
    let (request, nonce) = session.seal("m1", &keys, &event);
    assert_eq!(session.open(&nonce, &ask(two, &request)), Ok(Value::Nil));
    wait_until("the first master has heard of that", || learned(one) == 1.0);
    let said = msgpack::decode(&ask(one, &request)).expect("an answer");
    assert_eq!(said, "bad load".into());
}
