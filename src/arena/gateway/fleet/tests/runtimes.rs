//! Runtimes: registration, return, silence (reference, sections 4.1 to 4.3 and 5).

use super::*;

/// Seconds after which a keepalive is late, and after which a runtime is disconnected; and just before.
const LATE: f64 = INTERVAL as f64 * 1.5;
const GONE: f64 = INTERVAL as f64 * 3.0;
const SHORT: f64 = 0.001;

#[test]
fn a_registration_is_confirmed_where_it_came_in() {
    let mut world = World::new();
    let data = json!({"type": "runtime", "uuid": "r", "name": "rt"});
    for topic in ["reg/r", "reg", "reg/"] {
        let came = world.ask(topic, "create", data.clone());
        let published = came.published();
        let [(on, answer)] = published.as_slice() else {
            panic!("{published:?}");
        };
        assert_eq!(*on, format!("realm/proc/{topic}"));
        let id = format!("request-{}", world.requests);
        assert_eq!(answer["object_id"], Json::from(id));
        assert_eq!(answer["type"], "resp");
        let data = &answer["data"];
        assert_eq!(data["result"], "ok");
        for record in [data, &data["details"]] {
            assert_eq!(record["uuid"], "r");
            assert_eq!(record["name"], "rt");
            assert_eq!(record["ka_interval_sec"], INTERVAL);
        }
    }
    assert_eq!(world.fleet.runtimes().len(), 1);
}

#[test]
fn a_runtime_arrives_once_and_tells_what_changes() {
    let mut world = World::new();
    assert_eq!(world.register("r", 1).told(), ["arrived r"]);
    assert!(world.register("r", 1).told().is_empty());
    // Changed facts are accepted, unlike with the real orchestrator.
    assert_eq!(world.register("r", 2).told(), ["changed r"]);
    assert_eq!(
        world.fleet.runtime(&id("r")).unwrap().runtime.max_modules,
        2
    );
    let kept = world.fleet.by_id("name-r-r").unwrap();
    assert_eq!(kept.runtime.name, "name-r");
    assert!(world.fleet.by_id("name-q-r").is_none());
}

#[test]
fn killed_modules_come_back_after_the_confirmation() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "name-r"}));
    let came = world.unregister("r");
    assert!(came.sent().is_empty());
    let told = [
        "left r Deleted",
        "lost a K r Runtime(Deleted)",
        "lost b K r Runtime(Deleted)",
    ];
    assert_eq!(came.told(), told);
    let came = world.register("r", 0);
    let sent = [
        "reg/r answer register r A",
        "control/r create a",
        "control/r create b",
    ];
    assert_eq!(came.sent(), sent);
    assert_eq!(came.told(), ["arrived r", "sent a A r", "sent b A r"]);
    assert_eq!(world.count("lost"), 2);
}

#[test]
fn a_runtime_that_comes_back_smaller_gets_as_many_as_it_takes() {
    let mut world = World::new();
    world.register("r", 3);
    for module in ["a", "b", "c"] {
        world.create(module, json!({"parent": "r"}));
    }
    world.unregister("r");
    let came = world.register("r", 1);
    assert_eq!(
        came.told(),
        ["arrived r", "sent a A r", "queued b Q r", "queued c Q r"]
    );
    // When it grows, queued modules start.
    assert_eq!(world.register("r", 2).told(), ["changed r", "sent b A r"]);
}

#[test]
fn what_was_told_to_end_or_waited_is_settled_when_its_runtime_goes() {
    let mut world = World::new();
    world.register("r", 2);
    world.create("ends", json!({"parent": "r"}));
    world.create("runs", json!({"parent": "r"}));
    world.create("waits", json!({"parent": "r"}));
    world.delete("ends");
    let came = world.unregister("r");
    let told = [
        "left r Deleted",
        "ended ends D r deleted",
        "lost runs K r Runtime(Deleted)",
        "lost waits D r Runtime(Deleted)",
    ];
    assert_eq!(came.told(), told);
    // A repeated message changes nothing.
    assert!(world.unregister("r").told().is_empty());
}

