//! Messages of runtimes about modules: answers, exits, keepalives (reference, sections 4.3 to 4.5 and 5).

use super::*;

#[test]
fn a_runtime_answers() {
    let mut world = World::new();
    world.register("r", 0);
    let answer = |came: &Came, action: &str, result: &str| {
        let request = came.published()[0].1["object_id"].clone();
        json!({
            "object_id": request, "action": action, "type": "resp",
            "data": {"result": result, "details": {"uuid": "a", "desc": "no such file"}},
        })
    };
    let came = world.create("a", json!({"parent": "r"}));
    let ok = answer(&came, "create", "ok");
    // The message comes from another runtime.
    assert!(world.say("control/q", ok.clone()).acts.is_empty());
    assert!(world.say("control", ok.clone()).acts.is_empty());
    assert_eq!(world.say("control/r", ok.clone()).told(), ["started a A r"]);
    // Reported once, by an answer or a keepalive.
    assert!(world.say("control/r", ok).told().is_empty());
    assert_eq!(world.keepalive("r", &["a"]).told(), ["alive r"]);
    let came = world.delete("a");
    let deleted = answer(&came, "delete", "ok");
    assert_eq!(
        world.say("control/r", deleted.clone()).told(),
        ["ended a D r deleted"]
    );
    assert!(world.say("control/r", deleted).told().is_empty());
    let came = world.create("a", json!({"parent": "r"}));
    let error = answer(&came, "create", "error");
    assert_eq!(
        world.say("control/r", error).told(),
        ["refused a D r no such file"]
    );
    assert_eq!(world.state("a"), "D r");
}

#[test]
fn a_refused_module_that_was_scheduled_is_tried_elsewhere() {
    let mut world = World::new();
    world.register("r1", 1);
    world.register("r2", 1);
    let refuse = |came: &Came, uuid: &str| {
        let sent = came.published();
        let (topic, create) = sent.iter().find(|(_, m)| m["type"] == "req").unwrap();
        let topic = topic.trim_start_matches("realm/proc/").to_owned();
        let details = json!({"uuid": uuid, "desc": "no"});
        let data = json!({"result": "error", "details": details});
        (
            topic,
            json!({"object_id": create["object_id"], "type": "resp", "data": data}),
        )
    };
    let came = world.create("a", json!({}));
    let (topic, answer) = refuse(&came, "a");
    let came = world.say(&topic, answer);
    assert_eq!(came.told(), ["refused a A r2 no", "sent a A r2"]);
    let (topic, answer) = refuse(&came, "a");
    assert_eq!(topic, "control/r2");
    // No runtime is left.
    assert_eq!(world.say(&topic, answer).told(), ["refused a D r2 no"]);
    // A full runtime could take it later.
    world.create("full", json!({"parent": "r2"}));
    let came = world.create("b", json!({}));
    let (topic, answer) = refuse(&came, "b");
    assert_eq!(
        world.say(&topic, answer).told(),
        ["refused b Q - no", "queued b Q -"]
    );
    let told = ["ended full D r2 exited", "sent b A r2"];
    assert_eq!(world.exit("r2", "full").told(), told);
}

#[test]
fn a_delete_by_its_own_runtime_is_an_exit() {
    let mut world = World::new();
    world.register("r", 1);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "r"}));
    let message = json!({
        "object_id": "o", "action": "delete", "type": "req", "from": "r",
        "data": {"type": "module", "uuid": "a", "name": "nat", "parent": "r"},
    });
    let came = world.say("control/r", message.clone());
    assert_eq!(came.told(), ["ended a D r exited", "sent b A r"]);
    assert_eq!(came.sent(), ["control/r create b"]);
    // A repeated message changes nothing.
    assert!(world.say("control/r", message).acts.is_empty());
}

