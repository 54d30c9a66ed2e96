//! `require_in`, `watch_in`, ..., `use` and `use_in`: requisites declared by the other state (`salt/state.py
//! State.requisite_in`).

use super::extend::{find_name, reconcile};
use super::{first_key, internal};
use halite_wire::{Map, Value};

const KEYS: [&str; 7] = [
    "require_in",
    "watch_in",
    "onfail_in",
    "onchanges_in",
    "use",
    "use_in",
    "prereq_in",
];
/// Arguments that `use` never copies.
const NOT_USED: [&str; 8] = [
    "require",
    "watch",
    "prereq",
    "onfail",
    "onfail_stop",
    "onchanges",
    "name",
    "names",
];

/// Turns them into requisites of the states that they name.
pub(super) fn apply(high: &mut Map, disabled: &[String]) -> Vec<String> {
    let mut more = Extensions::default();
    for (id, body) in high.iter() {
        let (Some(id), Some(body)) = (id.as_str(), body.as_map()) else {
            continue;
        };
        for (state, run) in body.iter().filter(|(k, _)| !internal(k)) {
            let (Some(state), Some(run)) = (state.as_str(), run.as_array()) else {
                continue;
            };
            let from = From { id, state, body };
            for arg in run.iter().filter_map(Value::as_map) {
                let Some(key) = first_key(arg).filter(|k| KEYS.contains(k)) else {
                    continue;
                };
                if disabled.iter().any(|d| d == key) {
                    log::warn!("the requisite {key} of {id} is disabled and ignored");
                    continue;
                }
                for (name, kind) in targets(arg.get(key), high) {
                    more.add(&from, key, name, kind, high);
                }
            }
        }
    }
    let mut errors = more.errors;
    let list: Vec<Value> = more
        .list
        .into_iter()
        .map(|(id, body)| Value::Map(halite_wire::map! {id => body}))
        .collect();
    high.set("__extend__", list);
    errors.extend(reconcile(high, true));
    errors
}

struct From<'a> {
    id: &'a str,
    state: &'a str,
    body: &'a Map,
}

