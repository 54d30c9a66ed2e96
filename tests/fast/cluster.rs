//! Masters that have keys of minions, sessions and the key of publications in common, over a real `nats-server`.

use halite::store::keys::KeyState;
use halite::wire::ids::{Jid, MinionId};
use halite_ipc::Subscriber;
use serde_json::json;
use std::fs;
use std::time::Duration;
use testing::cluster::{Cluster, jobs, keys, kill_role, metric, state};
use testing::{Master, Minion, wait_until};

/// The jid that `halite -v` shows.
fn jid_of(out: &str) -> Jid {
    let mut words = out.split_whitespace();
    words.find_map(|word| word.parse().ok()).expect("a jid")
}

fn answers(master: &Master, id: &str) -> bool {
    let said = master.halite_cli().ask(&[id, "test.ping", "-t", "1"]);
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
    // Nobody can empty the bucket, of which the masters would hear nothing.
    let mut client = cluster.nats.client();
    client.publish("$JS.API.STREAM.PURGE.KV_HALITE_test_STATE", b"");
    client.settle();
    // Deleted at one, it is deleted everywhere.
    key(one, "-d");
    cluster.wait_state("m1", None);
    assert!(!answers(two, "m1"));
}

#[test]
fn keys_agree_after_a_time_without_servers() {
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let id = |name: &str| -> MinionId { name.parse().unwrap() };
    let keys = [0, 1].map(|n: usize| keys(&cluster.masters[n]));
    for name in ["kept", "deleted", "revoked"] {
        keys[0].put(KeyState::Accepted, &id(name), "a key").unwrap();
        cluster.wait_state(name, Some(KeyState::Accepted));
    }
    cluster.nats.kill();
    wait_until("both notice", || {
        let told = |master: &Master| master.tail().contains("goes on with the keys");
        cluster.masters.iter().all(told)
    });
    // Nobody new is trusted meanwhile.
    wait_until("its workers know it, too", || {
        metric(&cluster.masters[0], "halite_cluster_member") == 0.0
    });
    keys[0]
        .put(KeyState::Pending, &id("waits"), "a key")
        .unwrap();
    let ran = cluster.masters[0].halite_cli().key(&["-a", "waits", "-y"]);
    let said = ran.describe();
    assert!(said.contains("has no connection to its cluster"), "{said}");
    assert_eq!(state(&cluster.masters[0], "waits"), Some(KeyState::Pending));
    let mut late = Minion::halite(&cluster.masters[0], "late", "");
    wait_until("a minion that comes now waits", || {
        state(&cluster.masters[0], "late") == Some(KeyState::Pending)
    });
    // What is changed meanwhile at one master is changed at the other as soon as they hear of each other.
    keys[0]
        .put(KeyState::Accepted, &id("new"), "a key")
        .unwrap();
    keys[1].delete(KeyState::Accepted, &id("revoked")).unwrap();
    cluster.nats.restart();
    cluster.wait_state("late", Some(KeyState::Accepted));
    late.must_live();
    cluster.wait_state("new", Some(KeyState::Accepted));
    cluster.wait_state("revoked", None);
    cluster.wait_state("kept", Some(KeyState::Accepted));
    wait_until("the status tells it", || {
        let ran = cluster.masters[0]
            .halite_cli()
            .runner(&["fleet.status", "--out=json"]);
        ran.json()
            .is_ok_and(|status| status["cluster"]["member"] == 1)
    });
    // What others write counts for nothing.
    let mut stranger = cluster.nats.client();
    for name in ["key.evil", "key.deleted", "aes", "meta"] {
        stranger.publish(&format!("$KV.HALITE_test_STATE.{name}"), b"a key");
    }
    keys[1].delete(KeyState::Accepted, &id("deleted")).unwrap();
    cluster.wait_state("deleted", None);
    assert_eq!(state(&cluster.masters[0], "evil"), None);
    wait_until("the log tells of the stranger", || {
        let tail = cluster.masters[0].tail();
        tail.contains("was not written by a master of this cluster")
    });
}

