//! What the files of one configuration say, before types.

use super::value::{Converted, OptionValue};
use super::{ConfigError, Flavour, Role};
use crate::wire::yaml;
use crate::wire::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The merged files, with the place of each option.
#[derive(Debug)]
pub struct Source {
    pub conf_file: PathBuf,
    pub flavour: Flavour,
    pub values: Map,
    /// The file that set an option last.
    pub origin: HashMap<String, PathBuf>,
    pub warnings: Vec<String>,
}

impl Source {
    /// Options that come from no file.
    pub fn of(values: Map, dir: &Path, role: Role, flavour: Flavour) -> Result<Self, ConfigError> {
        let dir = std::path::absolute(dir).map_err(|e| ConfigError::read(dir, e))?;
        Ok(Source {
            conf_file: dir.join(role.name()),
            flavour,
            values,
            origin: HashMap::new(),
            warnings: Vec::new(),
        })
    }

    /// The value of an option, taken out of `values`; its default where the files say nothing.
    pub fn take<T: OptionValue>(&mut self, name: &str, default: &str) -> Result<T, ConfigError> {
        let value = match self.values.remove(name) {
            Some(Value::Nil) if !T::OPTIONAL => {
                self.warn(name, "has no value, so its default applies");
                None
            }
            other => other,
        };
        let value = match value {
            Some(value) => value,
            None => self.default_value(name, default)?,
        };
        let Some(Converted { value, note }) = T::from_value(&value) else {
            return Err(self.bad(name, &value, T::TYPE));
        };
        if let Some(note) = note {
            self.warn(name, note);
        }
        Ok(value)
    }

    fn default_value(&self, name: &str, default: &str) -> Result<Value, ConfigError> {
        let text = default.replace("{product}", self.flavour.name());
        yaml::parse(&text).map_err(|_| self.bad(name, &Value::Str(text), "YAML"))
    }

    /// Adds a warning about an option, with its file.
    pub fn warn(&mut self, name: &str, what: &str) {
        let place = match self.origin.get(name) {
            Some(path) => format!("{}: ", path.display()),
            None => String::new(),
        };
        self.warnings
            .push(format!("{place}the option '{name}': {what}"));
    }

    /// The error for an option that does not fit.
    pub fn bad(&self, name: &str, found: &Value, expected: &str) -> ConfigError {
        ConfigError::BadValue {
            path: self.origin.get(name).cloned().unwrap_or_default(),
            option: name.to_owned(),
            found: describe(found),
            expected: expected.to_owned(),
        }
    }
}

/// A value in one line, with a word on its type.
pub(super) fn describe(value: &Value) -> String {
    let kind = match value {
        Value::Nil => return "empty".into(),
        Value::Bool(b) => return b.to_string(),
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => "the number",
        Value::Str(_) => "the text",
        Value::Bytes(_) => "binary",
        Value::Array(_) => "the list",
        Value::Map(_) => "the map",
    };
    let text = match value {
        Value::Str(s) => format!("'{s}'"),
        other => yaml::emit_flow(other),
    };
    let short: String = text.chars().take(80).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{kind} {short}{dots}")
}
