//! `file.line`: inserts, deletes or replaces one line.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::{diff, pattern, perms, replace};
use halite_wire::{Value, pylines, pytext};

/// The arguments of `file.line`.
#[derive(Clone, Debug, Default)]
pub struct LineArgs {
    /// The file.
    pub path: String,
    /// The line.
    pub content: Option<String>,
    /// Pattern of the line to replace or delete.
    pub matching: Option<String>,
    /// `insert`, `ensure`, `delete` or `replace`.
    pub mode: Option<String>,
    /// `start` or `end`.
    pub location: Option<String>,
    /// Pattern of the following line.
    pub before: Option<String>,
    /// Pattern of the preceding line.
    pub after: Option<String>,
    /// Return a diff.
    pub show_changes: bool,
    /// Back up the file under a name with the time.
    pub backup: bool,
    /// A missing file is no error.
    pub quiet: bool,
    /// Indent the line like its neighbour.
    pub indent: bool,
}

fn trimmed_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// The line end of a line (`_get_eol`).
fn eol(line: &str) -> &str {
    ["\r\n", "\n", "\r"]
        .into_iter()
        .find(|end| line.ends_with(end))
        .unwrap_or("")
}

/// A line with the line end of another one (`_set_line_eol`).
fn with_eol(src: &str, line: &str) -> String {
    let end = match eol(src) {
        "" => "\n",
        end => end,
    };
    format!("{}{end}", line.trim_end_matches(pytext::is_space))
}

/// Lines that match a pattern or contain it as plain text (`_regex_to_static`).
fn matching(lines: &[String], regex: Option<&str>) -> Result<Option<Vec<String>>> {
    let Some(regex) = regex.filter(|r| !r.is_empty() && !lines.is_empty()) else {
        return Ok(None);
    };
    let compiled = match pattern::text(regex, pattern::DOTALL) {
        Ok(compiled) => compiled,
        Err(e) => return os::command(format!("{e}: '{regex}'")),
    };
    let fits = |line: &&String| compiled.found_in(line) || line.contains(regex);
    Ok(Some(lines.iter().filter(fits).cloned().collect()))
}

/// Requires exactly one matching line (`_assert_occurrence`).
fn once(found: &[String], target: &str) -> Result<()> {
    let what = match found.len() {
        0 => "less than",
        1 => return Ok(()),
        _ => "more than",
    };
    os::command(format!(
        "Found {what} expected occurrences in \"{target}\" expression"
    ))
}

struct Edit {
    lines: Vec<String>,
    content: String,
    indent: bool,
}

impl Edit {
    /// The content, indented like the line at an index; Python's index -1 is the last line.
    fn indented(&self, as_at: Option<usize>) -> String {
        let src = match as_at {
            Some(at) => self.lines.get(at),
            None => self.lines.last(),
        };
        let src = src.map_or("", String::as_str);
        if !self.indent {
            return self.content.clone();
        }
        let indent: String = src
            .chars()
            .take_while(|c| matches!(c, '\t' | ' '))
            .collect();
        let bare = self.content.trim_start_matches(pytext::is_space);
        format!("{indent}{bare}")
    }

    fn insert_at(&mut self, at: usize, like: Option<usize>) {
        let line = self.indented(like);
        self.lines.insert(at.min(self.lines.len()), line);
    }

    fn index(&self, line: &str) -> usize {
        self.lines.iter().position(|l| l == line).unwrap_or(0)
    }

    fn is_content(&self, line: &str) -> bool {
        trimmed_end(line) == trimmed_end(&self.content)
    }

    fn at_location(&mut self, location: &str) {
        match (location, self.lines.first().cloned()) {
            ("end", Some(_)) => {
                let line = self.indented(None);
                self.lines.push(line);
            }
            ("end", None) => self.lines.push(self.content.clone()),
            ("start", Some(first)) => {
                let line = with_eol(&first, &self.content);
                self.lines.insert(0, line);
            }
            ("start", None) => self.lines.push(format!("{}\n", self.content)),
            _ => {}
        }
    }

    fn insert(&mut self, before: Option<&[String]>, after: Option<&[String]>) -> Result<()> {
        match (non_empty(before), non_empty(after)) {
            (Some(before), Some(after)) => {
                once(before, "before")?;
                once(after, "after")?;
                let last = self.index(&before[0]);
                self.insert_at(last, Some(last));
            }
            (None, Some(after)) => {
                once(after, "after")?;
                let at = self.index(&after[0]);
                let there = self.lines.get(at + 1).is_some_and(|l| self.is_content(l));
                if !there {
                    self.insert_at(at + 1, Some(at));
                }
            }
            (Some(before), None) => {
                once(before, "before")?;
                let at = self.index(&before[0]);
                let previous = at.checked_sub(1).unwrap_or(self.lines.len() - 1);
                if !self.is_content(&self.lines[previous]) {
                    self.insert_at(at, Some(at));
                }
            }
            (None, None) => return os::command("Neither before or after was found in file"),
        }
        Ok(())
    }

