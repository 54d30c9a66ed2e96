//! `acme`: certificates of Let's Encrypt and its like. Stock 3008 has no such state any more; this is that of 3007
//! (`salt/states/acme.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{acme, python};
use halite_wire::{Map, Value};

/// Those of the function `acme.cert` but for the name.
const CERT: &[Arg] = acme::CERT.split_at(1).1;

pub(super) const MODULE: StateModule = StateModule {
    name: "acme",
    functions: &[StateFunction::new(
        "cert",
        cert,
        "Ensures that there is a certificate that does not expire soon.",
    )
    .args(CERT)],
};

/// What differs between two maps, down to the maps in them.
fn differing(old: Map, new: Map) -> (Map, Map) {
    let mut left = (Map::new(), new);
    for (key, value) in old.0 {
        let key = python::str(&key);
        match (value, left.1.remove(&key)) {
            (value, Some(other)) if value == other => {}
            (Value::Map(value), Some(Value::Map(other))) => {
                let (value, other) = differing(value, other);
                left.0.set(key.as_str(), value);
                left.1.set(key, other);
            }
            (value, other) => {
                left.0.set(key.as_str(), value);
                if let Some(other) = other {
                    left.1.set(key, other);
                }
            }
        }
    }
    left
}

fn cert(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let certname = s.text("certname").unwrap_or_else(|| name.clone());
    let outcome = wanted(s, &name, &certname)?;
    Ok(outcome.with("name", certname))
}

fn wanted(s: &mut State<'_, '_>, name: &str, certname: &str) -> Result {
    let mut current = Value::Nil;
    let action = if !s.salt("acme.has", [certname.into()])?.truthy() {
        "obtain"
    } else {
        let args = [certname.into(), s.arg("renew").clone()];
        if !s.salt("acme.needs_renewal", args)?.truthy() {
            let text = format!("Certificate {certname} exists and does not need renewal.");
            return Ok(StateOutcome::good(text));
        }
        current = s.salt("acme.info", [certname.into()])?;
        "renew"
    };
    if s.test {
        let text = format!("Certificate {certname} would have been {action}ed.");
        let changes = old_new("current certificate", "new certificate");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let names: Vec<&str> = CERT.iter().map(|arg| arg.name).collect();
    let mut kwargs = s.pick(&names);
    kwargs.set("certname", certname);
    kwargs.set("name", name);
    let done = s.salt_with("acme.cert", Vec::new(), kwargs)?;
    let done = done.into_map().unwrap_or_default();
    let result = done.get("result").and_then(Value::as_bool);
    let new = if result == Some(true) {
        s.salt("acme.info", [certname.into()])?
    } else {
        Value::Nil
    };
    let map = |value: Value| value.into_map().unwrap_or_default();
    let (old, new) = differing(map(current), map(new));
    let mut changes = Map::new();
    for (key, part) in [("old", old), ("new", new)] {
        if !part.is_empty() {
            changes.set(key, part);
        }
    }
    let comment = done.get("comment").map(python::str).unwrap_or_default();
    Ok(StateOutcome::new(result, comment).changes(changes))
}

#[cfg(test)]
mod tests {
    use super::differing;
    use halite_wire::map;

    #[test]
    fn differences() {
        let old = map! {"a" => 1, "b" => map! {"x" => 1, "y" => 2}, "c" => 3};
        let new = map! {"a" => 1, "b" => map! {"x" => 1, "y" => 3}, "d" => 4};
        let (old, new) = differing(old, new);
        assert_eq!(old, map! {"b" => map! {"y" => 2}, "c" => 3});
        assert_eq!(new, map! {"d" => 4, "b" => map! {"y" => 3}});
    }
}
