//! Creates, moves, copies and removes files and directories.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::perms::{Perms, check_perms};
use halite_sys::held_path::{HeldPath, LastLink};
use halite_wire::Value;
use halite_wire::map;
use std::fs;
use std::time::SystemTime;

fn text(call: &Call<'_>, name: &str) -> String {
    call.text(name).unwrap_or_default()
}

const ABSOLUTE: &str = "File path must be absolute.";

/// Renames (`file.rename`).
///
/// # Errors
/// The path is relative, or a system call fails.
pub fn rename(src: &str, dst: &str) -> Result<()> {
    let (src, dst) = (expanduser(src), expanduser(dst));
    if !paths::is_abs(&src) {
        return os::invocation(ABSOLUTE);
    }
    fs::rename(os::held(&src)?, os::held(&dst)?)
        .or_else(|_| os::command(format!("Could not rename '{src}' to '{dst}'")))
}

pub fn rename_function(call: &mut Call<'_>) -> Result {
    rename(&text(call, "src"), &text(call, "dst"))?;
    Ok(true.into())
}

pub fn move_function(call: &mut Call<'_>) -> Result {
    let (src, dst) = (text(call, "src"), text(call, "dst"));
    if call.flag("disallow_copy_and_unlink") {
        rename(&src, &dst)?;
        return Ok(true.into());
    }
    let (src, dst) = (expanduser(&src), expanduser(&dst));
    if !paths::is_abs(&src) {
        return os::invocation("Source path must be absolute.");
    }
    if !paths::is_abs(&dst) {
        return os::invocation("Destination path must be absolute.");
    }
    if let Err(e) = os::move_to(&src, &dst) {
        return os::command(format!("Unable to move '{src}' to '{dst}': {e}"));
    }
    Ok(map! {"result" => true, "comment" => format!("'{src}' moved to '{dst}'")}.into())
}

/// Copies a file or, with `recurse`, a directory (`file.copy`).
///
/// # Errors
/// As in stock.
pub fn copy(
    call: &mut Call<'_>,
    src: &str,
    dst: &str,
    recurse: bool,
    remove_existing: bool,
) -> Result<()> {
    let (src, dst) = (expanduser(src), expanduser(dst));
    if !paths::is_abs(&src) {
        return os::invocation(ABSOLUTE);
    }
    if !paths::exists(&src) {
        return os::command(format!("No such file or directory '{src}'"));
    }
    let perms = Perms::read(&src)?;
    let done = if !(paths::is_dir(&dst) || paths::is_dir(&src)) {
        os::copyfile(&src, &dst)
    } else if !recurse {
        return os::invocation(
            "Cannot copy overwriting a directory without recurse flag set to true!",
        );
    } else if remove_existing {
        if paths::exists(&dst) {
            os::rmtree(&dst)
        } else {
            Ok(())
        }
        .and_then(|()| os::copytree(&src, &dst))
    } else {
        copy_files(&src, &dst)
    };
    match done {
        Err(e) if os::is_os_error(&e) => {
            return os::command(format!("Could not copy '{src}' to '{dst}'"));
        }
        done => done?,
    }
    check_perms(call, &dst, None, &perms)?;
    Ok(())
}

/// Copies all files below a directory into another one (`salt/utils/files.py recursive_copy`). Links to directories
/// are not followed.
fn copy_files(src: &str, dst: &str) -> Result<()> {
    let Ok(names) = os::list_dir(src) else {
        return Ok(());
    };
    if !paths::exists(dst) {
        let above = paths::dirname(dst);
        fs::create_dir_all(above).map_err(|e| os::fault(&e, above))?;
        os::mkdir(dst)?;
    }
    for name in names {
        let (inner, target) = (paths::join(src, &name), paths::join(dst, &name));
        match (paths::is_dir(&inner), paths::is_link(&inner)) {
            (true, false) => copy_files(&inner, &target)?,
            (true, true) => {}
            (false, _) => os::copyfile(&inner, &target)?,
        }
    }
    Ok(())
}

pub fn copy_function(call: &mut Call<'_>) -> Result {
    let (src, dst) = (text(call, "src"), text(call, "dst"));
    let (recurse, remove) = (call.flag("recurse"), call.flag("remove_existing"));
    copy(call, &src, &dst, recurse, remove)?;
    Ok(true.into())
}

