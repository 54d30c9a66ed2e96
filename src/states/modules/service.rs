//! `service`: services that run, are dead, start at boot, or are masked (`salt/states/service.py`).

use super::mod_beacon;
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::time::Duration;

/// How long a service that is started or stopped with `no_block` may take, in seconds.
const SETTLE: i64 = 3;

pub(super) const MODULE: StateModule = StateModule {
    name: "service",
    functions: &[
        StateFunction::new(
            "running",
            |s| wanted(s, true),
            "Ensures that a service runs, and whether it starts at boot.",
        )
        .args(args![enable = None, sig = None, init_delay = None])
        .keywords(),
        StateFunction::new(
            "dead",
            |s| wanted(s, false),
            "Ensures that a service does not run, and whether it starts at boot.",
        )
        .args(args![enable = None, sig = None, init_delay = None])
        .keywords(),
        StateFunction::new(
            "enabled",
            |s| at_boot(s, true),
            "Ensures that a service starts at boot.",
        )
        .keywords(),
        StateFunction::new(
            "disabled",
            |s| at_boot(s, false),
            "Ensures that a service does not start at boot.",
        )
        .keywords(),
        StateFunction::new(
            "masked",
            masked,
            "Ensures that a service cannot be started.",
        )
        .args(args![runtime = False]),
        StateFunction::new(
            "unmasked",
            |s| {
                let runtime = s.flag("runtime");
                unmasked(s, runtime)
            },
            "Ensures that a service is not masked.",
        )
        .args(args![runtime = False]),
        StateFunction::new("mod_beacon", mod_beacon::service, mod_beacon::DOC).keywords(),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Restarts, reloads, starts or stops a service after a change.",
        )
        .args(args![
            sfun = None,
            sig = None,
            full_restart = False,
            init_delay = None,
            force = False
        ])
        .keywords(),
    ],
};

/// What a start, stop or nothing at all has led to.
#[derive(Clone, Copy, PartialEq)]
enum Reached {
    /// It was so before.
    Already,
    Running,
    Dead,
}

impl Reached {
    /// The end of a sentence about a service that was enabled or disabled.
    fn and(self) -> &'static str {
        match self {
            Reached::Already => "is in the desired state",
            Reached::Running => "is running",
            Reached::Dead => "is dead",
        }
    }

    /// The end of a sentence about a service that could not be enabled or disabled.
    fn but(self, enable: bool) -> &'static str {
        match (self, enable) {
            (Reached::Already, _) => "but the service was already running",
            (Reached::Running, true) => "but the service is running",
            (Reached::Running, false) => "and is running",
            (Reached::Dead, _) => "and the service is dead",
        }
    }
}

/// Whether something else than an argument was declared and is true in Python's sense.
fn given(s: &State<'_, '_>, key: &str) -> bool {
    s.kwargs.get(key).is_some_and(Value::truthy)
}

/// Asks a function of the execution module about the service.
fn ask(s: &mut State<'_, '_>, fun: &str) -> Result<bool> {
    let name = s.name();
    Ok(s.salt(fun, vec![name.into()])?.truthy())
}

fn runs(s: &mut State<'_, '_>) -> Result<bool> {
    let args = vec![s.name().into(), s.arg("sig").clone()];
    Ok(s.salt("service.status", args)?.truthy())
}

/// The options among what was declared that a function of the execution module takes.
fn options(s: &State<'_, '_>, names: &[&str]) -> Map {
    let mut map = Map::new();
    for name in names {
        if let Some(value) = s.kwargs.get(name) {
            map.set(*name, value.clone());
        }
    }
    map
}

/// The outcome for a service that the host does not have; `None` if it has it.
fn unavailable(s: &mut State<'_, '_>, verb: &str, good: bool) -> Result<Option<StateOutcome>> {
    if ask(s, "service.available")? {
        return Ok(None);
    }
    let name = s.name();
    if s.test && !verb.is_empty() {
        return Ok(Some(StateOutcome::would(format!(
            "Service {name} not present; if created in this state run, it would have been {verb}"
        ))));
    }
    let text = format!("The named service {name} is not available");
    Ok(Some(StateOutcome::new(Some(good), text)))
}

fn delay(s: &State<'_, '_>) -> Option<String> {
    let value = s.arg("init_delay");
    let seconds = match value {
        Value::Int(seconds) if *seconds > 0 => *seconds as f64,
        Value::Float(seconds) if *seconds > 0.0 => *seconds,
        _ => return None,
    };
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    Some(python::str(value))
}

/// `enable` in Python's sense; texts are true if they say so.
fn enable(s: &State<'_, '_>) -> Option<bool> {
    match s.arg("enable") {
        Value::Nil => None,
        Value::Str(text) => Some(matches!(
            text.to_lowercase().as_str(),
            "yes" | "on" | "true" | "1" | "enable" | "enabled"
        )),
        other => Some(other.truthy()),
    }
}

