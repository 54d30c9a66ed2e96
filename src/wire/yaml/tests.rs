//! Compares with results of stock Salt (`tests/data/yaml_cases.json`).

use super::*;
use crate::Map;
use crate::budget::MAX_DEPTH;
use serde_json::Value as Json;

/// Decodes values as encoded by `tests/data/make_yaml_cases.py`.
fn decode(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => n
            .as_i64()
            .map_or_else(|| Value::UInt(n.as_u64().unwrap()), Value::Int),
        Json::String(s) => Value::Str(s.clone()),
        Json::Array(items) => Value::Array(items.iter().map(decode).collect()),
        Json::Object(o) => match o.iter().next().unwrap() {
            (kind, Json::String(text)) if kind == "f" => Value::Float(text.parse().unwrap()),
            (kind, Json::String(hex)) if kind == "b" => {
                let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                Value::Bytes((0..hex.len()).step_by(2).map(byte).collect())
            }
            (_, pairs) => {
                let pairs = pairs.as_array().unwrap().iter();
                Value::Map(Map(pairs.map(|p| (decode(&p[0]), decode(&p[1]))).collect()))
            }
        },
    }
}

fn cases(name: &str) -> Vec<Json> {
    let text = match std::env::var("YAML_CASES") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("../../../tests/data/yaml_cases.json").to_owned(),
    };
    let mut all: Json = serde_json::from_str(&text).unwrap();
    serde_json::from_value(all[name].take()).unwrap_or_default()
}

/// Compares the debug forms, in which types differ and NaN equals NaN.
fn same(a: &Value, b: &Value) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

fn report(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Known differences, which do not occur in sane files: a lone document end, key mark or colon; a tab before the
/// first key, and Unicode line ends, which the scanner reads as blanks and text.
const KNOWN: [&str; 5] = ["...", "?", ":", "\ta: b", "a: \u{85}b"];

#[test]
fn loads_what_salt_loads() {
    let mut failures = Vec::new();
    for case in cases("load") {
        let text = case[0].as_str().unwrap();
        let got = parse(text);
        let wanted = &case[1];
        let good = match &got {
            Ok(value) => wanted.get("value").is_some_and(|w| same(value, &decode(w))),
            Err(_) => wanted.get("error").is_some(),
        };
        if !good && !KNOWN.contains(&text) {
            failures.push(format!("{text:?}: {got:?}, Salt: {wanted}"));
        }
    }
    report(failures);
}

#[test]
fn arguments_mean_what_they_mean_to_salt() {
    let mut failures = Vec::new();
    for case in cases("arg") {
        let text = case[0].as_str().unwrap();
        let got = yamlify_arg(text);
        if !same(&got, &decode(&case[1])) {
            failures.push(format!("{text:?}: {got:?}, Salt: {}", case[1]));
        }
    }
    report(failures);
}

#[test]
fn keyword_arguments_are_split_as_salt_splits_them() {
    let mut failures = Vec::new();
    for case in cases("input") {
        let args: Vec<String> = serde_json::from_value(case[0].clone()).unwrap();
        let (positional, keyword) = parse_input(&args, &[]);
        let got = Value::Array(vec![positional.into(), keyword.into()]);
        if !same(&got, &decode(&case[1])) {
            failures.push(format!("{args:?}: {got:?}, Salt: {}", case[1]));
        }
    }
    report(failures);
}

#[test]
fn dumps_what_salt_dumps() {
    let mut failures = Vec::new();
    for case in cases("dump") {
        let value = decode(&case[0]);
        let got = emit(&value, true);
        if got != case[1].as_str().unwrap() {
            failures.push(format!("{value:?}:\n  {got:?}, Salt:\n  {}", case[1]));
        }
    }
    report(failures);
}

fn error(text: &str) -> YamlError {
    parse(text).unwrap_err()
}

#[test]
fn errors_name_their_place() {
    let place = |text: &str| {
        let e = error(text);
        (e.line, e.column)
    };
    assert_eq!(place("a: 1\na: 2"), (2, 1));
    assert_eq!(place("a:\n  - !!python/object:os.system x"), (2, 5));
    assert_eq!(place("a: b: c"), (1, 5));
    assert_eq!(place("a: 1\nb: \x07"), (2, 4));
    assert_eq!(place("a: é\n--- b"), (2, 1));
    let text = error("a: 1\na: 2").to_string();
    assert_eq!(
        text,
        "line 2, column 1: found conflicting ID 'a': the map has this key already"
    );
}

#[test]
fn aliases_cannot_blow_up() {
    let mut bomb = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..12 {
        let aliases = format!("*a{}, ", i - 1).repeat(9);
        bomb += &format!("a{i}: &a{i} [{aliases}]\n");
    }
    assert!(error(&bomb).message.contains("too much data"));
    let mut merges = String::from("m0: &m0 {k0: v}\n");
    for i in 1..40 {
        merges += &format!("m{i}: &m{i}\n  <<: [*m{0}, *m{0}]\n", i - 1);
    }
    assert!(parse(&merges).is_err());
    let long = format!(
        "a: &a {}\nb: [{}]",
        "x".repeat(100_000),
        "*a, ".repeat(5000)
    );
    assert!(error(&long).message.contains("too much data"));
    assert!(error("a: &a [*a]").message.contains("inside"));
}

#[test]
fn depth_is_limited() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert!(
        error(&nested(MAX_DEPTH + 1))
            .message
            .contains("inside one another")
    );
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&"- ".repeat(10_000)).is_err());
    let half = nested(MAX_DEPTH / 2 + 1);
    let inner = &half[..half.len() / 2];
    let text = format!("a: &a {half}\nb: {inner}*a{}", "]".repeat(inner.len()));
    assert!(error(&text).message.contains("aliases put more than"));
}

