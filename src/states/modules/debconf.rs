//! `debconf`: answers to the questions of Debian packages (`salt/states/debconfmod.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "debconf",
    functions: &[
        StateFunction::new("set", set, "Ensures answers to the questions of a package.")
            .args(args![data])
            .keywords(),
        StateFunction::new(
            "set_file",
            set_file,
            "Sets the answers of a file, or of a template.",
        )
        .args(args![
            source,
            template = None,
            context = None,
            defaults = None
        ])
        .keywords(),
    ],
};

fn set_file(s: &mut State<'_, '_>) -> Result {
    for (name, shown) in [("context", "Context"), ("defaults", "Defaults")] {
        if !matches!(s.arg(name), Value::Nil | Value::Map(_)) {
            let text = format!("{shown} must be formed as a dict");
            return Ok(StateOutcome::bad(text));
        }
    }
    if s.test {
        return Ok(StateOutcome::would(
            "Debconf selections would have been set.",
        ));
    }
    let mut kwargs = s.kwargs.clone();
    let args = vec![s.arg("source").clone()];
    let done = if s.flag("template") {
        for name in ["context", "defaults"] {
            let given = match s.arg(name) {
                Value::Nil => Map::new().into(),
                other => other.clone(),
            };
            kwargs.set(name, given);
        }
        kwargs.set("template", s.arg("template").clone());
        s.salt_with("debconf.set_template", args, kwargs)?
    } else {
        s.salt_with("debconf.set_file", args, kwargs)?
    };
    Ok(if done.truthy() {
        StateOutcome::good("Debconf selections were set.")
    } else {
        StateOutcome::bad("Unable to set debconf selections from file.")
    })
}

/// A field of an answer.
fn field(answer: &Value, name: &str) -> Result<Value> {
    let found = answer.as_map().and_then(|answer| answer.get(name)).cloned();
    found.ok_or_else(|| CallError::raised("KeyError", format!("'{name}'")))
}

fn set(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let current = s.salt("debconf.show", vec![name.as_str().into()])?;
    let Value::Map(data) = s.arg("data").clone() else {
        let text = format!(
            "'{}' object has no attribute 'items'",
            python::type_name(s.arg("data"))
        );
        return Err(CallError::raised("AttributeError", text));
    };
    let mut outcome = StateOutcome::good("");
    let mut changes = Map::new();
    for (question, answer) in data.iter() {
        let question = python::str(question);
        let kind = field(answer, "type")?;
        let mut value = field(answer, "value")?;
        if kind.is_str("boolean") {
            value = if value.truthy() { "true" } else { "false" }.into();
        }
        let value = python::str(&value);
        let wanted: Value = vec![
            Value::from(question.as_str()),
            kind.clone(),
            value.as_str().into(),
        ]
        .into();
        if current.as_array().is_some_and(|all| all.contains(&wanted)) {
            if outcome.comment.is_empty() {
                outcome.comment.push_str("Unchanged answers: ");
            }
            outcome.comment.push_str(&format!("{question} "));
            continue;
        }
        if s.test {
            outcome.result = None;
            changes.set(question, format!("New value: {value}"));
            continue;
        }
        let hidden = kind.is_str("password");
        let args = vec![
            name.as_str().into(),
            question.as_str().into(),
            kind,
            value.as_str().into(),
        ];
        s.salt("debconf.set", args)?;
        let shown = if hidden {
            "(password hidden)".to_owned()
        } else {
            value
        };
        changes.set(question, shown);
    }
    if changes.is_empty() {
        outcome.comment = "All specified answers are already set".to_owned();
    }
    Ok(outcome.changes(changes))
}
