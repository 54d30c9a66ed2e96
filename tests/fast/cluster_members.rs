//! Masters of a cluster come, go, and fetch what they lack.

use serde_json::{Value, json};
use std::fs;
use testing::cluster::{Cluster, jobs, metric};
use testing::three::Ear;
use testing::{Master, Minion, wait_until};

fn members(master: &Master) -> Value {
    let ran = master
        .halite_cli()
        .runner(&["cluster.members", "--out=json"]);
    ran.json().unwrap_or_default()
}

fn answers(master: &Master, words: &[&str]) -> bool {
    let said = master.halite_cli().ask(words);
    said.is_ok_and(|said| said.get("m1") == Some(&json!(true)))
}

/// All know who is there, and one that is drained has no minions and does not lead.
#[test]
fn a_master_is_drained_before_it_stops() {
    let lines = "cluster_peers: [one, two, three]\nauto_accept: true";
    let Some(mut cluster) = Cluster::start_with("drain: 1", lines) else {
        return;
    };
    wait_until("each knows the others", || {
        cluster.masters.iter().all(|master| {
            let found = members(master);
            ["one", "two"].iter().all(|id| found[id]["state"] == "up")
        })
    });
    assert_eq!(
        members(&cluster.masters[0])["three"],
        json!({"state": "missing", "version": ""})
    );
    let (relays, mut minion) = cluster.behind_relays(|master| Minion::halite(master, "m1", ""));
    let ping = ["m1", "test.ping", "-t", "2"];
    wait_until("it answers", || answers(&cluster.masters[0], &ping));
    let leads = |master: &Master| metric(master, "halite_cluster_leader") > 0.0;
    wait_until("the first leads", || leads(&cluster.masters[0]));
    wait_until("its minion counts", || {
        members(&cluster.masters[1])["one"]["connections"] == 1
    });
    // As a load balancer would do when the master says that it is not ready.
    relays.move_to(&cluster.masters[1]);
    let ran = cluster.masters[0].halite_cli().runner(&["cluster.drain"]);
    ran.ok().expect("it is drained");
    wait_until("the second knows it", || {
        let one = &members(&cluster.masters[1])["one"];
        one["state"] == "draining" && one["connections"] == 0
    });
    let here = ["m1", "test.ping", "-t", "2", "--here"];
    wait_until("the minion is at the second", || {
        answers(&cluster.masters[1], &here)
    });
    wait_until("the second leads", || leads(&cluster.masters[1]));
    assert!(!leads(&cluster.masters[0]));
    // It goes on working for the others.
    wait_until("it answers the first", || {
        answers(&cluster.masters[0], &ping)
    });
    cluster.masters[0].stop();
    wait_until("the second knows that it has stopped", || {
        members(&cluster.masters[1])["one"]["state"] == "stopped"
    });
    cluster.masters[0].start_again();
    wait_until("it is there again", || {
        members(&cluster.masters[1])["one"]["state"] == "up"
    });
    wait_until("it knows the second", || {
        members(&cluster.masters[0])["two"]["state"] == "up"
    });
    cluster.masters[1].kill();
    wait_until("the first knows that the second is away", || {
        let state = &members(&cluster.masters[0])["two"]["state"];
        ["silent", "stopped"].iter().any(|away| state == away)
    });
    minion.must_live();
}

/// Whatever a job cache lacks is in that of another master.
#[test]
fn what_a_job_cache_lacks_is_fetched() {
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let mut minion = Minion::halite(&cluster.masters[0], "m1", "");
    let ping = ["m1", "test.ping", "-t", "2"];
    wait_until("it answers", || answers(&cluster.masters[0], &ping));
    let echo = |master: &Master, text: &str| {
        let ran = master.halite_cli().salt(&["m1", "test.echo", text, "-v"]);
        let out = ran.ok().expect("the job runs");
        let mut words = out.split_whitespace();
        let jid = words.find_map(|word| word.parse().ok());
        jid.expect("a jid")
    };
    let has = |master: &Master, jid| {
        let job = jobs(master).get(jid).unwrap();
        job.is_some_and(|job| {
            job.returns.len() == 1
                && job.minions == ["m1"]
                && job.load.str("fun") == Some("test.echo")
        })
    };
    // The second is away, and what was told meanwhile is no longer there when it comes back.
    let before = echo(&cluster.masters[0], "a");
    wait_until("the second has it", || has(&cluster.masters[1], &before));
    cluster.masters[1].stop();
    let jids = ["b", "c"].map(|text| echo(&cluster.masters[0], text));
    wait_until("all is told", || {
        metric(&cluster.masters[0], "halite_cluster_waiting") == 0.0
    });
    let mut client = cluster.nats.client();
    client.publish("$JS.API.STREAM.PURGE.HALITE_test_LOG", b"");
    client.settle();
    // Nothing can be fetched before somebody listens.
    cluster.masters[0].pause();
    cluster.masters[1].start_again();
    let ear = Ear::at(&cluster.masters[1]);
    cluster.masters[0].resume();
    for jid in &jids {
        wait_until("it is fetched", || has(&cluster.masters[1], jid));
        wait_until("its bus tells", || ear.times(jid, "m1") == 1);
    }
    // It loses its job cache, and the operator asks for it.
    cluster.masters[1].stop();
    for dir in ["joblog", "jobs"] {
        fs::remove_dir_all(cluster.masters[1].home.cache().join(dir)).unwrap();
    }
    cluster.masters[1].start_again();
    wait_until("the others are there", || {
        members(&cluster.masters[1])["one"]["state"] == "up"
    });
    assert!(!has(&cluster.masters[1], &before));
    let ear = Ear::at(&cluster.masters[1]);
    let ran = cluster.masters[1].halite_cli().runner(&["cluster.resync"]);
    ran.ok().expect("it can be asked for");
    for jid in jids.iter().chain([&before]) {
        wait_until("it is fetched", || has(&cluster.masters[1], jid));
    }
    // That is not new, so the bus tells nothing.
    let last = echo(&cluster.masters[0], "d");
    wait_until("its bus tells of a new one", || ear.times(&last, "m1") == 1);
    for jid in jids.iter().chain([&before]) {
        assert_eq!(ear.times(jid, "m1"), 0);
    }
    minion.must_live();
}
