//! `arena.*`: runtimes of ARENA and their modules. Not a runner of Salt's.
//!
//! Queries are answered from the gateway's store. Actions are sent to a runtime as jobs, so that access control,
//! events and the job cache treat them like any other; the gateway carries them out.

use crate::choice::{Candidate, Choice, Fit, choose};
use crate::registry::{ArenaStore, KeptModule, KeptRuntime, Snapshot};
use crate::wire::{DEFAULT_APIS, RuntimeState, State, Uuid};
use halite_client::command::arguments;
use halite_client::gather::MinionOutcome;
use halite_client::local::Job;
use halite_client::runner::query::{QueryTimeouts, query};
use halite_client::runner::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_wire::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The runner functions of this gateway.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "arena.runtimes",
        args: &[],
        doc: "Lists the known runtimes of ARENA: their states, what they offer, how many modules they have.",
        run: runtimes,
    },
    Function {
        name: "arena.modules",
        args: &["?all"],
        doc: "Lists the modules of all runtimes, oldest first; with all=True also those that have ended.",
        run: modules,
    },
    Function {
        name: "arena.schedule",
        args: &["?apis"],
        doc: "Shows where a module that needs these apis would run, and for each runtime why or why not.",
        run: schedule,
    },
    Function {
        name: "arena.create",
        args: &["file", "**kwargs"],
        doc: "Starts a module on the runtime that arena.schedule shows; takes the arguments of the execution function arena.create.",
        run: create,
    },
    Function {
        name: "arena.delete",
        args: &["module"],
        doc: "Ends a module, given its uuid or a unique name.",
        run: delete,
    },
];

fn load(context: &RunContext) -> Result<Snapshot, RunError> {
    Ok(ArenaStore::new(&context.config.cachedir).load()?)
}

/// An index of the saved state.
struct Known<'a> {
    snapshot: &'a Snapshot,
    by_uuid: HashMap<&'a Uuid, &'a KeptRuntime>,
    /// How many modules of each runtime have not ended.
    counts: HashMap<&'a Uuid, u32>,
}

impl<'a> Known<'a> {
    fn of(snapshot: &'a Snapshot) -> Known<'a> {
        let runtimes = snapshot.runtimes.iter();
        let mut counts: HashMap<&Uuid, u32> = HashMap::new();
        for kept in snapshot.modules.iter().filter(|kept| lives(kept)) {
            if let Some(runtime) = &kept.module.runtime {
                *counts.entry(runtime).or_default() += 1;
            }
        }
        Known {
            snapshot,
            by_uuid: runtimes.map(|kept| (&kept.runtime.uuid, kept)).collect(),
            counts,
        }
    }

    fn count(&self, kept: &KeptRuntime) -> u32 {
        self.counts.get(&kept.runtime.uuid).copied().unwrap_or(0)
    }

    fn place(&self, kept: &KeptModule) -> Option<&'a KeptRuntime> {
        self.by_uuid.get(kept.module.runtime.as_ref()?).copied()
    }

    /// All runtimes, without records of disconnected ones whose id now belongs to a connected one, as after a device
    /// was reinstalled.
    fn shown(&self) -> Vec<&'a KeptRuntime> {
        let alive = self.snapshot.runtimes.iter().filter(|kept| is_alive(kept));
        let alive: HashSet<&str> = alive.map(|kept| kept.id.as_str()).collect();
        let all = self.snapshot.runtimes.iter();
        all.filter(|kept| is_alive(kept) || !alive.contains(kept.id.as_str()))
            .collect()
    }

    fn candidates(&self) -> Vec<Candidate<'a>> {
        let runtimes = self.shown().into_iter();
        let candidate = |kept: &'a KeptRuntime| Candidate {
            uuid: &kept.runtime.uuid,
            name: &kept.runtime.name,
            id: &kept.id,
            kind: &kept.runtime.kind,
            apis: &kept.runtime.apis,
            max_modules: kept.runtime.max_modules,
            modules: self.count(kept),
            memory: kept.memory,
            alive: is_alive(kept),
        };
        runtimes.map(candidate).collect()
    }
}

fn is_alive(kept: &KeptRuntime) -> bool {
    kept.runtime.state == RuntimeState::Alive
}

fn lives(kept: &KeptModule) -> bool {
    kept.module.state != State::Dead
}

fn runtimes(context: &mut RunContext, _: &Args) -> Result<RunnerOutput, RunError> {
    let snapshot = load(context)?;
    let known = Known::of(&snapshot);
    let mut out = Map::new();
    for kept in known.shown() {
        let mut told = kept.summary();
        told.remove("id");
        told.set("modules", known.count(kept));
        out.set(kept.id.as_str(), told);
    }
    Ok(Value::Map(out).into())
}

fn modules(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let snapshot = load(context)?;
    let known = Known::of(&snapshot);
    let all = args.flag(0, "all");
    let shown = snapshot.modules.iter().filter(|kept| all || lives(kept));
    let rows: Vec<Value> = shown
        .map(|kept| kept.brief(known.place(kept)).into())
        .collect();
    Ok(rows.into())
}

