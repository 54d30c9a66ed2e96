//! Each master of a cluster knows which minions are connected to the others.

use halite::client::samples::Samples;
use serde_json::{Value, json};
use testing::cluster::{Cluster, kill_role, metric};
use testing::network::runs_apart;
use testing::three::ThreeByThree;
use testing::{Master, Minion, wait_until};

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
