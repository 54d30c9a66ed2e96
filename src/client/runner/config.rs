//! `config.get` (`salt/runners/config.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_wire::Value;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "config.get",
    args: &["key", "?default", "?delimiter"],
    doc: "A value of the master's configuration by its path, such as nodegroups:web.",
    run: get,
}];

fn get(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let key = args.text(0, "key").unwrap_or_default();
    let delimiter = args.text(2, "delimiter").unwrap_or_else(|| ":".into());
    let mut options = context.config.as_map();
    options.0.extend(context.config.extra.0.clone());
    let found = walk(&Value::Map(options), &key, &delimiter);
    let default = || args.get(1, "default").cloned().unwrap_or("".into());
    Ok(found.unwrap_or_else(default).into())
}

/// Looks up maps by key, lists by index (`salt/utils/data.py traverse_dict_and_list`).
fn walk(value: &Value, key: &str, delimiter: &str) -> Option<Value> {
    if delimiter.is_empty() {
        return value.as_map()?.get(key).cloned();
    }
    let mut at = value.clone();
    for part in key.split(delimiter) {
        at = match &at {
            Value::Map(map) => map.get(part)?.clone(),
            Value::Array(items) => match part.parse::<usize>() {
                Ok(n) => items.get(n)?.clone(),
                Err(_) => items
                    .iter()
                    .filter_map(Value::as_map)
                    .find_map(|m| m.get(part))?
                    .clone(),
            },
            _ => return None,
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_through_maps_and_lists() {
        let inner = halite_wire::map! {"b" => vec![Value::Int(7), Value::Map(halite_wire::map! {"c" => 8})]};
        let value = Value::Map(halite_wire::map! {"a" => inner});
        assert_eq!(walk(&value, "a:b:0", ":"), Some(Value::Int(7)));
        assert_eq!(walk(&value, "a/b/c", "/"), Some(Value::Int(8)));
        assert_eq!(walk(&value, "a:x", ":"), None);
    }
}
