//! The gateway's view of the one key store.

use super::*;
use crossbeam_channel::Receiver;
use halite_config::load_master;
use halite_crypto::clean_key;
use halite_gateway::writer::{self, Task};
use halite_store::gateways::GatewayStore;
use halite_store::keys::{KeyState, KeyStore};
use halite_wire::Map;
use std::sync::{Arc, OnceLock};

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn pair(n: usize) -> PrivateKey {
    static KEYS: OnceLock<Vec<PrivateKey>> = OnceLock::new();
    let make = || (0..3).map(|_| PrivateKey::generate(1048).unwrap());
    KEYS.get_or_init(|| make().collect())[n].clone()
}

fn pem(n: usize) -> String {
    pair(n).public().to_pkcs1_pem()
}

struct Place {
    keys: Keys,
    store: Arc<dyn KeyStore>,
    events: Receiver<Task>,
    records: Arc<dyn GatewayStore>,
    _dir: tempfile::TempDir,
}

fn place(settings: &str) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let yaml = format!("root_dir: {root}\ngateways: {{sysinspect: {{{settings}}}}}\n");
    std::fs::write(dir.path().join("master"), yaml).unwrap();
    let config = load_master(dir.path()).unwrap();
    let stores = halite_store::memory::stores();
    let records = stores.gateways.of(super::super::NAME);
    let (writer, events) = writer::queue();
    let settings = config.sysinspect_gateway().unwrap();
    Place {
        keys: Keys::new(&config, &stores, &settings, pair(0), writer),
        store: stores.keys,
        events,
        records,
        _dir: dir,
    }
}

impl Place {
    /// `act` of the events `salt/auth` so far.
    fn acts(&self) -> Vec<String> {
        let act = |data: &Map| data.str("act").unwrap_or_default().to_owned();
        let tasks = self.events.try_iter();
        tasks
            .filter_map(|task| match task {
                Task::Fire(tag, data) if tag == "salt/auth" => Some(act(&data)),
                _ => None,
            })
            .collect()
    }
}

fn machine(text: &str) -> MachineId {
    text.parse().unwrap()
}

#[test]
fn the_operator_decides() {
    let mut place = place("");
    let (id, own) = ("a1".parse::<MinionId>().unwrap(), machine("a1"));
    assert_eq!(place.keys.standing(&own), Standing::Unknown);
    let bad = place.keys.register(&own, "no key", FROM);
    assert_eq!(bad, Registered::BadKey);
    assert_eq!(
        place.keys.register(&own, &pem(1), FROM),
        Registered::Waiting
    );
    assert_eq!(place.keys.standing(&own), Standing::Waiting);
    // The same key again changes nothing; another key is stored as denied.
    assert_eq!(place.keys.register(&own, &pem(1), FROM), Registered::Taken);
    assert_eq!(place.store.get(KeyState::Denied, &id).unwrap(), None);
    assert_eq!(place.keys.register(&own, &pem(2), FROM), Registered::Taken);
    assert!(place.store.get(KeyState::Denied, &id).unwrap().is_some());
    assert_eq!(place.acts(), ["pend", "denied"]);
    for (from, to, standing) in [
        (KeyState::Pending, KeyState::Accepted, Standing::Accepted),
        (KeyState::Accepted, KeyState::Rejected, Standing::Rejected),
    ] {
        place.store.change(&id, from, to).unwrap();
        assert_eq!(place.keys.standing(&own), standing);
        place.keys.forget(&own);
    }
    place.store.delete(KeyState::Rejected, &id).unwrap();
    assert!(place.records.knows(&id));
    place.keys.sweep().unwrap();
    assert!(!place.records.knows(&id));
    assert_eq!(
        place.keys.register(&own, &pem(2), FROM),
        Registered::Waiting
    );
}

/// A gateway's client cannot take the id of a Salt minion, nor the reverse.
#[test]
fn nobody_speaks_for_the_other_side() {
    let mut place = place("auto_accept: true");
    let salt: MinionId = "salt".parse().unwrap();
    let key = pair(1).public().to_pem();
    place.store.put(KeyState::Accepted, &salt, &key).unwrap();
    let own = machine("salt");
    assert_eq!(place.keys.standing(&own), Standing::Foreign);
    // Not even with the same key, and not without one.
    for key in [pem(1), pem(2), String::new()] {
        assert_eq!(place.keys.register(&own, &key, FROM), Registered::Taken);
        assert_eq!(place.keys.standing(&own), Standing::Foreign);
    }
    let stored = place.store.get(KeyState::Accepted, &salt).unwrap();
    assert_eq!(stored.as_deref(), Some(clean_key(&key).as_str()));
    // An operator who accepts another key under the id takes the id from the gateway.
    let (id, own) = ("b1".parse::<MinionId>().unwrap(), machine("b1"));
    assert_eq!(
        place.keys.register(&own, &pem(1), FROM),
        Registered::Accepted
    );
    assert_eq!(place.keys.standing(&own), Standing::Accepted);
    let other = pair(2).public().to_pem();
    place.store.put(KeyState::Accepted, &id, &other).unwrap();
    assert_eq!(place.keys.standing(&own), Standing::Foreign);
}

#[test]
fn a_minion_without_a_key_gets_one_that_nobody_can_use() {
    let mut place = place("auto_accept: true");
    let own = machine("c1");
    assert_eq!(place.keys.register(&own, "", FROM), Registered::Accepted);
    assert_eq!(place.acts(), ["accept"]);
    let stored = place.store.get(KeyState::Accepted, &"c1".parse().unwrap());
    let master = clean_key(&pair(0).public().to_pem());
    assert_eq!(stored.unwrap(), Some(master));
    assert_eq!(place.keys.register(&own, "", FROM), Registered::Taken);
    let cipher = pair(0).public().encrypt_pkcs1v15(b"c1").unwrap();
    assert!(place.keys.proves(&own, &cipher));
    assert!(!place.keys.proves(&machine("c2"), &cipher));
}

#[test]
fn few_may_wait() {
    let mut place = place("max_pending: 2");
    for (id, expected) in [
        ("d1", Registered::Waiting),
        ("d2", Registered::Waiting),
        ("d3", Registered::Full),
    ] {
        assert_eq!(place.keys.register(&machine(id), &pem(1), FROM), expected);
    }
    assert_eq!(place.keys.standing(&machine("d3")), Standing::Unknown);
}
