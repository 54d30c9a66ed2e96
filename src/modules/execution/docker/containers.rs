//! Containers: what there are, and starting and stopping them.

use super::super::{Call, CallError, python};
use super::engine::{Engine, LONG, query};
use super::http::{self, Patience};
use super::translate;
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It is paused.
    Paused,
    /// Anything else.
    Stopped,
}

impl State {
    /// Stock's word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Stopped => "stopped",
        }
    }

    /// The state in what the engine tells about a container.
    pub fn of(info: &Map) -> State {
        let state = info.get("State").and_then(Value::as_map);
        let is = |key: &str| state.is_some_and(|s| s.get(key).is_some_and(Value::truthy));
        if is("Paused") {
            State::Paused
        } else if is("Running") {
            State::Running
        } else {
            State::Stopped
        }
    }
}

/// A name as a part of a path.
///
/// # Errors
/// It would lead elsewhere.
pub fn segment(name: &str) -> Result<String> {
    if name.is_empty() || name.split('/').any(|part| part == "." || part == "..") {
        return Err(CallError::Command(format!(
            "Error 400: '{name}' is not a valid name"
        )));
    }
    Ok(http::quoted(name))
}

/// The map in an answer.
pub fn as_map(value: Value) -> Map {
    value.into_map().unwrap_or_default()
}

/// What the engine tells about a container.
///
/// # Errors
/// There is none.
pub fn inspect(engine: &Engine, name: &str) -> Result<Map> {
    Ok(as_map(
        engine.get(&format!("/containers/{}/json", segment(name)?))??,
    ))
}

/// As [`inspect`]; nothing if there is none. The engine takes the start of an id for a name; here that must be twelve digits
/// at least, so that no other container is taken for one that is not there.
///
/// # Errors
/// The engine has another reason.
pub fn find(engine: &Engine, name: &str) -> Result<Option<Map>> {
    let info = match engine.get(&format!("/containers/{}/json", segment(name)?))? {
        Ok(info) => as_map(info),
        Err(refusal) if refusal.status == 404 => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
    };
    let text = |key: &str| info.str(key).unwrap_or_default();
    let named = text("Name").trim_start_matches('/') == name.trim_start_matches('/');
    let meant = named || (name.len() >= 12 && text("Id").starts_with(name));
    Ok(Some(info).filter(|_| meant))
}

/// The state of a container.
///
/// # Errors
/// There is none.
pub fn state(engine: &Engine, name: &str) -> Result<State> {
    inspect(engine, name).map(|info| State::of(&info))
}

/// All containers, as the engine lists them.
///
/// # Errors
/// The engine does not answer.
pub fn list(engine: &Engine, filters: Option<&Value>) -> Result<Vec<Map>> {
    let mut parts = vec![("all", "1".to_owned())];
    if let Some(filters) = filters.filter(|f| f.truthy()) {
        parts.push(("filters", filter_text(filters)?));
    }
    let all = engine.get(&format!("/containers/json?{}", query(&parts)))??;
    Ok(maps(all))
}

/// The maps of a list.
pub fn maps(value: Value) -> Vec<Map> {
    match value {
        Value::Array(list) => list.into_iter().filter_map(Value::into_map).collect(),
        _ => Vec::new(),
    }
}

