//! The merged files of one configuration, before types are applied.

use super::value::{Converted, OptionValue};
use super::{ConfigError, Flavour, Role};
use halite_wire::yaml;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The merged options, with the file that set each.
#[derive(Debug)]
pub struct Source {
    pub conf_file: PathBuf,
    pub flavour: Flavour,
    pub values: Map,
    /// The file that set an option last.
    pub origin: HashMap<String, PathBuf>,
    pub warnings: Vec<String>,
    /// The files that were read, in order; later ones win.
    pub files: Vec<PathBuf>,
}

impl Source {
    /// A source of options that come from no file.
    pub fn from_values(
        values: Map,
        dir: &Path,
        role: Role,
        flavour: Flavour,
    ) -> Result<Self, ConfigError> {
        let dir = std::path::absolute(dir).map_err(|e| ConfigError::read(dir, e))?;
        Ok(Source {
            conf_file: dir.join(role.name()),
            flavour,
            values,
            origin: HashMap::new(),
            warnings: Vec::new(),
            files: Vec::new(),
        })
    }

    /// Removes an option from `values` and returns its value; its default if the files do not set it.
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

    /// Whether the files set an option.
    pub fn sets(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|v| !v.is_nil())
    }

    fn default_value(&self, name: &str, default: &str) -> Result<Value, ConfigError> {
        let text = default.replace("{product}", self.flavour.name());
        if let Some(value) = plain(&text) {
            return Ok(value);
        }
        yaml::parse(&text).map_err(|_| self.bad(name, &Value::Str(text), "YAML"))
    }

    /// Adds a warning about an option, naming its file.
    pub fn warn(&mut self, name: &str, what: &str) {
        let place = match self.origin.get(name) {
            Some(path) => format!("{}: ", path.display()),
            None => String::new(),
        };
        self.warnings
            .push(format!("{place}the option '{name}': {what}"));
    }

    /// The error for an option with an unsuitable value.
    pub fn bad(&self, name: &str, found: &Value, expected: &str) -> ConfigError {
        ConfigError::BadValue {
            path: self.origin.get(name).cloned().unwrap_or_default(),
            option: name.to_owned(),
            found: describe(found),
            expected: expected.to_owned(),
        }
    }
}

/// Parses YAML scalars that are simple enough to need no parser. Every command reads hundreds of defaults, most of them
/// simple.
fn plain(text: &str) -> Option<Value> {
    let number = |b: &[u8]| b.len() < 10 && b.iter().all(u8::is_ascii_digit);
    let word = |b: &[u8]| {
        b.iter()
            .all(|c| c.is_ascii_alphanumeric() || b"/._-".contains(c))
    };
    Some(match (text, text.as_bytes()) {
        ("true", _) => true.into(),
        ("false", _) => false.into(),
        ("null", _) => Value::Nil,
        ("''", _) => "".into(),
        ("[]", _) => Value::Array(Vec::new()),
        ("{}", _) => Map::new().into(),
        ("0", _) => 0.into(),
        (_, digits @ [b'1'..=b'9', ..]) if number(digits) => text.parse::<i64>().ok()?.into(),
        // Words with a special meaning in YAML start differently or are shorter.
        (_, path @ [b'/', ..]) if word(path) => text.into(),
        _ => return None,
    })
}

/// A value on one line, with its type.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FEDERATION_OPTIONS, MASTER_OPTIONS, MINION_OPTIONS, RUNTIME_OPTIONS};

    #[test]
    fn simple_defaults_are_what_yaml_makes_of_them() {
        let tables = [
            MASTER_OPTIONS,
            MINION_OPTIONS,
            FEDERATION_OPTIONS,
            RUNTIME_OPTIONS,
        ];
        let all: Vec<&str> = tables
            .iter()
            .flat_map(|t| t.iter().map(|o| o.default))
            .collect();
        for default in &all {
            if let Some(value) = plain(default) {
                assert_eq!(Ok(value), yaml::parse(default), "{default}");
            }
        }
        let simple = all.iter().filter(|d| plain(d).is_some()).count();
        assert!(simple * 4 > all.len() * 3, "{simple} of {}", all.len());
        for other in [
            "yes",
            "0644",
            "1:30",
            "1e3",
            "/a b",
            "/a: b",
            "-1",
            "1234567890",
            "",
            "~",
        ] {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
