//! The outputters against what stock Salt printed (`tests/data/make_output_cases.py`).

use super::*;
use crate::map;
use crate::wire::Map;
use serde_json::Value as Json;

fn load(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The value that the generator wrote: plain JSON but for the marks it describes.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) if n.is_i64() => Value::from(n.as_i64().unwrap()),
        Json::Number(n) if n.is_u64() => Value::from(n.as_u64().unwrap()),
        Json::Number(n) => Value::Float(n.as_f64().unwrap()),
        Json::String(s) => Value::from(s),
        Json::Array(items) => Value::Array(items.iter().map(value).collect()),
        Json::Object(object) => {
            if let Some(octets) = object.get("$bytes") {
                return Value::Bytes(hex(octets.as_str().unwrap()));
            }
            if let Some(float) = object.get("$float") {
                return Value::Float(float.as_str().unwrap().parse().unwrap());
            }
            if let Some(entries) = object.get("$map") {
                let entries = entries.as_array().unwrap().iter();
                return Value::Map(entries.map(|e| (value(&e[0]), value(&e[1]))).collect());
            }
            let entries = object.iter().map(|(k, v)| (Value::from(k), value(v)));
            Value::Map(Map(entries.collect()))
        }
    }
}

fn style(options: &Json) -> Style {
    let mut style = Style::default();
    for (name, option) in options.as_object().unwrap() {
        let flag = option.as_bool();
        let number = option.as_i64();
        match name.as_str() {
            "color" => style.color = flag.unwrap(),
            "retcode" => style.retcode = number.unwrap(),
            "strip_colors" => style.strip_colors = flag.unwrap(),
            "nested_indent" => style.nested_indent = number.unwrap() as usize,
            "output_indent" if option == "pretty" => style.pretty = true,
            "output_indent" => style.indent = number,
            "state_output" => style.state_output = option.as_str().unwrap().into(),
            "state_verbose" => style.state_verbose = flag.unwrap(),
            "state_output_diff" => style.state_output_diff = flag.unwrap(),
            "state_output_profile" => style.state_output_profile = flag.unwrap(),
            "state_output_pct" => style.state_output_pct = flag.unwrap(),
            "state_compress_ids" => style.state_compress_ids = flag.unwrap(),
            "state_tabular" => style.state_tabular = flag.unwrap(),
            "state_output_exclude" => style.state_output_exclude = value(option),
            "state_output_terse" => style.state_output_terse = value(option),
            other => panic!("option {other}"),
        }
    }
    style
}

fn outputter(name: &Json) -> Outputter {
    name.as_str().unwrap().parse().unwrap_or_default()
}

fn shown(document: &Json, case: &Json) -> String {
    let data = value(&document["values"][case[0].as_str().unwrap()]);
    render(outputter(&case[1]), &data, &style(&case[2]))
}

fn check(text: &str, at_least: usize) {
    let document = load(text);
    let cases = document["cases"].as_array().unwrap();
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let got = shown(&document, case);
        // Where an outputter gives nothing, stock's text is None and nothing is printed.
        let want = case[3].as_str().unwrap_or_default();
        if got != want {
            let (name, out, options) = (&case[0], &case[1], &case[2]);
            wrong.push(format!(
                "{name} {out} {options}\n--- stock\n{want}\n--- ours\n{got}\n{want:?}\n{got:?}"
            ));
        }
    }
    let count = wrong.len();
    wrong.truncate(12);
    assert!(count == 0, "{count} differ\n{}", wrong.join("\n\n"));
}

#[test]
fn prints_as_stock_3008() {
    check(include_str!("../../../tests/data/output_cases.json"), 150);
}

#[test]
fn prints_names_gone_in_3008_as_stock_3006() {
    check(
        include_str!("../../../tests/data/output_cases_3006.json"),
        100,
    );
}
