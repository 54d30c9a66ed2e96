//! One call: whether it is needed, how often to retry, and its result (`salt/state.py State.call`,
//! `_run_check*`).

use halite_wire::pytext;
use halite_wire::secret::masked;
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// The functions that states call, and a clock.
pub trait StateModules: Sync {
    /// Whether `module.function` exists.
    fn has(&self, function: &str) -> bool;

    /// Why `module.function` does not exist, where more can be said.
    fn reason(&self, _function: &str) -> Option<String> {
        None
    }

    /// Why a call cannot be made, such as a missing argument.
    fn missing_argument(&self, low: &Map) -> Option<String>;

    /// Calls a state function, which returns a map with `name`, `changes`, `result`, `comment`. With `test`
    /// it only reports what it would do.
    fn call(&self, low: &Map, test: bool) -> Map;

    /// Whether the function itself runs the command of `check_cmd`.
    fn runs_check_cmd(&self, _low: &Map) -> bool {
        false
    }

    /// Checks a condition of `onlyif`, `unless` or `check_cmd`: a command that must succeed, or a map with `fun` and
    /// arguments, whose result must be true.
    ///
    /// # Errors
    /// The function cannot be called or has failed: the comment of the state, which then fails.
    fn condition(&self, low: &Map, condition: &Value) -> Result<Condition, String>;

    /// Whether a path exists (`creates`).
    fn exists(&self, path: &str) -> bool;

    /// Called with each result (`state_events`, `fire_event`).
    fn finished(&self, _low: &Map, _result: &Map, _number: usize) {}

    /// Called before each state. `false` ends the run (`state.soft_kill`); blocks while the run is paused.
    fn may_continue(&self, _low: &Map) -> bool {
        true
    }

    /// Whether other calls may be joined with this one (`aggregate`, `state_aggregate`).
    fn joins(&self, _low: &Map) -> bool {
        false
    }

    /// The call with those of the same module joined that are still to be made, which then find their work done.
    fn joined(&self, _low: &Map, _others: &[&Map]) -> Option<Map> {
        None
    }

    /// Waits between attempts.
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Calls a state until the result is as wanted or attempts are used up (`retry`). Returns the result and the
/// number of retries.
pub(super) fn call_with_retries(functions: &dyn StateModules, low: &Map, test: bool) -> (Map, i64) {
    let mut result = timed(functions, low, test);
    let Some(retry) = low.get("retry").map(Retry::new) else {
        return (result, 0);
    };
    if test {
        let comment = format!(
            "{}  The state would be retried every {} seconds (with a splay of up to {} seconds) \
             a maximum of {} times or until a result of {} is returned",
            result.str("comment").unwrap_or_default(),
            retry.interval,
            retry.splay,
            retry.attempts,
            if retry.until { "True" } else { "False" }
        );
        result.set("comment", comment);
        return (result, 0);
    }
    // As in stock, a parallel state has one attempt more, and tells of each after it.
    let parallel = low.get("parallel").is_some_and(Value::truthy);
    let most = if parallel {
        retry.attempts
    } else {
        retry.attempts - 1
    };
    let comment = |result: &Map| result.str("comment").unwrap_or_default().to_owned();
    let mut said = Vec::from_iter(parallel.then(|| comment(&result)));
    let mut retries = 0;
    let start = result.get("start_time").cloned();
    let mut total = 0.0;
    while result.get("result").and_then(Value::as_bool) != Some(retry.until) && retries < most {
        retries += 1;
        if !parallel {
            said.push(attempt(retries, &result));
        }
        let pause = retry.pause();
        total += duration_of(&result) + pause * 1000.0;
        functions.sleep(Duration::from_secs_f64(pause));
        result = timed(functions, low, test);
        if parallel {
            said.push(attempt(retries, &result));
        }
    }
    if retries > 0 {
        if !parallel {
            said.push(comment(&result));
        }
        result.set("comment", said.join("\n"));
        let duration = total + duration_of(&result);
        result.set("duration", duration);
        result.set("start_time", start);
    }
    (result, retries)
}

/// What the comment says of one of several attempts.
fn attempt(number: i64, result: &Map) -> String {
    let outcome = match result.get("result").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "None",
    };
    format!(
        "Attempt {number}: Returned a result of \"{outcome}\", with the following comment: \"{}\"",
        result.str("comment").unwrap_or_default()
    )
}

