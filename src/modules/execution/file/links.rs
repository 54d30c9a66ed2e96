//! Hard and symbolic links.

use super::super::declare::Result;
use super::super::{Call, python};
use super::os;
use super::paths::{self, expanduser, expandvars};
use std::fs;

fn text(call: &Call<'_>, name: &str) -> String {
    call.text(name).unwrap_or_default()
}

pub fn link(call: &mut Call<'_>) -> Result {
    let (src, path) = (expanduser(&text(call, "src")), text(call, "path"));
    if !paths::is_abs(&src) {
        return os::invocation("File path must be absolute.");
    }
    match os::held(&path).map(|held| fs::hard_link(&src, held)) {
        Err(refused) => Err(refused),
        Ok(Ok(())) => Ok(true.into()),
        Ok(Err(e)) => os::command(format!(
            "Could not create '{path}': {} -> {}",
            os::text(&e, &src),
            python::repr(&path.as_str().into())
        )),
    }
}

pub fn is_link(call: &mut Call<'_>) -> Result {
    let path = text(call, "path");
    if !call.flag("nostat") {
        return Ok(paths::is_link(&expanduser(&path)).into());
    }
    let dir = paths::dirname(&path);
    let entries = fs::read_dir(dir).map_err(|e| os::fault(&e, dir))?;
    let found = entries
        .flatten()
        .find(|e| paths::join(dir, &e.file_name().to_string_lossy()) == path);
    let link = found.and_then(|e| e.file_type().ok());
    Ok(link.is_some_and(|kind| kind.is_symlink()).into())
}

/// Options of `file.symlink`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SymlinkOptions {
    /// Remove what exists.
    pub force: bool,
    /// Replace what exists in one step.
    pub atomic: bool,
    /// Treat a dangling link as missing.
    pub follow_symlinks: bool,
}

/// Creates a symbolic link (`file.symlink`).
///
/// # Errors
/// Something else exists, or the link cannot be created.
pub fn symlink(src: &str, path: &str, how: SymlinkOptions) -> Result<bool> {
    let path = expanduser(path);
    let exists = if how.follow_symlinks {
        paths::exists(&path)
    } else {
        paths::lexists(&path)
    };
    if !paths::is_abs(&path) {
        return os::invocation(format!("Link path must be absolute: {path}"));
    }
    let replaces = how.force || how.atomic;
    if paths::is_link(&path) {
        let there = paths::readlink(&path).unwrap_or_default();
        if paths::normpath(&there) == paths::normpath(src) {
            return Ok(true);
        }
        if !replaces {
            return os::command(format!("Found existing symlink: {path}"));
        }
    }
    if exists && !replaces {
        return os::command(format!("Existing path is not a symlink: {path}"));
    }
    if how.atomic {
        return atomic_link(src, &path);
    }
    if how.force && (exists || paths::is_link(&path)) {
        os::unlink(&path)?;
    }
    match os::symlink(src, &path) {
        Ok(()) => Ok(true),
        Err(_) => os::command(format!("Could not create '{path}'")),
    }
}

/// Creates a link under a temporary name and renames it.
fn atomic_link(src: &str, path: &str) -> Result<bool> {
    let held = os::held(path)?;
    let mut temporary = std::path::PathBuf::new();
    for _ in 0..5 {
        let name = format!("tmp{}", os::random_name());
        temporary = held.dir().join(&name);
        match std::os::unix::fs::symlink(src, &temporary) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                let text = os::text(&e, src);
                let shown = paths::join(paths::dirname(path), &name);
                return Err(match os::fault(&e, src) {
                    super::CallError::Raised(class, _) => super::CallError::Raised(
                        class,
                        format!("{text} -> {}", python::repr(&shown.into())),
                    ),
                    other => other,
                });
            }
            Ok(()) => break,
        }
    }
    match fs::rename(&temporary, &held) {
        Ok(()) => Ok(true),
        Err(_) => {
            let _ = fs::remove_file(&temporary);
            os::command(format!("Could not create '{path}'"))
        }
    }
}

pub fn symlink_function(call: &mut Call<'_>) -> Result {
    let how = SymlinkOptions {
        force: call.flag("force"),
        atomic: call.flag("atomic"),
        follow_symlinks: call.flag("follow_symlinks"),
    };
    Ok(symlink(&text(call, "src"), &text(call, "path"), how)?.into())
}

pub fn readlink(call: &mut Call<'_>) -> Result {
    let path = expandvars(&expanduser(&text(call, "path")));
    if !paths::is_abs(&path) {
        return os::invocation(format!("Path to link must be absolute: {path}"));
    }
    if !paths::is_link(&path) {
        return os::invocation(format!("A valid link was not specified: {path}"));
    }
    if call.flag("canonicalize") {
        return Ok(paths::realpath(&path).into());
    }
    match paths::readlink(&path) {
        Ok(target) => Ok(target.into()),
        Err(e) => os::command(os::text(&e, &path)),
    }
}
