//! Mounts recorded by states: the file `mounts` in the cache directory.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::yaml;
use halite_wire::{Map, Value};

fn path(call: &Call<'_>) -> String {
    halite_config::paths::minion::cache::mounts(&call.ctx.cachedir)
        .to_string_lossy()
        .into_owned()
}

fn load(call: &Call<'_>) -> Map {
    let text = command_helpers::read_file(&path(call)).unwrap_or_default();
    let value = yaml::parse(&text).unwrap_or_default();
    value.into_map().unwrap_or_default()
}

fn store(call: &Call<'_>, cache: Map) -> Result {
    let text = yaml::emit(&cache.into(), true);
    // A minion without a daemon may not have one yet.
    let _ = std::fs::create_dir_all(&call.ctx.cachedir);
    match command_helpers::write_file(&path(call), &text) {
        Ok(()) => Ok(true.into()),
        Err(e) => {
            log::error!("Failed to cache mounts: {e}");
            Err(CallError::Command("Unable to write mount cache.".into()))
        }
    }
}

pub(super) fn read(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let cache = load(call);
    let mounts = cache.get("mounts").and_then(Value::as_map);
    let found = mounts.and_then(|m| m.get(&name)).cloned();
    Ok(found.unwrap_or_else(|| Map::new().into()))
}

pub(super) fn write(call: &mut Call<'_>) -> Result {
    let mut cache = load(call);
    if cache.get("mounts").and_then(Value::as_map).is_none() {
        cache.set("mounts", Map::new());
    }
    let entry = map! {
        "device" => call.arg("device").clone(),
        "fstype" => call.arg("fstype").clone(),
        "mkmnt" => call.arg("mkmnt").clone(),
        "opts" => call.arg("mount_opts").clone(),
    };
    let name = python::str(call.arg("real_name"));
    if let Some(Value::Map(mounts)) = cache.get_mut("mounts") {
        mounts.set(name, entry);
    }
    store(call, cache)
}

pub(super) fn delete(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("real_name"));
    let mut cache = load(call);
    let Some(Value::Map(mounts)) = cache.get_mut("mounts") else {
        return Ok(true.into());
    };
    match mounts.remove(&name) {
        Some(_) => store(call, cache),
        None => Ok(true.into()),
    }
}
