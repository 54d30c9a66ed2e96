//! Programs, run through `cmd.*` so that their return codes count as stock's do.

use super::super::declare::Result;
use super::super::{Call, python};
use super::os::Done;
use crate::map;
use crate::wire::{Map, Value};

fn words<T: AsRef<str>>(argv: &[T]) -> Vec<Value> {
    vec![Value::Array(
        argv.iter().map(|w| w.as_ref().into()).collect(),
    )]
}

/// `cmd.run_all`.
///
/// # Errors
/// The program cannot be started.
pub fn all<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Result {
    call.salt("cmd.run_all", words(argv), map! {"python_shell" => false})
}

/// `cmd.run`.
///
/// # Errors
/// The program cannot be started.
pub fn output<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Done<String> {
    text(call, argv, map! {"python_shell" => false})
}

/// `cmd.run` with `ignore_retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn output_ignoring<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Done<String> {
    text(
        call,
        argv,
        map! {"python_shell" => false, "ignore_retcode" => true},
    )
}

fn text<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T], how: Map) -> Done<String> {
    Ok(python::str(&call.salt("cmd.run", words(argv), how)?))
}

/// `not cmd.retcode`.
///
/// # Errors
/// The program cannot be started.
pub fn succeeds<T: AsRef<str>>(call: &mut Call<'_>, argv: &[T]) -> Done<bool> {
    let code = call.salt("cmd.retcode", words(argv), map! {"python_shell" => false})?;
    Ok(!code.truthy())
}
