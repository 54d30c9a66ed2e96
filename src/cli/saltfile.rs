//! `Saltfile`: defaults of command line options, by command (`salt/utils/parsers.py SaltfileMixIn`).
//!
//! Defaults are inserted before the arguments of the command line, so they are validated in the same way.
//! Options given on the command line are not looked up; entries of the Saltfile that are not options of the
//! command are ignored, as in stock.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use halite_wire::{Map, Value, yaml};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const VARIABLE: &str = "SALT_SALTFILE";
const NAME: &str = "Saltfile";
/// Larger than any reasonable list of defaults.
const LONGEST: u64 = 1 << 20;

/// Names in a Saltfile that differ from the option's name (its `dest` in stock): command, or all; name; option.
const RENAMED: &[(&str, &str, &str)] = &[
    ("", "cli_summary", "summary"),
    ("", "eauth", "auth"),
    ("", "key_logfile", "log-file"),
    ("", "list_hosts", "hosts"),
    ("", "log_level_logfile", "log-file-level"),
    ("", "mktoken", "make-token"),
    ("", "pidfile", "pid-file"),
    ("", "pillar_target", "pillar"),
    ("", "state_output_diff", "output-diff"),
    ("halite-call", "grains_run", "grains"),
    ("halite-call", "metadata", "set-metadata"),
    ("halite-call", "print_metadata", "metadata"),
];

/// Switches that negate the name in the Saltfile.
const INVERTED: &[(&str, &str)] = &[("show_timeout", "hide-timeout")];

/// Options added by a Saltfile.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    /// The Saltfile.
    pub path: PathBuf,
    /// Arguments of the form `--name=value` or `--name`.
    pub words: Vec<OsString>,
}

/// The defaults for options not given on the command line. A Saltfile that was named must exist; an error in it
/// is returned as text.
pub(super) fn defaults(command: &Command, matches: &ArgMatches) -> Result<Defaults, String> {
    let (path, file) = match named(matches.get_one::<OsString>("saltfile")) {
        Some(path) if path.as_os_str().is_empty() => return Ok(Defaults::default()),
        Some(path) if !path.is_file() => {
            return Err(format!("'{}' file does not exist.", path.display()));
        }
        Some(path) => {
            let file = File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            (path, file)
        }
        None => match found() {
            Some(found) => found,
            None => return Ok(Defaults::default()),
        },
    };
    let content = read(&path, file)?;
    let given =
        |arg: &Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let words = words(command, &content, given)?;
    Ok(Defaults { path, words })
}

/// Arguments for the options in a Saltfile, without those that are given already.
///
/// # Errors
/// The section of the command is not a map.
pub fn words(
    command: &Command,
    content: &Map,
    given: impl Fn(&Arg) -> bool,
) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    for (key, value) in section(content, command.get_name())?.iter() {
        let Some(key) = key.as_str() else { continue };
        if let Some((arg, inverted)) = option(command, key)
            && !given(arg)
        {
            words.extend(word(arg, value, inverted));
        }
    }
    Ok(words)
}

/// The Saltfile given by the option or the environment. An empty name means none at all.
fn named(option: Option<&OsString>) -> Option<PathBuf> {
    let path = option.cloned().or_else(|| std::env::var_os(VARIABLE));
    path.map(PathBuf::from)
}

/// The Saltfile in the working directory or in the home directory. Nobody has asked for it, so one that another
/// account could have written is not used: root may be working in a directory of somebody else.
fn found() -> Option<(PathBuf, File)> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".salt"));
    let mut dirs = [Some(PathBuf::from(".")), home].into_iter().flatten();
    dirs.find_map(|dir| {
        let path = dir.join(NAME);
        let file = no_wait().open(&path).ok()?;
        let meta = file.metadata().ok().filter(Metadata::is_file)?;
        let whole = std::path::absolute(&path).unwrap_or(path);
        match distrust(&meta).or_else(|| distrust(&std::fs::metadata(&dir).ok()?)) {
            None => Some((whole, file)),
            Some(why) => {
                let name = whole.display();
                eprintln!("{name} is ignored: {why}; name it with --saltfile to use it");
                None
            }
        }
    })
}

