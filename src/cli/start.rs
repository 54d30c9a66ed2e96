//! Start of every command: parses its arguments and the Saltfile's, and handles --help and the like.

use super::common::{Common, EXIT_USAGE};
use super::saltfile;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches, Parser};
use halite_modules::versions;
use std::ffi::OsString;

/// The main function of programs that run no minion functions: `run` returns the exit status.
pub fn main(run: fn() -> i32) -> ! {
    halite_sys::process::protect_memory();
    std::process::exit(run())
}

/// Like [`main`], for programs that run minion functions, `state.*` among them.
pub fn main_with_modules(run: fn() -> i32) -> ! {
    halite_states::install();
    main(run)
}

/// The command of a parser. As in Salt, `-V` prints the versions report, so clap's own `-V` is disabled.
pub(super) fn command<T: Parser>() -> Command {
    // Of an option that is given twice the last one counts, as in Salt.
    T::command()
        .disable_version_flag(true)
        .args_override_self(true)
}

/// Parses the command line of a command with [`Common`] options, and the Saltfile's defaults for it.
///
/// # Errors
/// The exit status if there is nothing more to do: everything has been printed then. It is 0 after `--help`,
/// `--version` and `--versions-report`, and 64 for invalid arguments.
pub(super) fn start<T: Parser>() -> Result<T, i32> {
    start_as(command::<T>(), |_| Ok(()))
}

/// Like [`start`], for a command modified after [`command`] created it, with a check of options against each
/// other.
pub(super) fn start_as<T: Parser>(
    mut command: Command,
    check: impl FnOnce(&T) -> Result<(), &'static str>,
) -> Result<T, i32> {
    let (name, words) = arguments();
    let mut matches = read(&mut command, &name, &[], &words)?;
    if matches.get_flag("versions_report") {
        println!("{}", versions::report());
        return Err(0);
    }
    let found = saltfile::defaults(&command, &matches);
    let defaults = found.map_err(|e| usage(&mut command, e))?;
    if !defaults.words.is_empty() {
        matches = read(&mut command, &name, &defaults.words, &words).inspect_err(|status| {
            if *status != 0 {
                eprintln!(
                    "The Saltfile {} adds: {:?}",
                    defaults.path.display(),
                    defaults.words
                );
            }
        })?;
    }
    let options = T::from_arg_matches(&matches).map_err(|e| failed(&e))?;
    check(&options).map_err(|why| usage(&mut command, why))?;
    Common::from_arg_matches(&matches)
        .map_err(|e| failed(&e))?
        .check_dir()?;
    Ok(options)
}

/// Parses the command line of a command without [`Common`] options.
pub(super) fn parse<T: Parser>() -> Result<T, i32> {
    let (name, words) = arguments();
    let matches = read(&mut T::command(), &name, &[], &words)?;
    T::from_arg_matches(&matches).map_err(|e| failed(&e))
}

fn arguments() -> (OsString, Vec<OsString>) {
    let name = std::env::args_os().next().unwrap_or_default();
    (name, halite_sys::process::arguments())
}

fn read(
    command: &mut Command,
    name: &OsString,
    defaults: &[OsString],
    words: &[OsString],
) -> Result<ArgMatches, i32> {
    let all = std::iter::once(name).chain(defaults).chain(words);
    let read = command.try_get_matches_from_mut(all);
    read.map_err(|e| match unknown_option(&e) {
        Some(why) => failed(&command.error(ErrorKind::UnknownArgument, why)),
        None => failed(&e),
    })
}

/// The message about an option that does not exist, in the words of Salt's commands.
fn unknown_option(e: &clap::Error) -> Option<String> {
    let context = |kind| match e.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let name =
        (e.kind() == ErrorKind::UnknownArgument).then(|| context(ContextKind::InvalidArg))??;
    let similar = context(ContextKind::SuggestedArg);
    let similar = similar.map_or(String::new(), |one| format!("; is it {one}?"));
    name.starts_with('-')
        .then(|| format!("no such option: {name}{similar}"))
}

/// Refuses further words behind `--doc` and a name, in the words of Salt's commands.
pub(super) fn only_one(is_doc: bool, more: &[String]) -> Result<(), &'static str> {
    if is_doc && !more.is_empty() {
        return Err("You can only get documentation for one method at one time");
    }
    Ok(())
}

fn usage(command: &mut Command, why: impl std::fmt::Display) -> i32 {
    failed(&command.error(ErrorKind::ArgumentConflict, why))
}

/// Help and version go to standard output with status 0, errors to standard error.
fn failed(e: &clap::Error) -> i32 {
    // A closed standard output is no reason to fail.
    let _ = e.print();
    if e.use_stderr() { EXIT_USAGE } else { 0 }
}
