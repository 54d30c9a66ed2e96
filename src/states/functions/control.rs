//! Functions that run no states (`salt/modules/state.py`): active runs, pauses, disabled states, pending requests.

use halite_config::paths::minion::cache;
use halite_ipc::Subscriber;
use halite_modules::bus;
use halite_modules::execution::declare::Result;
use halite_modules::execution::{Call, CallError, proc, python};
use halite_sys::daemon::write_atomic;
use halite_target::{PyRegex, fnmatch};
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value, yaml};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Grain that lists disabled states.
const DISABLED: &str = "state_runs_disabled";
/// How often a paused run looks whether it may go on.
const PAUSE_INTERVAL: Duration = Duration::from_secs(1);
/// Stands for all states of a run.
pub(super) const ALL: &str = "__all__";

/// Running state jobs.
pub(super) fn active(call: &Call<'_>) -> Vec<Map> {
    let mut all = proc::running(&call.ctx.cachedir);
    all.retain(|job| job.str("fun").is_some_and(|fun| fun.starts_with("state.")));
    all
}

pub(super) fn running(call: &mut Call<'_>) -> Result {
    if call.flag("concurrent") {
        return Ok(Value::Array(Vec::new()));
    }
    Ok(messages(call).into())
}

/// The id of the job that asks.
pub(super) fn own_jid<'c>(call: &'c Call<'_>) -> &'c str {
    let job = call.ctx.job.as_ref();
    job.and_then(|job| job.str("jid")).unwrap_or_default()
}

/// Messages about the other state jobs that run.
pub(super) fn messages(call: &Call<'_>) -> Vec<String> {
    let own = own_jid(call);
    let messages = active(call).into_iter().filter_map(|job| {
        let jid = job.str("jid").unwrap_or_default();
        if jid == own {
            return None;
        }
        let time = jid
            .parse::<Jid>()
            .map(|jid| jid.time_text())
            .unwrap_or_default();
        let pid = job.get("pid").map(python::str).unwrap_or_default();
        Some(format!(
            "The function \"{}\" is running as PID {pid} and was started at {time} with jid {jid}",
            job.str("fun").unwrap_or_default()
        ))
    });
    messages.collect()
}

/// State jobs that were started before `jid`.
fn before(call: &Call<'_>, jid: &str) -> Vec<Map> {
    let mut all = active(call);
    all.retain(|job| job.str("jid").is_some_and(|other| other < jid));
    all
}

/// The number of state jobs that were started before `jid`.
pub(super) fn older(call: &Call<'_>, jid: &str) -> usize {
    before(call, jid).len()
}

pub(super) fn prior_running_states(call: &mut Call<'_>) -> Result {
    let jid = call.text("jid").unwrap_or_default();
    let jobs = before(call, &jid).into_iter().map(Value::Map);
    Ok(Value::Array(jobs.collect()))
}

pub(super) fn clear_cache(call: &mut Call<'_>) -> Result {
    let dir = &call.ctx.cachedir;
    let entries =
        std::fs::read_dir(dir).map_err(|e| python::os_error(&e, &dir.to_string_lossy()))?;
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".cache.p") || !entry.path().is_file() {
            continue;
        }
        std::fs::remove_file(entry.path())
            .map_err(|e| python::os_error(&e, &entry.path().to_string_lossy()))?;
        removed.push(Value::from(name));
    }
    Ok(removed.into())
}

pub(super) fn list_disabled(call: &mut Call<'_>) -> Result {
    call.salt("grains.get", vec![DISABLED.into()], Map::new())
}

/// The disabled states as last written; this job's grains may be older.
pub(super) fn disabled(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let conf = Path::new(call.ctx.opts.str("conf_file").unwrap_or_default());
    let text = std::fs::read_to_string(conf.with_file_name("grains")).unwrap_or_default();
    let written = yaml::parse(&text).ok().and_then(Value::into_map);
    if let Some(Value::Array(list)) = written.and_then(|mut map| map.remove(DISABLED)) {
        return Ok(list);
    }
    Ok(match list_disabled(call)? {
        Value::Array(list) => list,
        _ => Vec::new(),
    })
}

