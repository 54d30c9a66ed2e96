//! Executors: what runs a job's function, or lets the next one do so (`module_executors`; `salt/executors`). Halite has
//! `direct_call` and `splay`; others are users' Python files (`_executors`), or those of an installed Salt.

use super::declare::Result;
use super::{CallError, CallOutcome, Context, bind, find_for, python, python_modules};
use halite_python::questions::value_and_retcode;
use halite_python::{Nothing, files};
use halite_wire::fnv::fnv;
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The option, and the field of a job.
pub const EXECUTORS: &str = "module_executors";
/// Settings of executors: an option, and a field of a job.
pub const SETTINGS: &str = "executor_opts";
const KIND: &str = "executors";
/// Seconds within which `splay` waits, unless `splaytime` in [`SETTINGS`] or of the configuration says otherwise.
const SPLAY: u64 = 300;
/// Most seconds of it: a day.
const MAX_SPLAY: u64 = 86_400;

/// Those of halite.
const OWN: &[&str] = &["direct_call", "splay"];

/// Those of the configuration that are not there, in words.
pub fn absent(opts: &Arc<Map>) -> Vec<String> {
    let named = opts.get(EXECUTORS).map(Value::str_list).unwrap_or_default();
    let is_there =
        |name: &String| OWN.contains(&name.as_str()) || files::is_possible(opts, KIND, name, false);
    let own = OWN.join(", ");
    named
        .iter()
        .filter(|name| !is_there(name))
        .map(|name| {
            format!(
                "{EXECUTORS}: '{name}' is not available, and jobs fail; there are {own}, and the Python files that \
                 saltutil.sync_executors fetches"
            )
        })
        .collect()
}

/// Runs a function through the executors of the job, or of the configuration. Scheduled jobs have none, as in stock.
pub fn call(ctx: &Context, fun: &str, args: &[Value]) -> CallOutcome {
    let fail = |fault| {
        let doc = find_for(ctx, fun).map_or("", |function| function.doc);
        super::failed(fun, doc, fault)
    };
    // Whether a job still runs is asked of the minion itself: an answer that waits makes it look lost.
    if fun == "saltutil.find_job" {
        return super::call(ctx, fun, args);
    }
    let names = match names(ctx) {
        Ok(names) => names,
        Err(fault) => return fail(fault),
    };
    for name in &names {
        let done = match name.as_str() {
            "direct_call" => return super::call(ctx, fun, args),
            _ if find_for(ctx, fun).is_none() => return super::not_available(ctx, fun),
            // A file of that name comes first.
            _ if is_python(ctx, name) => in_python(ctx, name, fun, args),
            "splay" => splay(ctx),
            _ => Err(unknown(ctx, name)),
        };
        match done {
            Ok(None) => {}
            Ok(Some(outcome)) => return outcome,
            Err(fault) => return fail(fault),
        }
    }
    fail(CallError::Invocation(format!(
        "None of the executors {} has run it; let {EXECUTORS} end with direct_call",
        names.join(", ")
    )))
}

fn setting<'a>(ctx: &'a Context, key: &str) -> Option<&'a Value> {
    let job = ctx.job.as_ref().and_then(|job| job.get(key));
    // Nothing in a job is no way around those of the configuration.
    [job, ctx.opts.get(key)]
        .into_iter()
        .flatten()
        .find(|value| value.truthy())
}

fn names(ctx: &Context) -> Result<Vec<String>> {
    let is_scheduled = ctx.job.as_ref().is_some_and(|job| job.contains("schedule"));
    let wanted = setting(ctx, EXECUTORS).filter(|_| !is_scheduled);
    let names = match wanted {
        None => return Ok(vec!["direct_call".to_owned()]),
        Some(Value::Str(name)) => return Ok(vec![name.clone()]),
        Some(other) => other.str_list(),
    };
    // One that is not understood may be there to hold something back.
    let given = wanted.and_then(Value::as_array).map_or(0, <[Value]>::len);
    if names.is_empty() || names.len() != given {
        let shown = python::repr(wanted.unwrap_or(&Value::Nil));
        return Err(CallError::Invocation(format!(
            "Wrong executors specification: {shown}. String or non-empty list expected"
        )));
    }
    Ok(names)
}

fn unknown(ctx: &Context, name: &str) -> CallError {
    let function = format!("{name}.execute");
    let why = python_modules::fault(ctx, KIND, &function);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    CallError::Invocation(format!("Executor '{name}' is not available{why}"))
}