/// The apis that a module needs.
fn apis(args: &Args, at: usize) -> Vec<String> {
    // Separated by commas or spaces, as the runtime accepts them too.
    let given = args.list(at, "apis").map(|apis| {
        let words = apis.iter().flat_map(|api| api.split_whitespace());
        words.map(str::to_owned).collect()
    });
    given.unwrap_or_else(|| DEFAULT_APIS.map(str::to_owned).to_vec())
}

fn schedule(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let snapshot = load(context)?;
    let known = Known::of(&snapshot);
    let candidates = known.candidates();
    let choice = choose(&apis(args, 0), &candidates);
    Ok(Value::Map(explained(&candidates, &choice)).into())
}

/// A choice with its reasons.
fn explained(candidates: &[Candidate], choice: &Choice) -> Map {
    let mut rows = Map::new();
    for (at, (candidate, fit)) in candidates.iter().zip(&choice.fits).enumerate() {
        let verdict = if choice.chosen == Some(at) {
            "chosen".to_owned()
        } else if *fit == Fit::Fits {
            format!("{fit}, but another has fewer modules or takes less memory")
        } else {
            fit.to_string()
        };
        let row = halite_wire::map! {
            "name" => candidate.name, "uuid" => candidate.uuid.as_str(), "modules" => candidate.modules,
            "max_nmodules" => candidate.max_modules, "memory" => candidate.memory, "verdict" => verdict,
        };
        rows.set(candidate.id, row);
    }
    let chosen = choice.chosen.and_then(|at| candidates.get(at));
    halite_wire::map! {
        "chosen" => chosen.map_or(Value::Nil, |candidate| candidate.id.into()),
        "later" => choice.later, "runtimes" => rows,
    }
}

fn create(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let snapshot = load(context)?;
    let known = Known::of(&snapshot);
    let candidates = known.candidates();
    let choice = choose(&apis(args, usize::MAX), &candidates);
    // If all are full, the gateway queues the module.
    let full = || choice.fits.iter().position(|fit| *fit == Fit::Full);
    let place = choice.chosen.or_else(full);
    let Some(candidate) = place.and_then(|at| candidates.get(at)) else {
        let reasons = candidates.iter().zip(&choice.fits);
        let reasons: Vec<String> = reasons
            .map(|(candidate, fit)| format!("{} {fit}", candidate.id))
            .collect();
        let reasons = if reasons.is_empty() {
            "none is known".to_owned()
        } else {
            reasons.join("; ")
        };
        return Err(RunError::Unknown(format!("no runtime fits: {reasons}")));
    };
    let mut named = args.keyword.clone();
    named
        .0
        .retain(|(key, _)| key.as_str().is_some_and(|key| !key.starts_with("__")));
    named.set("file", args.text(0, "file"));
    named.set("scheduled", true);
    run(
        context,
        candidate.id,
        "arena.create",
        arguments(Vec::new(), named),
    )
}

fn delete(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let snapshot = load(context)?;
    let known = Known::of(&snapshot);
    let wanted = args.text(0, "module").unwrap_or_default();
    let kept = find(&snapshot, &wanted)?;
    // A module without a runtime, or with one that is disconnected, can be ended through any runtime.
    let own = known.place(kept);
    let any = || snapshot.runtimes.iter().find(|kept| is_alive(kept));
    let place = own.filter(|kept| is_alive(kept)).or_else(any).or(own);
    let place = place.or(snapshot.runtimes.first());
    let Some(place) = place else {
        let text = format!("no runtime is known that could end {wanted}");
        return Err(RunError::Unknown(text));
    };
    let module = Value::from(kept.module.uuid.as_str());
    run(context, &place.id, "arena.delete", vec![module])
}

fn find<'a>(snapshot: &'a Snapshot, wanted: &str) -> Result<&'a KeptModule, RunError> {
    let mut living = snapshot.modules.iter().filter(|kept| lives(kept));
    let exact = living
        .clone()
        .find(|kept| kept.module.uuid.as_str() == wanted);
    if let Some(found) = exact {
        return Ok(found);
    }
    let named = |kept: &&KeptModule| kept.module.name == wanted;
    let problem = match (living.find(named), living.find(named)) {
        (Some(found), None) => return Ok(found),
        (None, _) => format!("there is no module {wanted:?}"),
        (Some(_), Some(_)) => format!("several modules have the name {wanted:?}; use a uuid"),
    };
    Err(RunError::Unknown(problem))
}

/// Runs a function on one runtime and returns its result.
fn run(
    context: &mut RunContext,
    id: &str,
    fun: &str,
    arg: Vec<Value>,
) -> Result<RunnerOutput, RunError> {
    let job = Job {
        fun: fun.into(),
        arg,
        tgt: vec![id.to_owned()].into(),
        tgt_type: "list".to_owned(),
        ..Job::default()
    };
    let outcomes = query(context, job, QueryTimeouts::default())?;
    let outcome = outcomes.into_iter().find(|(found, _)| found == id);
    match outcome {
        Some((_, MinionOutcome::Returned(mut load))) => {
            let value = load.remove("return").unwrap_or_default();
            context.run.retcode = load.int("retcode").unwrap_or(0);
            Ok(value.into())
        }
        _ => Err(RunError::Unknown(format!(
            "{id} has not answered; is the gateway for ARENA running?"
        ))),
    }
}

#[cfg(test)]
pub(crate) mod tests;
