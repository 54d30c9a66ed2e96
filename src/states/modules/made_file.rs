//! Files whose content a state makes, such as keys and certificates.
//!
//! The file itself (owner, mode, directories, backups) is left to a `file.managed` inside of the state, whose result
//! follows that of the state.

use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::file::paths;
use halite_modules::execution::x509::{put_file, source};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// Arguments that are for the file.
const FILE_ARGS: [&str; 20] = [
    "user",
    "group",
    "mode",
    "attrs",
    "makedirs",
    "dir_mode",
    "backup",
    "create",
    "follow_symlinks",
    "check_cmd",
    "tmp_dir",
    "tmp_ext",
    "selinux",
    "file_encoding",
    "encoding_errors",
    "win_owner",
    "win_perms",
    "win_deny_perms",
    "win_inheritance",
    "win_perms_reset",
];

/// The keywords of a state: those for the file, and the others.
pub(super) fn split(s: &State<'_, '_>) -> (Map, Map) {
    let mut file = map! {"show_changes" => false};
    let mut others = Map::new();
    // Conditions are for the engine, but this one is for the file, too.
    let check = s
        .low
        .get("check_cmd")
        .map(|v| (Value::from("check_cmd"), v.clone()));
    for (key, value) in s.kwargs.iter().cloned().chain(check) {
        let key = python::str(&key);
        if key == "file_encoding" {
            file.set("encoding", value);
        } else if FILE_ARGS.contains(&key.as_str()) {
            file.set(key, value);
        } else {
            others.set(key, value);
        }
    }
    (file, others)
}

/// Runs `file.managed` for the file of a state.
pub(super) fn file_managed(s: &mut State<'_, '_>, module: &str, args: &Map) -> Result<Map> {
    let mut kwargs = args.clone();
    let test = s.test || args.get("test").is_some_and(Value::truthy);
    kwargs.set("test", test);
    kwargs.set("concurrent", true);
    let name = s.low.get("name").cloned().unwrap_or_default();
    let ran = s.salt_with("state.single", vec!["file.managed".into(), name], kwargs)?;
    match ran {
        Value::Map(mut results) if !results.is_empty() => {
            Ok(results.0.remove(0).1.into_map().unwrap_or_default())
        }
        other => Err(CallError::Command(format!(
            "Failed running file.managed in {module} state: {}",
            python::str(&other)
        ))),
    }
}

pub(super) fn with(args: &Map, more: Map) -> Map {
    let mut all = args.clone();
    for (key, value) in more.0 {
        all.set(python::str(&key), value);
    }
    all
}

/// What the file of a private key has, for people.
pub(super) const PRIVATE_KEY: &str = "private key";

/// What a state has found out about its file.
#[derive(Default)]
pub(super) struct Found<T> {
    /// Whether the file has something of the right kind.
    pub(super) is_valid: bool,
    /// Whether the file counts as there already.
    pub(super) is_there: bool,
    /// What is to change.
    pub(super) changes: Map,
    /// What the state knows besides.
    pub(super) more: T,
}

/// A file that a state manages.
pub(super) struct Managed {
    /// What it has, for people.
    pub(super) what: &'static str,
    /// Arguments of `file.managed`.
    pub(super) file: Map,
    /// The module, as stock calls it.
    pub(super) module: &'static str,
    /// Whether the content is no text.
    pub(super) binary: bool,
}

impl Managed {
    /// Looks at the file, makes its content if something is to change, and manages the file.
    pub(super) fn run<T>(
        &self,
        s: &mut State<'_, '_>,
        look: impl FnOnce(&mut State<'_, '_>, Option<&str>) -> Result<Found<T>>,
        make: impl FnOnce(&mut State<'_, '_>, &Found<T>) -> Result<Value>,
    ) -> Result {
        let what = self.what;
        let mut outcome = StateOutcome::good(format!("The {what} is in the correct state"));
        let mut runs = Vec::new();
        match self.steps(s, &mut outcome, &mut runs, look, make) {
            Ok(()) => {}
            Err(
                CallError::Command(text)
                | CallError::CommandNotFound(text)
                | CallError::Invocation(text),
            ) => outcome = StateOutcome::bad(text),
            Err(fault) => return Err(fault),
        }
        if runs.is_empty() {
            return Ok(outcome);
        }
        let low = map! {
            "name" => s.low.get("name").cloned(), "state" => "file", "__id__" => s.low.get("__id__").cloned(),
            "fun" => "managed",
        };
        for run in &mut runs {
            run.set("low", low.clone());
        }
        let runs: Vec<Value> = runs.into_iter().map(Value::from).collect();
        Ok(outcome.with("sub_state_run", runs))
    }

