//! `test.*` and `error.error`: functions for testing runners (`salt/runners/test.py`, `error.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// Longest sleep, in seconds.
const LONGEST: f64 = 86_400.0;
const STEP: Duration = Duration::from_millis(100);

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "test.arg",
        args: &["*args", "**kwargs"],
        doc: "Returns its arguments, without keywords that start with two underscores.",
        run: |_, args| Ok(echo(args, |name| !name.starts_with("__"))),
    },
    Function {
        name: "test.raw_arg",
        args: &["*args", "**kwargs"],
        doc: "Returns its arguments.",
        run: |_, args| Ok(echo(args, |_| true)),
    },
    Function {
        name: "test.metasyntactic",
        args: &["?locality"],
        doc: "Metasyntactic variables.",
        run: metasyntactic,
    },
    Function {
        name: "test.stdout_print",
        args: &[],
        doc: "Prints foo and returns bar.",
        run: |context, _| {
            context.text("foo");
            Ok(Value::from("bar").into())
        },
    },
    Function {
        name: "test.sleep",
        args: &["?s_time"],
        doc: "Sleeps for a number of seconds, by default 10.",
        run: sleep,
    },
    Function {
        name: "test.stream",
        args: &[],
        doc: "Fires a progress event every tenth of a second, 99 of them.",
        run: stream,
    },
    Function {
        name: "test.get_opts",
        args: &[],
        doc: "The configuration in effect.",
        run: |context, _| Ok(Value::Map(context.config.as_map()).into()),
    },
    Function {
        name: "error.error",
        args: &["?name", "?message"],
        doc: "Fails with the error of that name, for tests of clients.",
        run: error,
    },
];

fn echo(args: &Args, wanted: impl Fn(&str) -> bool) -> RunnerOutput {
    let kwargs: Map = args
        .keyword
        .iter()
        .filter(|(key, _)| wanted(key.as_str().unwrap_or_default()))
        .cloned()
        .collect();
    Value::Map(halite_wire::map! {"args" => args.positional.clone(), "kwargs" => kwargs}).into()
}

fn metasyntactic(_: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let words: &[&str] = match args.text(0, "locality").as_deref() {
        None | Some("us") => &[
            "foo", "bar", "baz", "qux", "quux", "quuz", "corge", "grault", "garply", "waldo",
            "fred", "plugh", "xyzzy", "thud",
        ],
        Some("uk") => &["wibble", "wobble", "wubble", "flob"],
        Some(_) => return Ok(Value::Nil.into()),
    };
    let words: Vec<Value> = words.iter().map(|w| Value::from(*w)).collect();
    Ok(words.into())
}

/// Sleeps until the time is over or the run is stopped.
fn interruptible_sleep(context: &RunContext, time: Duration) {
    let end = Instant::now() + time;
    while !context.stop.is_set() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(STEP));
    }
}

fn sleep(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let given = args.get(0, "s_time");
    let seconds = match given {
        None => 10.0,
        Some(Value::Float(f)) => *f,
        Some(other) => other.as_int().map(|n| n as f64).ok_or_else(|| {
            RunError::Raised("TypeError".into(), "s_time must be a number".into())
        })?,
    };
    let time = Duration::try_from_secs_f64(seconds.min(LONGEST))
        .map_err(|e| RunError::Raised("ValueError".into(), e.to_string()))?;
    let shown = given.map_or_else(|| "10".to_owned(), halite_modules::execution::python::str);
    context.text(&shown);
    interruptible_sleep(context, time);
    Ok(Value::Bool(true).into())
}

fn stream(context: &mut RunContext, _: &Args) -> Result<RunnerOutput, RunError> {
    for n in 1..100 {
        context.progress(halite_wire::map! {"message" => format!("Runner is {n}% done")});
        interruptible_sleep(context, STEP);
    }
    Ok(Value::Bool(true).into())
}

fn error(_: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    match args.text(0, "name") {
        None => Ok(Value::Map(Map::new()).into()),
        Some(name) => Err(RunError::Raised(
            name,
            args.text(1, "message").unwrap_or_default(),
        )),
    }
}