/// The states in the value of a key, as `(id or name, state type)`.
fn targets(items: Option<&Value>, high: &Map) -> Vec<(String, String)> {
    match items {
        Some(Value::Map(single)) => single
            .iter()
            .filter_map(|(state, name)| Some((name.as_str()?.into(), state.as_str()?.into())))
            .collect(),
        Some(Value::Array(list)) => list
            .iter()
            .flat_map(|item| match item {
                Value::Str(id) => by_id_or_name(id, high),
                Value::Map(map) => map
                    .iter()
                    .take(1)
                    .filter_map(|(state, name)| Some((name.as_str()?, state.as_str()?)))
                    .flat_map(|(name, state)| match state {
                        "sls" => all_of_sls(name, high),
                        _ => vec![(name.to_owned(), state.to_owned())],
                    })
                    .collect(),
                _ => Vec::new(),
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn by_id_or_name(id: &str, high: &Map) -> Vec<(String, String)> {
    let states = |body: &Value| -> Vec<String> {
        let body = body.as_map().map(Map::iter).into_iter().flatten();
        body.filter(|(k, _)| !internal(k))
            .filter_map(|(k, _)| k.as_str().map(str::to_owned))
            .collect()
    };
    if let Some(body) = high.get(id) {
        let first = states(body).into_iter().next();
        return first.map(|s| (id.to_owned(), s)).into_iter().collect();
    }
    for (other, body) in high.iter() {
        for state in states(body) {
            let list = body
                .as_map()
                .and_then(|b| b.get(&state))
                .and_then(Value::as_array);
            let named = |arg: &Value| arg.as_map().is_some_and(|m| m.str("name") == Some(id));
            if list.is_some_and(|l| l.iter().any(named))
                && let Some(other) = other.as_str()
            {
                return vec![(other.to_owned(), state)];
            }
        }
    }
    Vec::new()
}

fn all_of_sls(sls: &str, high: &Map) -> Vec<(String, String)> {
    let of_sls = high
        .iter()
        .filter_map(|(id, body)| Some((id.as_str()?, body.as_map()?)))
        .filter(|(_, body)| body.str("__sls__") == Some(sls));
    of_sls
        .flat_map(|(id, body)| {
            body.iter()
                .filter(|(k, _)| !internal(k))
                .filter_map(move |(k, _)| Some((id.to_owned(), k.as_str()?.to_owned())))
        })
        .collect()
}

#[derive(Default)]
struct Extensions {
    /// `{state: [args]}` per id.
    list: Vec<(String, Map)>,
    errors: Vec<String>,
}

impl Extensions {
    fn add(&mut self, from: &From, key: &str, name: String, kind: String, high: &Map) {
        match key {
            "use" => {
                for (id, state) in find_name(&name, &kind, high, true) {
                    let args = args(high, &id, &state);
                    self.copy(&args, high, from.id, from.state);
                }
            }
            "use_in" => {
                let args = args(high, from.id, from.state);
                for (id, state) in find_name(&name, &kind, high, true) {
                    self.copy(&args, high, &id, &state);
                }
            }
            _ => self.require(from, key, name, kind),
        }
    }

    fn require(&mut self, from: &From, key: &str, name: String, kind: String) {
        let requisite = key.split('_').next().unwrap_or(key);
        let sls = from.body.str("__sls__").unwrap_or_default();
        let kind = match kind.split_once('.') {
            Some((module, _)) => {
                self.errors.push(format!(
                    "Invalid requisite in {requisite}: {kind} for {name}, in SLS '{sls}'. \
                     Requisites must not contain dots, did you mean '{module}'?"
                ));
                module.to_owned()
            }
            None => kind,
        };
        let entry = self.entry(&name);
        if !entry.contains(&kind) {
            entry.set(kind.as_str(), Vec::<Value>::new());
        }
        for own in ["__env__", "__sls__"] {
            if let Some(value) = from.body.get(own) {
                entry.set(own, value.clone());
            }
        }
        let new = Value::Map(halite_wire::map! {from.state => from.id});
        let Some(Value::Array(args)) = entry.get_mut(&kind) else {
            return;
        };
        for arg in args.iter_mut() {
            if let Value::Map(map) = arg
                && let Some(Value::Array(list)) = map.get_mut(requisite)
            {
                list.push(new);
                return;
            }
        }
        args.push(Value::Map(halite_wire::map! {requisite => vec![new]}));
    }

    /// Adds those of `args` that the state does not set itself.
    fn copy(&mut self, source: &[Map], high: &Map, id: &str, state: &str) {
        let own = args(high, id, state);
        let has = |key: &str| own.iter().any(|a| first_key(a) == Some(key));
        let entry = self.entry(id);
        if !entry.contains(state) {
            entry.set(state, Vec::<Value>::new());
        }
        let Some(Value::Array(list)) = entry.get_mut(state) else {
            return;
        };
        for arg in source {
            let wanted = first_key(arg)
                .is_some_and(|key| !has(key) && !NOT_USED.contains(&key) && !KEYS.contains(&key));
            if wanted {
                list.push(Value::Map(arg.clone()));
            }
        }
    }

    fn entry(&mut self, id: &str) -> &mut Map {
        let known = self.list.iter().position(|(name, _)| name == id);
        let at = known.unwrap_or(self.list.len());
        if known.is_none() {
            self.list.push((id.to_owned(), Map::new()));
        }
        &mut self.list[at].1
    }
}

/// The arguments with one key of a declaration.
fn args(high: &Map, id: &str, state: &str) -> Vec<Map> {
    let list = high
        .get(id)
        .and_then(Value::as_map)
        .and_then(|b| b.get(state))
        .and_then(Value::as_array);
    let maps = list.unwrap_or_default().iter().filter_map(Value::as_map);
    maps.filter(|m| m.len() == 1).cloned().collect()
}
