//! YAML as Salt reads and writes it: PyYAML's YAML 1.1 rules with the changes of Salt's own loader
//! (`salt/utils/yamlloader.py SaltYamlSafeLoader`) and dumper (`salt/utils/yaml.py safe_dump`).
//!
//! What differs from a modern YAML parser, and matters in configuration and state files:
//! `yes`/`no`/`on`/`off` are booleans, `1:30` is ninety, `1e3` is text, `0644` is the number 644 (Salt
//! drops leading zeros; a signed `-0644` stays octal), dates stay text, `<<` merges, and the same
//! key twice in one map is an error.

mod args;
mod compose;
mod construct;
mod emit;
pub mod lines;
mod places;
mod represent;
mod scalar;
mod source;
pub mod style;

#[cfg(test)]
mod tests;

pub use args::{
    job_input, keyword_map, load_input, parse_input, parse_kwarg, wire_input, yamlify_arg,
};
pub use emit::{emit, emit_flow, emit_flow_lines, emit_leaves, emit_scalar, emit_with};
pub use places::{KeyPosition, parse_with_places};
pub use source::check_characters;
pub use style::escape;

use crate::Value;
use crate::budget::Budget;
use std::fmt;

/// Why Salt would not accept a text as YAML, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl YamlError {
    /// An error at a line and a column.
    fn at((line, column): (usize, usize), message: impl Into<String>) -> YamlError {
        YamlError {
            line,
            column,
            message: message.into(),
        }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let YamlError {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

impl std::error::Error for YamlError {}

/// Parses the only document of `text`; an empty text is [`Value::Nil`].
///
/// Integers beyond 64 bits become their decimal text, as they do when Salt sends them
/// (`salt/payload.py dumps`). `!!binary` gives [`Value::Bytes`], `!!set` a list of its keys.
///
/// # Errors
/// Bad syntax, a second document, a duplicate key, an unknown tag, an alias inside its own anchor,
/// nesting deeper than [`crate::budget::MAX_DEPTH`], or aliases that expand a small text excessively.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    parse_within(text, &mut Budget::of(text.len()))
}

/// As [`parse`], with what may still be spent.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(text: &str, budget: &mut Budget) -> Result<Value, YamlError> {
    construct::construct(compose::compose(text, budget)?, budget)
}
