//! Findings of a check: one per line of the configuration.

use halite_config::Given;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

/// How halite handles something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// As with Salt.
    Supported,
    /// Works, but not exactly as in Salt; the note says how.
    Different,
    /// Exists in Salt and has no effect here; nothing essential is lost.
    Ignored,
    /// Exists neither in Salt nor in halite. Templates and lookups can use it.
    Unknown,
    /// The operator must check it before the master is migrated.
    NeedsAction,
}

impl Verdict {
    /// All verdicts, the best first.
    pub(super) const ALL: [Verdict; 5] = [
        Verdict::Supported,
        Verdict::Different,
        Verdict::Ignored,
        Verdict::Unknown,
        Verdict::NeedsAction,
    ];

    /// Its name in tables and JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Supported => "supported",
            Verdict::Different => "different",
            Verdict::Ignored => "ignored",
            Verdict::Unknown => "unknown",
            Verdict::NeedsAction => "needs a hand",
        }
    }
}

/// One checked item.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// How halite handles it.
    pub verdict: Verdict,
    /// The file it is in.
    pub file: PathBuf,
    /// The line, from 1; 0 for a whole file or directory.
    pub line: usize,
    /// The item: an option, a file, a function. Never a value, which may be a secret.
    pub what: String,
    /// What to know or to do about it.
    pub note: String,
}

impl Finding {
    /// A finding about a file or directory as a whole.
    pub(super) fn about(verdict: Verdict, file: &Path, what: &str, note: String) -> Finding {
        Finding {
            verdict,
            file: file.to_owned(),
            line: 0,
            what: what.to_owned(),
            note,
        }
    }

    /// A finding about an option.
    pub(super) fn option(verdict: Verdict, given: &Given, note: String) -> Finding {
        Finding {
            verdict,
            file: given.file.clone(),
            line: given.line,
            what: given.name.clone(),
            note,
        }
    }

    /// The same on another line.
    pub(super) fn at(mut self, line: usize) -> Finding {
        self.line = line;
        self
    }

    fn to_value(&self) -> Value {
        let mut map = halite_wire::map! {
            "verdict" => self.verdict.word(),
            "file" => self.file.to_string_lossy().as_ref(),
            "what" => self.what.as_str(),
            "note" => self.note.as_str(),
        };
        if self.line > 0 {
            map.set("line", self.line as i64);
        }
        Value::Map(map)
    }
}

/// All findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// In the order of the checks.
    pub findings: Vec<Finding>,
    /// Files that could not be read at all.
    pub unreadable: Vec<String>,
}

impl Report {
    /// Number of findings with a verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        let of = self.findings.iter().filter(|f| f.verdict == verdict);
        of.count()
    }

    /// 0: nothing to do, 1: something needs action, 2: something cannot be read.
    pub(super) fn status(&self) -> i32 {
        match () {
            () if !self.unreadable.is_empty() => 2,
            () if self.count(Verdict::NeedsAction) > 0 => 1,
            () => 0,
        }
    }

    /// The overall verdict as a sentence.
    pub(super) fn sentence(&self) -> String {
        match self.status() {
            0 => "halite can take over as it stands".to_owned(),
            1 => format!(
                "halite can take over when somebody has looked at {} of these",
                self.count(Verdict::NeedsAction)
            ),
            _ => "no verdict: not everything could be read".to_owned(),
        }
    }

    /// The value for `--out json`.
    pub(super) fn to_value(&self) -> Value {
        let counts: Map = Verdict::ALL
            .into_iter()
            .map(|v| (v.word(), self.count(v) as i64))
            .collect();
        let findings = self.findings.iter().map(Finding::to_value).collect();
        Value::Map(halite_wire::map! {
            "status" => i64::from(self.status()),
            "verdict" => self.sentence(),
            "counts" => counts,
            "unreadable" => self.unreadable.clone(),
            "findings" => Value::Array(findings),
        })
    }
}
