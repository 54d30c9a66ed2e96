//! Masters that have keys of minions, sessions and the key of publications in common, over a real `nats-server`.

use halite::store::Stores;
use halite::store::keys::KeyState;
use halite::wire::ids::MinionId;
use serde_json::json;
use std::fs;
use testing::nats_server::NatsServer;
use testing::proxy::Proxy;
use testing::{Master, Minion, wait_until};

/// A server with JetStream.
fn server() -> Option<NatsServer> {
    NatsServer::start(&["--jetstream", "--store_dir", "jetstream"])
}

fn lines(nats: &NatsServer, more: &str) -> String {
    format!(
        "cluster_id: test\ncluster_secret: 0123456789abcdef0123456789abcdef\n\
         cluster: {{servers: ['{}'], replicas: 1}}\n{more}",
        nats.address()
    )
}

fn is_member(master: &Master) -> bool {
    master.tail().contains("cluster: member of test")
}

/// A master with the key of another one.
fn join(first: &Master, lines: &str) -> Master {
    let mut master = Master::halite(lines);
    wait_until("it says that its key is another one", || {
        master
            .tail()
            .contains("is not the key of the masters of test")
    });
    master.stop();
    for name in ["master.pem", "master.pub"] {
        let to = master.home.pki().join(name);
        let _ = fs::remove_file(&to);
        fs::copy(first.home.pki().join(name), to).unwrap();
    }
    master.start_again();
    wait_until("it is a member", || is_member(&master));
    master
}

fn state(master: &Master, id: &str) -> Option<KeyState> {
    let config = halite::config::load_master(&master.home.config_dir()).unwrap();
    let id: MinionId = id.parse().unwrap();
    let state = Stores::open(&config).keys.state(&id).unwrap();
    state.map(|(state, _)| state)
}

fn wait_state(masters: &[&Master], id: &str, wanted: Option<KeyState>) {
    for master in masters {
        wait_until(&format!("{id} is {wanted:?} everywhere"), || {
            state(master, id) == wanted
        });
    }
}

fn answers(master: &Master, id: &str) -> bool {
    let said = master.halite_cli().ask(&[id, "test.ping", "-t", "3"]);
    said.is_ok_and(|said| said.get(id) == Some(&json!(true)))
}

#[test]
fn minions_move_without_a_sign_in() {
    let Some(nats) = server() else { return };
    let lines = lines(&nats, "auto_accept: false");
    let mut one = Master::halite(&lines);
    wait_until("the first is a member", || is_member(&one));
    let two = join(&one, &lines);
    let [publish, ret] = [one.publish_port, one.ret_port].map(Proxy::to);
    let own = [one.publish_port, one.ret_port];
    [one.publish_port, one.ret_port] = [publish.port, ret.port];
    let mut minion = Minion::halite(&one, "m1", "");
    [one.publish_port, one.ret_port] = own;
    // It waits at one master, and is accepted at the other.
    wait_state(&[&one, &two], "m1", Some(KeyState::Pending));
    two.halite_cli().key(&["-a", "m1", "-y"]).ok().unwrap();
    wait_state(&[&one, &two], "m1", Some(KeyState::Accepted));
    wait_until("it answers the first", || answers(&one, "m1"));
    let sign_ins = |minion: &Minion| {
        let log = fs::read_to_string(minion.home.log()).unwrap();
        log.matches("signed in at").count()
    };
    let before = sign_ins(&minion);
    publish.redirect(two.publish_port);
    ret.redirect(two.ret_port);
    wait_until("it answers the second", || answers(&two, "m1"));
    publish.redirect(one.publish_port);
    ret.redirect(one.ret_port);
    wait_until("it answers the first again", || answers(&one, "m1"));
    assert_eq!(sign_ins(&minion), before);
    minion.must_live();
    // Deleted at one, it is deleted everywhere, and cannot read what is published anywhere.
    one.halite_cli().key(&["-d", "m1", "-y"]).ok().unwrap();
    wait_state(&[&one, &two], "m1", None);
    // It asks again.
    wait_state(&[&one, &two], "m1", Some(KeyState::Pending));
}

#[test]
fn keys_agree_after_a_time_without_servers() {
    let Some(mut nats) = server() else { return };
    let lines = lines(&nats, "");
    let one = Master::halite(&lines);
    wait_until("the first is a member", || is_member(&one));
    let two = join(&one, &lines);
    let id = |name: &str| -> MinionId { name.parse().unwrap() };
    let keys = |master: &Master| {
        let config = halite::config::load_master(&master.home.config_dir()).unwrap();
        Stores::open(&config).keys
    };
    for name in ["kept", "deleted"] {
        keys(&one)
            .put(KeyState::Accepted, &id(name), "a key")
            .unwrap();
        wait_state(&[&two], name, Some(KeyState::Accepted));
    }
    nats.kill();
    wait_until("both notice", || {
        [&one, &two]
            .iter()
            .all(|m| m.tail().contains("goes on with the keys"))
    });
    // What is changed meanwhile waits; what is new waits for the operator.
    keys(&one)
        .put(KeyState::Accepted, &id("new"), "a key")
        .unwrap();
    nats.restart();
    wait_state(&[&one, &two], "new", Some(KeyState::Pending));
    wait_state(&[&one, &two], "kept", Some(KeyState::Accepted));
    // Nothing of it is readable, and what others write counts for nothing.
    let mut stranger = nats.client();
    stranger.publish("$KV.HALITE_test_STATE.key.evil", b"a key");
    keys(&two)
        .delete(KeyState::Accepted, &id("deleted"))
        .unwrap();
    wait_state(&[&one, &two], "deleted", None);
    assert_eq!(state(&one, "evil"), None);
    wait_until("the log tells of the stranger", || {
        one.tail()
            .contains("was not written by a master of this cluster")
    });
}
