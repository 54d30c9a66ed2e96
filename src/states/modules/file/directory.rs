//! `file.directory`.

use super::clean::{self, Keep};
use super::{Step, change, fail, has_changes, known_owner, mode_of, outcome_of, user_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{
    NewNodeArgs, Perms, Stats, check_more_perms, check_perms, makedirs, mkdir, remove, rename,
};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

/// What to set below a directory (`recurse`).
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    user: bool,
    group: bool,
    mode: bool,
    ignore_files: bool,
    ignore_dirs: bool,
    silent: bool,
}

impl Below {
    fn of(value: &Value) -> Step<Option<Below>> {
        if !value.truthy() {
            return Ok(None);
        }
        let words = match value {
            Value::Array(list) => list,
            _ => return fail("\"recurse\" must be formed as a list of strings"),
        };
        let mut below = Below::default();
        for word in words {
            let flag = match python::str(word).as_str() {
                "user" => &mut below.user,
                "group" => &mut below.group,
                "mode" => &mut below.mode,
                "ignore_files" => &mut below.ignore_files,
                "ignore_dirs" => &mut below.ignore_dirs,
                "silent" => &mut below.silent,
                _ => {
                    return fail(
                        "Types for \"recurse\" limited to \"user\", \"group\", \"mode\", \"ignore_files\", \
                         \"ignore_dirs\", \"silent\".",
                    );
                }
            };
            *flag = true;
        }
        if below.ignore_files && below.ignore_dirs {
            return fail(
                "Must not specify \"recurse\" options \"ignore_files\" and \"ignore_dirs\" at the same time.",
            );
        }
        Ok(Some(below))
    }
}

/// One directory of a walk: its path, and the names of directories and of other files in it.
pub(super) struct Level {
    pub path: String,
    pub dirs: Vec<String>,
    pub files: Vec<String>,
}

/// Walks a tree from the top, at most so many levels; links to directories count as directories and are not followed.
pub(super) fn walk(top: &str, depth: Option<i64>) -> Vec<Level> {
    let mut levels = Vec::new();
    visit(top, depth.unwrap_or(i64::MAX), &mut levels);
    levels
}

fn visit(path: &str, depth: i64, levels: &mut Vec<Level>) {
    if depth <= 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return;
    };
    let (mut dirs, mut files) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            dirs.push(name);
        } else {
            files.push(name);
        }
    }
    let below: Vec<String> = dirs.iter().map(|name| paths::join(path, name)).collect();
    levels.push(Level {
        path: path.to_owned(),
        dirs,
        files,
    });
    for dir in below.iter().filter(|dir| !paths::is_link(dir)) {
        visit(dir, depth - 1, levels);
    }
}

/// The request of a state.
struct Directory {
    name: String,
    perms: Perms,
    file_mode: Value,
    below: Option<Below>,
    depth: Option<i64>,
    clean: bool,
    children_only: bool,
    makedirs: bool,
    require: Value,
    exclude: Value,
}

pub(super) fn directory(s: &mut State<'_, '_>) -> Step {
    let mut name = match expanduser(&s.name()) {
        name if name.is_empty() => return fail("Must provide name to file.directory"),
        name => name,
    };
    if name.len() > 1 && name.ends_with('/') {
        name.pop();
    }
    let (clean, depth) = (s.flag("clean"), s.arg("max_depth").clone());
    if !depth.is_nil() && clean {
        return fail("Cannot specify both max_depth and clean");
    }
    let mut mode = s.arg("dir_mode").clone();
    if !mode.truthy() {
        mode = s.kwargs.get("mode").cloned().unwrap_or_default();
    }
    let mut file_mode = s.arg("file_mode").clone();
    if !file_mode.truthy() {
        file_mode = mode.clone();
    }
    let (user, group) = (user_of(s), s.arg("group").clone());
    known_owner(s, &user, &group)?;
    if !paths::is_abs(&name) {
        return fail(format!("Specified file {name} is not an absolute path"));
    }
    let mut outcome = StateOutcome::good("");
    if let Some(ended) = make_way(s, &name, &mut outcome)? {
        return Ok(ended);
    }
    let request = Directory {
        perms: Perms {
            user,
            group,
            mode: mode_of(&mode),
            follow_symlinks: s.flag("follow_symlinks"),
            ..Perms::default()
        },
        file_mode: mode_of(&file_mode),
        below: Below::of(s.arg("recurse"))?,
        depth: depth.as_int(),
        clean,
        children_only: s.flag("children_only"),
        makedirs: s.flag("makedirs"),
        require: s.arg("require").clone(),
        exclude: s.arg("exclude_pat").clone(),
        name,
    };
    request.apply(s, outcome)
}

