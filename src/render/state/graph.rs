//! The graph of requisites, and the order of calls (`salt/utils/requisite.py DependencyGraph`; Salt 3006
//! differs where `order` and requisites contradict each other).

use super::{Requisite, reference, tag};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A large run looks up each name many times.
pub(super) type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The number of `order: last`; negative orders count back from it.
const LAST: f64 = 1_000_000.0;

/// A call, or the trial of a call that a `prereq` asks for.
#[derive(Clone, Debug)]
struct Node {
    name: String,
    chunk: usize,
    /// Edges as (other node, requisite), in the order of creation.
    out: Vec<(usize, Requisite)>,
    into: Vec<(usize, Requisite)>,
    child_min: Option<f64>,
}

/// Calls with their requisites.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The calls; [`Graph::order`] refers to them by index. Those who run them hold them, too.
    pub chunks: Vec<Arc<Map>>,
    nodes: Vec<Node>,
    by_name: FastMap<String, usize>,
    /// Nodes by (state or `id`, name or id).
    lookup: Vec<((String, String), Vec<usize>)>,
    lookup_at: FastMap<(String, String), usize>,
    by_sls: Vec<(String, Vec<usize>)>,
}

impl Graph {
    /// Adds a call.
    pub fn add(&mut self, low: Map) -> usize {
        let name = tag(&low);
        let chunk = self.chunks.len();
        let text = |key: &str| low.str(key).unwrap_or_default().to_owned();
        let (state, called, id) = (text("state"), text("name"), text("__id__"));
        let mut from: Vec<String> = low.str("__sls__").map(str::to_owned).into_iter().collect();
        from.extend(
            low.get("__sls_included_from__")
                .map(Value::str_list)
                .unwrap_or_default(),
        );
        self.chunks.push(Arc::new(low));
        let node = self.node(name, chunk);
        for key in [
            (state.clone(), called.clone()),
            (state, id.clone()),
            ("id".to_owned(), id),
            ("id".to_owned(), called),
        ] {
            let at = match self.lookup_at.get(&key) {
                Some(&at) => at,
                None => {
                    let at = self.lookup.len();
                    self.lookup_at.insert(key.clone(), at);
                    self.lookup.push((key, Vec::new()));
                    at
                }
            };
            if !self.lookup[at].1.contains(&node) {
                self.lookup[at].1.push(node);
            }
        }
        for sls in from {
            match self.by_sls.iter_mut().find(|(s, _)| *s == sls) {
                Some((_, nodes)) => nodes.push(node),
                None => self.by_sls.push((sls, vec![node])),
            }
        }
        chunk
    }

    /// A call, to be changed.
    pub(super) fn change(&mut self, chunk: usize) -> &mut Map {
        Arc::make_mut(&mut self.chunks[chunk])
    }

    fn node(&mut self, name: String, chunk: usize) -> usize {
        if let Some(&at) = self.by_name.get(&name) {
            self.nodes[at].chunk = chunk;
            return at;
        }
        let at = self.nodes.len();
        self.by_name.insert(name.clone(), at);
        self.nodes.push(Node {
            name,
            chunk,
            out: Vec::new(),
            into: Vec::new(),
            child_min: None,
        });
        at
    }

    fn edge(&mut self, from: usize, to: usize, kind: Requisite) {
        if !self.nodes[from].out.contains(&(to, kind)) {
            self.nodes[from].out.push((to, kind));
            self.nodes[to].into.push((from, kind));
        }
    }

