//! Tests that every implementation of the stores must pass.

use crate::keys::KeyState;
use crate::minions::{DataPart, MAX_GRAINS, MinionInventory};
use crate::tokens::{Token, TokenDigest};
use crate::{Stores, memory};
use halite_config::MasterConfig;
use halite_crypto::{CipherKind, PrivateKey};
use halite_target::Target;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, map};
use std::time::{Duration, SystemTime};

/// Runs a test with the stores in files and with those in memory.
fn each(test: impl Fn(&Stores)) {
    let dir = tempfile::tempdir().unwrap();
    let options = map! {"root_dir" => dir.path().to_string_lossy().as_ref(), "id" => "top"};
    let config = MasterConfig::from_map(options, dir.path()).unwrap();
    let files = Stores::open(&config);
    for stores in [files, memory::stores()] {
        stores.prepare().unwrap();
        test(&stores);
    }
}

fn id(text: &str) -> MinionId {
    text.parse().unwrap()
}

#[test]
fn keys_have_states_and_versions() {
    each(|stores| {
        let (keys, a) = (&stores.keys, id("a"));
        assert_eq!(keys.version(KeyState::Pending, &a), None);
        keys.put(KeyState::Pending, &a, "key\r\n").unwrap();
        assert_eq!(
            keys.state(&a).unwrap(),
            Some((KeyState::Pending, "key".into()))
        );
        let first = keys.version(KeyState::Pending, &a).unwrap();
        assert_eq!(keys.version(KeyState::Pending, &a), Some(first));
        keys.put_text(KeyState::Pending, &a, "other\r\n").unwrap();
        assert_ne!(keys.version(KeyState::Pending, &a), Some(first));
        assert_eq!(
            keys.text(KeyState::Pending, &a).unwrap().as_deref(),
            Some("other\n")
        );
        assert_eq!(
            keys.get(KeyState::Pending, &a).unwrap().as_deref(),
            Some("other")
        );
        assert!(
            keys.change(&a, KeyState::Pending, KeyState::Accepted)
                .unwrap()
        );
        assert!(
            !keys
                .change(&a, KeyState::Pending, KeyState::Accepted)
                .unwrap()
        );
        keys.put(KeyState::Accepted, &id("0"), "x").unwrap();
        assert_eq!(*keys.list(KeyState::Accepted).unwrap(), [id("0"), id("a")]);
        assert!(keys.list(KeyState::Pending).unwrap().is_empty());
        assert!(keys.delete(KeyState::Accepted, &a).unwrap());
        assert!(!keys.delete(KeyState::Accepted, &a).unwrap());
        assert_eq!(keys.state(&a).unwrap(), None);
    });
}

#[test]
fn sessions_are_kept() {
    each(|stores| {
        let (sessions, a) = (&stores.sessions, id("a"));
        let kinds = CipherKind::ALL;
        let none = |kind| sessions.get(kind, &a).unwrap().is_none();
        assert!(kinds.into_iter().all(none));
        let keys = kinds.map(|kind| sessions.get_or_create(kind, &a, "x").unwrap());
        assert!(keys[0] != keys[1]);
        let again = kinds.map(|kind| sessions.get_or_create(kind, &a, "x").unwrap());
        assert!(again == keys);
        let version = |kind| sessions.version(kind, &a);
        assert!(kinds.into_iter().all(|kind| version(kind).is_some()));
        assert!(sessions.get_or_create(CipherKind::Salt, &a, "y").unwrap() == keys[0]);
        assert!(sessions.get_or_create(CipherKind::Gcm, &a, "y").unwrap() != keys[1]);
        sessions.remove(&a).unwrap();
        sessions.remove(&a).unwrap();
        assert!(kinds.into_iter().all(none));
        assert!(kinds.into_iter().all(|kind| version(kind).is_none()));
    });
}

