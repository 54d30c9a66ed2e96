//! Admission of runtimes: the operator's decisions.

use super::super::waiting_room::{Wait, WaitingRoom};
use super::*;
use crate::wire::Runtime;

#[test]
fn the_operator_lets_a_runtime_in() {
    let mut world = World::new();
    let name = "name-r";
    world
        .operator
        .says
        .insert(name.into(), Admitted::Waiting("rt1".into()));
    let came = world.register("r", 0);
    assert_eq!(
        came.told(),
        [
            "waiting rt1",
            "fault runtime is not accepted: halite-key -a rt1"
        ]
    );
    let sent = [
        "log/orchestrator error runtime is not accepted",
        "reg/r answer register runtime is not accepted",
    ];
    assert_eq!(came.sent(), sent);
    assert_eq!(
        came.published()[1].1["data"]["details"]["data"],
        "halite-key -a rt1"
    );
    assert_eq!((came.kept(), world.count("runtimes_waiting")), (0, 1));
    // It repeats its request and gets answers, but nothing else is reported.
    let came = world.register("r", 0);
    assert_eq!(came.sent(), sent[1..]);
    assert!(came.told().is_empty());
    // Admission is not even checked for its keepalives.
    let asked = world.operator.asked;
    assert!(world.keepalive("r", &["a"]).acts.is_empty());
    assert_eq!(world.operator.asked, asked);
    assert!(world.decided("rt1").acts.is_empty());
    world
        .operator
        .says
        .insert(name.into(), Admitted::Yes("rt1".into()));
    assert!(world.decided("other").acts.is_empty());
    let last = world.requests - 1;
    let came = world.decided("rt1");
    assert_eq!(came.sent(), ["reg/r answer register r A"]);
    assert_eq!(
        came.published()[0].1["object_id"],
        format!("request-{last}")
    );
    assert_eq!(came.told(), ["arrived r"]);
    assert_eq!(world.count("runtimes_waiting"), 0);
}

#[test]
fn the_operator_sends_a_runtime_away() {
    let mut world = World::new();
    let name = "name-r";
    world
        .operator
        .says
        .insert(name.into(), Admitted::Yes("rt1".into()));
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    assert!(world.decided("rt1").acts.is_empty());
    world
        .operator
        .says
        .insert(name.into(), Admitted::No("rejected".into()));
    let told = ["left r Refused", "lost a D r Runtime(Refused)"];
    let came = world.decided("rt1");
    assert_eq!(came.told(), told);
    // It is still there, and would run the module for ever.
    assert_eq!(came.sent(), ["control/r delete a"]);
    assert!(world.keepalive("r", &["a"]).acts.is_empty());
    let came = world.register("r", 0);
    assert_eq!(came.told(), ["fault runtime is not accepted: rejected"]);
    // Accepted again: it need not register.
    assert!(world.decided("rt1").acts.is_empty());
    world
        .operator
        .says
        .insert(name.into(), Admitted::Yes("rt1".into()));
    let came = world.decided("rt1");
    assert_eq!(came.told(), ["arrived r"]);
    assert_eq!(came.sent(), ["reg/r answer register r A"]);
}

