//! Runs compiled calls: order, requisites and results (`salt/state.py State.call_chunks`, `call_chunk`,
//! `_check_requisites`, `call`).
//!
//! Calls go to a [`StateModules`]; `parallel` ones run in threads of their own.

pub use super::call::{Condition, StateModules};
use super::call::{call_once, call_with_retries, time_of_day};
use super::compile::Compiled;
use super::graph::{FastMap, flag};
use super::verdict::{Verdict, check_requisite, verdict};
use super::{Requisite, tag};
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

/// Deepest recursion: a state may depend on itself through requisites.
const MAX_DEPTH: usize = 20;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Only report what would be done.
    pub test: bool,
    /// Stop at the first failure.
    pub failhard: bool,
    /// Most parallel states at once; 0 is no limit (`state_max_parallel`).
    pub max_parallel: usize,
}

/// Makes all calls, then those of `listen` and `beacon`. Results are in the order of calls, by tag.
pub fn run(functions: &dyn StateModules, compiled: Compiled, options: &RunOptions) -> Map {
    std::thread::scope(|scope| {
        let mut run = Run {
            functions,
            options,
            scope,
            compiled,
            results: Results::default(),
            trials: HashMap::new(),
            started: Vec::new(),
            number: 0,
        };
        let order = std::mem::take(&mut run.compiled.order);
        if run.all(&order) {
            run.listeners(&order);
        }
        run.beacons(&order);
        run.results.list.into_iter().collect()
    })
}

#[derive(Default)]
struct Results {
    list: Vec<(String, Map)>,
    at: FastMap<String, usize>,
}

impl Results {
    fn get(&self, tag: &str) -> Option<&Map> {
        self.at.get(tag).map(|&at| &self.list[at].1)
    }

    fn set(&mut self, tag: String, result: Map) {
        match self.at.get(&tag) {
            Some(&at) => self.list[at].1 = result,
            None => {
                self.at.insert(tag.clone(), self.list.len());
                self.list.push((tag, result));
            }
        }
    }
}

struct Started<'s> {
    tag: String,
    low: Map,
    /// The result, and how often it was tried again.
    handle: Option<ScopedJoinHandle<'s, (Map, i64)>>,
}

pub(super) struct Run<'s, 'e: 's> {
    pub(super) functions: &'e dyn StateModules,
    options: &'e RunOptions,
    scope: &'s Scope<'s, 'e>,
    pub(super) compiled: Compiled,
    results: Results,
    /// Results of trials for a `prereq`.
    trials: HashMap<String, Map>,
    started: Vec<Started<'s>>,
    number: i64,
}

impl<'s, 'e> Run<'s, 'e> {
    /// Makes the calls; `false` if a failure ended the run.
    pub(super) fn all(&mut self, order: &[usize]) -> bool {
        let mut pending: Vec<usize> = Vec::new();
        for &at in order {
            if !self.retry_pending(&mut pending) {
                return self.finish(false);
            }
            self.reconcile(None, false);
            let name = tag(&self.compiled.graph.chunks[at]);
            if self.results.get(&name).is_some() {
                continue;
            }
            if !self.functions.may_continue(&self.compiled.graph.chunks[at]) {
                break;
            }
            match self.chunk(at, 0) {
                Step::Pending => pending.push(at),
                Step::Stop => return self.finish(false),
                Step::Done if self.stops(at) => return self.finish(false),
                Step::Done => {}
            }
        }
        while !pending.is_empty() {
            if !self.retry_pending(&mut pending) {
                return self.finish(false);
            }
            if !pending.is_empty() {
                self.wait_for_one();
            }
        }
        self.finish(true)
    }

    fn finish(&mut self, good: bool) -> bool {
        self.reconcile(None, true);
        good
    }

    fn retry_pending(&mut self, pending: &mut Vec<usize>) -> bool {
        for at in std::mem::take(pending) {
            match self.chunk(at, 0) {
                Step::Pending => pending.push(at),
                Step::Stop => return false,
                Step::Done if self.stops(at) => return false,
                Step::Done => {}
            }
        }
        true
    }

    /// Whether the result of a call ends the run (`check_failhard`).
    fn stops(&self, at: usize) -> bool {
        let low = &self.compiled.graph.chunks[at];
        let hard = low
            .get("failhard")
            .map_or(self.options.failhard, Value::truthy);
        let failed = |r: &Map| r.get("result").and_then(Value::as_bool) == Some(false);
        hard && !self.options.test && self.results.get(&tag(low)).is_some_and(failed)
    }

