//! Each master of a cluster knows which minions are connected to the others.

use halite::client::samples::Samples;
use halite::wire::{self, Map, msgpack};
use halite_ipc::Subscriber;
use serde_json::{Value, json};
use std::time::Duration;
use testing::cluster::{Cluster, kill_role, metric};
use testing::network::runs_apart;
use testing::three::ThreeByThree;
use testing::{Master, Minion, wait_for, wait_until};

/// The field of events of other masters.
const PEER: &str = "__peer_id";
const PRESENT: &str = "salt/presence/present";
const CHANGE: &str = "salt/presence/change";

fn manage(master: &Master, function: &str) -> Value {
    let function = format!("manage.{function}");
    let ran = master.halite_cli().runner(&[&function, "--out=json"]);
    ran.json().unwrap_or_default()
}

/// How many minions a master's metrics count as connected.
fn connected(master: &Master) -> Option<i64> {
    let samples = Samples::read(&master.home.sockets().join("master_status.ipc"));
    samples.ok()?.by("halite_minions", "state").int("connected")
}

/// Three masters on hosts of their own, with a minion each.
#[test]
fn a_master_lists_the_minions_of_all() {
    if runs_apart("cluster_presence::a_master_lists_the_minions_of_all") {
        return;
    }
    let Some(mut three) = ThreeByThree::start_on_hosts("") else {
        return;
    };
    let all = json!(["m0", "m1", "m2"]);
    let listed = |three: &ThreeByThree, n, function| three.at(n, |one| manage(one, function));
    for n in 0..3 {
        wait_until("all are listed", || listed(&three, n, "alived") == all);
        assert_eq!(listed(&three, n, "not_present"), json!([]));
        assert_eq!(listed(&three, n, "up"), all);
    }
    // A job for the minions of one master: nobody waits for the others.
    let here = |n: usize, target: &str| {
        three.at(n, |one| {
            let words = [target, "test.ping", "--here", "--out", "txt"];
            let ran = one.halite_cli().salt(&words);
            ran.out + &ran.err
        })
    };
    for n in 0..3 {
        assert_eq!(here(n, "*").trim(), format!("m{n}: True"));
    }
    let said = here(0, "m1");
    assert!(said.contains("connected to other masters"), "{said}");
    // One ends; its minion has no other master.
    three.masters[1].kill();
    for n in [0, 2] {
        wait_until("it is gone", || {
            listed(&three, n, "alived") == json!(["m0", "m2"])
        });
        assert_eq!(listed(&three, n, "not_alived"), json!(["m1"]));
    }
}

/// A minion that moves from one to the other, and a role that is killed.
#[test]
fn a_minion_that_moves_stays_listed() {
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let (relays, mut minion) = cluster.behind_relays(|master| Minion::halite(master, "m1", ""));
    let m1 = json!(["m1"]);
    for master in &cluster.masters {
        wait_until("it is listed", || manage(master, "present") == m1);
        wait_until("it counts as connected", || connected(master) == Some(1));
    }
    let elsewhere = |master: &Master| metric(master, "halite_cluster_minions_elsewhere");
    wait_until("the second has heard of it", || {
        elsewhere(&cluster.masters[1]) == 1.0
    });
    assert_eq!(elsewhere(&cluster.masters[0]), 0.0);
    // What is known is there for the other roles while a new process asks for it again.
    kill_role(&cluster.masters[1], "Cluster");
    assert_eq!(manage(&cluster.masters[1], "present"), m1);
    wait_until("the new one has heard of it", || {
        elsewhere(&cluster.masters[1]) == 1.0
    });
    relays.move_to(&cluster.masters[1]);
    wait_until("the first hears that it has moved", || {
        elsewhere(&cluster.masters[0]) == 1.0
    });
    assert_eq!(manage(&cluster.masters[0], "present"), m1);
    cluster.masters[0].kill();
    wait_until("nothing counts that the first has told", || {
        elsewhere(&cluster.masters[1]) == 0.0
    });
    assert_eq!(manage(&cluster.masters[1], "present"), m1);
    minion.terminate();
    wait_until("it is gone", || {
        manage(&cluster.masters[1], "present") == json!([])
    });
}

/// The next event about presence on this bus: its tag, its data, and the master that it comes from.
fn next_event(bus: &mut Subscriber) -> (String, Map, Option<String>) {
    wait_for("there is an event", || {
        let event = bus
            .next(Some(Duration::from_secs(1)))
            .expect("the bus is there")?;
        let data = event.payload.as_slice();
        let data = msgpack::decode(data).ok()?.into_map()?;
        let peer = data.str(PEER).map(str::to_owned);
        Some((event.tag, data, peer))
    })
}

/// One master tells on all buses who is connected to any; when it ends, another one goes on from there.
#[test]
fn the_leader_tells_who_is_connected() {
    let lines = "auto_accept: true\npresence_events: true";
    let Some(mut cluster) = Cluster::start(lines) else {
        return;
    };
    let mut minion = Minion::halite(&cluster.masters[0], "m1", "");
    let hear = |master: &Master| {
        let bus = Subscriber::connect(master.bus()).expect("the bus is there");
        bus.with_prefix("salt/presence/")
    };
    let [mut first, mut second] = [0, 1].map(|n| hear(&cluster.masters[n]));
    let list = |ids: &[&str]| {
        let ids = ids.iter().map(|id| wire::Value::from(*id));
        Some(wire::Value::Array(ids.collect()))
    };
    let mut leader = None;
    wait_until("the minion is present", || {
        let (tag, data, peer) = next_event(&mut second);
        // Nobody else tells anything.
        let peer = peer.unwrap_or_else(|| "two".to_owned());
        assert_eq!(*leader.get_or_insert(peer.clone()), peer);
        tag.ends_with("/present") && data.get("present").cloned() == list(&["m1"])
    });
    assert_eq!(leader.as_deref(), Some("one"), "the first began to lead");
    for _ in 0..4 {
        assert_eq!(next_event(&mut first).2, None);
        let (tag, _, peer) = next_event(&mut second);
        assert_eq!((tag.as_str(), peer.as_deref()), (PRESENT, Some("one")));
    }
    cluster.masters[0].kill();
    let change = wait_for("the second tells", || {
        let (tag, data, peer) = next_event(&mut second);
        match peer {
            None => Some((tag, data)),
            Some(_) => None,
        }
    });
    // What it tells first is what has changed since the first has told.
    assert_eq!(change.0, CHANGE);
    assert_eq!(change.1.get("lost").cloned(), list(&["m1"]));
    assert_eq!(change.1.get("new").cloned(), list(&[]));
    minion.must_live();
}