#[test]
fn a_policy_says_what_becomes_of_a_module() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("waits", json!({"parent": "r", "policy": "wait"}));
    world.create("moves", json!({"parent": "r", "policy": "move"}));
    world.create("drops", json!({"parent": "r", "args": {"policy": "drop"}}));
    world.register("other", 0);
    let came = world.unregister("r");
    let told = [
        "left r Deleted",
        "lost waits K r Runtime(Deleted)",
        "lost moves A r Runtime(Deleted)",
        "moved moves A other from r",
        "sent moves A other",
        "lost drops D r Runtime(Deleted)",
    ];
    assert_eq!(came.told(), told);
    assert_eq!(came.sent(), ["control/other create moves"]);
    assert_eq!((world.count("moved"), world.count("lost")), (1, 3));
}

#[test]
fn one_that_moves_waits_if_nobody_takes_it() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"policy": "move"}));
    let came = world.unregister("r");
    let told = [
        "left r Deleted",
        "lost a Q r Runtime(Deleted)",
        "queued a Q -",
    ];
    assert_eq!(came.told(), told);
    let came = world.register("other", 0);
    let told = ["arrived other", "moved a A other from r", "sent a A other"];
    assert_eq!(came.told(), told);
}

#[test]
fn what_waits_for_a_runtime_that_was_chosen_waits_for_another() {
    let mut world = World::new();
    world.register("r1", 1);
    world.register("r2", 1);
    world.create("a", json!({}));
    world.create("b", json!({}));
    assert_eq!(
        (world.state("a"), world.state("b")),
        ("A r1".into(), "A r2".into())
    );
    // Unplaced: both could take it later.
    assert_eq!(world.create("c", json!({})).told(), ["queued c Q -"]);
    assert_eq!(
        world.exit("r2", "b").told(),
        ["ended b D r2 exited", "sent c A r2"]
    );
}

#[test]
fn a_manager_takes_its_runtimes_along() {
    let mut world = World::new();
    let manager = json!({"type": "manager", "uuid": "m", "name": "node"});
    let came = world.ask("reg/m", "create", manager.clone());
    let answer = &came.published()[0].1;
    assert_eq!(answer["data"]["result"], "ok");
    assert_eq!(
        answer["data"]["details"],
        json!({"uuid": "m", "name": "node", "status": "A"})
    );
    for runtime in ["r2", "r1"] {
        let data = json!({"type": "runtime", "uuid": runtime, "name": runtime, "parent": "m"});
        world.ask("reg", "create", data);
    }
    world.register("r3", 0);
    world.create("a", json!({"parent": "r1", "policy": "move"}));
    // A second registration is a return; the real orchestrator does not answer it (reference, T10).
    assert_eq!(
        world.ask("reg/m", "create", manager.clone()).sent(),
        ["reg/m answer register m A"]
    );
    let came = world.ask("reg/m", "delete", manager.clone());
    let told = [
        "left r1 Manager",
        "left r2 Manager",
        "lost a A r1 Runtime(Manager)",
        "moved a A r3 from r1",
        "sent a A r3",
    ];
    assert_eq!(came.told(), told);
    assert_eq!(came.sent(), ["control/r3 create a"]);
    // A repeated message changes nothing.
    assert!(world.ask("reg/m", "delete", manager).acts.is_empty());
}

#[test]
fn a_manager_that_registered_with_somebody_else_still_takes_its_runtimes_along() {
    let mut world = World::new();
    let data = json!({"type": "runtime", "uuid": "r", "name": "rt", "parent": "m"});
    world.ask("reg/r", "create", data);
    let gone = json!({"type": "manager", "uuid": "m"});
    assert_eq!(
        world.ask("reg/m", "delete", gone).told(),
        ["left r Manager"]
    );
}

#[test]
fn silence_is_late_then_gone() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    assert_eq!(
        world.keepalive("r", &["a"]).told(),
        ["alive r", "started a A r"]
    );
    assert!(world.pass(LATE - SHORT).told().is_empty());
    assert_eq!(world.pass(SHORT).told(), ["late r"]);
    assert!(world.pass(GONE - LATE - SHORT).told().is_empty());
    let told = ["left r Silent", "lost a K r Runtime(Silent)"];
    assert_eq!(world.pass(SHORT).told(), told);
    // A later keepalive is a return; the module that it lists runs, and is not sent.
    let came = world.keepalive("r", &["a"]);
    assert_eq!(came.told(), ["arrived r", "alive r", "started a A r"]);
    assert!(came.sent().is_empty());
}