#[test]
fn a_runtime_whose_key_was_deleted_asks_again_only_by_registering() {
    let mut world = World::new();
    let say = |world: &mut World, says| world.operator.says.insert("name-r".into(), says);
    say(&mut world, Admitted::Yes("rt1".into()));
    world.register("r", 0);
    world.keepalive("r", &[]);
    say(&mut world, Admitted::Deleted);
    assert_eq!(world.decided("rt1").told(), ["left r Refused"]);
    // Its keepalives go on, but nobody is asked about it again.
    say(&mut world, Admitted::Waiting("rt2".into()));
    let asked = world.operator.asked;
    for _ in 0..10 {
        assert!(world.keepalive("r", &[]).acts.is_empty());
        assert!(world.pass(60.0).told().is_empty());
    }
    assert_eq!(world.operator.asked, asked);
    assert_eq!(world.register("r", 0).told()[0], "waiting rt2");
    // The same for one that waits.
    say(&mut world, Admitted::Deleted);
    assert!(world.decided("rt2").acts.is_empty());
    say(&mut world, Admitted::Waiting("rt2".into()));
    assert!(world.pass(600.0).told().is_empty());
    assert_eq!(world.register("r", 0).told()[0], "waiting rt2");
    say(&mut world, Admitted::Yes("rt2".into()));
    assert_eq!(world.decided("rt2").told(), ["arrived r"]);
    assert_eq!(world.fleet.by_id("rt2").unwrap().runtime.uuid, id("r"));
    assert!(world.fleet.by_id("rt1").is_none());
    // And for one that was away when its key was deleted.
    world.unregister("r");
    say(&mut world, Admitted::Deleted);
    world.decided("rt2");
    say(&mut world, Admitted::Waiting("rt2".into()));
    assert!(world.keepalive("r", &[]).acts.is_empty());
    // Without a keepalive since it is forgotten.
    world.pass(3599.0);
    assert_eq!(world.count("runtimes_waiting"), 1);
    world.pass(2.0);
    assert_eq!(world.count("runtimes_waiting"), 0);
}

#[test]
fn deleting_all_keys_takes_a_moment() {
    let most = 10_000;
    let mut world = World::with(Rules {
        max_waiting: most,
        ..rules()
    });
    for n in 0..most {
        let says = Admitted::Waiting(format!("w{n}"));
        world.operator.says.insert(format!("name-w{n}"), says);
        let data =
            json!({"type": "runtime", "uuid": format!("w{n}"), "name": format!("name-w{n}")});
        world.ask("reg", "create", data);
    }
    assert_eq!(world.count("runtimes_waiting"), most as u64);
    let asked = world.operator.asked;
    for says in world.operator.says.values_mut() {
        *says = Admitted::Deleted;
    }
    for n in 0..most {
        assert!(world.decided(&format!("w{n}")).acts.is_empty());
    }
    // Each is looked at once, and never again.
    assert_eq!(world.operator.asked, asked + most);
    world.pass(600.0);
    assert_eq!(world.operator.asked, asked + most);
}

#[test]
fn one_that_waits_and_leaves_is_forgotten() {
    let mut world = World::new();
    world
        .operator
        .says
        .insert("name-r".into(), Admitted::Waiting("rt1".into()));
    world.register("r", 0);
    assert!(world.unregister("r").acts.is_empty());
    assert_eq!(world.count("runtimes_waiting"), 0);
    world.register("r", 0);
    world.pass(3599.0);
    assert_eq!(world.count("runtimes_waiting"), 1);
    world.pass(2.0);
    assert_eq!(world.count("runtimes_waiting"), 0);
}

#[test]
fn nobody_speaks_for_another() {
    let mut world = World::new();
    world.register("r", 0);
    world.register("q", 0);
    let manager = json!({"type": "manager", "uuid": "m", "name": "m"});
    world.ask("reg/m", "create", manager.clone());
    let runtime = json!({"type": "runtime", "uuid": "r", "name": "other", "apis": ["wasm"]});
    for (topic, action, data) in [
        ("reg/q", "delete", &runtime),
        ("reg/q", "create", &runtime),
        ("control/q", "delete", &runtime),
        ("keepalive/q", "update", &runtime),
        ("reg/q", "delete", &manager),
        ("reg/q", "create", &manager),
    ] {
        let came = world.ask(topic, action, data.clone());
        assert_eq!(
            came.told(),
            ["fault invalid field: data/uuid"],
            "{topic} {action}"
        );
        assert_eq!(came.kept(), 0);
    }
    assert_eq!(world.count("runtimes_alive"), 2);
    assert_eq!(
        world.fleet.runtime(&id("r")).unwrap().runtime.name,
        "name-r"
    );
    // If the topic names nobody, the broker's rules decide who may write there.
    assert_eq!(
        world.ask("reg", "delete", runtime).told(),
        ["left r Deleted"]
    );
}

