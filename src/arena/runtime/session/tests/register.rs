//! Registration, keepalives, and the end.

use super::*;

#[test]
fn the_registration_says_what_the_seed_asks_for() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 128)]));
    assert_eq!(rig.session.filters(), [reg(RT), control(RT)]);
    assert_eq!(rig.session.due(), None);
    let sent = rig.up();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, reg(RT));
    let message = &sent[0].1;
    assert_eq!(message["action"], "create");
    assert_eq!(message["type"], "req");
    for (field, value) in [
        ("type", serde_json::json!("runtime")),
        ("uuid", RT.into()),
        ("name", "rt1".into()),
        ("runtime_type", "linux".into()),
        ("max_nmodules", 128.into()),
        ("platform", serde_json::json!({})),
    ] {
        assert_eq!(message["data"][field], value, "{field}");
    }
    assert_eq!(message["data"]["apis"][2], "channels");
}

#[test]
fn the_will_says_that_the_runtime_is_gone() {
    let will = |rig: &mut Rig| {
        let will = rig.session.will().unwrap();
        let json: Json = serde_json::from_slice(&will.payload).unwrap();
        (will.topic, json)
    };
    let (topic, message) = will(&mut rig());
    assert_eq!(topic, reg(RT));
    assert_eq!(
        (&message["action"], &message["type"]),
        (&"delete".into(), &"req".into())
    );
    let expected = serde_json::json!({"type": "runtime", "uuid": RT, "name": "rt1"});
    assert_eq!(message["data"], expected);
    let (topic, message) = will(&mut managed());
    assert_eq!(topic, reg(MANAGER));
    let expected = serde_json::json!({"type": "manager", "uuid": MANAGER, "name": "node"});
    assert_eq!(message["data"], expected);
}

#[test]
fn it_is_repeated_until_it_is_answered() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    let first = rig.up().remove(0);
    let mut waits = Vec::new();
    let mut last = first.clone();
    for n in 0..6 {
        let due = rig.session.due().unwrap();
        let wait = due.duration_since(rig.now).as_secs();
        waits.push(wait);
        assert!(rig.later(wait - 1).is_empty());
        let (sent, filters) = split(rig.later(1));
        assert_eq!(sent.len(), 1);
        // Every other request goes where orchestrators before 2023 hear it, and answer.
        if n % 2 == 0 {
            assert_eq!(sent[0].0, "realm/proc/reg");
            assert!(matches!(&filters[..], [Act::Subscribe(filter)] if *filter == sent[0].0));
        } else {
            assert_eq!((sent[0].0.clone(), filters.len()), (reg(RT), 0));
        }
        assert_ne!(sent[0].1["object_id"], last.1["object_id"]);
        assert_eq!(sent[0].1["data"], first.1["data"]);
        last = sent[0].clone();
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
    // An answer to somebody else's request.
    let other = (
        last.0.clone(),
        serde_json::json!({"object_id": "other", "data": {"uuid": OTHER}}),
    );
    rig.confirm(&other, 60);
    assert!(rig.session.due().is_some());
    rig.confirm(&last, 0);
    assert_eq!(rig.session.due(), None);
}

/// The answers of T1 (flat in the draft, in `details` in the real one), T16 (older dialect) and of one that gives no
/// interval.
#[test]
fn confirmations_of_every_dialect_are_taken() {
    let details = serde_json::json!({"uuid": RT, "name": "rt1", "ka_interval_sec": 30, "status": "A", "parent": null});
    for (kind, data, interval) in [
        (
            "resp",
            serde_json::json!({"result": "ok", "details": details}),
            30,
        ),
        (
            "arts_resp",
            serde_json::json!({"result": "ok", "details": details}),
            30,
        ),
        (
            "resp",
            serde_json::json!({"uuid": RT, "name": "rt1", "ka_interval_sec": 20}),
            20,
        ),
        ("resp", serde_json::json!({"result": "ok"}), 60),
    ] {
        let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
        let sent = rig.up().remove(0);
        let answer =
            serde_json::json!({"object_id": sent.1["object_id"], "type": kind, "data": data});
        assert!(rig.hear(&sent.0, &answer.to_string()).is_empty());
        // The first keepalive at once, then in the interval.
        let beat = only_sent(rig.later(0)).remove(0);
        assert_eq!(beat.0, format!("realm/proc/keepalive/{RT}"));
        let due = rig.session.due().unwrap();
        assert_eq!(
            due.duration_since(rig.now),
            Duration::from_secs(interval),
            "{answer}"
        );
    }
}