    fn steps<T>(
        &self,
        s: &mut State<'_, '_>,
        outcome: &mut StateOutcome,
        runs: &mut Vec<Map>,
        look: impl FnOnce(&mut State<'_, '_>, Option<&str>) -> Result<Found<T>>,
        make: impl FnOnce(&mut State<'_, '_>, &Found<T>) -> Result<Value>,
    ) -> Result<()> {
        let what = self.what;
        // Before anything costly is done.
        let trial = file_managed(
            s,
            self.module,
            &with(&self.file, map! {"test" => true, "replace" => false}),
        )?;
        let fails = |run: &Map| run.get("result").and_then(Value::as_bool) == Some(false);
        if fails(&trial) {
            *outcome =
                StateOutcome::bad("Problem while testing file.managed changes, see its output");
            runs.push(trial);
            return Ok(());
        }
        let is_absent = "is not present and is not set for creation";
        if trial.str("comment").is_some_and(|c| c.contains(is_absent)) {
            runs.push(trial);
            return Ok(());
        }
        let name = s.name();
        let mut real = name.clone();
        let mut is_new = false;
        if paths::is_link(&name) {
            if self.file.get("follow_symlinks").is_none_or(Value::truthy) {
                real = paths::realpath(&name);
            } else {
                is_new = true;
                if !s.test {
                    s.salt("file.remove", vec![name.as_str().into()])?;
                }
            }
        }
        let exists = !is_new && Path::new(&real).is_file();
        let mut found = look(s, exists.then_some(real.as_str()))?;
        if is_new && self.what != PRIVATE_KEY {
            found.changes.set("replaced", name.as_str());
        }
        let settled = trial.get("result").is_some_and(Value::truthy)
            && !trial.get("changes").is_some_and(Value::truthy);
        let changed = !found.changes.is_empty();
        if !changed && settled {
            runs.push(trial);
            return Ok(());
        }
        outcome.changes = found.changes.clone().into();
        let verb = if found.is_there && changed {
            "recreate"
        } else {
            "create"
        };
        if s.test {
            if changed {
                outcome.result = None;
                outcome.comment = format!("The {what} would have been {verb}d");
            }
            runs.push(trial);
            return Ok(());
        }
        let mut args = with(&self.file, map! {"replace" => changed && !self.binary});
        if changed {
            let content = make(s, &found)?;
            outcome.comment = format!("The {what} has been {verb}d");
            if self.binary {
                let ran = file_managed(s, self.module, &args)?;
                if fails(&ran) {
                    *outcome = could_not(found.is_valid);
                } else {
                    let bytes = source::base64(&python::str(&content)).unwrap_or_default();
                    let backup = self.file.get("backup").cloned().unwrap_or_default();
                    put_file(s.call, &real, &bytes, &backup)?;
                }
                runs.push(ran);
                return Ok(());
            }
            args.set("contents", content);
        }
        let ran = file_managed(s, self.module, &args)?;
        if fails(&ran) {
            *outcome = could_not(found.is_valid);
        }
        runs.push(ran);
        Ok(())
    }
}

pub(super) fn could_not(is_valid: bool) -> StateOutcome {
    let verb = if is_valid { "update" } else { "create" };
    StateOutcome::bad(format!("Could not {verb} file, see file.managed output"))
}

/// Whether only these of the changes are there.
pub(super) fn only(changes: &Map, names: &[&str]) -> bool {
    changes
        .iter()
        .all(|(key, _)| names.iter().any(|n| key.is_str(n)))
}
