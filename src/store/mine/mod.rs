//! The mine: values that minions store at the master for each other
//! (`salt/daemons/masterapi.py RemoteFuncs._mine`).

pub mod query;

use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::io;

/// Most bytes in the mine of one minion.
pub const MAX_MINE: usize = 16 << 20;
/// Most values in the mine of one minion.
pub const MAX_VALUES: usize = 10_000;

/// Where mines are stored.
pub trait MineStore: Send + Sync {
    /// All values of a minion by function; `None` if it has no mine.
    ///
    /// # Errors
    /// It cannot be read, is damaged or larger than [`MAX_MINE`].
    fn get(&self, id: &MinionId) -> io::Result<Option<Map>>;

    /// Adds values to those of a minion, or with `clear` replaces all of them.
    ///
    /// # Errors
    /// More than [`MAX_VALUES`] values or [`MAX_MINE`] bytes (`InvalidInput`), or it cannot be written.
    fn put(&self, id: &MinionId, data: Map, clear: bool) -> io::Result<()>;

    /// Removes the value of one function; `false` if the minion has no mine.
    fn delete(&self, id: &MinionId, fun: &str) -> io::Result<bool>;

    /// Removes all values; `false` if the minion has no mine.
    fn flush(&self, id: &MinionId) -> io::Result<bool>;
}

/// Adds `data` to `all`. Fails if there are then more than [`MAX_VALUES`] values.
pub(crate) fn merge(all: &mut Map, data: Map) -> io::Result<()> {
    for (name, value) in data.0 {
        if let halite_wire::Value::Str(name) = name {
            all.set(name, value);
        }
    }
    if all.len() > MAX_VALUES {
        return Err(too_large(&format!("have more than {MAX_VALUES} values")));
    }
    Ok(())
}

/// The error for a mine that would exceed its limits.
pub(crate) fn too_large(what: &str) -> io::Error {
    let why = format!("the mine would {what}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
