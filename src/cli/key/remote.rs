//! Access to the keys: in the files of this host or, with external authentication, through the master
//! (`salt/key.py KeyCLI._run_cmd`).

use crate::remote::wheel;
use halite_client::keys::{FingerForm, KeyChanges, KeyTexts, Keys, Selection};
use halite_client::local::LocalClient;
use halite_store::keys::KeyState;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;

/// How to access the keys.
pub(super) enum KeyBackend<'a> {
    /// In local files.
    Local(Box<Keys<'a>>),
    /// Through the master, which decides what this user may do.
    Remote(Box<LocalClient>),
}

/// The states in the order used by the master.
const STATES: [KeyState; 4] = [
    KeyState::Accepted,
    KeyState::Denied,
    KeyState::Pending,
    KeyState::Rejected,
];

fn ask(client: &mut LocalClient, fun: &str, kwarg: Map) -> io::Result<Value> {
    let answer = wheel(client, fun, kwarg).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(answer.value)
}

fn selection(value: &Value) -> Selection {
    let map = value.as_map().cloned().unwrap_or_default();
    let listed = STATES.into_iter().filter_map(|state| {
        let ids = map.get(state.dir())?.str_list();
        Some((state, ids.iter().filter_map(|id| id.parse().ok()).collect()))
    });
    listed.collect()
}

fn texts(value: &Value) -> KeyTexts {
    let map = value.as_map().cloned().unwrap_or_default();
    let groups = ["local"].into_iter().chain(STATES.map(KeyState::dir));
    let groups = groups.chain(["sysinspect"]);
    let group = |name: &'static str| {
        let entries = map.get(name)?.as_map()?;
        let text = |(id, text): &(Value, Value)| {
            Some((id.as_str()?.to_owned(), text.as_str()?.to_owned()))
        };
        Some((name, entries.iter().filter_map(text).collect()))
    };
    groups.filter_map(group).collect()
}

fn matching(globs: &str) -> Map {
    halite_wire::map! {"match" => globs}
}

impl KeyBackend<'_> {
    pub fn list(&mut self, state: KeyState) -> io::Result<Vec<MinionId>> {
        match self {
            KeyBackend::Local(keys) => keys.list(state),
            KeyBackend::Remote(_) => {
                let all = self.list_all()?;
                let found = all.into_iter().find(|(known, _)| *known == state);
                Ok(found.map(|(_, ids)| ids).unwrap_or_default())
            }
        }
    }

    pub fn list_all(&mut self) -> io::Result<Selection> {
        match self {
            KeyBackend::Local(keys) => keys.list_all(),
            KeyBackend::Remote(client) => Ok(selection(&ask(client, "key.list_all", Map::new())?)),
        }
    }

    pub fn select(&mut self, globs: &str) -> io::Result<Selection> {
        match self {
            KeyBackend::Local(keys) => keys.select(globs),
            KeyBackend::Remote(client) => {
                let found = ask(client, "key.name_match", matching(globs))?;
                let mut found = selection(&found);
                found.retain(|(_, ids)| !ids.is_empty());
                Ok(found)
            }
        }
    }

    pub fn print(&mut self, globs: &str) -> io::Result<KeyTexts> {
        match self {
            KeyBackend::Local(keys) => keys.texts(&keys.select(globs)?),
            KeyBackend::Remote(client) => Ok(texts(&ask(client, "key.print", matching(globs))?)),
        }
    }

    pub fn fingers(&mut self, globs: &str, form: FingerForm) -> io::Result<KeyTexts> {
        match self {
            KeyBackend::Local(keys) => keys.fingers(globs, form),
            KeyBackend::Remote(client) => Ok(texts(&ask(client, "key.finger", matching(globs))?)),
        }
    }

    /// `accept`, `reject` or `delete`.
    pub fn change(&mut self, verb: &str, selection: &Selection) -> io::Result<KeyChanges> {
        let client = match self {
            KeyBackend::Local(keys) => {
                return match verb {
                    "accept" => keys.accept(selection),
                    "reject" => keys.reject(selection),
                    _ => keys.delete(selection),
                };
            }
            KeyBackend::Remote(client) => client,
        };
        let chosen: Map = selection
            .iter()
            .map(|(state, ids)| {
                let ids: Vec<Value> = ids.iter().map(Value::from).collect();
                (state.dir(), ids)
            })
            .collect();
        let mut kwarg = halite_wire::map! {"match" => Value::Map(chosen)};
        let has = |state| selection.iter().any(|(known, _)| *known == state);
        for (key, on) in [
            (
                "include_accepted",
                verb == "reject" && has(KeyState::Accepted),
            ),
            (
                "include_rejected",
                verb == "accept" && has(KeyState::Rejected),
            ),
            ("include_denied", verb != "delete" && has(KeyState::Denied)),
        ] {
            if on {
                kwarg.set(key, true);
            }
        }
        ask(client, &format!("key.{verb}_dict"), kwarg)?;
        let done = selection.iter().flat_map(|(_, ids)| ids.clone());
        Ok(KeyChanges {
            done: done.collect(),
            ..KeyChanges::default()
        })
    }
}