/// As T16 of the reference: `reg` for registrations, and other words for everything.
#[test]
fn an_older_orchestrator_is_spoken_to_in_its_own_words() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    rig.up();
    let (sent, _) = split(rig.later(5));
    assert_eq!(sent[0].0, "realm/proc/reg");
    // Others register there too, and are answered.
    let details = |uuid| serde_json::json!({"uuid": uuid, "name": "rt1", "ka_interval_sec": 60, "status": "A"});
    let answer = |id: &Json, uuid| {
        let data = serde_json::json!({"result": "ok", "details": details(uuid)});
        serde_json::json!({"object_id": id, "type": "arts_resp", "data": data}).to_string()
    };
    for other in [
        sent[0].1.to_string(),
        answer(&"other".into(), OTHER),
        "garbage".to_owned(),
    ] {
        assert!(rig.hear("realm/proc/reg", &other).is_empty());
        assert!(rig.session.due().unwrap() > rig.now + Duration::from_secs(9));
    }
    let confirmed = answer(&sent[0].1["object_id"], RT);
    assert!(rig.hear("realm/proc/reg", &confirmed).is_empty());
    let beat = only_sent(rig.later(0)).remove(0);
    assert_eq!(
        (beat.0.as_str(), &beat.1["type"]),
        (&*format!("realm/proc/keepalive/{RT}"), &"arts_req".into())
    );
    // A module of the older dialect ends in it, or the orchestrator would start it again.
    let create = serde_json::json!({"object_id": "c", "action": "create", "type": "arts_req", "data": {
        "type": "module", "uuid": MODULE, "name": "m", "parent": RT, "filename": "x.wasm", "filetype": "WA",
        "apis": ["wasm", "wasi"], "args": ["x.wasm"], "env": [], "channels": [], "status": "A"}});
    let launch = rig.create(create);
    let acts = rig
        .session
        .launched(&launch.spec.uuid, launch.serial, Ok(()), rig.now);
    assert_eq!(only_sent(acts)[0].1["type"], "arts_resp");
    let exit = only_sent(rig.ended(MODULE, ExitStatus::Exited, Some(0))).remove(0);
    assert_eq!(
        (exit.0.as_str(), &exit.1["type"]),
        ("realm/proc/control", &"arts_req".into())
    );
    assert_eq!(exit.1["action"], "exited");
    // After a reconnect it begins where it was heard, and it says goodbye there.
    rig.session.down();
    let (again, _) = split(rig.session.up(rig.now));
    assert_eq!(
        (again[0].0.as_str(), &again[0].1["type"]),
        ("realm/proc/reg", &"arts_req".into())
    );
    let will = rig.session.will().unwrap();
    assert_eq!(will.topic, "realm/proc/reg");
    let (bye, _) = split(rig.session.end(rig.now));
    assert_eq!(
        (bye[0].0.as_str(), &bye[0].1["type"]),
        ("realm/proc/reg", &"arts_req".into())
    );
}

#[test]
fn a_refusal_is_asked_about_slowly_and_a_late_yes_counts() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    let sent = rig.up().remove(0);
    let no = serde_json::json!({
        "object_id": sent.1["object_id"], "type": "resp",
        "data": {"result": "error", "details": {"desc": "runtime is not accepted", "data": "rt1"}},
    });
    assert!(rig.hear(&sent.0, &no.to_string()).is_empty());
    let wait = |rig: &Rig| rig.session.due().unwrap().duration_since(rig.now).as_secs();
    assert_eq!(wait(&rig), 60);
    assert_eq!(only_sent(rig.later(60)).len(), 1);
    assert_eq!(wait(&rig), 60);
    // The operator has accepted it; the gateway sends an unrequested confirmation.
    let yes = serde_json::json!({
        "object_id": "unasked", "type": "resp",
        "data": {"result": "ok", "uuid": RT, "name": "rt1", "ka_interval_sec": 10, "details": {"uuid": RT, "status": "A"}},
    });
    assert!(rig.hear(&sent.0, &yes.to_string()).is_empty());
    assert_eq!(only_sent(rig.later(0)).len(), 1);
    assert_eq!(wait(&rig), 10);
}