    /// Adds the requisites of a call. An error names a requisite without a target.
    pub fn require(&mut self, chunk: usize, disabled: &[String]) -> Result<(), String> {
        // `listen` is handled after the run; `prerequired` is not a declaration.
        const ORDER: [Requisite; 10] = [
            Requisite::Require,
            Requisite::RequireAny,
            Requisite::Watch,
            Requisite::WatchAny,
            Requisite::Prereq,
            Requisite::Onfail,
            Requisite::OnfailAny,
            Requisite::OnfailAll,
            Requisite::Onchanges,
            Requisite::OnchangesAny,
        ];
        for kind in ORDER {
            let low = self.chunks[chunk].clone();
            let Some(list) = low.get(kind.name()).and_then(Value::as_array) else {
                continue;
            };
            if disabled.iter().any(|d| d == kind.name()) {
                log::warn!("the requisite {} is disabled and ignored", kind.name());
                continue;
            }
            let place = || {
                format!(
                    "in state [{}] in SLS [{}]",
                    low.str("name").unwrap_or_default(),
                    low.str("__sls__").unwrap_or("None")
                )
            };
            for item in list {
                let Some((key, value)) = reference(item) else {
                    continue;
                };
                let key = key.split('.').next().unwrap_or(&key).to_owned();
                let value = match value {
                    Value::Str(value) => value,
                    Value::Nil => continue,
                    _ => {
                        return Err(format!(
                            "Requisite [{}: {key}] {} must have a string as the value",
                            kind.name(),
                            place()
                        ));
                    }
                };
                let Some(targets) = self.find(&key, &value) else {
                    return Err(format!(
                        "Referenced state does not exist for requisite [{}: ({key}: {value})] {}",
                        kind.name(),
                        place()
                    ));
                };
                self.add_edges(chunk, kind, &targets);
            }
        }
        Ok(())
    }

    /// The nodes that match a requisite; `None` if there are none. A glob of SLS names may match nothing.
    fn find(&self, key: &str, value: &str) -> Option<Vec<usize>> {
        let glob = value.contains(['*', '?', '[', ']']);
        let mut found: Vec<usize> = Vec::new();
        match (key, glob) {
            ("sls", true) => {
                let matching = self.by_sls.iter().filter(|(sls, _)| fnmatch(sls, value));
                found.extend(matching.flat_map(|(_, nodes)| nodes));
                return Some(found);
            }
            ("sls", false) => {
                let exact = self.by_sls.iter().find(|(sls, _)| sls == value);
                found.extend(exact.into_iter().flat_map(|(_, nodes)| nodes));
            }
            (_, true) => {
                let matching = self
                    .lookup
                    .iter()
                    .filter(|((kind, name), _)| kind == key && fnmatch(name, value));
                found.extend(matching.flat_map(|(_, nodes)| nodes));
            }
            (_, false) => {
                let at = self.lookup_at.get(&(key.to_owned(), value.to_owned()));
                found.extend(at.into_iter().flat_map(|&at| &self.lookup[at].1));
            }
        }
        (!found.is_empty()).then_some(found)
    }

    fn add_edges(&mut self, chunk: usize, kind: Requisite, targets: &[usize]) {
        let Some(&node) = self.by_name.get(&tag(&self.chunks[chunk])) else {
            return;
        };
        for &target in targets {
            if kind == Requisite::Prereq {
                self.add_prereq(node, target);
                continue;
            }
            if flag(&self.chunks[chunk], "__prereq__") {
                let trial = self.trial_of(node);
                self.edge(target, trial, kind);
            }
            self.edge(target, node, kind);
        }
    }

    /// `node` depends on whether `target` would change something: a trial of the target runs first, then
    /// `node`, then the target itself (`DependencyGraph._add_prereq`).
    fn add_prereq(&mut self, node: usize, target: usize) {
        let (asking, asked) = (self.nodes[node].chunk, self.nodes[target].chunk);
        self.change(asking).set("__prerequiring__", true);
        self.change(asked).set("__prereq__", true);
        let known = self
            .by_name
            .contains_key(&trial_name(&self.nodes[target].name));
        let trial = self.trial_of(target);
        if !known {
            for (from, kind) in self.nodes[target].into.clone() {
                if kind != Requisite::Prereq {
                    self.edge(from, trial, kind);
                }
            }
        }
        self.edge(trial, node, Requisite::Prereq);
        self.edge(node, target, Requisite::Require);
        if let Some(&own) = self.by_name.get(&trial_name(&self.nodes[node].name)) {
            self.edge(trial, own, Requisite::Prereq);
        }
    }