    fn chunk(&mut self, at: usize, depth: usize) -> Step {
        let low = self.compiled.graph.chunks[at].clone();
        let name = tag(&low);
        let trial = flag(&low, "__prereq__");
        match self.verdict(&low) {
            Verdict::Pending => return Step::Pending,
            Verdict::Unmet => return self.unmet(at, &low, depth),
            Verdict::Met => self.call_or_try(at, &low),
            Verdict::Change if trial => self.call_or_try(at, &low),
            Verdict::SkipWatch if trial => self.call_or_try(at, &low),
            Verdict::Change => {
                let result = self.call_watching(&low);
                self.store(name.clone(), result);
            }
            Verdict::SkipWatch => {
                let mut result = self.call(&low);
                add_comment(
                    &mut result,
                    " mod_watch was not run because requisites were skipped by another state",
                );
                self.store(name.clone(), result);
            }
            Verdict::Fail => self.required_failed(&low, &name),
            Verdict::NoChange => self.not_run(&low, &name, true, "No changes detected"),
            Verdict::Onfail => self.not_run(
                &low,
                &name,
                true,
                "State was not run because onfail req did not change",
            ),
            Verdict::Onchanges => self.not_run(
                &low,
                &name,
                true,
                "State was not run because none of the onchanges reqs changed",
            ),
            Verdict::SkipRequisites => self.not_run(
                &low,
                &name,
                true,
                "State was not run because requisites were skipped by another state",
            ),
        }
        if let Some(result) = self.results.get(&name) {
            self.functions
                .finished(&low, result, self.results.list.len());
        }
        self.add_inner(&low, &name);
        Step::Done
    }

    /// Results of states that a state has run inside of itself (`sub_state_run`) come after its own.
    fn add_inner(&mut self, low: &Map, name: &str) {
        if self.compiled.single {
            return;
        }
        let Some(&at) = self.results.at.get(name) else {
            return;
        };
        let inner = self.results.list[at].1.remove("sub_state_run");
        let Some(Value::Array(inner)) = inner else {
            return;
        };
        for one in inner.into_iter().filter_map(Value::into_map) {
            let inner_low = one
                .get("low")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default();
            let field = |key: &str| one.get(key).cloned();
            self.number += 1;
            let mut result = halite_wire::map! {
                "name" => low.get("name").cloned(),
                "changes" => field("changes"),
                "result" => field("result"),
                "duration" => field("duration").unwrap_or_else(|| 0.001.into()),
                "start_time" => field("start_time").unwrap_or_else(|| time_of_day().into()),
                "comment" => field("comment").unwrap_or_else(|| "".into()),
                "__state_ran__" => true,
                "__run_num__" => self.number,
            };
            for key in ["__sls__", "__id__"] {
                result.set(key, low.get(key).cloned());
            }
            self.store(tag(&inner_low), result);
        }
    }

    /// Makes the call; as a trial if a `prereq` asks for one.
    fn call_or_try(&mut self, at: usize, low: &Map) {
        if flag(low, "__prereq__") {
            let result = self.trial(low);
            self.trials.insert(tag(low), result);
            self.compiled.graph.change(at).set("__prereq__", false);
            return;
        }
        let result = self.call(low);
        self.store(tag(low), result);
    }

    fn store(&mut self, name: String, result: Map) {
        self.results.set(name, result);
    }

    /// A watched state has changed: calls the function, then `mod_watch` if that changed nothing.
    fn call_watching(&mut self, low: &Map) -> Map {
        let result = self.call(low);
        let idle = result.get("changes").is_none_or(|c| !c.truthy());
        if !idle || result.get("skip_watch").is_some_and(Value::truthy) {
            return result;
        }
        let mut watch = low.clone();
        watch.set("sfun", low.get("fun").cloned());
        watch.set("fun", "mod_watch");
        watch.set("__reqs__", self.requisites(low));
        self.call(&watch)
    }

    /// The calls of each requisite, in the form that `mod_watch` gets; of watched ones, those with changes.
    fn requisites(&self, low: &Map) -> Map {
        let graph = &self.compiled.graph;
        let mut all = Map::new();
        for (kind, at) in graph.dependencies(low) {
            let result = self.results.get(&tag(&graph.chunks[at]));
            let idle = !result.is_some_and(|result| flag(result, "changes"));
            if matches!(kind, Requisite::Watch | Requisite::WatchAny) && idle {
                continue;
            }
            let call = Value::Map((*graph.chunks[at]).clone());
            match all.get_mut(kind.name()) {
                Some(Value::Array(list)) => list.push(call),
                _ => all.set(kind.name(), vec![call]),
            }
        }
        all
    }

