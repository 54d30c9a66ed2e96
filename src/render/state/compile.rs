//! Compiles high data to an ordered list of calls (`salt/state.py State.call_high`, `compile_high_data`,
//! `order_chunks`).

use super::graph::Graph;
use super::{extend, internal, requisite_in, verify};
use halite_wire::{Map, Value};

/// A compiled run.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// Calls and requisites.
    pub graph: Graph,
    /// Indices into the graph's calls, in order. A call that a `prereq` tries is there twice.
    pub order: Vec<usize>,
    /// One call with no run around it: the states that it runs inside of itself stay in its result.
    pub single: bool,
}

impl Compiled {
    /// The calls in order as `state.show_low_sls` lists them: what a `prereq` tests first is there twice, as in 3008.
    pub fn steps(&self) -> Vec<Value> {
        let chunks = self.order.iter().map(|&at| &self.graph.chunks[at]);
        chunks.map(|chunk| Map::clone(chunk).into()).collect()
    }

    /// The calls in order, each once.
    pub fn low(&self) -> Vec<Map> {
        let mut seen = vec![false; self.graph.chunks.len()];
        let calls = self.order.iter().rev().filter(|&&at| {
            let first = !seen[at];
            seen[at] = true;
            first
        });
        let mut calls: Vec<Map> = calls.map(|&at| (*self.graph.chunks[at]).clone()).collect();
        calls.reverse();
        calls
    }
}

/// Settings of the compiler.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// `disabled_requisites`.
    pub disabled_requisites: Vec<String>,
    /// State modules with a `mod_watch`; in others `watch` means `require`.
    pub watching: Vec<String>,
    /// Written into each call, if set.
    pub orchestration_jid: Option<String>,
}

/// What is wrong with the form of `high`.
pub fn verify(high: &Map) -> Vec<String> {
    verify::verify(high)
}

/// Merges `extend`, the `*_in` requisites and `exclude` into `high`, and checks its form.
pub fn resolve(high: &mut Map, rules: &CompileOptions) -> Result<(), Vec<String>> {
    let mut errors = extend::reconcile(high, false);
    errors.extend(verify::verify(high));
    if !errors.is_empty() {
        return Err(errors);
    }
    let errors = requisite_in::apply(high, &rules.disabled_requisites);
    extend::exclude(high);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// The calls of high data, after [`resolve`].
pub fn compile(high: Map, rules: &CompileOptions) -> Result<Compiled, Vec<String>> {
    let mut graph = Graph::default();
    for (id, body) in high.0.into_iter().filter(|(id, _)| !internal(id)) {
        let (Value::Str(id), Value::Map(body)) = (id, body) else {
            continue;
        };
        let (own, states): (Vec<_>, Vec<_>) = body.0.into_iter().partition(|(k, _)| internal(k));
        let own = Map(own);
        for (state, run) in states {
            let (Value::Str(state), Value::Array(run)) = (state, run) else {
                continue;
            };
            for chunk in chunks(&id, state, &own, run, rules) {
                graph.add(chunk);
            }
        }
    }
    link(graph, rules)
}

/// Orders calls that are compiled already (`state.pkg`), and finds their requisites.
pub fn compile_low(chunks: Vec<Map>, rules: &CompileOptions) -> Result<Compiled, Vec<String>> {
    let mut graph = Graph::default();
    for chunk in chunks {
        graph.add(chunk);
    }
    link(graph, rules)
}

fn link(mut graph: Graph, rules: &CompileOptions) -> Result<Compiled, Vec<String>> {
    let mut errors = Vec::new();
    for at in 0..graph.chunks.len() {
        watch_or_require(graph.change(at), rules);
        if let Err(e) = graph.require(at, &rules.disabled_requisites) {
            errors.push(e);
        }
    }
    match graph.order() {
        Ok(order) if errors.is_empty() => Ok(Compiled {
            graph,
            order,
            single: false,
        }),
        Ok(_) => Err(errors),
        Err(cycle) => {
            errors.push(cycle);
            Err(errors)
        }
    }
}

/// The calls of one declaration: one, or one per entry of `names`.
fn chunks(id: &str, state: String, own: &Map, run: Vec<Value>, rules: &CompileOptions) -> Vec<Map> {
    let mut chunk = Map(Vec::with_capacity(12));
    chunk.set("state", state);
    chunk.set("name", id);
    if let Some(jid) = &rules.orchestration_jid {
        chunk.set("__orchestration_jid__", jid.as_str());
    }
    for key in ["__sls__", "__env__", "__sls_included_from__"] {
        if let Some(value) = own.get(key) {
            chunk.set(key, value.clone());
        }
    }
    chunk.set("__id__", id);
    let mut function = None;
    let mut names: Vec<Value> = Vec::new();
    for arg in run {
        match arg {
            Value::Str(name) => function = function.or(Some(name)),
            Value::Map(map) => {
                for (key, value) in map.0 {
                    let Value::Str(key) = key else { continue };
                    match (key.as_str(), value) {
                        ("names", Value::Array(all)) => {
                            for name in all {
                                if !names.contains(&name) {
                                    names.push(name);
                                }
                            }
                        }
                        ("names" | "state", _) => {}
                        ("name", value) if value.as_str().is_none() => chunk.set("name", id),
                        (_, value) => chunk.set(key, value),
                    }
                }
            }
            _ => {}
        }
    }
    let Some(function) = function else {
        return Vec::new();
    };
    if names.is_empty() {
        chunk.set("fun", function);
        return vec![chunk];
    }
    let mut number = 0;
    let named = names.iter().map(|entry| {
        number += 1;
        let mut live = chunk.clone();
        match entry {
            Value::Map(map) => {
                if let Some((name, args)) = map.iter().next() {
                    live.set("name", name.clone());
                    for arg in args.as_array().unwrap_or_default() {
                        for (k, v) in arg.as_map().map(Map::iter).into_iter().flatten() {
                            live.set(super::declare::id_text(k), v.clone());
                        }
                    }
                }
            }
            other => live.set("name", other.clone()),
        }
        live.set("name_order", number);
        live.set("fun", function.as_str());
        live
    });
    named.collect()
}

/// A module that cannot react to changes treats `watch` as `require` (`_reconcile_watch_req`).
fn watch_or_require(chunk: &mut Map, rules: &CompileOptions) {
    let watches = chunk
        .str("state")
        .is_some_and(|s| rules.watching.iter().any(|w| w == s));
    if watches {
        return;
    }
    for (watch, require) in [("watch", "require"), ("watch_any", "require_any")] {
        let Some(Value::Array(more)) = chunk.remove(watch) else {
            continue;
        };
        match chunk.get_mut(require) {
            Some(Value::Array(list)) => list.extend(more),
            _ => chunk.set(require, more),
        }
    }
}
