//! Compares the outputters with output of stock Salt (`tests/data/make_output_cases.py`).
//!
//! Known differences, each for a reason:
//! - Data for which stock ends with a traceback (non-UTF-8 bytes in highstate and table, keys of
//!   states without their four parts) is shown, by nested if need be.
//! - With `state_compress_ids`, stock changes the data before it finds that it cannot combine or show it;
//!   here such data is shown unchanged.
//! - Braces in the warnings of a terse line are text here, a format directive in stock.
//! - pprint orders bytes before numbers among keys of several types; Python's order is not total.
//! - `state_tabular` with a format text and the `out.table.*` options are not supported.

use super::*;
use halite_wire::Map;
use halite_wire::map;
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

/// The value written by the generator: plain JSON except for the markers it describes.
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
        // If an outputter returns nothing, stock's text is None and nothing is printed.
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

#[test]
fn shows_something_where_stock_ends_with_a_traceback() {
    let document = load(include_str!("../../../tests/data/output_cases.json"));
    // Stock refuses bytes that are not UTF-8 in highstate and table; here they stay bytes.
    for case in document["refused"].as_array().unwrap() {
        assert_eq!(case[3], "UnicodeDecodeError");
        assert!(shown(&document, case).contains("m1"), "{case}");
    }
    // A key without the four parts of a state is an IndexError in stock.
    let data = Value::from(
        map! {"m1" => map! {"odd" => map! {"result" => true, "changes" => map!{},
        "comment" => "c", "__run_num__" => 0}}},
    );
    let style = Style::default();
    let nested = render(Outputter::Nested, &data, &style);
    assert!(nested.contains("comment:\n            c"));
    assert_eq!(render(Outputter::Highstate, &data, &style), nested);
}

#[test]
fn rolls_up_only_whole_data() {
    // Stock has changed the first state of the group by then; here the data is unchanged.
    let whole = map! {"__id__" => "i", "__sls__" => "s", "result" => true, "changes" => map!{},
    "comment" => "c", "__run_num__" => 0, "name" => "n", "duration" => 1, "start_time" => "9"};
    let mut part = whole.clone();
    part.remove("start_time");
    let data = |second: Map| map! {"m1" => map! {"a_|-i_|-n_|-f" => whole.clone(), "a_|-i_|-o_|-f" => second}};
    assert!(summary::compress_ids(&data(whole.clone())).is_some());
    assert!(summary::compress_ids(&data(part)).is_none());
}

#[test]
fn prints_summaries_and_documentation_as_stock() {
    let document = load(include_str!("../../../tests/data/output_cases.json"));
    for case in document["summaries"].as_array().unwrap() {
        let mut summary = texts::Summary::default();
        let returns = value(&case[0]);
        for (minion, ret) in returns.as_map().unwrap().iter() {
            summary.add(minion.as_str().unwrap(), ret);
        }
        let text = summary.text(case[1].as_bool().unwrap());
        assert_eq!(text, case[2].as_str().unwrap());
    }
    for case in document["docs"].as_array().unwrap() {
        let returns = value(&case[0]);
        assert_eq!(
            texts::docs(returns.as_map().unwrap()),
            case[1].as_str().unwrap()
        );
    }
}

#[test]
fn fixed_texts() {
    let minions = ["m2".to_owned(), "m1".to_owned()];
    let run = texts::executing_run_on(&minions);
    assert_eq!(run, "\nExecuting run on ['m1', 'm2']\n\n");
    let line = "Executing job with jid 20261121092038013062";
    let dashes = "-".repeat(line.len());
    let text = texts::executing_job("20261121092038013062");
    assert_eq!(text, format!("{line}\n{dashes}\n\n"));
    let ghost = map! {"ghost" => halite_client::command::no_response("20261121092208411689")};
    let shown = render(Outputter::NoReturn, &ghost.into(), &Style::default());
    let mut lines = shown.lines();
    assert_eq!(lines.next(), Some("ghost:"));
    let second = "    Minion did not return. [No response]";
    assert_eq!(lines.next(), Some(second));
    assert!(shown.ends_with("\n    \n    salt-run jobs.lookup_jid 20261121092208411689"));
    let errors = [("m1".to_owned(), "boom".to_owned())];
    assert_eq!(texts::errors_summary(&[]), "");
    assert!(texts::errors_summary(&errors).ends_with("[m1] encountered exception 'boom'\n"));
}

