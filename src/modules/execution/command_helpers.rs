//! Helpers for execution functions: commands as stock's `__salt__["cmd.run_all"]`, which set the job's return code,
//! and in-place file changes.

use super::cmd::which;
use super::program::{self, CommandOutput};
use super::{Call, CallError, python};
use crate::execution::declare::Result;
use crate::files::MAX_CONTENT;
use halite_sys::command::Helper;
use halite_sys::held_path::{HeldPath, LastLink};
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use xattr::FileExt;

/// A program of halite beside this one, or in `PATH`.
pub fn program_beside(name: &str) -> String {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(name));
    let beside = beside.filter(|file| file.is_file());
    beside.map_or_else(
        || name.to_owned(),
        |file| file.to_string_lossy().into_owned(),
    )
}

/// An argument vector.
#[derive(Clone, Debug, Default)]
pub struct Argv(pub Vec<String>);

impl Argv {
    /// The program.
    pub fn new(program: impl Into<String>) -> Argv {
        Argv(vec![program.into()])
    }

    /// The program by its absolute path.
    ///
    /// # Errors
    /// It is not installed.
    pub fn which(program: &str) -> Result<Argv> {
        which(program)
            .map(Argv::new)
            .ok_or_else(|| CallError::Command(format!("Command '{program}' cannot be found")))
    }

    /// Adds arguments.
    pub fn add<T: Into<String>>(&mut self, words: impl IntoIterator<Item = T>) -> &mut Argv {
        self.0.extend(words.into_iter().map(Into::into));
        self
    }

    /// Adds a value as `str()` in Python.
    pub fn value(&mut self, value: &Value) -> &mut Argv {
        self.0.push(python::str(value));
        self
    }
}

impl IntoIterator for Argv {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// `cmd.run_all`.
///
/// # Errors
/// The program cannot be started.
pub fn run_all<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> Result<CommandOutput> {
    run_all_with(call, Helper::new(argv))
}

/// `cmd.run_all` with an environment, input or directory.
///
/// # Errors
/// The program cannot be started.
pub fn run_all_with(call: &mut Call<'_>, helper: Helper) -> Result<CommandOutput> {
    let ran = program::run_with(helper)?;
    call.retcode = ran.retcode.into();
    Ok(ran)
}

/// `cmd.run_all` with `ignore_retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn run_all_tolerant<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> Result<CommandOutput> {
    let ran = program::run(argv)?;
    call.retcode = 0.into();
    Ok(ran)
}

/// `cmd.run_all` with its own arguments, such as `runas`, `env` and `cwd`.
///
/// # Errors
/// The program cannot be started, or there is no such user.
pub fn run_all_as<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
    mut kwargs: Map,
) -> Result<CommandOutput> {
    let argv: Vec<String> = argv.into_iter().map(Into::into).collect();
    kwargs.set("python_shell", false);
    let ran = call.salt("cmd.run_all", vec![argv.into()], kwargs)?;
    let ran = ran.into_map().unwrap_or_default();
    let text = |key: &str| ran.str(key).unwrap_or_default().to_owned();
    let pid = ran.int("pid").and_then(|pid| u32::try_from(pid).ok());
    Ok(CommandOutput {
        pid: pid.unwrap_or_default(),
        retcode: ran.int("retcode").unwrap_or(1),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// `cmd.run`: the program's output, including standard error.
///
/// # Errors
/// The program cannot be started.
pub fn run<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> Result<String> {
    let merged = Helper {
        merge: true,
        ..Helper::new(argv)
    };
    Ok(run_all_with(call, merged)?.stdout)
}

/// Like [`run`], with `ignore_retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn run_tolerant<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> Result<String> {
    let text = run(call, argv)?;
    call.retcode = 0.into();
    Ok(text)
}

/// Reads a text file; invalid UTF-8 is replaced.
///
/// # Errors
/// As raised by Python.
pub fn read(path: &str) -> Result<String> {
    let bytes = read_finite(path.as_ref(), MAX_CONTENT).map_err(|e| python::os_error(&e, path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a text file; the error is the `OSError` that Python raises.
///
/// # Errors
/// It cannot be read or is not UTF-8.
pub fn read_file(path: &str) -> io::Result<String> {
    let bytes = read_finite(path.as_ref(), MAX_CONTENT)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other(format!("{path} is not valid UTF-8")))
}

/// Gives an open file the owner, mode and extended attributes of another. Not by its name: whoever may write to its
/// directory could put a link there.
///
/// # Errors
/// System errors.
pub fn take_after(file: &File, old: &File) -> io::Result<()> {
    let meta = old.metadata()?;
    fchown(file, Some(meta.uid()), Some(meta.gid()))?;
    file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777))?;
    take_attributes(file, old);
    Ok(())
}

/// Gives an open file the extended attributes of another: its SELinux context, access control list, and what people have
/// put there. Not its capabilities and signatures, which the kernel drops when a file is written, too.
fn take_attributes(file: &File, old: &File) {
    // File systems without attributes have none to keep.
    for name in old.list_xattr().into_iter().flatten() {
        let shown = name.to_string_lossy();
        if ["security.capability", "security.ima", "security.evm"].contains(&&*shown) {
            continue;
        }
        let kept = old.get_xattr(&name).and_then(|value| match value {
            // The system may have given the new file the same.
            Some(value) if file.get_xattr(&name).ok().flatten().as_ref() != Some(&value) => {
                file.set_xattr(&name, &value)
            }
            _ => Ok(()),
        });
        if let Err(e) = kept {
            log::warn!("The attribute {shown} of a file that was replaced is lost: {e}");
        }
    }
}

/// A name that nobody can guess, in the directory of a file.
fn temporary_beside(held: &HeldPath) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(held.path().file_name().unwrap_or_default());
    name.push(format!(".{:016x}~", rand::random::<u64>()));
    held.dir().join(name)
}

/// Replaces a file's content, keeping its mode and owner; a new file gets the default mode. Readers see either the
/// old or the new content, unless the file is a mount point (as in containers): then it is written in place.
///
/// # Errors
/// It cannot be written.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let held = HeldPath::of(path, LastLink::Follow)?;
    let in_place = || {
        held.open(OpenOptions::new().write(true).create(true).truncate(true))?
            .write_all(content)
    };
    let is_file = held.handle().and_then(|file| file.metadata());
    if !is_file.is_ok_and(|meta| meta.is_file()) {
        return in_place();
    }
    let old = held.open(OpenOptions::new().read(true))?;
    let temp = temporary_beside(&held);
    // Set the mode before writing, so that nobody can read it early.
    let written = new_private(&temp)
        .and_then(|mut file| {
            file.write_all(content)?;
            take_after(&file, &old)
        })
        .and_then(|()| std::fs::rename(&temp, &held));
    if written.is_ok() {
        return Ok(());
    }
    // It may be gone already.
    let _ = std::fs::remove_file(&temp);
    in_place()
}

