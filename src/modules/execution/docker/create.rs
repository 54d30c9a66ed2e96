//! Creating containers, and running them for once.

use super::super::{Call, CallError, python};
use super::containers::{self, State, as_map, keywords, segment};
use super::engine::{Engine, LONG, query, timeout};
use super::http::Patience;
use super::translate::{self, Rules};
use super::{images, networks, transfer};
use crate::execution::declare::Result;
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// Creates a container; pulls its image if it is not there.
///
/// # Errors
/// Arguments that cannot be read, or the engine refuses.
pub fn create_from(
    call: &mut Call<'_>,
    engine: &Engine,
    image: &str,
    name: Option<&str>,
    given: Map,
    rules: &Rules,
    timeout: Duration,
) -> Result<Map> {
    if images::find(engine, image)?.is_none() {
        transfer::pull_image(call, engine, image, timeout)?;
    }
    create_only(engine, image, name, given, rules)
}

/// Creates a container from an image that is there.
///
/// # Errors
/// Arguments that cannot be read, or the engine refuses.
pub fn create_only(
    engine: &Engine,
    image: &str,
    name: Option<&str>,
    given: Map,
    rules: &Rules,
) -> Result<Map> {
    let made = translate::container(image, given, rules)?;
    let mut parts = Vec::new();
    if let Some(name) = name {
        parts.push(("name", name.to_owned()));
    }
    if let Some(platform) = made.platform {
        parts.push(("platform", platform));
    }
    let since = Instant::now();
    let path = match parts.is_empty() {
        true => "/containers/create".to_owned(),
        false => format!("/containers/create?{}", query(&parts)),
    };
    let mut ret = as_map(engine.post(&path, Some(&made.body))??);
    ret.set("Time_Elapsed", since.elapsed().as_secs_f64());
    let id = ret.str("Id").unwrap_or_default().to_owned();
    let name = match name {
        Some(name) => name.to_owned(),
        None => name_in(&containers::inspect(engine, &id)?),
    };
    ret.set("Name", name);
    Ok(ret)
}

/// The name of a container in what is known about it.
pub fn name_in(info: &Map) -> String {
    let name = info.str("Name").unwrap_or_default();
    name.trim_start_matches('/').to_owned()
}

pub(super) fn create(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut given = keywords(call);
    for key in ["skip_translate", "ignore_collisions", "validate_ip_addrs"] {
        given.set(key, call.arg(key).clone());
    }
    let rules = Rules::take(&mut given);
    let (image, name) = (call.text("image").unwrap_or_default(), call.text("name"));
    let patience = timeout(Some(call.arg("client_timeout")))?;
    let start = call.flag("start");
    let mut ret = create_from(
        call,
        &engine,
        &image,
        name.as_deref(),
        given,
        &rules,
        patience,
    )?;
    if start {
        let name = ret.str("Name").unwrap_or_default().to_owned();
        match engine.post(&format!("/containers/{}/start", segment(&name)?), None)? {
            Ok(_) => ret.set("Started", true),
            Err(refusal) => {
                return Err(with_info(
                    &refusal.to_string(),
                    "Failed to start container after creation",
                    &ret,
                ));
            }
        }
    }
    Ok(ret.into())
}

/// An error with what has been done so far, as the outputter shows it.
fn with_info(error: &str, before: &str, made: &Map) -> CallError {
    let before = if before.is_empty() {
        String::new()
    } else {
        format!("{before}. ")
    };
    let mut lines = vec![
        format!("{before}{error}. Additional info follows:\n"),
        "other_errors:".to_owned(),
        "    - None".to_owned(),
        "return:".to_owned(),
        "    ----------".to_owned(),
    ];
    let mut keys: Vec<(String, &Value)> = made.iter().map(|(k, v)| (python::str(k), v)).collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, value) in keys {
        lines.push(format!("    {key}:"));
        match value {
            Value::Array(list) => {
                lines.extend(list.iter().map(|v| format!("        - {}", python::str(v))))
            }
            other => lines.push(format!("        {}", python::str(other))),
        }
    }
    CallError::Command(lines.join("\n"))
}

/// What a container is run with.
pub struct Running<'a> {
    /// The image.
    pub image: &'a str,
    /// The name, if it is to have one.
    pub name: Option<&'a str>,
    /// Whether it runs in the background.
    pub background: bool,
    /// Whether it takes the place of one of this name.
    pub replace: bool,
    /// Whether even of a running one.
    pub force: bool,
    /// The networks, or those of the engine.
    pub networks: Option<&'a [(String, Map)]>,
    /// The arguments of the container.
    pub given: Map,
    /// How they are read.
    pub rules: &'a Rules,
    /// How long a pull may be silent.
    pub timeout: Duration,
}

