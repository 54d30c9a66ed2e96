//! Creation, deletion and exits of modules.

use super::*;

#[test]
fn a_module_is_launched_confirmed_and_its_exit_announced() {
    let mut rig = rig();
    let launch = rig.create(request(MODULE));
    assert_eq!(launch.address, Address::Local("x.wasm".parse().unwrap()));
    let spec = &launch.spec;
    assert_eq!(
        (spec.program.as_str(), &spec.argv[..], &spec.env[..]),
        ("x.wasm", &["a".to_owned()][..], &["E=1".to_owned()][..])
    );
    assert_eq!((spec.stdin, spec.limits), (false, limits()));
    let acts = rig
        .session
        .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now);
    let (topic, answer) = only_sent(acts).remove(0);
    assert_eq!(topic, control(RT));
    let expected = serde_json::json!({
        "object_id": format!("create-{MODULE}"), "action": "create", "type": "resp", "from": RT,
        "data": {"result": "ok", "details": {"uuid": MODULE}},
    });
    assert_eq!(answer, expected);
    let (topic, exit) = only_sent(rig.ended(MODULE, ExitStatus::Exited, Some(3))).remove(0);
    assert_eq!(topic, "realm/proc/control");
    assert_eq!(
        (&exit["action"], &exit["type"]),
        (&"exited".into(), &"req".into())
    );
    let expected = serde_json::json!({
        "type": "module", "uuid": MODULE, "status": "exited", "exit_code": 3, "parent": RT,
    });
    assert_eq!(exit["data"], expected);
    // A second call has no effect.
    assert!(rig.ended(MODULE, ExitStatus::Exited, Some(3)).is_empty());
}

#[test]
fn an_end_may_overtake_the_news_of_the_beginning() {
    let mut rig = rig();
    let launch = rig.create(request(MODULE));
    let sent = only_sent(rig.ended(MODULE, ExitStatus::Exited, Some(0)));
    let what: Vec<_> = sent.iter().map(|(_, m)| m["action"].clone()).collect();
    assert_eq!(what, ["create", "exited"]);
    assert_eq!(sent[0].1["data"]["result"], "ok");
    assert!(
        rig.session
            .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now)
            .is_empty()
    );
    // Late news does not affect a later module with the same uuid.
    let again = rig.create(request(MODULE));
    assert!(
        rig.session
            .launched(
                &launch.spec.uuid,
                launch.serial,
                Err("late".to_owned()),
                rig.now
            )
            .is_empty()
    );
    assert_eq!(
        only_sent(
            rig.session
                .launched(&again.spec.uuid, again.serial, Ok(()), rig.now)
        )
        .len(),
        1
    );
}

#[test]
fn a_second_create_of_a_module_is_the_same_one() {
    let mut rig = rig();
    let launch = rig.create(request(MODULE));
    let mut copy = request(MODULE);
    copy["object_id"] = "copy".into();
    assert!(rig.ask(copy.clone()).is_empty());
    let sent = only_sent(
        rig.session
            .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now),
    );
    let ids: Vec<_> = sent.iter().map(|(_, m)| m["object_id"].clone()).collect();
    assert_eq!(ids, [format!("create-{MODULE}").as_str(), "copy"]);
    copy["object_id"] = "third".into();
    let sent = only_sent(rig.ask(copy));
    assert_eq!(
        (&sent[0].1["object_id"], &sent[0].1["data"]["result"]),
        (&"third".into(), &"ok".into())
    );
}

