//! `supervisord`: programs that Supervisor runs. Stock 3008 has no such states any more; these are those of 3007
//! (`salt/states/supervisord.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

const RUNNING_ARGS: &[Arg] = args![
    restart = False,
    update = False,
    user = None,
    conf_file = None,
    bin_env = None
];

const RUNNING: StateFunction = StateFunction::new(
    "running",
    running,
    "Ensures that a program or a group runs.",
)
.args(RUNNING_ARGS)
.keywords();

pub(super) const MODULE: StateModule = StateModule {
    name: "supervisord",
    functions: &[
        RUNNING,
        StateFunction::new(
            "dead",
            dead,
            "Ensures that a program or a group does not run.",
        )
        .args(args![user = None, conf_file = None, bin_env = None])
        .keywords(),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Restarts a program if what it watches changes.",
        )
        .args(args![
            restart = True,
            update = False,
            user = None,
            conf_file = None,
            bin_env = None
        ])
        .keywords(),
    ],
};

/// Calls a function of `supervisord`, with a name if it takes one.
fn supervisor(s: &mut State<'_, '_>, fun: &str, name: Option<&str>) -> Result<Value> {
    let mut kwargs = s.pick(&["user", "conf_file", "bin_env"]);
    if let Some(name) = name {
        kwargs.set("name", name);
    }
    s.salt_with(&format!("supervisord.{fun}"), Vec::new(), kwargs)
}

/// The programs with their states.
fn programs(s: &mut State<'_, '_>) -> Result<Vec<(String, String)>> {
    let all = supervisor(s, "status", None)?
        .into_map()
        .unwrap_or_default();
    let one = |(name, about): &(Value, Value)| {
        let state = about.as_map().and_then(|about| about.str("state"));
        (python::str(name), state.unwrap_or_default().to_owned())
    };
    Ok(all.iter().map(one).collect())
}

fn is_stopped(state: &str) -> bool {
    ["STOPPED", "STOPPING", "EXITED", "FATAL", "BACKOFF"].contains(&state)
}

/// Whether a name is that of a group, which ends with a colon.
fn is_group(all: &[(String, String)], name: &str) -> bool {
    let groups = all
        .iter()
        .filter_map(|(program, _)| program.split_once(':'));
    let mut groups = groups.map(|(group, _)| group);
    name.strip_suffix(':')
        .is_some_and(|name| groups.any(|group| group == name))
}

/// Whether it, or a program of it, is stopped; `None` if there is no such program.
fn stopped(all: &[(String, String)], name: &str) -> Option<bool> {
    if is_group(all, name) {
        let mut of_group = all.iter().filter(|(program, _)| program.starts_with(name));
        return Some(of_group.any(|(_, state)| is_stopped(state)));
    }
    let (_, state) = all.iter().find(|(program, _)| program == name)?;
    Some(is_stopped(state))
}

/// What a command's output makes of the outcome.
fn note(outcome: &mut StateOutcome, said: &Value, comment: &str) {
    const HARMLESS: [&str; 3] = [
        "already started",
        "not running",
        "process group already active",
    ];
    let said = python::str(said);
    if said.contains("ERROR") && !HARMLESS.iter().any(|text| said.contains(text)) {
        outcome.comment = said;
        outcome.result = Some(false);
    } else {
        outcome.comment = comment.to_owned();
    }
}

/// What a test says.
fn planned(all: &[(String, String)], name: &str) -> StateOutcome {
    let group = is_group(all, name);
    let of_it =
        |(program, _): &&(String, String)| program == name || (group && program.starts_with(name));
    let found: Vec<_> = all.iter().filter(of_it).collect();
    let down = found
        .iter()
        .filter(|(_, state)| state.to_lowercase() != "running");
    let down: Vec<&str> = down.map(|(program, _)| program.as_str()).collect();
    let group = name.ends_with(':');
    match (found.is_empty(), down.is_empty(), group) {
        (true, _, true) => StateOutcome::would(format!("Group '{name}' will be added and started")),
        (true, _, false) => {
            StateOutcome::would(format!("Service {name} will be added and started"))
        }
        (_, true, true) => StateOutcome::good(format!(
            "All services in group '{name}' are already running"
        )),
        (_, true, false) => StateOutcome::good(format!("Service {name} is already running")),
        (_, false, false) => StateOutcome::would(format!("Service {name} will be started")),
        (_, false, true) if down.len() == found.len() => {
            StateOutcome::would(format!("All services in group '{name}' will be started"))
        }
        (_, false, true) => StateOutcome::would(format!(
            "The following services will be started: {}",
            down.join(" ")
        )),
    }
}

fn running(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let name = match name.strip_suffix(":*") {
        Some(group) => format!("{group}:"),
        None => name,
    };
    let all = programs(s)?;
    let outcome = if s.test {
        planned(&all, &name)
    } else {
        started(s, &all, &name)?
    };
    Ok(outcome.with("name", name))
}

fn started(s: &mut State<'_, '_>, all: &[(String, String)], name: &str) -> Result {
    let group = is_group(all, name);
    let known = group || all.iter().any(|(program, _)| program == name);
    let mut outcome = StateOutcome::good("");
    let mut changes: Vec<String> = Vec::new();
    let mut updated = false;
    if s.flag("update") {
        let said = supervisor(s, "update", None)?;
        note(&mut outcome, &said, "Updating supervisor");
        updated = python::str(&said).contains(&format!("{name}: updated"));
    } else if !known {
        supervisor(s, "reread", None)?;
        let said = supervisor(s, "add", Some(name))?;
        let comment = format!("Adding service: {name}");
        note(&mut outcome, &said, &comment);
        changes.push(comment);
    }
    let kind = match (group, known) {
        (true, _) => " group",
        (false, true) => " service",
        (false, false) => "",
    };
    if stopped(all, name) == Some(false) {
        if updated {
            outcome.comment = format!("Not starting updated{kind}: {name}");
        } else if s.flag("restart") {
            let comment = format!("Restarting{kind}: {name}");
            let said = supervisor(s, "restart", Some(name))?;
            note(&mut outcome, &said, &comment);
            changes.push(comment);
        } else {
            outcome.comment = format!("Not starting already running{kind}: {name}");
        }
    } else if !updated {
        let comment = format!("Starting{kind}: {name}");
        changes.push(comment.clone());
        let said = supervisor(s, "start", Some(name))?;
        note(&mut outcome, &said, &comment);
    }
    if outcome.result == Some(true) && !changes.is_empty() {
        outcome.changes = map! {name => changes.join(" ")}.into();
    }
    Ok(outcome)
}

fn dead(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Service {name} is set to be stopped"
        )));
    }
    let all = programs(s)?;
    match stopped(&all, &name) {
        None => Ok(StateOutcome::good(format!("Service {name} doesn't exist"))),
        Some(true) => Ok(StateOutcome::good(format!("Service {name} is not running"))),
        Some(false) => {
            let comment = format!("Stopping service: {name}");
            let said = supervisor(s, "stop", Some(&name))?;
            let mut outcome = StateOutcome::good("");
            // Stock does not see an error here.
            note(&mut outcome, &said, &comment);
            let mut changes = Map::new();
            if outcome.result == Some(true) {
                changes.set(name, comment);
            }
            Ok(outcome.changes(changes))
        }
    }
}

fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let mut low = s.low.clone();
    low.set("restart", s.arg("restart").clone());
    s.run_declared(&RUNNING, &low)
}
