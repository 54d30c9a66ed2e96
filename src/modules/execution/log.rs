//! `log`: writes to the minion's log (`salt/modules/logmod.py`).

use super::Call;
use super::declare::{Arg, Function, Module, Result, req};
use log::Level;

const MESSAGE: &[Arg] = &[req("message")];

pub(super) const MODULE: Module = Module {
    name: "log",
    functions: &[
        Function::new(
            "debug",
            |c| write(c, Level::Debug),
            "Logs a message at level debug.",
        )
        .args(MESSAGE),
        Function::new(
            "info",
            |c| write(c, Level::Info),
            "Logs a message at level info.",
        )
        .args(MESSAGE),
        Function::new(
            "warning",
            |c| write(c, Level::Warn),
            "Logs a message at level warning.",
        )
        .args(MESSAGE),
        Function::new(
            "error",
            |c| write(c, Level::Error),
            "Logs a message at level error.",
        )
        .args(MESSAGE),
        Function::new(
            "critical",
            |c| write(c, Level::Error),
            "Logs a message at level error, the highest here.",
        )
        .args(MESSAGE),
        Function::new(
            "exception",
            |c| write(c, Level::Error),
            "Logs a message at level error.",
        )
        .args(MESSAGE),
    ],
};

fn write(call: &mut Call<'_>, level: Level) -> Result {
    log::log!(level, "{}", call.text("message").unwrap_or_default());
    Ok(true.into())
}
