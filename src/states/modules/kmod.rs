//! `kmod`: kernel modules.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule =
    StateModule {
        name: "kmod",
        functions: &[
            StateFunction::new("absent", absent, "Ensures that modules are not loaded.")
                .args(args![persist = False, comment = True, mods = None]),
            StateFunction::new("present", present, "Ensures that modules are loaded.")
                .args(args![persist = False, mods = None]),
        ],
    };

/// `Kernel module x is` or `Kernel modules x, y are`.
fn are(mods: &[String]) -> String {
    let (plural, verb) = if mods.len() > 1 {
        ("s", "are")
    } else {
        ("", "is")
    };
    format!("Kernel module{plural} {} {verb}", mods.join(", "))
}

/// The declared modules, and which of them are loaded (or, with persist, will be loaded at the next boot).
fn split(s: &mut State<'_, '_>) -> Result<(Vec<String>, Vec<String>)> {
    let wanted: Vec<String> = match s.arg("mods") {
        Value::Nil => vec![s.name()],
        _ => s.list("mods").iter().map(python::str).collect(),
    };
    let persist = s.flag("persist");
    let known = s.salt("kmod.mod_list", [Value::from(persist)])?.str_list();
    Ok(wanted.into_iter().partition(|name| known.contains(name)))
}

/// Lines for a change of several modules.
struct Told {
    lines: Vec<String>,
    changes: Map,
    good: bool,
}

impl Told {
    fn new(lines: Vec<String>) -> Told {
        Told {
            lines,
            changes: Map::new(),
            good: true,
        }
    }

    fn outcome(self) -> StateOutcome {
        StateOutcome::new(Some(self.good), self.lines.join("\n")).changes(self.changes)
    }

    /// Notes what a function did with a module: the modules that it changed, or an error.
    fn note(&mut self, name: &str, answer: Result<Value>, done: &str) -> Result<bool> {
        let error = match answer {
            Ok(Value::Array(mods)) => {
                for changed in &mods {
                    self.changes.set(python::str(changed), done);
                }
                return Ok(true);
            }
            Ok(other) => python::str(&other),
            Err(CallError::Command(e)) => e,
            Err(other) => return Err(other),
        };
        let verb = if done == "loaded" { "load" } else { "remove" };
        self.lines
            .push(format!("Failed to {verb} kernel module {name}: {error}"));
        self.good = false;
        Ok(false)
    }

    /// Names what has been done.
    fn summary(&mut self, verb: &str, mods: &[String]) {
        if !mods.is_empty() {
            let plural = if mods.len() > 1 { "s" } else { "" };
            self.lines
                .push(format!("{verb} kernel module{plural} {}", mods.join(", ")));
        }
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (known, missing) = split(s)?;
    let mut lines = Vec::new();
    if !known.is_empty() {
        lines.push(format!("{} already present", are(&known)));
    }
    if missing.is_empty() {
        return Ok(StateOutcome::good(lines.join("\n")));
    }
    if s.test {
        lines.push(format!("{} set to be loaded", are(&missing)));
        return Ok(StateOutcome::would(lines.join("\n")));
    }
    let available = s.salt("kmod.available", Vec::new())?.str_list();
    let (missing, unavailable): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|m| available.contains(m));
    let mut told = Told::new(lines);
    if !unavailable.is_empty() {
        told.lines
            .push(format!("{} unavailable", are(&unavailable)));
        told.good = false;
    }
    let mut loaded = Vec::new();
    for name in missing {
        let args = [name.as_str().into(), s.arg("persist").clone()];
        let answer = s.salt("kmod.load", args);
        if told.note(&name, answer, "loaded")? {
            loaded.push(name);
        }
    }
    told.summary("Loaded", &loaded);
    Ok(told.outcome())
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (loaded, gone) = split(s)?;
    if loaded.is_empty() {
        return Ok(StateOutcome::good(if gone.is_empty() {
            String::new()
        } else {
            format!("{} already removed", are(&gone))
        }));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{} set to be removed",
            are(&loaded)
        )));
    }
    let mut told = Told::new(Vec::new());
    let mut removed = Vec::new();
    for name in loaded {
        let args = [
            name.as_str().into(),
            s.arg("persist").clone(),
            s.arg("comment").clone(),
        ];
        let answer = s.salt("kmod.remove", args);
        if told.note(&name, answer, "removed")? {
            removed.push(name);
        }
    }
    let failures = std::mem::take(&mut told.lines);
    told.summary("Removed", &removed);
    told.lines.extend(failures);
    Ok(told.outcome())
}
