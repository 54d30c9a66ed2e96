//! Requests to create and end modules: the choice of a runtime, queues (reference, sections 4.4, 4.5 and 5).

use super::*;

#[test]
fn a_module_is_forwarded_and_its_user_is_told() {
    let mut world = World::new();
    world.register("r", 0);
    let data = json!({
        "type": "module", "name": "m", "parent": {"uuid": "r"}, "filename": "x.wasm", "args": ["1", "2"],
        "env": {"A": "b"}, "filetype": "WA", "location": "here",
    });
    let came = world.ask("control/", "create", data);
    let published = came.published();
    let [(to, forwarded), (back, answer)] = published.as_slice() else {
        panic!("{published:?}");
    };
    assert_eq!(
        (*to, *back),
        ("realm/proc/control/r", "realm/proc/control/")
    );
    let uuid = forwarded["data"]["uuid"].as_str().unwrap();
    assert_eq!(uuid.len(), 36);
    assert_eq!(forwarded["type"], "req");
    assert_ne!(forwarded["object_id"], answer["object_id"]);
    let sent = json!({
        "type": "module", "index": 0, "uuid": uuid, "name": "m", "parent": "r", "file": "x.wasm", "filetype": "WA",
        "apis": ["wasm", "wasi"], "args": {"argv": ["1", "2"], "env": ["A=b"]}, "channels": [], "status": "A",
        "location": "here",
    });
    assert_eq!(forwarded["data"], sent);
    assert_eq!(answer["object_id"], "request-2");
    assert_eq!(answer["data"]["result"], "ok");
    assert_eq!(answer["data"]["details"]["uuid"], uuid);
    assert_eq!(answer["data"]["details"]["status"], "A");
    assert_eq!(came.told(), [format!("sent {uuid} A r")]);
    assert_eq!(world.count("sent"), 1);
}

#[test]
fn a_choice_is_by_apis_places_and_load() {
    let mut world = World::new();
    world.register("r1", 2);
    world.register("r2", 0);
    let python = json!({"type": "runtime", "uuid": "py", "apis": ["python:python3"]});
    world.ask("reg", "create", python);
    for (module, runtime) in [
        ("a", "r1"),
        ("b", "r2"),
        ("c", "r1"),
        ("d", "r2"),
        ("e", "r2"),
    ] {
        world.create(module, json!({}));
        assert_eq!(world.state(module), format!("A {runtime}"));
    }
    world.create("f", json!({"apis": ["python"]}));
    assert_eq!(world.state("f"), "A py");
    let (chosen, choice) = world.fleet.choice(&["python".to_owned()], &[]);
    assert_eq!(chosen, Some(id("py")));
    let place = choice.chosen.unwrap();
    let entry = world.fleet.runtimes.iter().nth(place).unwrap();
    assert_eq!(entry.kept.runtime.uuid, id("py"));
    // No runtime can take it, now or later.
    let came = world.create("g", json!({"apis": ["wasm", "channels"]}));
    assert_eq!(came.sent()[0], "log/orchestrator error no runtime fits");
    let told = "runtime lacks wasm, channels";
    assert_eq!(came.published()[0].1["data"]["data"][0], told);
    assert_eq!(world.state("g"), "none");
    assert_eq!(came.kept(), 0);
}

