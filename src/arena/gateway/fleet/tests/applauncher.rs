//! The applauncher of ARENA: what it takes, and what it sends.

use super::*;

/// From then on, once the figures of a module cannot be had, the applauncher sends `null` for it.
#[test]
fn a_module_without_figures_silences_nobody() {
    let mut world = World::new();
    world.register("r", 0);
    for (uuid, policy) in [("waits", "wait"), ("moves", "move"), ("drops", "drop")] {
        world.create(uuid, json!({"parent": "r", "policy": policy}));
    }
    world.keepalive("r", &["waits", "moves", "drops"]);
    let odd = |world: &mut World| {
        let data = json!({"type": "runtime", "uuid": "r", "name": "name-r", "children": [null]});
        world.ask("keepalive/r", "update", data)
    };
    for _ in 0..30 {
        assert_eq!(world.pass(INTERVAL as f64).told(), Vec::<String>::new());
        assert_eq!(odd(&mut world).told(), ["alive r"]);
    }
    for uuid in ["waits", "moves", "drops"] {
        assert_eq!(world.state(uuid), "A r");
    }
    // One heard again is back, and nothing is started a second time.
    let told = [
        "left r Silent",
        "lost waits K r Runtime(Silent)",
        "lost moves Q r Runtime(Silent)",
        "queued moves Q -",
        "lost drops D r Runtime(Silent)",
    ];
    world.pass(1.5 * INTERVAL as f64);
    assert_eq!(world.pass(1.5 * INTERVAL as f64).told(), told);
    let came = odd(&mut world);
    assert_eq!(
        came.told()[..3],
        ["arrived r", "alive r", "started waits A r"]
    );
    assert!(!came.sent().iter().any(|sent| sent.contains("waits")));
    assert_eq!(world.count("faults"), 0);
}

/// The applauncher writes each piece of output as JSON.
#[test]
fn output_in_json_is_text() {
    let mut world = World::new();
    let applauncher = json!({"type": "runtime", "uuid": "r", "runtime_type": "containerized-modules", "apis": ["python:python3"]});
    world.ask("reg", "create", applauncher);
    world.create("a", json!({"parent": "r"}));
    let piece = br#""first \"line\"\nsec""#;
    assert_eq!(
        world.raw("io/a/stdout", piece).told(),
        ["output a stdout first \"line\"\nsec"]
    );
    for plain in ["\"no end", "say \"a\"", "\"\\x\""] {
        let told = format!("output a stderr {plain}");
        assert_eq!(world.raw("io/a/stderr", plain.as_bytes()).told(), [told]);
    }
    // Those of halite write what their modules write.
    let own = json!({"type": "runtime", "uuid": "q", "metadata": {"halite": "1"}});
    world.ask("reg/q", "create", own);
    world.create("b", json!({"parent": "q"}));
    assert_eq!(
        world.raw("io/b/stdout", b"\"a\"").told(),
        ["output b stdout \"a\""]
    );
}

/// It wants a list of arguments, whoever asks, and the fields beside it.
#[test]
fn the_applauncher_gets_what_it_can_run() {
    let mut world = World::new();
    let applauncher = json!({"type": "runtime", "uuid": "r", "runtime_type": "containerized-modules", "apis": ["python:python3"]});
    let register = |world: &mut World| world.ask("reg", "create", applauncher.clone());
    register(&mut world);
    let fields = json!({"apis": ["python:python3"], "filetype": "PY", "location": "lab", "args": ["x"], "env": ["A=1"]});
    let sent = |came: &Came| came.published().last().unwrap().1["data"].clone();
    let created = world.create("a", fields.clone()).published()[0].1["data"].clone();
    world.unregister("r");
    let again = sent(&register(&mut world));
    for data in [created, again] {
        assert_eq!((&data["uuid"], &data["args"]), (&json!("a"), &json!(["x"])));
        assert_eq!(
            (&data["env"], &data["location"]),
            (&json!(["A=1"]), &json!("lab"))
        );
    }
    // A job of the master has an object, as has a user of the draft.
    let request = json!({"uuid": "b", "file": "b.py", "parent": "r", "filetype": "PY", "args": {"argv": ["y"], "extra": 1}});
    let request = ModuleRequest::from_json(request).unwrap();
    let (_, acts) = world.fleet.create(request, world.now).unwrap();
    let data = sent(&world.came(acts));
    assert_eq!((&data["args"], &data["extra"]), (&json!(["y"]), &json!(1)));
}