#[test]
fn the_record_of_a_goodbye_is_no_confirmation() {
    // An orchestrator of the older dialect answers our own will (reference, T16).
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    let sent = rig.up().remove(0);
    let gone = serde_json::json!({
        "object_id": "will", "type": "arts_resp",
        "data": {"result": "ok", "details": {"uuid": RT, "ka_interval_sec": 60, "status": "D"}},
    });
    assert!(rig.hear(&sent.0, &gone.to_string()).is_empty());
    assert_eq!(split(rig.later(5)).0.len(), 1);
}

#[test]
fn every_connection_registers_anew() {
    let mut rig = rig();
    rig.session.down();
    assert_eq!(rig.session.due(), None);
    assert!(rig.later(600).is_empty());
    let again = rig.up();
    assert_eq!((again.len(), &again[0].1["data"]["uuid"]), (1, &RT.into()));
    rig.confirm(&again[0], 0);
    assert!(rig.later(600).is_empty());
}

#[test]
fn keepalives_tell_of_modules() {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    let sent = rig.up().remove(0);
    rig.confirm(&sent, 10);
    rig.later(0);
    rig.run(MODULE);
    rig.cpu.set(Duration::from_secs(1));
    let beat = only_sent(rig.later(10)).remove(0);
    assert_eq!(beat.1["action"], "update");
    let expected = serde_json::json!({
        "uuid": MODULE, "active": "2020-08-25T15:46:20.545Z", "cpu_usage_percent": 10.0, "mem_usage": 65536,
    });
    assert_eq!(beat.1["data"]["children"], serde_json::json!([expected]));
    assert_eq!(beat.1["data"]["name"], "rt1");
    // Only the usage since then counts.
    rig.cpu.set(Duration::from_secs(6));
    let beat = only_sent(rig.later(10)).remove(0);
    assert_eq!(beat.1["data"]["children"][0]["cpu_usage_percent"], 50.0);
    // A module whose file is still being fetched is included if that takes long.
    assert!(rig.later(1).is_empty());
    rig.create(request("second"));
    let children = |rig: &mut Rig, seconds| {
        let beat = only_sent(rig.later(seconds)).remove(0);
        let children = beat.1["data"]["children"].as_array().unwrap().clone();
        children.len()
    };
    assert_eq!(children(&mut rig, 9), 1);
    assert_eq!(children(&mut rig, 10), 2);
    // After a long pause one is enough.
    assert_eq!(only_sent(rig.later(1000)).len(), 1);
    assert!(rig.later(9).is_empty());
}

#[test]
fn the_operator_may_set_the_interval() {
    for (own, due) in [(Duration::from_secs(7), Some(7)), (Duration::ZERO, None)] {
        let mut config = config(vec![offer(RT, "rt1", 2)]);
        config.keepalive = Some(own);
        let mut rig = rig_of(config);
        let sent = rig.up().remove(0);
        rig.confirm(&sent, 60);
        rig.later(0);
        let wait = rig
            .session
            .due()
            .map(|due| due.duration_since(rig.now).as_secs());
        assert_eq!(wait, due);
    }
}

#[test]
fn a_manager_registers_itself_and_its_runtimes() {
    let mut rig = managed();
    assert_eq!(
        rig.session.filters(),
        [
            reg(MANAGER),
            reg(RT),
            control(RT),
            reg(OTHER),
            control(OTHER)
        ]
    );
    let sent = rig.up();
    let what: Vec<_> = sent
        .iter()
        .map(|(topic, m)| (topic.clone(), m["data"]["parent"].clone()))
        .collect();
    let child = Json::from(MANAGER);
    assert_eq!(
        what,
        [
            (reg(MANAGER), Json::Null),
            (reg(RT), child.clone()),
            (reg(OTHER), child)
        ]
    );
    assert_eq!(sent[0].1["data"]["type"], "manager");
    // Each is requested by itself: a real orchestrator does not answer a manager that returns (reference, T10).
    rig.confirm(&sent[1], 10);
    rig.confirm(&sent[2], 20);
    let mut again = only_sent(rig.later(5));
    again.retain(|(topic, _)| topic.contains("/reg/"));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1["data"]["type"], "manager");
    rig.confirm(&again[0], 0);
    assert_eq!(only_sent(rig.later(5)).len(), 0);
    let beats = only_sent(rig.later(15));
    assert_eq!(beats.len(), 2);
}

