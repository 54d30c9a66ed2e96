//! What ARENA's own tools ask an orchestrator for by HTTP: `GET /api/runtimes/`, `/api/modules/` and `/api/queued/`, to find the
//! uuid of a name (reference, section 7; `libsilverline`). For halite-api. Arguments and environments of modules are left out:
//! nobody logs in there.

use crate::registry::{ArenaStore, KeptModule, KeptRuntime, Snapshot};
use crate::wire::{RuntimeState, State};
use halite_wire::{Map, Value};
use std::io;
use std::path::Path;

/// The answer for a path below `/api`: `None` if there is nothing.
///
/// # Errors
/// The records of the gateway below this `cachedir` cannot be read.
pub fn answer(cachedir: &Path, path: &[&str]) -> io::Result<Option<Value>> {
    // Reading all of it takes a while.
    if !matches!(
        *path,
        ["runtimes" | "modules" | "queued"] | ["runtimes" | "modules", _]
    ) {
        return Ok(None);
    }
    let snapshot = ArenaStore::new(cachedir).load()?;
    Ok(found(&snapshot, path))
}

fn found(snapshot: &Snapshot, path: &[&str]) -> Option<Value> {
    let of_state = |state: State| {
        let all = snapshot.modules.iter();
        all.filter(move |kept| kept.module.state == state)
    };
    match *path {
        ["runtimes"] => {
            let alive = snapshot.runtimes.iter().filter(|kept| is_alive(kept));
            Some(list("runtimes", alive.map(|kept| runtime(snapshot, kept))))
        }
        ["modules"] => Some(list("modules", of_state(State::Alive).map(module))),
        ["queued"] => Some(list("queued", of_state(State::Queued).map(module))),
        ["runtimes", name] => {
            let all = snapshot.runtimes.iter();
            let all = all.map(|kept| (kept.runtime.uuid.as_str(), &*kept.runtime.name, kept));
            let kept = named(all, name, is_alive)?;
            let mut row = runtime(snapshot, kept);
            row.set("apis", kept.runtime.apis.clone());
            row.set("max_nmodules", kept.runtime.max_modules);
            row.set("ka_interval_sec", kept.runtime.keepalive);
            row.set("status", if is_alive(kept) { "A" } else { "D" });
            Some(row.into())
        }
        ["modules", name] => {
            let all = snapshot.modules.iter();
            let all = all.map(|kept| (kept.module.uuid.as_str(), &*kept.module.name, kept));
            let lives = |kept: &KeptModule| kept.module.state != State::Dead;
            let kept = named(all, name, lives)?;
            let mut row = module(kept);
            row.set("apis", kept.module.apis.clone());
            row.set("status", letter(kept.module.state));
            Some(row.into())
        }
        _ => None,
    }
}

/// By the whole uuid, which may be that of something that has ended, by name, or by the last digits of the uuid.
fn named<'a, T>(
    all: impl Iterator<Item = (&'a str, &'a str, &'a T)> + Clone,
    given: &str,
    lives: impl Fn(&T) -> bool,
) -> Option<&'a T> {
    let living = all.clone().filter(|(_, _, kept)| lives(kept));
    let by_uuid = all.into_iter().find(|(uuid, _, _)| *uuid == given);
    let by_name = || living.clone().find(|(_, name, _)| *name == given);
    let by_end = || living.clone().find(|(uuid, _, _)| uuid.ends_with(given));
    let found = by_uuid.or_else(by_name).or_else(by_end);
    found.map(|(_, _, kept)| kept)
}

/// Tools of 2023 read `results`, older ones the name of the list.
fn list(name: &str, rows: impl Iterator<Item = Map>) -> Value {
    let rows: Vec<Value> = rows.map(Value::Map).collect();
    halite_wire::map! {
        "count" => rows.len() as u64, "start" => 0, "results" => Value::Array(rows.clone()),
        name => Value::Array(rows),
    }
    .into()
}