#[test]
fn names() {
    for (outputter, name) in NAMES {
        assert_eq!(name.parse(), Ok(outputter));
        assert_eq!(outputter.to_string(), name);
    }
    assert_eq!("text".parse(), Ok(Outputter::Txt));
    assert_eq!("grains".parse(), Ok(Outputter::Nested));
    for gone in ["dson", "pony", "profile", "progress", "json_out"] {
        let error = gone.parse::<Outputter>().unwrap_err().to_string();
        let want = format!("Invalid outputter {gone} specified, fall back to nested; there are ");
        assert!(
            error.starts_with(&want) && error.contains("json, "),
            "{error}"
        );
    }
}

#[test]
fn chooses_the_outputter() {
    assert_eq!(choose_name(None, "", false, "state.apply"), "nested");
    assert_eq!(
        choose_name(None, "highstate", false, "state.apply"),
        "highstate"
    );
    assert_eq!(
        choose_name(Some("json"), "highstate", false, "state.apply"),
        "json"
    );
    // With --out=highstate the return still decides, as captured from stock.
    assert_eq!(
        choose_name(Some("highstate"), "", false, "test.arg"),
        "nested"
    );
    assert_eq!(choose_name(None, "", true, "state.apply"), "highstate");
    assert_eq!(
        choose_name(Some("highstate"), "", true, "test.ping"),
        "highstate"
    );
    assert_eq!(choose_name(None, "", true, "test.ping"), "nested");
}

#[test]
fn decides_on_color() {
    assert!(want_color(true, true, Some(false), false, Some("1")));
    assert!(!want_color(true, false, Some(true), true, None));
    assert!(want_color(false, false, Some(true), false, Some("1")));
    assert!(!want_color(false, false, None, true, Some("1")));
    assert!(want_color(false, false, None, true, Some("")));
    assert!(!want_color(false, false, None, false, None));
}

#[test]
fn python_texts() {
    assert_eq!(python_repr(&Value::from("it's")), "\"it's\"");
    assert_eq!(python_repr(&Value::from(1e16)), "1e+16");
    assert_eq!(python_repr(&Value::from(&[0xff_u8, b'a'][..])), r"b'\xffa'");
    assert_eq!(python_str(&Value::from("plain")), "plain");
    assert_eq!(python_str(&Value::Nil), "None");
    // Two shortest texts are equally near: the even digit is chosen.
    assert_eq!(
        python_repr(&Value::from(34_854_736_973_902.313)),
        "34854736973902.312"
    );
}

#[test]
fn who_ran_a_function_is_told_of_many_minions_at_once() {
    let ids: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
    let ret = map! {"python" => vec![Value::from("a.b")], "legacy_salt" => "Salt 3008.3 in /opt"};
    let told = |fun| texts::run_elsewhere(fun, &ret).unwrap();
    assert_eq!(told("c.d"), "parts of c.d were run by Salt 3008.3 in /opt");
    let one = texts::run_elsewhere_on(&told("a.b"), &ids[..1]);
    assert_eq!(one, "a.b was run by Salt 3008.3 in /opt on m0");
    let all = texts::run_elsewhere_on(&told("a.b"), &ids);
    assert!(all.ends_with(" m8, m9 and 2 more"), "{all}");
}

#[test]
fn the_slowest_states_end_the_summary() {
    let state = |time: f64, number: i64| {
        map! {
            "result" => true, "changes" => Map::new(), "comment" => "", "duration" => time, "__run_num__" => number,
            "start_time" => "1",
        }
    };
    let data = map! {"m1" => map! {
        "test_|-a_|-a_|-nop" => state(1.0, 0), "cmd_|-b_|-sleep 1\nx_|-run" => state(1003.5, 1), "test_|-c_|-c_|-nop" => state(2.0, 2),
    }};
    let style = Style {
        state_output: "terse".into(),
        slowest_states: 2,
        ..Style::default()
    };
    let text = render(Outputter::Highstate, &data.into(), &style);
    let end = text.split("Slowest states:\n").nth(1).unwrap_or_default();
    let lines: Vec<&str> = end.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        ["1003.500 ms  cmd.run b: sleep 1 x", "2.000 ms  test.nop c"],
        "{text}"
    );
}