#[test]
fn modules_of_others_are_shown_and_forgotten() {
    let mut world = World::new();
    world.register("r", 2);
    assert_eq!(
        world.keepalive("r", &["f"]).told(),
        ["alive r", "foreign f A r"]
    );
    assert!(world.fleet.module(&id("f")).unwrap().foreign);
    world.restart();
    assert_eq!(world.keepalive("r", &["f"]).told(), ["alive r"]);
    // It takes a place.
    world.create("a", json!({"parent": "r"}));
    assert_eq!(
        world.create("b", json!({"parent": "r"})).told(),
        ["queued b Q r"]
    );
    world.keepalive("r", &["a"]);
    world.pass(INTERVAL as f64);
    let came = world.keepalive("r", &["a"]);
    assert_eq!(came.told(), ["alive r", "lost f D r Missing", "sent b A r"]);
    assert_eq!(world.state("f"), "none");
    // It can be ended, but it does not come back with its runtime.
    world.keepalive("r", &["a", "b", "g"]);
    assert_eq!(world.delete("g").sent()[0], "control/r delete g");
    assert_eq!(world.exit("r", "g").told(), ["ended g D r exited"]);
    world.keepalive("r", &["a", "b", "h"]);
    let told = world.unregister("r").told();
    assert!(
        told.contains(&"lost h D r Runtime(Deleted)".to_owned()),
        "{told:?}"
    );
    assert_eq!(world.state("h"), "none");
}

/// Sends keepalives without modules, until one is missing.
fn silence(world: &mut World, runtime: &str) -> Vec<String> {
    for _ in 0..4 {
        world.pass(INTERVAL as f64);
        let told = world.keepalive(runtime, &[]).told();
        assert_eq!(told[0], format!("alive {runtime}"));
        if told.len() > 1 {
            return told[1..].to_vec();
        }
    }
    Vec::new()
}

#[test]
fn a_module_that_never_started_is_sent_again_once() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    assert_eq!(
        silence(&mut world, "r"),
        ["lost a A r Missing", "sent a A r"]
    );
    assert_eq!(silence(&mut world, "r"), ["lost a D r Missing"]);
    // It was only slow.
    assert_eq!(
        world.keepalive("r", &["a"]).told(),
        ["alive r", "started a A r"]
    );
    assert_eq!(silence(&mut world, "r"), ["lost a D r Missing"]);
}

#[test]
fn a_module_that_ran_and_is_missing_is_not_run_twice() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.keepalive("r", &["a"]);
    // It ended while nobody listened.
    world.restart();
    assert_eq!(silence(&mut world, "r"), ["lost a D r Missing"]);
    assert_eq!(silence(&mut world, "r"), Vec::<String>::new());
}

#[test]
fn profiles_are_a_wish_for_those_that_wait_too() {
    let mut world = World::new();
    world.register("r", 1);
    world.create("a", json!({}));
    let apis = json!({"apis": ["wasm", "profile:deployed"]});
    assert_eq!(world.create("b", apis).told(), ["queued b Q -"]);
    let told = ["ended a D r exited", "sent b A r"];
    assert_eq!(world.exit("r", "a").told(), told);
}

#[test]
fn a_missing_module_moves_or_is_dropped_if_it_says_so() {
    let mut world = World::new();
    world.register("r", 0);
    world.register("q", 0);
    world.keepalive("r", &[]);
    world.create("a", json!({"parent": "r", "policy": "move"}));
    world.create("b", json!({"parent": "r", "policy": "drop"}));
    let told = [
        "lost a A r Missing",
        "moved a A q from r",
        "sent a A q",
        "lost b D r Missing",
    ];
    assert_eq!(silence(&mut world, "r"), told);
    // It is not tried again where it was lost.
    world.unregister("q");
    assert_eq!(world.state("a"), "Q -");
    world.keepalive("r", &[]);
    assert_eq!(world.state("a"), "Q -");
    // Until that runtime arrives anew: it may be a different program by then.
    world.unregister("r");
    world.register("r", 1);
    assert_eq!(world.state("a"), "A r");
}

