//! `sysctl`: kernel parameters.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "sysctl",
    functions: &[StateFunction::new(
        "present",
        present,
        "Ensures that a kernel parameter has a value, now and after the next boot.",
    )
    .args(args![value, config = None])],
};

/// Values with single blanks.
fn words(value: &Value) -> String {
    let text = python::str(value);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, value) = (s.name(), s.arg("value").clone());
    let config = match s.arg("config").clone() {
        Value::Nil => s.salt("sysctl.default_config", Vec::new())?,
        other => other,
    };
    let shown = python::str(&value);
    if s.test {
        return test(s, &name, &value, &config);
    }
    let set = s.salt(
        "sysctl.persist",
        [Value::from(name.as_str()), value.clone(), config],
    );
    Ok(match set {
        Ok(answer) if answer.is_str("Already set") => already(&name, &shown),
        Ok(_) => StateOutcome::good(format!("Updated sysctl value {name} = {shown}"))
            .changes(Map(vec![(name.into(), value)])),
        Err(CallError::Command(e)) => {
            StateOutcome::bad(format!("Failed to set {name} to {shown}: {e}"))
        }
        Err(other) => return Err(other),
    })
}

fn already(name: &str, value: &str) -> StateOutcome {
    StateOutcome::good(format!("Sysctl value {name} = {value} is already set"))
}

fn test(s: &mut State<'_, '_>, name: &str, value: &Value, config: &Value) -> Result {
    let shown = python::str(value);
    let running = s.salt("sysctl.show", Vec::new())?;
    let configured = s.salt_with(
        "sysctl.show",
        Vec::new(),
        halite_wire::map! {"config_file" => config.clone()},
    )?;
    if configured.is_nil() {
        return Ok(StateOutcome::would(format!(
            "Sysctl option {name} might be changed, we failed to check config file at {}. The file is either \
             unreadable, or missing.",
            python::str(config)
        )));
    }
    let find = |all: &Value| all.as_map().and_then(|m| m.get(name)).map(words);
    let wanted = words(value);
    Ok(StateOutcome::would(
        match (find(&running), find(&configured)) {
            (Some(now), None) if now == wanted => format!(
                "Sysctl value is currently set on the running system but not in a config file. Sysctl option {name} set \
             to be changed to {shown} in config file."
            ),
            (Some(_), None) => format!("Sysctl option {name} set to be changed to {shown}"),
            (None, Some(old)) => format!(
                "Sysctl value {old} is present in configuration file but is not present in the running config. The value \
             {name} is set to be changed to {shown}"
            ),
            (Some(now), Some(_)) if now == wanted => return Ok(already(name, &shown)),
            _ => format!("Sysctl option {name} would be changed to {shown}"),
        },
    ))
}
