//! Envelopes and structures: what Salt answers to malformed ones.

use super::*;

/// A value of the vectors: `{"hex": ...}` are bytes.
fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Object(o) if o.len() == 1 && o.contains_key("hex") => {
            let hex = o["hex"].as_str().unwrap();
            let octets = (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap());
            Value::Bytes(octets.collect())
        }
        serde_json::Value::Object(o) => {
            let mut map = Map::new();
            o.iter()
                .for_each(|(k, v)| map.set(k.as_str(), from_json(v)));
            Value::Map(map)
        }
        serde_json::Value::Array(a) => Value::Array(a.iter().map(from_json).collect()),
        serde_json::Value::String(s) => s.as_str().into(),
        serde_json::Value::Number(n) => n.as_i64().unwrap().into(),
        serde_json::Value::Bool(b) => (*b).into(),
        serde_json::Value::Null => Value::Nil,
    }
}

#[test]
fn replies_to_malformed_envelopes_are_salts() {
    let mut target = Target::start();
    let text = include_str!("../../vectors/bad-input.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let public =
        std::fs::read_to_string(target.master.config().pki_dir.join("master.pub")).unwrap();
    let public = PublicKey::from_pem(&public).unwrap();
    for vector in all["vectors"].as_array().unwrap() {
        let name = &vector["name"];
        let got = target.ask_value(&from_json(&vector["payload"]));
        let want = from_json(&vector["reply"]);
        let Some(signed) = want.as_map() else {
            assert_eq!(got, want, "{name}");
            continue;
        };
        let got = got.into_map().unwrap();
        assert_eq!(got.bytes("load"), signed.bytes("load"), "{name}");
        assert!(
            public.verify(
                Signing::Pkcs1v15Sha1,
                got.bytes("load").unwrap(),
                got.bytes("sig").unwrap()
            ),
            "{name}"
        );
    }
    // Bytes that are no msgpack: the answer of 3006 and 3007, or that of 3008.
    for junk in [
        &b""[..],
        b"\xc1",
        b"\xda\xff\xff",
        b"\x81",
        b"\x81\xa3enc",
        &noise(7, 300),
    ] {
        let got = msgpack::decode(&target.ask(junk)).unwrap();
        let salts = [
            Value::Map(map! {"msg" => "bad load"}),
            Value::Map(map! {"error" => "Routing error"}),
            "bad load".into(),
        ];
        assert!(salts.contains(&got), "{junk:?}: {got:?}");
    }
    target.is_fine("malformed envelopes");
}

#[test]
fn envelopes_of_unknown_kind_and_version() {
    let mut target = Target::start();
    let ping = map! {"cmd" => "ping"};
    for enc in [
        Value::from("foo"),
        "pub".into(),
        "".into(),
        5.into(),
        Value::Nil,
        Value::Array(vec![]),
    ] {
        let got = target.ask_value(&Value::Map(
            map! {"enc" => enc.clone(), "load" => ping.clone(), "version" => 3},
        ));
        assert_eq!(got, "bad load".into(), "enc {enc:?}");
    }
    let versions = [
        Value::Int(0),
        1.into(),
        2.into(),
        (-1).into(),
        i64::MIN.into(),
        "3".into(),
        Value::Float(3.0),
        Value::Nil,
        Value::Map(Map::new()),
    ];
    for version in versions {
        for load in [
            ping.clone(),
            map! {"cmd" => "_auth", "id" => "m", "pub" => "x", "nonce" => NONCE},
        ] {
            let got = target.ask_value(&Value::Map(
                map! {"enc" => "clear", "load" => load, "version" => version.clone()},
            ));
            assert_eq!(got, "bad load".into(), "version {version:?}");
        }
    }
    // Later versions are not known to any series and treated as the present one.
    let got = target.ask_value(&Value::Map(
        map! {"enc" => "clear", "load" => ping.clone(), "version" => 99},
    ));
    assert_eq!(got, Value::Map(ping));
    for cmd in [
        Value::from("no_such"),
        "__init__".into(),
        5.into(),
        Value::Nil,
        "_return".into(),
        "x".repeat(10_000).into(),
    ] {
        let got = target.ask_value(&Value::Map(
            map! {"enc" => "clear", "load" => map! {"cmd" => cmd.clone()}, "version" => 3},
        ));
        assert_eq!(got, Value::Map(Map::new()), "cmd {cmd:.50?}");
    }
    target.is_fine("unknown envelopes");
}

/// msgpack of a map with one entry more, whose value is given in bytes.
fn with_raw(map: &Map, key: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::put_map_header(&mut out, map.len() + 1);
    let encoded = msgpack::encode_map(map, Profile::Wire);
    let mut reader = msgpack::Reader::new(&encoded);
    reader.item().unwrap();
    out.extend_from_slice(reader.rest());
    msgpack::put_str(&mut out, key.as_bytes(), Profile::Wire);
    out.extend_from_slice(value);
    out
}

#[test]
fn structures_that_exhaust() {
    let mut target = Target::start();
    let deep_arrays = vec![0x91u8; 100_000];
    let deep_maps = b"\x81\xa1k".repeat(100_000);
    let mut shapes = vec![
        deep_arrays,
        deep_maps,
        b"\xdf\xff\xff\xff\xff".to_vec(),
        b"\xdd\xff\xff\xff\xff".to_vec(),
    ];
    shapes.push([b"\xdf\xff\xff\xff\xff".to_vec(), vec![0xc0; 100_000]].concat());
    shapes.push(b"\xdd\xff\xff\xff\xff".repeat(200));
    shapes.push(b"\xc6\xff\xff\xff\xff".to_vec());
    shapes.push(b"\xc9\xff\xff\xff\xff\x4f".to_vec());
    shapes.push(b"\xc7\x03\x4f\x92\xa0\xc1".repeat(100));
    // Extensions inside each other; a million values in a megabyte.
    shapes.push((0..6000).fold(vec![0xc0], |inner, _| {
        let length = (inner.len() as u32 + 3).to_be_bytes();
        [&[0xc9][..], &length, b"\x4f\x92\xa1n", &inner].concat()
    }));
    shapes.push([&b"\xdd\x00\x10\x00\x00"[..], &vec![0xc0; 1 << 20]].concat());
    let peer = Peer::sign_in(&target, "m1");
    let clear = map! {"enc" => "clear", "version" => 3};
    let load = peer.load(map! {"cmd" => "_return", "jid" => "req", "fun" => "test.ping"});
    for (n, shape) in shapes.iter().enumerate() {
        let refused = |answer: Vec<u8>| {
            let got = msgpack::decode(&answer).unwrap();
            assert!(
                got.as_str().is_some() || got.as_map().is_some(),
                "shape {n}: {got:?}"
            );
        };
        refused(target.ask(shape));
        refused(target.ask(&with_raw(&clear, "load", shape)));
        refused(target.ask(&with_raw(
            &clear,
            "load",
            &with_raw(&map! {"cmd" => "_auth", "id" => "x"}, "nonce", shape),
        )));
        let sealed = peer
            .session
            .seal_bytes("m1", &with_raw(&load, "return", shape));
        refused(target.ask(&sealed));
    }
    assert!(peer.call(&map! {"cmd" => "_file_envs"}).is_ok());
    drop(peer);
    target.is_fine("exhausting structures");
}
