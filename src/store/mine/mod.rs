//! The mine: values that minions store at the master for each other
//! (`salt/daemons/masterapi.py RemoteFuncs._mine`).

pub mod query;

use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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

/// Fails if one message has more than [`MAX_VALUES`] values: nothing is locked or read for it.
pub(crate) fn check_count(data: &Map) -> io::Result<()> {
    if data.len() > MAX_VALUES {
        return Err(too_large(&format!("have more than {MAX_VALUES} values")));
    }
    Ok(())
}

/// Adds `data` to `all`. Fails if there are then more than [`MAX_VALUES`] values.
pub(crate) fn merge(all: &mut Map, data: Map) -> io::Result<()> {
    check_count(&data)?;
    let known = all.iter().enumerate();
    let mut places: HashMap<String, usize> = known
        .filter_map(|(at, (name, _))| Some((name.as_str()?.to_owned(), at)))
        .collect();
    for (name, value) in data.0 {
        let Value::Str(name) = name else { continue };
        match places.entry(name) {
            Entry::Occupied(place) => all.0[*place.get()].1 = value,
            Entry::Vacant(place) => {
                all.0.push((Value::Str(place.key().clone()), value));
                place.insert(all.len() - 1);
            }
        }
    }
    check_count(all)
}

/// The error for a mine that would exceed its limits.
pub(crate) fn too_large(what: &str) -> io::Error {
    let why = format!("the mine would {what}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
