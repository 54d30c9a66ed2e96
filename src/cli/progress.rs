//! Lines about the states of a run, while it goes on.

use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Longest name shown.
const MAX_NAME: usize = 60;

#[derive(Default)]
struct Counts {
    done: usize,
    changed: usize,
    failed: usize,
}

/// Shows the results of states on standard error.
pub(super) struct StateProgress {
    began: Instant,
    color: bool,
    /// By minion.
    counts: Mutex<HashMap<String, Counts>>,
}

impl StateProgress {
    /// Counts from now.
    pub fn new() -> StateProgress {
        let terminal = std::io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        StateProgress {
            began: Instant::now(),
            color: terminal && !plain,
            counts: Mutex::default(),
        }
    }

    /// Shows one result of `total` ones (0 if that is unknown).
    pub fn show(&self, minion: Option<&str>, result: &Map, total: usize) {
        let line = self.line(minion, result, total);
        // A closed standard error is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn line(&self, minion: Option<&str>, result: &Map, total: usize) -> String {
        let changed = result.get("changes").is_some_and(Value::truthy);
        let (word, color) = match (result.get("result"), changed) {
            (Some(Value::Bool(false)), _) => ("failed", "\x1b[0;1;31m"),
            (Some(Value::Bool(true)), true) => ("changed", "\x1b[0;36m"),
            (Some(Value::Bool(true)), false) => ("ok", "\x1b[0;32m"),
            _ => ("would change", "\x1b[0;1;33m"),
        };
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = all
            .entry(minion.unwrap_or_default().to_owned())
            .or_default();
        counts.done += 1;
        counts.changed += usize::from(word == "changed");
        counts.failed += usize::from(word == "failed");
        let (color, end) = if self.color {
            (color, "\x1b[0;0m")
        } else {
            ("", "")
        };
        let seconds = self.began.elapsed().as_secs();
        let of = if total > 0 {
            format!("/{}", total.max(counts.done))
        } else {
            String::new()
        };
        format!(
            "{}{}{of} {}:{:02} {color}{word}{end} {} ({} changed, {} failed)",
            minion
                .map(|id| format!("{}: ", shown(id)))
                .unwrap_or_default(),
            counts.done,
            seconds / 60,
            seconds % 60,
            shown(&name(result)),
            counts.changed,
            counts.failed,
        )
    }
}

/// Id of the state, and its name if that differs.
fn name(result: &Map) -> String {
    let text = |key: &str| {
        result
            .get(key)
            .map(|v| halite_wire::pytext::str(v).into_owned())
            .unwrap_or_default()
    };
    let (id, name) = (text("__id__"), text("name"));
    if name.is_empty() || name == id {
        id
    } else {
        format!("{id}: {name}")
    }
}

/// On one line, without what a terminal would obey.
fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_NAME).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn lines_count() {
        let progress = StateProgress {
            color: false,
            ..StateProgress::new()
        };
        let good = map! {"result" => true, "changes" => map! {"a" => 1}, "__id__" => "x", "name" => "/etc/\x1b[2Jx"};
        let line = progress.line(Some("m1"), &good, 3);
        assert!(line.starts_with("m1: 1/3 0:0"), "{line}");
        assert!(
            line.ends_with(" changed x: /etc/ [2Jx (1 changed, 0 failed)"),
            "{line}"
        );
        let bad = map! {"result" => false, "changes" => Map::new(), "__id__" => "y", "name" => "y"};
        let line = progress.line(Some("m1"), &bad, 0);
        assert!(line.ends_with(" failed y (1 changed, 1 failed)"), "{line}");
    }
}