#[test]
fn jobs_are_followed_by_cursor() {
    each(|stores| {
        let jobs = &stores.jobs;
        let now = jiff::Timestamp::now().as_second();
        let (old, jid) = (Jid::from_time(now - 3600, 0), Jid::from_time(now, 0));
        assert!(jobs.get(&jid).unwrap().is_none() && jobs.load(&jid).unwrap().is_none());
        assert!(jobs.updates(&jid, 0).unwrap().is_none());
        let load = map! {"fun" => "test.ping", "key" => "secret"};
        let expected = ["a".to_owned(), "b".to_owned()];
        jobs.save_load(&old, &load, &expected, &[]).unwrap();
        jobs.save_load(&jid, &load, &expected, &["gone".to_owned()])
            .unwrap();
        let update = jobs.updates(&jid, 0).unwrap().unwrap();
        assert_eq!(update.load, Some(map! {"fun" => "test.ping"}));
        for (id, value) in [("a", 1), ("b", 2), ("a", 3)] {
            let load = map! {"id" => id, "return" => value};
            jobs.save_return(&jid, &id.parse().unwrap(), &load).unwrap();
        }
        let more = jobs.updates(&jid, update.end).unwrap().unwrap();
        assert!(more.load.is_none() && more.returns.len() == 2);
        assert!(more.end > update.end);
        let none = jobs.updates(&jid, more.end).unwrap().unwrap();
        assert!(none.returns.is_empty() && none.end == more.end);

        let job = jobs.get(&jid).unwrap().unwrap();
        assert_eq!(job.minions, expected);
        assert_eq!(job.missing, ["gone"]);
        let first = job.returns.iter().find(|r| r.id == "a").unwrap();
        assert_eq!(
            first.load.get("return"),
            Some(&1.into()),
            "the first counts"
        );
        // The next part of a batch.
        let part = ["b".to_owned(), "c".to_owned()];
        let load = map! {"fun" => "test.ping", "tgt" => "c"};
        jobs.save_load(&jid, &load, &part, &["gone".to_owned()])
            .unwrap();
        let job = jobs.get(&jid).unwrap().unwrap();
        assert_eq!(job.minions, ["a", "b", "c"]);
        assert_eq!(job.missing, ["gone"]);
        assert_eq!((job.load, job.returns.len()), (load, 2));
        let known = jobs.load(&jid).unwrap().unwrap();
        assert_eq!(known.str("fun"), Some("test.ping"));
        assert!(!known.contains("key"));
        let listed: Vec<Jid> = jobs.list().unwrap().into_iter().map(|(j, _)| j).collect();
        assert_eq!(listed, [old.clone(), jid.clone()]);
        assert_eq!(
            jobs.started_since(now - 60).unwrap(),
            std::slice::from_ref(&jid)
        );
        let minute = Duration::from_secs(60);
        let changed = jobs.changed_since(SystemTime::now() - minute).unwrap();
        assert!(changed.contains(&jid));
        let future = SystemTime::now() + minute;
        assert!(jobs.changed_since(future).unwrap().is_empty());
        assert_eq!(jobs.expire(now, 1800).unwrap(), 1);
        assert!(jobs.get(&old).unwrap().is_none() && jobs.get(&jid).unwrap().is_some());
    });
}