/// `running` and `dead`.
fn wanted(s: &mut State<'_, '_>, run: bool) -> Result {
    let name = s.name();
    let enable = enable(s);
    let verb = if run { "started" } else { "stopped" };
    if s.kwargs.contains("enabled") {
        return Ok(StateOutcome::bad(format!(
            "Service {name} uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?"
        )));
    }
    if s.salt("service.offline", Vec::new())?.truthy() {
        let text = "Running in OFFLINE mode. Nothing to do";
        return Ok(StateOutcome::good(text));
    }
    if let Some(outcome) = unavailable(s, verb, !run)? {
        return Ok(outcome);
    }
    let mut mask = String::new();
    if run && (given(s, "unmask") || given(s, "unmask_runtime")) {
        let runtime = given(s, "unmask_runtime");
        let answer = unmasked(s, runtime)?;
        mask = format!("\n{}", answer.comment);
    }
    let with_mask = |mut outcome: StateOutcome| {
        outcome.comment.push_str(&mask);
        outcome
    };
    let before = runs(s)?;
    let boot_fits = match enable {
        Some(enable) => ask(s, "service.enabled")? == enable,
        None => true,
    };
    if before == run {
        if boot_fits {
            let what = if run { "running" } else { "dead" };
            return Ok(with_mask(StateOutcome::good(format!(
                "The service {name} is already {what}"
            ))));
        }
        let enable = enable == Some(true);
        let outcome = if s.test {
            StateOutcome::would(set_to(&name, enable))
        } else {
            boot(s, enable, Reached::Already, true, run)?
        };
        return Ok(with_mask(outcome));
    }
    if s.test {
        let what = if run { "start" } else { "be killed" };
        return Ok(with_mask(StateOutcome::would(format!(
            "Service {name} is set to {what}"
        ))));
    }
    let outcome = switch(s, run, enable)?;
    Ok(with_mask(outcome))
}

/// Starts or stops the service, and then sets whether it starts at boot.
fn switch(s: &mut State<'_, '_>, run: bool, enable: Option<bool>) -> Result {
    let name = s.name();
    let (fun, kwargs) = if run {
        let kwargs = options(s, &["no_block", "unmask", "unmask_runtime"]);
        ("service.start", kwargs)
    } else {
        ("service.stop", options(s, &["no_block"]))
    };
    let done = match s.salt_with(fun, vec![name.clone().into()], kwargs) {
        Ok(done) => done.truthy(),
        Err(CallError::Command(text)) => return Ok(StateOutcome::bad(text)),
        Err(fault) => return Err(fault),
    };
    let waited = delay(s);
    let now = settled(s, run, done)?;
    let reached = if now { Reached::Running } else { Reached::Dead };
    let mut outcome = match enable {
        Some(enable) => boot(s, enable, reached, now == run, run)?,
        None if now != run => StateOutcome::bad(if run {
            format!("Service {name} failed to start")
        } else {
            format!("Service {name} failed to die")
        }),
        None => {
            let text = if run {
                format!("Started service {name}")
            } else {
                format!("Service {name} was killed")
            };
            StateOutcome::good(text).changes(map! {name.clone() => run})
        }
    };
    if let Some(waited) = waited.filter(|_| run) {
        outcome
            .comment
            .push_str(&format!("\nDelayed return for {waited} seconds"));
    }
    Ok(outcome)
}

/// Whether the service runs. After a start or stop that did not wait for it, it has `wait` seconds to do so.
fn settled(s: &mut State<'_, '_>, run: bool, done: bool) -> Result<bool> {
    let mut now = runs(s)?;
    if now == run || !done || !given(s, "no_block") {
        return Ok(now);
    }
    let seconds = s.kwargs.int("wait").unwrap_or(SETTLE).clamp(0, 3600);
    for _ in 0..seconds * 10 {
        std::thread::sleep(Duration::from_millis(100));
        now = runs(s)?;
        if now == run {
            break;
        }
    }
    Ok(now)
}

fn set_to(name: &str, enable: bool) -> String {
    let what = if enable { "enabled" } else { "disabled" };
    format!("Service {name} set to be {what}")
}

/// Sets whether the service starts at boot; `good` is the result unless that fails.
fn boot(s: &mut State<'_, '_>, enable: bool, reached: Reached, good: bool, run: bool) -> Result {
    let name = s.name();
    let what = if enable { "enabled" } else { "disabled" };
    // A start or stop is a change too.
    let switched = || match reached {
        Reached::Already => Map::new(),
        _ if good => map! {name.clone() => run},
        _ => Map::new(),
    };
    if ask(s, "service.enabled")? == enable {
        let text = format!("Service {name} is already {what}, and {}", reached.and());
        return Ok(StateOutcome::new(Some(good), text).changes(switched()));
    }
    let fun = if enable {
        "service.enable"
    } else {
        "service.disable"
    };
    let mut names = vec!["no_block"];
    if enable {
        names.extend(["unmask", "unmask_runtime"]);
    }
    let kwargs = options(s, &names);
    let (done, why) = match s.salt_with(fun, vec![name.clone().into()], kwargs) {
        Ok(done) => (done.truthy(), String::new()),
        Err(CallError::Command(text)) => {
            let why = format!(". Additional information follows:\n\n{text}");
            (false, why)
        }
        Err(fault) => return Err(fault),
    };
    if !done {
        let not = if enable { "" } else { "not " };
        let text = format!(
            "Failed when setting service {name} to {not}start at boot, {}{why}",
            reached.but(enable)
        );
        return Ok(StateOutcome::bad(text).changes(switched()));
    }
    let changed = ask(s, "service.enabled")? == enable;
    let text = format!("Service {name} has been {what}, and {}", reached.and());
    let changes = if changed {
        map! {name => true}
    } else {
        Map::new()
    };
    Ok(StateOutcome::new(Some(good), text).changes(changes))
}