#[test]
fn an_alias_is_a_copy() {
    let value = parse("a: &x {b: [1]}\nc: *x\nd: *x").unwrap();
    let map = value.as_map().unwrap();
    assert_eq!(map.get("c"), map.get("a"));
    assert_eq!(map.get("d"), map.get("a"));
}

#[test]
fn flow_text_is_one_line() {
    let value = parse("a: [1, 'yes', x]\nb: {c: null}").unwrap();
    assert_eq!(emit_flow(&value), "{a: [1, 'yes', x], b: {c: null}}");
    assert_eq!(parse(&emit_flow(&value)), Ok(value));
}

#[test]
fn many_tabs_are_read_in_reasonable_time() {
    let text: String = (0..300).map(|i| format!("key{i}:\tvalue\n")).collect();
    assert_eq!(parse(&text).unwrap().as_map().unwrap().len(), 300);
}

/// CVE-2025-62348: a tag does not create objects and calls nothing.
#[test]
fn tags_construct_nothing() {
    for text in [
        "!!python/object:os.system {}",
        "!!python/object/apply:os.system ['id']",
        "!!python/object/new:subprocess.Popen [['id']]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/tuple [1, 2]",
        "x: [{y: !!python/object/apply:os.system ['id']}]",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['id']",
        "!include /etc/passwd",
        "!!js/function 'f'",
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains("is not allowed"), "{text}: {error}");
    }
}

#[test]
fn lines_in_brackets_may_be_indented_less() {
    let text = "a:\n    - b:\n        map: {x: {y: 1,\n    z: two words\n  and more, w: [3,\n4]}}\n    - c\n";
    let want = crate::map! {"a" => vec![
        crate::map! {"b" => crate::map! {"map" => crate::map! {"x" => crate::map! {
            "y" => 1, "z" => "two words and more", "w" => vec![Value::Int(3), Value::Int(4)],
        }}}}.into(),
        Value::from("c"),
    ]};
    assert_eq!(parse(text), Ok(want.into()));
    assert!(parse("a:\n    b: {x: 1,\n  y").is_err());
}

/// As PyYAML with libyaml reads them; vim-formula's pillar has such a key.
#[test]
fn anchors_of_empty_keys() {
    let nothing = |value: &str| Value::from(Map(vec![(Value::Nil, value.into())]));
    for text in ["&a: b\n", "&a : b\n"] {
        assert_eq!(parse(text).unwrap(), nothing("b"), "{text}");
    }
    let text = "lets:\n  &colorcolumn: join(1)\nnext: 1\n";
    assert_eq!(
        parse(text).unwrap(),
        crate::map! {"lets" => nothing("join(1)"), "next" => 1}.into()
    );
    for text in ["a: &b: c\n", "a: &secret!\n", "a: &x.y z\n"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_line_with_the_fault() {
    let line = |text: &str| parse(text).unwrap_err().line;
    // A key without a colon.
    assert_eq!(line("a:\n  b: []\nno\n\n# x\nc:\n  d: []\n"), 3);
    assert_eq!(line("a:\n  b\n    - x: 1\nc: 1\n"), 2);
    assert_eq!(line("a\n  b: []\n"), 1);
    assert_eq!(line("a:\n  - x: a: b\n"), 2);
    // A bracket that is not closed.
    assert_eq!(line("a:\n  - {x: 1\nb:\n  c: []\n"), 2);
    assert_eq!(line("a:\n  - x: [1, 2\n  - y: 2\nc: {}\n"), 2);
}
