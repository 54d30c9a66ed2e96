//! What happens when parts of a cluster of three masters and three NATS servers fail: the table "When something fails" of
//! docs/cluster.md, row by row.

use halite::store::keys::KeyState;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testing::cluster::{keys, kill_role, metric, state};
use testing::network::runs_apart;
use testing::three::{Ear, LOG, ThreeByThree};
use testing::{NatsServer, wait_for, wait_until};

const ALL: [usize; 3] = [0, 1, 2];
const MINIONS: [&str; 3] = ["m0", "m1", "m2"];

/// The other two.
fn others(n: usize) -> [usize; 2] {
    let [a, b] = [(n + 1) % 3, (n + 2) % 3];
    [a.min(b), a.max(b)]
}

fn put_key(three: &ThreeByThree, n: usize, id: &str) {
    let id = id.parse().expect("an id");
    let put = keys(&three.masters[n]).put(KeyState::Accepted, &id, "a key");
    put.expect("a key can be stored");
}

fn delete_key(three: &ThreeByThree, n: usize, id: &str) {
    let id = id.parse().expect("an id");
    let deleted = keys(&three.masters[n]).delete(KeyState::Accepted, &id);
    assert!(deleted.expect("a key can be deleted"), "{id} was there");
}

fn sign_ins(three: &ThreeByThree) -> Vec<usize> {
    let logs = three.minions.iter().map(|minion| minion.home.log());
    logs.map(|log| fs::read_to_string(log).unwrap_or_default())
        .map(|log| log.matches("signed in at").count())
        .collect()
}

/// Each master publishes a job that all minions run and all masters hear of, and a change of keys reaches all.
fn works(three: &ThreeByThree, word: &str) {
    for n in ALL {
        let word = format!("{word}{n}");
        let jid = three.work(n, &word);
        three.wait_returned(&ALL, &jid, &MINIONS);
        assert_eq!(three.runs(&word), 3, "{word}");
        put_key(three, n, &word);
        three.wait_state(&ALL, &word, Some(KeyState::Accepted));
    }
}

/// A NATS server that leads nothing is killed: jobs and keys go on.
#[test]
fn a_follower_ends() {
    let Some(mut three) = ThreeByThree::start("") else {
        return;
    };
    put_key(&three, 0, "old");
    three.wait_state(&ALL, "old", Some(KeyState::Accepted));
    let dead = three.follower();
    three.servers[dead].kill();
    works(&three, "without");
    delete_key(&three, dead, "old");
    three.wait_state(&ALL, "old", None);
    three.start_server(dead);
    three.wait_settled(&[]);
}

/// The server that leads the stream of jobs is killed while minions work, and until they are done, no other can become the leader:
/// their returns are acknowledged all the same, and reach all masters later, once.
#[test]
fn the_leader_of_the_stream_ends() {
    let Some(mut three) = ThreeByThree::start("") else {
        return;
    };
    let ears = ALL.map(|n| Ear::at(&three.masters[n]));
    let (begun, go) = (three.line("begun"), three.path("go"));
    let line = format!(
        "{begun}; until [ -e {} ]; do sleep 0.05; done; {}",
        go.display(),
        three.line("done")
    );
    let jid = three.publish(0, &["*", "cmd.run", &line]);
    let jid = jid.expect("it is published");
    wait_until("all work", || three.runs("begun") == 3);
    let dead = three.leader_of(LOG);
    let [other, _] = others(dead);
    three.servers[other].pause();
    three.servers[dead].kill();
    fs::write(&go, "").expect("a file can be written");
    for minion in &three.minions {
        wait_until("its return is acknowledged", || {
            three.returned_of(minion, &jid) && three.unsent(minion) == 0
        });
    }
    three.servers[other].resume();
    three.wait_returned(&ALL, &jid, &MINIONS);
    assert_eq!(three.runs("done"), 3);
    works(&three, "elected");
    three.wait_settled(&[]);
    for ear in &ears {
        assert_eq!(MINIONS.map(|id| ear.times(&jid, id)), [1, 1, 1]);
        assert_eq!(ear.repeated(), Vec::<String>::new());
    }
}