fn no_wait() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    options
}

/// Why others than this account and root can change a file or directory.
fn distrust(meta: &Metadata) -> Option<String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mode = meta.mode();
    if meta.uid() != uid.as_raw() && meta.uid() != 0 {
        return Some(format!(
            "it or its directory belongs to account {}",
            meta.uid()
        ));
    }
    if mode & 0o002 != 0 {
        return Some("everybody may write to it or its directory".to_owned());
    }
    // Where accounts have groups of their own, files are writable for these.
    if mode & 0o020 != 0 && meta.gid() != gid.as_raw() && meta.gid() != 0 {
        return Some(format!(
            "group {} may write to it or its directory",
            meta.gid()
        ));
    }
    None
}

fn read(path: &Path, file: File) -> Result<Map, String> {
    let wrong = |why: &str| {
        format!(
            "Error parsing configuration file: {} - {why}",
            path.display()
        )
    };
    let mut text = String::new();
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|e| wrong(&e.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(wrong("it is larger than 1 MiB"));
    }
    match yaml::parse(&text).map_err(|e| wrong(&e.to_string()))? {
        Value::Map(map) => Ok(map),
        value if !value.truthy() => Ok(Map::new()),
        value => Err(wrong(&format!(
            "conf should be a document, not {}",
            yaml::emit_flow(&value)
        ))),
    }
}

/// The section of a command: under its own name, and under stock's.
fn section(content: &Map, command: &str) -> Result<Map, String> {
    let mut section = Map::new();
    for name in [&command.replacen("halite", "salt", 1), command] {
        match content.get(name) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(map)) => {
                for (key, value) in map.iter().filter_map(|(k, v)| Some((k.as_str()?, v))) {
                    section.set(key, value.clone());
                }
            }
            Some(other) => {
                return Err(format!(
                    "the Saltfile has {} for {name}; use option: value pairs",
                    yaml::emit_flow(other)
                ));
            }
        }
    }
    Ok(section)
}

/// The option for a name in a Saltfile, and whether it is negated.
fn option<'a>(command: &'a Command, key: &str) -> Option<(&'a Arg, bool)> {
    let own = command.get_name();
    let renamed = RENAMED
        .iter()
        .find(|(of, name, _)| *name == key && (of.is_empty() || *of == own))
        .map(|(_, _, long)| *long);
    let inverted = INVERTED.iter().find(|(name, _)| *name == key);
    let long = match (inverted, renamed) {
        (Some((_, long)), _) => (*long).to_owned(),
        (None, Some(long)) => long.to_owned(),
        (None, None) => key.replace('_', "-"),
    };
    let arg = command.get_arguments().find(|arg| {
        let names = arg.get_long_and_visible_aliases().into_iter().flatten();
        let hidden = arg.get_all_aliases().into_iter().flatten();
        names.chain(hidden).any(|name| name == long || name == key)
    })?;
    let action = arg.get_action();
    let usable =
        matches!(action, ArgAction::Set | ArgAction::SetTrue) && arg.get_id() != "saltfile";
    usable.then_some((arg, inverted.is_some()))
}

fn word(arg: &Arg, value: &Value, inverted: bool) -> Option<OsString> {
    let long = arg.get_long()?;
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        let on = value.truthy() != inverted && arg.get_id() != "versions_report";
        return on.then(|| format!("--{long}").into());
    }
    let text = match value {
        Value::Nil => return None,
        Value::Str(text) => text.clone(),
        Value::Bool(on) => if *on { "True" } else { "False" }.into(),
        other => yaml::emit_flow(other),
    };
    Some(format!("--{long}={text}").into())
}
