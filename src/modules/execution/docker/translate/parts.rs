//! Arguments of containers with a form of their own.

use super::super::super::python;
use super::forms::{self, Formed};
use halite_wire::{Map, Value, map, shlex};

/// Words of a command line, or a list of them.
pub fn command(value: &Value) -> Formed {
    match value {
        Value::Array(words) => Ok(Value::Array(
            words.iter().map(|word| python::str(word).into()).collect(),
        )),
        other => {
            let words = shlex::split(&python::str(other))
                .map_err(|e| format!("Unable to perform create_container: {e}"))?;
            Ok(Value::Array(words.into_iter().map(Value::from).collect()))
        }
    }
}

/// Binds as a list; a map is in docker-py's form.
pub fn binds(value: &Value) -> Value {
    let Value::Map(map) = value else {
        return forms::text_list(value);
    };
    let one = |(path, how): &(Value, Value)| -> Value {
        let path = python::str(path);
        let text = match how {
            Value::Map(how) => {
                let mode = match (how.get("ro"), how.get("mode")) {
                    (Some(ro), _) => (if ro.truthy() { "ro" } else { "rw" }).to_owned(),
                    (None, Some(mode)) => python::str(mode),
                    (None, None) => "rw".to_owned(),
                };
                let inside = how.get("bind").map(python::str).unwrap_or_default();
                format!("{path}:{inside}:{mode}")
            }
            inside => format!("{path}:{}:rw", python::str(inside)),
        };
        text.into()
    };
    Value::Array(map.0.iter().map(one).collect())
}

/// A restart policy with its number of tries.
pub fn restart(value: &Value) -> Formed {
    let text = python::str(value);
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (name, count) = match parts[..] {
        [name] => (name, 0),
        [name, count] => {
            let number = count.parse::<i64>();
            (
                name,
                number.map_err(|_| format!("Retry count '{count}' is non-numeric"))?,
            )
        }
        _ => {
            return Err(format!(
                "'{text}' contains {} value(s) (expected up to 2)",
                parts.len()
            ));
        }
    };
    Ok(map! {"Name" => name, "MaximumRetryCount" => count}.into())
}

/// A device of the host and its place in the container.
pub fn device(text: &str) -> Value {
    let parts: Vec<&str> = text.split(':').collect();
    let outside = parts.first().copied().unwrap_or_default();
    map! {
        "PathOnHost" => outside,
        "PathInContainer" => parts.get(1).copied().unwrap_or(outside),
        "CgroupPermissions" => parts.get(2).copied().unwrap_or("rwm"),
    }
    .into()
}

/// The path of a device, and what comes after it.
pub fn device_value(text: &str) -> Formed<(&str, &str)> {
    let parts: Vec<&str> = text.split(':').collect();
    let [path, value] = parts[..] else {
        let n = parts.len();
        return Err(format!("'{text}' contains {n} value(s) (expected 2)"));
    };
    if !path.starts_with('/') {
        return Err(format!("Path '{path}' is not absolute"));
    }
    Ok((path, value))
}

/// A rate of a device.
pub fn rate(text: &str, numeric: bool) -> Formed {
    let (path, rate) = device_value(text)?;
    let rate: Value = match rate.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) if numeric => {
            return Err(format!("Rate '{rate}' for path '{path}' is non-numeric"));
        }
        Err(_) => rate.into(),
    };
    Ok(map! {"Path" => path, "Rate" => rate}.into())
}

/// Limits with their soft and hard numbers.
pub fn ulimits(value: &Value) -> Formed {
    let mut found = Vec::new();
    for text in forms::texts(value) {
        let Some((name, limits)) = text.split_once('=').filter(|_| !text.starts_with('{')) else {
            return Err(format!(
                "Ulimit definition '{text}' is not in the format type=soft_limit[:hard_limit]"
            ));
        };
        let number = |limit: &str| {
            let number = limit.trim().parse::<i64>();
            number.map_err(|_| format!("Limit '{text}' contains non-numeric value(s)"))
        };
        let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
        let (soft, hard) = (number(soft)?, number(hard)?);
        found.push(map! {"Name" => name, "Soft" => soft, "Hard" => hard}.into());
    }
    Ok(Value::Array(found))
}

/// A health check in either spelling.
pub fn health(value: &Value) -> Value {
    let Value::Map(given) = value else {
        return value.clone();
    };
    let mut found = Map::new();
    for (key, other) in [
        ("Test", "test"),
        ("Interval", "interval"),
        ("Timeout", "timeout"),
        ("Retries", "retries"),
        ("StartPeriod", "start_period"),
    ] {
        let given = given
            .get(key)
            .or(given.get(other))
            .cloned()
            .unwrap_or_default();
        let given = match given {
            Value::Str(text) if key == "Test" => {
                Value::Array(vec!["CMD-SHELL".into(), text.into()])
            }
            other => other,
        };
        found.set(key, given);
    }
    found.into()
}
