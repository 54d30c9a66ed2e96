//! Keepalives: whatever is wrong in them.

use super::*;

/// Reads a keepalive with this data.
pub(super) fn keepalive(data: Json) -> Keepalive {
    match read(request("update", data)).body {
        Body::Keepalive(alive) => *alive,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_keepalive_that_names_its_runtime_is_never_refused() {
    let of = |more: Json| {
        let mut data = json!({"type": "runtime", "uuid": "r", "name": "rt1", "apis": ["wasm"]});
        let object = data.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        keepalive(data)
    };
    let named = |alive: &Keepalive| -> Option<Vec<String>> {
        let children = alive.children.as_ref()?;
        Some(children.iter().map(|c| c.uuid.to_string()).collect())
    };
    // What the applauncher sends once the figures of a module cannot be had.
    let alive = of(json!({"children": [null, {"uuid": "m"}]}));
    assert_eq!(named(&alive), Some(vec!["m".to_owned()]));
    assert!(alive.partial);
    for unnamed in [json!(7), json!({}), json!({"uuid": "a/b"}), json!([])] {
        let alive = of(json!({"children": [unnamed]}));
        assert_eq!((named(&alive), alive.partial), (Some(vec![]), true));
    }
    let odd = json!({"uuid": "m", "active": [], "cpu_usage_percent": "1", "mem_usage": {}});
    let alive = of(json!({"children": [odd]}));
    let child = &alive.children.as_ref().unwrap()[0];
    assert_eq!(
        (&child.active, child.cpu_percent, child.memory),
        (&None, 0.0, 0)
    );
    assert!(!alive.partial);
    let alive = of(json!({"children": "m", "name": 7, "apis": {}}));
    assert_eq!((named(&alive), alive.name, alive.apis), (None, None, None));
    let missing = json!({"type": "runtime", "children": []});
    assert_eq!(
        trouble(request("update", missing)),
        (Trouble::MissingField, json!("data/uuid"))
    );
}