/// Filters as the engine wants them: lists of texts by name.
///
/// # Errors
/// They are no map.
pub fn filter_text(filters: &Value) -> Result<String> {
    let Value::Map(given) = filters else {
        return Err(CallError::Invocation(
            "filters must be a dictionary".to_owned(),
        ));
    };
    let mut all = Map::new();
    for (key, value) in given.iter() {
        let texts: Vec<Value> = match value {
            Value::Array(list) => list.iter().map(|v| python::str(v).into()).collect(),
            Value::Bool(yes) => vec![(if *yes { "true" } else { "false" }).into()],
            one => vec![python::str(one).into()],
        };
        all.set(python::str(key), texts);
    }
    let text = super::engine::encoded(&all)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The names of a listed container, without their slash.
pub fn names(listed: &Map) -> Vec<String> {
    let names = listed.get("Names").map(Value::str_list).unwrap_or_default();
    names
        .into_iter()
        .map(|name| name.trim_start_matches('/').to_owned())
        .collect()
}

/// Removes a container and says which one it was.
///
/// # Errors
/// It is running and not to be removed then, or the engine refuses.
pub fn remove(engine: &Engine, name: &str, force: bool, volumes: bool) -> Result<Vec<Value>> {
    let before = list(engine, None)?;
    let parts = [("v", volumes.to_string()), ("force", force.to_string())];
    engine.delete(&format!("/containers/{}?{}", segment(name)?, query(&parts)))??;
    let after = list(engine, None)?;
    let gone = before.iter().filter_map(|one| one.get("Id"));
    let still = |id: &Value| after.iter().any(|one| one.get("Id") == Some(id));
    Ok(gone.filter(|id| !still(id)).cloned().collect())
}

/// The container that a function is about.
pub fn named(call: &Call<'_>) -> String {
    call.text("name").unwrap_or_default()
}

/// Keywords of a function, without those for the engine of jobs.
pub fn keywords(call: &Call<'_>) -> Map {
    let mut all = call.bound.kwargs.clone();
    all.0
        .retain(|(key, _)| !key.as_str().is_some_and(|k| k.starts_with("__")));
    all
}

/// Refuses keywords that a function has not.
///
/// # Errors
/// There are some.
pub fn unknown(left: &Map) -> Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    let parts: Vec<String> = left
        .iter()
        .map(|(k, v)| format!("{}={}", python::str(k), python::str(v)))
        .collect();
    Err(CallError::Invocation(format!(
        "The following keyword arguments are not valid: {}",
        parts.join(", ")
    )))
}

pub(super) fn inspect_container(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(inspect(&engine, &named(call))?.into())
}

pub(super) fn inspect_any(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let first = inspect(&engine, &name);
    let places = [
        format!("/images/{}/json", segment(&name)?),
        format!("/volumes/{}", segment(&name)?),
        format!("/networks/{}", segment(&name)?),
    ];
    if first.is_err() {
        for place in places {
            if let Ok(found) = engine.get(&place)? {
                return Ok(found);
            }
        }
    }
    Ok(first?.into())
}

pub(super) fn state_of(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(state(&engine, &named(call))?.word().into())
}

pub(super) fn exists(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let all = list(&engine, None)?;
    Ok(all.iter().any(|one| names(one).contains(&name)).into())
}

pub(super) fn list_containers(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let everything = keywords(call).get("all").is_some_and(Value::truthy);
    let mut found: Vec<String> = list(&engine, None)?
        .iter()
        .filter(|one| {
            everything || one.str("State") == Some("running") || one.str("State") == Some("paused")
        })
        .flat_map(names)
        .collect();
    found.sort();
    Ok(found
        .into_iter()
        .map(Value::from)
        .collect::<Vec<_>>()
        .into())
}

pub(super) fn ps(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let options = keywords(call);
    let is = |name: &str| options.get(name).is_some_and(Value::truthy);
    let filters = call.arg("filters").clone();
    let mut found = Map::new();
    for one in list(&engine, Some(&filters))? {
        let up = matches!(one.str("State"), Some("running" | "paused"));
        if !(up || is("all")) {
            continue;
        }
        let id = one.str("Id").unwrap_or_default().to_owned();
        let mut shown = super::human::human(one, &["Id"]);
        if is("verbose") {
            shown.set("Info", inspect(&engine, &id)?);
        }
        found.set(id, shown);
    }
    if is("host") {
        let interfaces = call.salt("network.interfaces", Vec::new(), Map::new())?;
        found.set("host", map! {"interfaces" => interfaces});
    }
    Ok(found.into())
}

pub(super) fn top(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let said = as_map(engine.get(&format!("/containers/{}/top", segment(&named(call))?))??);
    let titles = said.get("Titles").map(Value::str_list).unwrap_or_default();
    let rows = said
        .get("Processes")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let one = |row: &Value| -> Value {
        let cells = row.str_list().into_iter().map(Value::from);
        Map(titles
            .iter()
            .map(|t| Value::from(t.as_str()))
            .zip(cells)
            .collect())
        .into()
    };
    Ok(rows.iter().map(one).collect::<Vec<Value>>().into())
}

