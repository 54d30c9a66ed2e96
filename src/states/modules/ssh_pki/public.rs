//! `public_key_managed`.

use super::super::made_file::{could_not, file_managed, split, with};
use super::{MODULE_NAME, check};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::CallError;
use halite_modules::execution::file::paths;
use halite_modules::execution::ssh_pki::load_public;
use halite_wire::{Map, Value, map};
use std::path::Path;

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (file, others) = split(s);
    check(&others)?;
    match steps(s, &file) {
        Err(CallError::Command(text) | CallError::Invocation(text)) => Ok(StateOutcome::bad(text)),
        other => other,
    }
}

fn steps(s: &mut State<'_, '_>, file: &Map) -> Result {
    let name = s.name();
    let follows = file.get("follow_symlinks").is_none_or(Value::truthy);
    let is_link = paths::is_link(&name);
    let real = match is_link && follows {
        true => paths::realpath(&name),
        false => name.clone(),
    };
    let exists = Path::new(&real).is_file() && (follows || !is_link);
    let current = match exists {
        true => Some(load_public(&real.as_str().into())?),
        false => None,
    };
    let source = s.arg("public_key_source").clone();
    let kwargs = s.pick(&["passphrase"]);
    let wanted = match s.salt_with("ssh_pki.get_public_key", vec![source], kwargs) {
        Ok(text) => Some(text),
        // A state before this one may make it.
        Err(CallError::Command(_) | CallError::Invocation(_)) if s.test => None,
        Err(fault) => return Err(fault),
    };
    let is_same = match (&current, &wanted) {
        (Some(current), Some(wanted)) => wanted.is_str(&current.text()?),
        _ => false,
    };
    if is_same {
        let outcome = StateOutcome::good("The public key is in the correct state");
        return finish(s, &with(file, map! {"replace" => false}), outcome, exists);
    }
    if file.get("create").is_some_and(|v| !v.truthy()) && !exists {
        // Stock says that it has been created.
        let outcome = StateOutcome::good("The public key is in the correct state");
        return finish(s, &with(file, map! {"replace" => false}), outcome, exists);
    }
    let (change, verb) = match exists {
        true => ("updated", "updated"),
        false => ("created", "created"),
    };
    let changes = map! {change => name.as_str()};
    if s.test {
        let mut comment = format!("The public key would have been {verb}");
        if wanted.is_none() {
            comment.push_str(
                ". Note that the source could not be loaded, so this assessment relies on the source being created \
                 beforehand",
            );
        }
        return Ok(StateOutcome::would(comment).changes(changes));
    }
    if is_link && !follows {
        s.salt("file.remove", vec![name.as_str().into()])?;
    }
    let outcome = StateOutcome::good(format!("The public key has been {verb}")).changes(changes);
    let args = with(file, map! {"contents" => wanted});
    finish(s, &args, outcome, exists)
}

/// Runs `file.managed` for the file.
fn finish(
    s: &mut State<'_, '_>,
    args: &Map,
    outcome: StateOutcome,
    exists: bool,
) -> Result<StateOutcome> {
    let mut ran = file_managed(s, MODULE_NAME, args)?;
    let failed = ran.get("result").and_then(Value::as_bool) == Some(false);
    let outcome = if failed { could_not(exists) } else { outcome };
    ran.set(
        "low",
        map! {
            "name" => s.low.get("name").cloned(), "state" => "file", "__id__" => s.low.get("__id__").cloned(),
            "fun" => "managed",
        },
    );
    Ok(outcome.with("sub_state_run", vec![Value::from(ran)]))
}