/// Removes a file, link or directory tree; whether it existed (`file.remove`).
///
/// # Errors
/// The path is relative, or a system call fails.
pub fn remove(path: &str) -> Result<bool> {
    let path = expanduser(path);
    if !paths::is_abs(&path) {
        return os::invocation(format!("File path must be absolute: {path}"));
    }
    let done = if paths::is_link(&path) || (paths::exists(&path) && !paths::is_dir(&path)) {
        os::unlink(&path)
    } else if paths::is_dir(&path) {
        os::rmtree(&path)
    } else {
        return Ok(false);
    };
    match done {
        Ok(()) => Ok(true),
        Err(e) => os::command(format!("Could not remove '{path}': {e}")),
    }
}

pub fn remove_function(call: &mut Call<'_>) -> Result {
    Ok(remove(&text(call, "path"))?.into())
}

pub fn readdir(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    if !paths::is_abs(&path) {
        return os::invocation("Dir path must be absolute.");
    }
    if !paths::is_dir(&path) {
        return os::invocation(format!("A valid directory was not specified: {path}"));
    }
    let mut names: Vec<Value> = vec![".".into(), "..".into()];
    names.extend(os::list_dir(&path)?.into_iter().map(Value::from));
    Ok(Value::Array(names))
}

/// The result of `file.rmdir`.
#[derive(Default)]
struct Removed {
    deleted: Vec<Value>,
    errors: Vec<Value>,
    older_than: Option<f64>,
}

impl Removed {
    fn old_enough(&self, path: &str) -> Result<bool> {
        let Some(limit) = self.older_than else {
            return Ok(true);
        };
        let modified = fs::metadata(path).and_then(|m| m.modified());
        let modified = modified.map_err(|e| os::fault(&e, path))?;
        Ok(seconds(modified) < limit)
    }

    fn remove_one(&mut self, path: &str) -> Result<bool> {
        if !self.old_enough(path)? {
            return Ok(true);
        }
        let held = HeldPath::of(path.as_ref(), LastLink::Keep);
        match held.and_then(fs::remove_dir) {
            Ok(()) => {
                self.deleted.push(path.into());
                Ok(true)
            }
            Err(e) => {
                let pair = vec![path.into(), os::text(&e, path).into()];
                self.errors.push(Value::Array(pair));
                Ok(false)
            }
        }
    }