#[test]
fn at_the_end_modules_stop_before_the_goodbye() {
    let mut rig = rig();
    rig.run(MODULE);
    rig.create(request("second"));
    let (sent, rest) = split(rig.session.end(rig.now));
    assert!(sent.is_empty());
    assert!(
        matches!(&rest[..], [Act::Stop(uuid), Act::Cancel(_, 2)] if uuid.as_str() == MODULE),
        "{rest:?}"
    );
    // Nothing new is started.
    let refused = only_sent(rig.ask(request("third")));
    assert_eq!(refused[0].1["data"]["result"], "error");
    // Modules that end because of this are not announced: with their runtime gone, they come back or move.
    assert!(rig.ended(MODULE, ExitStatus::Deleted, None).is_empty());
    let why = Err("not wanted".to_owned());
    let acts = rig
        .session
        .launched(&"second".parse().unwrap(), 2, why, rig.now);
    let (sent, rest) = split(acts);
    assert!(matches!(&rest[..], [Act::End]), "{rest:?}");
    let last = &sent.last().unwrap().1;
    assert_eq!(
        (&last["action"], &last["data"]["type"]),
        (&"delete".into(), &"runtime".into())
    );
    assert!(sent.iter().all(|(_, m)| m["action"] != "exited"));
    assert!(rig.later(100).is_empty());
}

#[test]
fn patience_with_modules_has_an_end() {
    let mut rig = rig();
    rig.run(MODULE);
    split(rig.session.end(rig.now));
    assert!(rig.later(4).is_empty());
    let (sent, rest) = split(rig.later(1));
    assert_eq!(sent.len(), 1);
    assert!(matches!(&rest[..], [Act::End]));
}

#[test]
fn a_manager_says_goodbye_for_all() {
    let mut rig = managed();
    rig.up();
    let (sent, rest) = split(rig.session.end(rig.now));
    assert!(matches!(&rest[..], [Act::End]));
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (&sent[0].0, &sent[0].1["data"]["type"]),
        (&reg(MANAGER), &"manager".into())
    );
}

#[test]
fn the_older_dialect_can_tell_a_runtime_to_end() {
    let leave = |kind: &str| {
        serde_json::json!({"object_id": "x", "action": "delete", "type": kind, "data": {"type": "runtime", "uuid": RT}})
            .to_string()
    };
    let mut rig = managed();
    rig.up();
    assert!(rig.hear(&control(RT), &leave("req")).is_empty());
    // On the topic for registrations it is somebody's goodbye.
    assert!(rig.hear(&reg(RT), &leave("arts_req")).is_empty());
    let sent = only_sent(rig.hear(&control(RT), &leave("arts_req")));
    assert_eq!(
        (&sent[0].0, &sent[0].1["action"]),
        (&reg(RT), &"delete".into())
    );
    // It stays away; the other one stays.
    rig.session.down();
    let again = rig.up();
    let who: Vec<_> = again.iter().map(|(topic, _)| topic.clone()).collect();
    assert_eq!(who, [reg(MANAGER), reg(OTHER)]);
    assert!(rig.ask(request(MODULE)).is_empty());
    // With the last one, the process exits.
    let other = leave("arts_req").replace(RT, OTHER);
    let (sent, rest) = split(rig.hear(&control(OTHER), &other));
    assert!(matches!(&rest[..], [Act::End]));
    assert_eq!(sent[0].1["data"]["type"], "manager");
}

#[test]
fn the_end_of_one_runtime_does_not_hide_that_of_all() {
    let leave = serde_json::json!({"object_id": "x", "action": "delete", "type": "arts_req", "data": {"type": "runtime", "uuid": RT}});
    let mut rig = managed();
    rig.up();
    rig.run(MODULE);
    let (_, rest) = split(rig.ask(leave));
    assert!(matches!(&rest[..], [Act::Stop(_)]), "{rest:?}");
    assert!(split(rig.session.end(rig.now)).1.is_empty());
    let (sent, rest) = split(rig.ended(MODULE, ExitStatus::Deleted, None));
    assert!(matches!(&rest[..], [Act::End]), "{rest:?}");
    assert_eq!(sent.last().unwrap().1["data"]["type"], "manager");
}

#[test]
fn a_runtime_that_leaves_has_nothing_due_but_the_end_of_patience() {
    // One that is registered and has keepalives, and one that has not been answered yet.
    for answered in [true, false] {
        let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
        let sent = rig.up();
        if answered {
            rig.confirm(&sent[0], 1);
            rig.later(0);
        }
        rig.run(MODULE);
        let patience = rig.session.config.patience;
        split(rig.session.end(rig.now));
        assert_eq!(rig.session.due(), Some(rig.now + patience), "{answered}");
    }
}