pub(super) fn switch(call: &mut Call<'_>, enable: bool) -> Result {
    let states: Vec<String> = match call.arg("states") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other).split(',').map(str::to_owned).collect(),
    };
    let mut disabled = disabled(call)?;
    let mut lines = Vec::new();
    let before = disabled.clone();
    for state in states {
        let at = disabled.iter().position(|known| known.is_str(&state));
        lines.push(match (enable, at) {
            (true, None) => format!("Info: {state} state already enabled."),
            (true, Some(at)) => {
                disabled.remove(at);
                format!("Info: {state} state enabled.")
            }
            (false, Some(_)) => format!("Info: {state} state already disabled."),
            (false, None) => {
                disabled.push(state.as_str().into());
                format!("Info: {state} state disabled.")
            }
        });
    }
    if disabled != before {
        call.salt(
            "grains.setval",
            vec![DISABLED.into(), disabled.into()],
            Map::new(),
        )?;
    }
    call.salt("saltutil.refresh_modules", Vec::new(), Map::new())?;
    Ok(halite_wire::map! {"res" => true, "msg" => lines.join("\n")}.into())
}

/// The pause file of a job. The jid becomes part of a path.
pub(super) fn pause_file(call: &Call<'_>, jid: &str) -> Result<PathBuf> {
    if jid.is_empty() || jid.starts_with('.') || jid.contains(['/', '\0']) {
        Err(CallError::Invocation(format!("'{jid}' is not a jid")))
    } else {
        Ok(cache::state_pause(&call.ctx.cachedir).join(jid))
    }
}

pub(super) fn read(path: &Path) -> Map {
    let bytes = std::fs::read(path).unwrap_or_default();
    msgpack::decode(&bytes)
        .ok()
        .and_then(Value::into_map)
        .unwrap_or_default()
}

pub(super) fn save(path: &Path, data: &Map) -> Result<()> {
    let packed = msgpack::encode_map(data, Profile::Local);
    let dir = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir)
        .and_then(|()| write_atomic(path, &packed, 0o600))
        .map_err(|e| python::os_error(&e, &path.to_string_lossy()))
}

/// Job, state and the job's pauses, with an entry for the state (`_get_pause`).
fn paused(call: &Call<'_>) -> Result<(PathBuf, String, Map)> {
    let jid = call.text("jid").unwrap_or_default();
    let path = pause_file(call, &jid)?;
    let state = call.text("state_id").unwrap_or_else(|| ALL.to_owned());
    let mut data = read(&path);
    if !data.contains(&state) {
        data.set(&state, Map::new());
    }
    Ok((path, state, data))
}

fn set(data: &mut Map, state: &str, key: &str, value: impl Into<Value>) {
    if let Some(Value::Map(entry)) = data.get_mut(state) {
        entry.set(key, value);
    }
}

pub(super) fn pause(call: &mut Call<'_>) -> Result {
    let (path, state, mut data) = paused(call)?;
    if call.flag("duration") {
        set(
            &mut data,
            &state,
            "duration",
            python::int(call.arg("duration"))?,
        );
    }
    save(&path, &data)?;
    Ok(Value::Nil)
}

pub(super) fn soft_kill(call: &mut Call<'_>) -> Result {
    let (path, state, mut data) = paused(call)?;
    set(&mut data, &state, "kill", true);
    save(&path, &data)?;
    Ok(Value::Nil)
}

pub(super) fn resume(call: &mut Call<'_>) -> Result {
    let (path, state, mut data) = paused(call)?;
    data.remove(&state);
    if state == ALL {
        data = Map::new();
    }
    save(&path, &data)?;
    Ok(Value::Nil)
}