/// Runs a container.
///
/// # Errors
/// It cannot be created or started.
pub fn run_once(call: &mut Call<'_>, engine: &Engine, mut what: Running<'_>) -> Result<Map> {
    if images::find(engine, what.image)?.is_none() {
        transfer::pull_image(call, engine, what.image, what.timeout)?;
    }
    let mut replaced = None;
    if let Some(name) = what.name
        && let Some(info) = containers::find(engine, name)?
    {
        let running = State::of(&info) == State::Running;
        if running && !(what.replace && what.force) {
            return Err(CallError::Command(format!(
                "Container '{name}' exists and is running. Run with replace=True and force=True to force removal of \
                 the existing container."
            )));
        }
        if !running && !what.replace {
            return Err(CallError::Command(format!(
                "Container '{name}' exists. Run with replace=True to remove the existing container"
            )));
        }
        replaced = Some(containers::remove(engine, name, what.force, false)?);
    }
    // The engine would remove it before its output is read.
    let mut remove = false;
    if !what.background {
        for key in ["auto_remove", "rm"] {
            if let Some(value) = what.given.get(key) {
                remove = value.truthy();
                what.given.remove(key);
            }
        }
    }
    let since = Instant::now();
    let made = create_only(engine, what.image, what.name, what.given, what.rules)?;
    let mut ret = made;
    ret.remove("Time_Elapsed");
    if let Some(replaced) = replaced {
        ret.set("Replaces", replaced);
    }
    let id = ret.str("Id").unwrap_or_default().to_owned();
    if let Some(wanted) = what.networks {
        connect_all(engine, &id, wanted)?;
    }
    let start = engine.post(&format!("/containers/{}/start", segment(&id)?), None)?;
    if let Err(refusal) = start {
        if remove {
            // The error tells more than a container that is left.
            let _ = containers::remove(engine, &id, true, true);
        }
        return Err(with_info(&refusal.to_string(), "", &ret));
    }
    if !what.background {
        let followed = [
            ("stderr", "1".to_owned()),
            ("stdout", "1".to_owned()),
            ("timestamps", "0".to_owned()),
            ("follow", "1".to_owned()),
            ("tail", "all".to_owned()),
        ];
        let logs = containers::output(engine, &id, &query(&followed))?;
        let path = format!("/containers/{}/wait", segment(&id)?);
        let said = as_map(engine.post_within(&path, None, Patience::Each(LONG))??);
        ret.set("Time_Elapsed", since.elapsed().as_secs_f64());
        ret.set("Logs", logs);
        ret.set(
            "ExitCode",
            said.get("StatusCode").cloned().unwrap_or_default(),
        );
        if remove {
            containers::remove(engine, &id, true, true)?;
        }
    } else {
        ret.set("Time_Elapsed", since.elapsed().as_secs_f64());
    }
    Ok(ret)
}

/// Connects a new container to these networks, too.
fn connect_all(engine: &Engine, id: &str, wanted: &[(String, Map)]) -> Result<()> {
    let now = networks::of(&containers::inspect(engine, id)?);
    for (name, given) in wanted {
        if !now.contains(name) {
            networks::connect(engine, id, name, given)?;
        }
    }
    Ok(())
}

pub(super) fn run_container(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut given = keywords(call);
    for key in ["skip_translate", "ignore_collisions", "validate_ip_addrs"] {
        given.set(key, call.arg(key).clone());
    }
    let rules = Rules::take(&mut given);
    let wanted = match call.arg("networks") {
        Value::Nil => None,
        Value::Map(map) => Some(
            map.iter()
                .map(|(k, v)| (python::str(k), v.clone().into_map().unwrap_or_default()))
                .collect::<Vec<_>>(),
        ),
        other => Some(
            translate::list(other)
                .iter()
                .map(|n| (python::str(n), Map::new()))
                .collect(),
        ),
    };
    let (image, name) = (call.text("image").unwrap_or_default(), call.text("name"));
    let what = Running {
        image: &image,
        name: name.as_deref(),
        background: call.flag("bg"),
        replace: call.flag("replace"),
        force: call.flag("force"),
        networks: wanted.as_deref(),
        given,
        rules: &rules,
        timeout: timeout(Some(call.arg("client_timeout")))?,
    };
    let missing = networks::missing(&engine, wanted.as_deref().unwrap_or_default())?;
    if !missing.is_empty() {
        return Err(CallError::Command(format!(
            "The following networks are not present: {}",
            missing.join(", ")
        )));
    }
    run_once(call, &engine, what).map(Value::from)
}