    /// Removes all empty directories below, deepest first.
    fn remove_children(&mut self, path: &str) -> Result<()> {
        let names = os::list_dir(path).unwrap_or_default();
        let dirs: Vec<String> = names
            .iter()
            .map(|name| paths::join(path, name))
            .filter(|inner| paths::is_dir(inner))
            .collect();
        for dir in dirs.iter().filter(|dir| !paths::is_link(dir)) {
            self.remove_children(dir)?;
        }
        for dir in &dirs {
            self.remove_one(dir)?;
        }
        Ok(())
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

pub fn rmdir(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    if !paths::is_abs(&path) {
        return os::invocation(ABSOLUTE);
    }
    if !paths::is_dir(&path) {
        return os::invocation(format!("A valid directory was not specified: {path}"));
    }
    let older_than = call.flag("older_than").then(|| {
        python::int(call.arg("older_than"))
            .ok()
            .map(|days| seconds(SystemTime::now()) - days as f64 * 86_400.0)
    });
    let mut removed = Removed {
        // Non-numbers are ignored.
        older_than: older_than.flatten(),
        ..Removed::default()
    };
    let recurse = call.flag("recurse");
    let mut ret = false;
    if recurse {
        removed.remove_children(&path)?;
        ret = removed.errors.is_empty();
    }
    if removed.old_enough(&path)? {
        ret = removed.remove_one(&path)? && (ret || !recurse);
    }
    if !call.flag("verbose") {
        return Ok(ret.into());
    }
    Ok(map! {"deleted" => removed.deleted, "errors" => removed.errors, "result" => ret}.into())
}

/// Python's `int(f"{mode}")`; the digits are still taken as octal.
fn digits(mode: &Value) -> Result<Value> {
    if mode.truthy() {
        Ok(python::int(&python::str(mode).into())?.into())
    } else {
        Ok(Value::Nil)
    }
}

/// Owner, group and mode of a new node.
#[derive(Clone, Debug, Default)]
pub struct NewNodeArgs {
    /// Owner, by name or id.
    pub user: Value,
    /// Group, by name or id.
    pub group: Value,
    /// Octal mode.
    pub mode: Value,
}

impl NewNodeArgs {
    /// From the arguments `user`, `group` and `mode`.
    pub fn from_call(call: &Call<'_>) -> NewNodeArgs {
        NewNodeArgs {
            user: call.arg("user").clone(),
            group: call.arg("group").clone(),
            mode: call.arg("mode").clone(),
        }
    }

    /// As permissions for a check.
    ///
    /// # Errors
    /// `ValueError`: the mode is not a number.
    pub fn perms(&self) -> Result<Perms> {
        Ok(Perms {
            user: self.user.clone(),
            group: self.group.clone(),
            mode: digits(&self.mode)?,
            ..Perms::default()
        })
    }
}

/// Creates a directory and its parents (`file.makedirs_perms`).
///
/// # Errors
/// System errors.
pub fn makedirs_perms(call: &mut Call<'_>, name: &str, new: &NewNodeArgs) -> Result<()> {
    let name = expanduser(name);
    let (mut head, mut tail) = paths::split(&name);
    if tail.is_empty() {
        (head, tail) = paths::split(head);
    }
    if !head.is_empty() && !tail.is_empty() && !paths::exists(head) {
        match makedirs_perms(call, head, new) {
            Err(CallError::Raised(class, _)) if class == "FileExistsError" => {}
            done => done?,
        }
        if tail == "." {
            return Ok(());
        }
    }
    os::mkdir(&name)?;
    check_perms(call, &name, None, &new.perms()?)?;
    Ok(())
}

pub fn makedirs_perms_function(call: &mut Call<'_>) -> Result {
    let (name, new) = (text(call, "name"), NewNodeArgs::from_call(call));
    makedirs_perms(call, &name, &new)?;
    Ok(Value::Nil)
}

/// Creates a directory if it is missing (`file.mkdir`).
///
/// # Errors
/// System errors.
pub fn mkdir(call: &mut Call<'_>, path: &str, new: &NewNodeArgs) -> Result<()> {
    let path = paths::normpath(&expanduser(path));
    if paths::is_dir(&path) {
        Ok(())
    } else {
        makedirs_perms(call, &path, new)
    }
}

pub fn mkdir_function(call: &mut Call<'_>) -> Result {
    let (path, new) = (text(call, "dir_path"), NewNodeArgs::from_call(call));
    mkdir(call, &path, &new)?;
    Ok(true.into())
}

/// Creates the parent directories of a path; the text says if nothing was to do (`file.makedirs`).
///
/// # Errors
/// System errors, or a relative path whose first directory is missing.
pub fn makedirs(call: &mut Call<'_>, path: &str, new: &NewNodeArgs) -> Result<Option<String>> {
    let path = expanduser(path);
    let mut new = new.clone();
    if new.mode.truthy() {
        new.mode = os::normalize_mode(&new.mode).into();
    }
    let mut dir = paths::normpath(paths::dirname(&path));
    if paths::is_dir(&dir) {
        return Ok(Some(format!("Directory '{dir}' already exists")));
    }
    if paths::exists(&dir) {
        return Ok(Some(format!(
            "The path '{dir}' already exists and is not a directory"
        )));
    }
    let mut missing = Vec::new();
    while !paths::is_dir(&dir) {
        missing.push(dir.clone());
        let above = paths::dirname(&dir).to_owned();
        if above == dir {
            return os::invocation(format!(
                "Recursive creation for path '{above}' would result in an infinite loop. Please use an \
                 absolute path."
            ));
        }
        dir = above;
    }
    for dir in missing.iter().rev() {
        mkdir(call, dir, &new)?;
    }
    Ok(None)
}

pub fn makedirs_function(call: &mut Call<'_>) -> Result {
    let (path, new) = (text(call, "path"), NewNodeArgs::from_call(call));
    Ok(makedirs(call, &path, &new)?.into())
}