#[test]
fn minions_are_targeted_and_removed() {
    each(|stores| {
        let cache = &stores.minions;
        for (name, os) in [("a", "Debian"), ("b", "Arch")] {
            let pillar = map! {"role" => "web"};
            cache.store(&id(name), &map! {"os" => os}, &pillar).unwrap();
        }
        let version = cache.version(&id("a")).unwrap();
        let fleet = MinionInventory {
            ids: vec![id("a"), id("b"), id("c")].into(),
            cache: &**cache,
            caches_data: true,
        };
        for (kind, text, expected) in [
            ("grain", "os:Deb*", vec![id("a")]),
            ("pillar", "role:web", vec![id("a"), id("b")]),
            ("glob", "*", vec![id("a"), id("b"), id("c")]),
        ] {
            let target = Target::parse(&text.into(), kind, None).unwrap();
            let found = target.expected(&fleet, &Map::new()).minions;
            assert_eq!(found, expected, "{kind} {text}");
        }
        cache
            .store(&id("a"), &map! {"os" => "Void"}, &Map::new())
            .unwrap();
        assert_ne!(cache.version(&id("a")).unwrap(), version);
        assert_eq!(cache.peek(&id("a")).unwrap().grains.str("os"), Some("Void"));
        assert_eq!(cache.get(&id("a")).unwrap().grains.str("os"), Some("Void"));
        assert_eq!(cache.ids().unwrap(), [id("a"), id("b")]);
        let pillar = map! {"role" => "web"};
        cache
            .store(&id("a"), &map! {"os" => "Void"}, &pillar)
            .unwrap();
        cache.clear(&id("a"), DataPart::Pillar).unwrap();
        let left = cache.peek(&id("a")).unwrap();
        assert!(!left.grains.is_empty() && left.pillar.is_empty());
        cache.clear(&id("a"), DataPart::Grains).unwrap();
        assert!(
            cache
                .peek(&id("a"))
                .is_none_or(|data| data.grains.is_empty())
        );
        cache.clear(&id("a"), DataPart::Grains).unwrap();
        cache
            .store(&id("a"), &map! {"os" => "Void"}, &pillar)
            .unwrap();
        cache.retain(&|id| id.as_str() == "b").unwrap();
        assert_eq!(cache.ids().unwrap(), [id("b")]);
        cache.remove(&id("b")).unwrap();
        assert!(cache.get(&id("b")).is_none() && cache.version(&id("b")).is_none());
    });
}

#[test]
fn mines_merge_and_are_bounded() {
    each(|stores| {
        let (mine, a) = (&stores.mine, id("a"));
        assert!(!mine.delete(&a, "x").unwrap() && !mine.flush(&a).unwrap());
        mine.put(&a, map! {"x" => 1, "y" => 2}, false).unwrap();
        mine.put(&a, map! {"y" => 3}, false).unwrap();
        assert!(mine.delete(&a, "x").unwrap());
        assert_eq!(mine.get(&a).unwrap(), Some(map! {"y" => 3}));
        mine.put(&a, map! {"z" => 4}, true).unwrap();
        assert_eq!(mine.get(&a).unwrap(), Some(map! {"z" => 4}));
        let many: Map = (0..=crate::mine::MAX_VALUES)
            .map(|n| (n.to_string(), 1))
            .collect();
        assert!(mine.put(&a, many, true).is_err());
        assert_eq!(mine.get(&a).unwrap(), Some(map! {"z" => 4}));
        assert!(mine.flush(&a).unwrap());
        assert_eq!(mine.get(&a).unwrap(), None);
    });
}

#[test]
fn tokens_expire() {
    each(|stores| {
        let token = |expire: f64| Token {
            start: 0.0,
            expire,
            name: "fred".into(),
            eauth: "pam".into(),
            groups: Vec::new(),
            auth_list: None,
            is_revoked: false,
        };
        let text = stores.tokens.create(&token(100.0)).unwrap();
        stores.tokens.create(&token(20.0)).unwrap();
        let found = stores.tokens.get(&text, 10.0).unwrap().unwrap();
        assert_eq!(found.name, "fred");
        assert_eq!(stores.tokens.get("../../etc/passwd", 10.0).unwrap(), None);
        assert_eq!(stores.tokens.expire(50.0).unwrap(), 1);
        assert_eq!(stores.tokens.get(&text, 100.0).unwrap(), None);
        // What another master has created, of which it tells the digest alone.
        let other = TokenDigest::of(&"ab".repeat(32));
        for name in ["eve", "mallory"] {
            let token = Token {
                name: name.into(),
                ..token(200.0)
            };
            stores.tokens.put(&other, &token).unwrap();
        }
        assert_eq!(stores.tokens.digests().unwrap(), [other]);
        let found = stores.tokens.get(&"ab".repeat(32), 150.0).unwrap().unwrap();
        assert_eq!(found.name, "eve");
        // What its owner has given up does not come back from a master that has not heard of it.
        assert!(stores.tokens.revoke(&"ab".repeat(32), 150.0).unwrap());
        let digest = TokenDigest::of(&"ab".repeat(32));
        stores.tokens.put(&digest, &found).unwrap();
        assert_eq!(stores.tokens.get(&"ab".repeat(32), 150.0).unwrap(), None);
        assert!(!stores.tokens.revoke(&"ab".repeat(32), 150.0).unwrap());
        let told = stores.tokens.by_digest(&digest, 150.0).unwrap();
        assert!(told.is_some_and(|token| token.is_revoked));
    });
}

