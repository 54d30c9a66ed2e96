//! `ini`: files with options in sections.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "ini",
    functions: &[
        StateFunction::new(
            "options_absent",
            options_absent,
            "Ensures that options are not set.",
        )
        .args(args![sections = None, separator = "=", encoding = None]),
        StateFunction::new(
            "options_present",
            options_present,
            "Ensures that options are set.",
        )
        .args(args![
            sections = None,
            separator = "=",
            strict = False,
            encoding = None,
            no_spaces = False
        ]),
        StateFunction::new(
            "sections_absent",
            sections_absent,
            "Ensures that sections do not exist.",
        )
        .args(args![sections = None, separator = "=", encoding = None]),
        StateFunction::new(
            "sections_present",
            sections_present,
            "Ensures that sections exist.",
        )
        .args(args![sections = None, separator = "=", encoding = None]),
    ],
};

fn call(s: &mut State<'_, '_>, fun: &str, args: Vec<Value>) -> Result<Value> {
    let mut all = vec![Value::from(s.name())];
    all.extend(args);
    let given = s.pick(&["separator", "encoding"]);
    s.salt_with(fun, all, given)
}

fn file(s: &mut State<'_, '_>) -> Result<Map> {
    Ok(call(s, "ini.get_ini", Vec::new())?
        .into_map()
        .unwrap_or_default())
}

fn done(changes: Map) -> StateOutcome {
    let comment = if changes.is_empty() {
        "No anomaly detected"
    } else {
        "Changes take effect"
    };
    StateOutcome::good(comment).changes(changes)
}

/// What a test has found.
struct Preview {
    text: String,
    changes: bool,
}

impl Preview {
    fn note(&mut self, changes: bool, line: &str) {
        self.changes |= changes;
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn outcome(self) -> StateOutcome {
        match self.changes {
            true => StateOutcome::would(self.text),
            false => StateOutcome::good(self.text),
        }
    }
}

fn preview() -> Preview {
    Preview {
        text: String::new(),
        changes: false,
    }
}

fn options_of<'m>(file: &'m Map, section: &str) -> Option<&'m Map> {
    file.get(section).and_then(Value::as_map)
}