#[test]
fn a_full_runtime_lets_wait_the_oldest_first() {
    let mut world = World::new();
    world.register("r", 1);
    world.create("a", json!({"parent": "r"}));
    let came = world.create("b", json!({"parent": "r"}));
    assert_eq!(came.told(), ["queued b Q r"]);
    assert_eq!(came.sent(), ["control answer create b Q"]);
    let modules = json!([{"name": "c", "uuid": "c", "file": "x"}, {"uuid": "d", "file": "x"}]);
    let batch = json!({"parent": "name-r", "modules": modules});
    let came = world.ask("control", "create_batch", batch);
    assert_eq!(came.told(), ["queued c Q r", "queued d Q r"]);
    let answer = &came.published()[0].1["data"]["details"];
    assert_eq!(
        (&answer["parent"], &answer["modules"][1]["uuid"]),
        (&json!("r"), &json!("d"))
    );
    let modules = world.fleet.modules_of(&id("r"));
    let order: Vec<_> = modules
        .iter()
        .map(|kept| kept.module.uuid.as_str())
        .collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    assert_eq!(world.delete("c").told(), ["ended c D r deleted"]);
    assert_eq!(
        world.exit("r", "a").told(),
        ["ended a D r exited", "sent b A r"]
    );
    assert_eq!(world.exit("r", "b").sent(), ["control/r create d"]);
}

#[test]
fn a_batch_is_placed_as_a_whole_or_not_at_all() {
    let mut world = World::new();
    world.register("r", 1);
    world.create("a", json!({"parent": "r"}));
    let wrong = [
        json!({"parent": "r", "modules": [{"uuid": "b", "file": "x"}, {"uuid": "b", "file": "x"}]}),
        json!({"parent": "r", "modules": [{"uuid": "b", "file": "x"}, {"uuid": "a", "file": "x"}]}),
        json!({"parent": "q", "modules": [{"uuid": "b", "file": "x"}]}),
        json!({"parent": "r", "modules": [{"uuid": "b", "file": "x"}, {"uuid": "c"}]}),
        json!({"parent": "r", "modules": vec![json!({"file": "x"}); 50]}),
        json!({"modules": [{"uuid": "b", "file": "x"}]}),
    ];
    for data in wrong {
        let came = world.ask("control", "create_batch", data.clone());
        assert_eq!(
            (came.kept(), came.sent().len(), came.told().len()),
            (0, 2, 1),
            "{data}"
        );
    }
    assert_eq!(world.fleet.modules.living(), 1);
}

#[test]
fn a_uuid_that_runs_is_not_given_twice() {
    let mut world = World::new();
    world.register("r", 1);
    let duplicate = ["fault duplicate module UUID; request ignored: a"];
    world.create("a", json!({"parent": "r"}));
    assert_eq!(world.create("a", json!({"parent": "r"})).told(), duplicate);
    world.create("b", json!({"parent": "r"}));
    // A module that waits, was told to end or has ended is replaced.
    assert_eq!(
        world
            .create("b", json!({"parent": "r", "name": "new"}))
            .told(),
        ["queued b Q r"]
    );
    assert_eq!(world.fleet.module(&id("b")).unwrap().module.name, "new");
    world.delete("b");
    world.exit("r", "a");
    assert_eq!(
        world.create("a", json!({"parent": "r"})).told(),
        ["sent a A r"]
    );
    world.unregister("r");
    world.register("q", 0);
    assert_eq!(world.state("a"), "K r");
    assert_eq!(
        world.create("a", json!({"parent": "q"})).told(),
        ["sent a A q"]
    );
    assert_eq!(world.register("r", 1).told(), ["arrived r"]);
}

#[test]
fn one_that_is_replaced_while_it_ends_does_not_take_the_new_one_along() {
    let mut world = World::new();
    world.register("r", 2);
    world.create("a", json!({"parent": "r"}));
    world.delete("a");
    let sent = ["sent a A r"];
    assert_eq!(world.create("a", json!({"parent": "r"})).told(), sent);
    // It takes a place until it has ended.
    assert_eq!(
        world.create("b", json!({"parent": "r"})).told(),
        ["queued b Q r"]
    );
    assert_eq!(world.exit("r", "a").told(), ["sent b A r"]);
    assert_eq!(world.state("a"), "A r");
    // The new one waits for that, if there is no other place.
    world.delete("a");
    assert_eq!(
        world.create("a", json!({"parent": "r"})).told(),
        ["queued a Q r"]
    );
    assert_eq!(
        world.keepalive("r", &["a", "b"]).told(),
        ["alive r", "started b A r"]
    );
    assert_eq!(world.exit("r", "a").told(), sent);
    // If its end is never reported, waiting for it stops after a while.
    world.delete("a");
    world.create("a", json!({"parent": "r"}));
    for _ in 0..2 {
        assert!(world.pass(14.0).told().is_empty());
        world.keepalive("r", &["a", "b"]);
    }
    assert_eq!(world.pass(2.0).told(), sent);
}