    fn ensure(&mut self, before: Option<&[String]>, after: Option<&[String]>) -> Result<()> {
        match (non_empty(before), non_empty(after)) {
            (Some(before), Some(after)) => {
                once(after, "after")?;
                once(before, "before")?;
                let (first, last) = (self.index(&after[0]), self.index(&before[0]));
                let bare = |l: &String| l.trim_start_matches(pytext::is_space) == self.content;
                if self.lines.iter().any(bare) {
                    return Ok(());
                }
                if first + 1 == last {
                    self.insert_at(last, Some(first));
                } else if first + 2 == last {
                    self.lines[first + 1] = self.indented(Some(first));
                } else {
                    return os::command(
                        "Found more than one line between boundaries \"before\" and \"after\".",
                    );
                }
            }
            (Some(before), None) => {
                once(before, "before")?;
                let at = self.index(&before[0]);
                if at == 0 || !self.is_content(&self.lines[at - 1]) {
                    self.insert_at(at, at.checked_sub(1));
                }
            }
            (None, Some(after)) => {
                once(after, "after")?;
                let at = self.index(&after[0]);
                let there = self.lines.get(at + 1).is_some_and(|l| self.is_content(l));
                if !there {
                    self.insert_at(at + 1, Some(at));
                }
            }
            (None, None) => {
                return os::command(
                    "Wrong conditions? Unable to ensure line without knowing where to put it before \
                     and/or after.",
                );
            }
        }
        Ok(())
    }
}

fn non_empty(found: Option<&[String]>) -> Option<&[String]> {
    found.filter(|f| !f.is_empty())
}

/// The lines after the change (`_set_line`).
fn changed_lines(
    lines: Vec<String>,
    l: &LineArgs,
    mode: &str,
    matched: Option<&str>,
) -> Result<Vec<String>> {
    let after = matching(&lines, l.after.as_deref())?;
    let before = matching(&lines, l.before.as_deref())?;
    let found = matching(&lines, matched)?.and_then(|f| f.into_iter().next());
    let mut edit = Edit {
        lines,
        content: l.content.clone().unwrap_or_default(),
        indent: l.indent,
    };
    match (mode, found) {
        ("delete", Some(found)) => edit.lines.retain(|line| *line != found),
        ("replace", Some(found)) => {
            let at = edit.index(&found);
            edit.lines[at] = edit.indented(Some(at));
        }
        ("delete" | "replace", None) => {}
        ("insert", _) => {
            if before.is_none() && after.is_none() && l.location.is_none() {
                return os::command(
                    "On insert either \"location\" or \"before/after\" conditions are required.",
                );
            }
            match l.location.as_deref().filter(|l| !l.is_empty()) {
                Some(location) => edit.at_location(location),
                None => edit.insert(before.as_deref(), after.as_deref())?,
            }
        }
        _ => edit.ensure(before.as_deref(), after.as_deref())?,
    }
    Ok(edit.lines)
}

/// Adds missing line ends to all lines but the last.
fn end_lines(lines: &mut Vec<String>) {
    for at in 0..lines.len() {
        if eol(&lines[at]).is_empty() && at + 1 < lines.len() {
            let like = match at {
                0 | 1 => 1,
                at => at - 1,
            };
            lines[at] = with_eol(&lines[like], &lines[at]);
        }
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
}

/// Changes a line; returns a diff, or whether something changed.
///
/// # Errors
/// The file, the mode or the position is invalid.
pub fn line(call: &mut Call<'_>, l: &LineArgs) -> Result {
    let path = paths::realpath(&expanduser(&l.path));
    if !paths::is_file(&path) {
        return if l.quiet {
            Ok(false.into())
        } else {
            os::command(format!("File \"{path}\" does not exists or is not a file."))
        };
    }
    let Some(mode) = l.mode.as_deref().map(str::to_lowercase) else {
        return os::command("Mode was not defined. How to process the file?");
    };
    if !["insert", "ensure", "delete", "replace"].contains(&mode.as_str()) {
        return os::command(format!("Unknown mode: \"{mode}\""));
    }
    if mode != "delete" && l.content.is_none() {
        return os::command("Content can only be empty if mode is \"delete\"");
    }
    let no_place = l.before.is_none() && l.after.is_none();
    let matched = match l.matching.as_deref().filter(|m| !m.is_empty()) {
        None if no_place => l.content.as_deref(),
        given => given,
    };
    let text = os::read_text(&path)?;
    let mut lines: Vec<String> = pylines::of_file(&text)
        .into_iter()
        .map(Into::into)
        .collect();
    if lines.last().is_some_and(|last| !eol(last).is_empty()) {
        lines.push(String::new());
    }
    lines = changed_lines(lines, l, &mode, matched)?;
    end_lines(&mut lines);
    let new = lines.concat();
    let changed = new != text;
    let dry = perms::is_test(call);
    if changed && l.backup && !dry {
        let stamp = jiff::Zoned::now().strftime("%Y-%m-%d-%H-%M-%S").to_string();
        let copied = replace::copy(&path, true)
            .and_then(|copy| os::move_to(&copy.path(), &format!("{path}.{stamp}")));
        if let Err(e) = copied {
            return os::command(format!(
                "Unable to create the backup file of {path}. Exception: {e}"
            ));
        }
    }
    let old: Vec<String> = pylines::of_text(&text)
        .into_iter()
        .map(Into::into)
        .collect();
    if changed && !dry {
        os::write_atomic(&path, new.as_bytes())?;
    }
    if changed && l.show_changes {
        let shown = diff::unified(&old, &lines);
        if !shown.is_empty() {
            return Ok(shown.into());
        }
    }
    Ok(changed.into())
}

pub fn line_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name);
    let mode = match call.arg("mode") {
        Value::Nil | Value::Str(_) => text("mode"),
        other => {
            return Err(CallError::raised(
                "AttributeError",
                format!(
                    "'{}' object has no attribute 'lower'",
                    python::type_name(other)
                ),
            ));
        }
    };
    let request = LineArgs {
        path: text("path").unwrap_or_default(),
        content: text("content"),
        matching: text("match"),
        mode,
        location: text("location"),
        before: text("before"),
        after: text("after"),
        show_changes: call.flag("show_changes"),
        backup: call.flag("backup"),
        quiet: call.flag("quiet"),
        indent: call.flag("indent"),
    };
    line(call, &request)
}
