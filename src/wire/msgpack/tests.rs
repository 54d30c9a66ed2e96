//! Vectors of stock Salt, limits, and values that come back.

use super::fields::MAX_FIELDS;
use super::*;

/// The values of `tests/vectors/msgpack.json` by name; `None` for those without a literal here.
fn vector_value(name: &str) -> Option<Value> {
    Some(match name {
        "short-str" => "abc".into(),
        "str-31" => "a".repeat(31).into(),
        "str-32" => "a".repeat(32).into(),
        "str-255" => "a".repeat(255).into(),
        "str-65536" => "a".repeat(65536).into(),
        "bytes-3" => vec![0u8, 0xff, 1].into(),
        "bytes-40" => vec![0xfeu8; 40].into(),
        "int" => 300.into(),
        "neg" => (-5).into(),
        "bigint-jid" => "20231114221320000000".into(),
        "over-u64" => "18446744073709551617".into(),
        "float" => 1.5.into(),
        "bool-none" => vec![true.into(), false.into(), Value::Nil].into(),
        "map" => crate::map! {"a" => 1, "b" => vec![Value::from(1), Value::from(2)]}.into(),
        "utf8" => "h\u{e9}llo \u{2603}".into(),
        "set" => vec![Value::from(1)].into(),
        _ => return None,
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn vectors_of_stock_salt() {
    let json = include_str!("../../../tests/vectors/msgpack.json");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let mut compared = 0;
    for vector in json["vectors"].as_array().unwrap() {
        let name = vector["name"].as_str().unwrap();
        let Some(value) = vector_value(name) else {
            assert_eq!(name, "datetime");
            let bytes = unhex(vector["wire_hex"].as_str().unwrap());
            assert_eq!(decode(&bytes).unwrap(), "20231114T22:13:20.123456".into());
            continue;
        };
        for (profile, key) in [(Profile::Wire, "wire"), (Profile::Local, "bin_type")] {
            let bytes = encode(&value, profile);
            let prefix = unhex(vector[format!("{key}_prefix_hex")].as_str().unwrap());
            assert!(bytes.starts_with(&prefix), "{name} {key}");
            if let Some(hex) = vector[format!("{key}_hex")].as_str() {
                assert_eq!(bytes, unhex(hex), "{name} {key}");
            }
            assert_eq!(decode(&bytes).unwrap(), value, "{name} {key}");
            compared += 1;
        }
        let length = encode(&value, Profile::Wire).len() as u64;
        assert_eq!(vector["wire_len"].as_u64(), Some(length), "{name}");
    }
    assert!(compared >= 32);
}

fn any_value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (i64::MAX as u64 + 1..).prop_map(Value::UInt),
        any::<f64>()
            .prop_filter("NaN equals nothing", |f| !f.is_nan())
            .prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..300)
            .prop_filter("text", |b| std::str::from_utf8(b).is_err())
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{0,8}", inner, 0..20)
                .prop_map(|m| m.into_iter().collect::<Map>().into()),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn values_come_back(value in any_value()) {
        for profile in [Profile::Wire, Profile::Local] {
            proptest::prop_assert_eq!(&decode(&encode(&value, profile)).unwrap(), &value);
        }
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let decoded = decode(&bytes);
        let mut reader = Reader::new(&bytes);
        // Skipping and reading agree on where a document ends.
        if decoded.is_ok() {
            proptest::prop_assert_eq!(reader.skip().unwrap(), &bytes[..]);
        }
    }
}

/// One inside the other: each `[name, <the next>]`.
fn named_constants(count: usize) -> Vec<u8> {
    (0..count).fold(vec![0xc0], |inner, _| {
        let pair = [&b"\x92\xa1x"[..], &inner].concat();
        let mut out = vec![0xc9];
        out.extend((pair.len() as u32).to_be_bytes());
        out.push(NAMED as u8);
        out.extend(pair);
        out
    })
}

#[test]
fn extensions_inside_extensions_share_the_limits() {
    assert_eq!(decode(&named_constants(20)), Ok(Value::Nil));
    for count in [100, 10_000] {
        let bytes = named_constants(count);
        assert_eq!(decode(&bytes), Err(Exceeded::Depth.into()), "{count}");
        assert!(Reader::new(&bytes).value().is_err());
    }
    // Directly inside each other they are no constants, but no deeper either.
    let direct = (0..10_000).fold(vec![0xc0], |inner, _| {
        let mut out = vec![0xc9];
        out.extend((inner.len() as u32).to_be_bytes());
        out.push(NAMED as u8);
        out.extend(inner);
        out
    });
    assert_eq!(decode(&direct), Err(Exceeded::Depth.into()));
    assert_eq!(decode(b"\xd6\x4f\x92\xa1x\x07"), Ok(7.into()));
    assert_eq!(decode(b"\xd6\x4eabcd"), Ok("abcd".into()));
    assert_eq!(
        decode(b"\xd6\x4f\x92\xa1x\xc1"),
        Ok(vec![0x92u8, 0xa1, b'x', 0xc1].into())
    );
}

#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let array = |n: u32, fill: usize| {
        let mut out = vec![0xdd];
        out.extend(n.to_be_bytes());
        out.resize(5 + fill, 0xc0);
        out
    };
    let many = 4 * budget::MAX_VALUES;
    assert_eq!(decode(&array(u32::MAX, 9)), Err(DecodeError::Truncated));
    assert_eq!(
        decode(&array(many as u32, many)),
        Err(Exceeded::Values.into())
    );
    // A claim counts when it is made, so that nested ones cannot each take as much as the input has bytes.
    let nested = [array(100_000, 0).repeat(60), vec![0xc0; 100_000]].concat();
    assert_eq!(decode(&nested), Err(Exceeded::Values.into()));
    let texts: Vec<Value> = (0..2 * budget::MAX_VALUES)
        .map(|n| n.to_string().into())
        .collect();
    assert!(decode(&encode(&texts.into(), Profile::Wire)).is_ok());
}

