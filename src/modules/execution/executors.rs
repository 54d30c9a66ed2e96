//! Executors: what runs a job's function, or lets the next one do so (`module_executors`; `salt/executors`). Halite has
//! `direct_call`, `splay` and `sudo`; others are users' Python files (`_executors`), or those of an installed Salt.

use super::command_helpers::program_beside;
use super::declare::Result;
use super::{CallError, CallOutcome, Context, bind, find_for, python, python_modules};
use halite_python::questions::value_and_retcode;
use halite_python::{Nothing, files};
use halite_sys::programs::which;
use halite_wire::fnv::fnv;
use halite_wire::yaml::job_input;
use halite_wire::{Map, Value, json};
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
const OWN: &[&str] = &["direct_call", "splay", SUDO];
/// The executor that runs `halite-call` as the account of the option `sudo_user`.
const SUDO: &str = "sudo";
const SUDO_USER: &str = "sudo_user";

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
            SUDO => sudo(ctx, fun, args).map(Some),
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
    let given = |wanted: &Value| match wanted {
        Value::Str(name) => Some(vec![name.clone()]),
        Value::Array(all) => all
            .iter()
            .map(|name| Some(name.as_str()?.to_owned()))
            .collect(),
        _ => None,
    };
    let mut names = match wanted {
        None => vec!["direct_call".to_owned()],
        // One that is not understood may be there to hold something back.
        Some(wanted) => given(wanted).ok_or_else(|| {
            CallError::Invocation(format!(
                "Wrong executors specification: {}. String or non-empty list expected",
                python::repr(wanted)
            ))
        })?,
    };
    // As in stock, what would run the function in the minion no longer does.
    let is_minion = ctx.opts.str("__cli") == Some("salt-minion");
    if is_minion && !is_scheduled && sudo_user(ctx).is_ok() {
        names.pop();
        // Also what stands before: a job chooses its executors, not its account.
        names.retain(|name| name != "direct_call");
        names.push(SUDO.to_owned());
    }
    Ok(names)
}

fn sudo_user(ctx: &Context) -> Result<&str> {
    let user = ctx.opts.str(SUDO_USER).filter(|user| !user.is_empty());
    user.ok_or_else(|| no_sudo(&format!("set {SUDO_USER}")))
}

fn no_sudo(why: &str) -> CallError {
    CallError::Invocation(format!("Executor '{SUDO}' is not available: {why}"))
}

/// A value as a word of a command line: JSON is YAML, but for what YAML takes for unprintable. A word with `#` is not parsed.
fn as_json(value: &Value) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let is_odd =
        |c: char| matches!(c, '#' | '\u{7f}'..='\u{a0}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}');
    let escaped = text.chars().map(|c| match is_odd(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    });
    escaped.collect()
}

/// A keyword as a word of a command line.
///
/// # Errors
/// Read again, its name would be another one, which nobody has checked.
fn as_keyword(key: &Value, value: &Value) -> Result<Value> {
    let name = python::str(key);
    let is_plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if !name.chars().all(is_plain) || !name.starts_with(|c: char| !c.is_ascii_digit()) {
        return Err(CallError::Invocation(format!(
            "Executor '{SUDO}' takes no keyword {}: use letters, digits and underscores",
            python::repr(key)
        )));
    }
    Ok(format!("{name}={}", as_json(value)).into())
}

/// Runs the function in `halite-call`, as another account (`salt/executors/sudo.py`).
fn sudo(ctx: &Context, fun: &str, args: &[Value]) -> Result<CallOutcome> {
    let program = program_beside("halite-call");
    let config = ctx.opts.str("config_dir").unwrap_or_default();
    // What the master gets is the return of the job, and this is the last executor.
    let sudo = which(SUDO).ok_or_else(|| no_sudo("install sudo"))?;
    let mut words = vec![sudo.as_str(), "-n", "-u", sudo_user(ctx)?, "--", &program];
    words.extend(["--no-return-event", "--out=json", "--metadata"]);
    words.extend(["--module-executors", "direct_call"]);
    words.extend(["-c", config, "--", fun]);
    let mut words: Vec<Value> = words.into_iter().map(Value::from).collect();
    let (positional, mut keywords) = job_input(args);
    let takes_concurrent =
        || find_for(ctx, fun).is_some_and(|function| function.accepts("concurrent"));
    if fun.starts_with("state.") && takes_concurrent() {
        // This job itself is a state run under way. (Stock forgets state.single and the like.)
        keywords.set("concurrent", true);
    }
    words.extend(positional.iter().map(|arg| as_json(arg).into()));
    for (key, value) in keywords.iter() {
        words.push(as_keyword(key, value)?);
    }
    let quiet = halite_wire::map! {"python_shell" => false, "output_loglevel" => "quiet"};
    let ran = super::with_call(ctx, |call| {
        call.salt("cmd.run_all", vec![words.into()], quiet)
    })?;
    let ran = ran.into_map().unwrap_or_default();
    let text = |key: &str| ran.str(key).unwrap_or_default();
    let answer = json::parse::<Value>(text("stdout").as_bytes())
        .ok()
        .and_then(Value::into_map);
    let answer = answer.and_then(|mut all| all.remove("local")?.into_map());
    let (ret, told) = match &answer {
        Some(answer) => (answer.get("return").cloned().unwrap_or_default(), answer),
        None => (text("stderr").into(), &ran),
    };
    let retcode = told.get("retcode").cloned().unwrap_or_default();
    Ok(super::finished(ret, retcode))
}

fn unknown(ctx: &Context, name: &str) -> CallError {
    let function = format!("{name}.execute");
    let why = python_modules::fault(ctx, KIND, &function);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    CallError::Invocation(format!("Executor '{name}' is not available{why}"))
}

fn is_python(ctx: &Context, name: &str) -> bool {
    python_modules::has(ctx, KIND, &format!("{name}.execute"), OWN.contains(&name))
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
        let mut sudo = own();
        sudo.set("sudo_user", "root");
        assert_eq!(
            names(&ctx(sudo.clone(), Map::new())).ok(),
            Some(vec!["a".to_owned()])
        );
        sudo.set("__cli", "salt-minion");
        assert_eq!(
            names(&ctx(sudo, Map::new())).ok(),
            Some(vec!["sudo".to_owned()])
        );
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
    fn keywords_for_sudo_keep_their_names() {
        let word = |name: &str| as_keyword(&name.into(), &"x\u{85}".into()).ok();
        assert_eq!(word("key_1"), Some("key_1=\"x\\u0085\"".into()));
        for odd in ["a=b", "", "1a", "a b", "--x", "a.b", "__kwarg__\n"] {
            assert_eq!(word(odd), None, "{odd:?}");
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