/// Whatever a master had in its files, a key that was deleted stays deleted.
#[test]
fn deleted_keys_stay_deleted() {
    let Some(mut cluster) = Cluster::start("") else {
        return;
    };
    let id: MinionId = "web1".parse().unwrap();
    let store = keys(&cluster.masters[0]);
    store.put(KeyState::Accepted, &id, "a key").unwrap();
    cluster.wait_state("web1", Some(KeyState::Accepted));
    let of_second = cluster.masters[1].home.pki().join("minions/web1");
    let file = fs::read(&of_second).unwrap();
    let member = cluster.masters[1].home.cache().join("cluster/member");
    // With what it remembers and without: as from a backup, and as a new master.
    for forgets in [false, true] {
        cluster.masters[1].stop();
        let _ = store.delete(KeyState::Accepted, &id).unwrap();
        wait_until("the first master has heard of it", || {
            state(&cluster.masters[0], "web1").is_none()
        });
        fs::write(&of_second, &file).unwrap();
        if forgets {
            fs::remove_file(&member).unwrap();
        }
        cluster.masters[1].start_again();
        cluster.wait_state("web1", None);
    }
    // All data of the servers is lost: nobody fills the bucket by itself.
    cluster.nats.lose_data();
    for master in &cluster.masters {
        wait_until("it says so", || {
            master
                .tail()
                .contains("the data of the NATS servers is lost")
        });
    }
}

/// All data of the servers are lost: masters that are all there fill the bucket again, and no deleted key comes back.
#[test]
fn lost_data_are_filled_again() {
    let Some(mut cluster) = Cluster::start("auto_accept: true\ncluster_peers: [one, two]") else {
        return;
    };
    let minion = Minion::halite(&cluster.masters[0], "m1", "");
    let answers = |cluster: &Cluster, n: usize| {
        let said = cluster.masters[n]
            .halite_cli()
            .ask(&["m1", "test.ping", "-t", "2"]);
        said.is_ok_and(|said| said.get("m1") == Some(&json!(true)))
    };
    wait_until("it answers", || answers(&cluster, 1));
    let ids: [MinionId; 4] = ["kept", "early", "late", "new"].map(|id| id.parse().unwrap());
    let [kept, early, late, new] = &ids;
    let stores = [0, 1].map(|n: usize| keys(&cluster.masters[n]));
    for id in [kept, early, late] {
        stores[0].put(KeyState::Accepted, id, "a key").unwrap();
        cluster.wait_state(id.as_str(), Some(KeyState::Accepted));
    }
    // One is away when the last key is deleted; while all is lost, each changes something.
    cluster.masters[1].stop();
    assert!(stores[0].delete(KeyState::Accepted, early).unwrap());
    wait_until("the deletion is in the bucket", || {
        metric(&cluster.masters[0], "halite_cluster_keys") == 3.0
    });
    cluster.nats.lose_data();
    wait_until("it says so", || {
        let log = cluster.masters[0].log();
        log.contains("the data of the NATS servers is lost")
    });
    assert!(stores[1].delete(KeyState::Accepted, late).unwrap());
    stores[0].put(KeyState::Rejected, new, "a key").unwrap();
    wait_until("it takes no part alone", || {
        metric(&cluster.masters[0], "halite_cluster_member") == 0.0
    });
    cluster.masters[1].start_again();
    for master in &cluster.masters {
        wait_until("it takes part again", || {
            metric(master, "halite_cluster_member") == 1.0
        });
    }
    for (id, state) in [
        (kept, Some(KeyState::Accepted)),
        (early, None),
        (late, None),
        (new, Some(KeyState::Rejected)),
    ] {
        cluster.wait_state(id.as_str(), state);
    }
    for n in [1, 0] {
        wait_until("it answers again", || answers(&cluster, n));
    }
    let log = fs::read_to_string(minion.home.log()).unwrap();
    assert_eq!(log.matches("signed in at").count(), 1);
    // It is a bucket like any other.
    cluster.masters.iter_mut().for_each(Master::stop);
    cluster.masters.iter_mut().for_each(Master::start_again);
    wait_until("it answers after a restart", || answers(&cluster, 1));
    cluster.wait_state("early", None);
}

