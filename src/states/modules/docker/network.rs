//! `docker_network`.

use super::{texts, told, values, with_engine, words};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::docker::{self, Engine, Rules};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub const MODULE: StateModule = StateModule {
    name: "docker_network",
    functions: &[
        StateFunction::new(
            "present",
            |s| with_engine(s, |s, engine| present(s, engine).or_else(told)),
            "Ensures that there is a network of this configuration.",
        )
        .args(args![
            skip_translate = None,
            ignore_collisions = False,
            validate_ip_addrs = True,
            containers = None,
            reconnect = True
        ])
        .keywords(),
        StateFunction::new(
            "absent",
            |s| with_engine(s, absent),
            "Ensures that there is no such network.",
        ),
    ],
};

/// Containers as a list.
fn wanted(s: &State<'_, '_>) -> Option<Vec<String>> {
    match s.arg("containers") {
        Value::Nil => None,
        Value::Str(text) => Some(text.split(',').map(|one| one.trim().to_owned()).collect()),
        Value::Array(list) => Some(texts(list)),
        other => Some(vec![python::str(other)]),
    }
}

/// A container's place in a network that is to be replaced.
struct Member {
    name: String,
    /// Its addresses.
    place: Map,
}

fn members(info: &Map) -> Vec<Member> {
    let all = info.get("Containers").and_then(Value::as_map);
    let mut found: Vec<Member> = all
        .into_iter()
        .flat_map(|all| all.iter())
        .filter_map(|(_, one)| {
            let one = one.as_map()?;
            let mut place = Map::new();
            for (from, to) in [
                ("IPv4Address", "ipv4_address"),
                ("IPv6Address", "ipv6_address"),
            ] {
                if let Some(address) = one.str(from).filter(|a| !a.is_empty()) {
                    let address = address.split('/').next().unwrap_or_default();
                    place.set(to, address);
                }
            }
            Some(Member {
                name: one.str("Name")?.to_owned(),
                place,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn present(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let name = s.name();
    let mut given = s.kwargs.clone();
    for key in ["skip_translate", "ignore_collisions", "validate_ip_addrs"] {
        given.set(key, s.arg(key).clone());
    }
    let rules = Rules::take(&mut given);
    let plan = docker::network_plan(&name, given.clone(), &rules)?;
    let mut warnings = Vec::new();
    let containers = match wanted(s) {
        None => None,
        Some(names) => {
            let (known, missing) = docker::known_containers(engine, &names)?;
            if !missing.is_empty() {
                warnings.push(Value::from(format!(
                    "The following containers do not exist: {}.",
                    missing.join(", ")
                )));
            }
            Some(known)
        }
    };
    let finish = |outcome: StateOutcome| match warnings.is_empty() {
        true => outcome,
        false => outcome.with("warnings", warnings.clone()),
    };
    let Some(now) = docker::find_network(engine, &name)? else {
        if s.test {
            return Ok(finish(StateOutcome::would("Network will be created")));
        }
        return created(engine, &name, &plan.body(), containers.unwrap_or_default()).map(finish);
    };
    let differences = match compare(engine, &now, &given, &rules) {
        Ok(differences) => differences,
        Err(fault) => {
            let text = words(fault)?;
            return Ok(finish(StateOutcome::bad(format!(
                "Failed to create temp network for comparison: {text}"
            ))));
        }
    };
    let before = members(&now);
    if differences.is_empty() {
        return connect_missing(s, engine, &name, &before, containers).map(finish);
    }
    let changes = map! {&name => differences};
    if s.test {
        let outcome = StateOutcome::would("Network would be recreated with new config");
        return Ok(finish(outcome.changes(changes)));
    }
    replaced(
        s,
        engine,
        &name,
        &plan.body()?,
        &before,
        containers,
        changes,
    )
    .map(finish)
}

fn created(engine: &Engine, name: &str, body: &Result<Map>, containers: Vec<String>) -> Result {
    let made = match body {
        Ok(body) => docker::create_network(engine, body),
        Err(fault) => Err(fault.clone()),
    };
    if let Err(fault) = made {
        let text = format!("Failed to create network '{name}': {}", words(fault)?);
        return Ok(StateOutcome::bad(text));
    }
    let mut changes = map! {"created" => true};
    let mut comment = format!("Network '{name}' created");
    let mut good = true;
    let (connected, failed) = connect_all(engine, name, &containers)?;
    if !connected.is_empty() {
        changes.set("connected", values(connected));
    }
    for text in failed {
        good = false;
        comment.push_str(&format!(". {text}"));
    }
    Ok(StateOutcome::new(Some(good), comment).changes(changes))
}

/// Connects containers; those that could not be, with the reason.
fn connect_all(
    engine: &Engine,
    name: &str,
    containers: &[String],
) -> Result<(Vec<String>, Vec<String>)> {
    let (mut connected, mut failed) = (Vec::new(), Vec::new());
    for container in containers {
        match docker::connect(engine, container, name, &Map::new()) {
            Ok(()) => connected.push(container.clone()),
            Err(fault) => failed.push(format!(
                "Failed to connect container '{container}' to network: {}",
                words(fault)?
            )),
        }
    }
    Ok((connected, failed))
}

/// How a network differs from one that is declared like this one.
fn compare(engine: &Engine, now: &Map, given: &Map, rules: &Rules) -> Result<Map> {
    let id = now.str("Id").unwrap_or_default();
    let short = id.get(..12).unwrap_or(id);
    let temporary = format!("halite-{short}-{}", std::process::id());
    let mut body = docker::network_plan(&temporary, given.clone(), rules)?.body()?;
    // Two networks cannot have the same addresses: those are compared without the engine.
    let wanted = body
        .remove("IPAM")
        .and_then(Value::into_map)
        .unwrap_or_default();
    let ipv6 = body.remove("EnableIPv6").unwrap_or(Value::Bool(false));
    let mut now = now.clone();
    let bridge = bridge_name(&mut body, &mut now);
    docker::create_network(engine, &body)?;
    let made = docker::inspect_network(engine, &temporary);
    docker::remove_network(engine, &temporary)?;
    let mut made = made?;
    made.set("EnableIPv6", ipv6);
    if let Some(name) = bridge {
        let mut options = made
            .remove("Options")
            .and_then(Value::into_map)
            .unwrap_or_default();
        options.set(BRIDGE_NAME, name);
        made.set("Options", options);
    }
    let mut own = now
        .remove("IPAM")
        .and_then(Value::into_map)
        .unwrap_or_default();
    let mut ipam = wanted;
    let no_pools = ipam.get("Config").is_none_or(|pools| !pools.truthy());
    if no_pools && !has_own_pools(&own) {
        own.remove("Config");
        ipam.remove("Config");
    }
    now.set("IPAM", own);
    made.set("IPAM", ipam);
    let ignore: Vec<String> = docker::NETWORK_IGNORED
        .split(',')
        .map(str::to_owned)
        .collect();
    Ok(docker::networks_differ(&now, &made, &ignore))
}

/// The option with the name of a bridge on the host.
const BRIDGE_NAME: &str = "com.docker.network.bridge.name";

/// Takes the name of a bridge out of a declaration, since only one network can have it; the name of an existing one does
/// not matter if none is declared.
fn bridge_name(body: &mut Map, now: &mut Map) -> Option<Value> {
    let take = |map: &mut Map| {
        let Some(Value::Map(options)) = map.get_mut("Options") else {
            return None;
        };
        options.remove(BRIDGE_NAME)
    };
    let declared = take(body);
    if declared.is_none() {
        take(now);
    }
    declared
}

/// Whether the pools of a network were declared: those that the engine has chosen have a subnet and a gateway.
fn has_own_pools(ipam: &Map) -> bool {
    let pools = ipam
        .get("Config")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let chosen = |pool: &Value| {
        pool.as_map()
            .is_some_and(|map| map.len() == 2 && map.contains("Subnet") && map.contains("Gateway"))
    };
    !pools.iter().all(chosen)
}

fn connect_missing(
    s: &State<'_, '_>,
    engine: &Engine,
    name: &str,
    before: &[Member],
    containers: Option<Vec<String>>,
) -> Result {
    let mut comment = format!("Network '{name}' already exists, and is configured as specified");
    let is_in = |container: &String| before.iter().any(|m| m.name == *container);
    let mut missing = containers.unwrap_or_default();
    missing.retain(|container| !is_in(container));
    if missing.is_empty() {
        return Ok(StateOutcome::good(comment));
    }
    if s.test {
        comment.push_str(&format!(
            ". Containers would be connected: {}",
            missing.join(", ")
        ));
        return Ok(StateOutcome::would(comment));
    }
    let (connected, failed) = connect_all(engine, name, &missing)?;
    let mut changes = Map::new();
    if !connected.is_empty() {
        changes.set("connected", values(connected));
    }
    for text in &failed {
        comment.push_str(&format!(". {text}"));
    }
    Ok(StateOutcome::new(Some(failed.is_empty()), comment).changes(changes))
}

fn replaced(
    s: &State<'_, '_>,
    engine: &Engine,
    name: &str,
    body: &Map,
    before: &[Member],
    containers: Option<Vec<String>>,
    mut changes: Map,
) -> Result {
    for member in before {
        if let Err(fault) = docker::disconnect(engine, &member.name, name) {
            return Ok(StateOutcome::bad(words(fault)?));
        }
    }
    if let Err(fault) = docker::remove_network(engine, name) {
        return Ok(StateOutcome::bad(words(fault)?));
    }
    if let Err(fault) = docker::create_network(engine, body) {
        let text = format!("Failed to create network '{name}': {}", words(fault)?);
        return Ok(StateOutcome::bad(text));
    }
    changes.set("recreated", true);
    let (mut connected, mut again, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let was_in = |container: &String| before.iter().any(|m| m.name == *container);
    match &containers {
        Some(names) => {
            for container in names {
                match docker::connect(engine, container, name, &Map::new()) {
                    Ok(()) if was_in(container) => again.push(container.clone()),
                    Ok(()) => connected.push(container.clone()),
                    Err(fault) => failed.push(words(fault)?),
                }
            }
        }
        None if s.flag("reconnect") => {
            for member in before {
                // The old address may be in no pool of the new network.
                let done = docker::connect(engine, &member.name, name, &member.place)
                    .or_else(|_| docker::connect(engine, &member.name, name, &Map::new()));
                match done {
                    Ok(()) => again.push(member.name.clone()),
                    Err(fault) => failed.push(words(fault)?),
                }
            }
        }
        None => {}
    }
    let kept = |member: &&Member| connected.contains(&member.name) || again.contains(&member.name);
    let gone: Vec<String> = before
        .iter()
        .filter(|m| !kept(m))
        .map(|m| m.name.clone())
        .collect();
    for (key, list) in [
        ("connected", connected.clone()),
        ("reconnected", again.clone()),
        ("disconnected", gone),
    ] {
        if !list.is_empty() {
            changes.set(key, values(list));
        }
    }
    let mut comment = format!("Network '{name}' was replaced with updated config");
    for text in &failed {
        comment.push_str(&format!(". {text}"));
    }
    Ok(StateOutcome::new(Some(failed.is_empty()), comment).changes(changes))
}

fn absent(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let name = s.name();
    let Some(info) = docker::find_network(engine, &name)? else {
        return Ok(StateOutcome::good(format!(
            "Network '{name}' already absent"
        )));
    };
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Network '{name}' will be removed"
        )));
    }
    let mut changes = Map::new();
    let mut gone = Vec::new();
    let mut failed = Vec::new();
    for container in docker::network_members(&info) {
        match docker::disconnect(engine, &container, &name) {
            Ok(()) => gone.push(container),
            Err(CallError::Command(text)) => failed.push(text),
            Err(fault) => return Err(fault),
        }
    }
    if !gone.is_empty() {
        changes.set("disconnected", values(gone));
    }
    if let Some(text) = failed.first() {
        let text = format!("Failed to disconnect container(s): {text}");
        return Ok(StateOutcome::bad(text).changes(changes));
    }
    match docker::remove_network(engine, &name) {
        Ok(()) => {
            changes.set("removed", true);
            Ok(StateOutcome::good(format!("Removed network '{name}'")).changes(changes))
        }
        Err(fault) => {
            let text = format!("Failed to remove network: {}", words(fault)?);
            Ok(StateOutcome::bad(text).changes(changes))
        }
    }
}