fn duration_of(result: &Map) -> f64 {
    match result.get("duration") {
        Some(Value::Float(f)) => *f,
        Some(Value::Int(i)) => *i as f64,
        _ => 0.0,
    }
}

struct Retry {
    until: bool,
    attempts: i64,
    interval: i64,
    splay: i64,
}

impl Retry {
    /// `retry: True` or a map. Values of the wrong type are ignored (`verify_retry_data`).
    fn new(value: &Value) -> Retry {
        let map = value.as_map();
        let int = |key: &str, default| map.and_then(|m| m.int(key)).unwrap_or(default).max(0);
        Retry {
            until: map
                .and_then(|m| m.get("until"))
                .and_then(Value::as_bool)
                .unwrap_or(true),
            attempts: match value {
                Value::Bool(false) => 0,
                _ => int("attempts", 2),
            },
            interval: int("interval", 30),
            splay: int("splay", 0),
        }
    }

    fn pause(&self) -> f64 {
        let splay = rand::Rng::gen_range(&mut rand::thread_rng(), 0..=self.splay);
        self.interval.saturating_add(splay) as f64
    }
}

/// One call, with its duration and the keys that every result has.
fn timed(functions: &dyn StateModules, low: &Map, test: bool) -> Map {
    let began = Instant::now();
    let start = time_of_day();
    if let Some(failure) = unknown(functions, low) {
        return failure;
    }
    let mut result = call_known(functions, low, test);
    if low.get("no_log").is_some_and(Value::truthy) {
        for key in ["name", "comment", "changes"] {
            let shown = result.get(key).cloned().map(masked);
            result.set(key, shown);
        }
    }
    result.set("__sls__", low.get("__sls__").cloned());
    result.set("start_time", start);
    // Milliseconds with three decimals.
    let micros = began.elapsed().as_micros() as f64;
    result.set("duration", micros / 1000.0);
    result.set("__id__", low.get("__id__").cloned());
    result
}

/// One call without these keys, as a trial for a `prereq`.
pub(super) fn call_once(functions: &dyn StateModules, low: &Map, test: bool) -> Map {
    unknown(functions, low).unwrap_or_else(|| call_known(functions, low, test))
}

/// Why a call cannot be made at all (`State.verify_data`). As in stock, the result has neither times nor id.
fn unknown(functions: &dyn StateModules, low: &Map) -> Option<Map> {
    let function = format!(
        "{}.{}",
        low.str("state").unwrap_or_default(),
        low.str("fun").unwrap_or_default()
    );
    let failed = |comment: String| {
        halite_wire::map! {
            "result" => false, "name" => low.get("name").cloned(), "changes" => Map::new(),
            "comment" => comment,
        }
    };
    if let Some(mask) = low.get("umask").map(pytext::str)
        && u32::from_str_radix(&mask, 8).is_err()
    {
        return Some(failed(format!("Invalid umask: {mask}\n")));
    }
    if !functions.has(&function) {
        return Some(failed(match low.str("__sls__") {
            Some(sls) => format!(
                "State '{function}' was not found in SLS '{sls}'\nReason: {}\n",
                functions
                    .reason(&function)
                    .unwrap_or_else(|| format!("'{function}' is not available."))
            ),
            None => format!("Specified state '{function}' was not found\n"),
        }));
    }
    let why = functions.missing_argument(low)?;
    Some(failed(format!("{why}\n")))
}

