//! Who may be a runtime: the operator's decisions.

use super::*;

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
    // It asks again and again, and is answered; nobody else hears of it.
    let came = world.register("r", 0);
    assert_eq!(came.sent(), sent[1..]);
    assert!(came.told().is_empty());
    // Its keepalives are not even asked about.
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
    let told = ["left r Refused", "lost a K r Runtime(Refused)"];
    assert_eq!(world.decided("rt1").told(), told);
    assert!(world.keepalive("r", &["a"]).acts.is_empty());
    let came = world.register("r", 0);
    assert_eq!(came.told(), ["fault runtime is not accepted: rejected"]);
    // Accepted again: it need not say anything.
    assert!(world.decided("rt1").acts.is_empty());
    world
        .operator
        .says
        .insert(name.into(), Admitted::Yes("rt1".into()));
    let came = world.decided("rt1");
    assert_eq!(came.told(), ["arrived r", "sent a A r"]);
    assert_eq!(
        came.sent(),
        ["reg/r answer register r A", "control/r create a"]
    );
}

#[test]
fn a_runtime_whose_key_was_deleted_may_ask_anew() {
    let mut world = World::new();
    let say = |world: &mut World, says| world.operator.says.insert("name-r".into(), says);
    say(&mut world, Admitted::Yes("rt1".into()));
    world.register("r", 0);
    world.keepalive("r", &[]);
    say(&mut world, Admitted::No("deleted".into()));
    assert_eq!(world.decided("rt1").told(), ["left r Refused"]);
    // Its keepalives go on; after a while it is asked about again, and waits under another id.
    say(&mut world, Admitted::Waiting("rt2".into()));
    world.keepalive("r", &[]);
    assert!(world.pass(59.0).told().is_empty());
    assert_eq!(world.pass(1.0).told(), ["waiting rt2"]);
    assert!(world.pass(60.0).told().is_empty());
    say(&mut world, Admitted::Yes("rt2".into()));
    assert_eq!(world.decided("rt2").told(), ["arrived r"]);
    assert_eq!(world.fleet.by_id("rt2").unwrap().runtime.uuid, id("r"));
    assert!(world.fleet.by_id("rt1").is_none());
    // The same, without a keepalive since: it is forgotten.
    say(&mut world, Admitted::No("deleted".into()));
    world.decided("rt2");
    world.pass(3000.0);
    assert_eq!(world.count("runtimes_waiting"), 1);
    world.pass(600.0);
    assert_eq!(world.count("runtimes_waiting"), 0);
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