/// All servers are killed: masters serve their own minions, and tell the others when the servers are back.
#[test]
fn all_servers_end() {
    let Some(mut three) = ThreeByThree::start("") else {
        return;
    };
    works(&three, "before");
    let before = sign_ins(&three);
    let ears = ALL.map(|n| Ear::at(&three.masters[n]));
    three.servers.iter_mut().for_each(NatsServer::kill);
    let mut jobs = Vec::new();
    for n in ALL {
        wait_until("it refuses", || three.is_refused(n));
        let line = three.line(&format!("here{n}"));
        let jid = three.publish(n, &["*", "cmd.run", &line, "--here"]);
        let jid = jid.expect("its own minion gets it");
        three.wait_returned(&[n], &jid, &[MINIONS[n]]);
        jobs.push(jid);
    }
    put_key(&three, 0, "new");
    delete_key(&three, 1, "before0");
    for n in ALL {
        three.start_server(n);
    }
    for n in ALL {
        three.wait_returned(&ALL, &jobs[n], &[MINIONS[n]]);
        assert_eq!(three.runs(&format!("here{n}")), 1);
    }
    for (id, wanted) in [
        ("new", Some(KeyState::Accepted)),
        ("before0", None),
        ("before1", Some(KeyState::Accepted)),
    ] {
        three.wait_state(&ALL, id, wanted);
    }
    works(&three, "after");
    three.wait_settled(&[]);
    assert_eq!(sign_ins(&three), before);
    for ear in &ears {
        assert_eq!(ear.repeated(), Vec::<String>::new());
        for n in ALL {
            assert_eq!(ear.times(&jobs[n], MINIONS[n]), 1);
        }
    }
}

/// The host with the server that leads the stream of jobs is cut off.
#[test]
fn the_host_of_a_leader_is_cut_off() {
    if !runs_apart("cluster_failures::the_host_of_a_leader_is_cut_off") {
        an_island(|three| three.leader_of(LOG));
    }
}

/// A host is cut off whose server leads nothing.
#[test]
fn the_host_of_a_follower_is_cut_off() {
    if !runs_apart("cluster_failures::the_host_of_a_follower_is_cut_off") {
        an_island(ThreeByThree::follower);
    }
}

/// A host with a master, two minions and a server is cut off: the others go on, it serves its own minions and publishes no job for
/// all; when it is back, all are equal.
fn an_island(which: impl Fn(&ThreeByThree) -> usize) {
    let Some(three) = ThreeByThree::start_on_hosts("") else {
        return;
    };
    let network = three.network.as_ref().expect("hosts are in a network");
    works(&three, "before");
    let island = which(&three);
    let majority = others(island);
    let gone = three.start_minion(island, "gone");
    let own = ["gone", MINIONS[island]];
    network.cut(island);
    // What is published before the master notices goes to its own minions, and maybe to the others.
    for n in 0..3 {
        let early = three.publish(island, &["*", "test.echo", &n.to_string()]);
        early.expect("nothing is known yet");
    }
    wait_until("the island notices", || {
        metric(&three.masters[island], "halite_cluster_member") == 0.0
    });
    wait_until("it refuses jobs", || three.is_refused(island));
    // The others go on.
    let [a, b] = majority;
    let theirs = [MINIONS[a], MINIONS[b]];
    for n in majority {
        three.wait_answers(n, &theirs);
    }
    delete_key(&three, b, "gone");
    put_key(&three, a, "new");
    three.wait_state(&majority, "gone", None);
    three.wait_state(&majority, "new", Some(KeyState::Accepted));
    // The island keeps what it has.
    assert_eq!(state(&three.masters[island], "new"), None);
    let accepted = Some(KeyState::Accepted);
    assert_eq!(state(&three.masters[island], "gone"), accepted);
    let words = ["*", "pillar.items", "--here"];
    let said = three.at(island, |master| master.halite_cli().ask(&words));
    let said = said.expect("its minions answer");
    assert!(own.iter().all(|id| said[*id].is_object()), "{said:?}");
    let line = three.line("here");
    let here = three.publish(island, &["*", "cmd.run", &line, "--here"]);
    let here = here.expect("it is published");
    three.wait_returned(&[island], &here, &own);
    assert!(three.is_refused(island));
    assert!(
        majority
            .iter()
            .all(|n| three.returned(*n, &here).is_empty())
    );
    wait_until("all is acknowledged", || three.unsent(&gone) == 0);
    network.heal(island);
    three.wait_returned(&ALL, &here, &own);
    three.wait_state(&[island], "new", accepted);
    wait_until("it is gone on the island", || {
        // It asks anew.
        state(&three.masters[island], "gone") != accepted
    });
    works(&three, "healed");
    three.wait_settled(&[&gone]);
    assert_eq!(three.runs("here"), 2);
    assert!(
        ALL.iter()
            .all(|n| state(&three.masters[*n], "gone") != accepted)
    );
}

