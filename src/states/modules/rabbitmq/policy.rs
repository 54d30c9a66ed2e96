//! `rabbitmq_policy`.

use super::{below, rabbit, said};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, json, map};

pub const POLICY: StateModule = StateModule {
    name: "rabbitmq_policy",
    functions: &[
        StateFunction::new("present", present, "Ensures that there is a policy.").args(args![
            pattern,
            definition,
            priority = { 0 },
            vhost = "/",
            runas = None,
            apply_to = None
        ]),
        StateFunction::new("absent", absent, "Ensures that there is no such policy.")
            .args(args![vhost = "/", runas = None]),
    ],
};

/// A definition, of which the order of keys does not matter.
fn parsed(definition: &Value) -> Result<serde_json::Value> {
    let wrong = |e: String| CallError::raised("json.decoder.JSONDecodeError", e);
    match definition {
        Value::Str(text) if !text.is_empty() => {
            json::parse(text.as_bytes()).map_err(|e| wrong(e.to_string()))
        }
        Value::Map(_) => serde_json::to_value(definition).map_err(|e| wrong(e.to_string())),
        _ => Ok("".into()),
    }
}

/// What differs from the policy as it is.
fn updates(s: &State<'_, '_>, policy: &Map) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if policy.get("pattern") != Some(s.arg("pattern")) {
        found.push("Pattern");
    }
    let own = policy.get("definition").cloned().unwrap_or_default();
    if parsed(&own)? != parsed(s.arg("definition"))? {
        found.push("Definition");
    }
    // Stock looks for the field under another name, and says so each time.
    if s.flag("apply_to") && policy.get("apply_to") != Some(s.arg("apply_to")) {
        found.push("Applyto");
    }
    let priority = policy.str("priority").and_then(|p| p.trim().parse().ok());
    if priority != s.arg("priority").as_int() {
        found.push("Priority");
    }
    Ok(found.into_iter().map(str::to_owned).collect())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, vhost) = (s.name(), python::str(s.arg("vhost")));
    let all = rabbit(s, "list_policies", [vhost.as_str().into()])?;
    let of_vhost = below(&all, &vhost);
    let policy = of_vhost.and_then(|all| all.get(&name)?.as_map());
    let (changes, word) = match policy {
        Some(policy) => {
            let updates = updates(s, policy)?;
            if updates.is_empty() {
                let text = format!("Policy {vhost} {name} is already present");
                return Ok(StateOutcome::good(text));
            }
            (old_new(policy.clone(), updates), "updated")
        }
        None => (old_new(Map::new(), name.as_str()), "created"),
    };
    if s.test {
        let text = format!("Policy {vhost} {name} is set to be {word}");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let mut kwargs = s.pick(&[
        "vhost",
        "pattern",
        "definition",
        "priority",
        "runas",
        "apply_to",
    ]);
    kwargs.set("name", name);
    let done = s.salt_with("rabbitmq.set_policy", Vec::new(), kwargs)?;
    Ok(StateOutcome::good(said(&done, "Set")).changes(changes))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (name, vhost) = (s.name(), python::str(s.arg("vhost")));
    let args = [Value::from(vhost.as_str()), name.as_str().into()];
    if !rabbit(s, "policy_exists", args.clone())?.truthy() {
        let text = format!("Policy '{vhost} {name}' is not present.");
        return Ok(StateOutcome::good(text));
    }
    let changes = map! {"new" => "", "old" => name.as_str()};
    if s.test {
        let text = format!("Policy '{vhost} {name}' will be removed.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    rabbit(s, "delete_policy", args)?;
    Ok(StateOutcome::good("Deleted").changes(changes))
}
