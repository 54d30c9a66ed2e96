use super::*;
use halite_wire::Map;
use halite_wire::map;
use std::os::unix::fs::PermissionsExt;

fn store() -> (tempfile::TempDir, LocalKeys) {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalKeys::new(dir.path().join("pki"));
    store.prepare().unwrap();
    (dir, store)
}

fn id(text: &str) -> MinionId {
    text.parse().unwrap()
}

const LIVE: TransferOptions = TransferOptions {
    dry: false,
    delete: false,
};
const DRY: TransferOptions = TransferOptions {
    dry: true,
    delete: false,
};

#[test]
fn keys_are_copied_with_their_states() {
    let ((_a, from), (_b, to)) = (store(), store());
    for (n, state) in KeyState::ALL.into_iter().enumerate() {
        from.put(state, &id(&format!("m{n}")), &format!("key {n}"))
            .unwrap();
    }
    let counted = keys(&from, &to, DRY).unwrap();
    assert_eq!(counted.new, [1, 1, 1, 1]);
    assert!(to.list(KeyState::Accepted).unwrap().is_empty());
    assert_eq!(keys(&from, &to, LIVE).unwrap(), counted);
    let path = to.path(KeyState::Accepted, &id("m0"));
    assert_eq!(
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        to.get(KeyState::Denied, &id("m1")).unwrap().as_deref(),
        Some("key 1")
    );
    let again = keys(&from, &to, LIVE).unwrap();
    assert_eq!((again.new, again.same), ([0; 4], 4));

    // The operator has kept using the source.
    from.change(&id("m2"), KeyState::Pending, KeyState::Accepted)
        .unwrap();
    from.delete(KeyState::Accepted, &id("m0")).unwrap();
    from.put(KeyState::Accepted, &id("m9"), "one").unwrap();
    to.put(KeyState::Accepted, &id("m9"), "other").unwrap();
    let third = keys(&from, &to, LIVE).unwrap();
    assert_eq!(
        (third.moved, third.conflicts, third.removed),
        (1, vec![id("m9")], 0)
    );
    assert_eq!(third.only_there, [id("m0")]);
    assert_eq!(to.state(&id("m2")).unwrap().unwrap().0, KeyState::Accepted);
    let delete = TransferOptions {
        dry: false,
        delete: true,
    };
    assert_eq!(keys(&from, &to, delete).unwrap().removed, 1);
    assert_eq!(to.state(&id("m0")).unwrap(), None);
    assert_eq!(
        to.get(KeyState::Accepted, &id("m9")).unwrap().as_deref(),
        Some("other")
    );
}

#[test]
fn a_key_that_minions_rely_on_is_kept() {
    let ((_a, from), (_b, to)) = (store(), store());
    let more = ["sign.pem".to_owned(), "absent".to_owned()];
    let bring = |how| master_key(&from, &to, &more, how).unwrap();
    assert_eq!(bring(LIVE), MasterKey::None);
    let write = |store: &LocalKeys, name: &str, text: &str| {
        let path = store.pki_dir().join(name);
        write_atomic(&path, text.as_bytes(), 0o600).unwrap();
    };
    for name in ["master.pem", "master.pub", "sign.pem"] {
        write(&from, name, "of the old one\n");
    }
    // A newly installed master has created a key, which no minion knows yet.
    write(&to, "master.pem", "fresh");
    let names = ["master.pem", "master.pub", "sign.pem"].map(str::to_owned);
    assert_eq!(bring(DRY), MasterKey::Copied(names.to_vec()));
    assert!(!to.pki_dir().join("master.pub").exists());
    assert_eq!(bring(LIVE), MasterKey::Copied(names.to_vec()));
    assert_eq!(bring(LIVE), MasterKey::Same);
    let mode = |name: &str| {
        let meta = std::fs::metadata(to.pki_dir().join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!((mode("master.pem"), mode("master.pub")), (0o400, 0o644));
    to.put(KeyState::Accepted, &id("m"), "k").unwrap();
    assert_eq!(bring(LIVE), MasterKey::Same);
    write(&from, "master.pem", "another");
    assert_eq!(bring(LIVE), MasterKey::Conflict);
}

#[test]
fn data_of_either_layout_is_copied_unless_the_target_is_newer() {
    let [from, to] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let grains = |name: &str| map! {"os" => name};
    let old = LocalMinions::new(from.path(), Layout::Combined);
    old.store(&id("a"), &grains("Debian"), &Map::new()).unwrap();
    let split = LocalMinions::new(from.path(), Layout::Split);
    split
        .store(&id("b"), &grains("Fedora"), &map! {"p" => 1})
        .unwrap();
    LocalMines::new(from.path(), Layout::Combined)
        .put(&id("a"), map! {"f" => 1}, true)
        .unwrap();
    let ids = [id("a"), id("b"), id("c")];
    let run = |how| data(from.path(), to.path(), Layout::Split, &ids, how);
    let counted = run(DRY);
    assert_eq!((counted.minions, counted.mines), (2, 1));
    assert_eq!(run(LIVE), counted);
    let cache = LocalMinions::new(to.path(), Layout::Split);
    assert_eq!(
        cache.peek(&id("a")).unwrap().grains.str("os"),
        Some("Debian")
    );
    assert_eq!(cache.peek(&id("b")).unwrap().pillar.int("p"), Some(1));
    let mine = LocalMines::new(to.path(), Layout::Split);
    assert_eq!(mine.get(&id("a")).unwrap().unwrap().int("f"), Some(1));
    assert_eq!(run(LIVE).same, 3);
    let damaged = from.path().join("grains/b.p");
    std::fs::write(&damaged, "damaged").unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let file = std::fs::File::options().write(true).open(damaged).unwrap();
    file.set_modified(later).unwrap();
    assert_eq!((run(LIVE).failed, run(LIVE).minions), (1, 0));
}
