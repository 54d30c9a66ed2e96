//! `network`: interfaces, their routes, and the settings of the whole network.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, find_for, python};
use halite_wire::{Map, Value, difflib};

pub(super) const MODULE: StateModule = StateModule {
    name: "network",
    functions: &[
        StateFunction::new(
            "managed",
            managed,
            "Ensures that an interface is configured so, and up or down.",
        )
        .args(args![enabled = True])
        .keywords(),
        StateFunction::new(
            "routes",
            routes,
            "Ensures that an interface has these routes.",
        )
        .keywords(),
        StateFunction::new(
            "system",
            system,
            "Ensures that the whole network has these settings.",
        )
        .keywords(),
    ],
};

/// An error of a setting is the outcome of the state; others are exceptions.
fn settled(result: Result) -> Result {
    match result {
        Err(CallError::Raised(class, text)) if class == "AttributeError" => {
            Ok(StateOutcome::bad(text))
        }
        other => other,
    }
}

/// Hosts of other families have no files that could be managed.
fn unsupported(s: &State<'_, '_>) -> Option<StateOutcome> {
    let missing = find_for(s.ctx(), "ip.get_interface").is_none();
    missing.then(|| StateOutcome::bad("ip module could not be loaded"))
}

/// The keywords, with `test`.
fn keywords(s: &State<'_, '_>) -> Map {
    let mut kwargs = s.kwargs.clone();
    kwargs.set("test", s.test);
    kwargs
}

fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.lines().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// A unified diff whose own lines have no ends, as stock joins them.
fn diff(old: &Value, new: &Value) -> String {
    let all = difflib::unified_lines(&lines(old), &lines(new), "", "");
    let plain = all.iter().enumerate().map(|(at, line)| {
        let own = at < 2 || line.starts_with("@@ ");
        if own {
            line.trim_end_matches('\n')
        } else {
            line
        }
    });
    plain.collect::<Vec<_>>().join("\n")
}

/// How the new lines differ from the old ones.
enum Step {
    Same,
    Added,
    Updated(String),
}

fn step(old: &Value, new: &Value) -> Step {
    if !old.truthy() && new.truthy() {
        Step::Added
    } else if old == new {
        Step::Same
    } else {
        Step::Updated(diff(old, new))
    }
}

fn call(s: &mut State<'_, '_>, fun: &str, args: &[&Value], kwargs: &Map) -> Result<Value> {
    let args: Vec<Value> = args.iter().map(|v| (*v).clone()).collect();
    s.salt_with(fun, args, kwargs.clone())
}

fn managed(s: &mut State<'_, '_>) -> Result {
    if let Some(outcome) = unsupported(s) {
        return Ok(outcome);
    }
    let mut kwargs = keywords(s);
    let kind = kwargs
        .remove("type")
        .map_or("eth".to_owned(), |kind| python::str(&kind));
    let mut warning = None;
    if let Some(address) = kwargs.remove("addr") {
        let mut text = "'addr' is not a valid argument name, ".to_owned();
        if kwargs.contains("hwaddr") {
            text += "it has been ignored in favor of 'hwaddr'.";
        } else {
            text += "its value has been assigned to 'hwaddr' instead.";
            kwargs.set("hwaddr", address);
        }
        warning = Some(text + " Update your SLS file to get rid of this warning.");
    }
    let name = s.name();
    let mut outcome = StateOutcome::good(format!("Interface {name} is up to date."));
    match configured(s, &mut outcome, &kind, &kwargs) {
        Ok(applies) if !s.test && kind != "source" => {
            run(s, &mut outcome, &kind, &kwargs, applies)?
        }
        Ok(_) => {}
        Err(CallError::Raised(class, text)) if class == "AttributeError" => {
            outcome.result = Some(false);
            outcome.comment = text;
        }
        Err(other) => return Err(other),
    }
    Ok(match warning {
        Some(text) => outcome.with("warnings", vec![Value::from(text)]),
        None => outcome,
    })
}

fn change(outcome: &mut StateOutcome, key: &str, text: impl Into<Value>) {
    if let Value::Map(changes) = &mut outcome.changes {
        changes.set(key, text);
    }
}

