//! How a master comes by the key that minions know the masters of its cluster by.

use halite::crypto::{HashType, PrivateKey};
use halite::store::keys::KeyState;
use halite::wire::ids::MinionId;
use std::fs;
use std::process::Command;
use testing::cluster::{Cluster, LINES, is_member, keys, metric};
use testing::config::Home;
use testing::{Master, Minion, NatsServer, halite_program, wait_until};

fn lines(nats: &NatsServer, id: &str, more: &str) -> String {
    format!(
        "id: {id}\n{LINES}cluster: {{servers: ['{}'], replicas: 1}}\nauto_accept: true\n{more}",
        nats.address()
    )
}

fn read(home: &Home, name: &str) -> String {
    let path = home.pki().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Starts a master that must not serve; what it says.
fn refused(home: &Home) -> String {
    let (status, said) = run(home, &[]);
    assert_eq!(status, Some(1), "{said}");
    said
}

fn run(home: &Home, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(halite_program("halite-master"));
    let ran = command
        .arg("-c")
        .arg(home.config_dir())
        .args(words)
        .output();
    let ran = ran.expect("it can be started");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    (ran.status.code(), said)
}

fn check(home: &Home) -> (Option<i32>, String) {
    run(home, &["--check-config"])
}

#[test]
fn a_master_without_a_key_takes_over_that_of_the_cluster() {
    let Some(nats) = NatsServer::start(&["--jetstream", "--store_dir", "jetstream"]) else {
        return;
    };
    // A master that was alone, with a minion, becomes the first of a cluster.
    let mut first = Master::halite("auto_accept: true\nkey_type: ed25519");
    let minion = Minion::halite(&first, "m1", "");
    let answers = |master: &Master| {
        let said = master.halite_cli().ask(&["m1", "test.ping", "-t", "1"]);
        said.is_ok_and(|said| said.get("m1") == Some(&true.into()))
    };
    wait_until("it answers", || answers(&first));
    let own = read(&first.home, "master.pub");
    first.stop();
    let dir = first.home.root().join("shared");
    let with_dir = format!("cluster_pki_dir: {}", dir.display());
    first.add_lines(&lines(&nats, "one", &with_dir));
    first.start_again();
    wait_until("it is a member", || is_member(&first));
    let public = fs::read_to_string(dir.join("cluster.pub")).expect("it is there");
    assert_eq!(public, own);
    wait_until("its minion goes on", || answers(&first));
    drop(minion);
    // The next one has none.
    let hash = HashType::Sha256.hex(public.as_bytes());
    let pinned = format!("cluster_pub_fingerprint: {hash}");
    let mut second = Master::halite(&lines(&nats, "two", &pinned));
    wait_until("it is a member", || is_member(&second));
    assert_eq!(read(&second.home, "master.pub"), own);
    second.stop();
    // It loses it: the same again. Another key than the one that is asked for is not taken.
    let key = second.home.pki().join("master.pem");
    fs::remove_file(&key).expect("it is there");
    fs::write(key.with_extension("pub"), "another").expect("it can be written");
    second.start_again();
    assert_eq!(read(&second.home, "master.pub"), own);
    second.stop();
    fs::remove_file(&key).expect("it is there");
    let none = "f".repeat(64);
    second.add_lines(&format!("cluster_pub_fingerprint: {none}"));
    let said = refused(&second.home);
    assert!(said.contains(&format!("and not {none}")), "{said}");
    // Nor is one made where there is no cluster, by a slip.
    second.add_lines(&format!("cluster_id: other\n{pinned}"));
    let said = refused(&second.home);
    assert!(
        said.contains("neither is the bucket of other, which this master was a member of"),
        "{said}"
    );
    fs::remove_dir_all(second.home.cache().join("cluster")).expect("it was a member");
    let said = refused(&second.home);
    assert!(said.contains("is cluster_id right"), "{said}");
    second.add_lines("cluster_id: test");
    // Nor is one by a secret that is not theirs.
    second.add_lines(&format!("cluster_secret: {}", "x".repeat(40)));
    let said = refused(&second.home);
    assert!(said.contains("another cluster_secret"), "{said}");
    let (status, said) = check(&second.home);
    assert!(
        status == Some(1) && said.contains("cluster_secret: the masters of test have another"),
        "{said}"
    );
    assert!(!key.exists());
}

#[test]
fn a_master_with_another_key_takes_no_part() {
    let Some(nats) = NatsServer::start(&["--jetstream", "--store_dir", "jetstream"]) else {
        return;
    };
    // What a stock cluster has left.
    let key = PrivateKey::generate(2048).expect("a key");
    let first = Master::halite_prepared(&lines(&nats, "one", ""), |home| {
        fs::create_dir_all(home.pki()).expect("a directory can be made");
        fs::write(home.pki().join("cluster.pem"), &*key.to_pem()).expect("it can be written");
        let public = key.public().to_pem();
        fs::write(home.pki().join("cluster.pub"), public).expect("it can be written");
    });
    wait_until("it is a member", || is_member(&first));
    let mut second = Master::halite("auto_accept: true");
    second.stop();
    second.add_lines(&lines(&nats, "two", ""));
    let (status, said) = check(&second.home);
    assert!(
        status == Some(1) && said.contains("is not the key of the masters of test"),
        "{said}"
    );
    second.start_again();
    wait_until("it says so", || {
        let said = second.tail();
        said.contains("is not the key of the masters of test: remove it")
    });
    second.stop();
    for name in ["master.pem", "master.pub"] {
        fs::remove_file(second.home.pki().join(name)).expect("it is there");
    }
    assert_eq!(check(&second.home).0, Some(0));
    second.start_again();
    wait_until("it is a member", || is_member(&second));
    let public = halite::crypto::clean_key(&key.public().to_pem());
    assert_eq!(read(&second.home, "master.pub"), public);
    // Without servers it is usable, with a warning.
    let address = nats.address();
    drop(nats);
    let (status, said) = check(&second.home);
    assert!(
        status == Some(0) && said.contains(&format!("{address}: ")),
        "{said}"
    );
}

/// Masters that begin a cluster at the same moment, with the same keys of minions: one of them is the first, the other waits until
/// that one has told all of them.
#[test]
fn no_key_is_lost_when_all_begin_at_once() {
    let Some(mut cluster) = Cluster::start("") else {
        return;
    };
    let ids: Vec<MinionId> = (0..200).map(|n| format!("m{n}").parse().unwrap()).collect();
    let store = keys(&cluster.masters[0]);
    for id in &ids {
        store.put(KeyState::Accepted, id, "a key").unwrap();
    }
    cluster.wait_state("m199", Some(KeyState::Accepted));
    cluster.masters.iter_mut().for_each(Master::stop);
    cluster.nats.lose_data();
    for master in &cluster.masters {
        fs::remove_file(master.home.cache().join("cluster/member")).unwrap();
    }
    cluster.masters.iter_mut().for_each(Master::start_again);
    for master in &cluster.masters {
        wait_until("it takes part", || {
            metric(master, "halite_cluster_member") == 1.0
        });
        let store = keys(master);
        for id in &ids {
            let found = store.state(id).unwrap();
            assert_eq!(
                found.map(|(state, _)| state),
                Some(KeyState::Accepted),
                "{id}"
            );
        }
    }
}
