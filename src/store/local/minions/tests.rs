//! The index gives the same answers as the files, whichever process changes them.

use super::*;
use crate::keys::{KeyState, KeyStore};
use crate::local::LocalKeys;
use crate::minions::MinionInventory;
use halite_target::{Inventory, Target, TargetType};
use proptest::prelude::*;
use std::path::Path;

const MINIONS: u32 = 6;

/// Minions whose files are read for every query.
struct Plain<'a> {
    ids: Vec<MinionId>,
    cache: &'a LocalMinions,
}

impl Inventory for Plain<'_> {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    fn contains(&self, id: &str) -> bool {
        self.ids.iter().any(|known| known.as_str() == id)
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.peek(id).map(|data| data.grains)
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.peek(id).map(|data| data.pillar)
    }
}

/// Targets of all kinds; `n` makes some of them new at each step.
fn targets(n: u32) -> Vec<(TargetType, String)> {
    let own = |kind, texts: &[&str]| -> Vec<(TargetType, String)> {
        let texts = texts.iter().map(|text| (kind, (*text).to_owned()));
        texts.collect()
    };
    let mut all = [
        own(TargetType::Glob, &["*", "m[0-3]", "m1"]),
        own(TargetType::Pcre, &["m(1|4)", "("]),
        own(TargetType::List, &["m1,m3,gone", "m2"]),
        own(
            TargetType::Grain,
            &[
                "os:Deb*",
                "os:*",
                "os:",
                "os",
                "none:*",
                "roles:web",
                "net:eth0:up",
                "net:*:up",
                "*:Debian",
                "7:x",
                "num:4",
                "num:4*",
                "big:aaa*",
                "g299:1",
                "os:[",
            ],
        ),
        own(
            TargetType::GrainPcre,
            &["os:(Debian|SUSE)$", "num:[0-3]", "*:.*b"],
        ),
        own(
            TargetType::Pillar,
            &["role:x1", "role:*", "deep:a:*", "*:x1"],
        ),
        own(TargetType::PillarPcre, &["role:x[12]"]),
        own(TargetType::PillarExact, &["role:x1", "role:x*"]),
        own(
            TargetType::Compound,
            &[
                "G@os:Debian and not S@10.0.0.0/30 or I@role:x1",
                "not S@typo",
                "P@os:D.* or E@m2 or L@m1,m5",
                "N@group and not G@roles:web",
                "not ( G@os:Debian or J@role:x2 ) and m*",
            ],
        ),
        own(TargetType::CompoundPillarExact, &["I@role:x1 or J@role:x2"]),
        own(TargetType::Nodegroup, &["group", "none"]),
        own(
            TargetType::Ipcidr,
            &["10.0.0.0/30", "10.0.0.2", "::1", "fe80::/10", "typo"],
        ),
        own(TargetType::Range, &["%x"]),
    ]
    .concat();
    assert!(
        TargetType::ALL
            .iter()
            .all(|kind| all.iter().any(|(k, _)| k == kind))
    );
    all.push((TargetType::Pillar, format!("role:x{n}")));
    all.push((TargetType::PillarExact, format!("deep:a:{n}")));
    all
}

fn grains(n: u32) -> Map {
    let mut grains = Map::new();
    match n % 6 {
        0 => {}
        1 => grains.set("os", vec![Value::from("Debian"), 4.into()]),
        2 => grains.set("os", Value::Nil),
        3 => grains.set("os", "SUSE"),
        _ => grains.set("os", "Debian"),
    }
    let address = format!("10.0.0.{}", n % 8);
    grains.set("num", i64::from(n % 50));
    grains.set("ipv4", vec![Value::from("127.0.0.1"), address.into()]);
    match n % 5 {
        0 => grains.set("roles", vec![Value::from("web"), "db".into()]),
        1 => grains.set("roles", "web"),
        2 => grains.set("net", halite_wire::map! {"eth0" => vec![Value::from("up")]}),
        3 => grains.set("ipv6", vec![Value::from("fe80::1"), 7.into()]),
        _ => grains.set(
            "net",
            halite_wire::map! {"eth0" => halite_wire::map! {"up" => true}},
        ),
    }
    match n % 7 {
        0 => (0..300).for_each(|at| grains.set(format!("g{at}"), i64::from(n % 2))),
        1 | 2 => grains.set("big", "a".repeat(9000 + n as usize % 100)),
        _ => {}
    }
    grains
}