pub(super) fn port(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let info = inspect(&engine, &named(call))?;
    let settings = info.get("NetworkSettings").and_then(Value::as_map);
    let all = settings
        .and_then(|s| s.get("Ports"))
        .and_then(Value::as_map);
    let all = all.cloned().unwrap_or_default();
    let wanted = match call.arg("private_port") {
        Value::Nil => return Ok(all.into()),
        Value::Int(port) => format!("{port}/tcp"),
        other => {
            let text = python::str(other);
            let plain = text.split_once('/').is_some_and(|(port, protocol)| {
                port.parse::<u16>().is_ok() && protocol.chars().all(|c| c.is_ascii_alphabetic())
            });
            if !plain {
                return Err(CallError::Invocation(format!(
                    "Invalid private_port '{text}'. Must either be a port number, or be in port/protocol notation \
                     (e.g. 5000/tcp)"
                )));
            }
            text
        }
    };
    let found = all.get(&wanted).cloned().unwrap_or_default();
    Ok(map! {wanted.as_str() => found}.into())
}

pub(super) fn pid(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let info = inspect(&engine, &named(call))?;
    let state = info.get("State").and_then(Value::as_map);
    Ok(state
        .and_then(|s| s.get("Pid"))
        .cloned()
        .unwrap_or_default())
}

pub(super) fn diff(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let changes = engine.get(&format!("/containers/{}/changes", segment(&named(call))?))??;
    let mut found = Map::new();
    for (number, word) in [(0, "Changed"), (1, "Added"), (2, "Deleted")] {
        let of = maps(changes.clone());
        let paths: Vec<Value> = of
            .iter()
            .filter(|one| one.int("Kind") == Some(number))
            .filter_map(|one| one.get("Path").cloned())
            .collect();
        if !paths.is_empty() {
            found.set(word, paths);
        }
    }
    Ok(found.into())
}

pub(super) fn commit(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let mut parts = vec![
        ("container", named(call)),
        ("repo", text("repository")),
        ("tag", text("tag")),
    ];
    for (arg, key) in [("message", "comment"), ("author", "author")] {
        if call.flag(arg) {
            parts.push((key, text(arg)));
        }
    }
    let since = std::time::Instant::now();
    let said = as_map(engine.post(&format!("/commit?{}", query(&parts)), Some(&Map::new()))??);
    let id = said.get("Id").cloned().unwrap_or_default();
    Ok(map! {"Time_Elapsed" => since.elapsed().as_secs_f64(), "Id" => id}.into())
}

/// Arguments of `logs` that the API has as numbers or texts.
const LOG_ARGS: [&str; 8] = [
    "stdout",
    "stderr",
    "stream",
    "timestamps",
    "tail",
    "since",
    "follow",
    "until",
];

pub(super) fn logs(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut options = keywords(call);
    for key in ["stdout", "stderr"] {
        if !options.contains(key) {
            options.set(key, true);
        }
    }
    let mut parts = Vec::new();
    for (key, value) in options.iter() {
        let key = python::str(key);
        let Some(name) = LOG_ARGS.into_iter().find(|n| *n == key) else {
            return Err(CallError::Command(format!(
                "Unable to perform logs: ContainerApiMixin.logs() got an unexpected keyword argument '{key}'"
            )));
        };
        match value {
            Value::Bool(yes) => parts.push((name, i64::from(*yes).to_string())),
            Value::Nil => {}
            other => parts.push((name, python::str(other))),
        }
    }
    output(&engine, &named(call), &query(&parts)).map(Value::from)
}

/// What a container has written.
///
/// # Errors
/// There is none.
pub fn output(engine: &Engine, name: &str, query: &str) -> Result<String> {
    let path = format!("/containers/{}/logs?{query}", segment(name)?);
    let answer = engine.send("GET", &path, &[], http::Body::None, Patience::Each(LONG))??;
    let info = inspect(engine, name).ok();
    let config = info.as_ref().and_then(|i| i.get("Config")?.as_map());
    let tty = config.is_some_and(|c| c.get("Tty").is_some_and(Value::truthy));
    let bytes = engine.bytes(answer)?;
    if tty {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let (out, _, _) = super::stream::parted(&bytes);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Names in an argument that is a list or a text with commas.
pub fn name_list(value: &Value) -> Vec<String> {
    match value {
        Value::Nil => Vec::new(),
        other => translate::list(other).iter().map(python::str).collect(),
    }
}
