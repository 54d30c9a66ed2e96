//! Events and returns in the name of others.

use super::*;

#[test]
fn events_of_others_cannot_be_forged() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    Peer::sign_in(&target, "other");
    let jid = "20261121092637195592";
    let forged = [
        format!("salt/job/{jid}/ret/other"),
        format!("salt/job/{jid}/ret/m1"),
        format!("salt/job/{jid}/new"),
        // The globs of listeners match these as well.
        format!("salt/job/{jid}/prog/m1/ret/other"),
        format!("salt/job/{jid}/prog/m1/new"),
        "salt/auth".into(),
        "salt/key".into(),
        "key".into(),
        jid.into(),
        "salt/minion/other/start".into(),
        "salt/run/x/ret".into(),
        "minion/refresh/other".into(),
        "salt/job/../../x/prog/m1".into(),
        "salt/presence/present".into(),
        "halite/bus/dropped".into(),
        String::new(),
        "a\n\nb".into(),
        "x".repeat(1 << 20),
    ];
    for tag in &forged {
        let payload = map! {"id" => "other", "return" => "forged", "jid" => jid};
        let one = map! {"cmd" => "_minion_event", "tag" => tag.as_str(), "data" => payload.clone(), "pretag" => Value::Nil};
        peer.call(&one).unwrap();
        let list = Value::Array(vec![Value::Map(
            map! {"tag" => tag.as_str(), "data" => payload},
        )]);
        for pretag in [
            Value::Nil,
            "salt".into(),
            tag.as_str().into(),
            Value::Int(5),
        ] {
            peer.call(
                &map! {"cmd" => "_minion_event", "events" => list.clone(), "pretag" => pretag},
            )
            .unwrap();
        }
    }
    // A pretag may not complete a tag.
    let list = Value::Array(vec![Value::Map(
        map! {"tag" => "auth", "data" => Map::new()},
    )]);
    peer.call(&map! {"cmd" => "_minion_event", "events" => list, "pretag" => "salt"})
        .unwrap();
    for event in events_until_marker(&peer, &mut events) {
        let own_sign_in = event.tag == "salt/auth" && data(&event).str("act") == Some("accept");
        let speaks_for_others = forged.contains(&event.tag) || event.tag.starts_with("salt/job/");
        assert!(
            own_sign_in || !speaks_for_others,
            "{} came through",
            event.tag
        );
    }
    drop(peer);
    target.is_fine("forged events");
}

/// The reactor ignores events of its own user, so a minion may not take that name.
#[test]
fn no_event_of_a_minion_hides_from_the_reactor() {
    let target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    let payload = map! {"user" => "Reactor", "x" => 1};
    let one = map! {"cmd" => "_minion_event", "tag" => "my/one", "data" => payload.clone(), "user" => "Reactor"};
    peer.call(&one).unwrap();
    let list = vec![Value::Map(map! {"tag" => "my/list", "data" => payload})];
    let list = map! {"cmd" => "_minion_event", "events" => list, "pretag" => "my/pre"};
    peer.call(&list).unwrap();
    let own = map! {"cmd" => "_return", "jid" => "req", "fun" => "test.ping", "return" => true, "user" => "Reactor"};
    peer.call(&own).unwrap();
    let seen = events_until_marker(&peer, &mut events);
    let of = |wanted: &str| {
        let mut events = seen.iter().filter(|event| event.tag.contains(wanted));
        data(events.next().unwrap_or_else(|| panic!("no event {wanted}")))
    };
    for tag in ["my/one", "my/list", "my/pre/my/list", "/ret/m1"] {
        assert_eq!(of(tag).get("user"), None, "{tag}");
    }
}

#[test]
fn returns_for_others_and_for_no_job() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    Peer::sign_in(&target, "other");
    events_until_marker(&peer, &mut events);
    let load =
        map! {"cmd" => "_return", "fun" => "test.ping", "return" => "forged", "jid" => "req"};
    let mut other = peer.load(load.clone());
    other.set("id", "other");
    assert!(
        peer.call_raw(&other).is_err(),
        "an id that is not the envelope's"
    );
    let mut none = peer.load(load.clone());
    none.remove("id");
    assert!(peer.call_raw(&none).is_err(), "no id");
    let jids = [
        "../../x",
        "..",
        "/etc/x",
        "",
        "20261121092637195592/../../x",
        "2026112109263719559\0",
        "20261121092637195592_",
        "99991231235959999999",
    ];
    for jid in jids {
        let mut load = load.clone();
        load.set("jid", jid);
        assert_eq!(peer.call(&load), Ok(Value::Nil), "{jid:?}");
    }
    for jid in [
        Value::Int(5),
        Value::Nil,
        Value::Array(vec![]),
        Value::Map(Map::new()),
    ] {
        let mut load = load.clone();
        load.set("jid", jid);
        assert_eq!(peer.call(&load), Ok(Value::Nil));
    }
    for field in ["nonce", "tok"] {
        for value in [
            Value::Int(5),
            Value::Nil,
            "".into(),
            "x".into(),
            Value::Array(vec![]),
            Value::Bytes(noise(9, 256)),
        ] {
            let mut load = peer.load(load.clone());
            load.set(field, value);
            assert!(peer.call_raw(&load).is_err(), "{field}");
        }
    }
    // Two ids in one map: nobody can tell which one counts.
    let mut twice = peer.load(load);
    let id = Value::from("id");
    twice.0.push((id.clone(), "other".into()));
    assert!(peer.call_raw(&twice).is_err());
    twice.0.retain(|(k, _)| *k != id);
    twice.0.push((id.clone(), "other".into()));
    twice.0.push((id, "m1".into()));
    assert!(peer.call_raw(&twice).is_err());
    let seen = events_until_marker(&peer, &mut events);
    for event in &seen {
        let kept = event.tag.split_once("/ret/").map(|(_, id)| id);
        assert_eq!(kept, Some("m1"), "{}", event.tag);
        let text = String::from_utf8_lossy(&event.payload);
        assert!(
            !text.contains("other"),
            "another's id in {}: {text}",
            event.tag
        );
    }
    let cachedir = target.master.config().cachedir;
    let mut dirs = vec![cachedir];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            assert_ne!(
                entry.file_name(),
                "x",
                "a jid became a path: {:?}",
                entry.path()
            );
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    drop(peer);
    target.is_fine("forged returns");
}