/// Writes the configuration; whether it has changed.
fn configured(
    s: &mut State<'_, '_>,
    outcome: &mut StateOutcome,
    kind: &str,
    kwargs: &Map,
) -> Result<bool> {
    let name = Value::from(s.name());
    let shown = s.name();
    let enabled = s.arg("enabled").clone();
    let old = call(s, "ip.get_interface", &[&name], &Map::new())?;
    let new = call(
        s,
        "ip.build_interface",
        &[&name, &kind.into(), &enabled],
        kwargs,
    )?;
    let mut applies = note(
        s,
        outcome,
        "interface",
        step(&old, &new),
        &format!("Interface {shown}"),
        || "Added network interface.".to_owned(),
    );
    let has_bonds = find_for(s.ctx(), "ip.get_bond").is_some();
    if kind == "bond" && has_bonds {
        let old = call(s, "ip.get_bond", &[&name], &Map::new())?;
        let new = call(s, "ip.build_bond", &[&name], kwargs)?;
        applies |= note(
            s,
            outcome,
            "bond",
            step(&old, &new),
            &format!("Bond interface {shown}"),
            || format!("Added bond {shown}."),
        );
    }
    Ok(applies)
}

/// Says what changes or would change.
fn note(
    s: &State<'_, '_>,
    outcome: &mut StateOutcome,
    key: &str,
    step: Step,
    what: &str,
    added: impl Fn() -> String,
) -> bool {
    match step {
        Step::Same => return false,
        Step::Added if s.test => outcome.comment = format!("{what} is set to be added."),
        Step::Updated(diff) if s.test => {
            outcome.comment = format!("{what} is set to be updated:\n{diff}");
        }
        Step::Added => {
            outcome.comment = format!("{what} added.");
            change(outcome, key, added());
        }
        Step::Updated(diff) => {
            outcome.comment = format!("{what} updated.");
            change(outcome, key, diff);
        }
    }
    if s.test {
        outcome.result = None;
    }
    true
}

/// The text of an error, as `str()` of the exception.
fn error(fault: CallError) -> String {
    match fault {
        CallError::Raised(_, text)
        | CallError::Traced(_, text, _)
        | CallError::Command(text)
        | CallError::Missing(text)
        | CallError::CommandNotFound(text)
        | CallError::Invocation(text)
        | CallError::Type(text) => text,
    }
}

/// Brings the interface up or down.
fn run(
    s: &mut State<'_, '_>,
    outcome: &mut StateOutcome,
    kind: &str,
    kwargs: &Map,
    applies: bool,
) -> Result<()> {
    let name = s.name();
    if name.contains("range") {
        // A file for several addresses on hosts of the RedHat family.
        if !applies {
            outcome.comment = "no change, passing it".to_owned();
            return Ok(());
        }
        match s.salt("service.restart", ["network".into()]) {
            Ok(done) => {
                outcome.result = Some(done.truthy());
                outcome.comment = "network restarted for change of ranged interfaces".to_owned();
            }
            Err(fault) => {
                outcome.result = Some(false);
                outcome.comment = error(fault);
            }
        }
        return Ok(());
    }
    let was_up = match switched(s, outcome, kind, kwargs) {
        Ok(was_up) => was_up,
        Err(fault) => {
            outcome.result = Some(false);
            outcome.comment = error(fault);
            return Ok(());
        }
    };
    if kind == "bond" && !kwargs.contains("noifupdown") {
        enslave(s, outcome, kwargs)?;
    }
    if s.flag("enabled") && was_up {
        return Ok(());
    }
    s.salt("saltutil.refresh_grains", Vec::new())?;
    Ok(())
}

/// Whether the interface was up.
fn switched(
    s: &mut State<'_, '_>,
    outcome: &mut StateOutcome,
    kind: &str,
    kwargs: &Map,
) -> Result<bool> {
    let name = s.name();
    let all = s
        .salt("network.interfaces", Vec::new())?
        .into_map()
        .unwrap_or_default();
    let up = is_up(&all, &name);
    if kwargs.contains("noifupdown") {
        return Ok(up);
    }
    let args = [Value::from(name.as_str()), kind.into()];
    let changed = outcome.changes.truthy();
    match (s.flag("enabled"), up) {
        (true, true) if changed => {
            s.salt("ip.down", args.clone())?;
            s.salt("ip.up", args)?;
            change(
                outcome,
                "status",
                format!("Interface {name} restart to validate"),
            );
        }
        (true, false) => {
            s.salt("ip.up", args)?;
            change(outcome, "status", format!("Interface {name} is up"));
        }
        (false, true) => {
            s.salt("ip.down", args)?;
            change(outcome, "status", format!("Interface {name} down"));
        }
        _ => {}
    }
    Ok(up)
}

fn is_up(all: &Map, name: &str) -> bool {
    if let Some(own) = all.get(name).and_then(Value::as_map) {
        return own.get("up").is_some_and(Value::truthy);
    }
    // A label of another interface.
    let labelled = |list: &Value| {
        let all = list
            .as_array()
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_map);
        all.filter_map(|one| one.str("label"))
            .any(|label| label == name)
    };
    all.iter().any(|(iface, one)| {
        let Some(one) = one.as_map() else {
            return false;
        };
        let many = |key: &str| {
            one.get(key)
                .filter(|l| l.as_array().is_some_and(|l| l.len() > 1))
        };
        one.get("secondary").is_some_and(labelled)
            || iface.is_str("lo")
                && [many("inet"), many("inet6")]
                    .into_iter()
                    .flatten()
                    .any(labelled)
    })
}