fn pillar(n: u32) -> Map {
    let deep = halite_wire::map! {"a" => i64::from(n % 200)};
    halite_wire::map! {"role" => format!("x{}", n % 4), "deep" => deep}
}

/// Msgpack that halite never writes: a number as a name, a duplicate name, truncated data, a trailing byte, not
/// a map, nothing.
fn unusual(n: u32) -> &'static [u8] {
    match n % 6 {
        0 => b"\x82\x07\xa1x\xa2os\xa6Debian",
        1 => b"\x82\xa2os\xa6Debian\xa2os\xa4SUSE",
        2 => b"\x82\xa2os\xa6Debian",
        3 => b"\x81\xa2os\xa6Debian\xc0",
        4 => b"\xa2os",
        _ => b"",
    }
}

/// The same for the layout with grains and pillar in one file.
fn unusual_pair(n: u32) -> Vec<u8> {
    match n % 4 {
        0 => [
            b"\x82\xa6grains".as_slice(),
            unusual(n / 4),
            b"\xa6pillar\x80",
        ]
        .concat(),
        1 => b"\x81\xa6pillar\x81\xa4role\xa2x1".to_vec(),
        2 => b"\x82\xa6grains\xc0\xa6pillar\x81\xa4role\xa2x1".to_vec(),
        _ => unusual(n / 4).to_vec(),
    }
}

/// Changes the files as another process might.
fn change(dir: &Path, other: &LocalMinions, keys: &LocalKeys, what: u32, n: u32) {
    let id: MinionId = format!("m{}", n % MINIONS).parse().unwrap();
    let split = other.layout == Layout::Split;
    let [first, second] = other.paths(&id);
    match what {
        0..=3 => other
            .store(&id, &grains(n / MINIONS), &pillar(n / 7))
            .unwrap(),
        4 => other.remove(&id).unwrap(),
        5 => keys.put(KeyState::Accepted, &id, "key").unwrap(),
        6 => {
            keys.delete(KeyState::Accepted, &id).unwrap();
        }
        7 | 8 => {
            let bytes = if split {
                unusual(n / 6).to_vec()
            } else {
                unusual_pair(n / 6)
            };
            make_dir(first.parent().unwrap(), 0o755).unwrap();
            write_atomic(&first, &bytes, 0o600).unwrap();
        }
        // In the other layout changes are detected by timestamp, which a file written in place may keep.
        9 if split && first.exists() => {
            let bytes = msgpack::encode_map(&grains(n / 8), Profile::Local);
            std::fs::write(&first, bytes).unwrap();
        }
        10 if split => found(std::fs::remove_file(&second)).map(drop).unwrap(),
        11 => {
            let aside = dir.join("aside");
            found(std::fs::remove_dir_all(&aside)).unwrap();
            found(std::fs::rename(dir.join("cache"), aside)).unwrap();
            other.store(&id, &grains(n), &pillar(n)).unwrap();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_agrees_with_the_files(
        split in any::<bool>(),
        steps in prop::collection::vec((0u32..12, any::<u32>(), any::<bool>()), 1..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let layout = if split { Layout::Split } else { Layout::Combined };
        let cachedir = dir.path().join("cache");
        let (cache, other) = (LocalMinions::new(&cachedir, layout), LocalMinions::new(&cachedir, layout));
        let (keys, theirs) = (LocalKeys::new(dir.path()), LocalKeys::new(dir.path()));
        keys.prepare().unwrap();
        for n in 0..MINIONS - 1 {
            theirs.put(KeyState::Accepted, &format!("m{n}").parse().unwrap(), "key").unwrap();
        }
        let groups = halite_wire::map! {"group" => "G@os:Debian or m2"};
        for (what, n, poll) in steps {
            change(dir.path(), &other, &theirs, what, n);
            if poll {
                cache.poll_changes();
            }
            let ids = LocalKeys::new(dir.path()).list(KeyState::Accepted).unwrap();
            let plain = Plain { ids: ids.to_vec(), cache: &other };
            let ids = keys.list(KeyState::Accepted).unwrap();
            let known = MinionInventory { ids, cache: &cache, caches_data: true };
            for (kind, text) in targets(n % 200) {
                let target = Target::parse(&text.as_str().into(), kind.name(), None).unwrap();
                let found = [target.expected(&known, &groups), target.expected(&plain, &groups)];
                let [found, want] = found.map(|found| format!("{found:?}"));
                prop_assert_eq!(found, want, "{} {} after {} {}", kind, text, what, n);
            }
        }
    }
}
