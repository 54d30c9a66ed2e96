//! `firewall`: whether a host can be reached.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::Value;

pub(super) const MODULE: StateModule = StateModule {
    name: "firewall",
    functions: &[StateFunction::new(
        "check",
        check,
        "Checks that a port of a host can be reached.",
    )
    .args(args![port = None])
    .keywords()],
};

fn check(s: &mut State<'_, '_>) -> Result {
    if s.test {
        return Ok(StateOutcome::good("The connection will be tested"));
    }
    let args = vec![s.name().into(), s.arg("port").clone()];
    let kwargs = s.kwargs.clone();
    let answer = s.salt_with("network.connect", args, kwargs)?;
    let answer = answer.into_map().unwrap_or_default();
    let comment = answer.get("comment").map(python::str).unwrap_or_default();
    let good = answer.get("result").is_some_and(Value::truthy);
    Ok(StateOutcome::new(Some(good), comment))
}