/// What is in the file and not declared: keys outside of sections, sections, and keys of sections.
fn undeclared(file: &Map, wanted: &Map) -> Vec<(String, Option<String>, Value)> {
    let mut all = Vec::new();
    for (name, value) in file.iter() {
        let name = python::str(name);
        match (wanted.get(&name), value) {
            (None, value) => all.push((name, None, value.clone())),
            (Some(Value::Map(options)), Value::Map(own)) => {
                for (key, value) in own.iter() {
                    let key = python::str(key);
                    if !options.contains(&key) {
                        all.push((name.clone(), Some(key), value.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    // Keys outside of sections, then sections, then keys of sections.
    all.sort_by_key(|(_, key, value)| (key.is_some(), matches!(value, Value::Map(_))));
    all
}

fn options_present(s: &mut State<'_, '_>) -> Result {
    let wanted = s.arg("sections").as_map().cloned().unwrap_or_default();
    let before = file(s)?;
    let extra = match s.flag("strict") {
        true => undeclared(&before, &wanted),
        false => Vec::new(),
    };
    if s.test {
        let mut told = preview();
        for (name, key, value) in &extra {
            told.note(
                true,
                &match (key, value) {
                    (Some(key), _) => format!("Deleted key {key} in section {name}."),
                    (None, Value::Map(_)) => format!("Removed section {name}."),
                    (None, _) => format!("Removed key {name}."),
                },
            );
        }
        for (name, value) in wanted.iter() {
            let name = python::str(name);
            let word = |changes: bool| if changes { "Changed" } else { "Unchanged" };
            let Value::Map(options) = value else {
                let changes = before.get(&name).map(python::str) != Some(python::str(value));
                told.note(changes, &format!("{} key {name}.", word(changes)));
                continue;
            };
            for (key, value) in options.iter() {
                let key = python::str(key);
                let old = options_of(&before, &name).and_then(|o| o.get(&key));
                let changes = old.map(python::str) != Some(python::str(value));
                told.note(
                    changes,
                    &format!("{} key {key} in section {name}.", word(changes)),
                );
            }
        }
        return Ok(told.outcome());
    }
    let mut changes = Map::new();
    for (name, key, value) in extra {
        let gone = map! {"before" => value.clone(), "after" => Value::Nil};
        match (key, value) {
            (Some(key), _) => {
                call(
                    s,
                    "ini.remove_option",
                    vec![name.as_str().into(), key.as_str().into()],
                )?;
                merge(&mut changes, &name, map! {key => gone});
            }
            (None, Value::Map(_)) => {
                call(s, "ini.remove_section", vec![name.as_str().into()])?;
                changes.set(name, gone);
            }
            (None, _) => {
                call(
                    s,
                    "ini.remove_option",
                    vec![Value::Nil, name.as_str().into()],
                )?;
                changes.set(name, gone);
            }
        }
    }
    let mut given = s.pick(&["separator", "encoding", "no_spaces"]);
    given.set("sections", wanted);
    let name = Value::from(s.name());
    let set = s.salt_with("ini.set_option", vec![name], given)?;
    for (key, value) in set.into_map().unwrap_or_default().0 {
        match value {
            Value::Map(value) => merge(&mut changes, &python::str(&key), value),
            other => changes.set(python::str(&key), other),
        }
    }
    Ok(done(changes))
}

/// Adds to the changes of a section.
fn merge(changes: &mut Map, section: &str, more: Map) {
    let mut all = match changes.remove(section) {
        Some(Value::Map(all)) => all,
        _ => Map::new(),
    };
    for (key, value) in more.0 {
        all.set(python::str(&key), value);
    }
    changes.set(section, all);
}

const NOTHING: &str = "No changes detected.";

fn options_absent(s: &mut State<'_, '_>) -> Result {
    let wanted = s.arg("sections").as_map().cloned().unwrap_or_default();
    let before = file(s)?;
    let mut told = preview();
    let mut changes = Map::new();
    for (name, keys) in wanted.iter() {
        let name = python::str(name);
        let keys = match keys {
            // A key outside of sections.
            Value::Nil => {
                let old = before.get(&name).filter(|v| !matches!(v, Value::Map(_)));
                match old {
                    Some(_) => told.note(true, &format!("Deleted key {name}.")),
                    None => told.note(false, &format!("Key {name} does not exist.")),
                }
                if let Some(old) = old
                    && !s.test
                {
                    call(
                        s,
                        "ini.remove_option",
                        vec![Value::Nil, name.as_str().into()],
                    )?;
                    changes.set(name, old.clone());
                }
                continue;
            }
            Value::Array(keys) => keys.clone(),
            one => vec![one.clone()],
        };
        for key in keys.iter().map(python::str) {
            let known = options_of(&before, &name).is_some_and(|o| o.contains(&key));
            told.note(
                known,
                &match known {
                    true => format!("Deleted key {key} in section {name}."),
                    false => format!("Key {key} in section {name} does not exist."),
                },
            );
            if s.test {
                continue;
            }
            let args = vec![name.as_str().into(), key.as_str().into()];
            let old = call(s, "ini.remove_option", args)?;
            if !old.is_nil() {
                merge(&mut changes, &name, map! {key => old});
            }
        }
    }
    Ok(match s.test {
        true if wanted.is_empty() => StateOutcome::good(NOTHING),
        true => told.outcome(),
        false => done(changes),
    })
}

/// The declared sections: names, or names with options.
fn declared(s: &State<'_, '_>) -> Vec<String> {
    match s.arg("sections") {
        Value::Map(map) => map.iter().map(|(name, _)| python::str(name)).collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.chars().map(String::from).collect(),
        _ => Vec::new(),
    }
}

fn sections_present(s: &mut State<'_, '_>) -> Result {
    let wanted = declared(s);
    let before = file(s)?;
    let mut told = preview();
    let mut fresh = Map::new();
    for name in &wanted {
        if options_of(&before, name).is_some() {
            told.note(false, &format!("Section unchanged {name}."));
            continue;
        }
        told.note(true, &format!("Created new section {name}."));
        let options = s.arg("sections").as_map().and_then(|m| options_of(m, name));
        fresh.set(name.as_str(), options.cloned().unwrap_or_default());
    }
    if s.test {
        return Ok(if wanted.is_empty() {
            StateOutcome::good(NOTHING)
        } else {
            told.outcome()
        });
    }
    if fresh.is_empty() {
        return Ok(done(fresh));
    }
    let changes = call(s, "ini.set_option", vec![fresh.into()])?;
    Ok(done(changes.into_map().unwrap_or_default()))
}

fn sections_absent(s: &mut State<'_, '_>) -> Result {
    let wanted = declared(s);
    let before = file(s)?;
    let mut told = preview();
    let mut changes = Map::new();
    for name in &wanted {
        let known = options_of(&before, name).is_some();
        told.note(
            known,
            &match known {
                true => format!("Deleted section {name}."),
                false => format!("Section {name} does not exist."),
            },
        );
        if known && !s.test {
            let old = call(s, "ini.remove_section", vec![name.as_str().into()])?;
            changes.set(name.as_str(), old);
        }
    }
    Ok(match s.test {
        true if wanted.is_empty() => StateOutcome::good(NOTHING),
        true => told.outcome(),
        false => done(changes),
    })
}