#[test]
fn what_cannot_run_is_answered_first_and_its_exit_announced_all_the_same() {
    type Change = (&'static str, Json, &'static str);
    let changes: [Change; 10] = [
        ("filetype", "PY".into(), "no launcher"),
        ("filetype", "EXT".into(), "no launcher"),
        (
            "apis",
            serde_json::json!(["wasm", "python:python3"]),
            "python:python3",
        ),
        ("file", "../x.wasm".into(), ".."),
        ("file", "/etc/x.wasm".into(), "etc"),
        ("file", "salt://x.wasm".into(), "minion_config_dir"),
        ("file", "https://host/x.wasm".into(), "#sha256="),
        ("file", "ftp://host/x.wasm".into(), "ftp"),
        (
            "channels",
            serde_json::json!([{"path": "c", "mode": "w", "topic": "realm/proc/control"}]),
            "orchestrator",
        ),
        (
            "channels",
            serde_json::json!([{"path": "c", "mode": "rw", "topic": format!("realm/proc/reg/{RT}")}]),
            "orchestrator",
        ),
    ];
    for (field, value, why) in changes {
        let mut rig = rig();
        let mut message = request(MODULE);
        message["data"][field] = value;
        let sent = only_sent(rig.ask(message.clone()));
        assert_eq!(sent.len(), 2, "{message}");
        let (answer, exit) = (&sent[0].1, &sent[1].1);
        assert_eq!(
            (&sent[0].0, &answer["data"]["result"]),
            (&control(RT), &"error".into())
        );
        assert_eq!(answer["data"]["details"]["uuid"], MODULE);
        assert!(
            answer["data"]["details"]["data"]
                .as_str()
                .unwrap()
                .contains(why),
            "{answer}"
        );
        assert_eq!(
            (&exit["action"], &exit["data"]["status"]),
            (&"exited".into(), &"crashed".into())
        );
        assert_eq!(
            (&exit["from"], &exit["data"]["parent"]),
            (&RT.into(), &RT.into())
        );
        assert!(
            exit["data"]["reason"].as_str().unwrap().contains(why),
            "{exit}"
        );
    }
}

#[test]
fn a_launch_that_fails_is_told_with_the_reason() {
    let mut rig = rig();
    let launch = rig.create(request(MODULE));
    let why = Err("file not found: x.wasm".to_owned());
    let sent = only_sent(
        rig.session
            .launched(&launch.spec.uuid, launch.serial, why, rig.now),
    );
    assert_eq!(
        sent[0].1["data"]["details"]["data"],
        "file not found: x.wasm"
    );
    assert_eq!(sent[1].1["data"]["status"], "crashed");
    // Its place is free again.
    rig.run(MODULE);
}

#[test]
fn the_number_of_modules_is_bounded() {
    let mut rig = rig();
    rig.run(MODULE);
    rig.create(request("second"));
    let sent = only_sent(rig.ask(request("third")));
    assert!(
        sent[0].1["data"]["details"]["data"]
            .as_str()
            .unwrap()
            .contains("max_nmodules")
    );
    rig.ended(MODULE, ExitStatus::Exited, Some(0));
    rig.create(request("third"));
    // Each runtime of a manager has places of its own; a uuid belongs to one of them.
    let mut rig = managed();
    rig.up();
    rig.run(MODULE);
    let other = request(MODULE).to_string();
    let sent = only_sent(rig.hear(&control(OTHER), &other));
    assert!(
        sent[0].1["data"]["details"]["data"]
            .as_str()
            .unwrap()
            .contains("another runtime")
    );
    let (sent, rest) = split(rig.hear(&control(OTHER), &request("second").to_string()));
    assert!(sent.is_empty() && matches!(&rest[..], [Act::Launch(_)]));
    // 0 is no limit.
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 0)]));
    for n in 0..200 {
        rig.create(request(&format!("m{n}")));
    }
}

#[test]
fn delete_stops_a_module_and_the_exit_says_deleted() {
    let delete = |what: &str| serde_json::json!({"object_id": "d", "action": "delete", "type": "req", "data": {"type": "module", "uuid": what}});
    let mut rig = rig();
    rig.run(MODULE);
    let (sent, rest) = split(rig.ask(delete(MODULE)));
    assert!(sent.is_empty());
    assert!(matches!(&rest[..], [Act::Stop(uuid)] if uuid.as_str() == MODULE));
    // A repeated request changes nothing.
    assert!(rig.ask(delete(MODULE)).is_empty());
    // It cannot be requested again before it has ended.
    let sent = only_sent(rig.ask(request(MODULE)));
    assert_eq!(
        (sent.len(), &sent[0].1["data"]["result"]),
        (1, &"error".into())
    );
    let sent = only_sent(rig.ended(MODULE, ExitStatus::Deleted, None));
    assert_eq!(sent[0].1["data"]["status"], "deleted");
    let sent = only_sent(rig.ask(delete(MODULE)));
    assert_eq!(
        (&sent[0].1["action"], &sent[0].1["object_id"]),
        (&"delete".into(), &"d".into())
    );
    assert_eq!(
        sent[0].1["data"]["details"]["desc"],
        "invalid Module Name/UUID"
    );
    // By name, if only one has it.
    rig.run(MODULE);
    assert!(matches!(&rig.ask(delete("m"))[..], [Act::Stop(_)]));
    rig.run("second");
    let sent = only_sent(rig.ask(delete("m")));
    assert_eq!(sent[0].1["data"]["details"]["desc"], "ambiguous name");
}

