//! `file.absent`, `file.exists`, `file.missing`, `file.shortcut` and `file.touch`.

use super::{Step, absolute, command_error, fail, named};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::{NewNodeArgs, makedirs, paths, remove, touch as set_times};
use halite_wire::{Value, map};

pub(super) fn absent(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "absent")?;
    if name == "/" {
        return fail("Refusing to make \"/\" absent");
    }
    let (small, large) = match () {
        () if paths::is_file(&name) || paths::is_link(&name) => ("file", "File"),
        () if paths::is_dir(&name) => ("directory", "Directory"),
        () => return Ok(StateOutcome::good(format!("File {name} is not present"))),
    };
    let changes = map! {"removed" => name.as_str()};
    if s.test {
        return Ok(
            StateOutcome::would(format!("{large} {name} is set for removal")).changes(changes),
        );
    }
    match command_error(remove(&name))? {
        Ok(_) => Ok(StateOutcome::good(format!("Removed {small} {name}")).changes(changes)),
        Err(why) if small == "file" => fail(why),
        Err(_) => fail(format!("Failed to remove directory {name}")),
    }
}

pub(super) fn exists(s: &mut State<'_, '_>) -> Step {
    let name = named(s, "exists")?;
    if paths::exists(&name) {
        Ok(StateOutcome::good(format!("Path {name} exists")))
    } else {
        fail(format!("Specified path {name} does not exist"))
    }
}

pub(super) fn shortcut(_: &mut State<'_, '_>) -> Step {
    fail("Shortcuts are only supported on Windows")
}

pub(super) fn missing(s: &mut State<'_, '_>) -> Step {
    let name = named(s, "missing")?;
    if paths::exists(&name) {
        fail(format!("Specified path {name} exists"))
    } else {
        Ok(StateOutcome::good(format!("Path {name} is missing")))
    }
}

/// Creates the directories above a path.
pub(super) fn make_parents(
    s: &mut State<'_, '_>,
    name: &str,
    user: &Value,
    group: &Value,
    mode: &Value,
) -> Step<()> {
    let new = NewNodeArgs {
        user: user.clone(),
        group: group.clone(),
        mode: mode.clone(),
    };
    match command_error(makedirs(s.call, name, &new))? {
        Ok(_) => Ok(()),
        Err(why) => fail(format!("Drive {why} is not mapped")),
    }
}

pub(super) fn touch(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "touch")?;
    let kind = if paths::is_dir(&name) {
        "directory"
    } else {
        "file"
    };
    let exists = paths::exists(&name);
    if s.test {
        let times = [s.arg("atime"), s.arg("mtime")];
        return Ok(if !paths::is_file(&name) && !paths::is_dir(&name) {
            StateOutcome::would(format!("File {name} is set to be created"))
                .changes(map! {"new" => name})
        } else if times.iter().any(|t| !t.is_nil()) {
            StateOutcome::would(format!("Times set to be updated on {kind} {name}"))
                .changes(map! {"touched" => name})
        } else {
            // Stock says so, though the times will be those of now.
            StateOutcome::good(format!("File {name} exists and has the correct times"))
                .changes(map! {"new" => name})
        });
    }
    if s.flag("makedirs") {
        make_parents(s, &name, &Value::Nil, &Value::Nil, &Value::Nil)?;
    }
    if !paths::is_dir(paths::dirname(&name)) {
        return fail(format!("Directory not present to touch file {name}"));
    }
    if !set_times(&name, s.arg("atime"), s.arg("mtime"))? {
        return Ok(StateOutcome::bad(""));
    }
    Ok(if exists {
        StateOutcome::good(format!("Updated times on {kind} {name}"))
            .changes(map! {"touched" => name})
    } else {
        StateOutcome::good(format!("Created empty file {name}")).changes(map! {"new" => name})
    })
}
