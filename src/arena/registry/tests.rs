use super::*;
use crate::wire::{Json, RuntimeState, State};
use serde_json::json;

fn runtime(uuid: &str) -> KeptRuntime {
    let json = json!({
        "uuid": uuid, "name": "rt", "max_nmodules": 3, "apis": ["wasm"], "parent": "m1",
        "platform": {"cpu": {"cores": 2}}, "tags": ["a", 1.5, null],
    });
    KeptRuntime {
        runtime: Runtime::from_json(json).unwrap(),
        id: format!("id-{uuid}"),
        heard: 1_700_000_000,
        memory: 1 << 40,
        speaks: true,
        dialect: Dialect::Older,
    }
}

fn module(uuid: &str, index: u64, runtime: Option<&str>) -> KeptModule {
    let json = json!({
        "uuid": uuid, "name": "m", "index": index, "parent": runtime, "file": "x.wasm", "scheduled": true,
        "policy": "move", "status": "K", "args": {"argv": ["é\n"], "env": ["A="], "x": {"y": 1}},
        "channels": [{"path": "light", "mode": "r", "topic": "a/b", "type": "pubsub"}], "location": "",
    });
    KeptModule {
        module: Module::from_json(json).unwrap(),
        created: 7,
        foreign: index == 2,
    }
}

fn manager(uuid: &str) -> Manager {
    let json: Json = json!({"uuid": uuid, "name": "node"});
    Manager::from_json(json).unwrap()
}

fn some_changes() -> Vec<Change> {
    vec![
        Change::Manager(manager("m1")),
        Change::Runtime(Box::new(runtime("r1"))),
        Change::Runtime(Box::new(runtime("r2"))),
        Change::Module(Box::new(module("b", 1, Some("r1")))),
        Change::Module(Box::new(module("a", 2, None))),
        Change::Module(Box::new(module("c", 10, Some("r2")))),
    ]
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_kept_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    assert_eq!(store.load().unwrap(), Snapshot::default());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(store.open().unwrap(), Snapshot::default());
    store.save(&some_changes()).unwrap();
    let all = Snapshot {
        managers: vec![manager("m1")],
        runtimes: vec![runtime("r1"), runtime("r2")],
        modules: vec![
            module("b", 1, Some("r1")),
            module("a", 2, None),
            module("c", 10, Some("r2")),
        ],
        next_index: 11,
    };
    assert_eq!(store.load().unwrap(), all);
    // A process that is started later, and one that only reads.
    assert_eq!(ArenaStore::new(dir.path()).open().unwrap(), all);
    assert_eq!(ArenaStore::new(dir.path()).load().unwrap(), all);
    for end in ["", "-wal", "-shm"] {
        let path = PathBuf::from(format!("{}{end}", store.path.display()));
        assert_eq!(mode(&path), 0o600, "{end}");
    }
}

#[test]
fn records_change_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    // Without having been opened: the first change opens it.
    store.save(&some_changes()).unwrap();
    let mut changed = runtime("r2");
    changed.runtime.state = RuntimeState::Dead;
    changed.dialect = Dialect::Draft;
    let mut moved = module("c", 10, Some("r1"));
    moved.module.state = State::Alive;
    store
        .save(&[
            Change::Module(Box::new(moved.clone())),
            Change::Runtime(Box::new(changed.clone())),
            Change::NoManager("m1".parse().unwrap()),
            Change::NoModule("a".parse().unwrap()),
            Change::NoModule("b".parse().unwrap()),
        ])
        .unwrap();
    let kept = store.load().unwrap();
    assert!(kept.managers.is_empty());
    assert_eq!(kept.runtimes, [runtime("r1"), changed]);
    assert_eq!(kept.modules, [moved]);
    // A runtime's modules go with it; numbers are not reused.
    store
        .save(&[Change::NoRuntime("r1".parse().unwrap())])
        .unwrap();
    let kept = store.load().unwrap();
    assert_eq!(
        (kept.runtimes.len(), kept.modules.len(), kept.next_index),
        (1, 0, 11)
    );
}

