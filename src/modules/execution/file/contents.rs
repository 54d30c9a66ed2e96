//! Reading and writing file contents.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::pattern;
use halite_target::fnmatch;
use halite_wire::{Value, pylines};
use std::fs::{self, FileTimes, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, SystemTime};

/// Window of `contains_glob` in characters, and its step (`salt/utils/filebuffer.py BufferedReader`).
const WINDOW: usize = 256 * 1024;
const STEP: usize = 32 * 1024;
/// Maximum bytes returned by `file.seek_read`.
const MOST_READ: i64 = 1 << 30;

fn path(call: &Call<'_>) -> String {
    expanduser(&call.text("path").unwrap_or_default())
}

pub fn read(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    if call.arg("binary") == &Value::Bool(true) {
        Ok(Value::Bytes(os::read(&path)?))
    } else {
        Ok(os::read_text(&path)?.into())
    }
}

/// The text of a file; `None` if it is missing or unreadable.
fn searched(call: &Call<'_>) -> Result<Option<String>> {
    let path = path(call);
    if !paths::exists(&path) {
        return Ok(None);
    }
    match os::read_text(&path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if os::is_os_error(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

pub fn contains(call: &mut Call<'_>) -> Result {
    let wanted = python::str(call.arg("text"));
    let wanted = wanted.trim_matches(halite_wire::pytext::is_space);
    let text = searched(call)?.unwrap_or_default();
    Ok((!text.is_empty() && text.contains(wanted)).into())
}

pub fn contains_regex(call: &mut Call<'_>) -> Result {
    let strip = call.text("lchar").unwrap_or_default();
    let Some(text) = searched(call)? else {
        return Ok(false.into());
    };
    if text.is_empty() {
        return Ok(false.into());
    }
    let regex = pattern::text(&python::str(call.arg("regex")), 0)?;
    let found = pylines::of_file(&text)
        .into_iter()
        .any(|line| regex.found_in(line.trim_start_matches(|c| strip.contains(c))));
    Ok(found.into())
}

pub fn contains_glob(call: &mut Call<'_>) -> Result {
    let glob = python::str(call.arg("glob_expr"));
    let text = searched(call)?.unwrap_or_default();
    let chars: Vec<char> = text.chars().collect();
    let mut from = 0;
    while from < chars.len() {
        let end = chars.len().min(from + WINDOW);
        let window: String = chars[from..end].iter().collect();
        if fnmatch(&window, &glob) {
            return Ok(true.into());
        }
        if end == chars.len() {
            break;
        }
        from += STEP;
    }
    Ok(false.into())
}

/// The lines of a call: positional arguments, or the keyword `args`.
fn given_lines(call: &Call<'_>) -> Vec<String> {
    let lines = match call.bound.kwargs.get("args") {
        None => call.bound.varargs.clone(),
        Some(Value::Array(lines)) => lines.clone(),
        Some(other) => vec![other.clone()],
    };
    lines.iter().map(python::str).collect()
}

/// Appends lines to an existing file (`file.append`).
///
/// # Errors
/// System errors.
pub fn append_lines(path: &str, lines: &[String]) -> Result<()> {
    let bad = |e: std::io::Error| os::fault(&e, path);
    let mut file = os::open(path, OpenOptions::new().read(true).write(true)).map_err(bad)?;
    let mut text = String::new();
    if file.seek(SeekFrom::End(-1)).is_ok() {
        let mut last = [0];
        file.read_exact(&mut last).map_err(bad)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    lines.iter().for_each(|l| text.extend([l.as_str(), "\n"]));
    file.seek(SeekFrom::End(0)).map_err(bad)?;
    file.write_all(text.as_bytes()).map_err(bad)
}

pub fn append(call: &mut Call<'_>) -> Result {
    let (path, lines) = (path(call), given_lines(call));
    append_lines(&path, &lines)?;
    Ok(format!("Wrote {} lines to \"{path}\"", lines.len()).into())
}

pub fn prepend(call: &mut Call<'_>) -> Result {
    let (path, lines) = (path(call), given_lines(call));
    let old = match os::read_text(&path) {
        Ok(text) => text,
        Err(e) if os::is_os_error(&e) => String::new(),
        Err(e) => return Err(e),
    };
    let new: String = lines.iter().map(|l| format!("{l}\n")).collect();
    os::overwrite(&path, format!("{new}{old}").as_bytes())?;
    Ok(format!("Prepended {} lines to \"{path}\"", lines.len()).into())
}

pub fn write(call: &mut Call<'_>) -> Result {
    let (path, lines) = (path(call), given_lines(call));
    let new: String = lines.iter().map(|l| format!("{l}\n")).collect();
    os::overwrite(&path, new.as_bytes())?;
    Ok(format!("Wrote {} lines to \"{path}\"", lines.len()).into())
}

/// A time of `file.touch`.
fn touch_time(value: &Value) -> Result<Option<SystemTime>> {
    let not_a_number = || os::invocation("atime and mtime must be integers");
    let seconds = match value {
        Value::Nil => return Ok(None),
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Str(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().unwrap_or(0.0)
        }
        _ => return not_a_number(),
    };
    let length = Duration::try_from_secs_f64(seconds.abs()).ok();
    let moment = length.and_then(|d| {
        if seconds < 0.0 {
            SystemTime::UNIX_EPOCH.checked_sub(d)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(d)
        }
    });
    match moment {
        Some(moment) => Ok(Some(moment)),
        None => Err(CallError::raised(
            "OverflowError",
            "timestamp out of range for platform time_t",
        )),
    }
}

/// Creates a file if it is missing and sets its times (`file.touch`).
///
/// # Errors
/// `CommandExecutionError` with the system's message.
pub fn touch(name: &str, atime: &Value, mtime: &Value) -> Result<bool> {
    let name = expanduser(name);
    let bad = |e: std::io::Error| CallError::Command(os::strerror(&e));
    if !paths::exists(&name) {
        os::open(&name, OpenOptions::new().append(true).create(true)).map_err(bad)?;
    }
    let now = SystemTime::now();
    let times = FileTimes::new()
        .set_accessed(touch_time(atime)?.unwrap_or(now))
        .set_modified(touch_time(mtime)?.unwrap_or(now));
    halite_sys::safe_open::open_finite(name.as_ref())
        .and_then(|file| file.set_times(times))
        .map_err(bad)?;
    Ok(paths::exists(&name))
}

pub fn touch_function(call: &mut Call<'_>) -> Result {
    let name = call.text("name").unwrap_or_default();
    Ok(touch(&name, call.arg("atime"), call.arg("mtime"))?.into())
}

pub fn seek_read(call: &mut Call<'_>) -> Result {
    let path = path(call);
    let mut file = fs::File::open(&path).map_err(|e| os::fault(&e, &path))?;
    let offset = python::int(call.arg("offset"))?;
    let size = python::int(call.arg("size"))?;
    let invalid = || os::bare_fault(&std::io::Error::from_raw_os_error(22));
    let offset = u64::try_from(offset).map_err(|_| invalid())?;
    file.seek(SeekFrom::Start(offset))
        .map_err(|e| os::bare_fault(&e))?;
    let size = u64::try_from(size.min(MOST_READ)).map_err(|_| invalid())?;
    let mut data = Vec::new();
    file.take(size)
        .read_to_end(&mut data)
        .map_err(|e| os::bare_fault(&e))?;
    Ok(Value::Bytes(data))
}

pub fn seek_write(call: &mut Call<'_>) -> Result {
    let path = path(call);
    let mut file =
        os::open(&path, OpenOptions::new().write(true)).map_err(|e| os::fault(&e, &path))?;
    let offset = u64::try_from(python::int(call.arg("offset"))?)
        .map_err(|_| os::bare_fault(&std::io::Error::from_raw_os_error(22)))?;
    let Value::Bytes(data) = call.arg("data") else {
        return Err(CallError::Type(format!(
            "a bytes-like object is required, not '{}'",
            python::type_name(call.arg("data"))
        )));
    };
    file.seek(SeekFrom::Start(offset))
        .and_then(|_| file.write_all(data))
        .and_then(|()| file.sync_all())
        .map_err(|e| os::bare_fault(&e))?;
    Ok(data.len().into())
}

pub fn truncate(call: &mut Call<'_>) -> Result {
    let path = path(call);
    let file = os::open(&path, OpenOptions::new().read(true).write(true))
        .map_err(|e| os::fault(&e, &path))?;
    let length = u64::try_from(python::int(call.arg("length"))?)
        .map_err(|_| os::bare_fault(&std::io::Error::from_raw_os_error(22)))?;
    file.set_len(length).map_err(|e| os::bare_fault(&e))?;
    Ok(Value::Nil)
}
