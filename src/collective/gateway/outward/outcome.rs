//! Converts SimpleRPC replies to returns of jobs.

use crate::ruby::Datum;
use halite_gateway::answer::FunctionResult;
use halite_wire::{Map, Value};

/// `retcode` if there was no reply, as of timeout(1).
pub(super) const TIMED_OUT: i64 = 124;

/// The meaning of a status code (reference, section 11).
fn meaning(code: i64) -> &'static str {
    match code {
        1 => "the action failed, or is not allowed",
        2 => "the agent has no such action",
        3 => "an input is missing",
        4 => "an input is not valid",
        5 => "the agent failed with an unexpected error",
        _ => "this status code has no meaning in SimpleRPC",
    }
}

/// Splits a SimpleRPC reply into status code, message and data.
pub(super) fn parts(body: &Datum) -> Option<(i64, String, Value)> {
    let code = body.get("statuscode")?.as_int()?;
    let text = body.get("statusmsg").and_then(Datum::as_str);
    let data = body.get("data").map(Datum::to_value).unwrap_or_default();
    Some((code, text.unwrap_or_default().to_owned(), data))
}

/// Whether the data is empty. Servers in Go send the text `{}` if there is none.
fn empty(data: &Value) -> bool {
    match data {
        Value::Nil => true,
        Value::Str(text) => text.is_empty() || text == "{}",
        Value::Map(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The return for a reply to an action.
pub(super) fn outcome(body: &Datum) -> FunctionResult {
    let Some((code, text, data)) = parts(body) else {
        return FunctionResult::failure("the node's reply is not SimpleRPC", 1);
    };
    if code == 0 {
        return FunctionResult::success(if empty(&data) { Value::Str(text) } else { data });
    }
    let mut out: Map = halite_wire::map! {
        "error" => format!("{}: {text}", meaning(code)), "statuscode" => code, "statusmsg" => text,
    };
    if !empty(&data) {
        out.set("data", data);
    }
    FunctionResult {
        value: out.into(),
        retcode: code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(code: i64, text: &str, data: Datum) -> Datum {
        Datum::Hash(vec![
            (Datum::symbol("statuscode"), Datum::Int(code.into())),
            (Datum::symbol("statusmsg"), text.into()),
            ("data".into(), data),
        ])
    }

    #[test]
    fn data_is_what_an_action_returns() {
        let data = Datum::Hash(vec![(Datum::symbol("status"), "5.2".into())]);
        let good = outcome(&body(0, "OK", data));
        assert_eq!(good.value, halite_wire::map! {"status" => "5.2"}.into());
        assert_eq!(good.retcode, 0);
        for none in [Datum::Nil, "{}".into(), Datum::Hash(Vec::new())] {
            assert_eq!(outcome(&body(0, "OK", none)).value, "OK".into());
        }
    }

    #[test]
    fn every_code_is_told_in_words() {
        for (code, words) in [
            (1, "not allowed"),
            (2, "no such action"),
            (3, "is missing"),
            (4, "not valid"),
            (5, "unexpected error"),
            (77, "no meaning"),
        ] {
            let data = Datum::Hash(vec![(Datum::symbol("x"), Datum::Int(1))]);
            let FunctionResult {
                value: Value::Map(map),
                retcode,
            } = outcome(&body(code, "why", data))
            else {
                panic!("no map");
            };
            assert_eq!((retcode, map.int("statuscode")), (code, Some(code)));
            let error = map.str("error").unwrap();
            assert!(error.contains(words) && error.ends_with(": why"), "{error}");
            assert_eq!(map.get("data"), Some(&halite_wire::map! {"x" => 1}.into()));
        }
        assert_eq!(outcome(&"pong".into()).retcode, 1);
    }
}