#[test]
fn records_are_kept() {
    each(|stores| {
        let jid = Jid::from_time(1_800_000_000, 0);
        assert!(!stores.owners.owns(&id("a"), &jid));
        stores.owners.put(&jid, &id("a")).unwrap();
        assert!(stores.owners.owns(&id("a"), &jid) && !stores.owners.owns(&id("b"), &jid));
        stores.owners.expire(Duration::from_secs(3600));
        assert!(stores.owners.owns(&id("a"), &jid));

        assert!(!stores.syndics.contains("s") && !stores.syndics.contains("../s"));
        stores.syndics.put(&id("s")).unwrap();
        stores.syndics.put(&id("s")).unwrap();
        assert!(stores.syndics.contains("s"));

        assert!(!stores.rotation.take());
        stores.rotation.request().unwrap();
        stores.rotation.request().unwrap();
        assert!(stores.rotation.take() && !stores.rotation.take());
    });
}

#[test]
fn a_gateway_owns_an_id_only_with_the_registered_key() {
    let [own, other] = [0, 1].map(|_| PrivateKey::generate(1024).unwrap().public());
    each(|stores| {
        let (keys, a) = (&*stores.keys, id("a"));
        let gateway = stores.gateways.of("sysinspect");
        gateway.prepare().unwrap();
        keys.put(KeyState::Accepted, &a, &own.to_pem()).unwrap();
        assert_eq!(gateway.state(keys, &a).unwrap(), None);
        gateway.put(&a, &own.pkcs1_fingerprint()).unwrap();
        assert_eq!(gateway.state(keys, &a).unwrap(), Some(KeyState::Accepted));
        assert_eq!(gateway.ids().unwrap(), std::slice::from_ref(&a));
        assert_eq!(gateway.alias(&a), None);
        gateway.put_alias(&a, "a uuid").unwrap();
        assert_eq!(gateway.alias(&a).as_deref(), Some("a uuid"));
        keys.put(KeyState::Accepted, &a, &other.to_pem()).unwrap();
        assert_eq!(gateway.state(keys, &a).unwrap(), None);
        let connected = [(a.clone(), "10.0.0.1".parse().unwrap())].into();
        gateway.put_connected(&connected).unwrap();
        assert_eq!(stores.gateways.all().len(), 1);
        assert_eq!(stores.gateways.all()[0].connected(), connected);
        gateway.remove(&a).unwrap();
        gateway.remove(&a).unwrap();
        assert!(!gateway.knows(&a));
    });
}

#[test]
fn grains_are_limited() {
    each(|stores| {
        let (cache, a) = (&stores.minions, id("a"));
        let small = map! {"os" => "Debian"};
        cache.store(&a, &small, &Map::new()).unwrap();
        let large = map! {"os" => "x".repeat(MAX_GRAINS)};
        let refused = cache.store(&a, &large, &Map::new()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        assert_eq!(*cache.get(&a).unwrap().grains, small);
    });
}

#[test]
fn minions_at_other_masters_are_kept() {
    each(|stores| {
        let connected = [(id("a"), "10.0.0.1".parse().unwrap())].into();
        stores.elsewhere.put(&connected).unwrap();
        stores.elsewhere.keep().unwrap();
        assert_eq!(stores.elsewhere.get(), connected);
    });
}

#[test]
fn the_last_time_of_each_minion_is_kept() {
    each(|stores| {
        let at = |ids: &[&str]| {
            let address = "10.0.0.1".parse().unwrap();
            ids.iter().map(|name| (id(name), address)).collect()
        };
        let seen = &stores.last_seen;
        assert!(seen.get().is_empty());
        seen.note(&at(&["a", "b", "c"]), 10, &|_| true).unwrap();
        seen.note(&at(&["b"]), 20, &|id| id.as_str() != "c")
            .unwrap();
        assert_eq!(seen.get(), [(id("a"), 10), (id("b"), 20)].into());
    });
}
