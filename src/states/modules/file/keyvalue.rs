//! `file.keyvalue`.

use super::{Step, change, fail, named};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::{os, paths};
use halite_modules::execution::python;
use halite_wire::{Value, pylines};

/// How lines are recognized and written, and what has changed.
struct Lines {
    pairs: Vec<(String, Value)>,
    separator: String,
    /// Characters to remove from the start of lines.
    uncomment: String,
    any_key_case: bool,
    any_value_case: bool,
    /// How often a key may be there.
    count: i64,
    prune: bool,
    diff: Vec<String>,
    changed: usize,
    deleted: usize,
}

pub(super) fn keyvalue(s: &mut State<'_, '_>) -> Step {
    let name = named(s, "keyvalue")?;
    let pairs = pairs(s)?;
    if !paths::is_file(&name) && !s.flag("create_if_missing") {
        let text = format!("unable to open {name}");
        return if s.flag("ignore_if_missing") {
            Ok(StateOutcome::good(text))
        } else {
            fail(text)
        };
    }
    let text = match paths::is_file(&name) {
        true => os::read_text(&name)?,
        false => String::new(),
    };
    let mut lines = Lines {
        pairs,
        separator: s.text("separator").unwrap_or_default(),
        uncomment: s.text("uncomment").unwrap_or_default(),
        any_key_case: s.flag("key_ignore_case"),
        any_value_case: s.flag("value_ignore_case"),
        count: python::int(s.arg("count"))?,
        prune: s.flag("prune"),
        diff: Vec::new(),
        changed: 0,
        deleted: 0,
    };
    let (append, prepend) = (
        s.flag("append_if_not_found"),
        s.flag("prepend_if_not_found"),
    );
    let append = append || s.flag("create_if_missing") && !prepend && !paths::is_file(&name);
    let new = lines.edited(&text, append, prepend);
    if lines.changed == 0 && lines.deleted == 0 {
        return Ok(StateOutcome::good(""));
    }
    let mut outcome = StateOutcome::good(format!(
        "Changed {}, deleted {} lines",
        lines.changed, lines.deleted
    ));
    let show = s.flag("show_changes");
    if show {
        change(&mut outcome, "diff", lines.diff.concat());
    }
    if s.test {
        outcome.result = None;
        outcome.comment = format!(
            "File {name} is set to be changed ({} lines modified, {} deleted)",
            lines.changed, lines.deleted
        );
        if show {
            outcome.comment.push_str("\nPredicted diff:\n");
            for line in &lines.diff {
                outcome.comment.push_str(&format!("\r\t\t{line}"));
            }
        }
        return Ok(outcome);
    }
    os::write_atomic(&name, new.as_bytes())?;
    Ok(outcome)
}

/// The keys and values of a state.
fn pairs(s: &State<'_, '_>) -> Step<Vec<(String, Value)>> {
    let (key, value, map) = (s.arg("key"), s.arg("value"), s.arg("key_values"));
    if !key.is_nil() && !value.is_nil() {
        if map.truthy() {
            return fail("file.keyvalue can not combine key_values with key and value");
        }
        return Ok(vec![(python::str(key), value.clone())]);
    }
    if !map.truthy() {
        return fail("file.keyvalue key and value not supplied and key_values is empty");
    }
    match map.as_map() {
        Some(map) => {
            let pairs = map.iter().map(|(k, v)| (python::str(k), v.clone()));
            Ok(pairs.collect())
        }
        None => fail("file.keyvalue key and value not supplied and key_values is not a dictionary"),
    }
}

/// ` (from int type)` after a value that is no text.
fn note(value: &Value) -> String {
    match value {
        Value::Str(_) => String::new(),
        other => format!(" (from {} type)", python::type_name(other)),
    }
}

impl Lines {
    fn line(&self, key: &str, value: &Value) -> String {
        format!("{key}{}{}", self.separator, python::str(value))
    }

    fn same(any_case: bool, a: &str, b: &str) -> bool {
        a == b || any_case && a.to_lowercase() == b.to_lowercase()
    }

    /// The text with the keys set.
    fn edited(&mut self, text: &str, append: bool, prepend: bool) -> String {
        let mut found = vec![0_i64; self.pairs.len()];
        let mut out = String::new();
        for whole in pylines::of_text(text) {
            let old = whole.trim_end_matches(['\n', '\r']);
            let bare = old.trim_start_matches(|c| self.uncomment.contains(c));
            let parts = bare.split_once(self.separator.as_str());
            let at = parts.and_then(|(key, _)| {
                let fits =
                    |(wanted, _): &(String, Value)| Self::same(self.any_key_case, wanted, key);
                self.pairs.iter().position(fits)
            });
            let (Some((key, value)), Some(at)) = (parts, at) else {
                if self.prune {
                    self.diff.push(format!("- {old}\n"));
                    self.deleted += 1;
                } else {
                    out.push_str(whole);
                }
                continue;
            };
            found[at] += 1;
            let wanted = &self.pairs[at].1;
            if found[at] > self.count {
                self.diff.push(format!("- {old}\n"));
                self.changed += 1;
            } else if bare.len() == old.len()
                && Self::same(self.any_value_case, &python::str(wanted), value)
            {
                out.push_str(whole);
            } else {
                let new = self.line(key, wanted);
                self.diff.push(format!("- {old}\n"));
                self.diff.push(format!("+ {new}{}\n", note(wanted)));
                out.push_str(&format!("{new}\n"));
                self.changed += 1;
            }
        }
        let missing: Vec<String> = self
            .pairs
            .iter()
            .zip(&found)
            .filter(|(_, found)| **found == 0)
            .map(|((key, value), _)| self.line(key, value))
            .collect();
        if missing.is_empty() || !(append || prepend) {
            return out;
        }
        self.changed += missing.len();
        let added: String = missing.iter().map(|line| format!("{line}\n")).collect();
        if prepend && !append {
            self.diff.push("  <SOF>\n".to_owned());
            self.diff
                .extend(missing.iter().map(|line| format!("+ {line}\n")));
            return added + &out;
        }
        self.diff.push("- <EOF>\n".to_owned());
        self.diff
            .extend(missing.iter().map(|line| format!("+ {line}\n")));
        self.diff.push("+ <EOF>\n".to_owned());
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out + &added
    }
}