/// `enabled` and `disabled`.
fn at_boot(s: &mut State<'_, '_>, enable: bool) -> Result {
    let verb = if enable { "enabled" } else { "" };
    if let Some(outcome) = unavailable(s, verb, !enable)? {
        return Ok(outcome);
    }
    if s.test && ask(s, "service.enabled")? != enable {
        return Ok(StateOutcome::would(set_to(&s.name(), enable)));
    }
    boot(s, enable, Reached::Already, true, true)
}

/// Whether the service is masked, and the word for that.
fn mask_of(s: &mut State<'_, '_>, runtime: bool) -> Result<(bool, &'static str)> {
    let args = vec![s.name().into(), runtime.into()];
    let masked = s.salt("service.masked", args)?.truthy();
    Ok((masked, if runtime { "runtime masked" } else { "masked" }))
}

fn masked(s: &mut State<'_, '_>) -> Result {
    let (name, runtime) = (s.name(), s.flag("runtime"));
    let (is, what) = mask_of(s, runtime)?;
    if is {
        return Ok(StateOutcome::good(format!(
            "Service {name} is already {what}"
        )));
    }
    let changes = map! {what => map! {"old" => false, "new" => true}};
    if s.test {
        let text = format!("Service {name} would be {what}");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let args = vec![name.clone().into(), runtime.into()];
    if let Err(fault) = s.salt("service.mask", args) {
        return failed(fault);
    }
    if mask_of(s, runtime)?.0 {
        let text = format!("Service {name} was {what}");
        return Ok(StateOutcome::good(text).changes(changes));
    }
    Ok(StateOutcome::good(format!("Failed to mask service {name}")))
}

fn failed(fault: CallError) -> Result {
    match fault {
        CallError::Command(text) => Ok(StateOutcome::bad(text)),
        fault => Err(fault),
    }
}

fn unmasked(s: &mut State<'_, '_>, runtime: bool) -> Result {
    let name = s.name();
    let (is, what) = mask_of(s, runtime)?;
    let un = what.replace("masked", "unmasked");
    if !is {
        return Ok(StateOutcome::good(format!(
            "Service {name} was already {un}"
        )));
    }
    let changes = map! {what => map! {"old" => true, "new" => false}};
    if s.test {
        let text = format!("Service {name} would be {un}");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let args = vec![name.clone().into(), runtime.into()];
    if let Err(fault) = s.salt("service.unmask", args) {
        return failed(fault);
    }
    if mask_of(s, runtime)?.0 {
        return Ok(StateOutcome::good(format!(
            "Failed to unmask service {name}"
        )));
    }
    Ok(StateOutcome::good(format!("Service {name} was {un}")).changes(changes))
}

fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let sfun = s.text("sfun").unwrap_or_else(|| "None".to_owned());
    // The function, its verb, and the verb's past.
    let (fun, verb, past) = match (sfun.as_str(), runs(s)?) {
        ("dead", true) => ("stop", "stop", "stopped"),
        ("dead", false) => return Ok(StateOutcome::good("Service is already stopped")),
        ("running", false) => ("start", "start", "started"),
        ("running", true) if given(s, "reload") && s.flag("force") => {
            ("force_reload", "forcefully reload", "forcefully reloaded")
        }
        ("running", true) if given(s, "reload") => ("reload", "reload", "reloaded"),
        ("running", true) => ("restart", "restart", "restarted"),
        _ => {
            return Ok(StateOutcome::bad(format!(
                "Unable to trigger watch for service.{sfun}"
            )));
        }
    };
    if s.test {
        return Ok(StateOutcome::would(format!("Service is set to be {past}")));
    }
    let kwargs = match fun {
        "stop" => options(s, &["no_block"]),
        _ => options(s, &["no_block", "unmask", "unmask_runtime"]),
    };
    let args = vec![Value::from(name.clone())];
    if fun == "start" {
        // Parts of it may still run.
        let kwargs = options(s, &["no_block"]);
        if let Err(fault) = s.salt_with("service.stop", args.clone(), kwargs) {
            return failed(fault);
        }
    }
    let done = match s.salt_with(&format!("service.{fun}"), args, kwargs) {
        Ok(done) => done,
        Err(fault) => return failed(fault),
    };
    delay(s);
    let text = if done.truthy() {
        format!("Service {past}")
    } else {
        format!("Failed to {verb} the service")
    };
    let result = done.truthy();
    Ok(StateOutcome::new(Some(result), text).changes(map! {name => done}))
}
