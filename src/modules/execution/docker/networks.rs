//! Networks and volumes.

use super::super::{Call, CallError};
use super::containers::{self, as_map, filter_text, keywords, maps, name_list, named, segment};
use super::engine::{Engine, query};
use super::translate::{self, Rules};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// The networks of a container, by name.
pub fn of(info: &Map) -> Map {
    let settings = info.get("NetworkSettings").and_then(Value::as_map);
    let networks = settings
        .and_then(|s| s.get("Networks"))
        .and_then(Value::as_map);
    networks.cloned().unwrap_or_default()
}

/// What the engine tells about a network.
///
/// # Errors
/// There is none.
pub fn inspect(engine: &Engine, name: &str) -> Result<Map> {
    Ok(as_map(
        engine.get(&format!("/networks/{}", segment(name)?))??,
    ))
}

/// As [`inspect`]; nothing if there is none.
///
/// # Errors
/// The engine has another reason.
pub fn find(engine: &Engine, name: &str) -> Result<Option<Map>> {
    match engine.get(&format!("/networks/{}", segment(name)?))? {
        Ok(info) => Ok(Some(as_map(info))),
        Err(refusal) if refusal.status == 404 => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Those of some networks that there are not.
///
/// # Errors
/// The engine does not answer.
pub fn missing(engine: &Engine, wanted: &[(String, Map)]) -> Result<Vec<String>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let all = maps(engine.get("/networks")??);
    let is = |name: &str| all.iter().any(|net| net.str("Name") == Some(name));
    let names = wanted.iter().map(|(name, _)| name.clone());
    Ok(names.filter(|name| !is(name)).collect())
}

/// Connects a container to a network.
///
/// # Errors
/// The engine refuses, or the arguments cannot be read.
pub fn connect(engine: &Engine, container: &str, network: &str, given: &Map) -> Result<()> {
    let endpoint = translate::endpoint(given)?;
    let mut body = map! {"Container" => container};
    if !endpoint.is_empty() {
        body.set("EndpointConfig", endpoint);
    }
    engine.post(
        &format!("/networks/{}/connect", segment(network)?),
        Some(&body),
    )??;
    Ok(())
}

/// Takes a container out of a network.
///
/// # Errors
/// The engine refuses.
pub fn disconnect(engine: &Engine, container: &str, network: &str) -> Result<()> {
    let body = map! {"Container" => container};
    engine.post(
        &format!("/networks/{}/disconnect", segment(network)?),
        Some(&body),
    )??;
    Ok(())
}

/// Creates a network.
///
/// # Errors
/// The engine refuses.
pub fn create_from(engine: &Engine, body: &Map) -> Result<Map> {
    Ok(as_map(engine.post("/networks/create", Some(body))??))
}

/// Removes a network.
///
/// # Errors
/// The engine refuses.
pub fn remove(engine: &Engine, name: &str) -> Result<()> {
    engine.delete(&format!("/networks/{}", segment(name)?))??;
    Ok(())
}

/// The names of the containers in a network.
pub fn members(info: &Map) -> Vec<String> {
    let all = info.get("Containers").and_then(Value::as_map);
    let mut names: Vec<String> = all
        .into_iter()
        .flat_map(|all| all.iter())
        .filter_map(|(_, one)| one.as_map()?.str("Name").map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn network_id(call: &Call<'_>) -> String {
    call.text("network_id").unwrap_or_default()
}

pub(super) fn inspect_network(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(inspect(&engine, &network_id(call))?.into())
}

pub(super) fn list(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut filters = Map::new();
    for (arg, key) in [("names", "name"), ("ids", "id")] {
        let names = name_list(call.arg(arg));
        if !names.is_empty() {
            filters.set(key, names.into_iter().map(Value::from).collect::<Vec<_>>());
        }
    }
    let path = match filters.is_empty() {
        true => "/networks".to_owned(),
        false => format!(
            "/networks?{}",
            query(&[("filters", filter_text(&filters.into())?)])
        ),
    };
    let mut found = Vec::new();
    for one in maps(engine.get(&path)??) {
        // Containers are only in what is told about one.
        let id = one.str("Id").unwrap_or_default();
        found.push(Value::from(inspect(&engine, id)?));
    }
    Ok(found.into())
}

pub(super) fn create(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut given = keywords(call);
    for key in ["skip_translate", "ignore_collisions", "validate_ip_addrs"] {
        given.set(key, call.arg(key).clone());
    }
    let rules = Rules::take(&mut given);
    let plan = translate::network(&named(call), given, &rules)?;
    Ok(create_from(&engine, &plan.body()?)?.into())
}

pub(super) fn remove_network(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    remove(&engine, &network_id(call))?;
    Ok(true.into())
}

pub(super) fn connect_container(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    connect(
        &engine,
        &text("container"),
        &text("net_id"),
        &keywords(call),
    )?;
    Ok(true.into())
}

pub(super) fn disconnect_container(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    disconnect(
        &engine,
        &call.text("container").unwrap_or_default(),
        &network_id(call),
    )?;
    Ok(true.into())
}

pub(super) fn disconnect_all(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let id = network_id(call);
    let names = members(&inspect(&engine, &id)?);
    for name in &names {
        disconnect(&engine, name, &id)?;
    }
    Ok(names
        .into_iter()
        .map(Value::from)
        .collect::<Vec<_>>()
        .into())
}

pub(super) fn connected(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let info = inspect(&engine, &named(call))?;
    if call.flag("verbose") {
        return Ok(info.get("Containers").cloned().unwrap_or_default());
    }
    Ok(members(&info)
        .into_iter()
        .map(Value::from)
        .collect::<Vec<_>>()
        .into())
}

/// What the engine tells about a volume; nothing if there is none.
///
/// # Errors
/// The engine has another reason.
pub fn find_volume(engine: &Engine, name: &str) -> Result<Option<Map>> {
    let all = as_map(engine.get("/volumes")??);
    let all = maps(all.get("Volumes").cloned().unwrap_or_default());
    Ok(all.into_iter().find(|one| one.str("Name") == Some(name)))
}

/// Creates a volume.
///
/// # Errors
/// The engine refuses, or the options are no map.
pub fn create_volume_from(
    engine: &Engine,
    name: &str,
    driver: &Value,
    options: &Value,
) -> Result<Map> {
    let mut body = map! {"Name" => name};
    if !driver.is_nil() {
        body.set("Driver", driver.clone());
    }
    match options {
        Value::Map(map) if !map.is_empty() => body.set("DriverOpts", map.clone()),
        Value::Map(_) => {}
        other if !other.truthy() => {}
        _ => {
            return Err(CallError::Command(
                "Unable to perform create_volume: driver_opts must be a dictionary".to_owned(),
            ));
        }
    }
    Ok(as_map(engine.post("/volumes/create", Some(&body))??))
}

/// Removes a volume.
///
/// # Errors
/// The engine refuses.
pub fn remove_volume_named(engine: &Engine, name: &str) -> Result<()> {
    engine.delete(&format!("/volumes/{}", segment(name)?))??;
    Ok(())
}

pub(super) fn volumes(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let filters = call.arg("filters").clone();
    let path = match filters.truthy() {
        true => format!("/volumes?{}", query(&[("filters", filter_text(&filters)?)])),
        false => "/volumes".to_owned(),
    };
    Ok(engine.get(&path)??)
}

pub(super) fn create_volume(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let (driver, options) = (call.arg("driver").clone(), call.arg("driver_opts").clone());
    Ok(create_volume_from(&engine, &named(call), &driver, &options)?.into())
}

pub(super) fn remove_volume(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    remove_volume_named(&engine, &named(call))?;
    Ok(true.into())
}

pub(super) fn inspect_volume(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(engine.get(&format!("/volumes/{}", segment(&named(call))?))??)
}

/// The containers among some names that there are, and the others.
///
/// # Errors
/// The engine does not answer.
pub fn known_containers(engine: &Engine, wanted: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let all: Vec<String> = containers::list(engine, None)?
        .iter()
        .flat_map(containers::names)
        .collect();
    Ok(wanted.iter().cloned().partition(|name| all.contains(name)))
}
