//! Path names, and the files that processes have open.

use super::super::declare::Result;
use super::super::{Call, python};
use super::paths;
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn path(call: &Call<'_>) -> String {
    call.text("path").unwrap_or_default()
}

pub fn pardir(_: &mut Call<'_>) -> Result {
    Ok("..".into())
}

pub fn normpath(call: &mut Call<'_>) -> Result {
    Ok(paths::normpath(&path(call)).into())
}

pub fn basename(call: &mut Call<'_>) -> Result {
    Ok(paths::basename(&path(call)).into())
}

pub fn dirname(call: &mut Call<'_>) -> Result {
    Ok(paths::dirname(&path(call)).into())
}

pub fn join(call: &mut Call<'_>) -> Result {
    let parts: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    let Some((first, rest)) = parts.split_first() else {
        return Err(super::CallError::Type(
            "join() missing 1 required positional argument: 'a'".to_owned(),
        ));
    };
    let joined = rest
        .iter()
        .fold(first.clone(), |dir, part| match part.as_str() {
            "" if !dir.is_empty() && !dir.ends_with('/') => format!("{dir}/"),
            part => paths::join(&dir, part),
        });
    Ok(joined.into())
}

fn entries(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| format!("{dir}/{}", e.file_name().to_string_lossy()))
        .collect()
}

/// All paths that a process or its threads have open, including its program.
fn paths_opened_by(pid: i64) -> BTreeSet<String> {
    let mut links = entries(&format!("/proc/{pid}/fd"));
    for task in entries(&format!("/proc/{pid}/task")) {
        links.push(format!("{task}/exe"));
        links.extend(entries(&format!("{task}/fd")));
    }
    let targets = links.iter().map(|link| paths::realpath(link));
    targets.filter(|target| paths::exists(target)).collect()
}

pub fn open_files(call: &mut Call<'_>) -> Result {
    let mut pids: Vec<i64> = entries("/proc")
        .iter()
        .filter_map(|path| paths::basename(path).parse().ok())
        .collect();
    pids.sort_unstable();
    let mut by_pid = Map::new();
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pid in pids {
        let open = paths_opened_by(pid);
        for path in &open {
            files.entry(path.clone()).or_default().push(pid.into());
        }
        let open = open.into_iter().map(Value::from).collect();
        by_pid.0.push((pid.into(), Value::Array(open)));
    }
    if call.flag("by_pid") {
        return Ok(by_pid.into());
    }
    let files = files
        .into_iter()
        .map(|(path, pids)| (path, Value::Array(pids)));
    Ok(files.collect::<Map>().into())
}
