//! Invalid input: one error message, an answer to a request, nothing changed (reference, section 8).

use super::*;
use crate::wire::MAX_MESSAGE;

#[test]
fn one_error_and_one_answer() {
    let mut world = World::new();
    world.register("r", 0);
    world.create("a", json!({"parent": "r"}));
    let module = |more: Json| {
        let mut data = json!({"type": "module", "file": "x"});
        data.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        data
    };
    let cases = [
        ("control", "create", module(json!({"uuid": "a/b"}))),
        ("control", "create", module(json!({"uuid": 7}))),
        ("control", "create", module(json!({"file": null}))),
        ("control", "create", module(json!({"args": "text"}))),
        ("control", "create", module(json!({"uuid": "a"}))),
        ("control", "create", module(json!({"parent": "nosuch"}))),
        (
            "control",
            "create",
            module(json!({"channels": [{"path": "p", "mode": "rw", "topic": "a/#"}]})),
        ),
        ("control", "create", module(json!({"policy": "flee"}))),
        ("control", "create", json!({"type": "spoon"})),
        ("control", "create", json!([1])),
        (
            "control",
            "delete",
            json!({"type": "module", "uuid": "nosuch"}),
        ),
        (
            "control",
            "exited",
            json!({"type": "module", "uuid": "nosuch"}),
        ),
        ("control", "frob", json!({"type": "module", "uuid": "a"})),
        ("reg/r", "create", json!({"type": "runtime"})),
        (
            "reg/r",
            "create",
            json!({"type": "runtime", "uuid": "r", "max_nmodules": -1}),
        ),
        ("reg/q", "delete", json!({"type": "runtime", "uuid": "q"})),
        ("reg/q", "delete", json!({"type": "manager", "uuid": "q"})),
        ("reg", "create", json!({"uuid": "q"})),
    ];
    for (topic, action, data) in cases {
        let came = world.ask(topic, action, data.clone());
        let published = came.published();
        let [(log, error), (back, answer)] = published.as_slice() else {
            panic!("{data}: {published:?}");
        };
        assert_eq!(*log, "realm/proc/log/orchestrator");
        assert_eq!(
            (&error["action"], &error["type"]),
            (&json!("error"), &json!("resp"))
        );
        let request = format!("request-{}", world.requests);
        assert_eq!(error["data"]["request"], request.as_str());
        assert_ne!(error["object_id"], request.as_str());
        assert_eq!(*back, format!("realm/proc/{topic}"));
        assert_eq!(answer["object_id"], request);
        assert_eq!(answer["data"]["result"], "error");
        assert_eq!(answer["data"]["details"]["desc"], error["data"]["desc"]);
        assert_eq!((came.told().len(), came.kept()), (1, 0), "{data}");
    }
    assert_eq!(world.count("faults"), 18);
    assert_eq!(world.state("a"), "A r");
    // The next message is processed in any case.
    assert_eq!(world.create("b", json!({})).told(), ["sent b A r"]);
}

#[test]
fn what_has_no_id_cannot_be_answered() {
    let mut world = World::new();
    let large = vec![b' '; MAX_MESSAGE + 1];
    for payload in [
        b"{".as_slice(),
        b"",
        b"\xff\xfe",
        b"7",
        br#"{"type": "req"}"#,
        &large,
    ] {
        let came = world.raw("control", payload);
        assert_eq!(
            (came.sent().len(), came.told().len(), came.kept()),
            (1, 1, 0)
        );
        assert!(came.sent()[0].starts_with("log/orchestrator error "));
    }
}

#[test]
fn answers_errors_and_keepalives_are_not_answered() {
    let mut world = World::new();
    world.register("r", 0);
    for message in [
        json!({"object_id": "o", "type": "resp", "data": {"result": "error"}}),
        json!({"object_id": "o", "type": "resp", "data": 7}),
        json!({"object_id": "o", "action": "create", "type": "arts_resp", "data": []}),
        json!({"object_id": "o", "action": "error", "type": "resp", "data": {"desc": "x"}}),
        json!({"object_id": "o", "action": "error", "type": "resp"}),
        json!({"object_id": "o", "action": "error", "type": "req", "data": 8}),
        json!({"object_id": "o", "type": "runtime_resp", "data": {"details": {"uuid": "r"}}}),
    ] {
        for topic in [
            "control",
            "control/r",
            "reg/r",
            "keepalive/r",
            "log/orchestrator",
        ] {
            assert!(
                world.say(topic, message.clone()).acts.is_empty(),
                "{message}"
            );
        }
    }
    let came = world.ask(
        "keepalive/r",
        "update",
        json!({"type": "runtime", "uuid": 8}),
    );
    assert_eq!(came.sent(), ["log/orchestrator error invalid field"]);
}

#[test]
fn two_orchestrators_do_not_go_on_for_ever() {
    let (mut one, mut other) = (World::new(), World::new());
    let mut waiting = vec![(
        "control".to_owned(),
        json!({"object_id": "x", "action": "frob", "type": "req"}),
    )];
    let mut exchanged = 0;
    while let Some((topic, message)) = waiting.pop() {
        exchanged += 1;
        assert!(exchanged < 20);
        for world in [&mut one, &mut other] {
            let came = world.say(&topic, message.clone());
            for (topic, message) in came.published() {
                let topic = topic.trim_start_matches("realm/proc/");
                waiting.push((topic.to_owned(), message));
            }
        }
    }
    assert_eq!(exchanged, 5);
}

#[test]
fn a_flood_is_not_doubled() {
    let mut world = World::new();
    let mut told = 0;
    for _ in 0..1000 {
        told += world.raw("control", b"garbage").acts.len();
    }
    assert_eq!(told, 2 * 50);
    assert_eq!((world.count("faults"), world.count("muted")), (1000, 950));
    // Later there is room again, and other messages never had to wait.
    assert_eq!(world.register("r", 0).told(), ["arrived r"]);
    world.pass(1.0);
    assert_eq!(world.raw("control", b"garbage").sent().len(), 1);
}

#[test]
fn what_a_broker_kept_is_not_heard() {
    let mut world = World::new();
    world.register("r", 0);
    let message = json!({
        "object_id": "o", "action": "delete", "type": "req", "data": {"type": "runtime", "uuid": "r"},
    });
    let message = Incoming {
        topic: "realm/proc/reg/r".into(),
        payload: message.to_string().into_bytes().into(),
        retained: true,
        properties: Vec::new(),
    };
    assert!(world.hear(&message).acts.is_empty());
    assert_eq!(world.fleet.alive().len(), 1);
}

#[test]
fn a_request_that_can_never_be_sent_ends_its_module() {
    let mut world = World::new();
    world.register("r", 1);
    let came = world.create("a", json!({"parent": "r"}));
    world.create("b", json!({"parent": "r"}));
    let sent: Vec<Vec<u8>> = came
        .acts
        .iter()
        .filter_map(|act| match act {
            Act::Publish(what) => Some(what.payload.clone()),
            _ => None,
        })
        .collect();
    let acts = world.fleet.unsendable(&sent[0], "too large", world.now);
    let told = ["ended a D r crashed", "sent b A r"];
    assert_eq!(world.came(acts).told(), told);
    // An answer, and something that is not a message at all.
    for payload in [sent[1].as_slice(), b"x"] {
        assert!(world.fleet.unsendable(payload, "no", world.now).is_empty());
    }
}