pub(super) fn get_pauses(call: &mut Call<'_>) -> Result {
    let dir = cache::state_pause(&call.ctx.cachedir);
    let jids: Vec<String> = match call.arg("jid") {
        Value::Nil => std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        one => vec![python::str(one)],
    };
    let active = active(call);
    let mut ret = Map::new();
    for jid in jids {
        let path = pause_file(call, &jid)?;
        if active.iter().any(|job| job.str("jid") == Some(&jid)) {
            ret.set(&jid, read(&path));
        } else {
            // A finished job has no pauses.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(ret.into())
}

pub(super) fn requests(call: &Call<'_>) -> PathBuf {
    cache::state_request(&call.ctx.cachedir)
}

pub(super) fn check_request(call: &mut Call<'_>) -> Result {
    let path = requests(call);
    if !path.is_file() {
        return Ok(Map::new().into());
    }
    let all = read(&path);
    match call.text("name").filter(|name| !name.is_empty()) {
        None => Ok(all.into()),
        Some(name) => all
            .get(&name)
            .cloned()
            .ok_or_else(|| CallError::raised("KeyError", python::repr(&name.as_str().into()))),
    }
}

pub(super) fn clear_request(call: &mut Call<'_>) -> Result {
    let path = requests(call);
    if !path.is_file() {
        return Ok(true.into());
    }
    let Some(name) = call.text("name").filter(|name| !name.is_empty()) else {
        let _ = std::fs::remove_file(&path);
        return Ok(true.into());
    };
    let mut all = read(&path);
    if all.remove(&name).is_none() {
        return Ok(false.into());
    }
    save(&path, &all)?;
    Ok(true.into())
}

pub(super) fn event(call: &mut Call<'_>) -> Result {
    let opts = &call.ctx.opts;
    let text = |key: &str| opts.str(key).unwrap_or_default();
    let dir = call
        .text("sock_dir")
        .unwrap_or_else(|| text("sock_dir").to_owned());
    let socket = match call.text("node").as_deref() {
        Some("master") => halite_config::paths::master::event_pub(Path::new(&dir)),
        _ => bus::socket(Path::new(&dir), text("hash_type"), text("id"), "pub"),
    };
    let gone = |e: halite_ipc::Error| CallError::Command(format!("the event bus: {e}"));
    let mut bus = Subscriber::connect(socket).map_err(gone)?;
    let pattern = call.text("tagmatch").unwrap_or_default();
    let (quiet, pretty) = (call.flag("quiet"), call.flag("pretty"));
    let mut count = python::int(call.arg("count"))?;
    let regex = PyRegex::new(&format!(r"\A{pattern}\Z")).ok();
    while count != 0 {
        let event = match bus.next(None) {
            Ok(Some(event)) => event,
            Ok(None) | Err(halite_ipc::Error::Event(_)) => continue,
            Err(e) => return Err(gone(e)),
        };
        let tag = event.tag.as_str();
        let fits = |regex: &PyRegex| regex.matches(tag) == Ok(true);
        if !fnmatch(tag, &pattern) && !regex.as_ref().is_some_and(fits) {
            continue;
        }
        if !quiet {
            let data = msgpack::decode(&event.payload).unwrap_or_default();
            let line = format!("{tag}\t{}\n", json(&data, pretty));
            // A closed output is no failure.
            let mut out = std::io::stdout();
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
        if count > 0 {
            count -= 1;
        }
    }
    Ok(Value::Nil)
}

/// Whether a run may go on with a state: waits while it is paused, ends after `state.soft_kill`.
pub(super) fn may_continue(pauses: &Path, id: &str) -> bool {
    loop {
        if !pauses.exists() {
            return true;
        }
        let mut all = read(pauses);
        let mut wait = None;
        for key in [id, ALL] {
            let Some(Value::Map(pause)) = all.get(key) else {
                continue;
            };
            if pause.get("kill").is_some_and(Value::truthy) {
                return false;
            }
            wait = Some((key.to_owned(), pause.int("duration")));
        }
        let Some((key, duration)) = wait else {
            return true;
        };
        match duration {
            Some(seconds) => {
                std::thread::sleep(Duration::from_secs(seconds.max(0).unsigned_abs()));
                all.remove(&key);
                if save(pauses, &all).is_err() {
                    return true;
                }
            }
            None => std::thread::sleep(PAUSE_INTERVAL),
        }
    }
}

/// Like Python's `json.dumps`; `pretty` uses an indent of four and sorted keys.
fn json(data: &Value, pretty: bool) -> String {
    let Ok(mut tree) = serde_json::to_value(data) else {
        return "{}".to_owned();
    };
    if pretty {
        tree.sort_all_objects();
        let mut out = Vec::new();
        let lines = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut writer = serde_json::Serializer::with_formatter(&mut out, lines);
        let _ = tree.serialize(&mut writer);
        return String::from_utf8(out).unwrap_or_default();
    }
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut out, Spaced);
    let _ = tree.serialize(&mut writer);
    String::from_utf8(out).unwrap_or_default()
}

/// JSON on one line with a space after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_as_python_writes_them() {
        let data: Value =
            halite_wire::map! {"b" => vec![Value::Int(1), "x".into()], "a" => Value::Nil}.into();
        assert_eq!(json(&data, false), r#"{"b": [1, "x"], "a": null}"#);
        assert!(json(&data, true).starts_with("{\n    \"a\": null,\n"));
    }
}
