//! `file.comment`, `file.uncomment` and `file.comment_line`.

use super::super::declare::Result;
use super::super::{Call, python};
use super::os;
use super::paths::{self, expanduser};
use super::perms::{Perms, check_perms};
use super::replace::{copy, suffix};
use super::{diff, pattern, text};
use halite_wire::pylines;

/// Comments or uncomments matching lines; returns a diff of them, or false.
///
/// # Errors
/// The file or the pattern is unusable.
pub fn comment_line(
    call: &mut Call<'_>,
    path: &str,
    regex: &str,
    sign: &str,
    on: bool,
    backup: &str,
) -> Result {
    let bare = regex.trim_start_matches('^').trim_end_matches('$');
    let end = if regex.ends_with('$') { "$" } else { "" };
    let start = if regex.starts_with('^') { "^" } else { "" };
    let regex = if on {
        format!("{start}({bare}){end}")
    } else {
        format!("^{sign}\\s*({bare}){end}")
    };
    let path = paths::realpath(&expanduser(path));
    if !paths::is_file(&path) {
        return os::invocation(format!("File not found: {path}"));
    }
    if !text::is_text(&path) {
        return os::invocation(format!(
            "Cannot perform string replacements on a binary file: {path}"
        ));
    }
    let regex = pattern::at_start(&regex, 0)?;
    let data = os::read(&path)
        .or_else(|e| os::command(format!("Unable to open file '{path}'. Exception: {e}")))?;
    let (mut old, mut new, mut all) = (Vec::new(), Vec::new(), String::new());
    for line in pylines::split_bytes(&data) {
        let line = os::decoded(line.to_vec())?;
        if regex.captures(&line, 0).is_none() {
            all.push_str(&line);
            continue;
        }
        let changed = if on {
            format!("{sign}{line}")
        } else {
            line.trim_start_matches(|c| sign.contains(c)).to_owned()
        };
        all.push_str(&changed);
        old.push(line);
        new.push(changed);
    }
    if old.is_empty() {
        return Ok(false.into());
    }
    let before = Perms::read(&path)?;
    let copy = copy(&path, false)?;
    os::overwrite(&path, all.as_bytes()).or_else(|e| os::command(format!("Exception: {e}")))?;
    if !backup.is_empty() {
        let name = format!("{path}{backup}");
        if let Err(e) = os::move_to(&copy.path(), &name) {
            return os::command(format!(
                "Unable to move the temp file '{path}' to the backup file '{}'. Exception: {e}",
                copy.path()
            ));
        }
    }
    check_perms(call, &path, None, &before)?;
    Ok(diff::unified(&old, &new).into())
}

fn call_it(call: &mut Call<'_>, on: bool) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let (path, regex) = (text("path"), text("regex"));
    let (sign, backup) = (python::str(call.arg("char")), suffix(call.arg("backup")));
    comment_line(call, &path, &regex, &sign, on, &backup)
}

pub fn comment_function(call: &mut Call<'_>) -> Result {
    call_it(call, true)
}

pub fn uncomment_function(call: &mut Call<'_>) -> Result {
    call_it(call, false)
}

pub fn comment_line_function(call: &mut Call<'_>) -> Result {
    let on = call.flag("cmnt");
    call_it(call, on)
}