/// Jobs go to the minions of all masters, and all know what came of them.
#[test]
fn any_master_reaches_all_minions() {
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let ids = ["m1", "m2"];
    let mut minions = [0, 1].map(|n: usize| Minion::halite(&cluster.masters[n], ids[n], ""));
    for id in ids {
        cluster.wait_state(id, Some(KeyState::Accepted));
    }
    let ask = |cluster: &Cluster, n: usize, words: &[&str]| {
        cluster.masters[n]
            .halite_cli()
            .ask(words)
            .unwrap_or_default()
    };
    for n in [0, 1] {
        wait_until("both answer", || {
            let said = ask(&cluster, n, &["*", "test.ping", "-t", "2"]);
            ids.iter().all(|id| said.get(*id) == Some(&json!(true)))
        });
    }
    // Targets by grains, and the mine: from a master to which the minion has never been connected.
    for (n, id) in [(0, "m2"), (1, "m1")] {
        let target = format!("id:{id}");
        wait_until("it is found by a grain", || {
            let said = ask(&cluster, n, &["-G", &target, "test.ping", "-t", "2"]);
            said.get(id) == Some(&json!(true))
        });
    }
    let send = ask(&cluster, 0, &["m1", "mine.send", "test.arg", "of m1"]);
    assert_eq!(send.get("m1"), Some(&json!(true)));
    wait_until("the other minion gets it", || {
        let said = ask(&cluster, 1, &["m2", "mine.get", "m1", "test.arg"]);
        said.get("m2")
            .is_some_and(|got| got["m1"]["args"] == json!(["of m1"]))
    });
    // What happens at one is heard at the other, once.
    let mut bus = Subscriber::connect(cluster.masters[1].bus()).unwrap();
    for n in 0..3 {
        let tag = format!("my/{n}");
        let sent = ask(&cluster, 0, &["m1", "event.send", &tag]);
        assert_eq!(sent.get("m1"), Some(&json!(true)));
    }
    let mut heard = Vec::new();
    wait_until("the events are heard", || {
        while let Ok(Some(event)) = bus.next(Some(Duration::from_millis(300))) {
            heard.extend(event.tag.strip_prefix("my/").map(str::to_owned));
        }
        heard.len() >= 3
    });
    assert_eq!(heard, ["0", "1", "2"]);
    // Each runs it once, and both masters have all of it.
    let marker = cluster.masters[0].home.cache().join("ran");
    let line = format!("echo x >> {}", marker.display());
    let ran = cluster.masters[0]
        .halite_cli()
        .salt(&["*", "cmd.run", &line, "-v"]);
    let out = ran.ok().expect("the job runs");
    let jid = jid_of(&out);
    assert_eq!(fs::read_to_string(&marker).unwrap(), "x\nx\n");
    let has_all = |cluster: &Cluster, n: usize, jid: &Jid| {
        let job = jobs(&cluster.masters[n]).get(jid).unwrap();
        job.is_some_and(|job| {
            job.load.str("fun") == Some("cmd.run")
                && job.minions.len() == 2
                && job.returns.len() == 2
        })
    };
    for n in [0, 1] {
        wait_until("it has the job", || has_all(&cluster, n, &jid));
    }
    // Without the servers, a master reaches its own minions, if that is asked for.
    cluster.nats.kill();
    let refused = || {
        let ran = cluster.masters[0]
            .halite_cli()
            .salt(&["*", "test.ping", "-t", "2"]);
        ran.describe().contains("has no connection to its cluster")
    };
    wait_until("it refuses", refused);
    let line = format!("echo y >> {}; sleep 2", marker.display());
    let ran = cluster.masters[1]
        .halite_cli()
        .salt(&["m2", "cmd.run", &line, "-v", "--here"]);
    let jid = jid_of(&ran.ok().expect("its own minion runs it"));
    cluster.nats.restart();
    let told = || {
        let job = jobs(&cluster.masters[0]).get(&jid).unwrap();
        job.is_some_and(|job| job.returns.len() == 1)
    };
    wait_until("the first hears of it", told);
    assert_eq!(fs::read_to_string(&marker).unwrap(), "x\nx\ny\n");
    minions.iter_mut().for_each(Minion::must_live);
}

/// What is due by the clock is done by one master; when that one ends, by the other.
#[test]
fn one_master_runs_the_schedule() {
    let lines = "schedule: {tick: {function: salt.cmd, args: [test.echo, x], seconds: 1}}";
    let Some(mut cluster) = Cluster::start(lines) else {
        return;
    };
    let runs = |master: &Master| master.tail().matches("the scheduled job tick runs").count();
    wait_until("one of them runs it", || {
        cluster.masters.iter().any(|m| runs(m) >= 3)
    });
    let first = usize::from(runs(&cluster.masters[0]) == 0);
    let other = 1 - first;
    assert_eq!(runs(&cluster.masters[other]), 0);
    cluster.masters[first].kill();
    wait_until("the other one runs it", || {
        runs(&cluster.masters[other]) >= 2
    });
}