fn is_alive(kept: &KeptRuntime) -> bool {
    kept.runtime.state == RuntimeState::Alive
}

fn letter(state: State) -> &'static str {
    match state {
        State::Alive => "A",
        State::Dead => "D",
        State::Exiting => "E",
        State::Killed => "K",
        State::Queued => "Q",
    }
}

fn runtime(snapshot: &Snapshot, kept: &KeptRuntime) -> Map {
    let uuid = &kept.runtime.uuid;
    let on_it = |state: State| {
        let all = snapshot.modules.iter();
        let own = all.filter(|one| one.module.runtime.as_ref() == Some(uuid));
        let rows = own.filter(|one| one.module.state == state).map(module);
        Value::Array(rows.map(Value::Map).collect())
    };
    halite_wire::map! {
        "uuid" => uuid.as_str(), "name" => kept.runtime.name.as_str(),
        "runtime_type" => kept.runtime.kind.as_str(),
        "children" => on_it(State::Alive), "queued" => on_it(State::Queued),
    }
}

/// Without user and password of an address.
fn without_login(file: &str) -> String {
    match file.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => file.to_owned(),
    }
}

/// `filename` is for older tools.
fn module(kept: &KeptModule) -> Map {
    let module = &kept.module;
    let parent = module.runtime.as_ref();
    let file = without_login(&module.file);
    halite_wire::map! {
        "uuid" => module.uuid.as_str(), "name" => module.name.as_str(),
        "parent" => parent.map_or(Value::Nil, |uuid| uuid.as_str().into()),
        "file" => &*file, "filename" => &*file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::snapshot;

    fn at(path: &[&str]) -> Option<Map> {
        found(&snapshot(), path).and_then(Value::into_map)
    }

    fn names(map: &Map, list: &str) -> Vec<String> {
        let rows = map.get(list).and_then(Value::as_array).unwrap();
        let uuid = |row: &Value| row.as_map().unwrap().str("uuid").unwrap().to_owned();
        rows.iter().map(uuid).collect()
    }

    #[test]
    fn lists_have_what_is_there_now() {
        let runtimes = at(&["runtimes"]).unwrap();
        assert_eq!(runtimes.int("count"), Some(4));
        assert_eq!(names(&runtimes, "results"), ["r1", "r2", "r3", "r5"]);
        assert_eq!(names(&runtimes, "runtimes").len(), 4);
        let second = runtimes.get("results").and_then(Value::as_array).unwrap()[1].clone();
        let second = second.into_map().unwrap();
        assert_eq!(names(&second, "children"), ["m2"]);
        assert_eq!(names(&second, "queued"), ["m3"]);
        assert_eq!(names(&at(&["modules"]).unwrap(), "results"), ["m1", "m2"]);
        assert_eq!(names(&at(&["queued"]).unwrap(), "results"), ["m3", "m4"]);
    }

    #[test]
    fn one_is_found_by_uuid_by_name_and_by_its_last_digits() {
        let uuid = |path: &[&str]| at(path).map(|row| row.str("uuid").unwrap().to_owned());
        assert_eq!(uuid(&["runtimes", "r4"]).as_deref(), Some("r4"));
        assert_eq!(uuid(&["runtimes", "4"]), None);
        assert_eq!(uuid(&["runtimes", "3"]).as_deref(), Some("r3"));
        assert_eq!(uuid(&["modules", "two"]).as_deref(), Some("m2"));
        assert_eq!(uuid(&["modules", "m5"]).as_deref(), Some("m5"));
        for none in [&["modules", "five"][..], &["queued", "m3"], &["x"], &[]] {
            assert_eq!(at(none), None);
        }
        let row = at(&["modules", "m1"]).unwrap();
        let shown = without_login("https://user:pw@example.net/a@b.wasm");
        assert_eq!(shown, "https://example.net/a@b.wasm");
        assert!(!row.contains("args") && !row.contains("env") && row.str("status") == Some("A"));
    }
}