#[test]
fn a_load_has_each_name_once() {
    let load = |bytes: &[u8]| decode_load(bytes, Budget::fixed());
    assert_eq!(
        load(b"\x82\xa3cmd\xa1x\xa2id\x01"),
        Ok(crate::map! {"cmd" => "x", "id" => 1})
    );
    for bad in [
        &b"\x82\xa3cmd\xa1x\xa3cmd\xa1y"[..],
        // The same name as bytes, as an extension, behind a list that hides it.
        b"\x82\xa3cmd\xa1x\xc4\x03cmd\xa1y",
        b"\x82\xc7\x03\x4ecmd\xa1x\xa3cmd\xa1y",
        b"\x81\x92\xa3cmd\xa1x\xc0",
        b"\x81\x01\x02",
        b"\x90",
        b"\xa1x",
    ] {
        assert_eq!(load(bad), Err(DecodeError::BadFields), "{bad:x?}");
    }
    let many: Map = (0..=MAX_FIELDS).map(|n| (n.to_string(), 1)).collect();
    let many = encode_map(&many, Profile::Wire);
    assert_eq!(load(&many), Err(DecodeError::BadFields));
    assert_eq!(load(b"\x81\xa1x\xc0\xc0"), Err(DecodeError::Trailing));
    let cut: Vec<_> = fields(b"\x82\xa1a\x01\xa1b").unwrap().collect();
    assert_eq!(cut, [Ok(("a", &b"\x01"[..])), Err(DecodeError::Truncated)]);
}

#[test]
fn of_equal_keys_the_last_counts() {
    let ids = |n: i64| (Value::from("id"), Value::from(n));
    let mut pairs = vec![ids(1), (Value::from("x"), Value::Nil), ids(2)];
    let bytes = encode_map(&Map(pairs.clone()), Profile::Wire);
    assert_eq!(
        decode(&bytes),
        Ok(Value::Map(crate::map! {"id" => 2, "x" => Value::Nil}))
    );
    // The same for a map too large for pairwise comparison.
    pairs.extend((0..40).map(|n| (Value::from(n), Value::Nil)));
    pairs.push((Value::from(7), Value::from(true)));
    pairs.push(ids(3));
    let got = decode(&encode_map(&Map(pairs), Profile::Wire))
        .unwrap()
        .into_map()
        .unwrap();
    assert_eq!((got.len(), got.int("id")), (42, Some(3)));
    assert_eq!(got.0[9], (Value::from(7), Value::from(true)));
}