#[test]
fn a_runtime_that_cannot_take_it_is_an_error() {
    let mut world = World::new();
    world.register("r", 0);
    world.register("gone", 0);
    world.unregister("gone");
    for name in ["x", "y"] {
        let twin = json!({"type": "runtime", "uuid": name, "name": "twin"});
        world.ask("reg", "create", twin);
    }
    let browser = json!({"type": "runtime", "uuid": "js", "apis": [], "max_nmodules": 0});
    world.ask("reg", "create", browser);
    for (parent, why) in [
        ("nosuch", "invalid Runtime Name/UUID: nosuch"),
        ("gone", "runtime is not connected: gone"),
        ("name-gone", "runtime is not connected: name-gone"),
        ("twin", "ambiguous name: twin"),
        ("js", "no runtime fits: [\"runtime runs no modules\"]"),
    ] {
        let came = world.create("a", json!({"parent": parent}));
        assert_eq!(came.told(), [format!("fault {why}")]);
        assert_eq!(came.sent().len(), 2);
        assert_eq!(came.kept(), 0);
    }
    // Of two with this name, the connected one is used.
    world.unregister("x");
    assert_eq!(
        world.create("a", json!({"parent": "twin"})).told(),
        ["sent a A y"]
    );
}

#[test]
fn there_is_an_end_to_modules() {
    let mut world = World::new();
    world.register("r", 1);
    for n in 0..50 {
        world.create(&format!("m{n}"), json!({"parent": "r"}));
    }
    let came = world.create("more", json!({"parent": "r"}));
    assert_eq!(came.told(), ["fault too many: modules: 50 at most"]);
    assert_eq!(came.kept(), 0);
    // Foreign modules are shown in addition.
    world.register("q", 1);
    assert_eq!(
        world.keepalive("q", &["x"]).told(),
        ["alive q", "foreign x A q"]
    );
    // Ended modules do not count; the same number of them is remembered.
    for n in 0..30 {
        world.exit("r", &format!("m{n}"));
    }
    for n in 0..30 {
        world.create(&format!("n{n}"), json!({"parent": "r"}));
    }
    for n in 30..50 {
        world.exit("r", &format!("m{n}"));
    }
    for n in 0..5 {
        world.exit("r", &format!("n{n}"));
    }
    assert_eq!(world.count("modules_dead"), 55);
    world.pass(1.0);
    assert_eq!(world.count("modules_dead"), 50);
    assert_eq!(
        (world.state("m4"), world.state("m5")),
        ("none".into(), "D r".into())
    );
}

#[test]
fn a_delete_is_forwarded_and_the_exit_ends_it() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r", "name": "mod"}));
    let came = world.delete("mod");
    assert_eq!(came.told(), ["stopping a E r"]);
    assert_eq!(
        came.sent(),
        ["control/r delete a", "control answer delete a E"]
    );
    // Again, for a runtime that missed the first request.
    let came = world.delete("a");
    assert_eq!((came.told().len(), came.sent().len()), (0, 2));
    let data = json!({"type": "module", "uuid": "a", "status": "deleted", "exit_code": 3});
    assert_eq!(
        world.ask("control", "exited", data).told(),
        ["ended a D r deleted"]
    );
    // A repeated message.
    assert!(world.exit("r", "a").acts.is_empty());
    let came = world.delete("a");
    assert_eq!(came.told(), ["fault invalid Module Name/UUID: a"]);
    assert_eq!(world.count("ended"), 1);
}

