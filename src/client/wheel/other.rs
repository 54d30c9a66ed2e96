//! `minions.connected` and `error.error`.

use super::{Function, WheelContext};
use crate::call::{Args, RunError};
use halite_store::Stores;
use halite_store::presence::connected_ids;
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "minions.connected",
        args: &[],
        doc: "Ids of the minions that hold a connection to the master.",
        run: connected,
    },
    Function {
        name: "error.error",
        args: &["?name", "?message"],
        doc: "Fails with the error of that name, for tests of clients.",
        run: error,
    },
];

fn connected(context: &WheelContext, _: &Args) -> Result<Value, RunError> {
    let ids = connected_ids(context.config, &Stores::open(context.config), None)?;
    Ok(ids.keys().map(Value::from).collect::<Vec<_>>().into())
}

fn error(_: &WheelContext, args: &Args) -> Result<Value, RunError> {
    match args.text(0, "name") {
        None => Ok(Value::Map(Map::new())),
        Some(name) => Err(RunError::Raised(
            name,
            args.text(1, "message").unwrap_or_default(),
        )),
    }
}
