//! Commands as stock's modules run them through `__salt__["cmd.run"]` and its neighbours: the
//! job's return code follows them, the log names them, and no shell reads their words.

use super::{Call, CallError};
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value};

/// What `cmd.run_all` says.
#[derive(Clone, Debug, Default)]
pub struct CommandOutput {
    /// Return code.
    pub retcode: i64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// `cmd.run`: what a program prints, errors included.
///
/// # Errors
/// It cannot be started.
pub fn run<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<String> {
    text(call, "cmd.run", argv, Map::new())
}

/// `cmd.run` whose return code does not become the job's.
///
/// # Errors
/// It cannot be started.
pub fn run_anyway<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<String> {
    text(call, "cmd.run", argv, map! {"ignore_retcode" => true})
}

/// `cmd.run_stdout`.
///
/// # Errors
/// It cannot be started.
pub fn stdout<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<String> {
    text(call, "cmd.run_stdout", argv, Map::new())
}

/// `cmd.run_all`.
///
/// # Errors
/// It cannot be started.
pub fn all<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<CommandOutput> {
    all_with(call, argv, Map::new())
}

/// `cmd.run_all` as the map that functions hand on.
///
/// # Errors
/// It cannot be started.
pub fn whole<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result {
    with(call, "cmd.run_all", argv, Map::new())
}

/// `cmd.run_all` with further options.
///
/// # Errors
/// It cannot be started.
pub fn all_with<T: AsRef<str>>(
    call: &mut Call<'_>,
    argv: &[T],
    options: Map,
) -> Result<CommandOutput> {
    let ret = with(call, "cmd.run_all", argv, options)?;
    let map = ret.as_map().cloned().unwrap_or_default();
    let text = |key| map.str(key).unwrap_or_default().to_owned();
    Ok(CommandOutput {
        retcode: map.int("retcode").unwrap_or(1),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// `cmd.retcode`, which does not become the job's.
///
/// # Errors
/// It cannot be started.
pub fn retcode<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<i64> {
    let options = map! {"ignore_retcode" => true};
    Ok(with(call, "cmd.retcode", argv, options)?
        .as_int()
        .unwrap_or(1))
}

/// Whether a program ends with 0 (`not cmd.retcode`).
///
/// # Errors
/// It cannot be started.
pub fn succeeds<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<bool> {
    Ok(!with(call, "cmd.retcode", argv, Map::new())?.truthy())
}

/// A line that the configuration, never an argument, gives to the shell: the `ps` grain.
///
/// # Errors
/// The shell cannot be started.
pub fn line(call: &mut Call<'_>, line: &str) -> Result<String> {
    call.retcode = 0.into();
    let options = map! {"python_shell" => true};
    let ret = call.salt("cmd.run", vec![line.into()], options)?;
    Ok(ret.as_str().unwrap_or_default().to_owned())
}

fn text<T: AsRef<str>>(call: &mut Call<'_>, fun: &str, argv: &[T], options: Map) -> Result<String> {
    let ret = with(call, fun, argv, options)?;
    Ok(ret.as_str().unwrap_or_default().to_owned())
}

fn with<T: AsRef<str>>(call: &mut Call<'_>, fun: &str, argv: &[T], mut options: Map) -> Result {
    let argv: Vec<Value> = argv.iter().map(|word| word.as_ref().into()).collect();
    options.set("python_shell", false);
    // In stock every command sets the job's return code anew.
    call.retcode = 0.into();
    call.salt(fun, vec![argv.into()], options)
}

/// The check of `salt.utils.decorators.path.which`.
///
/// # Errors
/// `CommandNotFoundError`.
pub fn need(program: &str) -> Result<()> {
    match super::which(program) {
        Some(_) => Ok(()),
        None => Err(CallError::CommandNotFound(format!(
            "The '{program}' binary was not found in $PATH."
        ))),
    }
}

/// Whether a function is only to say what it would do (`salt.utils.args.test_mode`).
pub fn test_mode(call: &Call<'_>) -> bool {
    let named = call.bound.kwargs.iter().any(|(key, value)| {
        super::python::str(key).eq_ignore_ascii_case("test") && super::nested::is_true(value)
    });
    named || super::nested::is_true(call.arg("test"))
}
