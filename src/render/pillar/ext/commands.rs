//! `cmd_yaml` and `cmd_json`: the output of a command is the pillar (`salt/pillar/cmd_yaml.py`,
//! `cmd_json.py`).
//!
//! The command comes from the master's configuration, with `%s` for the minion's id. Ids may contain
//! characters that are special to a shell; minions with such an id get no pillar from here.

use super::super::super::pipeline::render_json;
use super::super::Compilation;
use super::{ExtArgs, ExtResult};
use halite_sys::command::{Helper, LOCALE, Output};
use halite_wire::{Map, Value, shlex, yaml};

/// Runs in a shell. Standard output is YAML.
pub(super) fn yaml(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let command = command(compile, args)?;
    let shell = std::env::var("SHELL").ok().filter(|s| s.starts_with('/'));
    let shell = shell.as_deref().unwrap_or("/bin/sh");
    let output = run(compile, Helper::new([shell, "-c", command.as_str()]))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(yaml::parse(text.trim_end()).unwrap_or_else(|e| {
        log::error!("YAML data from '{command}' failed to parse: {e}");
        Value::Map(Map::new())
    }))
}

/// Runs without a shell. Standard output and standard error together are JSON.
pub(super) fn json(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let command = command(compile, args)?;
    let argv = shlex::split(&command)?;
    let output = run(
        compile,
        Helper {
            merge: true,
            ..Helper::new(argv)
        },
    )?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(render_json(text.trim_end()).unwrap_or_else(|e| {
        log::error!("JSON data from '{command}' failed to parse: {e}");
        Value::Map(Map::new())
    }))
}

fn command(compile: &Compilation, args: &ExtArgs) -> Result<String, String> {
    let command = args.text("command")?.ok_or("it needs a command")?;
    if !command.contains("%s") {
        return Ok(command.to_owned());
    }
    let id = compile.request.id.as_str();
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_.@:%+=,-".contains(c);
    if !id.chars().all(harmless) || id.starts_with('-') {
        return Err(format!("the id '{id}' cannot be used for %s in a command"));
    }
    Ok(command.replace("%s", id))
}

fn run(compile: &Compilation, helper: Helper) -> Result<Output, String> {
    let c = || Some("C".to_owned());
    let helper = Helper {
        env: LOCALE
            .iter()
            .map(|name| ((*name).to_owned(), c()))
            .collect(),
        ..helper
    };
    let output = helper.run(compile.left()).map_err(|e| e.to_string())?;
    if output.code != 0 {
        log::error!("{:?} exited with status {}", helper.argv, output.code);
    }
    Ok(output)
}