/// Requires one directory with its parents, for a whole tree.
pub(super) fn one(s: &mut State<'_, '_>, name: &str, perms: Perms) -> Step {
    if paths::is_file(name) {
        return fail(format!("Specified location {name} exists and is a file"));
    }
    let request = Directory {
        name: name.to_owned(),
        perms,
        file_mode: Value::Nil,
        below: None,
        depth: None,
        clean: false,
        children_only: false,
        makedirs: true,
        require: Value::Nil,
        exclude: Value::Nil,
    };
    request.apply(s, StateOutcome::good(""))
}

/// Removes or renames a file where the directory should be, if that is allowed; an outcome ends the state.
fn make_way(
    s: &mut State<'_, '_>,
    name: &str,
    outcome: &mut StateOutcome,
) -> Step<Option<StateOutcome>> {
    let (force, allow_symlink) = (s.flag("force"), s.flag("allow_symlink"));
    let is_link = paths::is_link(name);
    if !(paths::is_file(name) || is_link && (!allow_symlink || force)) {
        return Ok(None);
    }
    let what = match (paths::is_file(name), is_link) {
        (true, _) => "File",
        (false, true) => "Symlink",
        (false, false) => "Directory",
    };
    if let Some(backup) = s.text("backupname") {
        if paths::lexists(&backup) {
            if !force {
                return fail(format!(
                    "File exists where the backup target {backup} should go"
                ));
            }
            if s.test {
                let text = format!("Existing file at backup path {backup} would be removed");
                change(outcome, "forced", text);
            } else {
                remove(&backup)?;
            }
        }
        if s.test {
            change(
                outcome,
                "backup",
                format!("{name} would be renamed to {backup}"),
            );
            change(outcome, name, map! {"directory" => "new"});
            outcome.result = None;
            outcome.comment =
                format!("{name} would be backed up and replaced with a new directory");
            return Ok(Some(outcome.clone()));
        }
        rename(name, &backup)?;
        return Ok(None);
    }
    if !force {
        let kind = if what == "File" { "file" } else { "symlink" };
        return fail(format!("Specified location {name} exists and is a {kind}"));
    }
    if s.test {
        change(
            outcome,
            "forced",
            format!("{what} would be forcibly replaced"),
        );
    } else {
        remove(name)?;
        change(outcome, "forced", format!("{what} was forcibly replaced"));
    }
    Ok(None)
}

impl Directory {
    /// The permissions of what is below; `mode` is that of directories or files.
    fn perms_below(&self, below: &Below, mode: &Value) -> Perms {
        let pick = |on: bool, value: &Value| if on { value.clone() } else { Value::Nil };
        Perms {
            user: pick(below.user, &self.perms.user),
            group: pick(below.group, &self.perms.group),
            mode: pick(below.mode, mode),
            ..self.perms.clone()
        }
    }

    /// What would change, in the order of a walk, and the same as text.
    fn pending(&self, keep: &Keep) -> Step<(Map, String)> {
        let mut changes = Map::new();
        let below = self.below.unwrap_or_default();
        if self.below.is_some() || self.clean {
            let files = self.perms_below(&below, &self.file_mode);
            let dirs = self.perms_below(&below, &self.perms.mode);
            for level in walk(&self.name, self.depth) {
                let groups = [
                    (&level.files, &files, below.ignore_files),
                    (&level.dirs, &dirs, below.ignore_dirs),
                ];
                for (names, perms, ignored) in groups {
                    for name in names {
                        let path = paths::join(&level.path, name);
                        let mut found = match self.below.is_some() && !ignored {
                            true => pending_perms(&path, perms)?,
                            false => Map::new(),
                        };
                        if self.clean && keep.may_remove(&path) {
                            found = map! {"removed" => "Removed due to clean"};
                        }
                        if !found.is_empty() {
                            changes.set(path, found);
                        }
                    }
                }
            }
        }
        if !self.children_only {
            let perms = match &self.below {
                Some(below) => self.perms_below(below, &self.perms.mode),
                None => self.perms.clone(),
            };
            let found = match paths::is_dir(&self.name) {
                true => pending_perms(&self.name, &perms)?,
                false => map! {"directory" => "new"},
            };
            if !found.is_empty() {
                changes.set(self.name.as_str(), found);
            }
        }
        let mut text = "The following files will be changed:\n".to_owned();
        for (path, found) in changes.iter() {
            for (key, value) in found.as_map().into_iter().flat_map(Map::iter) {
                text.push_str(&format!(
                    "{}: {} - {}\n",
                    python::str(path),
                    python::str(key),
                    python::str(value)
                ));
            }
        }
        Ok((changes, text))
    }

