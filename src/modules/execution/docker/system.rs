//! The engine itself: its version, what it knows of its host, and tidying up.

use super::super::{Call, python};
use super::containers::{as_map, filter_text, keywords};
use super::engine::{Engine, LONG, query};
use super::http::Patience;
use crate::execution::declare::Result;
use halite_wire::{Map, Value};

/// The numbers at the start of a version.
fn numbers(version: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for part in version.split('.') {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse::<i64>() else {
            break;
        };
        found.push(number.into());
    }
    found
}

pub(super) fn version(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut said = as_map(engine.get("/version")??);
    for key in ["Version", "ApiVersion"] {
        let info = said.str(key).map(numbers);
        if let Some(info) = info.filter(|info| !info.is_empty()) {
            said.set(format!("{key}Info"), info);
        }
    }
    Ok(said.into())
}

pub(super) fn info(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(engine.get("/info")??)
}

/// What `prune` removes, in the order of the engine's own command.
const PARTS: [(&str, &str); 5] = [
    ("containers", "/containers/prune"),
    ("images", "/images/prune"),
    ("networks", "/networks/prune"),
    ("build", "/build/prune"),
    ("volumes", "/volumes/prune"),
];

pub(super) fn prune(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let chosen = PARTS
        .iter()
        .any(|(name, _)| *name != "volumes" && call.flag(name));
    let system = match call.arg("system") {
        Value::Nil => !chosen,
        given => given.truthy(),
    };
    let filters = keywords(call);
    let mut found = Map::new();
    for (name, path) in PARTS {
        let wanted = call.flag(name) || (system && name != "volumes");
        if !wanted {
            continue;
        }
        let path = match filters.is_empty() {
            true => path.to_owned(),
            false => {
                let text = filter_text(&filters.clone().into())?;
                format!("{path}?{}", query(&[("filters", text)]))
            }
        };
        let said = engine.post_within(&path, None, Patience::Total(LONG))??;
        found.set(name, said);
    }
    Ok(found.into())
}

/// A number of bytes for people.
pub fn size(bytes: i64) -> String {
    let mut number = bytes as f64;
    if bytes.abs() < 1024 {
        return format!("{bytes} bytes");
    }
    let mut unit = "";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if number.abs() < 1024.0 {
            break;
        }
        number /= 1024.0;
        unit = next;
    }
    format!("{number:.1} {unit}")
}

/// A map with times and sizes that people can read beside those of the engine.
pub fn human(map: Map, without: &[&str]) -> Map {
    let mut shown = Map::new();
    let mut more = Map::new();
    for (key, value) in map.0 {
        let key = python::str(&key);
        if without.contains(&key.as_str()) {
            continue;
        }
        match (key.as_str(), value.as_int()) {
            ("Created", Some(seconds)) => {
                shown.set("Time_Created_Epoch", seconds);
                if let Ok(time) = jiff::Timestamp::from_second(seconds) {
                    let zone = halite_sys::localtime::now().time_zone().clone();
                    let text = time
                        .to_zoned(zone)
                        .strftime("%Y-%m-%d %H:%M:%S %Z")
                        .to_string();
                    more.set("Time_Created_Local", text);
                }
                continue;
            }
            ("Size" | "VirtualSize", Some(bytes)) => more.set(format!("{key}_Human"), size(bytes)),
            _ => {}
        }
        shown.set(key, value);
    }
    shown.0.extend(more.0);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let shown = [0, 1023, 1024, 1_982_286, 5 << 30].map(size);
        assert_eq!(
            shown,
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.9 MiB", "5.0 GiB"]
        );
    }

    #[test]
    fn version_numbers() {
        let of = |text: &str| numbers(text).len();
        assert_eq!((of("20.10.24+dfsg1"), of("1.41"), of("x")), (3, 2, 0));
    }
}
