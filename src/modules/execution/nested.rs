//! Lookup in nested data by a path such as `a:b:0`.

use super::declare::Result;
use super::{Call, CallError, python};
use halite_target::fnmatch;
use halite_wire::yaml::yamlify_arg;
use halite_wire::{Map, Value};

/// Default path delimiter.
pub const DELIMITER: &str = ":";

/// The value at a path, as in `salt/utils/data.py traverse_dict_and_list`: lists are indexed by number or searched
/// for the first map with the key; map keys may be numbers or booleans.
pub fn traverse<'a>(data: &'a Map, key: &Value, delimiter: &str) -> Option<&'a Value> {
    let text = python::str(key);
    if text.is_empty() && data.is_empty() {
        return None;
    }
    let mut parts = match key {
        Value::Str(_) if !delimiter.is_empty() => text.split(delimiter).collect(),
        _ => vec![text.as_str()],
    }
    .into_iter();
    let mut at = in_map(data, parts.next()?)?;
    for part in parts {
        at = match at {
            Value::Map(map) => in_map(map, part)?,
            Value::Array(list) => in_list(list, part)?,
            _ => return None,
        };
    }
    Some(at)
}

fn in_map<'a>(map: &'a Map, key: &str) -> Option<&'a Value> {
    if let Some(found) = map.get(key) {
        return Some(found);
    }
    let loaded = yamlify_arg(key);
    find(map, &loaded)
}

fn find<'a>(map: &'a Map, key: &Value) -> Option<&'a Value> {
    map.iter().find(|(k, _)| k == key).map(|(_, v)| v)
}

fn in_list<'a>(list: &'a [Value], key: &str) -> Option<&'a Value> {
    let maps = || list.iter().filter_map(Value::as_map);
    let Ok(index) = key.trim().parse::<i64>() else {
        return maps().find_map(|m| m.get(key));
    };
    if let Some(found) = maps().find_map(|m| find(m, &index.into())) {
        return Some(found);
    }
    let at = if index < 0 {
        list.len()
            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    list.get(at)
}

/// Merges maps recursively like `salt/utils/dictupdate.py update`; `over` wins. Lists are replaced, or with
/// `merge_lists` extended by missing items.
pub fn update(base: &mut Map, over: &Map, merge_lists: bool) {
    for (key, value) in over.iter() {
        let slot = base.0.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v);
        match (slot, value) {
            (Some(Value::Map(own)), Value::Map(new)) => update(own, new, merge_lists),
            (Some(Value::Array(own)), Value::Array(new)) if merge_lists => {
                let fresh: Vec<Value> = new.iter().filter(|v| !own.contains(v)).cloned().collect();
                own.extend(fresh);
            }
            (Some(slot), value) => *slot = value.clone(),
            (None, value) => base.0.push((key.clone(), value.clone())),
        }
    }
}

/// A flag, as in `salt/utils/data.py is_true`: `True`, a positive number, or the text `true`.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Str(text) => match text.trim().parse::<f64>() {
            Ok(number) => number > 0.0,
            Err(_) => text.to_lowercase() == "true",
        },
        Value::Int(i) => *i > 0,
        Value::Float(f) => *f > 0.0,
        other => other.truthy(),
    }
}

/// Selects the entry of `lookup_dict` whose key matches the value at the path in argument `name` (`salt/utils/data.py
/// filter_by`).
///
/// # Errors
/// The lookup is not a map.
pub fn filter_by(call: &Call<'_>, data: &Map, name: &str) -> Result {
    let Value::Map(lookup) = call.arg("lookup_dict") else {
        return Err(CallError::raised(
            "AttributeError",
            "the lookup must be a dictionary",
        ));
    };
    let grain = traverse(data, call.arg(name), DELIMITER);
    let wanted: Vec<String> = match grain {
        Some(Value::Array(list)) => list.iter().map(python::str).collect(),
        Some(value) => vec![python::str(value)],
        None => Vec::new(),
    };
    let picked = wanted.iter().find_map(|w| {
        lookup
            .iter()
            .find(|(k, _)| fnmatch(w, &python::str(k)))
            .map(|(_, v)| v.clone())
    });
    // Keys may be numbers.
    let value_of = |key: &Value| {
        let mut pairs = lookup.iter();
        pairs.find(|(k, _)| k == key).map(|(_, v)| v.clone())
    };
    let default = || value_of(call.arg("default"));
    let mut ret = picked.or_else(default).unwrap_or_default();
    if let Some(base) = value_of(call.arg("base")).filter(|_| call.flag("base")) {
        ret = match (base, ret) {
            (Value::Map(mut base), Value::Map(own)) => {
                update(&mut base, &own, false);
                base.into()
            }
            (base, Value::Nil) => base,
            (_, own) => own,
        };
    }
    if let Value::Map(over) = call.arg("merge") {
        match &mut ret {
            Value::Map(own) => update(own, over, false),
            Value::Nil => ret = over.clone().into(),
            _ => {}
        }
    }
    Ok(ret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn walks_as_salt() {
        let inner: Value = map! {"x" => "y"}.into();
        let mut data = map! {
            "a" => map! {"b" => "c"}, "l" => vec![1.into(), 2.into(), inner], "s" => "str", "n" => Value::Nil,
        };
        data.0.push((Value::Int(8), "eight".into()));
        let get = |path: &str| traverse(&data, &path.into(), ":").cloned();
        assert_eq!(get("a:b"), Some("c".into()));
        assert_eq!(get("l:1"), Some(2.into()));
        assert_eq!(get("l:-2"), Some(2.into()));
        assert_eq!(get("l:x"), Some("y".into()));
        assert_eq!(get("8"), Some("eight".into()));
        for none in ["a:x", "l:9", "l:-9", "s:x", "n:x", "", "zz", "l:zz"] {
            assert_eq!(get(none), None, "{none}");
        }
        assert_eq!(traverse(&data, &"a/b".into(), "/"), Some(&"c".into()));
        assert_eq!(traverse(&data, &8.into(), ":"), Some(&"eight".into()));
    }
}
