//! `file.copy` and `file.rename`.

use super::directory::walk;
use super::simple::make_parents;
use super::symlink::group_of;
use super::{Step, command_error, fail, known_owner, mode_of, outcome_of, user_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::CallError;
use halite_modules::execution::file::os;
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{Perms, Stats, check_perms, get_hash, lchown, remove};
use halite_wire::{Value, map};

pub(super) fn copy(s: &mut State<'_, '_>) -> Step {
    let name = super::absolute(s, "copy")?;
    let source = expanduser(&s.text("source").unwrap_or_default());
    if !paths::exists(&source) {
        return fail(format!("Source file \"{source}\" is not present"));
    }
    let preserve = s.flag("preserve");
    let mut perms = Perms {
        user: user_of(s),
        group: s.arg("group").clone(),
        mode: mode_of(s.arg("mode")),
        follow_symlinks: true,
        ..Perms::default()
    };
    if !preserve {
        known_owner(s, &perms.user, &perms.group)?;
        if perms.user.truthy() && perms.group.is_nil() {
            perms.group = group_of(&perms.user);
        }
    }
    let mut target = name.clone();
    if paths::is_dir(&name) && s.flag("subdir") {
        target = paths::join(&name, paths::basename(&source));
    }
    let there = paths::lexists(&target);
    if there && !s.flag("force") {
        return Ok(StateOutcome::good(format!(
            "The target file \"{target}\" exists and will not be overwritten"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "File \"{source}\" is set to be copied to \"{target}\""
        )));
    }
    let mut text = format!("Copied \"{source}\" to \"{name}\"");
    if there {
        let identical =
            paths::is_file(&target) && get_hash(&source, "sha256")? == get_hash(&target, "sha256")?;
        if identical {
            text.push_str(" - files are identical but force flag is set");
        }
        if command_error(remove(&target))?.is_err() {
            return fail(format!(
                "Failed to delete \"{target}\" in preparation for forced move"
            ));
        }
    }
    let dir_mode = s.arg("dir_mode").clone();
    target_dir(s, &target, &perms.user, &perms.group, &dir_mode)?;
    let done = if paths::is_dir(&source) {
        os::copytree_with_links(&source, &target).and_then(|()| own_below(&target, &perms))
    } else {
        os::copy_with_mode(&source, &target)
    };
    match done {
        Err(e) if os::is_os_error(&e) => {
            return fail(format!("Failed to copy \"{source}\" to \"{target}\""));
        }
        done => done?,
    }
    let changes = map! {target.as_str() => source};
    if preserve {
        return Ok(StateOutcome::good(text).changes(changes));
    }
    let ret = map! {
        "name" => target.as_str(), "changes" => changes, "result" => true, "comment" => text,
    };
    let (ret, _) = check_perms(s.call, &target, Some(ret), &perms)?;
    Ok(outcome_of(ret))
}

/// Gives all that is below a directory to an owner.
fn own_below(dir: &str, perms: &Perms) -> Result<(), CallError> {
    if !perms.user.truthy() && !perms.group.truthy() {
        return Ok(());
    }
    for level in walk(dir, None) {
        for name in level.dirs.iter().chain(&level.files) {
            let path = paths::join(&level.path, name);
            let stats = Stats::read(&path, false)?;
            let user = if perms.user.truthy() {
                &perms.user
            } else {
                &stats.user()
            };
            let group = if perms.group.truthy() {
                &perms.group
            } else {
                &stats.group()
            };
            lchown(&path, user, group)?;
        }
    }
    Ok(())
}

/// Requires the directory of a target, creating it if that is allowed.
fn target_dir(
    s: &mut State<'_, '_>,
    target: &str,
    user: &Value,
    group: &Value,
    mode: &Value,
) -> Step<()> {
    let dir = paths::dirname(target);
    if paths::is_dir(dir) {
        return Ok(());
    }
    if !s.flag("makedirs") {
        return fail(format!("The target directory {dir} is not present"));
    }
    make_parents(s, target, user, group, mode)
}

pub(super) fn rename(s: &mut State<'_, '_>) -> Step {
    let name = super::absolute(s, "rename")?;
    let source = expanduser(&s.text("source").unwrap_or_default());
    if !paths::is_abs(&source) || !paths::lexists(&source) {
        return Ok(StateOutcome::good(format!(
            "Source file \"{source}\" has already been moved out of place"
        )));
    }
    let there = paths::lexists(&name);
    if there && !s.flag("force") {
        return Ok(StateOutcome::good(format!(
            "The target file \"{name}\" exists and will not be overwritten"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "File \"{source}\" is set to be moved to \"{name}\""
        )));
    }
    if there && command_error(remove(&name))?.is_err() {
        return fail(format!(
            "Failed to delete \"{name}\" in preparation for forced move"
        ));
    }
    target_dir(s, &name, &Value::Nil, &Value::Nil, &Value::Nil)?;
    match os::move_to(&source, &name) {
        Err(e) if os::is_os_error(&e) => {
            return fail(format!("Failed to move \"{source}\" to \"{name}\""));
        }
        done => done?,
    }
    Ok(
        StateOutcome::good(format!("Moved \"{source}\" to \"{name}\""))
            .changes(map! {name.as_str() => source}),
    )
}