#[test]
fn an_order_to_end_that_was_lost_is_repeated() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.keepalive("r", &["a"]);
    assert_eq!(world.delete("a").sent()[0], "control/r delete a");
    for _ in 0..2 {
        for _ in 0..2 {
            world.pass(INTERVAL as f64);
            assert!(world.keepalive("r", &["a"]).sent().is_empty());
        }
        world.pass(INTERVAL as f64);
        assert_eq!(world.keepalive("r", &["a"]).sent(), ["control/r delete a"]);
    }
}

#[test]
fn a_runtime_cannot_claim_what_waits_elsewhere() {
    let mut world = World::new();
    world.register("r", 1);
    world.register("thief", 0);
    world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "r"}));
    let came = world.keepalive("thief", &["b"]);
    assert_eq!(came.told(), ["alive thief"]);
    assert_eq!(came.sent(), ["control/thief delete b"]);
    assert_eq!(world.state("b"), "Q r");
    world.unregister("r");
    assert_eq!(world.keepalive("thief", &["a"]).told(), ["alive thief"]);
    assert_eq!(world.state("a"), "K r");
}

#[test]
fn modules_of_others_take_no_room_from_those_that_were_asked_for() {
    let mut world = World::with(Rules {
        max_modules: 400,
        ..rules()
    });
    for runtime in ["r", "q"] {
        world.register(runtime, 0);
        let all: Vec<String> = (0..300).map(|n| format!("{runtime}{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        world.keepalive(runtime, &all);
        world.keepalive(runtime, &all);
    }
    assert_eq!(world.fleet.modules_of(&id("r")).len(), 256);
    assert_eq!(world.fleet.modules_of(&id("q")).len(), 400 - 256);
    for n in 0..400 {
        let told = world
            .create(&format!("m{n}"), json!({"parent": "r"}))
            .told();
        assert_eq!(told, [format!("sent m{n} A r")]);
    }
    assert_eq!(
        world.create("more", json!({"parent": "r"})).told(),
        ["fault too many: modules: 400 at most"]
    );
}

#[test]
fn records_of_modules_have_an_end() {
    let mut world = World::with(Rules {
        max_bytes: 100_000,
        ..rules()
    });
    world.register("r", 0);
    let large = json!({"parent": "r", "location": "x".repeat(30_000)});
    for uuid in ["a", "b", "c"] {
        let sent = format!("sent {uuid} A r");
        assert_eq!(world.create(uuid, large.clone()).told(), [sent]);
    }
    assert_eq!(
        world.create("d", large.clone()).told(),
        ["fault too many: modules: 100000 bytes of records at most"]
    );
    // A module that has ended makes room.
    world.exit("r", "b");
    assert_eq!(world.create("d", large).told(), ["sent d A r"]);
    assert_eq!(world.state("b"), "none");
}

#[test]
fn messages_that_were_lost_are_no_silence() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r", "policy": "drop"}));
    world.keepalive("r", &["a"]);
    for _ in 0..5 {
        world.pass(INTERVAL as f64);
        assert_eq!(world.keepalive("r", &[]).told(), ["alive r"]);
        world.pass(2.0 * INTERVAL as f64 - 1.0);
        world.fleet.messages_lost(world.now);
    }
    assert_eq!(world.state("a"), "A r");
}

#[test]
fn a_module_that_was_just_sent_may_not_be_named_yet() {
    let mut world = World::new();
    world.register("r", 0);
    world.keepalive("r", &[]);
    world.create("a", json!({"parent": "r", "policy": "drop"}));
    for _ in 0..3 {
        for _ in 0..5 {
            assert_eq!(world.keepalive("r", &[]).told(), ["alive r"]);
        }
        world.pass(INTERVAL as f64);
    }
    assert_eq!(
        world.keepalive("r", &[]).told(),
        ["alive r", "lost a D r Missing"]
    );
}

#[test]
fn who_names_no_modules_at_all_misses_none() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r", "policy": "drop"}));
    world.keepalive("r", &["a"]);
    for _ in 0..5 {
        world.pass(INTERVAL as f64);
        let data = json!({"type": "runtime", "uuid": "r"});
        assert_eq!(world.ask("keepalive/r", "update", data).told(), ["alive r"]);
    }
    assert_eq!(world.state("a"), "A r");
}

