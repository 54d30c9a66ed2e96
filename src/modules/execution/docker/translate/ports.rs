//! Ports and their bindings.

use super::super::super::python;
use super::forms::{Formed, ip, list};
use halite_wire::{Map, Value, map};

/// Most ports of a range.
const MAX_RANGE: u32 = 65_536;

/// A range of ports as numbers.
fn range(text: &str) -> Formed<Vec<u32>> {
    let wrong = || format!("'{text}' is non-numeric or an invalid port range");
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!(
            "Start of port range ({first}) cannot be greater than end of port range ({last})"
        ));
    }
    if last - first > MAX_RANGE {
        return Err(wrong());
    }
    Ok((first..=last).collect())
}

/// The protocol after a port.
fn protocol(text: &str) -> (&str, &'static str) {
    match text.split_once('/') {
        Some((port, protocol)) if protocol.eq_ignore_ascii_case("udp") => (port, "udp"),
        Some((port, _)) => (port, "tcp"),
        None => (text, "tcp"),
    }
}

/// `ExposedPorts` of an argument `ports`.
pub fn ports(value: &Value) -> Formed<Map> {
    let mut found = Map::new();
    for one in list(value) {
        if matches!(one, Value::Array(_) | Value::Map(_) | Value::Nil) {
            return Err(format!(
                "'{}' is not a valid port definition",
                python::str(&one)
            ));
        }
        let text = python::str(&one);
        let (port, protocol) = protocol(&text);
        for number in range(port)? {
            found.set(format!("{number}/{protocol}"), Map::new());
        }
    }
    Ok(found)
}

/// `PortBindings` of an argument `port_bindings`.
pub fn bindings(value: &Value, validate: bool) -> Formed<Map> {
    if let Value::Map(map) = value {
        return Ok(raw_bindings(map));
    }
    let mut found = Map::new();
    for one in list(value) {
        let text = python::str(&one);
        let parts: Vec<&str> = text.split(':').collect();
        let (host, host_ports, inner) = match parts[..] {
            [inner] => ("", None, inner),
            [host, inner] => ("", Some(host), inner),
            [host, ports, inner] => (host, Some(ports), inner),
            _ => {
                return Err(format!(
                    "'{text}' is an invalid port binding definition (at most 3 components are allowed, found {})",
                    parts.len()
                ));
            }
        };
        if parts.len() == 3 {
            ip(host, validate)?;
        }
        if parts.len() == 2 && host_ports == Some("") {
            return Err(format!(
                "Empty host port in port binding definition '{text}'"
            ));
        }
        if inner.is_empty() {
            return Err(format!(
                "Empty container port in port binding definition '{text}'"
            ));
        }
        let (inner, protocol) = protocol(inner);
        let numbers = range(inner)?;
        let outside: Vec<String> = match host_ports.filter(|p| !p.is_empty()) {
            Some(ports) => range(ports)?.iter().map(u32::to_string).collect(),
            None => vec![String::new(); numbers.len()],
        };
        if outside.len() != numbers.len() {
            return Err(format!(
                "Host port range ({}) does not have the same number of ports as the container port range ({inner})",
                host_ports.unwrap_or_default()
            ));
        }
        for (number, port) in numbers.iter().zip(outside) {
            let key = format!("{number}/{protocol}");
            let binding = Value::from(map! {"HostIp" => host, "HostPort" => port});
            match found.get_mut(&key) {
                Some(Value::Array(all)) => all.push(binding),
                _ => found.set(key, vec![binding]),
            }
        }
    }
    Ok(found)
}

/// `PortBindings` of a map in docker-py's form: host ports, or pairs of address and port, by container port.
pub fn raw_bindings(given: &Map) -> Map {
    let binding = |value: &Value| -> Value {
        let (ip, port) = match value {
            Value::Array(pair) => (
                pair.first().map(python::str).unwrap_or_default(),
                pair.get(1).map(python::str).unwrap_or_default(),
            ),
            Value::Map(map) if map.contains("HostPort") => (
                map.get("HostIp").map(python::str).unwrap_or_default(),
                map.get("HostPort").map(python::str).unwrap_or_default(),
            ),
            Value::Nil => (String::new(), String::new()),
            other => (String::new(), python::str(other)),
        };
        map! {"HostIp" => ip, "HostPort" => port}.into()
    };
    let mut found = Map::new();
    for (key, value) in given.iter() {
        let mut key = python::str(key);
        if !key.contains('/') {
            key.push_str("/tcp");
        }
        let all: Vec<Value> = match value {
            Value::Array(all) => all.iter().map(binding).collect(),
            one => vec![binding(one)],
        };
        found.set(key, all);
    }
    found
}