    fn unmet(&mut self, at: usize, low: &Map, depth: usize) -> Step {
        if depth >= MAX_DEPTH {
            let name = tag(low);
            self.not_run(low, &name, false, "Recursive requisite found");
            return Step::Done;
        }
        for (_, needed) in self.compiled.graph.dependencies(low) {
            let name = tag(&self.compiled.graph.chunks[needed]);
            if self.results.get(&name).is_some() || needed == at {
                continue;
            }
            match self.chunk(needed, depth + 1) {
                Step::Done if self.stops(needed) => return Step::Stop,
                Step::Done => {}
                other => return other,
            }
        }
        if !flag(low, "__prereq__") {
            return self.chunk(at, depth + 1);
        }
        let verdict = self.verdict(low);
        let result = if verdict == Verdict::NoChange {
            self.skipped(low, true, "No changes detected")
        } else {
            let mut result = self.trial(low);
            let idle = result.get("changes").is_none_or(|c| !c.truthy());
            if idle && verdict == Verdict::Change {
                result.set("changes", halite_wire::map! {"watch" => "watch"});
                result.set("result", Value::Nil);
            }
            result
        };
        self.trials.insert(tag(low), result);
        self.compiled.graph.change(at).set("__prereq__", false);
        Step::Done
    }

    fn required_failed(&mut self, low: &Map, name: &str) {
        if let Some(mut result) = self.trials.get(name).cloned() {
            // The failed state is the one with the `prereq`; this one was not applied.
            result.set("changes", Map::new());
            self.stamp(low, &mut result);
            self.store(name.to_owned(), result);
            return;
        }
        let failed: BTreeSet<String> = self
            .compiled
            .graph
            .dependencies(low)
            .into_iter()
            .map(|(_, at)| &self.compiled.graph.chunks[at])
            .filter(|needed| {
                let name = tag(needed);
                let result = self.trials.get(&name).or_else(|| self.results.get(&name));
                result.is_some_and(|r| r.get("result").and_then(Value::as_bool) == Some(false))
            })
            .map(|needed| {
                let text = |key| needed.str(key).unwrap_or_default();
                format!("{}.{}", text("__sls__"), text("__id__"))
            })
            .collect();
        let list: Vec<String> = failed.into_iter().collect();
        let comment = format!("One or more requisite failed: {}", list.join(", "));
        self.not_run(low, name, false, &comment);
    }

    fn not_run(&mut self, low: &Map, name: &str, result: bool, comment: &str) {
        let skipped = self.skipped(low, result, comment);
        if flag(low, "__prereq__") {
            self.trials.insert(name.to_owned(), skipped.clone());
        }
        self.store(name.to_owned(), skipped);
    }

    fn skipped(&mut self, low: &Map, result: bool, comment: &str) -> Map {
        let mut skipped = halite_wire::map! {
            "changes" => Map::new(), "result" => result, "duration" => 0.001,
            "start_time" => time_of_day(), "comment" => comment, "__state_ran__" => false,
        };
        self.stamp(low, &mut skipped);
        skipped
    }

    fn stamp(&mut self, low: &Map, result: &mut Map) {
        result.set("__run_num__", self.number);
        self.number += 1;
        for key in ["__sls__", "__id__", "name"] {
            result.set(key, low.get(key).cloned());
        }
    }