#[test]
fn a_module_that_is_told_to_end_and_vanishes_has_ended() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.keepalive("r", &["a"]);
    world.delete("a");
    world.pass(INTERVAL as f64);
    assert_eq!(world.keepalive("r", &["a"]).told(), ["alive r"]);
    assert_eq!(silence(&mut world, "r"), ["ended a D r deleted"]);
}

#[test]
fn a_module_that_runs_where_it_was_moved_from_is_ended_there() {
    let mut world = World::new();
    world.register("r", 0);
    world.register("q", 0);
    world.create("a", json!({"parent": "r", "policy": "move"}));
    world.keepalive("r", &["a"]);
    world.pass(3.0 * INTERVAL as f64);
    assert_eq!(world.state("a"), "A q");
    let came = world.keepalive("r", &["a"]);
    assert_eq!(came.told(), ["arrived r", "alive r"]);
    assert_eq!(came.sent(), ["control/r delete a"]);
    // The request is repeated once in a while, not with each keepalive.
    assert!(world.keepalive("r", &["a"]).sent().is_empty());
    // Its end there is not that of the other copy, even if the sender is unknown.
    let data = json!({"type": "module", "uuid": "a"});
    assert!(
        world
            .ask("control", "exited", data.clone())
            .told()
            .is_empty()
    );
    assert_eq!(world.state("a"), "A q");
    assert!(world.exit("r", "a").told().is_empty());
    assert_eq!(
        world.ask("control", "exited", data).told(),
        ["ended a D q exited"]
    );
}

#[test]
fn a_module_that_waits_and_runs_already_runs() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r", "policy": "move"}));
    world.keepalive("r", &["a"]);
    world.pass(3.0 * INTERVAL as f64);
    assert_eq!(world.state("a"), "Q -");
    let came = world.keepalive("r", &["a"]);
    assert_eq!(came.told(), ["arrived r", "alive r", "started a A r"]);
    assert!(came.sent().is_empty());
}

#[test]
fn one_that_was_deleted_while_its_runtime_was_gone_is_ended_when_it_is_back() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    world.keepalive("r", &["a"]);
    world.pass(3.0 * INTERVAL as f64);
    assert_eq!(world.delete("a").told(), ["ended a D r deleted"]);
    assert_eq!(world.keepalive("r", &["a"]).sent(), ["control/r delete a"]);
}

#[test]
fn what_modules_write_is_told() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    assert_eq!(
        world.raw("io/a/stdout", b"hi").told(),
        ["output a stdout hi"]
    );
    assert_eq!(world.raw("stdio/a", b"x").told().len(), 1);
    assert_eq!(
        world.raw("debug/stderr/a", b"x").told(),
        ["output a stderr x"]
    );
    for topic in [
        "io/a/stdin",
        "io/b/stdout",
        "profile/kind/r/a",
        "log/orchestrator",
        "x/y",
    ] {
        assert!(world.raw(topic, b"x").acts.is_empty(), "{topic}");
    }
    // On the topic for all streams a property may name the stream; elsewhere the topic does.
    let mut said = |topic: &str, stream: &str| {
        let message = Incoming {
            topic: format!("realm/proc/{topic}"),
            payload: b"x".to_vec().into(),
            retained: false,
            properties: vec![("stream".to_owned(), stream.to_owned())],
        };
        world.hear(&message).told()
    };
    assert_eq!(said("stdio/a", "stderr"), ["output a stderr x"]);
    assert_eq!(said("stdio/a", "stdout"), ["output a stdout x"]);
    assert_eq!(said("stdio/a", "noise"), ["output a stdio x"]);
    assert_eq!(said("io/a/stdout", "stderr"), ["output a stdout x"]);
    assert_eq!(said("stdio/a", "stdin"), ["output a stdio x"]);
    let much = world.raw("io/a/stdout", &[b'x'; 100 << 10]).acts;
    let [Act::Report(FleetEvent::Output(_, _, data))] = much.as_slice() else {
        panic!();
    };
    assert_eq!(data.len(), 64 << 10);
    // Output may be written before the end, but arrive after it.
    world.exit("r", "a");
    assert_eq!(
        world.raw("io/a/stdout", b"hi").told(),
        ["output a stdout hi"]
    );
}

