//! Why a target cannot be used.

use super::py_regex::RegexLimit;
use std::fmt;

/// A target that no minion can match, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// An unknown target type.
    UnknownType(String),
    /// A target, or an element of its list, that is not text.
    NotText {
        /// The target type.
        kind: &'static str,
    },
    /// A text longer than its limit.
    TooLong {
        /// What is too long.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// A count over its limit.
    TooMany {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An unusable delimiter.
    Delimiter(String),
    /// A regular expression that cannot be compiled.
    Regex {
        /// The pattern.
        pattern: String,
        /// The compiler's reason.
        reason: String,
    },
    /// Neither an address nor a network.
    Address(String),
    /// An invalid compound expression.
    Compound {
        /// The word at which the error was found; empty at the end.
        word: String,
        /// The error.
        reason: &'static str,
    },
    /// A nodegroup that cannot be expanded.
    Nodegroup {
        /// Its name.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// Whether a regular expression matches cannot be told.
    RegexLimit,
    /// A known target type that cannot be evaluated.
    Unsupported(&'static str),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TargetError::UnknownType(name) => write!(
                f,
                "unknown target type {:?}; use glob, pcre, list, grain, grain_pcre, pillar, \
                 pillar_pcre, compound, nodegroup or ipcidr",
                short(name)
            ),
            TargetError::NotText { kind } => {
                write!(
                    f,
                    "a target of type {kind} must be text (or, for list and compound, a list of texts)"
                )
            }
            TargetError::TooLong { what, limit } => {
                write!(
                    f,
                    "the {what} of the target is longer than {limit} bytes; split the target"
                )
            }
            TargetError::TooMany { what, limit } => {
                write!(
                    f,
                    "the target has more than {limit} {what}; split the target"
                )
            }
            TargetError::Delimiter(text) => {
                write!(
                    f,
                    "{:?} is not a valid delimiter; use 1 to 16 bytes, usually ':'",
                    short(text)
                )
            }
            TargetError::Regex { pattern, reason } => {
                write!(
                    f,
                    "invalid regular expression {:?}: {reason}",
                    short(pattern)
                )
            }
            TargetError::Address(text) => write!(
                f,
                "{:?} is neither an address nor a network, for example 10.0.0.1 or 10.0.0.0/8 (with no bits set beyond \
                 the prefix)",
                short(text)
            ),
            TargetError::Compound { word, reason } if word.is_empty() => {
                write!(f, "invalid compound target: {reason} at the end")
            }
            TargetError::Compound { word, reason } => {
                write!(f, "invalid compound target: {reason} at {:?}", short(word))
            }
            TargetError::Nodegroup { name, reason } => {
                write!(
                    f,
                    "nodegroup {:?} {reason}; see `nodegroups` in the master configuration",
                    short(name)
                )
            }
            TargetError::RegexLimit => write!(f, "{RegexLimit}"),
            TargetError::Unsupported(what) => write!(f, "{what} cannot be evaluated here"),
        }
    }
}

impl std::error::Error for TargetError {}

impl From<RegexLimit> for TargetError {
    fn from(_: RegexLimit) -> TargetError {
        TargetError::RegexLimit
    }
}

/// Shortens a text for a log line.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}