#[test]
fn delete_before_the_beginning() {
    let delete = serde_json::json!({"object_id": "d", "action": "delete", "type": "req", "data": {"type": "module", "uuid": MODULE}});
    let mut rig = rig();
    let launch = rig.create(request(MODULE));
    assert!(
        matches!(&rig.ask(delete.clone())[..], [Act::Cancel(_, serial)] if *serial == launch.serial)
    );
    let why = Err("not wanted".to_owned());
    let sent = only_sent(
        rig.session
            .launched(&launch.spec.uuid, launch.serial, why, rig.now),
    );
    assert_eq!(
        (&sent[0].1["data"]["result"], &sent[1].1["data"]["status"]),
        (&"error".into(), &"deleted".into())
    );
    // It was already started when it was deleted.
    let launch = rig.create(request(MODULE));
    rig.ask(delete);
    let acts = rig
        .session
        .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now);
    assert!(matches!(&acts[..], [Act::Stop(_)]), "{acts:?}");
}

/// T3 (no uuid in the request, `args` a list), T6 (`create_batch`), T11 (`args` as list, `filetype`), T16 (older
/// dialect) of the reference.
#[test]
fn requests_of_real_orchestrators_are_followed() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 8)]));
    let launch = rig.create(serde_json::json!({
        "object_id": "4ceed357", "action": "create", "type": "req", "data": {"type": "module", "index": 2,
        "uuid": "c5f132dc-8f0a-40d4-a0f9-c1350898faeb", "name": "nouuid", "parent": RT,
        "file": "hello.wasm", "apis": ["wasm", "wasi"], "args": [], "channels": [], "status": "A"},
    }));
    assert_eq!(
        (launch.spec.program.as_str(), launch.spec.argv.len()),
        ("hello.wasm", 0)
    );
    let launch = rig.create(serde_json::json!({
        "object_id": "39b0e0fd", "action": "create", "type": "req", "data": {"type": "module", "uuid": "eeeeeeee-0000-4000-8000-000000000002",
        "name": "direct", "parent": RT, "file": "modules/echo.wasm", "filetype": "WA", "args": ["x", "y"], "env": ["A=1"]},
    }));
    assert_eq!(
        (
            launch.spec.program.as_str(),
            launch.spec.argv.len(),
            launch.spec.env.len()
        ),
        ("echo.wasm", 2, 1)
    );
    let older = serde_json::json!({
        "object_id": "310a4aca", "action": "create", "type": "arts_req", "data": {"type": "module", "uuid": "66666666-0000-4000-8000-000000000001",
        "name": "m1", "parent": RT, "filename": "x.wasm", "filetype": "WA", "apis": ["wasm", "wasi"], "args": ["x.wasm", "a"], "env": [],
        "channels": [], "peripherals": [], "resources": null, "fault_crash": "ignore", "status": "A"},
    });
    let launch = rig.create(older);
    assert_eq!(
        (launch.spec.program.as_str(), &launch.spec.argv[..]),
        ("x.wasm", &["a".to_owned()][..])
    );
    // It is answered in its own dialect.
    let sent = only_sent(
        rig.session
            .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now),
    );
    assert_eq!(sent[0].1["type"], "arts_resp");
    let batch = serde_json::json!({
        "object_id": "120e6fce", "action": "create_batch", "type": "req", "data": {"parent": RT, "modules": [
            {"type": "module", "name": "b1", "parent": "node2", "file": "hello.wasm", "args": {"argv": [], "env": []}},
            {"type": "module", "name": "b2", "parent": "node2", "file": "hello.wasm", "args": {"argv": [], "env": []}}]},
    });
    let (sent, rest) = split(rig.ask(batch));
    assert!(sent.is_empty());
    let uuids: Vec<&str> = rest
        .iter()
        .map(|act| match act {
            Act::Launch(launch) => launch.spec.uuid.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(uuids.len(), 2);
    assert_ne!(uuids[0], uuids[1]);
    // The seed's own example, which asks for a profile and standard input.
    let seed = serde_json::json!({
        "object_id": "fcb2780b", "action": "create", "type": "req", "data": {"type": "module", "uuid": "44c72c87-c4ec-4759-b587-30ddc8590f6b",
        "name": "test", "parent": RT, "file": "stdinread.wasm", "apis": ["wasm", "wasi", "channels", "delete_module", "profile:deployed", "stdio:in"],
        "args": {"argv": ["arg1", "arg2"], "env": ["ENV_VAR1=1", "ENV_VAR2=2"]},
        "channels": [{"path": "light", "mode": "rw", "topic": "realm/kitchen/light"}]},
    });
    let launch = rig.create(seed);
    assert!(launch.spec.stdin);
    assert_eq!(
        launch.spec.channels[0].topic.as_str(),
        "realm/kitchen/light"
    );
}

#[test]
fn noise_changes_nothing() {
    let mut rig = rig();
    rig.run(MODULE);
    for noise in [
        "",
        "{",
        "null",
        "[]",
        "'x'",
        "{\"object_id\": 1}",
        "{\"action\": \"create\", \"type\": \"req\"}",
    ] {
        assert!(rig.hear(&control(RT), noise).is_empty(), "{noise}");
        assert!(rig.hear(&reg(RT), noise).is_empty(), "{noise}");
        assert!(
            rig.hear("realm/proc/control/other", noise).is_empty(),
            "{noise}"
        );
        assert!(rig.hear("home/light", noise).is_empty(), "{noise}");
    }
    // If the sender is known, it gets an answer with the reason.
    let lacking = serde_json::json!({"object_id": "x", "action": "create", "type": "req", "data": {"type": "module", "uuid": "a"}});
    let sent = only_sent(rig.ask(lacking));
    assert_eq!(
        (sent.len(), &sent[0].1["data"]["details"]["desc"]),
        (1, &"missing field".into())
    );
    // Retained messages were meant for somebody else.
    let kept = Incoming {
        topic: control(RT),
        payload: Bytes::from(request("kept").to_string()),
        retained: true,
        properties: Vec::new(),
    };
    assert!(rig.session.handle_message(&kept, rig.now).is_empty());
    // Answers and exits of others on the topic.
    for other in [
        serde_json::json!({"object_id": "q", "action": "create", "type": "resp", "data": {"result": "ok", "details": {"uuid": MODULE}}}),
        serde_json::json!({"object_id": "q", "action": "exited", "type": "req", "data": {"type": "module", "uuid": MODULE}}),
        serde_json::json!({"object_id": "q", "action": "error", "type": "resp", "data": {"desc": "x", "data": "y"}}),
    ] {
        assert!(rig.ask(other).is_empty());
    }
    assert_eq!(
        only_sent(rig.ended(MODULE, ExitStatus::Exited, Some(0))).len(),
        1
    );
}

#[test]
fn the_memory_of_all_modules_is_bounded() {
    let offers = vec![offer(RT, "one", 0), offer(OTHER, "two", 0)];
    let mut rig = rig_of(SessionConfig {
        memory: 2 * limits().memory,
        ..config(offers)
    });
    rig.run(MODULE);
    let second = request("second").to_string();
    let (_, rest) = split(rig.hear(&control(OTHER), &second));
    assert!(matches!(&rest[..], [Act::Launch(_)]), "{rest:?}");
    let sent = only_sent(rig.ask(request("third")));
    let why = &sent[0].1["data"]["details"]["data"];
    assert!(why.as_str().unwrap().contains("modules_memory"), "{why}");
    // Modules that have ended take no place.
    rig.ended(MODULE, ExitStatus::Exited, Some(0));
    rig.create(request("third"));
}