/// A runtime that hears the user's request answers that one, and is heard by what it says about its modules.
#[test]
fn an_answer_to_the_request_of_the_user_counts() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    let heard = |world: &World| world.fleet.runtime(&id("r")).unwrap().heard;
    let before = heard(&world);
    let answer = json!({
        "object_id": format!("request-{}", world.requests), "action": "create", "type": "resp", "from": "r",
        "data": {"result": "ok", "details": {"type": "module", "uuid": "a"}},
    });
    assert_eq!(
        world.say("control", answer.clone()).told(),
        ["started a A r"]
    );
    assert!(world.say("control", answer).told().is_empty());
    world.pass(100.0);
    world.exit("r", "a");
    assert_eq!(heard(&world), before + 100);
}

#[test]
fn the_older_dialect_is_spoken_to_who_speaks_it() {
    let mut world = World::new();
    let say = |world: &mut World, topic: &str, action: &str, data: Json| {
        let message = json!({"object_id": "o", "action": action, "type": "arts_req", "data": data});
        world.say(topic, message)
    };
    let data = json!({"type": "runtime", "uuid": "r", "name": "rt", "max_nmodules": 1});
    let came = say(&mut world, "reg", "create", data);
    assert_eq!(came.published()[0].1["type"], "arts_resp");
    // Whoever sends the request, the module's runtime gets it in its own dialect.
    let came = world.create("a", json!({"parent": "r", "args": ["1"]}));
    let published = came.published();
    assert_eq!(
        (&published[0].1["type"], &published[1].1["type"]),
        (&json!("arts_req"), &json!("resp"))
    );
    assert_eq!(published[0].1["data"]["filename"], "x.wasm");
    world.create("b", json!({"parent": "r"}));
    assert_eq!(
        world.exit("r", "a").sent(),
        ["notif exited a", "control/r create b"]
    );
    // That tells the runtime to shut down.
    let gone = json!({"type": "runtime", "uuid": "r"});
    assert!(
        say(&mut world, "control/r", "delete", gone.clone())
            .acts
            .is_empty()
    );
    world.create("c", json!({"parent": "r"}));
    let came = say(&mut world, "reg", "delete", gone);
    // Its queued modules are dead, which is announced; the disconnection is answered.
    assert_eq!(came.sent(), ["notif exited c", "reg answer register r D"]);
}

#[test]
fn the_master_asks_for_modules_too() {
    let mut world = World::new();
    world.register("r", 1);
    let request = |uuid: &str| {
        let data = json!({"uuid": uuid, "name": "mod", "file": "x"});
        ModuleRequest::from_json(data).unwrap()
    };
    let (kept, acts) = world.fleet.create(request("a"), world.now).unwrap();
    assert_eq!(kept.module.state, State::Alive);
    assert_eq!(world.came(acts).sent(), ["control/r create a"]);
    let fault = world.fleet.create(request("a"), world.now).unwrap_err();
    assert_eq!(fault.trouble, Trouble::DuplicateModule);
    let runtime = id("r");
    let fault = world
        .fleet
        .delete("nosuch", Some(&runtime), world.now)
        .unwrap_err();
    assert_eq!(fault.trouble, Trouble::UnknownModule);
    let (kept, acts) = world
        .fleet
        .delete("mod", Some(&runtime), world.now)
        .unwrap();
    assert_eq!(kept.module.state, State::Exiting);
    assert_eq!(world.came(acts).sent(), ["control/r delete a"]);
}
