//! `status`: checks of the host that change nothing.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "status",
    functions: &[
        StateFunction::new(
            "loadavg",
            loadavg,
            "Checks that the load average is in a range.",
        )
        .args(args![maximum = None, minimum = None]),
        StateFunction::new("process", process, "Checks that a process runs."),
    ],
};

/// A limit, if it is given; as in stock, 0 is none.
fn limit(s: &State<'_, '_>, key: &str) -> Result<Option<f64>> {
    let value = s.arg(key);
    if !value.truthy() {
        return Ok(None);
    }
    let text = python::str(value);
    text.trim().parse().map(Some).map_err(|_| {
        let text = format!("could not convert string to float: '{text}'");
        CallError::raised("ValueError", text)
    })
}

fn loadavg(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let all = s.salt("status.loadavg", Vec::new())?;
    let found = all.as_map().and_then(|all| all.get(&name)).cloned();
    let number = match found {
        Some(Value::Float(n)) => n,
        _ => {
            let text = format!("Requested load average {name} not available ");
            return Ok(StateOutcome::bad(text).with("data", Map::new()));
        }
    };
    let (least, most) = (limit(s, "minimum")?, limit(s, "maximum")?);
    let shown = python::str(&Value::Float(number));
    let given = |key: &str| s.text(key).unwrap_or_default();
    let outcome = if least.is_some_and(|least| number < least) {
        let least = given("minimum");
        StateOutcome::bad(format!("Load avg is below minimum of {least} at {shown}"))
    } else if most.is_some_and(|most| number > most) {
        let most = given("maximum");
        StateOutcome::bad(format!("Load avg above maximum of {most} at {shown}"))
    } else {
        StateOutcome::good("Load avg in acceptable range")
    };
    Ok(outcome.with("data", Value::Float(number)))
}

fn process(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let found = s.salt("status.pid", vec![name.as_str().into()])?;
    Ok(if found.truthy() {
        let text = format!("Process signature \"{name}\" was found ");
        StateOutcome::good(text).with("data", found)
    } else {
        let text = format!("Process signature \"{name}\" not found ");
        StateOutcome::bad(text).with("data", Map::new())
    })
}
