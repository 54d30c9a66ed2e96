//! Commands as stock's modules run them through `__salt__["cmd.run"]` and its neighbours: the
//! job's return code follows them, the log names them, and no shell reads their words.

use super::{Call, Fault};
use crate::map;
use crate::wire::{Map, Value};

/// What `cmd.run_all` says.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Return code.
    pub retcode: i64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// `cmd.run`: what a program prints, errors included.
///
/// # Errors
/// It cannot be started.
pub fn run(call: &mut Call<'_>, argv: &[&str]) -> Result<String, Fault> {
    text(call, "cmd.run", argv)
}

/// `cmd.run_stdout`.
///
/// # Errors
/// It cannot be started.
pub fn stdout(call: &mut Call<'_>, argv: &[&str]) -> Result<String, Fault> {
    text(call, "cmd.run_stdout", argv)
}

/// `cmd.run_all`.
///
/// # Errors
/// It cannot be started.
pub fn all(call: &mut Call<'_>, argv: &[&str]) -> Result<Done, Fault> {
    all_with(call, argv, Map::new())
}

/// `cmd.run_all` with further options.
///
/// # Errors
/// It cannot be started.
pub fn all_with(call: &mut Call<'_>, argv: &[&str], options: Map) -> Result<Done, Fault> {
    let ret = with(call, "cmd.run_all", argv, options)?;
    let map = ret.as_map().cloned().unwrap_or_default();
    let text = |key| map.str(key).unwrap_or_default().to_owned();
    Ok(Done {
        retcode: map.int("retcode").unwrap_or(1),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// `cmd.retcode`, which does not become the job's.
///
/// # Errors
/// It cannot be started.
pub fn retcode(call: &mut Call<'_>, argv: &[&str]) -> Result<i64, Fault> {
    let options = map! {"ignore_retcode" => true};
    Ok(with(call, "cmd.retcode", argv, options)?
        .as_int()
        .unwrap_or(1))
}

/// A line that the configuration, never an argument, gives to the shell: the `ps` grain.
///
/// # Errors
/// The shell cannot be started.
pub fn line(call: &mut Call<'_>, line: &str) -> Result<String, Fault> {
    call.retcode = 0.into();
    let options = map! {"python_shell" => true};
    let ret = call.salt("cmd.run", vec![line.into()], options)?;
    Ok(ret.as_str().unwrap_or_default().to_owned())
}

fn text(call: &mut Call<'_>, fun: &str, argv: &[&str]) -> Result<String, Fault> {
    let ret = with(call, fun, argv, Map::new())?;
    Ok(ret.as_str().unwrap_or_default().to_owned())
}

fn with(call: &mut Call<'_>, fun: &str, argv: &[&str], mut options: Map) -> Result<Value, Fault> {
    let argv: Vec<Value> = argv.iter().map(|word| (*word).into()).collect();
    options.set("python_shell", false);
    // In stock every command sets the job's return code anew.
    call.retcode = 0.into();
    call.salt(fun, vec![argv.into()], options)
}

/// The check of `salt.utils.decorators.path.which`.
///
/// # Errors
/// `CommandNotFoundError`.
pub fn need(program: &str) -> Result<(), Fault> {
    match super::which(program) {
        Some(_) => Ok(()),
        None => Err(Fault::CommandNotFound(format!(
            "The '{program}' binary was not found in $PATH."
        ))),
    }
}

/// A Python `OSError` of a file: its class and its text.
pub fn os_error(error: &std::io::Error, path: &str) -> Fault {
    let class = match error.kind() {
        std::io::ErrorKind::NotFound => "FileNotFoundError",
        std::io::ErrorKind::PermissionDenied => "PermissionError",
        std::io::ErrorKind::IsADirectory => "IsADirectoryError",
        std::io::ErrorKind::NotADirectory => "NotADirectoryError",
        std::io::ErrorKind::AlreadyExists => "FileExistsError",
        _ => "OSError",
    };
    Fault::raised(class, os_text(error, path))
}

/// `str()` of a Python `OSError` of a file.
pub fn os_text(error: &std::io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(number) => format!(
            "[Errno {number}] {}: {}",
            errno_text(number),
            super::python::repr(&path.into())
        ),
        None => error.to_string(),
    }
}

/// `os.strerror()`.
pub fn errno_text(number: i32) -> &'static str {
    nix::errno::Errno::from_raw(number).desc()
}

/// Whether a function is only to say what it would do (`salt.utils.args.test_mode`).
pub fn test_mode(call: &Call<'_>) -> bool {
    let named = call.bound.kwargs.iter().any(|(key, value)| {
        super::python::str(key).eq_ignore_ascii_case("test") && super::nested::is_true(value)
    });
    named || super::nested::is_true(call.arg("test"))
}

/// The text of a file, or the `OSError` that reading it raises.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read_file(path: &str) -> std::io::Result<String> {
    let octets = std::fs::read(path)?;
    String::from_utf8(octets)
        .map_err(|_| std::io::Error::other(format!("{path} is not valid UTF-8")))
}

/// Replaces what is in a file, keeping its mode and owner; a new file gets the usual mode.
/// Readers see the old content or the new; where the file is a mount of its own, as in a
/// container, it is written in place.
///
/// # Errors
/// It cannot be written.
pub fn write_file(path: &str, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let Ok(old) = std::fs::metadata(&target) else {
        return std::fs::write(&target, text);
    };
    if !old.is_file() {
        return std::fs::write(&target, text);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}~", std::process::id()));
    let temp = target.with_file_name(name);
    // Nobody reads it before it has the mode of the old one.
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temp)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| chown(&temp, Some(old.uid()), Some(old.gid())))
        .and_then(|()| {
            let mode = std::fs::Permissions::from_mode(old.mode() & 0o7777);
            std::fs::set_permissions(&temp, mode)
        })
        .and_then(|()| std::fs::rename(&temp, &target));
    if written.is_ok() {
        return Ok(());
    }
    // Gone already is as good.
    let _ = std::fs::remove_file(&temp);
    std::fs::write(&target, text)
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
}
