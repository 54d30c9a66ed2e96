//! What the steps of many functions have in common: commands as stock's `__salt__["cmd.run_all"]`,
//! which set the return code of the job, and files that are rewritten in place.

use super::cmd::which;
use super::program::{self, Ran};
use super::{Call, Fault, python};
use crate::sys::command::Helper;
use crate::sys::daemon::write_atomic;
use crate::wire::{Map, Value};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::Path;

/// An argument vector of words and values.
#[derive(Clone, Debug, Default)]
pub struct Argv(pub Vec<String>);

impl Argv {
    /// The program.
    pub fn new(program: impl Into<String>) -> Argv {
        Argv(vec![program.into()])
    }

    /// The program by its path.
    ///
    /// # Errors
    /// It is not installed.
    pub fn which(program: &str) -> std::result::Result<Argv, Fault> {
        which(program)
            .map(Argv::new)
            .ok_or_else(|| Fault::Command(format!("Command '{program}' cannot be found")))
    }

    /// Adds words.
    pub fn add<T: Into<String>>(&mut self, words: impl IntoIterator<Item = T>) -> &mut Argv {
        self.0.extend(words.into_iter().map(Into::into));
        self
    }

    /// Adds a value as Python's `str()` has it.
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
pub fn all<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> std::result::Result<Ran, Fault> {
    helper(call, Helper::new(argv))
}

/// `cmd.run_all` of a program with an environment, input or directory of its own.
///
/// # Errors
/// The program cannot be started.
pub fn helper(call: &mut Call<'_>, helper: Helper) -> std::result::Result<Ran, Fault> {
    let ran = program::helper(helper)?;
    call.retcode = ran.retcode.into();
    Ok(ran)
}

/// `cmd.run_all` with `ignore_retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn tolerant<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> std::result::Result<Ran, Fault> {
    let ran = program::run(argv)?;
    call.retcode = 0.into();
    Ok(ran)
}

/// `cmd.run`: what the program prints, errors included.
///
/// # Errors
/// The program cannot be started.
pub fn printed<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> std::result::Result<String, Fault> {
    let merged = Helper {
        merge: true,
        ..Helper::new(argv)
    };
    Ok(helper(call, merged)?.stdout)
}

/// As [`printed`], with `ignore_retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn printed_anyway<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> std::result::Result<String, Fault> {
    let text = printed(call, argv)?;
    call.retcode = 0.into();
    Ok(text)
}

/// A failed file operation as Python raises it.
pub fn os_error(error: &io::Error, path: &str) -> Fault {
    let class = match error.kind() {
        io::ErrorKind::NotFound => "FileNotFoundError",
        io::ErrorKind::PermissionDenied => "PermissionError",
        io::ErrorKind::AlreadyExists => "FileExistsError",
        io::ErrorKind::IsADirectory => "IsADirectoryError",
        io::ErrorKind::NotADirectory => "NotADirectoryError",
        _ => "OSError",
    };
    Fault::raised(class, os_text(error, path))
}

/// `str()` of Python's `OSError`.
pub fn os_text(error: &io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(number) => format!(
            "[Errno {number}] {}: {}",
            nix::errno::Errno::from_raw(number).desc(),
            python::repr(&path.into())
        ),
        None => format!("{path}: {error}"),
    }
}

/// A text file; octets that are no UTF-8 are replaced.
///
/// # Errors
/// As Python raises them.
pub fn read(path: &str) -> std::result::Result<String, Fault> {
    let octets = std::fs::read(path).map_err(|e| os_error(&e, path))?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Gives a file new content: at once, with the mode and owner it had. A file that cannot be
/// replaced, such as a mount point, is written over.
///
/// # Errors
/// Of the file system.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Ok(old) = std::fs::metadata(&path) else {
        return std::fs::write(&path, content);
    };
    let fresh = path.with_extension("halite~");
    let done = write_atomic(&fresh, content, old.mode() & 0o7777)
        .and_then(|()| {
            // The umask takes bits away from a new file.
            std::fs::set_permissions(&fresh, old.permissions())
        })
        .and_then(|()| chown(&fresh, Some(old.uid()), Some(old.gid())))
        .and_then(|()| std::fs::rename(&fresh, &path));
    if done.is_ok() {
        return done;
    }
    let _ = std::fs::remove_file(&fresh);
    std::fs::write(&path, content)
}

/// `salt/utils/data.py compare_dicts`: what is new, gone or other, each with `old` and `new`.
pub fn compare(old: &Map, new: &Map) -> Map {
    let mut ret = Map::new();
    let both = old.iter().chain(new.iter()).map(|(k, _)| k);
    for key in both.filter_map(Value::as_str) {
        let change = match (old.get(key), new.get(key)) {
            (was, is) if was == is => continue,
            (Some(was), None) => crate::map! {"new" => "", "old" => was.clone()},
            (was, is) => {
                let was = was.cloned().unwrap_or_else(|| "".into());
                crate::map! {"old" => was, "new" => is.cloned().unwrap_or_default()}
            }
        };
        ret.set(key, change);
    }
    ret
}

/// A file with a name of its own that only its owner can read; it goes with this value.
pub struct Temporary(String);

impl Temporary {
    /// Makes the file.
    ///
    /// # Errors
    /// Of the file system.
    pub fn new(content: &[u8]) -> std::result::Result<Temporary, Fault> {
        let name = format!("__salt.tmp.{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let text = path.to_string_lossy().into_owned();
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content));
        let file = Temporary(text);
        written.map_err(|e| os_error(&e, &file.0))?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
