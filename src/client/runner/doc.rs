//! `doc.*`: documentation of functions (`salt/runners/doc.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "doc.runner",
        args: &[],
        doc: "What each runner function does.",
        run: |context, _| {
            let all = super::all_functions(&context.config).into_iter();
            Ok(docs(all.map(|f| (f.name, f.usage(), f.doc))))
        },
    },
    Function {
        name: "doc.wheel",
        args: &[],
        doc: "What each wheel function does.",
        run: |_, _| {
            let all = crate::wheel::functions();
            Ok(docs(all.map(|f| (f.name, f.usage(), f.doc))))
        },
    },
    Function {
        name: "doc.execution",
        args: &[],
        doc: "What the execution functions of the minions do, by asking them.",
        run: execution,
    },
];

fn docs<'a>(all: impl Iterator<Item = (&'a str, String, &'a str)>) -> RunnerOutput {
    let mut docs: Vec<_> = all.collect();
    docs.sort_unstable();
    let out: Map = docs
        .into_iter()
        .map(|(name, usage, doc)| (name, format!("\n{name} {usage}\n    {doc}\n")))
        .collect();
    Value::Map(out).into()
}

fn execution(context: &mut RunContext, _: &Args) -> Result<RunnerOutput, RunError> {
    let job = Job {
        fun: "sys.doc".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    let mut out = Map::new();
    for (_, outcome) in query(context, job, QueryTimeouts::default())? {
        let MinionOutcome::Returned(mut load) = outcome else {
            continue;
        };
        let docs = load.remove("return").and_then(Value::into_map);
        for (name, doc) in docs.unwrap_or_default().0 {
            let Value::Str(name) = name else { continue };
            if !out.contains(&name) {
                out.set(name, doc);
            }
        }
    }
    Ok(Value::Map(out).into())
}
