//! Python's `re` patterns on Rust's regex engines.
//!
//! A pattern is rewritten token by token: different syntax is translated, and what Python refuses is refused. The
//! result runs on `regex`, in linear time, or, if it needs look-around or back references, on `fancy-regex` with a
//! limit on backtracking.

mod replace;
mod translate;

pub use replace::{RegexReplaced, RegexTemplate, escape};
pub use translate::RegexFlags;

use regex::RegexBuilder;
use std::collections::HashMap;
use std::fmt;
use translate::Translated;

/// Maximum length of a pattern in bytes.
pub const MAX_REGEX: usize = 64 * 1024;
/// Maximum size of a compiled program in bytes.
const SIZE_LIMIT: usize = 1024 * 1024;
/// Maximum cache size of the lazy automaton in bytes; beyond it the search continues without one.
const DFA_LIMIT: usize = 2 * 1024 * 1024;
/// Maximum number of backtracking steps per match; beyond it there is no result, see [`RegexLimit`].
const BACKTRACK_LIMIT: usize = 100_000;

/// Whether a pattern matches would take too many steps to find out. Python searches on, so this is neither a match nor
/// the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexLimit;

impl fmt::Display for RegexLimit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a regular expression takes too many steps; simplify it")
    }
}

impl std::error::Error for RegexLimit {}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct PyRegex(Engine, HashMap<String, usize>);

#[derive(Clone, Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

impl PyRegex {
    /// Compiles a pattern that must match at the start; the error says why it cannot be used.
    pub fn new(pattern: &str) -> Result<PyRegex, String> {
        PyRegex::with_flags(
            pattern,
            RegexFlags {
                anchored: true,
                ..RegexFlags::default()
            },
        )
    }

    /// Compiles a pattern with flags.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn with_flags(pattern: &str, mode: RegexFlags) -> Result<PyRegex, String> {
        if pattern.len() > MAX_REGEX {
            return Err(format!("the pattern is longer than {MAX_REGEX} bytes"));
        }
        let translated = translate::translate(pattern, &mode)?;
        if translated.needs_backtracking {
            return backtracking(translated);
        }
        RegexBuilder::new(&translated.pattern)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(DFA_LIMIT)
            .build()
            .map(|regex| PyRegex(Engine::Linear(regex), translated.names))
            .map_err(|error| last_line(&error.to_string()))
    }

    /// Whether the pattern matches at the start of the text, as `re.match` does.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn matches(&self, text: &str) -> Result<bool, RegexLimit> {
        match &self.0 {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).map_err(|_| RegexLimit),
        }
    }
}

impl PyRegex {
    /// The byte ranges of the first match from `from` on: the whole match, then its groups.
    pub fn captures(&self, text: &str, from: usize) -> Option<Vec<Option<(usize, usize)>>> {
        match &self.0 {
            Engine::Linear(regex) => {
                let found = regex.captures_at(text, from)?;
                Some(
                    found
                        .iter()
                        .map(|m| m.map(|m| (m.start(), m.end())))
                        .collect(),
                )
            }
            Engine::Backtracking(regex) => {
                let found = regex.captures_from_pos(text, from).ok().flatten()?;
                Some(
                    found
                        .iter()
                        .map(|m| m.map(|m| (m.start(), m.end())))
                        .collect(),
                )
            }
        }
    }

    /// The number of groups, including the whole match.
    pub fn groups(&self) -> usize {
        match &self.0 {
            Engine::Linear(regex) => regex.captures_len(),
            Engine::Backtracking(regex) => regex.captures_len(),
        }
    }

    /// The number of a named group.
    pub fn group(&self, name: &str) -> Option<usize> {
        self.1.get(name).copied()
    }
}

fn backtracking(translated: Translated) -> Result<PyRegex, String> {
    fancy_regex::RegexBuilder::new(&translated.pattern)
        .backtrack_limit(BACKTRACK_LIMIT)
        .delegate_size_limit(SIZE_LIMIT)
        .delegate_dfa_size_limit(DFA_LIMIT)
        .build()
        .map(|regex| PyRegex(Engine::Backtracking(Box::new(regex)), translated.names))
        .map_err(|error| last_line(&error.to_string()))
}

/// The last line, which has the reason: the engines draw the pattern above it.
fn last_line(message: &str) -> String {
    message.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(pattern: &str, text: &str) -> Option<bool> {
        let regex = PyRegex::new(pattern).ok()?;
        regex.matches(text).ok()
    }

    #[test]
    fn anchored_at_the_start_only() {
        assert_eq!(check("web", "web1"), Some(true));
        assert_eq!(check("1", "web1"), Some(false));
        assert_eq!(check("a|web", "web1"), Some(true));
        assert_eq!(check("web$", "web1"), Some(false));
        assert_eq!(check("web$", "web\n"), Some(true));
        assert_eq!(check(r"web\Z", "web\n"), Some(false));
    }

    #[test]
    fn look_around_and_back_references() {
        assert_eq!(check(r"(?!web)\w+", "web1"), Some(false));
        assert_eq!(check(r"(?!web)\w+", "db1"), Some(true));
        assert_eq!(check(r"(a)(b)\2\1$", "abba"), Some(true));
        assert_eq!(check(r"(?P<x>.)(?P=x)", "aa"), Some(true));
        assert_eq!(check(r"(?P<x>.)(?P=x)", "ab"), Some(false));
        assert_eq!(check(r"a*+a", "aaa"), Some(false));
        assert_eq!(check(r"(a)?(?(1)b|c)$", "ab"), Some(true));
        assert_eq!(check(r"(a)?(?(1)b|c)$", "c"), Some(true));
    }

    #[test]
    fn classes_are_those_of_python() {
        for (pattern, text, expected) in [
            (r"\w", "\u{94b}", false),
            (r"\W", "\u{94b}", true),
            (r"[\w]", "\u{301}", false),
            (r"[^\w]", "\u{301}", true),
            (r"\w\w\w\w", "\u{b2}\u{2167}\u{e9}_", true),
            (r"\d", "\u{b2}", false),
            (r"\d", "\u{664}", true),
            (r"\s\s", "\u{1c}\u{85}", true),
            (r"[\S]", "\u{1f}", false),
            (r"(?a)\w", "\u{e9}", false),
        ] {
            assert_eq!(check(pattern, text), Some(expected), "{pattern} {text:?}");
        }
    }

    #[test]
    fn limits() {
        assert!(PyRegex::new(&"a".repeat(MAX_REGEX + 1)).is_err());
        assert!(PyRegex::new("((((a{1000}){1000}){1000}){1000})").is_err());
        assert!(PyRegex::new(&("(".repeat(5000) + &")".repeat(5000))).is_err());
        // Exponential in Python; here the match gives up, and is not taken for a failure.
        let slow = PyRegex::new("a((?=)|(?=)){18}z").unwrap();
        assert_eq!(slow.matches("aaa"), Err(RegexLimit));
        assert_eq!(slow.matches("b"), Ok(false));
    }

    proptest! {
        #[test]
        fn any_text(pattern in ".{0,40}", text in ".{0,20}") {
            check(&pattern, &text);
        }

        #[test]
        fn likely_text(pattern in r"[ab()\[\]{}?*+|^$.\\0-9dwzAZPx:=!<>#i, -]{0,16}", text in "[ab1]{0,6}") {
            check(&pattern, &text);
        }
    }
}
