use super::*;
use crate::wire::{Dialect, Object, Runtime, RuntimeState};
use serde_json::json;

/// A connected runtime.
pub fn runtime(uuid: &str, name: &str) -> KeptRuntime {
    KeptRuntime {
        runtime: Runtime {
            uuid: uuid.parse().unwrap(),
            name: name.to_owned(),
            kind: "linux".to_owned(),
            max_modules: 8,
            apis: vec!["wasm".to_owned(), "wasi".to_owned()],
            platform: json!({"cpu": {"arch": "x86_64", "cores": 2}, "mem": {"total": 3_u64 << 30}, "os": "Debian"}),
            metadata: json!({"host": "node-a", "halite": "1"}),
            keepalive: 60,
            manager: None,
            state: RuntimeState::Alive,
            extra: Object::new(),
        },
        id: name.to_owned(),
        heard: 0,
        memory: 0,
        speaks: true,
        dialect: Dialect::Draft,
    }
}

#[test]
fn runtimes_are_targeted_by_what_they_tell() {
    let grains = grains(&runtime("u1", "rt1"), "realm");
    assert_eq!(grains.str("id"), Some("rt1"));
    assert_eq!(grains.str("cpuarch"), Some("x86_64"));
    assert_eq!(grains.int("num_cpus"), Some(2));
    assert_eq!(grains.int("mem_total"), Some(3072));
    assert_eq!(
        (grains.str("os"), grains.str("host")),
        (Some("Debian"), Some("node-a"))
    );
    for (expression, expected) in [
        ("arena:apis:wasm", true),
        ("arena:apis:python:python3", false),
        ("arena:name:rt*", true),
        ("arena:platform:cpu:arch:x86_64", true),
        ("arena:realm:realm", true),
        ("arena:uuid:u2", false),
        ("gateway:arena", true),
    ] {
        let found = halite_target::subdict_match(&grains, expression, ":", false, false);
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn what_is_not_told_is_no_grain() {
    let mut kept = runtime("u1", "rt1");
    kept.runtime.platform = Json::Null;
    kept.runtime.metadata = json!("free text");
    let grains = grains(&kept, "realm");
    assert_eq!(grains.len(), 3);
    let arena = grains.get("arena").and_then(Value::as_map).unwrap();
    assert_eq!(arena.str("metadata"), Some("free text"));
    assert_eq!(arena.get("platform"), Some(&Value::Nil));
}
