//! `loop`: waits until a function returns something.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::execution::declare::{Lit, opt, req};
use halite_modules::execution::{CallError, find_for, python};
use halite_wire::{Map, Value};
use std::cmp::Ordering;
use std::time::{Duration, Instant};

// `until` evaluates a condition in Python, which we do not have.
pub(super) const MODULE: StateModule = StateModule {
    name: "loop",
    functions: &[StateFunction::new(
        "until_no_eval",
        until_no_eval,
        "Calls a function until it returns what is expected.",
    )
    .args(&[
        req("expected"),
        opt("compare_operator", Lit::Str("eq")),
        opt("timeout", Lit::Int(60)),
        opt("period", Lit::Int(1)),
        opt("init_wait", Lit::Int(0)),
        opt("args", Lit::Nil),
        opt("kwargs", Lit::Nil),
    ])],
};

/// Whether what a function has returned is as expected.
type Compare = fn(&Value, &Value) -> Result<bool>;

fn operator(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => |own, wanted| Ok(own == wanted),
        "ne" => |own, wanted| Ok(own != wanted),
        "lt" => |own, wanted| Ok(order(own, wanted, "<")?.is_lt()),
        "le" => |own, wanted| Ok(order(own, wanted, "<=")?.is_le()),
        "gt" => |own, wanted| Ok(order(own, wanted, ">")?.is_gt()),
        "ge" => |own, wanted| Ok(order(own, wanted, ">=")?.is_ge()),
        "contains" => contains,
        _ => return None,
    })
}

fn order(own: &Value, wanted: &Value, sign: &str) -> Result<Ordering> {
    let number = |value: &Value| match value {
        #[expect(clippy::cast_precision_loss, reason = "only compared")]
        Value::Int(n) => Some(*n as f64),
        Value::Float(n) => Some(*n),
        Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
        _ => None,
    };
    let found = match (own, wanted) {
        (Value::Str(own), Value::Str(wanted)) => Some(own.cmp(wanted)),
        (Value::Int(own), Value::Int(wanted)) => Some(own.cmp(wanted)),
        _ => match (number(own), number(wanted)) {
            (Some(own), Some(wanted)) => own.partial_cmp(&wanted),
            _ => None,
        },
    };
    found.ok_or_else(|| {
        CallError::Type(format!(
            "'{sign}' not supported between instances of '{}' and '{}'",
            python::type_name(own),
            python::type_name(wanted)
        ))
    })
}

fn contains(own: &Value, wanted: &Value) -> Result<bool> {
    Ok(match own {
        Value::Str(text) => wanted.as_str().is_some_and(|part| text.contains(part)),
        Value::Array(list) => list.contains(wanted),
        Value::Map(map) => map.iter().any(|(key, _)| key == wanted),
        other => {
            return Err(CallError::Type(format!(
                "argument of type '{}' is not iterable",
                python::type_name(other)
            )));
        }
    })
}

/// Seconds, if it is a number that is not negative.
fn seconds(value: &Value) -> Option<Duration> {
    let number = match value {
        Value::Str(text) => text.trim().parse().ok()?,
        Value::Float(n) => *n,
        Value::Int(n) => return u64::try_from(*n).ok().map(Duration::from_secs),
        _ => return None,
    };
    Duration::try_from_secs_f64(number).ok()
}

fn until_no_eval(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let expected = s.arg("expected").clone();
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Would have waited for \"{name}\" to produce \"{}\".",
            python::str(&expected)
        )));
    }
    if find_for(s.ctx(), &name).is_none() {
        let text = format!("Module.function \"{name}\" is unavailable.");
        return Ok(StateOutcome::bad(text));
    }
    let sign = s.text("compare_operator").unwrap_or_default();
    let Some(compare) = operator(&sign) else {
        let text = format!("Invalid operator \"{sign}\" supplied.");
        return Ok(StateOutcome::bad(text));
    };
    let number = |key: &str, word: &str| {
        let text = format!("{word} must be specified as a float in seconds");
        seconds(s.arg(key)).ok_or_else(|| StateOutcome::bad(text))
    };
    let (timeout, period) = match (number("timeout", "Timeout"), number("period", "Period")) {
        (Ok(timeout), Ok(period)) => (timeout, period),
        (Err(wrong), _) | (_, Err(wrong)) => return Ok(wrong),
    };
    let wait = match s.arg("init_wait") {
        Value::Str(_) => None,
        other => seconds(other),
    };
    let Some(wait) = wait else {
        return Err(CallError::Type(format!(
            "'{}' object cannot be interpreted as an integer",
            python::type_name(s.arg("init_wait"))
        )));
    };
    let args = s.list("args");
    let kwargs = match s.arg("kwargs") {
        Value::Map(kwargs) => kwargs.clone(),
        _ => Map::new(),
    };
    std::thread::sleep(wait);
    let start = Instant::now();
    let mut attempts = 0;
    while attempts == 0 || start.elapsed() < timeout {
        attempts += 1;
        let own = match s.salt_with(&name, args.clone(), kwargs.clone()) {
            Ok(own) => own,
            Err(fault) => {
                return Ok(StateOutcome::bad(format!(
                    "Exception occurred while executing {name}: <class '{}'>:{}",
                    fault.class(),
                    fault.message()
                )));
            }
        };
        if compare(&own, &expected)? {
            return Ok(StateOutcome::good(format!(
                "Call provided the expected results in {attempts} attempts"
            )));
        }
        std::thread::sleep(period);
    }
    Ok(StateOutcome::bad(format!(
        "Call did not produce the expected result after {attempts} attempts"
    )))
}