/// Adds the slaves that a bond does not have yet.
fn enslave(s: &mut State<'_, '_>, outcome: &mut StateOutcome, kwargs: &Map) -> Result<()> {
    let name = s.name();
    let wanted = match kwargs.get("slaves") {
        Some(Value::Array(list)) => list.iter().map(python::str).collect(),
        Some(Value::Str(text)) => text.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let path = format!("/sys/class/net/{name}/bonding/slaves");
    let now = std::fs::read_to_string(path).unwrap_or_default();
    let missing: Vec<String> = wanted
        .into_iter()
        .filter(|slave| !now.split_whitespace().any(|own| own == slave))
        .collect();
    if missing.is_empty() || s.ctx().grains.str("os_family") == Some("Suse") {
        return Ok(());
    }
    let program = s.salt("cmd.which", ["ifenslave".into()])?;
    if program.truthy() {
        let mut argv = vec![program, name.as_str().into()];
        argv.extend(
            missing
                .iter()
                .filter(|m| !m.starts_with('-'))
                .map(|m| Value::from(m.as_str())),
        );
        s.salt_with(
            "cmd.run",
            [Value::Array(argv)],
            halite_wire::map! {"python_shell" => false},
        )?;
    }
    let text = format!("Added slaves '{}' to master '{name}'", missing.join(" "));
    change(outcome, "enslave", text);
    Ok(())
}

fn routes(s: &mut State<'_, '_>) -> Result {
    match unsupported(s) {
        Some(outcome) => Ok(outcome),
        None => settled(routes_set(s)),
    }
}

fn routes_set(s: &mut State<'_, '_>) -> Result {
    let (shown, name) = (s.name(), Value::from(s.name()));
    let kwargs = keywords(s);
    let old = call(s, "ip.get_routes", &[&name], &Map::new())?;
    let new = call(s, "ip.build_routes", &[&name], &kwargs)?;
    let what = format!("Interface {shown} routes");
    let (comment, text) = match (step(&old, &new), s.test) {
        (Step::Same, _) => return Ok(StateOutcome::good(format!("{what} are up to date."))),
        (Step::Added, true) => {
            return Ok(StateOutcome::would(format!("{what} are set to be added.")));
        }
        (Step::Updated(diff), true) => {
            return Ok(StateOutcome::would(format!(
                "{what} are set to be updated:\n{diff}"
            )));
        }
        (Step::Added, false) => (
            format!("{what} added."),
            format!("Added interface {shown} routes."),
        ),
        (Step::Updated(diff), false) => (format!("{what} updated."), diff),
    };
    let mut outcome = StateOutcome::good(comment);
    change(&mut outcome, "network_routes", text);
    applied(s, outcome, kwargs)
}

/// Applies the settings; an error keeps the changes.
fn applied(s: &mut State<'_, '_>, mut outcome: StateOutcome, kwargs: Map) -> Result {
    match s.salt_with("ip.apply_network_settings", Vec::new(), kwargs) {
        Ok(_) => {}
        Err(CallError::Raised(class, text)) if class == "AttributeError" => {
            outcome.result = Some(false);
            outcome.comment = text;
        }
        Err(other) => return Err(other),
    }
    Ok(outcome)
}

fn system(s: &mut State<'_, '_>) -> Result {
    match unsupported(s) {
        Some(outcome) => Ok(outcome),
        None => settled(system_set(s)),
    }
}

fn system_set(s: &mut State<'_, '_>) -> Result {
    let kwargs = keywords(s);
    let old = call(s, "ip.get_network_settings", &[], &Map::new())?;
    let new = call(s, "ip.build_network_settings", &[], &kwargs)?;
    const WHAT: &str = "Global network settings are";
    let mut outcome = StateOutcome::good(format!("{WHAT} up to date."));
    match (step(&old, &new), s.test) {
        (Step::Same, _) => return Ok(outcome),
        (Step::Added, true) => return Ok(StateOutcome::would(format!("{WHAT} set to be added."))),
        (Step::Updated(diff), true) => {
            return Ok(StateOutcome::would(format!(
                "{WHAT} set to be updated:\n{diff}"
            )));
        }
        (Step::Added, false) => change(
            &mut outcome,
            "network_settings",
            "Added global network settings.",
        ),
        (Step::Updated(diff), false) => change(&mut outcome, "network_settings", diff),
    }
    applied(s, outcome, kwargs)
}