    fn apply(&self, s: &mut State<'_, '_>, mut outcome: StateOutcome) -> Step {
        let name = &self.name;
        let keep = if self.clean {
            clean::keep(s, name, &self.require, &self.exclude)?
        } else {
            Keep::nothing(name)
        };
        let (changes, text) = self.pending(&keep)?;
        if changes.is_empty() {
            outcome.comment = format!("The directory {name} is in the correct state");
            return Ok(outcome);
        }
        for (path, found) in changes.iter() {
            change(&mut outcome, &python::str(path), found.clone());
        }
        if s.test {
            outcome.result = None;
            outcome.comment = text;
            return Ok(outcome);
        }
        if !paths::is_dir(name) {
            return self.create(s, outcome);
        }
        self.set(s, outcome, &keep)
    }

    fn create(&self, s: &mut State<'_, '_>, mut outcome: StateOutcome) -> Step {
        let name = &self.name;
        let new = NewNodeArgs {
            user: self.perms.user.clone(),
            group: self.perms.group.clone(),
            mode: self.perms.mode.clone(),
        };
        if !paths::is_dir(paths::dirname(name)) {
            if !self.makedirs {
                outcome.result = Some(false);
                outcome.comment = format!("No directory to create {name} in");
                return Ok(outcome);
            }
            match makedirs(s.call, name, &new) {
                Err(CallError::Command(why)) => {
                    outcome.result = Some(false);
                    outcome.comment = why;
                    return Ok(outcome);
                }
                other => other?,
            };
        }
        mkdir(s.call, name, &new)?;
        change(&mut outcome, name, map! {"directory" => "new"});
        Ok(outcome)
    }

    /// Sets what an existing directory and its content lack.
    fn set(&self, s: &mut State<'_, '_>, mut outcome: StateOutcome, keep: &Keep) -> Step {
        let name = &self.name;
        if self.below.is_some_and(|b| b.silent) {
            outcome.changes = map! {"recursion" => "Changes silenced"}.into();
        }
        let mut ret = map! {
            "name" => name.as_str(), "changes" => outcome.changes, "result" => true, "comment" => "",
        };
        if !self.children_only {
            (ret, _) = check_perms(s.call, name, Some(ret), &self.perms)?;
        }
        let mut errors = Vec::new();
        if let Some(below) = &self.below {
            let files = self.perms_below(below, &self.file_mode);
            let dirs = self.perms_below(below, &self.perms.mode);
            for level in walk(name, self.depth) {
                let groups = [
                    (&level.files, &files, below.ignore_files),
                    (&level.dirs, &dirs, below.ignore_dirs),
                ];
                for (names, perms, _) in groups.into_iter().filter(|(.., ignored)| !ignored) {
                    for child in names {
                        let path = paths::join(&level.path, child);
                        match check_more_perms(s.call, &path, &mut ret, perms) {
                            Ok(_) => {}
                            // It may be gone meanwhile.
                            Err(CallError::Command(why)) if why.ends_with("does not exist") => {}
                            Err(CallError::Command(why)) => errors.push(why),
                            Err(other) => return Err(other.into()),
                        }
                    }
                }
            }
        }
        let mut outcome = outcome_of(ret);
        if self.clean {
            let removed = keep.clean()?;
            if !removed.is_empty() {
                change(&mut outcome, "removed", removed);
                outcome.comment = format!("Files cleaned from directory {name}");
            }
        }
        if outcome.comment.is_empty() {
            if self.children_only {
                outcome.comment = format!("Directory {name}/* updated");
            } else if has_changes(&outcome) {
                outcome.comment = format!("Directory {name} updated");
            }
        }
        if !errors.is_empty() {
            outcome.result = Some(false);
            outcome
                .comment
                .push_str("\n\nThe following errors were encountered:\n");
            for error in errors {
                outcome.comment.push_str(&format!("\n- {error}"));
            }
        }
        Ok(outcome)
    }
}

/// What permissions of a path would change.
fn pending_perms(path: &str, want: &Perms) -> Step<Map> {
    let stats = match Stats::read(path, want.follow_symlinks) {
        Ok(stats) => stats,
        Err(CallError::Command(_)) => return Ok(map! {"directory" => "new"}),
        Err(other) => return Err(other.into()),
    };
    let mut changes = Map::new();
    if !want.user.is_nil() && !stats.is_user(&want.user) {
        changes.set("user", want.user.clone());
    }
    if !want.group.is_nil() && !stats.is_group(&want.group) {
        changes.set("group", want.group.clone());
    }
    let is_link = !want.follow_symlinks && paths::is_link(path);
    if let Value::Str(mode) = &want.mode
        && !is_link
        && *mode != stats.mode
    {
        changes.set("mode", mode.as_str());
    }
    Ok(changes)
}
