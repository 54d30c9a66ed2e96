//! Python's regular expressions on files: flags, bytes and errors.

use super::super::{CallError, python};
use super::os;
use crate::execution::declare::Result;
use halite_target::{PyRegex, RegexFlags};
use halite_wire::{Value, pylines};

/// `re.IGNORECASE`.
pub const IGNORECASE: i64 = 2;
const LOCALE: i64 = 4;
/// `re.MULTILINE`.
pub const MULTILINE: i64 = 8;
/// `re.DOTALL`.
pub const DOTALL: i64 = 16;
const UNICODE: i64 = 32;
const VERBOSE: i64 = 64;
const ASCII: i64 = 256;

/// A flag by its Python name, long or short.
fn flag(name: &str) -> Option<i64> {
    Some(match name.to_uppercase().as_str() {
        "T" | "TEMPLATE" => 1,
        "I" | "IGNORECASE" => IGNORECASE,
        "L" | "LOCALE" => LOCALE,
        "M" | "MULTILINE" => MULTILINE,
        "S" | "DOTALL" => DOTALL,
        "U" | "UNICODE" => UNICODE,
        "X" | "VERBOSE" => VERBOSE,
        "DEBUG" => 128,
        "A" | "ASCII" => ASCII,
        _ => return None,
    })
}

/// Flags as a number, a name or a list of names (`_get_flags`).
///
/// # Errors
/// `CommandExecutionError` for an unknown name.
pub fn flags(value: &Value) -> Result<i64> {
    let names = match value {
        Value::Int(_) | Value::Bool(_) => return python::int(value),
        Value::Str(name) => vec![Value::from(name.as_str())],
        Value::Array(names) => names.clone(),
        other => {
            return os::command(format!(
                "Invalid re flags: \"{}\", must be given either as a single flag string, a list of strings, \
                 as an integer, or as an re flag",
                python::str(other)
            ));
        }
    };
    let mut bits = 0;
    for name in &names {
        let text = python::str(name);
        let Some(bit) = flag(&text) else {
            return os::command(format!("Invalid re flag given: {text}"));
        };
        bits |= bit;
    }
    Ok(bits)
}

fn mode(bits: i64, anchored: bool, ascii: bool) -> RegexFlags {
    RegexFlags {
        ignore_case: bits & IGNORECASE != 0,
        multiline: bits & MULTILINE != 0,
        dot_all: bits & DOTALL != 0,
        verbose: bits & VERBOSE != 0,
        ascii: ascii || bits & ASCII != 0,
        anchored,
        exact: true,
    }
}

fn compiled(pattern: &str, mode: RegexFlags) -> Result<PyRegex> {
    PyRegex::with_flags(pattern, mode).map_err(error)
}

/// `re.error`.
pub fn error(why: String) -> CallError {
    CallError::raised("re.error", why)
}

/// An invalid replacement template.
pub fn template_error(why: String) -> CallError {
    if why.starts_with("unknown group name") {
        CallError::raised("IndexError", why)
    } else {
        error(why)
    }
}

/// Compiles a pattern for text.
///
/// # Errors
/// `re.error`, or invalid flags.
pub fn text(pattern: &str, bits: i64) -> Result<PyRegex> {
    if bits & LOCALE != 0 {
        return Err(CallError::raised(
            "ValueError",
            "cannot use LOCALE flag with a str pattern",
        ));
    }
    if bits & ASCII != 0 && bits & UNICODE != 0 {
        return Err(CallError::raised(
            "ValueError",
            "ASCII and UNICODE flags are incompatible",
        ));
    }
    compiled(pattern, mode(bits, false, false))
}

/// Compiles a pattern that must match at the start, like `re.match`.
///
/// # Errors
/// `re.error`.
pub fn at_start(pattern: &str, bits: i64) -> Result<PyRegex> {
    compiled(pattern, mode(bits, true, false))
}

/// Compiles a pattern for bytes, searched as Latin-1 text with ASCII-only character classes as in Python.
///
/// # Errors
/// `re.error`, or invalid flags.
pub fn to_bytes(pattern: &str, bits: i64) -> Result<PyRegex> {
    if bits & UNICODE != 0 {
        return Err(CallError::raised(
            "ValueError",
            "cannot use UNICODE flag with a bytes pattern",
        ));
    }
    let pattern = pylines::latin1(pattern.as_bytes());
    compiled(&pattern, mode(bits, false, true))
}