/// A master that hangs for longer than its lease leads no more when it goes on, not even once.
#[test]
fn a_leader_hangs() {
    let lines = "schedule: {tick: {function: salt.cmd, args: [test.echo, x], seconds: 1}}";
    let Some(three) = ThreeByThree::start(lines) else {
        return;
    };
    let runs = |n: usize| {
        let log = three.masters[n].log();
        log.matches("the scheduled job tick runs").count()
    };
    let leads = |n: usize| metric(&three.masters[n], "halite_cluster_leader") > 0.0;
    let first = wait_for("one of them leads", || ALL.into_iter().find(|n| leads(*n)));
    // It stops just after it has begun a job: none is about to begin.
    let begun = runs(first);
    wait_until("it runs the schedule", || runs(first) > begun);
    three.masters[first].pause();
    let stopped = runs(first);
    let rest = others(first);
    let next = wait_for("another one leads", || rest.into_iter().find(|n| leads(*n)));
    wait_until("it runs the schedule", || runs(next) >= 2);
    three.masters[first].resume();
    let since = runs(next);
    wait_until("the one that hung takes part again", || {
        metric(&three.masters[first], "halite_cluster_member") > 0.0 && !leads(first)
    });
    wait_until("the schedule goes on", || runs(next) >= since + 5);
    assert_eq!(runs(first), stopped);
    assert_eq!(ALL.map(leads), ALL.map(|n| n == next));
    works(&three, "resumed");
}

/// Roles of all masters are killed in turn while jobs are published at all of them: what a minion has run is at all masters.
#[test]
fn roles_end_under_load() {
    let Some(three) = ThreeByThree::start("") else {
        return;
    };
    let is_over = AtomicBool::new(false);
    let load = || {
        let mut jobs = 0;
        while !is_over.load(Ordering::Acquire) {
            let words = ["*", "test.echo", "x"];
            jobs += usize::from(three.publish(jobs % 3, &words).is_ok());
            // A steady load, not all that the machine can do.
            std::thread::sleep(Duration::from_millis(100));
        }
        jobs
    };
    let roles = [
        "Cluster",
        "MWorker-0",
        "MWorkerQueue",
        "_publish_daemon",
        "EventPublisher",
    ];
    let jobs = std::thread::scope(|scope| {
        let load = scope.spawn(load);
        for n in roles.iter().flat_map(|_| ALL).enumerate() {
            let (round, n) = n;
            kill_role(&three.masters[n], roles[round / 3]);
            three.wait_answers(n, &MINIONS);
        }
        is_over.store(true, Ordering::Release);
        load.join().expect("it does not panic")
    });
    assert!(jobs > 0);
    works(&three, "after");
    three.wait_settled(&[]);
}