#[test]
fn modules_do_not_wait_for_a_runtime_whose_key_is_gone() {
    let mut world = World::new();
    let say = |world: &mut World, says| world.operator.says.insert("name-r".into(), says);
    say(&mut world, Admitted::Yes("rt1".into()));
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.unregister("r");
    assert!(world.decided("rt1").told().is_empty());
    assert_eq!(world.state("a"), "K r");
    say(&mut world, Admitted::No("deleted".into()));
    assert_eq!(world.decided("rt1").told(), ["lost a D r Runtime(Refused)"]);
}

#[test]
fn who_cannot_be_judged_stays_where_it_is() {
    let mut world = World::new();
    let say = |world: &mut World, says| world.operator.says.insert("name-r".into(), says);
    say(&mut world, Admitted::Unclear("disk".into()));
    let told = ["fault runtime is not accepted: disk"];
    assert_eq!(world.register("r", 0).told(), told);
    assert_eq!(world.count("runtimes_waiting"), 0);
    say(&mut world, Admitted::Yes("rt1".into()));
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    say(&mut world, Admitted::Unclear("disk".into()));
    assert!(world.decided("rt1").acts.is_empty());
    assert_eq!(world.register("r", 0).told(), told);
    assert_eq!(
        world.keepalive("r", &["a"]).told(),
        ["alive r", "started a A r"]
    );
}

#[test]
fn those_that_wait_take_no_room_from_others() {
    let mut world = World::new();
    let wait = |world: &mut World, n: usize| {
        let says = Admitted::Waiting(format!("w{n}"));
        world.operator.says.insert(format!("name-w{n}"), says);
        world.register(&format!("w{n}"), 0);
        world.pass(0.1);
    };
    for n in 0..30 {
        wait(&mut world, n);
    }
    assert_eq!(world.count("runtimes_waiting"), 10);
    // Those heard last are left.
    let yes = Admitted::Yes("w29".into());
    world.operator.says.insert("name-w29".into(), yes);
    assert!(world.decided("w0").acts.is_empty());
    assert_eq!(world.decided("w29").told(), ["arrived w29"]);
    for n in 0..9 {
        let told = world.register(&format!("r{n}"), 0).told();
        assert_eq!(told, [format!("arrived r{n}")]);
    }
}

#[test]
fn large_ones_that_wait_do_not_take_all_the_memory() {
    let mut waiting_room = WaitingRoom::default();
    let now = Clock::now();
    let json = json!({"uuid": "w", "name": "w", "metadata": "x".repeat(16_000)});
    let runtime = Runtime::from_json(json).unwrap();
    for n in 0..5000 {
        let mut runtime = runtime.clone();
        runtime.uuid = id(&format!("w{n}"));
        let kept = KeptRuntime {
            runtime,
            id: format!("w{n}"),
            heard: 0,
            memory: 0,
            speaks: false,
            dialect: Default::default(),
        };
        assert!(waiting_room.wait(kept, None, Wait::Operator, 1_000_000, now));
    }
    assert!(
        (3500..4200).contains(&waiting_room.len()),
        "{}",
        waiting_room.len()
    );
    // Their memory is free when they are gone.
    let later = now.after(Duration::from_secs(10));
    waiting_room.due(Duration::from_secs(10), later);
    assert_eq!((waiting_room.len(), waiting_room.byte_len()), (0, 0));
}

#[test]
fn of_two_records_with_one_id_the_one_that_is_there_counts() {
    let mut world = World::new();
    let say = |world: &mut World, says| world.operator.says.insert("name-old".into(), says);
    say(&mut world, Admitted::Yes("rt1".into()));
    world.register("old", 0);
    let yes = Admitted::Yes("rt1".into());
    world.operator.says.insert("name-new".into(), yes);
    world.register("new", 0);
    let by_id = |world: &World| world.fleet.by_id("rt1").unwrap().runtime.uuid.to_string();
    world.unregister("old");
    assert_eq!(by_id(&world), "new");
    world.restart();
    assert_eq!(by_id(&world), "new");
    world.register("old", 0);
    world.unregister("new");
    assert_eq!(by_id(&world), "old");
}