#[test]
fn a_return_by_keepalive_gets_what_it_does_not_name() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "r"}));
    world.keepalive("r", &["a", "b"]);
    world.pass(GONE);
    let came = world.keepalive("r", &["b"]);
    assert_eq!(
        came.told(),
        ["arrived r", "alive r", "started b A r", "sent a A r"]
    );
    assert_eq!(came.sent(), ["control/r create a"]);
}

#[test]
fn nobody_is_late_who_never_sent_a_keepalive() {
    let mut world = World::new();
    world.register("r", 0);
    assert!(world.pass(GONE * 10.0).told().is_empty());
    // After another registration it may be a different program, which sends none.
    world.keepalive("r", &[]);
    world.register("r", 0);
    assert!(world.pass(GONE * 10.0).told().is_empty());
    world.keepalive("r", &[]);
    world.restart();
    assert_eq!(world.pass(LATE).told(), ["late r"]);
    world.register("r", 0);
    world.restart();
    assert!(world.pass(GONE * 10.0).told().is_empty());
}

#[test]
fn one_of_halite_is_missed_before_it_has_sent_a_keepalive() {
    let mut world = World::new();
    let data = json!({"type": "runtime", "uuid": "r", "name": "r", "metadata": {"halite": "1"}});
    for _ in 0..2 {
        world.ask("reg/r", "create", data.clone());
    }
    assert_eq!(world.pass(GONE).told(), ["left r Silent"]);
}

#[test]
fn nobody_is_waited_for_without_end() {
    let mut world = World::new();
    world.keepalive("r", &[]);
    world.pass(1000.0 * INTERVAL as f64);
    world.keepalive("r", &[]);
    assert!(
        world
            .pass(10.0 * GONE - SHORT)
            .told()
            .contains(&"late r".to_owned())
    );
    assert_eq!(world.pass(SHORT).told(), ["left r Silent"]);
}

#[test]
fn no_keepalives_are_none_missed() {
    let mut world = World::with(Rules {
        keepalive: Duration::ZERO,
        ..rules()
    });
    world.register("r", 0);
    world.keepalive("r", &[]);
    assert!(world.pass(3000.0).told().is_empty());
}

#[test]
fn a_peer_with_an_interval_of_its_own_is_waited_for() {
    let mut world = World::new();
    world.register("r", 0);
    // The first comes after two intervals, and so do the next.
    for _ in 0..5 {
        world.pass(2.0 * INTERVAL as f64);
        world.keepalive("r", &[]);
    }
    assert!(world.pass(2.0 * LATE - SHORT).told().is_empty());
    assert_eq!(world.pass(SHORT).told(), ["late r"]);
    assert_eq!(world.pass(2.0 * (GONE - LATE)).told(), ["left r Silent"]);
    // One that keeps to its configured interval is missed accordingly.
    world.keepalive("r", &[]);
    world.pass(INTERVAL as f64);
    world.keepalive("r", &[]);
    assert_eq!(world.pass(LATE).told(), ["late r"]);
}

#[test]
fn a_peer_that_was_taken_for_gone_is_known_to_be_slow_then() {
    let mut world = World::new();
    world.keepalive("r", &[]);
    assert_eq!(world.pass(6.0 * INTERVAL as f64).told(), ["left r Silent"]);
    assert_eq!(world.keepalive("r", &[]).told(), ["arrived r", "alive r"]);
    for _ in 0..5 {
        assert!(world.pass(6.0 * INTERVAL as f64).told().is_empty());
        assert_eq!(world.keepalive("r", &[]).told(), ["alive r"]);
    }
}

#[test]
fn nobody_is_late_while_the_broker_is_away() {
    let mut world = World::new();
    world.register("r", 0);
    world.keepalive("r", &[]);
    world.pass(LATE - SHORT);
    world.connected(false);
    assert!(world.pass(GONE * 100.0).told().is_empty());
    world.connected(true);
    assert!(world.pass(LATE - SHORT).told().is_empty());
    assert_eq!(world.pass(SHORT).told(), ["late r"]);
    assert_eq!(world.pass(GONE - LATE).told(), ["left r Silent"]);
    // Time without a broker does not count towards its interval.
    world.keepalive("r", &[]);
    world.connected(false);
    world.pass(GONE * 100.0);
    world.connected(true);
    world.keepalive("r", &[]);
    assert_eq!(world.pass(LATE).told(), ["late r"]);
}