/// A return counts for its minion once the servers have it, or the master says so for itself after some time.
#[test]
fn a_return_is_acknowledged_when_the_servers_have_it() {
    for acknowledge in ["local", "quorum"] {
        let settings = format!("acknowledge: {acknowledge}");
        let Some(cluster) = Cluster::start_with(&settings, "auto_accept: true") else {
            return;
        };
        let mut minion = Minion::halite(&cluster.masters[0], "m1", "return_retry_timer: 1");
        let [one, two] = &cluster.masters;
        wait_until("it answers", || answers(one, "m1"));
        let unsent = || {
            let files = fs::read_dir(minion.home.cache().join("returns"));
            files.map_or(0, Iterator::count)
        };
        wait_until("nothing waits", || unsent() == 0);
        let late = || metric(one, "halite_returns_unconfirmed_total") > 0.0;
        assert!(!late());
        cluster.nats.pause();
        let ran = one
            .halite_cli()
            .salt(&["m1", "test.echo", "here", "-v", "--here"]);
        let jid = jid_of(&ran.ok().expect("its own minion runs it"));
        let returns = |master: &Master| {
            let job = jobs(master).get(&jid).unwrap();
            job.map_or(0, |job| job.returns.len())
        };
        wait_until("it is not confirmed in time", late);
        match acknowledge {
            "local" => wait_until("the minion is done", || unsent() == 0),
            _ => assert_eq!(unsent(), 1),
        }
        assert_eq!(returns(two), 0);
        cluster.nats.resume();
        wait_until("the other master has it", || returns(two) == 1);
        wait_until("the minion is done", || unsent() == 0);
        assert_eq!([returns(one), returns(two)], [1, 1]);
        minion.must_live();
    }
}

/// Whatever ends while minions work, all masters get what they return, and no minion runs a job twice.
#[test]
fn nothing_is_lost_whatever_ends() {
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let mut minions = ["m1", "m2"].map(|id| {
        let n = usize::from(id == "m2");
        Minion::halite(&cluster.masters[n], id, "")
    });
    for n in [0, 1] {
        wait_until("both answer", || {
            answers(&cluster.masters[n], "m1") && answers(&cluster.masters[n], "m2")
        });
    }
    let marker = cluster.masters[0].home.cache().join("ran");
    let count = |word: &str| {
        let text = fs::read_to_string(&marker).unwrap_or_default();
        text.lines().filter(|line| *line == word).count()
    };
    let roles = [
        (0, "Cluster"),
        (1, "Cluster"),
        (0, "EventPublisher"),
        (1, "MWorker-0"),
    ];
    let rounds = roles.len() + 2;
    for round in 0..rounds {
        let line = format!("echo {round} >> {}; sleep 1", marker.display());
        let cli = cluster.masters[round % 2].halite_cli();
        // A master that has just started, or lost the servers, refuses jobs.
        let mut jid = None;
        wait_until("the job is published", || {
            let ran = cli.salt(&["*", "cmd.run", &line, "--async"]);
            jid = ran.ok().ok().map(|out| jid_of(&out));
            jid.is_some()
        });
        let jid = jid.expect("it was waited for");
        wait_until("both run it", || count(&round.to_string()) == 2);
        match roles.get(round) {
            Some((n, title)) => kill_role(&cluster.masters[*n], title),
            None if round == roles.len() => {
                cluster.nats.kill();
                cluster.nats.restart();
            }
            None => {
                cluster.masters[1].kill();
                cluster.masters[1].start_again();
            }
        }
        for n in [0, 1] {
            wait_until(&format!("master {n} has all of round {round}"), || {
                let job = jobs(&cluster.masters[n]).get(&jid).unwrap();
                job.is_some_and(|job| job.returns.len() == 2 && job.minions.len() == 2)
            });
        }
    }
    for round in 0..rounds {
        assert_eq!(count(&round.to_string()), 2, "round {round}");
    }
    minions.iter_mut().for_each(Minion::must_live);
}
