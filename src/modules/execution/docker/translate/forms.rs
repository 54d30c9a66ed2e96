//! The forms that several arguments share.

use super::super::super::python;
use halite_wire::{Map, Value};
use std::net::IpAddr;

/// What is wrong with a value.
pub type Formed<T = Value> = std::result::Result<T, String>;

/// A list, a text of words between commas, or one value.
pub fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        Value::Str(text) => text.split(',').map(|part| part.trim().into()).collect(),
        other => vec![other.clone()],
    }
}

/// A list of texts.
pub fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(python::str).collect()
}

/// As [`texts`], as a value.
pub fn text_list(value: &Value) -> Value {
    Value::Array(texts(value).into_iter().map(Value::from).collect())
}

/// An integer.
pub fn int(value: &Value) -> Formed {
    match python::int(value) {
        Ok(number) => Ok(number.into()),
        Err(_) => Err(format!("'{}' is not an integer", python::str(value))),
    }
}

/// An IP address, if they are checked.
pub fn ip(text: &str, validate: bool) -> Formed<()> {
    if !validate || text.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    Err(format!("'{text}' is not a valid IP address"))
}

/// A subnet: an address and a prefix that leaves no bits of it.
pub fn subnet(text: &str) -> Formed<()> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, prefix.parse::<u32>().ok()),
        None => (text, None),
    };
    let fits = |bits: u128, width: u32| {
        prefix.is_none_or(|p| {
            p <= width && (p == width || bits & (u128::MAX >> (128 - (width - p))) == 0)
        })
    };
    let known = text.contains('/') == prefix.is_some();
    let good = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => fits(u32::from(ip).into(), 32),
        Ok(IpAddr::V6(ip)) => fits(ip.into(), 128),
        Err(_) => false,
    };
    if good && known {
        return Ok(());
    }
    Err(format!("'{text}' is not a valid subnet"))
}

/// A path from the root.
pub fn absolute(text: &str) -> Formed<()> {
    if text.starts_with('/') {
        return Ok(());
    }
    Err(format!("'{text}' is not an absolute path"))
}

/// Keys and values: a map as it is, or a list of maps, or one of texts with a separator.
pub fn pairs(value: &Value, separator: char) -> Formed<Map> {
    if let Value::Map(map) = value {
        return Ok(map.clone());
    }
    let parts = list(value);
    let mut found = Map::new();
    if !parts.is_empty() && parts.iter().all(|one| one.as_map().is_some()) {
        for (key, value) in parts
            .into_iter()
            .filter_map(Value::into_map)
            .flat_map(|map| map.0)
        {
            found.set(python::str(&key), value);
        }
        return Ok(found);
    }
    for one in parts {
        let text = python::str(&one);
        let pair = text
            .split_once(separator)
            .filter(|_| one.as_map().is_none());
        let (key, value) =
            pair.ok_or_else(|| format!("'{text}' is not a key{separator}value pair"))?;
        found.set(key, value);
    }
    Ok(found)
}

/// Labels: as [`pairs`], but they may have no value.
pub fn labels(value: &Value) -> Value {
    let parts = match value {
        Value::Array(_) | Value::Str(_) => list(value),
        other => return other.clone(),
    };
    let mut found = Map::new();
    for one in parts {
        match one {
            Value::Map(map) => {
                for (key, value) in map.0 {
                    found.set(python::str(&key), value);
                }
            }
            other => {
                let text = python::str(&other);
                let (key, value) = text.split_once('=').unwrap_or((&text, ""));
                found.set(key, value);
            }
        }
    }
    found.into()
}

/// A map with texts for values.
pub fn with_texts(map: Map) -> Map {
    let text = |(key, value): (Value, Value)| (key, python::str(&value).into());
    Map(map.0.into_iter().map(text).collect())
}

/// A number of bytes with or without a unit; the text of the error names no argument, as that of docker-py does not.
pub fn bytes(value: &Value) -> Formed {
    let text = match value {
        Value::Int(_) | Value::UInt(_) => return Ok(value.clone()),
        Value::Float(f) => return Ok(Value::Int(*f as i64)),
        other => python::str(other),
    };
    let wrong = || {
        format!(
            "The specified value for memory ({text}) should specify the units. The postfix should be one of the `b` `k` \
             `m` `g` characters"
        )
    };
    let lower = text.to_lowercase();
    let mut number = lower.as_str();
    if let Some(short) = number.strip_suffix('b')
        && short.ends_with(|c: char| c.is_ascii_alphabetic())
    {
        number = short;
    }
    let unit = number.chars().last().filter(char::is_ascii_alphabetic);
    let factor: i64 = match unit {
        None | Some('b') => 1,
        Some('k') => 1 << 10,
        Some('m') => 1 << 20,
        Some('g') => 1 << 30,
        Some('t') => 1 << 40,
        Some(_) => return Err(wrong()),
    };
    let number = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match number.parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(Value::Int((n * factor as f64) as i64)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in [
            ("64M", 64 << 20),
            ("1.5g", 3 << 29),
            ("64mb", 64 << 20),
            ("7", 7),
            ("7b", 7),
        ] {
            assert_eq!(bytes(&text.into()), Ok(Value::Int(size)));
        }
        assert!(bytes(&"64X".into()).is_err() && bytes(&"".into()).is_err());
    }

    #[test]
    fn subnets() {
        for good in [
            "10.9.9.0/24",
            "0.0.0.0/0",
            "10.1.1.1/32",
            "fe3f:2180:26:1::/123",
            "::/0",
        ] {
            assert_eq!(subnet(good), Ok(()), "{good}");
        }
        for bad in [
            "10.9.9.5/24",
            "bad",
            "10.9.9.0/33",
            "10.9.9.0/x",
            "fe3f::1/64",
            "",
        ] {
            assert!(subnet(bad).is_err(), "{bad}");
        }
    }
}
