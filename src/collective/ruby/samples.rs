//! Values for tests.

use super::Datum;
use proptest::prelude::*;

/// One of each kind.
pub(crate) fn every_kind() -> Datum {
    Datum::Hash(vec![
        (Datum::symbol("nil"), Datum::Nil),
        ("text".into(), "ünï\nline".into()),
        (Datum::symbol("bytes"), Datum::Bytes(vec![0, 0xff, b'a'])),
        (Datum::Int(7), Datum::Int(1_795_253_614)),
        (Datum::symbol("nil2"), Datum::Float(-0.25)),
        (
            "list".into(),
            Datum::Array(vec![
                Datum::symbol("text"),
                Datum::Bool(true),
                Datum::Bool(false),
                Datum::Regexp {
                    source: "^a/b$".into(),
                    options: 1,
                },
                Datum::Array(Vec::new()),
                Datum::Hash(Vec::new()),
            ]),
        ),
    ])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,8}",
        "[a-z0-9:.,_+~#!&*%@`|>'\"{}\\[\\] \n\t\\\\-]{0,16}",
        "[0-9+_,.:xobeE-]{1,8}",
        "([a-z ]{1,14}\n){1,3}[a-z ]{0,5}",
        "([a-z]{1,30} ){1,12}[a-z]{0,9}",
        Just("y".to_owned()),
        Just("null".to_owned()),
        Just("<<".to_owned()),
        Just("2026-11-22".to_owned()),
        Just("~".to_owned()),
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_][a-z0-9_]{0,10}[?!]?", "\\PC{1,6}", text()]
}

/// Bytes that are not text, so that they stay bytes in every encoding.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let any = proptest::collection::vec(any::<u8>(), 0..40);
    any.prop_map(|mut bytes| {
        bytes.push(0xff);
        bytes
    })
}

fn leaf() -> impl Strategy<Value = Datum> {
    prop_oneof![
        Just(Datum::Nil),
        any::<bool>().prop_map(Datum::Bool),
        any::<i64>().prop_map(|n| Datum::Int(n.into())),
        (-300i128..300).prop_map(Datum::Int),
        (any::<i128>()).prop_map(|n| Datum::Int(n / 2)),
        prop::num::f64::NORMAL.prop_map(Datum::Float),
        (-1000i32..1000).prop_map(|n| Datum::Float(f64::from(n) / 8.0)),
        word().prop_map(Datum::Symbol),
        text().prop_map(Datum::Str),
        text().prop_map(Datum::Str),
        bytes().prop_map(Datum::Bytes),
        ("[a-z0-9.^$|é /-]{1,10}(a[*+?])?", 0u8..8)
            .prop_map(|(source, options)| Datum::Regexp { source, options }),
    ]
}

/// Any value; keys are different from each other.
pub(crate) fn datum() -> impl Strategy<Value = Datum> {
    leaf().prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof![
            word().prop_map(Datum::Symbol),
            text().prop_map(Datum::Str),
            (-300i128..300).prop_map(Datum::Int),
        ];
        let pairs = proptest::collection::vec((key, inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Datum::Array),
            pairs.prop_map(|pairs: Vec<(Datum, Datum)>| {
                let first = |at: usize| !pairs[..at].iter().any(|(key, _)| *key == pairs[at].0);
                let kept = (0..pairs.len()).filter(|at| first(*at));
                Datum::Hash(kept.map(|at| pairs[at].clone()).collect())
            }),
        ]
    })
}