#[test]
fn an_unknown_runtime_is_taken_on_from_its_keepalive() {
    let mut world = World::new();
    let data = json!({
        "type": "runtime", "uuid": "r", "name": "rt", "apis": ["wasm"], "max_nmodules": 3, "runtime_type": "x",
        "status": "D", "children": [{"uuid": "c", "name": "mod", "mem_usage": 5}, {"uuid": "d", "mem_usage": 6}],
    });
    let came = world.ask("keepalive/r", "update", data);
    assert_eq!(
        came.told(),
        ["arrived r", "alive r", "foreign c A r", "foreign d A r"]
    );
    assert!(came.sent().is_empty());
    let kept = world.fleet.runtime(&id("r")).unwrap();
    assert_eq!(
        (kept.runtime.max_modules, kept.runtime.kind.as_str()),
        (3, "x")
    );
    assert_eq!((kept.id.as_str(), kept.memory), ("rt-r", 11));
    assert_eq!(world.fleet.module(&id("c")).unwrap().module.name, "mod");
    // A message with the minimum of fields.
    world.ask(
        "keepalive",
        "update",
        json!({"type": "runtime", "uuid": "q"}),
    );
    let kept = world.fleet.runtime(&id("q")).unwrap();
    assert_eq!(kept.runtime.name, "q");
    assert_eq!(kept.runtime.apis, ["wasm", "wasi"]);
    assert_eq!(world.fleet.alive().len(), 2);
}

#[test]
fn a_keepalive_that_says_nothing_new_keeps_nothing() {
    let mut world = World::new();
    world.register("r", 0);
    assert_eq!(world.keepalive("r", &[]).kept(), 1);
    for _ in 0..5 {
        world.pass(INTERVAL as f64);
        let came = world.keepalive("r", &[]);
        assert_eq!((came.kept(), came.told()), (0, vec!["alive r".to_owned()]));
    }
    // The time of the last keepalive is saved once a minute.
    world.pass(INTERVAL as f64);
    assert_eq!(world.keepalive("r", &[]).kept(), 1);
    assert_eq!(world.keepalive("r", &[]).kept(), 0);
    let data = json!({"type": "runtime", "uuid": "r", "name": "new", "apis": ["wasm"]});
    let came = world.ask("keepalive/r", "update", data);
    assert_eq!(
        (came.kept(), came.told()),
        (1, vec!["changed r".into(), "alive r".into()])
    );
    assert_eq!(
        world.create("a", json!({"parent": "new"})).told(),
        ["sent a A r"]
    );
}

#[test]
fn apis_that_come_later_start_what_waits_for_them() {
    let mut world = World::new();
    world.register("full", 1);
    world.register("r", 0);
    world.create("a", json!({"parent": "full"}));
    world.create(
        "b",
        json!({"parent": "r", "policy": "move", "apis": ["wasm"]}),
    );
    world.unregister("r");
    assert_eq!(world.state("b"), "Q -");
    let data = json!({"type": "runtime", "uuid": "q", "apis": ["python"]});
    world.ask("keepalive/q", "update", data);
    assert_eq!(world.state("b"), "Q -");
    let data = json!({"type": "runtime", "uuid": "q", "apis": ["python", "wasm:x"]});
    world.ask("keepalive/q", "update", data);
    assert_eq!(world.state("b"), "A q");
}

