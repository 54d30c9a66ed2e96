//! Masters that have keys of minions, sessions and the key of publications in common, over a real `nats-server`.

use halite::store::keys::KeyState;
use halite::wire::ids::MinionId;
use serde_json::json;
use std::fs;
use testing::cluster::{Cluster, keys, state};
use testing::{Master, Minion, wait_until};

fn answers(master: &Master, id: &str) -> bool {
    let said = master.halite_cli().ask(&[id, "test.ping", "-t", "3"]);
    said.is_ok_and(|said| said.get(id) == Some(&json!(true)))
}

#[test]
fn minions_move_without_a_sign_in() {
    let Some(mut cluster) = Cluster::start("auto_accept: false") else {
        return;
    };
    let (relays, mut minion) = cluster.behind_relays(|master| Minion::halite(master, "m1", ""));
    // It waits at one master, and is accepted at the other.
    cluster.wait_state("m1", Some(KeyState::Pending));
    let key = |master: &Master, what: &str| {
        let ran = master.halite_cli().key(&[what, "m1", "-y"]);
        ran.ok().expect("the key can be changed");
    };
    key(&cluster.masters[1], "-a");
    cluster.wait_state("m1", Some(KeyState::Accepted));
    let [one, two] = &cluster.masters;
    wait_until("it answers the first", || answers(one, "m1"));
    let sign_ins = |minion: &Minion| {
        let log = fs::read_to_string(minion.home.log()).unwrap();
        log.matches("signed in at").count()
    };
    let before = sign_ins(&minion);
    for master in [two, one, two] {
        relays.move_to(master);
        wait_until("it answers the next", || answers(master, "m1"));
    }
    assert_eq!(sign_ins(&minion), before);
    minion.must_live();
    // Deleted at one, it is deleted everywhere.
    key(one, "-d");
    cluster.wait_state("m1", None);
    assert!(!answers(two, "m1"));
}

#[test]
fn keys_agree_after_a_time_without_servers() {
    let Some(mut cluster) = Cluster::start("") else {
        return;
    };
    let id = |name: &str| -> MinionId { name.parse().unwrap() };
    let keys = [0, 1].map(|n: usize| keys(&cluster.masters[n]));
    for name in ["kept", "deleted"] {
        keys[0].put(KeyState::Accepted, &id(name), "a key").unwrap();
        cluster.wait_state(name, Some(KeyState::Accepted));
    }
    cluster.nats.kill();
    wait_until("both notice", || {
        let told = |master: &Master| master.tail().contains("goes on with the keys");
        cluster.masters.iter().all(told)
    });
    // What is new meanwhile waits for the operator.
    keys[0]
        .put(KeyState::Accepted, &id("new"), "a key")
        .unwrap();
    cluster.nats.restart();
    cluster.wait_state("new", Some(KeyState::Pending));
    cluster.wait_state("kept", Some(KeyState::Accepted));
    // What others write counts for nothing.
    let mut stranger = cluster.nats.client();
    stranger.publish("$KV.HALITE_test_STATE.key.evil", b"a key");
    keys[1].delete(KeyState::Accepted, &id("deleted")).unwrap();
    cluster.wait_state("deleted", None);
    assert_eq!(state(&cluster.masters[0], "evil"), None);
    wait_until("the log tells of the stranger", || {
        let tail = cluster.masters[0].tail();
        tail.contains("was not written by a master of this cluster")
    });
}
