//! Arguments of runner functions.

use crate::wire::{Map, Value};
use std::fmt;

/// Positional and keyword arguments.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// By position.
    pub positional: Vec<Value>,
    /// By name.
    pub keyword: Map,
}

/// Arguments that do not fit the function.
#[derive(Clone, Debug, PartialEq)]
pub struct BadArgs(String);

impl fmt::Display for BadArgs {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadArgs {}

impl Args {
    /// Checks number and names against a function's declaration.
    pub(super) fn check(&self, function: &str, declared: &[&str]) -> Result<(), BadArgs> {
        let usage = || format!("usage: {function} {}", usage(declared));
        if self.positional.len() > declared.len() {
            return Err(BadArgs(format!(
                "{function} takes at most {} arguments; {}",
                declared.len(),
                usage()
            )));
        }
        for (key, _) in self.keyword.iter() {
            let name = key.as_str().unwrap_or_default();
            if !declared.iter().any(|d| bare(d) == name) {
                return Err(BadArgs(format!(
                    "{function} has no argument {name:?}; {}",
                    usage()
                )));
            }
        }
        for (at, declared) in declared.iter().enumerate() {
            let given = at < self.positional.len() || self.keyword.contains(bare(declared));
            if !declared.starts_with('?') && !given {
                return Err(BadArgs(format!("{function} needs {declared}; {}", usage())));
            }
        }
        Ok(())
    }

    /// The argument at a position or under its name.
    pub fn get(&self, at: usize, name: &str) -> Option<&Value> {
        self.positional
            .get(at)
            .or_else(|| self.keyword.get(name))
            .filter(|v| !v.is_nil())
    }

    /// The same as text; numbers (a jid looks like one) become text.
    pub fn text(&self, at: usize, name: &str) -> Option<String> {
        match self.get(at, name)? {
            Value::Str(s) => Some(s.clone()),
            Value::Int(n) => Some(n.to_string()),
            Value::UInt(n) => Some(n.to_string()),
            _ => None,
        }
    }

    /// The same as an integer.
    pub fn int(&self, at: usize, name: &str) -> Option<i64> {
        self.get(at, name).and_then(Value::as_int)
    }

    /// The same as a truth value.
    pub fn flag(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_some_and(Value::truthy)
    }

    /// As `fun_args` carries them: positions, then one map if there are keywords.
    pub(super) fn to_value(&self) -> Value {
        let mut all = self.positional.clone();
        if !self.keyword.is_empty() {
            all.push(self.keyword.clone().into());
        }
        all.into()
    }
}

fn bare(declared: &str) -> &str {
    declared.trim_start_matches('?')
}

/// Declared arguments as shown to a user.
pub(super) fn usage(declared: &[&str]) -> String {
    let all: Vec<String> = declared.iter().map(|a| shown(a)).collect();
    all.join(" ")
}

fn shown(declared: &str) -> String {
    match declared.strip_prefix('?') {
        Some(name) => format!("[{name}]"),
        None => format!("<{declared}>"),
    }
}