#[test]
fn there_is_an_end_to_runtimes_and_managers() {
    let mut world = World::new();
    for n in 0..10 {
        world.register(&format!("r{n}"), 0);
    }
    let came = world.register("more", 0);
    assert_eq!(came.told(), ["fault too many: runtimes: 10 at most"]);
    let came = world.keepalive("more", &[]);
    // A keepalive is not answered.
    assert_eq!(came.sent(), ["log/orchestrator error too many"]);
    assert_eq!(world.register("r3", 1).told(), ["changed r3"]);
    // Managers without known runtimes make room.
    let manager = |world: &mut World, uuid: &str| {
        let data = json!({"type": "manager", "uuid": uuid});
        world.ask("reg", "create", data).told()
    };
    for n in 0..20 {
        assert!(manager(&mut world, &format!("idle{n}")).is_empty());
        assert!(world.count("managers") <= 5);
    }
    for n in 0..5 {
        let uuid = format!("r{n}");
        let data =
            json!({"type": "runtime", "uuid": uuid, "name": uuid, "parent": format!("m{n}")});
        world.ask("reg", "create", data);
        manager(&mut world, &format!("m{n}"));
    }
    let full = ["fault too many: managers: 5 at most"];
    assert_eq!(manager(&mut world, "more"), full);
}

#[test]
fn what_is_gone_for_long_is_forgotten() {
    let mut world = World::new();
    world.ask("reg", "create", json!({"type": "manager", "uuid": "m"}));
    world.register("r", 0);
    world.register("q", 0);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "q"}));
    world.exit("r", "a");
    world.unregister("r");
    world.unregister("q");
    world.ask("reg", "delete", json!({"type": "manager", "uuid": "m"}));
    world.pass(3599.0);
    assert_eq!(world.fleet.runtimes().len(), 2);
    world.pass(1.0);
    // One has a module that comes back with it.
    assert_eq!(world.fleet.runtimes().len(), 1);
    assert_eq!(
        (world.state("a"), world.state("b")),
        ("none".into(), "K q".into())
    );
    assert_eq!(world.count("managers"), 0);
    assert_eq!(world.delete("b").sent(), ["control answer delete b D"]);
    world.pass(3599.0);
    assert_eq!(world.state("b"), "D q");
    world.pass(1.0);
    assert_eq!(world.fleet.runtimes().len(), 0);
}

#[test]
fn a_restart_changes_nothing() {
    let mut world = World::new();
    world.register("r", 1);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "r"}));
    world.keepalive("r", &["a"]);
    world.restart();
    assert_eq!(world.keepalive("r", &["a"]).told(), ["alive r"]);
    assert_eq!(
        world.exit("r", "a").told(),
        ["ended a D r exited", "sent b A r"]
    );
    world.restart();
    let told = ["left r Deleted", "lost b K r Runtime(Deleted)"];
    assert_eq!(world.unregister("r").told(), told);
    world.restart();
    assert_eq!(world.register("r", 1).told(), ["arrived r", "sent b A r"]);
    // Running numbers continue.
    world.restart();
    world.create("c", json!({"parent": "r"}));
    assert_eq!(world.fleet.module(&id("c")).unwrap().module.index, 2);
}

#[test]
fn records_that_end_in_the_midst_of_a_change_are_mended() {
    let mut world = World::new();
    world.register("gone", 0);
    world.register("here", 1);
    for (module, parent, policy) in [
        ("waits", "gone", "wait"),
        ("moves", "gone", "move"),
        ("ends", "gone", "wait"),
        ("killed", "here", "wait"),
        ("lost", "gone", "wait"),
    ] {
        world.create(module, json!({"parent": parent, "policy": policy}));
    }
    world.delete("ends");
    let of = |world: &mut World, uuid: &str, change: &dyn Fn(&mut KeptModule)| {
        change(world.kept.modules.get_mut(&id(uuid)).unwrap());
    };
    let gone = world.kept.runtimes.get_mut(&id("gone")).unwrap();
    gone.runtime.state = crate::wire::RuntimeState::Dead;
    of(&mut world, "killed", &|kept| {
        kept.module.state = State::Killed
    });
    of(&mut world, "lost", &|kept| {
        kept.module.runtime = Some(id("nobody"))
    });
    let told = [
        "lost waits K gone Runtime(Deleted)",
        "lost moves Q gone Runtime(Deleted)",
        "queued moves Q -",
        "ended ends D gone deleted",
        "lost lost D nobody Runtime(Deleted)",
        "sent killed A here",
    ];
    let came = world.restart();
    assert_eq!(came.told(), told);
    // A second repair changes nothing.
    world.connected(false);
    assert!(world.connected(true).acts.is_empty());
}