    fn trial_of(&mut self, node: usize) -> usize {
        let name = trial_name(&self.nodes[node].name);
        self.node(name, self.nodes[node].chunk)
    }

    /// The calls in order. A call that a `prereq` tries is there twice. The error names a cycle.
    pub fn order(&mut self) -> Result<Vec<usize>, String> {
        let cap = self.cap();
        let mut waiting: Vec<usize> = self.nodes.iter().map(|n| n.into.len()).collect();
        let mut ready: BTreeSet<(Key, String, String, usize)> = BTreeSet::new();
        let free = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
        for at in free.map(|(at, _)| at).collect::<Vec<_>>() {
            self.enqueue(at, cap, &mut ready);
        }
        let mut ordered = Vec::with_capacity(self.nodes.len());
        while let Some((_, _, _, at)) = ready.pop_first() {
            ordered.push(self.nodes[at].chunk);
            for (to, _) in self.nodes[at].out.clone() {
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    self.enqueue(to, cap, &mut ready);
                }
            }
        }
        if ordered.len() == self.nodes.len() {
            return Ok(ordered);
        }
        Err(format!("Recursive requisites were found: {}", self.cycle()))
    }

    /// One more than the highest declared order, so that calls without an order come later.
    fn cap(&self) -> f64 {
        let mut cap = 1;
        for order in self.chunks.iter().filter_map(|c| c.int("order")) {
            if order > cap - 1 && order > 0 {
                cap = order.saturating_add(100);
            }
        }
        cap as f64
    }

    fn enqueue(&mut self, at: usize, cap: f64, ready: &mut BTreeSet<(Key, String, String, usize)>) {
        let key = self.key(at, cap);
        let chunk = &self.chunks[self.nodes[at].chunk];
        let text = |key: &str| chunk.str(key).unwrap_or_default();
        let label = format!("{}{}{}", text("state"), text("name"), text("fun"));
        ready.insert((key, label, self.nodes[at].name.clone(), at));
    }

    /// The order of a node, lowered to that of the nodes that wait for it
    /// (`DependencyGraph._get_chunk_order`).
    fn key(&mut self, at: usize, cap: f64) -> Key {
        let chunk = self.nodes[at].chunk;
        let mut order = number(self.chunks[chunk].get("order"), cap);
        if let Some(name_order) = self.change(chunk).remove("name_order") {
            order += number(Some(&name_order), 0.0) / 10_000.0;
        }
        if order < 0.0 {
            order += cap + LAST;
        }
        self.change(chunk).set("order", as_value(order));
        let own = order;
        let mut least = f64::INFINITY;
        let mut heaviest = None;
        if self.nodes[at].child_min.is_none() {
            for (child, kind) in self.nodes[at].out.clone() {
                if heaviest.is_some_and(|h| h > kind) {
                    continue;
                }
                heaviest = Some(kind);
                let child = self.nodes[child].chunk;
                least = least.min(number(self.chunks[child].get("order"), cap));
            }
            self.nodes[at].child_min = Some(least);
            order = order.min(least);
        }
        Key(order, own)
    }

    /// The graph in the language of Graphviz (`DependencyGraph.to_dot`).
    pub fn to_dot(&self) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut lines = vec!["digraph G {".to_owned()];
        for node in &self.nodes {
            let text = |key| quoted(self.chunks[node.chunk].str(key).unwrap_or_default());
            let (id, name) = (text("__id__"), text("name"));
            let called = if id == name {
                String::new()
            } else {
                format!("\\n({name})")
            };
            lines.push(format!(
                "  \"{}\" [label=\"{}.{}\\n{id}{called}\"];",
                quoted(&node.name),
                text("state"),
                text("fun")
            ));
        }
        for node in &self.nodes {
            // All edges to one node together, as a graph library lists them.
            let mut edges: Vec<(usize, Requisite)> = node.out.clone();
            edges.sort_by_key(|(to, _)| node.out.iter().position(|(other, _)| other == to));
            for (to, kind) in edges {
                lines.push(format!(
                    "  \"{}\" -> \"{}\" [label=\"{}\"];",
                    quoted(&node.name),
                    quoted(&self.nodes[to].name),
                    kind.name()
                ));
            }
        }
        lines.push("}".to_owned());
        lines.join("\n")
    }

    /// Describes a cycle: what requires what.
    fn cycle(&self) -> String {
        let mut state = vec![0u8; self.nodes.len()];
        let mut path: Vec<(usize, usize)> = Vec::new();
        for start in 0..self.nodes.len() {
            if state[start] != 0 {
                continue;
            }
            // (node, next edge): depth first, without recursion.
            path.push((start, 0));
            state[start] = 1;
            while let Some((at, edge)) = path.last().copied() {
                let Some(&(to, _)) = self.nodes[at].out.get(edge) else {
                    state[at] = 2;
                    path.pop();
                    continue;
                };
                if let Some(top) = path.last_mut() {
                    top.1 += 1;
                }
                match state[to] {
                    0 => {
                        state[to] = 1;
                        path.push((to, 0));
                    }
                    1 => return self.describe(&path, to),
                    _ => {}
                }
            }
        }
        String::new()
    }

    fn describe(&self, path: &[(usize, usize)], back: usize) -> String {
        let from = path.iter().position(|(at, _)| *at == back).unwrap_or(0);
        let edges = path[from..].iter().filter_map(|&(at, next)| {
            let &(to, kind) = self.nodes[at].out.get(next.checked_sub(1)?)?;
            let dependent = &self.chunks[self.nodes[to].chunk];
            let kind = match kind {
                // The second half of a `prereq` is shown as it was declared.
                Requisite::Require if !dependent.contains("require") => Requisite::Prereq,
                other => other,
            };
            let named = |at: usize| name_of(&self.chunks[self.nodes[at].chunk]);
            Some(format!("({}, '{}', {})", named(to), kind.name(), named(at)))
        });
        edges.collect::<Vec<_>>().join(", ")
    }

    /// What a call waits for: requisites and calls, in the order of declaration. Its trial has a list of its
    /// own.
    pub fn dependencies(&self, low: &Map) -> Vec<(Requisite, usize)> {
        let own = tag(low);
        let name = if flag(low, "__prereq__") {
            trial_name(&own)
        } else {
            own
        };
        let Some(&at) = self.by_name.get(&name) else {
            return Vec::new();
        };
        let into = self.nodes[at].into.iter();
        into.map(|&(from, kind)| (kind, self.nodes[from].chunk))
            .collect()
    }
}

