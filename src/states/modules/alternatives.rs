//! `alternatives`: which program a generic name points to. Stock 3008 has no such states any more; these are those of
//! 3007 (`salt/states/alternatives.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "alternatives",
    functions: &[
        StateFunction::new(
            "install",
            |s| echoed(s, install, &["link", "path", "priority"]),
            "Ensures that a path is one of the alternatives of a name.",
        )
        .args(args![link, path, priority]),
        StateFunction::new(
            "remove",
            |s| echoed(s, remove, &["path"]),
            "Ensures that a path is not one of the alternatives of a name.",
        )
        .args(args![path]),
        StateFunction::new(
            "auto",
            auto,
            "Ensures that the alternative of a name is chosen by priority.",
        ),
        StateFunction::new(
            "set",
            |s| echoed(s, set, &["path"]),
            "Ensures that a path is the alternative of a name.",
        )
        .args(args![path]),
    ],
};

/// The outcome with what was declared, as stock returns it.
fn echoed(s: &mut State<'_, '_>, run: fn(&mut State<'_, '_>) -> Result, names: &[&str]) -> Result {
    let mut outcome = run(s)?;
    for name in names {
        outcome = outcome.with(name, s.arg(name).clone());
    }
    Ok(outcome)
}

fn exists(s: &mut State<'_, '_>, path: &Value) -> Result<bool> {
    let args = vec![s.name().into(), path.clone()];
    Ok(s.salt("alternatives.check_exists", args)?.truthy())
}

/// The path that a name points to; false if it is no alternative.
fn now(s: &mut State<'_, '_>) -> Result<Value> {
    s.salt("alternatives.show_current", vec![s.name().into()])
}

fn install(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let (link, path, priority) = (
        s.arg("link").clone(),
        s.arg("path").clone(),
        s.arg("priority").clone(),
    );
    let shown = python::str(&path);
    if exists(s, &path)? {
        return Ok(StateOutcome::good(format!(
            "Alternative {shown} for {name} is already registered"
        )));
    }
    let text = format!(
        "Alternative will be set for {name} to {shown} with priority {}",
        python::str(&priority)
    );
    if s.test {
        return Ok(StateOutcome::would(text));
    }
    let args = vec![
        name.clone().into(),
        link.clone(),
        path.clone(),
        priority.clone(),
    ];
    let out = s.salt("alternatives.install", args)?;
    let there = exists(s, &path)?;
    let installed = s.salt(
        "alternatives.check_installed",
        vec![name.clone().into(), path.clone()],
    )?;
    if !there {
        return Ok(StateOutcome::bad(format!(
            "Alternative for {name} not installed: {}",
            python::str(&out)
        )));
    }
    let comment = if installed.truthy() {
        format!(
            "Alternative for {name} set to path {shown} with priority {}",
            python::str(&priority)
        )
    } else {
        format!(
            "Alternative {shown} for {name} registered with priority {} and not set to default",
            python::str(&priority)
        )
    };
    let changes = map! {
        "name" => name, "link" => link, "path" => path, "priority" => priority,
    };
    Ok(StateOutcome::good(comment).changes(changes))
}

fn remove(s: &mut State<'_, '_>) -> Result {
    let (name, path) = (s.name(), s.arg("path").clone());
    if !exists(s, &path)? {
        let now = now(s)?;
        if now.truthy() {
            return Ok(StateOutcome::good(format!(
                "Alternative for {name} is set to it's default path {}",
                python::str(&now)
            )));
        }
        return Ok(StateOutcome::bad(format!(
            "Alternative for {name} doesn't exist"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Alternative for {name} will be removed"
        )));
    }
    s.salt(
        "alternatives.remove",
        vec![name.clone().into(), path.clone()],
    )?;
    let now = now(s)?;
    if now.truthy() {
        let text = format!(
            "Alternative for {name} removed. Falling back to path {}",
            python::str(&now)
        );
        return Ok(StateOutcome::good(text).changes(map! {"path" => now}));
    }
    let text = format!("Alternative for {name} removed");
    Ok(StateOutcome::good(text).changes(Map::new()))
}

fn auto(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let shown = s.salt("alternatives.display", vec![name.clone().into()])?;
    let shown = python::str(&shown);
    let first = shown.lines().next().unwrap_or_default();
    if first.ends_with(" auto mode") {
        return Ok(StateOutcome::good(format!("{name} already in auto mode")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{name} will be put in auto mode"
        )));
    }
    let out = s.salt("alternatives.auto", vec![name.into()])?;
    let said = python::str(&out);
    if said.contains("error: ") {
        // Stock says success here.
        return Ok(StateOutcome::bad(said));
    }
    Ok(StateOutcome::good("").changes(map! {"result" => out}))
}

fn set(s: &mut State<'_, '_>) -> Result {
    let (name, path) = (s.name(), s.arg("path").clone());
    let shown = python::str(&path);
    let before = now(s)?;
    if before == path {
        return Ok(StateOutcome::good(format!(
            "Alternative for {name} already set to {shown}"
        )));
    }
    let listed = s.salt("alternatives.display", vec![name.clone().into()])?;
    let listed = python::str(&listed);
    if !listed.lines().any(|line| line.starts_with(&shown)) {
        return Ok(StateOutcome::bad(format!(
            "Alternative {shown} for {name} doesn't exist"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Alternative for {name} will be set to path {shown}"
        )));
    }
    s.salt("alternatives.set", vec![name.clone().into(), path.clone()])?;
    let after = now(s)?;
    if after == path {
        let text = format!("Alternative for {name} set to path {}", python::str(&after));
        return Ok(StateOutcome::good(text).changes(map! {"path" => after}));
    }
    Ok(StateOutcome::bad(format!(
        "Alternative for {name} not updated"
    )))
}