fn new_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file that only root can read, in place of whatever has its name: neither through a link nor into a pipe, and
/// without the owner or the mode of a file that was there.
///
/// # Errors
/// It cannot be written.
pub fn write_private(path: &str, content: &[u8]) -> io::Result<()> {
    let held = HeldPath::of(Path::new(path), LastLink::Keep)?;
    let temp = temporary_beside(&held);
    let written = new_private(&temp)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&temp, &held));
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written
}

/// Like [`rewrite`], with text.
///
/// # Errors
/// It cannot be written.
pub fn write_file(path: &str, text: &str) -> io::Result<()> {
    rewrite(Path::new(path), text.as_bytes())
}

/// `salt/utils/data.py compare_dicts`: new, removed and changed keys, each with `old` and `new`.
pub fn compare(old: &Map, new: &Map) -> Map {
    let mut ret = Map::new();
    let both = old.iter().chain(new.iter()).map(|(k, _)| k);
    for key in both.filter_map(Value::as_str) {
        let change = match (old.get(key), new.get(key)) {
            (was, is) if was == is => continue,
            (Some(was), None) => halite_wire::map! {"new" => "", "old" => was.clone()},
            (was, is) => {
                let was = was.cloned().unwrap_or_else(|| "".into());
                halite_wire::map! {"old" => was, "new" => is.cloned().unwrap_or_default()}
            }
        };
        ret.set(key, change);
    }
    ret
}

/// A temporary file only its owner can read; removed on drop.
pub struct TempFile(String);

impl TempFile {
    /// Creates the file.
    ///
    /// # Errors
    /// File system errors.
    pub fn new(content: &[u8]) -> Result<TempFile> {
        let name = format!("__salt.tmp.{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let text = path.to_string_lossy().into_owned();
        let written = new_private(&path).and_then(|mut file| file.write_all(content));
        let file = TempFile(text);
        written.map_err(|e| python::os_error(&e, &file.0))?;
        Ok(file)
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_keeps_its_mode_and_its_link() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_file(link.to_str().unwrap(), "new\n").unwrap();
        assert!(link.is_symlink());
        assert_eq!(read_file(real.to_str().unwrap()).unwrap(), "new\n");
        let mode = std::fs::metadata(&real).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_keeps_its_extended_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "old").unwrap();
        if let Err(e) = xattr::set(&path, "user.origin", b"me") {
            eprintln!("skipped: no attributes in {}: {e}", dir.path().display());
            return;
        }
        rewrite(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(xattr::get(&path, "user.origin").unwrap().unwrap(), b"me");
    }

    #[test]
    fn private_files_take_the_place_of_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("key"), dir.path().join("other"));
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write_private(path.to_str().unwrap(), b"one").unwrap();
        assert!(!path.is_symlink() && !other.exists());
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        write_private(path.to_str().unwrap(), b"two").unwrap();
        assert_eq!(mode(), 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
