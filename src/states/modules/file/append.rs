//! `file.append` and `file.prepend`.

use super::simple::make_parents;
use super::{Step, absolute, change, fail, templates, without_end};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::os;
use halite_modules::execution::file::{paths, touch, unified_diff};
use halite_modules::execution::python;
use halite_target::regex_escape as escape;
use halite_wire::{Map, Value, difflib, map, pylines};

/// The texts of a state: those of its sources, or its own.
fn chunks(s: &mut State<'_, '_>) -> Step<Vec<String>> {
    if let Some(texts) = templates::texts(s)? {
        return Ok(texts);
    }
    Ok(match s.arg("text") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        one => vec![python::str(one)],
    })
}

/// The words of a line. In a line with both kinds of quotes, what begins with a double quote is one word.
fn words(line: &str, quotes: bool) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').filter(|_| quotes);
        let end = match quoted.and_then(|inner| inner.find('"')) {
            Some(end) => end + 2,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// A pattern for the lines of a text, with any white space between their words.
fn spaced(text: &str) -> String {
    const SPACE: &str = "(?:[\\s]+)?";
    let quotes = text.contains('"') && text.contains('\'') && !text.contains("'\\\"");
    let mut pattern = "(?m)^".to_owned();
    for line in pylines::of_text(text) {
        let words: Vec<String> = words(without_end(line), quotes)
            .into_iter()
            .map(escape)
            .collect();
        pattern.push_str(&format!("{SPACE}{}{SPACE}", words.join(SPACE)));
    }
    pattern.push('$');
    pattern
}

/// The lines of the texts that a file lacks. A text of several lines is there or not as a whole.
fn missing(
    s: &mut State<'_, '_>,
    name: &str,
    chunks: &[String],
    any_space: bool,
) -> Step<Vec<String>> {
    let mut lines = Vec::new();
    for chunk in chunks {
        let pattern = if any_space {
            spaced(chunk)
        } else {
            chunk.clone()
        };
        let with = map! {"multiline" => true};
        let found = s.salt_with("file.search", vec![name.into(), pattern.into()], with)?;
        if !found.truthy() {
            lines.extend(stripped(chunk).into_iter().map(str::to_owned));
        }
    }
    Ok(lines)
}

/// The existing file, or the outcome of a test that would create it.
fn start(s: &mut State<'_, '_>, name: &str) -> Step<()> {
    if s.test {
        if paths::is_file(name) || paths::is_dir(name) {
            return Ok(());
        }
        let outcome = StateOutcome::would(format!("File {name} is set to be created"));
        return Err(outcome.changes(map! {"new" => name}).into());
    }
    if s.flag("makedirs") && !paths::is_dir(paths::dirname(name)) {
        make_parents(s, name, &Value::Nil, &Value::Nil, &Value::Nil)?;
    }
    if !paths::exists(name) && paths::is_dir(paths::dirname(name)) {
        touch(name, &Value::Nil, &Value::Nil)?;
    }
    if !paths::exists(name) {
        return fail(format!("{name}: file not found"));
    }
    Ok(())
}

pub(super) fn append(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "append")?;
    let chunks = chunks(s)?;
    start(s, &name)?;
    let any_space = s.flag("ignore_whitespace");
    let old = os::read_text(&name)?;
    let lines = missing(s, &name, &chunks, any_space)?;
    let before: Vec<&str> = stripped(&old);
    let mut after = before.clone();
    after.extend(lines.iter().map(String::as_str));
    let mut outcome = StateOutcome::good(format!("File {name} is in correct state"));
    if lines.is_empty() {
        return Ok(outcome);
    }
    let diff = difflib::unified_lines(&before, &after, "", "").join("\n");
    show(s, &mut outcome, diff);
    if s.test {
        outcome.result = None;
        outcome.comment = format!("File {name} is set to be updated");
        return Ok(outcome);
    }
    halite_modules::execution::file::append_lines(&name, &lines)?;
    outcome.comment = format!("Appended {} lines", lines.len());
    Ok(outcome)
}

fn stripped(text: &str) -> Vec<&str> {
    pylines::of_text(text)
        .into_iter()
        .map(without_end)
        .collect()
}

/// Shows a diff, unless that is not wanted.
fn show(s: &State<'_, '_>, outcome: &mut StateOutcome, diff: String) {
    if s.flag("show_changes") {
        change(outcome, "diff", diff);
    } else {
        change(outcome, "diff", "<show_changes=False>");
    }
}

pub(super) fn prepend(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "prepend")?;
    let chunks = chunks(s)?;
    start(s, &name)?;
    let header = s.flag("header");
    let old = os::read_text(&name)?;
    let mut lines: Vec<String> = if header {
        let all = chunks.iter().flat_map(|chunk| stripped(chunk));
        all.map(str::to_owned).collect()
    } else {
        missing(s, &name, &chunks, true)?
    };
    if header && !s.test {
        let head = stripped(&old);
        if head.len() >= lines.len() && head[..lines.len()] == lines[..] {
            lines.clear();
        }
    }
    let mut outcome = StateOutcome::good(format!("File {name} is in correct state"));
    if lines.is_empty() {
        return Ok(outcome);
    }
    let new: String = lines
        .iter()
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        + &old;
    let diff = unified_diff(&pylines::of_text(&old), &pylines::of_text(&new));
    show(s, &mut outcome, diff);
    if s.test {
        outcome.result = None;
        outcome.comment = format!("File {name} is set to be updated");
        return Ok(outcome);
    }
    let with: Map = map! {"args" => lines.clone()};
    s.salt_with("file.prepend", vec![name.as_str().into()], with)?;
    outcome.comment = format!("Prepended {} lines", lines.len());
    Ok(outcome)
}
