//! Beacon `status`: results of `status` functions (`salt/beacons/status.py`).

use super::call_function;
use crate::execution::{Context, python};
use halite_wire::{Map, Value};

/// Functions reported when none are configured.
const DEFAULT_FUNCTIONS: [&str; 5] = ["loadavg", "cpustats", "meminfo", "vmstats", "time"];

pub(super) fn poll(ctx: &Context, list: &[Map]) -> Result<Vec<Map>, String> {
    let usual = vec![
        DEFAULT_FUNCTIONS
            .into_iter()
            .map(|name| (name, vec![Value::from("all")]))
            .collect::<Map>(),
    ];
    let list = if list.is_empty() { &usual } else { list };
    let mut values = Map::new();
    for (function, items) in list.iter().flat_map(Map::iter) {
        let function = python::str(function);
        let full = format!("status.{function}");
        if crate::execution::find_for(ctx, &full).is_none() {
            return Err(format!("'{full}'"));
        }
        let items: Vec<Value> = match items {
            Value::Array(items) => items.clone(),
            one => vec![one.clone()],
        };
        let picked = match call_function(ctx, &full, &[]) {
            Ok(data) => select_items(data, &items)?,
            Err(why) => {
                log::debug!(
                    "Status beacon attempted to process function {function} but encountered error: {why}"
                );
                Map::new().into()
            }
        };
        values.set(&function, picked);
    }
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string();
    Ok(vec![halite_wire::map! {"tag" => now, "data" => values}])
}

fn select_items(data: Value, items: &[Value]) -> Result<Value, String> {
    let mut values = Value::Map(Map::new());
    for item in items {
        if item.is_str("all") {
            values = data.clone();
            continue;
        }
        let found = match &data {
            Value::Map(map) => match map.iter().find(|(key, _)| key == item) {
                Some((_, value)) => value.clone(),
                None => {
                    let missing = python::repr(item);
                    return Ok(
                        format!("Status beacon is incorrectly configured: {missing}").into(),
                    );
                }
            },
            Value::Array(list) => {
                let at = python::int(item).map_err(|fault| fault.message().to_owned())?;
                let at = usize::try_from(at).ok().and_then(|at| list.get(at));
                at.cloned()
                    .ok_or_else(|| "list index out of range".to_owned())?
            }
            Value::Str(text) => {
                let at = python::int(item).map_err(|fault| fault.message().to_owned())?;
                let at = usize::try_from(at).ok().and_then(|at| text.chars().nth(at));
                let letter = at.ok_or_else(|| "string index out of range".to_owned())?;
                letter.to_string().into()
            }
            other => {
                let class = python::type_name(other);
                return Err(format!("'{class}' object is not subscriptable"));
            }
        };
        if let Value::Map(map) = &mut values {
            map.0.push((item.clone(), found));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let data: Value = halite_wire::map! {"1-min" => 0.5, "5-min" => 1.5}.into();
        let part = select_items(data.clone(), &["1-min".into()]).unwrap();
        assert_eq!(part, halite_wire::map! {"1-min" => 0.5}.into());
        assert_eq!(select_items(data.clone(), &["all".into()]).unwrap(), data);
        let wrong = select_items(data, &["x".into()]).unwrap();
        assert_eq!(wrong, "Status beacon is incorrectly configured: 'x'".into());
        let letter = select_items("Sat".into(), &[0.into()]).unwrap();
        assert_eq!(python::repr(&letter), "{0: 'S'}");
    }
}
