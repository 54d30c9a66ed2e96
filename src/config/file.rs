//! Reads the configuration file, its includes and the drop-in directory.

use super::glob::glob;
use super::source::{Source, describe};
use super::value::{self, OptionValue};
use super::{ConfigError, Flavour, Role};
use halite_wire::{Map, Value, yaml};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum depth of includes.
pub(super) const MAX_INCLUDE_DEPTH: usize = 16;

/// Reads `dir/<role>` and everything it includes. Order, later ones win: the file itself, the files of
/// `default_include`, those of `include` (`salt/config/__init__.py master_config`).
pub(super) fn read(dir: &Path, role: Role, flavour: Flavour) -> Result<Source, ConfigError> {
    let mut source = Source::from_values(Map::new(), dir, role, flavour)?;
    let conf_file = source.conf_file.clone();
    match read_file(&conf_file)? {
        Some(values) => {
            note_origin(&mut source, &values, &conf_file);
            source.values = values;
        }
        None => source.warnings.push(format!(
            "there is no configuration file {}, so the defaults apply",
            conf_file.display()
        )),
    }
    let drop_ins = match source.values.get("default_include") {
        Some(value) => value.clone(),
        None => format!("{}.d/*.conf", role.name()).into(),
    };
    let includes = source.values.get("include").cloned().unwrap_or_default();
    for (patterns, option, loud) in [
        (drop_ins, "default_include", false),
        (includes, "include", true),
    ] {
        let patterns = include_patterns(&source, option, &patterns)?;
        let found = include(&mut source, &patterns, &conf_file, loud, 0)?;
        // At the top level, an option replaces the earlier one completely, even if both are maps.
        for (key, value) in found.0 {
            set(&mut source.values, key, value);
        }
    }
    Ok(source)
}

fn include_patterns(
    source: &Source,
    option: &str,
    value: &Value,
) -> Result<Vec<String>, ConfigError> {
    if !value.truthy() {
        return Ok(Vec::new());
    }
    match Vec::<String>::from_value(value) {
        Some(patterns) => Ok(patterns.value),
        None => Err(source.bad(option, value, "a path pattern or a list of them")),
    }
}

/// Reads the files that match the patterns and merges them: maps recursively, lists by appending
/// (`salt/config/__init__.py include_config`).
fn include(
    source: &mut Source,
    patterns: &[String],
    from: &Path,
    loud: bool,
    depth: usize,
) -> Result<Map, ConfigError> {
    if depth >= MAX_INCLUDE_DEPTH {
        let path = from.to_owned();
        return Err(ConfigError::IncludeDepth { path });
    }
    let mut all = Map::new();
    for pattern in patterns {
        let path = from.parent().unwrap_or(Path::new("/")).join(home(pattern));
        let files = glob(&path);
        if files.is_empty() && loud {
            let text = format!(
                "{}: the include '{pattern}' matches no file",
                from.display()
            );
            source.warnings.push(text);
        }
        for file in files {
            let Some(mut values) = read_file(&file)? else {
                continue;
            };
            note_origin(source, &values, &file);
            let nested = values.get("include").cloned().unwrap_or_default();
            let nested = include_patterns(source, "include", &nested)?;
            for (key, value) in include(source, &nested, &file, loud, depth + 1)?.0 {
                set(&mut values, key, value);
            }
            merge(&mut all, values);
        }
    }
    Ok(all)
}

fn home(pattern: &str) -> PathBuf {
    match (pattern.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => pattern.into(),
    }
}

fn note_origin(source: &mut Source, values: &Map, path: &Path) {
    source.files.push(path.to_owned());
    for (key, _) in values.iter() {
        if let Value::Str(key) = key {
            source.origin.insert(key.clone(), path.to_owned());
        }
    }
}

/// The options of one file; `None` if it does not exist.
fn read_file(path: &Path) -> Result<Option<Map>, ConfigError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ConfigError::read(path, e)),
    };
    let path = path.to_owned();
    let parsed = match yaml::parse(&text) {
        Ok(value) => value,
        Err(error) => return Err(ConfigError::Yaml { path, error }),
    };
    if !parsed.truthy() {
        return Ok(Some(Map::new()));
    }
    let Value::Map(mut map) = parsed else {
        let found = describe(&parsed);
        return Err(ConfigError::NotAMap { path, found });
    };
    // YAML may have read the id as a number.
    if let Some(id) = map.get_mut("id")
        && let Some(text) = value::text(id)
    {
        *id = Value::Str(text);
    }
    Ok(Some(map))
}

fn set(map: &mut Map, key: Value, value: Value) {
    match map.0.iter_mut().find(|(k, _)| *k == key) {
        Some(slot) => slot.1 = value,
        None => map.0.push((key, value)),
    }
}

/// `salt/utils/dictupdate.py update` with `merge_lists`.
fn merge(into: &mut Map, from: Map) {
    for (key, value) in from.0 {
        let Some((_, slot)) = into.0.iter_mut().find(|(k, _)| *k == key) else {
            into.0.push((key, value));
            continue;
        };
        match (slot, value) {
            (Value::Map(old), Value::Map(new)) => merge(old, new),
            (Value::Array(old), Value::Array(new)) => {
                for item in new {
                    if !old.contains(&item) {
                        old.push(item);
                    }
                }
            }
            (slot, value) => *slot = value,
        }
    }
}
