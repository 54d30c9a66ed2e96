use super::*;
use crate::registry::Change;
use crate::wire::{Body, Message};
use serde_json::json;

fn runtime(uuid: &str, apis: &[&str], max: u32, state: &str) -> KeptRuntime {
    let message = json!({"object_id": "1", "action": "create", "type": "req", "data": {
        "type": "runtime", "uuid": uuid, "name": uuid, "apis": apis, "max_nmodules": max,
    }});
    let message = Message::parse(message.to_string().as_bytes()).unwrap();
    let Body::Register(runtime) = message.body else {
        panic!("no registration");
    };
    let mut runtime = *runtime;
    runtime.state = state.parse().unwrap();
    KeptRuntime {
        runtime,
        id: format!("id-{uuid}"),
        heard: 0,
        memory: 0,
        speaks: true,
        dialect: message.dialect,
    }
}

fn module(uuid: &str, name: &str, on: Option<&str>, state: State) -> KeptModule {
    let message = json!({"object_id": "1", "action": "create", "type": "req", "data": {
        "type": "module", "uuid": uuid, "name": name, "file": "a.wasm",
    }});
    let message = Message::parse(message.to_string().as_bytes()).unwrap();
    let Body::Create(request) = message.body else {
        panic!("no module");
    };
    let policy = "wait".parse().unwrap();
    let mut module = request.into_module(uuid.parse().unwrap(), 1, policy);
    module.runtime = on.map(|on| on.parse().unwrap());
    module.state = state;
    KeptModule {
        module,
        created: 0,
        foreign: false,
    }
}

pub(crate) fn snapshot() -> Snapshot {
    Snapshot {
        runtimes: vec![
            runtime("r1", &["wasm", "wasi"], 1, "A"),
            runtime("r2", &["wasm", "wasi"], 8, "A"),
            runtime("r3", &["wasm"], 8, "A"),
            runtime("r4", &["wasm", "wasi"], 8, "D"),
            runtime("r5", &[], 0, "A"),
        ],
        modules: vec![
            module("m1", "one", Some("r1"), State::Alive),
            module("m2", "two", Some("r2"), State::Alive),
            module("m3", "two", Some("r2"), State::Queued),
            module("m4", "four", None, State::Queued),
            module("m5", "one", Some("r2"), State::Dead),
        ],
        ..Snapshot::default()
    }
}

#[test]
fn a_schedule_says_why() {
    let snapshot = snapshot();
    let known = Known::of(&snapshot);
    let candidates = known.candidates();
    let apis = ["wasm".to_owned(), "wasi".to_owned()];
    let told = explained(&candidates, &choose(&apis, &candidates));
    assert_eq!(told.str("chosen"), Some("id-r2"));
    assert_eq!(told.get("later"), Some(&true.into()));
    let rows = told.get("runtimes").and_then(Value::as_map).unwrap();
    let row = |id: &str| rows.get(id).and_then(Value::as_map).unwrap();
    for (id, verdict) in [
        ("id-r1", "is full"),
        ("id-r2", "chosen"),
        ("id-r3", "lacks wasi"),
        ("id-r4", "is not connected"),
        ("id-r5", "runs no modules"),
    ] {
        assert_eq!(row(id).str("verdict"), Some(verdict), "{id}");
    }
    assert_eq!(row("id-r2").int("modules"), Some(2));
}

#[test]
fn modules_are_found_by_uuid_or_unique_name() {
    let snapshot = snapshot();
    let uuid = |wanted: &str| {
        let found = find(&snapshot, wanted).map_err(|e| e.to_string());
        found.map(|kept| kept.module.uuid.to_string())
    };
    assert_eq!(uuid("m3"), Ok("m3".to_owned()));
    assert_eq!(uuid("one"), Ok("m1".to_owned()));
    assert!(uuid("two").unwrap_err().contains("use a uuid"));
    assert!(uuid("m5").unwrap_err().contains("no module \"m5\""));
    assert!(uuid("x").unwrap_err().contains("no module"));
}

#[test]
fn lists_come_from_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = format!("root_dir: {}\n", dir.path().display());
    std::fs::write(dir.path().join("master"), yaml).unwrap();
    let config = halite_config::load_master(dir.path()).unwrap();
    let stop = halite_sys::signals::StopFlag::install().unwrap();
    let mut show = |_: &str, _: &Value, _: bool| {};
    let mut context = RunContext::new(config.clone(), stop, &mut show);
    let none = Args::default();
    assert_eq!(
        runtimes(&mut context, &none).unwrap().value,
        Value::Map(Map::new())
    );

    let known = snapshot();
    let mut store = ArenaStore::new(&config.cachedir);
    let changes = known
        .runtimes
        .iter()
        .cloned()
        .map(|kept| Change::Runtime(Box::new(kept)));
    let mut changes: Vec<Change> = changes.collect();
    changes.extend(
        known
            .modules
            .iter()
            .cloned()
            .map(|kept| Change::Module(Box::new(kept))),
    );
    store.save(&changes).unwrap();
    // A device that was reinstalled left a record with the same id.
    for (uuid, state) in [("r0", "D"), ("r9", "D")] {
        let old = KeptRuntime {
            id: "id-r2".into(),
            ..runtime(uuid, &["wasm"], 1, state)
        };
        store.save(&[Change::Runtime(Box::new(old))]).unwrap();
    }
    let value = runtimes(&mut context, &none).unwrap().value;
    let row = value
        .as_map()
        .unwrap()
        .get("id-r2")
        .and_then(Value::as_map)
        .unwrap();
    assert_eq!(
        (row.int("modules"), row.str("state")),
        (Some(2), Some("alive"))
    );
    let rows = |context: &mut RunContext, all: bool| {
        let args = Args {
            positional: vec![Value::Bool(all)],
            keyword: Map::new(),
        };
        let value = modules(context, &args).unwrap().value;
        value.as_array().unwrap().len()
    };
    assert_eq!(
        (rows(&mut context, false), rows(&mut context, true)),
        (4, 5)
    );
    let error = delete(
        &mut context,
        &Args {
            positional: vec!["x".into()],
            keyword: Map::new(),
        },
    );
    assert!(error.unwrap_err().to_string().contains("no module"));
    let apis = Args {
        positional: vec!["a.py".into()],
        keyword: halite_wire::map! {"apis" => "python:python3"},
    };
    let error = create(&mut context, &apis).unwrap_err().to_string();
    assert!(
        error.contains("id-r3 lacks python:python3; id-r4 is not connected"),
        "{error}"
    );
}