    /// Checks the requisites of a call (`_check_requisites`).
    fn verdict(&mut self, low: &Map) -> Verdict {
        let needed = self.compiled.graph.dependencies(low);
        let mut kinds: Vec<(Requisite, Vec<String>)> = Vec::new();
        for (kind, at) in needed {
            let name = tag(&self.compiled.graph.chunks[at]);
            match kinds.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, names)) => names.push(name),
                None => kinds.push((kind, vec![name])),
            }
        }
        let names: Vec<&String> = kinds
            .iter()
            .filter(|(k, _)| *k != Requisite::Prereq)
            .flat_map(|(_, n)| n)
            .collect();
        let running = !self.reconcile(Some(&names), !flag(low, "parallel"));
        let mut found = BTreeSet::new();
        for (kind, names) in &kinds {
            let result_of = |name: &str| match kind {
                Requisite::Prereq => self.trials.get(name),
                _ => self.results.get(name),
            };
            found.extend(check_requisite(*kind, names, &result_of));
        }
        verdict(&found, running)
    }

    /// Collects results of finished parallel states, among `names` or all; with `wait`, of unfinished ones,
    /// too. Returns whether none is left.
    fn reconcile(&mut self, names: Option<&[&String]>, wait: bool) -> bool {
        let mut none_left = true;
        let mut at = 0;
        while at < self.started.len() {
            let meant = names.is_none_or(|names| names.contains(&&self.started[at].tag));
            if !meant {
                at += 1;
                continue;
            }
            self.start_queued();
            let over = wait
                || self.started[at]
                    .handle
                    .as_ref()
                    .is_some_and(|h| h.is_finished());
            if !over {
                none_left = false;
                at += 1;
                continue;
            }
            if self.started[at].handle.is_none() {
                // Waits for others, which must end first.
                self.wait_for_one();
                continue;
            }
            self.collect(at);
        }
        none_left
    }

    fn collect(&mut self, at: usize) {
        let done = self.started.remove(at);
        let Some(handle) = done.handle else { return };
        let number = self
            .results
            .get(&done.tag)
            .and_then(|r| r.int("__run_num__"));
        let (mut result, retries) = handle.join().unwrap_or_else(|_| {
            let failed = halite_wire::map! {
                "name" => done.low.get("name").cloned(), "changes" => Map::new(), "result" => false,
                "comment" => "Parallel process failed to return",
            };
            (failed, 0)
        });
        result.set("__run_num__", number.unwrap_or(self.number));
        // Stock forgets it when it tries again.
        if retries == 0 {
            result.set("__parallel__", true);
        }
        self.store(done.tag, result);
        self.start_queued();
    }

    fn start_queued(&mut self) {
        let most = match self.options.max_parallel {
            0 => usize::MAX,
            most => most,
        };
        let running = self.started.iter().filter(|s| s.handle.is_some()).count();
        let places = most.saturating_sub(running);
        let queued = self.started.iter_mut().filter(|s| s.handle.is_none());
        for started in queued.take(places) {
            let (functions, low, test) = (self.functions, started.low.clone(), self.options.test);
            started.handle = Some(
                self.scope
                    .spawn(move || call_with_retries(functions, &low, test)),
            );
        }
    }

    /// Waits for the parallel state that was started first.
    fn wait_for_one(&mut self) {
        self.start_queued();
        if let Some(at) = self.started.iter().position(|s| s.handle.is_some()) {
            self.collect(at);
        }
    }

    /// Makes the call now, or in a thread if the state is parallel.
    fn call(&mut self, low: &Map) -> Map {
        let number = self.number;
        self.number += 1;
        if flag(low, "parallel") && low.str("fun") != Some("mod_watch") {
            self.started.push(Started {
                tag: tag(low),
                low: low.clone(),
                handle: None,
            });
            let mut result = halite_wire::map! {
                "name" => low.get("name").cloned(), "result" => Value::Nil, "changes" => Map::new(),
                "comment" => "Started in a separate process",
            };
            result.set("__run_num__", number);
            self.start_queued();
            return result;
        }
        let joined = self.joined(low);
        let low = joined.as_ref().unwrap_or(low);
        let (mut result, more) = call_with_retries(self.functions, low, self.options.test);
        // Each attempt takes a number; the last one is shown.
        self.number += more;
        result.set("__run_num__", number + more);
        result
    }

    /// The call with those joined that come later and wait for nothing.
    fn joined(&self, low: &Map) -> Option<Map> {
        const CONDITIONS: [&str; 4] = ["onlyif", "unless", "creates", "__prereq__"];
        if low.str("fun") == Some("mod_watch") || !self.functions.joins(low) {
            return None;
        }
        let graph = &self.compiled.graph;
        let own = tag(low);
        let free = |other: &&Map| {
            let name = tag(other);
            name != own
                && self.results.get(&name).is_none()
                && ["state", "fun"].iter().all(|k| other.get(k) == low.get(k))
                && !CONDITIONS.iter().any(|k| other.contains(k))
                && graph.dependencies(other).is_empty()
                && self.functions.joins(other)
        };
        let others: Vec<&Map> = graph.chunks.iter().map(Arc::as_ref).filter(free).collect();
        if others.is_empty() {
            return None;
        }
        self.functions.joined(low, &others)
    }

    fn trial(&mut self, low: &Map) -> Map {
        call_once(self.functions, low, true)
    }

    pub(super) fn result(&self, tag: &str) -> Option<&Map> {
        self.results.get(tag)
    }

    pub(super) fn add_result(&mut self, tag: String, mut result: Map) {
        result.set("__run_num__", self.number);
        self.number += 1;
        self.store(tag, result);
    }
}

enum Step {
    Done,
    Pending,
    Stop,
}

fn add_comment(result: &mut Map, more: &str) {
    let mut comment = result.str("comment").unwrap_or_default().to_owned();
    comment.push_str(more);
    result.set("comment", comment);
}