fn call_known(functions: &dyn StateModules, low: &Map, test: bool) -> Map {
    match condition(functions, low) {
        Ok(None) => {}
        Ok(Some(skip)) => return skip,
        Err(comment) => {
            return halite_wire::map! {
                "name" => low.get("name").cloned(), "changes" => Map::new(), "result" => false,
                "comment" => comment,
            };
        }
    }
    let mut result = functions.call(low, test);
    if let Some(commands) = low.get("check_cmd")
        && !functions.runs_check_cmd(low)
    {
        let good = list(commands)
            .iter()
            .all(|c| functions.condition(low, c) == Ok(Condition::Holds));
        let comment = if good {
            "check_cmd determined the state succeeded"
        } else {
            "check_cmd determined the state failed"
        };
        result.set("comment", comment);
        result.set("result", good);
    }
    result
}

/// The conditions of a key; empty maps are none.
fn list(value: &Value) -> Vec<Value> {
    let mut all = match value {
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    all.retain(|one| one.as_map().is_none_or(|map| !map.is_empty()));
    all
}

/// What a condition is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// The command could not be started. As in stock, the state is then skipped.
    NotRun,
    /// A map without `fun`.
    NoFunction,
    /// Neither a command nor a map: stock runs the state, whatever it is.
    WrongType,
}

/// `onlyif`, `unless` and `creates`: the result if the call is not needed (`_run_check*`), or the comment if a condition failed.
fn condition(functions: &dyn StateModules, low: &Map) -> Result<Option<Map>, String> {
    let mut comments = Vec::new();
    let mut skip = false;
    for name in ["onlyif", "unless"] {
        if let Some(conditions) = low.get(name) {
            let (skips, comment) = conditions_of(functions, low, name, &list(conditions))?;
            skip |= skips;
            comments.extend(comment);
        }
    }
    if let Some(creates) = low.get("creates").filter(|paths| !paths.is_nil()) {
        let there = |path: &Value| path.as_str().is_some_and(|path| functions.exists(path));
        let (exist, comment) = match creates {
            Value::Str(path) => (there(creates), format!("{path} exists")),
            other => (
                other
                    .as_array()
                    .is_some_and(|paths| paths.iter().all(there)),
                "All files in creates exist".to_owned(),
            ),
        };
        skip |= exist;
        comments.push(if exist {
            comment
        } else {
            "Creates files not found".to_owned()
        });
    }
    Ok(skip.then(|| {
        halite_wire::map! {
            "name" => low.get("name").cloned(), "changes" => Map::new(), "result" => true,
            "comment" => comments.join("\n"), "skip_watch" => true,
        }
    }))
}

/// Whether conditions skip the call, and the comment. The first that decides against it ends the check.
fn conditions_of(
    functions: &dyn StateModules,
    low: &Map,
    name: &str,
    conditions: &[Value],
) -> Result<(bool, Option<String>), String> {
    // `onlyif` skips if one fails, `unless` if all hold.
    let only = name == "onlyif";
    let (mut skip, mut comment) = (false, None);
    for condition in conditions {
        let found = functions.condition(low, condition)?;
        let holds = match found {
            Condition::Holds => true,
            Condition::Fails => false,
            Condition::NotRun => !only,
            Condition::NoFunction => {
                let shown = pytext::repr(condition);
                return Ok((skip, Some(format!("no `fun` argument in {name}: {shown}"))));
            }
            Condition::WrongType => {
                let id = low.str("__id__").unwrap_or_default();
                log::warn!(
                    "{id}: a condition in {name} is neither a command nor a map with fun; as in Salt, the state runs"
                );
                let comment = match only {
                    true => "onlyif execution failed, bad type passed",
                    false => "unless condition is false, bad type passed",
                };
                return Ok((false, Some(comment.to_owned())));
            }
        };
        skip = holds != only;
        comment = Some(format!(
            "{name} condition is {}",
            if holds { "true" } else { "false" }
        ));
        if !holds {
            break;
        }
    }
    Ok((skip, comment))
}

/// The time of day, like Python's `time().isoformat()`.
pub(super) fn time_of_day() -> String {
    let now = halite_sys::localtime::now().time();
    match now.subsec_nanosecond() / 1000 {
        0 => format!("{now:.0}"),
        _ => format!("{now:.6}"),
    }
}
