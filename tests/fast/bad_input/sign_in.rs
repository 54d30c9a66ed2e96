//! Sign-ins with wrong fields, strange ids and changed keys.

use super::*;

fn auth(id: Value, nonce: Value, public: Value) -> Value {
    let load = map! {
        "cmd" => "_auth", "id" => id, "nonce" => nonce, "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1", "pub" => public,
    };
    Value::Map(map! {"enc" => "clear", "load" => load, "version" => 3})
}

/// The signed part of a sign-in reply.
fn signed_part(reply: Value) -> Map {
    let reply = reply.into_map().unwrap();
    msgpack::decode(reply.bytes("load").unwrap())
        .unwrap()
        .into_map()
        .unwrap()
}

#[test]
fn sign_ins_with_wrong_fields() {
    let mut target = Target::start();
    let public = keys("minion").public().to_owned();
    for nonce in [
        Value::Int(5),
        Value::Nil,
        true.into(),
        Value::Array(vec![]),
        Value::Bytes(vec![0xff; 32]),
        Value::Map(Map::new()),
    ] {
        let got = target.ask_value(&auth("m".into(), nonce.clone(), public.as_str().into()));
        assert_eq!(
            got,
            "Some exception handling minion payload".into(),
            "nonce {nonce:?}"
        );
    }
    for nonce in ["", "short", &"n".repeat(10_000)] {
        // Salt asks nothing of the text and gives it back.
        let got =
            signed_part(target.ask_value(&auth("m".into(), nonce.into(), public.as_str().into())));
        assert_eq!(got.str("nonce"), Some(nonce));
    }
    let cut = &public[..public.len() / 2];
    for public in [
        Value::Int(5),
        Value::Nil,
        "".into(),
        "y".into(),
        cut.into(),
        "\0".into(),
        // Sign-ins have at most 64 KiB.
        "x".repeat(1 << 15).into(),
        Value::Bytes(noise(3, 450)),
    ] {
        let got =
            signed_part(target.ask_value(&auth("junk-key".into(), NONCE.into(), public.clone())));
        assert_eq!(
            got.get("ret"),
            Some(&Value::Bool(false)),
            "pub {public:.50?}"
        );
    }
    for (key, value, reply) in [
        ("sig_algo", "MD5", "bad sig algo"),
        ("enc_algo", "ROT13", "bad enc algo"),
    ] {
        let Value::Map(mut envelope) = auth("m".into(), NONCE.into(), public.as_str().into())
        else {
            unreachable!()
        };
        let mut load = envelope.remove("load").and_then(Value::into_map).unwrap();
        load.set(key, value);
        envelope.set("load", load);
        let got = target.ask_value(&Value::Map(envelope));
        assert_eq!(
            got,
            Value::Map(map! {"enc" => "clear", "load" => map! {"ret" => reply}})
        );
    }
    // A token that is none is left out of the reply.
    let Value::Map(mut envelope) = auth("m".into(), NONCE.into(), public.as_str().into()) else {
        unreachable!()
    };
    let mut load = envelope.remove("load").and_then(Value::into_map).unwrap();
    load.set("token", noise(5, 256));
    envelope.set("load", load);
    let got = signed_part(target.ask_value(&Value::Map(envelope)));
    assert!(got.contains("pub_key") && !got.contains("token"));
    target.is_fine("wrong sign-ins");
}

#[test]
fn ids_never_become_paths() {
    let mut target = Target::start();
    let public = keys("minion").public().to_owned();
    let config = target.master.config();
    let peer = Peer::sign_in(&target, "m1");
    let long = "l".repeat(300);
    let bad = [
        "../x",
        "a/b",
        "/etc/x",
        "..",
        ".",
        "",
        ".hidden",
        "a\\b",
        "a\nb",
        &long,
        "minions/../../x",
    ];
    for id in bad {
        let got =
            signed_part(target.ask_value(&auth(id.into(), NONCE.into(), public.as_str().into())));
        assert_eq!(got.get("ret"), Some(&Value::Bool(false)), "{id:?}");
        let forged = peer.session.seal_raw(
            id,
            &peer.load(
                map! {"cmd" => "_return", "jid" => "req", "fun" => "test.ping", "return" => true},
            ),
        );
        assert_eq!(
            msgpack::decode(&target.ask(&forged)).unwrap(),
            "bad load".into(),
            "{id:?}"
        );
    }
    let odd = [
        Value::Int(5),
        Value::Nil,
        true.into(),
        Value::Array(vec!["a".into()]),
        Value::Map(Map::new()),
        Value::Float(1.5),
        Value::Bytes(vec![0xff, 0xfe]),
    ];
    for id in odd.into_iter().chain(["a\0b".into(), "\0".into()]) {
        let got = target.ask_value(&auth(id.clone(), NONCE.into(), public.as_str().into()));
        assert!(
            got.as_str().is_some_and(|s| s.starts_with("bad load: id ")),
            "{id:?}: {got:?}"
        );
    }
    assert_eq!(
        peer.call(&map! {"cmd" => "_file_envs"}).unwrap(),
        Value::Array(vec!["base".into()])
    );
    drop(peer);
    let names = |dir: std::path::PathBuf| -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|n| !n.starts_with("honest"));
        names.sort();
        names
    };
    for dir in [
        "minions",
        "minions_pre",
        "minions_rejected",
        "minions_denied",
    ] {
        let want: &[&str] = if dir == "minions" { &["m1"] } else { &[] };
        assert_eq!(names(config.pki_dir.join(dir)), want, "{dir}");
    }
    assert_eq!(names(config.cachedir.join("sessions")), ["m1"]);
    assert!(!config.pki_dir.join("x").exists() && !config.cachedir.join("x").exists());
    target.is_fine("bad ids");
}

#[test]
fn another_key_for_a_known_id() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    let thief = keys("master");
    assert_eq!(
        sign_in(&target, "m1", &thief).err(),
        Some(SessionError::Rejected)
    );
    let denied = next_event(&mut events, |e| {
        e.tag == "salt/auth" && data(e).str("act") == Some("denied")
    });
    assert_eq!(data(&denied).str("id"), Some("m1"));
    // The session key alone does not do: the token is the key's.
    let (forged, _) = peer
        .session
        .seal("m1", &thief, &map! {"cmd" => "_file_envs"});
    assert_eq!(
        msgpack::decode(&target.ask(&forged)).unwrap(),
        "bad load".into()
    );
    // Nor does the session of one minion serve another, known or not.
    Peer::sign_in(&target, "m2");
    for id in ["m2", "nobody"] {
        let (forged, _) = peer
            .session
            .seal(id, &peer.keys, &map! {"cmd" => "_file_envs"});
        assert_eq!(
            msgpack::decode(&target.ask(&forged)).unwrap(),
            "bad load".into()
        );
    }
    assert!(
        !target
            .master
            .config()
            .cachedir
            .join("sessions/nobody")
            .exists()
    );
    assert!(
        peer.call(&map! {"cmd" => "_file_envs"}).is_ok(),
        "the rightful minion goes on"
    );
    drop(peer);
    target.is_fine("a thief");
}
