//! `firewalld`: zones and services of the firewall daemon.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "firewalld",
    functions: &[
        StateFunction::new(
            "present",
            present,
            "Ensures that a zone exists and has these settings.",
        )
        .args(args![
            block_icmp = None,
            prune_block_icmp = False,
            default = None,
            masquerade = None,
            ports = None,
            prune_ports = False,
            port_fwd = None,
            prune_port_fwd = False,
            services = None,
            prune_services = False,
            interfaces = None,
            prune_interfaces = False,
            sources = None,
            prune_sources = False,
            rich_rules = None,
            prune_rich_rules = False
        ]),
        StateFunction::new(
            "service",
            service,
            "Ensures that a service exists and has these ports and protocols.",
        )
        .args(args![ports = None, protocols = None]),
    ],
};

/// A failure of firewall-cmd is the outcome of the state.
fn outcome(result: Result<Option<StateOutcome>>, changes: Map) -> Result {
    match result {
        Ok(Some(outcome)) => Ok(outcome),
        Ok(None) => Ok(StateOutcome::good("").changes(changes)),
        Err(CallError::Command(text)) => {
            Ok(StateOutcome::bad(format!("Error: {text}")).changes(changes))
        }
        Err(other) => Err(other),
    }
}

/// Elements of one list that are not in another, each once.
fn without(list: &[Value], other: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for one in list {
        if !other.contains(one) && !out.contains(one) {
            out.push(one.clone());
        }
    }
    out
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

fn reload(s: &mut State<'_, '_>) -> Result<()> {
    s.salt("firewalld.reload_rules", Vec::new())?;
    Ok(())
}

fn service(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let known = s.salt("firewalld.get_services", Vec::new())?;
    let is_new = !array(known).iter().any(|other| other.is_str(&name));
    // Stock makes it in test mode, too.
    if is_new && !s.test {
        s.salt_with(
            "firewalld.new_service",
            [name.as_str().into()],
            map! {"restart" => false},
        )?;
    }
    let mut changes = Map::new();
    let mut result = Ok(());
    for (arg, one) in [("ports", "port"), ("protocols", "protocol")] {
        if result.is_ok() {
            result = service_part(s, &mut changes, (arg, one), is_new && s.test);
        }
    }
    if let Err(fault) = result {
        return outcome(Err(fault), changes);
    }
    if changes.is_empty() {
        return Ok(StateOutcome::good(format!(
            "'{name}' is already in the desired state."
        )));
    }
    if s.test {
        let text = format!("Configuration for '{name}' will change.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    reload(s)?;
    Ok(StateOutcome::good(format!("'{name}' was configured.")).changes(changes))
}

/// Gives a service exactly these ports or protocols.
fn service_part(
    s: &mut State<'_, '_>,
    changes: &mut Map,
    (arg, one): (&str, &str),
    is_new: bool,
) -> Result<()> {
    let name = Value::from(s.name());
    let wanted = s.list(arg);
    let now = match is_new {
        true => Vec::new(),
        false => array(s.salt(&format!("firewalld.get_service_{arg}"), [name.clone()])?),
    };
    let (new, old) = (without(&wanted, &now), without(&now, &wanted));
    if !s.test {
        for (verb, list) in [("add", &new), ("remove", &old)] {
            for value in list {
                let fun = format!("firewalld.{verb}_service_{one}");
                s.salt(&fun, [name.clone(), value.clone()])?;
            }
        }
    }
    if !new.is_empty() || !old.is_empty() {
        changes.set(arg, old_new(now, wanted));
    }
    Ok(())
}

/// The arguments for an element of a list of a zone: the zone, and the element.
type Arguments = fn(&Value, &Value) -> (Vec<Value>, Map);

/// A list of a zone's settings.
struct Part {
    arg: &'static str,
    /// Its key in the changes.
    key: &'static str,
    list: &'static str,
    add: &'static str,
    remove: &'static str,
    args: Arguments,
}

fn zone_first(zone: &Value, one: &Value) -> (Vec<Value>, Map) {
    (vec![zone.clone(), one.clone()], Map::new())
}

fn zone_last(zone: &Value, one: &Value) -> (Vec<Value>, Map) {
    (vec![one.clone(), zone.clone()], Map::new())
}

const FORWARD: [&str; 4] = [
    "Source port",
    "Destination port",
    "Protocol",
    "Destination address",
];

fn forward(zone: &Value, one: &Value) -> (Vec<Value>, Map) {
    let value = |key| {
        one.as_map()
            .and_then(|m| m.get(key))
            .cloned()
            .unwrap_or_default()
    };
    let mut args = vec![zone.clone()];
    args.extend(FORWARD.map(value));
    (args, Map::new())
}

const ICMP: Part = Part {
    arg: "block_icmp",
    key: "icmp_types",
    list: "list_icmp_block",
    add: "block_icmp",
    remove: "allow_icmp",
    args: zone_first,
};

const PARTS: &[Part] = &[
    Part {
        arg: "ports",
        key: "ports",
        list: "list_ports",
        add: "add_port",
        remove: "remove_port",
        args: zone_first,
    },
    Part {
        arg: "port_fwd",
        key: "port_fwd",
        list: "list_port_fwd",
        add: "add_port_fwd",
        remove: "remove_port_fwd",
        args: forward,
    },
    Part {
        arg: "services",
        key: "services",
        list: "list_services",
        add: "add_service",
        remove: "remove_service",
        args: zone_last,
    },
    Part {
        arg: "interfaces",
        key: "interfaces",
        list: "get_interfaces",
        add: "add_interface",
        remove: "remove_interface",
        args: zone_first,
    },
    Part {
        arg: "sources",
        key: "sources",
        list: "get_sources",
        add: "add_source",
        remove: "remove_source",
        args: zone_first,
    },
    Part {
        arg: "rich_rules",
        key: "rich_rules",
        list: "get_rich_rules",
        add: "add_rich_rule",
        remove: "remove_rich_rule",
        args: zone_first,
    },
];

fn present(s: &mut State<'_, '_>) -> Result {
    let mut changes = Map::new();
    let name = s.name();
    if let Err(fault) = zone(s, &mut changes) {
        let failed = outcome(Err(fault), changes)?;
        if failed.changes.truthy() {
            reload(s)?;
        }
        return Ok(failed);
    }
    if changes.is_empty() {
        return Ok(StateOutcome::good(format!(
            "'{name}' is already in the desired state."
        )));
    }
    if s.test {
        let mut lines = vec![format!("Configuration for '{name}' will change:")];
        shown(&changes.into(), 0, &mut lines);
        return Ok(StateOutcome::would(lines.join("\n").trim_end()));
    }
    reload(s)?;
    Ok(StateOutcome::good(format!("'{name}' was configured.")).changes(changes))
}

fn permanent() -> Map {
    map! {"permanent" => true}
}

fn zone(s: &mut State<'_, '_>, changes: &mut Map) -> Result<()> {
    let name = s.name();
    let own = Value::from(name.as_str());
    let zones = array(s.salt_with("firewalld.get_zones", Vec::new(), permanent())?);
    if !zones.contains(&own) {
        if !s.test {
            s.salt("firewalld.new_zone", [own.clone()])?;
        }
        changes.set(name.as_str(), old_new(zones, name.as_str()));
    }
    if s.flag("block_icmp") || s.flag("prune_block_icmp") {
        let mut wanted = s.list("block_icmp");
        let now = array(s.salt_with("firewalld.list_icmp_block", [own.clone()], permanent())?);
        if !wanted.is_empty() {
            let known = array(s.salt_with("firewalld.get_icmp_types", Vec::new(), permanent())?);
            wanted.retain(|kind| known.contains(kind));
        }
        part(s, changes, &ICMP, wanted, now)?;
    }
    if s.flag("default") {
        let old = s.salt("firewalld.default_zone", Vec::new())?;
        if old != own {
            if !s.test {
                s.salt("firewalld.set_default_zone", [own.clone()])?;
            }
            changes.set("default", old_new(old, name.as_str()));
        }
    }
    masquerade(s, changes, &own)?;
    for one in PARTS {
        if !s.flag(one.arg) && !s.flag(&format!("prune_{}", one.arg)) {
            continue;
        }
        let wanted = match one.arg {
            "rich_rules" => s
                .list(one.arg)
                .iter()
                .map(|rule| normalized(&python::str(rule)).into())
                .collect(),
            "port_fwd" => s
                .list(one.arg)
                .iter()
                .map(parsed_forward)
                .collect::<Result<_>>()?,
            arg => s.list(arg),
        };
        let mut now = array(s.salt_with(
            &format!("firewalld.{}", one.list),
            [own.clone()],
            permanent(),
        )?);
        if one.arg == "port_fwd" {
            now = now
                .iter()
                .filter_map(Value::as_map)
                .map(ordered_forward)
                .collect();
        }
        part(s, changes, one, wanted, now)?;
    }
    Ok(())
}

fn masquerade(s: &mut State<'_, '_>, changes: &mut Map, zone: &Value) -> Result<()> {
    let now = s.salt_with("firewalld.get_masquerade", [zone.clone()], permanent())?;
    if s.arg("masquerade").is_nil() || s.flag("masquerade") == now.truthy() {
        return Ok(());
    }
    let (fun, text) = if now.truthy() {
        (
            "firewalld.remove_masquerade",
            "Masquerading successfully disabled.",
        )
    } else {
        ("firewalld.add_masquerade", "Masquerading successfully set.")
    };
    if !s.test {
        s.salt_with(fun, [zone.clone()], permanent())?;
    }
    changes.set("masquerade", old_new(now, text));
    Ok(())
}

/// Adds what a list lacks, and with prune removes what it should not have.
fn part(
    s: &mut State<'_, '_>,
    changes: &mut Map,
    part: &Part,
    wanted: Vec<Value>,
    now: Vec<Value>,
) -> Result<()> {
    let zone = Value::from(s.name());
    let prune = s.flag(&format!("prune_{}", part.arg));
    let new = without(&wanted, &now);
    let old = if prune {
        without(&now, &wanted)
    } else {
        Vec::new()
    };
    if !s.test {
        for (fun, list) in [(part.add, &new), (part.remove, &old)] {
            for one in list {
                let (args, mut kwargs) = (part.args)(&zone, one);
                kwargs.set("permanent", true);
                s.salt_with(&format!("firewalld.{fun}"), args, kwargs)?;
            }
        }
    }
    if new.is_empty() && old.is_empty() {
        return Ok(());
    }
    let after = match prune {
        true => wanted,
        // What stays is shown, too.
        false => now.iter().chain(&new).cloned().collect(),
    };
    changes.set(part.key, old_new(now, after));
    Ok(())
}

/// `from_port:to_port:protocol[:destination]`.
fn parsed_forward(text: &Value) -> Result<Value> {
    let text = python::str(text);
    let mut parts: Vec<&str> = text.split(':').collect();
    if parts.len() == 3 {
        parts.push("");
    }
    let &[src, dest, proto, to] = parts.as_slice() else {
        let text = if parts.len() > 4 {
            "too many values to unpack (expected 4)".to_owned()
        } else {
            format!(
                "not enough values to unpack (expected 3, got {})",
                parts.len()
            )
        };
        return Err(CallError::raised("ValueError", text));
    };
    let mut map = Map::new();
    for (key, value) in FORWARD.into_iter().zip([src, dest, proto, to]) {
        map.set(key, value);
    }
    Ok(map.into())
}

/// A forwarded port with its keys in the order of declared ones.
fn ordered_forward(known: &Map) -> Value {
    let mut map = Map::new();
    for key in FORWARD {
        map.set(key, known.get(key).cloned().unwrap_or_default());
    }
    map.into()
}

/// A rich rule whose values are in double quotes, as firewall-cmd prints it.
fn normalized(rule: &str) -> String {
    let word = |word: &str| {
        let Some((key, value)) = word.split_once('=') else {
            return word.to_owned();
        };
        if value.starts_with('"') || value.ends_with('"') {
            return word.to_owned();
        }
        let inner = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
        format!("{key}=\"{}\"", inner.unwrap_or(value))
    };
    let words: Vec<String> = rule.split(' ').map(word).collect();
    words.join(" ").trim_start().to_owned()
}

/// The changes as the command line shows them (stock's outputter `nested`, without colours).
fn shown(value: &Value, indent: usize, lines: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    match value {
        Value::Map(map) => {
            if indent > 0 {
                lines.push(format!("{pad}----------"));
            }
            let mut entries: Vec<_> = map
                .iter()
                .map(|(key, value)| (python::str(key), value))
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            for (key, value) in entries {
                lines.push(format!("{pad}{key}:"));
                shown(value, indent + 4, lines);
            }
        }
        Value::Array(list) => {
            for one in list {
                match one {
                    Value::Map(_) | Value::Array(_) => {
                        lines.push(format!("{pad}|_"));
                        shown(one, indent + 2, lines);
                    }
                    other => lines.push(format!("{pad}- {}", python::str(other))),
                }
            }
        }
        other => lines.extend(
            python::str(other)
                .lines()
                .map(|line| format!("{pad}{line}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn rich_rules() {
        let wanted = "rule family=\"ipv4\" port port=\"22\" protocol=\"tcp\" accept";
        assert_eq!(
            normalized("rule family='ipv4' port port=22 protocol=\"tcp\" accept"),
            wanted
        );
    }
}
