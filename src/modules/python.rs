//! Values as printed by Python, for texts that stock Salt creates with `str()`, `repr()` and `type()`.

use crate::context::CallError;
use halite_wire::{Value, pytext};

pub use pytext::{repr, repr_map, repr_tuple};

/// `str(value)`.
pub fn str(value: &Value) -> String {
    pytext::str(value).into_owned()
}

/// `str(type(value))`.
pub fn class(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<class 'NoneType'>",
        Value::Bool(_) => "<class 'bool'>",
        Value::Int(_) | Value::UInt(_) => "<class 'int'>",
        Value::Float(_) => "<class 'float'>",
        Value::Str(_) => "<class 'str'>",
        Value::Bytes(_) => "<class 'bytes'>",
        Value::Array(_) => "<class 'list'>",
        Value::Map(_) => "<class 'dict'>",
    }
}

/// `int(value)`, with the text of Python's `ValueError` or `TypeError`.
pub fn int(value: &Value) -> Result<i64, CallError> {
    let bad = |text: String| CallError::raised("ValueError", text);
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        Value::Float(f) if f.is_finite() => Ok(f.trunc() as i64),
        Value::Str(s) => s.trim().replace('_', "").parse().map_err(|_| {
            bad(format!(
                "invalid literal for int() with base 10: {}",
                repr(value)
            ))
        }),
        other => Err(CallError::Type(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            type_name(other)
        ))),
    }
}

/// `type(value).__name__`.
pub fn type_name(value: &Value) -> &'static str {
    class(value)
        .trim_start_matches("<class '")
        .trim_end_matches("'>")
}

/// The Python exception for a system error on a path.
pub fn os_error(error: &std::io::Error, path: &str) -> CallError {
    use std::io::ErrorKind::*;
    let class = match error.kind() {
        NotFound => "FileNotFoundError",
        PermissionDenied => "PermissionError",
        IsADirectory => "IsADirectoryError",
        NotADirectory => "NotADirectoryError",
        AlreadyExists => "FileExistsError",
        _ => "OSError",
    };
    CallError::raised(class, os_text(error, path))
}

/// `str()` of Python's `OSError` on a path.
pub fn os_text(error: &std::io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(number) => format!(
            "[Errno {number}] {}: {}",
            errno_text(number),
            repr(&path.into())
        ),
        None => error.to_string(),
    }
}

/// `os.strerror()`.
pub fn errno_text(number: i32) -> &'static str {
    nix::errno::Errno::from_raw(number).desc()
}

/// `os.path.expanduser`: a leading `~` or `~user`; unknown users are left alone.
pub fn expand_user(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else {
        return path.to_owned();
    };
    let (name, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let home = |user: nix::unistd::User| user.dir.to_string_lossy().into_owned();
    let own = || {
        nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten()
            .map(home)
    };
    let found = match name {
        "" => std::env::var("HOME").ok().or_else(own),
        name => nix::unistd::User::from_name(name).ok().flatten().map(home),
    };
    match found {
        Some(dir) => {
            let whole = format!("{}{tail}", dir.trim_end_matches('/'));
            if whole.is_empty() {
                "/".to_owned()
            } else {
                whole
            }
        }
        None => path.to_owned(),
    }
}
