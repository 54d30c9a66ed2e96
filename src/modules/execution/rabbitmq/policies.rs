//! Policies, and upstreams of federations.

use super::control::{check, ctl, done, server_version};
use super::text::lines;
use crate::execution::declare::{Arg, Result, args};
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map, pyjson};

/// The arguments of `rabbitmq.set_upstream`.
pub const UPSTREAM: &[Arg] = args![
    name,
    uri,
    prefetch_count = None,
    reconnect_delay = None,
    ack_mode = None,
    trust_user_id = None,
    exchange = None,
    max_hops = None,
    expires = None,
    message_ttl = None,
    ha_policy = None,
    queue = None,
    runas = None
];

/// Whether the columns are in the order of 3.7: the pattern comes before what it applies to.
fn is_new(version: &str) -> bool {
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    // A server that is not from a package is not that old.
    major.is_none_or(|major| (major, minor.unwrap_or(0)) >= (3, 7))
}

/// `rabbitmq.list_policies`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn list_policies(call: &mut Call<'_>) -> Result {
    let vhost = python::str(call.arg("vhost"));
    let ran = ctl(call, ["list_policies", "-q", "-p", &vhost])?;
    check(&ran)?;
    let new = is_new(&server_version(call)?);
    let mut all = Map::new();
    for line in lines(&ran.stdout) {
        let fields: Vec<&str> = line.trim().split('\t').collect();
        let (vhost, name, policy) = match fields.as_slice() {
            [vhost, name, pattern, apply_to, definition, priority] if new => (
                *vhost,
                *name,
                map! {
                    "pattern" => *pattern, "apply_to" => *apply_to, "definition" => *definition, "priority" => *priority,
                },
            ),
            [vhost, name, apply_to, pattern, definition, priority] => (
                *vhost,
                *name,
                map! {
                    "apply_to" => *apply_to, "pattern" => *pattern, "definition" => *definition, "priority" => *priority,
                },
            ),
            [vhost, name, pattern, definition, priority] if !new => (
                *vhost,
                *name,
                map! {"pattern" => *pattern, "definition" => *definition, "priority" => *priority},
            ),
            _ => continue,
        };
        let mut of_vhost = all
            .remove(vhost)
            .and_then(Value::into_map)
            .unwrap_or_default();
        of_vhost.set(name, policy);
        all.set(vhost, of_vhost);
    }
    Ok(all.into())
}

/// JSON as Python writes it.
fn json_text(value: &Value) -> String {
    let quoted = |text: &str| {
        let mut out = String::new();
        pyjson::quote(&mut out, text, false);
        out
    };
    match value {
        Value::Map(map) => {
            let pair = |(key, value): &(Value, Value)| {
                format!("{}: {}", quoted(&python::str(key)), json_text(value))
            };
            let pairs: Vec<String> = map.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(json_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Nil => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Str(text) => quoted(text),
        other => python::str(other),
    }
}

/// `rabbitmq.set_policy`.
///
/// # Errors
/// rabbitmqctl fails, or the definition is neither a map nor text.
pub fn set_policy(call: &mut Call<'_>) -> Result {
    let definition = match call.arg("definition") {
        Value::Str(text) => text.clone(),
        map @ Value::Map(_) => json_text(map),
        _ => {
            let text = "The 'definition' argument must be a dictionary or JSON string";
            return Err(CallError::Invocation(text.to_owned()));
        }
    };
    let text = |name: &str| python::str(call.arg(name));
    let mut words = ["set_policy", "-p"].map(str::to_owned).to_vec();
    words.push(text("vhost"));
    for (arg, option) in [("priority", "--priority"), ("apply_to", "--apply-to")] {
        if call.flag(arg) {
            words.extend([option.to_owned(), text(arg)]);
        }
    }
    words.extend([text("name"), text("pattern"), definition]);
    done(ctl(call, words)?, "Set")
}

/// `rabbitmq.policy_exists`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn policy_exists(call: &mut Call<'_>) -> Result {
    let (vhost, name) = (
        python::str(call.arg("vhost")),
        python::str(call.arg("name")),
    );
    // Stock looks into the virtual host / only.
    let kwargs = map! {"vhost" => vhost.as_str(), "runas" => call.arg("runas").clone()};
    let all = call.salt("rabbitmq.list_policies", Vec::new(), kwargs)?;
    let of_vhost = all.as_map().and_then(|all| all.get(&vhost));
    let found = of_vhost.and_then(Value::as_map);
    Ok(found.is_some_and(|all| all.contains(&name)).into())
}

/// `rabbitmq.set_upstream`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn set_upstream(call: &mut Call<'_>) -> Result {
    let mut definition = Map::new();
    for arg in UPSTREAM
        .iter()
        .filter(|arg| !["name", "runas"].contains(&arg.name))
    {
        // A false is a setting, too.
        if call.flag(arg.name) || call.arg(arg.name) == &Value::Bool(false) {
            definition.set(arg.name.replace('_', "-"), call.arg(arg.name).clone());
        }
    }
    let name = python::str(call.arg("name"));
    let definition = json_text(&definition.into());
    let words = ["set_parameter", "federation-upstream", &name, &definition];
    let ran = ctl(call, words)?;
    check(&ran)?;
    Ok(true.into())
}

/// `rabbitmq.delete_upstream`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn delete_upstream(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let ran = ctl(call, ["clear_parameter", "federation-upstream", &name])?;
    check(&ran)?;
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::is_new;

    #[test]
    fn versions() {
        assert!(is_new("3.10.8") && is_new("4.0.1") && is_new(""));
        assert!(!is_new("3.6.10"));
    }
}