fn is_python(ctx: &Context, name: &str) -> bool {
    python_modules::has(ctx, KIND, &format!("{name}.execute"), name == "splay")
}

/// An executor in Python around the function.
fn in_python(ctx: &Context, name: &str, fun: &str, args: &[Value]) -> Result<Option<CallOutcome>> {
    let Some(function) = find_for(ctx, fun) else {
        return Ok(None);
    };
    let mut data = ctx.job.clone().unwrap_or_default();
    data.set("fun", fun);
    data.set("arg", args.to_vec());
    let (positional, keywords) = bind::load(function, args, Some(&data))?;
    let args = vec![
        name.into(),
        data.into(),
        fun.into(),
        positional.into(),
        keywords.into(),
    ];
    let answer = python_modules::ask(ctx, "execute", args, &mut Nothing)?;
    let (value, retcode) = value_and_retcode(answer);
    if value.is_nil() {
        return Ok(None);
    }
    Ok(Some(super::returned(function, value, retcode)))
}

/// Waits for a time that depends on the minion's id and leaves the function to the next executor.
fn splay(ctx: &Context) -> Result<Option<CallOutcome>> {
    let settings = setting(ctx, SETTINGS).and_then(Value::as_map);
    let seconds = settings
        .and_then(|settings: &Map| settings.int("splaytime"))
        .or_else(|| ctx.opts.int("splaytime"));
    let within = seconds.map_or(SPLAY, |seconds| u64::try_from(seconds).unwrap_or(0));
    let within = within.min(MAX_SPLAY);
    if within == 0 {
        let text = "splaytime must be a positive integer";
        return Err(CallError::raised("ValueError", text));
    }
    let delay = fnv(ctx.id.as_bytes()) % within;
    log::debug!("splay: waiting {delay} seconds of {within}");
    std::thread::sleep(Duration::from_secs(delay));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ctx(opts: Map, job: Map) -> Context {
        Context {
            opts: Arc::new(opts),
            job: Some(job),
            ..Context::default()
        }
    }

    #[test]
    fn the_job_names_them_before_the_configuration() {
        let own = || halite_wire::map! {"module_executors" => vec!["a".to_owned()]};
        assert_eq!(
            names(&ctx(own(), Map::new())).ok(),
            Some(vec!["a".to_owned()])
        );
        let job = halite_wire::map! {"module_executors" => vec!["b".to_owned(), "c".to_owned()]};
        assert_eq!(
            names(&ctx(own(), job)).ok(),
            Some(vec!["b".to_owned(), "c".to_owned()])
        );
        let scheduled = halite_wire::map! {"schedule" => "x"};
        assert_eq!(
            names(&ctx(own(), scheduled)).ok(),
            Some(vec!["direct_call".to_owned()])
        );
        let empty = halite_wire::map! {"module_executors" => Vec::<String>::new()};
        assert_eq!(names(&ctx(own(), empty)).ok(), Some(vec!["a".to_owned()]));
        let one = halite_wire::map! {"module_executors" => "one"};
        assert_eq!(
            names(&ctx(one, Map::new())).ok(),
            Some(vec!["one".to_owned()])
        );
        for odd in [
            Value::Map(own()),
            Value::Array(vec!["a".into(), 1.into()]),
            3.into(),
        ] {
            let job = halite_wire::map! {"module_executors" => odd};
            assert!(names(&ctx(own(), job)).is_err());
        }
    }

    #[test]
    fn one_that_is_not_there_fails_the_job() {
        let job = halite_wire::map! {"module_executors" => vec!["nosuch".to_owned()]};
        let outcome = call(&ctx(Map::new(), job), "test.ping", &[]);
        assert_eq!(
            outcome.ret.as_str(),
            Some("ERROR executing 'test.ping': Executor 'nosuch' is not available")
        );
        assert!(!outcome.success);
    }

    #[test]
    fn splay_waits_and_leaves_the_function_to_the_next() {
        let job = halite_wire::map! {
            "module_executors" => vec!["splay".to_owned(), "direct_call".to_owned()],
            "executor_opts" => halite_wire::map! {"splaytime" => 1},
        };
        let outcome = call(&ctx(Map::new(), job), "test.ping", &[]);
        assert_eq!(outcome.ret, true.into());
    }
}
