//! `config.*`: the master's configuration (`salt/wheel/config.py`).

use super::{Function, WheelContext};
use crate::call::{Args, RunError};
use halite_config::MasterConfig;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "config.values",
        args: &[],
        doc: "The configuration in effect.",
        run: |context, _| Ok(Value::Map(context.config.as_map())),
    },
    Function {
        name: "config.apply",
        args: &["key", "value"],
        doc: "Sets one option in the master's file, which loses its comments. Takes effect when the master is restarted.",
        run: apply,
    },
    Function {
        name: "config.update_config",
        args: &["file_name", "yaml_contents"],
        doc: "Writes a file of that name, with .conf, into the directory of default_include.",
        run: update_config,
    },
];

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

/// The directory of the configuration file.
fn config_dir(config: &MasterConfig) -> &Path {
    config.conf_file.parent().unwrap_or(Path::new("/"))
}

/// Stock 3006 to 3008 leave the file empty here; this sets the value, as the name promises.
fn apply(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let path = &context.config.conf_file;
    let key = args
        .text(0, "key")
        .ok_or_else(|| invalid("key must be a string"))?;
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let mut options = match yaml::parse(&text).map_err(|e| invalid(e.to_string()))? {
        Value::Map(options) => options,
        Value::Nil => Map::new(),
        _ => return Err(invalid(format!("{} is not a map", path.display()))),
    };
    options.set(key, args.get(1, "value").cloned().unwrap_or_default());
    // Do not write a configuration with which the master could not start.
    MasterConfig::from_map(options.clone(), config_dir(context.config))
        .map_err(|e| invalid(e.to_string()))?;
    let text = yaml::emit(&Value::Map(options), true);
    write_atomic(path, text.as_bytes(), 0o640)?;
    Ok(Value::Nil)
}

fn update_config(context: &WheelContext, args: &Args) -> Result<Value, RunError> {
    let name = args
        .text(0, "file_name")
        .ok_or_else(|| invalid("file_name must be a string"))?;
    let Some(path) = include_path(context.config, &name) else {
        return Ok("Invalid path".into());
    };
    let content = args.get(1, "yaml_contents").cloned().unwrap_or_default();
    let text = yaml::emit(&content, true);
    if let Some(dir) = path.parent() {
        make_dir(dir, 0o755)?;
    }
    write_atomic(&path, text.as_bytes(), 0o640)?;
    Ok(format!("Wrote {name}.conf").into())
}

/// A plain file name in the directory of `default_include`, which is below that of the configuration file
/// (CVE-2021-25281, CVE-2020-25592 and others are of this kind).
fn include_path(config: &MasterConfig, name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty()
        && !name.starts_with('.')
        && !name.contains(['/', '\\', '\0', '\n'])
        && name.len() <= 200;
    let dir = Path::new(&config.default_include).parent()?;
    plain.then(|| config_dir(config).join(dir).join(format!("{name}.conf")))
}
