//! States that are tested now and applied later, when somebody agrees.

use super::control;
use super::session::keyword;
use halite_modules::execution::Call;
use halite_modules::execution::declare::Result;
use halite_wire::{Map, Value};

pub(super) fn request(call: &mut Call<'_>) -> Result {
    let mut kwargs = call.bound.kwargs.clone();
    kwargs.set("test", true);
    let mods = call.arg("mods").clone();
    let name = keyword(call, "name")
        .as_str()
        .unwrap_or("default")
        .to_owned();
    let ret = call.salt("state.apply", vec![mods.clone()], kwargs.clone())?;
    let path = control::requests(call);
    let mut all = control::read(&path);
    all.set(
        &name,
        halite_wire::map! {"test_run" => ret.clone(), "mods" => mods, "kwargs" => kwargs},
    );
    control::save(&path, &all)?;
    Ok(ret)
}

pub(super) fn run_request(call: &mut Call<'_>) -> Result {
    let name = call.text("name").unwrap_or_default();
    let path = control::requests(call);
    let all = control::read(&path);
    let Some(Value::Map(kept)) = all.get(&name) else {
        return Ok(Map::new().into());
    };
    let mut kwargs = Map::new();
    for (key, value) in kept
        .get("kwargs")
        .and_then(Value::as_map)
        .into_iter()
        .flat_map(Map::iter)
    {
        if let Some(key) = key
            .as_str()
            .filter(|key| !key.starts_with("__pub_") && *key != "test")
        {
            kwargs.set(key, value.clone());
        }
    }
    let mods = kept.get("mods").cloned().unwrap_or_default();
    let ret = call.salt("state.apply", vec![mods], kwargs)?;
    let mut left = all.clone();
    left.remove(&name);
    if left.is_empty() {
        // There are no more.
        let _ = std::fs::remove_file(&path);
    } else {
        control::save(&path, &left)?;
    }
    Ok(ret)
}
