//! `listen` and `listen_in`: call `mod_watch` at the end of the run (`salt/state.py State.call_listen`).

use super::run::Run;
use super::{Requisite, tag};
use halite_wire::{Map, Value};

/// The listening state: state type, and id or name.
struct Listener {
    state: String,
    who: String,
    to: Vec<Value>,
}

impl Run<'_, '_> {
    /// Calls `mod_watch` of each state that listens to a changed one.
    pub(super) fn listeners(&mut self, order: &[usize]) {
        let mut all = self.compiled.graph.chunks.iter();
        if !all.any(|chunk| chunk.contains("listen") || chunk.contains("listen_in")) {
            return;
        }
        let mut seen = Vec::new();
        let chunks: Vec<Map> = order
            .iter()
            .filter(|at| !std::mem::replace(slot(&mut seen, **at), true))
            .map(|&at| (*self.compiled.graph.chunks[at]).clone())
            .collect();
        let mut calls: Vec<usize> = Vec::new();
        let mut wrong: Vec<(String, String)> = Vec::new();
        for listener in listeners(&chunks) {
            for to in &listener.to {
                let Some((state, name)) = listen_target(to, &chunks) else {
                    continue;
                };
                let sources = matching(&chunks, &state, &name);
                if sources.is_empty() {
                    wrong.push((state, name));
                    continue;
                }
                let changed = sources.iter().any(|source| {
                    let result = self.result(&tag(source));
                    result
                        .and_then(|r| r.get("changes"))
                        .is_some_and(Value::truthy)
                });
                if !changed {
                    continue;
                }
                let targets = matching(&chunks, &listener.state, &listener.who);
                if targets.is_empty() {
                    wrong.push((listener.state.clone(), listener.who.clone()));
                }
                for target in targets {
                    calls.push(self.compiled.graph.add(watch_call(target)));
                }
            }
        }
        self.all(&calls);
        for (state, name) in wrong {
            let result = halite_wire::map! {
                "comment" => format!("Referenced state {state}: {name} does not exist"),
                "name" => format!("listen_{state}:{name}"), "result" => false, "changes" => Map::new(),
            };
            let tag = format!("Listen_Error_|-listen_{name}_|-listen_{state}_|-Listen_Error");
            self.add_result(tag, result);
        }
    }
}

fn slot(seen: &mut Vec<bool>, at: usize) -> &mut bool {
    if seen.len() <= at {
        seen.resize(at + 1, false);
    }
    &mut seen[at]
}

fn listeners(chunks: &[Map]) -> Vec<Listener> {
    let text = |chunk: &Map, key: &str| chunk.str(key).unwrap_or_default().to_owned();
    let mut all = Vec::new();
    for chunk in chunks {
        if let Some(to) = chunk.get("listen").and_then(Value::as_array) {
            all.push(Listener {
                state: text(chunk, "state"),
                who: text(chunk, "__id__"),
                to: to.to_vec(),
            });
        }
        let targets = chunk.get("listen_in").and_then(Value::as_array);
        for target in targets.unwrap_or_default().iter().filter_map(Value::as_map) {
            for (state, who) in target.iter() {
                let (Some(state), Some(who)) = (state.as_str(), who.as_str()) else {
                    continue;
                };
                let source = halite_wire::map! {text(chunk, "state") => text(chunk, "__id__")};
                all.push(Listener {
                    state: state.to_owned(),
                    who: who.to_owned(),
                    to: vec![Value::Map(source)],
                });
            }
        }
    }
    all
}

/// State and id of an entry of `listen`; text is an id or a name.
fn listen_target(to: &Value, chunks: &[Map]) -> Option<(String, String)> {
    match to {
        Value::Map(map) => {
            let (state, name) = map.iter().next()?;
            Some((state.as_str()?.to_owned(), name.as_str()?.to_owned()))
        }
        Value::Str(name) => {
            let named = |c: &&Map| c.str("__id__") == Some(name) || c.str("name") == Some(name);
            let chunk = chunks.iter().rfind(named)?;
            Some((
                chunk.str("state")?.to_owned(),
                chunk.str("__id__")?.to_owned(),
            ))
        }
        _ => None,
    }
}

fn matching<'a>(chunks: &'a [Map], state: &str, name: &str) -> Vec<&'a Map> {
    let meant = |c: &&Map| {
        c.str("state") == Some(state)
            && (c.str("__id__") == Some(name) || c.str("name") == Some(name))
    };
    chunks.iter().filter(meant).collect()
}

fn watch_call(chunk: &Map) -> Map {
    let mut low = chunk.clone();
    low.set("sfun", chunk.get("fun").cloned());
    low.set("fun", "mod_watch");
    let id = chunk.str("__id__").unwrap_or_default();
    low.set("__id__", format!("listener_{id}"));
    for requisite in Requisite::ALL {
        low.remove(requisite.name());
    }
    low.remove("onfail_stop");
    low
}
