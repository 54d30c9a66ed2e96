//! `file.replace`, `file.comment` and `file.uncomment`.

use super::{Step, absolute, change, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::os;
use halite_modules::execution::file::{comment_line, paths, unified_diff};
use halite_wire::{Value, map, pylines};

/// Requires an existing file.
pub(super) fn existing(name: &str) -> Step<()> {
    if paths::exists(name) {
        Ok(())
    } else {
        fail(format!("{name}: file not found"))
    }
}

/// The outcome of an editing function that returned a diff or whether something changed.
pub(super) fn edited(s: &State<'_, '_>, changes: Value, would: &str) -> StateOutcome {
    if !changes.truthy() {
        return StateOutcome::good("No changes needed to be made");
    }
    let outcome = if s.test {
        StateOutcome::would(would)
    } else {
        StateOutcome::good("Changes were made")
    };
    outcome.changes(map! {"diff" => changes})
}

pub(super) fn replace(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "replace")?;
    if !paths::exists(&name) {
        if s.flag("ignore_if_missing") {
            return Ok(StateOutcome::good("No changes needed to be made"));
        }
        existing(&name)?;
    }
    let mut with = s.pick(&[
        "count",
        "flags",
        "bufsize",
        "append_if_not_found",
        "prepend_if_not_found",
        "not_found_content",
        "backup",
        "show_changes",
        "ignore_if_missing",
        "backslash_literal",
        "encoding",
    ]);
    with.set("dry_run", s.test);
    let args = vec![name.into(), s.arg("pattern").clone(), s.arg("repl").clone()];
    let changes = s.salt_with("file.replace", args, with)?;
    Ok(edited(s, changes, "Changes would have been made"))
}

/// A pattern without flags at its start and without anchors.
fn unanchored(regex: &str) -> &str {
    let bare = ["i", "L", "m", "s", "u", "x"]
        .iter()
        .find_map(|flag| regex.strip_prefix(&format!("(?{flag})")))
        .unwrap_or(regex);
    let bare = bare.strip_prefix('^').unwrap_or(bare);
    bare.strip_suffix('$').unwrap_or(bare)
}

fn has(s: &mut State<'_, '_>, name: &str, pattern: String) -> Step<bool> {
    let with = map! {"multiline" => true};
    let found = s.salt_with("file.search", vec![name.into(), pattern.into()], with)?;
    Ok(found.truthy())
}

pub(super) fn comment(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "comment")?;
    existing(&name)?;
    let (regex, sign) = (
        s.text("regex").unwrap_or_default(),
        s.text("char").unwrap_or_default(),
    );
    let bare = unanchored(&regex).to_owned();
    if !has(s, &name, format!("^(?!\\s*{sign})\\s*{bare}"))? {
        if has(s, &name, format!("{sign}{bare}"))? {
            return Ok(StateOutcome::good("Pattern already commented"));
        }
        if s.flag("ignore_missing") {
            return Ok(StateOutcome::good(
                "Pattern not found and ignore_missing set to True",
            ));
        }
        return fail(format!("{bare}: Pattern not found"));
    }
    change_lines(s, &name, &regex, true, format!("{sign}{bare}"))
}

pub(super) fn uncomment(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "uncomment")?;
    existing(&name)?;
    let (regex, sign) = (
        s.text("regex").unwrap_or_default(),
        s.text("char").unwrap_or_default(),
    );
    let bare = regex.trim_start_matches('^').to_owned();
    if !has(s, &name, format!("{sign}[ \t]*{bare}"))? {
        if has(s, &name, format!("^[ \t]*{bare}"))? {
            return Ok(StateOutcome::good("Pattern already uncommented"));
        }
        return fail(format!("{regex}: Pattern not found"));
    }
    change_lines(s, &name, &regex, false, format!("^[ \t]*{bare}"))
}

/// Comments or uncomments lines; `wanted` is the pattern of the result.
fn change_lines(s: &mut State<'_, '_>, name: &str, regex: &str, on: bool, wanted: String) -> Step {
    if s.test {
        return Ok(
            StateOutcome::would(format!("File {name} is set to be updated"))
                .changes(map! {name => "updated"}),
        );
    }
    let before = os::read_text(name)?;
    let backup = match s.arg("backup") {
        value if value.truthy() => halite_modules::execution::python::str(value),
        _ => String::new(),
    };
    let sign = s.text("char").unwrap_or_default();
    comment_line(s.call, name, regex, &sign, on, &backup)?;
    let after = os::read_text(name)?;
    let done = has(s, name, wanted)?;
    let mut outcome = StateOutcome::new(
        Some(done),
        match (on, done) {
            (true, true) => "Commented lines successfully",
            (true, false) => "Expected commented lines not found",
            (false, true) => "Uncommented lines successfully",
            (false, false) => "Expected uncommented lines not found",
        },
    );
    if before != after {
        let diff = unified_diff(&pylines::of_text(&before), &pylines::of_text(&after));
        change(&mut outcome, "diff", diff);
    }
    Ok(outcome)
}
