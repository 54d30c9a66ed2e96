//! The engine itself: its version, what it knows of its host, and tidying up.

use super::super::Call;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_numbers() {
        let of = |text: &str| numbers(text).len();
        assert_eq!((of("20.10.24+dfsg1"), of("1.41"), of("x")), (3, 2, 0));
    }
}