fn trial_name(name: &str) -> String {
    format!("{name}_|-__prereq_test__")
}

fn name_of(chunk: &Map) -> String {
    let text = |key: &str| chunk.str(key).unwrap_or_default();
    let mut shown = format!("{{'SLS': '{}', 'ID': '{}'", text("__sls__"), text("__id__"));
    if text("__id__") != text("name") {
        shown.push_str(&format!(", 'NAME': '{}'", text("name")));
    }
    shown.push('}');
    shown
}

pub(super) fn flag(low: &Map, key: &str) -> bool {
    low.get(key).is_some_and(Value::truthy)
}

/// `order` as a number: `first`, `last`, a number, or the default.
fn number(order: Option<&Value>, cap: f64) -> f64 {
    match order {
        Some(Value::Int(i)) => *i as f64,
        Some(Value::Float(f)) if f.is_finite() => *f,
        Some(Value::Str(s)) if s == "last" => cap + LAST,
        Some(Value::Str(s)) if s == "first" => 0.0,
        _ => cap,
    }
}

fn as_value(order: f64) -> Value {
    if order.fract() == 0.0 && order.abs() < 1e15 {
        Value::Int(order as i64)
    } else {
        Value::Float(order)
    }
}

/// Two orders. `Ord` is safe because neither is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key(f64, f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.total_cmp(&other.1))
    }
}
