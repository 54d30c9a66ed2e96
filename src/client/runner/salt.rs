//! `salt.*`: execution functions, on the master itself or on minions (`salt/runners/salt.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::command::arguments;
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_modules::execution::{CallError, Context};
use halite_modules::grains;
use halite_modules::guard;
use halite_wire::{Map, Value};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "salt.cmd",
        args: &["fun", "*args", "**kwargs"],
        doc: "Runs an execution function on the master's host.",
        run: cmd,
    },
    Function {
        name: "salt.execute",
        args: &[
            "tgt",
            "fun",
            "?arg",
            "?timeout",
            "?tgt_type",
            "?ret",
            "?jid",
            "?kwarg",
            "**kwargs",
        ],
        doc: "Runs an execution function on minions and returns what each of them returned.",
        run: execute,
    },
];

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

fn cmd(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let mut keyword = args.keyword.clone();
    let named = keyword.remove("fun");
    let fun = args.positional.first().or(named.as_ref());
    let fun = fun.and_then(Value::as_str);
    let fun = fun.ok_or_else(|| invalid("fun must be the name of a function"))?;
    if keyword.remove("with_pillar").is_some_and(|v| v.truthy()) {
        return Err(invalid("with_pillar: the master itself has no pillar"));
    }
    keyword
        .0
        .retain(|(k, _)| k.as_str().is_some_and(|k| !k.starts_with("__")));
    let arg: Vec<Value> = args.positional.iter().skip(1).cloned().collect();
    let arg = arguments(arg, keyword);
    let config = &context.config;
    let mut own = grains::collect(&Map::new());
    own.set("id", config.id.as_str());
    let ctx = Context {
        grains: Arc::new(own),
        ..Context::of_master(config)
    };
    let outcome = guard::guarded(&ctx, fun, &arg, &guard::FunctionFilter::default());
    match outcome.fault {
        // Stock returns this text and counts it as success.
        Some(CallError::Missing(_)) => {
            context.run.retcode = 1;
            Ok(Value::from(format!("'{fun}' is not available.")).into())
        }
        Some(fault) => Err(RunError::Raised(
            exception_class(&fault).into(),
            fault.message().into(),
        )),
        None => {
            context.run.retcode = outcome.retcode;
            Ok(outcome.ret.into())
        }
    }
}

fn exception_class(fault: &CallError) -> &str {
    match fault {
        CallError::Missing(_) | CallError::Command(_) => "CommandExecutionError",
        CallError::CommandNotFound(_) => "CommandNotFoundError",
        CallError::Invocation(_) => "SaltInvocationError",
        CallError::Type(_) => "TypeError",
        CallError::Raised(class, _) | CallError::Traced(class, ..) => class,
    }
}

fn execute(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let mut out = Map::new();
    for (id, outcome) in outcomes(context, args)? {
        if let MinionOutcome::Returned(load) = outcome {
            out.set(id, load.get("return").cloned());
        }
    }
    Ok(Value::Map(out).into())
}

/// Returns of minions in the form of stock's `LocalClient.cmd_iter`: by id, a map of `ret`, `out`, `retcode`
/// and `jid`. The arguments are those of `salt.execute`.
///
/// # Errors
/// The job cannot be published, or its returns cannot be read.
pub fn command(context: &mut RunContext, args: &Args) -> Result<Map, RunError> {
    let mut out = Map::new();
    for (id, outcome) in outcomes(context, args)? {
        let MinionOutcome::Returned(load) = outcome else {
            continue;
        };
        let mut told = halite_wire::map! {"ret" => load.get("return").cloned().unwrap_or_default()};
        for key in ["out", "retcode", "jid"] {
            if let Some(value) = load.get(key) {
                told.set(key, value.clone());
            }
        }
        out.set(id, told);
    }
    Ok(out)
}

fn outcomes(
    context: &mut RunContext,
    args: &Args,
) -> Result<Vec<(String, MinionOutcome)>, RunError> {
    let mut arg = match args.get(2, "arg") {
        None => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(other) => vec![other.clone()],
    };
    match args.get(7, "kwarg") {
        None => {}
        Some(Value::Map(map)) => arg = arguments(arg, map.clone()),
        Some(_) => return Err(invalid("kwarg must be a map")),
    }
    let text = |at, name| args.text(at, name).unwrap_or_default();
    let job = Job {
        fun: args.get(1, "fun").cloned().unwrap_or_default(),
        arg,
        tgt: args.get(0, "tgt").cloned().unwrap_or_default(),
        tgt_type: args.text(4, "tgt_type").unwrap_or_else(|| "glob".into()),
        ret: text(5, "ret"),
        jid: text(6, "jid"),
        kwargs: extra_kwargs(args),
    };
    let times = QueryTimeouts {
        timeout: args.int(3, "timeout").and_then(|n| u64::try_from(n).ok()),
        gather_job_timeout: None,
    };
    query(context, job, times)
}

/// Keyword arguments that are sent to the master with the job: `delimiter`, `metadata`, `ret_config`, ...
fn extra_kwargs(args: &Args) -> Map {
    const OWN: &[&str] = &[
        "tgt", "fun", "arg", "timeout", "tgt_type", "ret", "jid", "kwarg",
    ];
    args.keyword
        .iter()
        .filter(|(k, _)| k.as_str().is_some_and(|k| !OWN.contains(&k)))
        .cloned()
        .collect()
}
