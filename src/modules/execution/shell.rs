//! Runs commands like stock's modules through `__salt__["cmd.run"]` and related functions: sets the job's return
//! code, logs the command, never uses a shell.

use super::{Call, CallError};
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value};

/// The result of `cmd.run_all`.
#[derive(Clone, Debug, Default)]
pub struct CommandOutput {
    /// Return code.
    pub retcode: i64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// `cmd.run`: a program's output, including standard error.
///
/// # Errors
/// It cannot be started.
pub fn run<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<String> {
    text(call, "cmd.run", argv, Map::new())
}

/// `cmd.run` without setting the job's return code.
///
/// # Errors
/// It cannot be started.
pub fn run_tolerant<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<String> {
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
pub fn run_all<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<CommandOutput> {
    run_all_with(call, argv, Map::new())
}

/// `cmd.run_all` as the map that functions return.
///
/// # Errors
/// It cannot be started.
pub fn run_all_map<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result {
    run_function(call, "cmd.run_all", argv, Map::new())
}

/// `cmd.run_all` with more options.
///
/// # Errors
/// It cannot be started.
pub fn run_all_with<T: AsRef<str>>(
    call: &mut Call<'_>,
    argv: &[T],
    options: Map,
) -> Result<CommandOutput> {
    let ret = run_function(call, "cmd.run_all", argv, options)?;
    let map = ret.as_map().cloned().unwrap_or_default();
    let text = |key| map.str(key).unwrap_or_default().to_owned();
    Ok(CommandOutput {
        retcode: map.int("retcode").unwrap_or(1),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// `cmd.retcode`, without setting the job's return code.
///
/// # Errors
/// It cannot be started.
pub fn retcode<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<i64> {
    let options = map! {"ignore_retcode" => true};
    Ok(run_function(call, "cmd.retcode", argv, options)?
        .as_int()
        .unwrap_or(1))
}

/// Whether a program exits with 0 (`not cmd.retcode`).
///
/// # Errors
/// It cannot be started.
pub fn succeeds<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result<bool> {
    Ok(!run_function(call, "cmd.retcode", argv, Map::new())?.truthy())
}

/// Runs a shell line from the configuration (never from an argument): the `ps` grain.
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
    let ret = run_function(call, fun, argv, options)?;
    Ok(ret.as_str().unwrap_or_default().to_owned())
}

fn run_function<T: AsRef<str>>(
    call: &mut Call<'_>,
    fun: &str,
    argv: &[T],
    mut options: Map,
) -> Result {
    let argv: Vec<Value> = argv.iter().map(|word| word.as_ref().into()).collect();
    options.set("python_shell", false);
    // In stock every command resets the job's return code.
    call.retcode = 0.into();
    call.salt(fun, vec![argv.into()], options)
}

/// The check of `salt.utils.decorators.path.which`.
///
/// # Errors
/// `CommandNotFoundError`.
pub fn require(program: &str) -> Result<()> {
    match super::which(program) {
        Some(_) => Ok(()),
        None => Err(CallError::CommandNotFound(format!(
            "The '{program}' binary was not found in $PATH."
        ))),
    }
}

/// Whether a function should only report what it would do (`salt.utils.args.test_mode`).
pub fn test_mode(call: &Call<'_>) -> bool {
    let named = call.bound.kwargs.iter().any(|(key, value)| {
        super::python::str(key).eq_ignore_ascii_case("test") && super::nested::is_true(value)
    });
    named || super::nested::is_true(call.arg("test"))
}