#[test]
fn names_are_for_those_that_have_not_ended() {
    let mut world = World::new();
    world.register("r", 0);
    world.register("q", 0);
    world.create("a", json!({"parent": "r", "name": "mod"}));
    world.create("b", json!({"parent": "r", "name": "mod"}));
    world.create("c", json!({"parent": "q", "name": "mod"}));
    let data = json!({"type": "module", "uuid": "mod"});
    let came = world.ask("control", "delete", data);
    assert_eq!(came.told(), ["fault ambiguous name: mod"]);
    // Of one runtime.
    let data = json!({"type": "module", "uuid": "mod", "parent": "q"});
    assert_eq!(
        world.ask("control", "delete", data).told(),
        ["stopping c E q"]
    );
    world.exit("q", "c");
    world.exit("r", "a");
    assert_eq!(world.delete("mod").told(), ["stopping b E r"]);
    world.exit("r", "b");
    assert_eq!(
        world.delete("mod").told(),
        ["fault invalid Module Name/UUID: mod"]
    );
}

#[test]
fn what_reached_its_runtime_already_is_not_forwarded() {
    let mut world = World::new();
    world.register("r", 1);
    let data = json!({"type": "module", "uuid": "a", "file": "x", "parent": "r"});
    let came = world.ask("control/r", "create", data.clone());
    assert_eq!(
        (came.told(), came.sent()),
        (vec!["sent a A r".to_owned()], vec![])
    );
    // It takes a place.
    assert_eq!(
        world.create("b", json!({"parent": "r"})).told(),
        ["queued b Q r"]
    );
    let answer = json!({
        "object_id": format!("request-{}", world.requests - 1), "action": "create", "type": "resp",
        "data": {"result": "ok", "details": {"uuid": "a"}},
    });
    assert_eq!(world.say("control/r", answer).told(), ["started a A r"]);
    let gone = json!({"type": "module", "uuid": "a"});
    let came = world.ask("control/r", "delete", gone);
    assert_eq!(
        (came.told(), came.sent()),
        (vec!["stopping a E r".to_owned()], vec![])
    );
    assert_eq!(
        world.exit("r", "a").told(),
        ["ended a D r exited", "sent b A r"]
    );
    // Its runtime does not know modules that wait here.
    world.create("c", json!({"parent": "r"}));
    let waits = json!({"type": "module", "uuid": "c"});
    assert_eq!(
        world.ask("control/r", "delete", waits).told(),
        ["ended c D r deleted"]
    );
    // A module without a uuid gets one there.
    let nameless = json!({"type": "module", "file": "x"});
    assert!(world.ask("control/r", "create", nameless).acts.is_empty());
    world.register("q", 0);
    for (topic, action, why) in [
        (
            "control/nosuch",
            "create",
            "invalid Runtime Name/UUID: nosuch",
        ),
        ("control/q", "delete", "invalid Module Name/UUID: b"),
        (
            "control/q",
            "create",
            "duplicate module UUID; request ignored: b",
        ),
    ] {
        let data = json!({"type": "module", "uuid": "b", "file": "x"});
        assert_eq!(
            world.ask(topic, action, data).told(),
            [format!("fault {why}")]
        );
    }
}

#[test]
fn own_requests_that_come_back_are_nothing() {
    let mut world = World::new();
    world.register("r", 0);
    let mut all = world.create("a", json!({"parent": "r"})).acts;
    all.extend(world.delete("a").acts);
    all.extend(world.raw("control", b"{").acts);
    let mut echoes = 0;
    for act in all {
        if let Act::Publish(what) = act {
            echoes += 1;
            let message = Incoming {
                topic: what.topic,
                payload: what.payload.into(),
                retained: false,
                properties: Vec::new(),
            };
            assert!(world.hear(&message).acts.is_empty());
        }
    }
    assert_eq!((echoes, world.state("a")), (5, "E r".into()));
}