#[test]
fn all_changes_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    store.open().unwrap();
    let other = Connection::open(&store.path).unwrap();
    let refuse = "CREATE TRIGGER no BEFORE INSERT ON modules BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(refuse).unwrap();
    let trouble = store.save(&some_changes()).unwrap_err();
    assert!(
        trouble.to_string().contains("registry.sqlite3"),
        "{trouble}"
    );
    assert_eq!(store.load().unwrap(), Snapshot::default());
    // It works afterwards.
    other.execute_batch("DROP TRIGGER no").unwrap();
    store.save(&some_changes()).unwrap();
    assert_eq!(store.load().unwrap().modules.len(), 3);
}

#[test]
fn a_reader_sees_one_state_and_hinders_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    store.save(&some_changes()).unwrap();
    let mut reader = Connection::open(&store.path).unwrap();
    let transaction = reader.transaction().unwrap();
    let before = tables::load(&transaction).unwrap();
    store
        .save(&[Change::NoRuntime("r1".parse().unwrap())])
        .unwrap();
    assert_eq!(tables::load(&transaction).unwrap(), before);
    drop(transaction);
    assert_eq!(store.load().unwrap().runtimes.len(), 1);
}

#[test]
fn a_damaged_file_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = |store: &ArenaStore| std::fs::write(&store.path, vec![b'x'; 8192]).unwrap();
    let no_table = |store: &ArenaStore| {
        let file = Connection::open(&store.path).unwrap();
        file.execute_batch("DROP TABLE modules").unwrap();
    };
    let ways: [&dyn Fn(&ArenaStore); 2] = [&garbage, &no_table];
    for (n, damage) in ways.iter().enumerate() {
        let mut store = ArenaStore::new(dir.path());
        store.save(&some_changes()).unwrap();
        drop(store);
        let mut store = ArenaStore::new(dir.path());
        damage(&store);
        assert!(store.load().is_err(), "{n}");
        assert_eq!(store.open().unwrap(), Snapshot::default(), "{n}");
        // Files moved there before stay there.
        for n in 1..=n + 1 {
            let aside = store.path.with_extension(format!("sqlite3.damaged.{n}"));
            assert!(std::fs::metadata(&aside).unwrap().len() > 0, "{n}");
        }
        store.save(&some_changes()).unwrap();
        assert_eq!(store.load().unwrap().runtimes.len(), 2, "{n}");
    }
}

#[test]
fn a_record_that_cannot_be_read_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    store.save(&some_changes()).unwrap();
    let file = Connection::open(&store.path).unwrap();
    let many: Vec<String> = (0..2048).map(|n| format!("V{n}=1")).collect();
    let many = json!({"uuid": "c", "name": "m", "index": 10, "file": "x", "args": {"env": many}});
    for (sql, record) in [
        (
            "UPDATE modules SET record = ?1 WHERE uuid = 'c'",
            many.to_string(),
        ),
        ("UPDATE managers SET record = ?1", "{".into()),
        (
            "UPDATE runtimes SET heard = ?1 WHERE uuid = 'r1'",
            "long ago".into(),
        ),
    ] {
        assert_eq!(file.execute(sql, [record]).unwrap(), 1);
    }
    let left = Snapshot {
        managers: Vec::new(),
        runtimes: vec![runtime("r2")],
        modules: vec![module("b", 1, Some("r1")), module("a", 2, None)],
        next_index: 11,
    };
    assert_eq!(store.load().unwrap(), left);
    assert_eq!(ArenaStore::new(dir.path()).open().unwrap(), left);
    assert!(!store.path.with_extension("sqlite3.damaged.1").exists());
    // A new one takes its place.
    store.save(&some_changes()).unwrap();
    assert_eq!(store.load().unwrap().modules.len(), 3);
}

#[test]
fn a_file_of_another_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    store.save(&some_changes()).unwrap();
    let file = Connection::open(&store.path).unwrap();
    file.pragma_update(None, "user_version", 2).unwrap();
    let trouble = ArenaStore::new(dir.path()).open().unwrap_err().to_string();
    assert!(trouble.contains("of version 2"), "{trouble}");
    file.pragma_update(None, "user_version", 1).unwrap();
    assert_eq!(store.load().unwrap().modules.len(), 3);
}

#[test]
fn a_file_that_cannot_be_reached_is_not_moved() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ArenaStore::new(dir.path());
    std::fs::create_dir_all(&store.path).unwrap();
    assert!(store.open().is_err());
    assert!(store.save(&some_changes()).is_err());
    assert!(store.path.is_dir());
}
