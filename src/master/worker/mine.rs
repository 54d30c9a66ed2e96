//! The mine's commands (`salt/daemons/masterapi.py RemoteFuncs._mine*`; reference `salt-protocol.md` 8). A
//! minion writes only to its own mine: the id is that of its channel.

use super::context::Context;
use halite_store::keys::KeyState;
use halite_store::mine::query::{self, MineQuery};
use halite_store::minions::MinionInventory;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;

/// `_mine_get`: values of other minions.
pub(crate) fn get(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, ExitError> {
    let (Some(tgt), Some(fun)) = (load.get("tgt"), load.get("fun")) else {
        return Ok(Map::new().into());
    };
    // `expr_form` is sent by minions before 2017.7.
    let kind = load.get("tgt_type").or_else(|| load.get("expr_form"));
    let kind = match kind {
        None => "glob",
        Some(Value::Str(kind)) => kind,
        Some(_) => return Ok(Map::new().into()),
    };
    let fleet = MinionInventory {
        ids: worker.stores.keys.list(KeyState::Accepted)?,
        cache: &*worker.stores.minions,
        caches_data: worker.config.minion_data_cache,
    };
    let request = MineQuery {
        asker: id.as_str(),
        tgt,
        tgt_type: &kind.to_lowercase(),
        fun,
    };
    Ok(query::get(&worker.config, &*worker.stores.mine, &fleet, &request).into())
}

/// Whether mine data is stored.
fn is_enabled(worker: &Context) -> bool {
    worker.config.minion_data_cache || worker.config.enforce_mine_cache
}

/// `_mine`: adds to the minion's own values, or replaces them. Stock fails on `clear`, because its code uses an
/// undefined name; this does what was intended.
pub(crate) fn put(worker: &Context, id: &MinionId, mut load: Map) -> Result<Value, ExitError> {
    let Some(data) = load.remove("data") else {
        return Ok(Map::new().into());
    };
    if !is_enabled(worker) {
        return Ok(true.into());
    }
    let clear = load.get("clear").is_some_and(Value::truthy);
    let Value::Map(data) = data else {
        log::warn!(minion:% = id; "{id} sent mine data that is not a map; not stored");
        return Ok(false.into());
    };
    changed(
        worker,
        id,
        worker.stores.mine.put(id, data, clear).map(|()| true),
    )
}

/// `_mine_delete`: removes one of the minion's own values.
pub(crate) fn delete(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, ExitError> {
    let Some(fun) = load.get("fun") else {
        return Ok(Map::new().into());
    };
    if !is_enabled(worker) {
        return Ok(true.into());
    }
    match fun.as_str() {
        // Stock's cache returns an empty map for a missing mine, and that counts as success.
        Some(fun) => changed(worker, id, worker.stores.mine.delete(id, fun).map(|_| true)),
        None => Ok(true.into()),
    }
}

/// `_mine_flush`: removes all of the minion's own values; false if there were none.
pub(crate) fn flush(worker: &Context, id: &MinionId) -> Result<Value, ExitError> {
    if !is_enabled(worker) {
        return Ok(true.into());
    }
    changed(worker, id, worker.stores.mine.flush(id))
}

fn changed(worker: &Context, id: &MinionId, result: io::Result<bool>) -> Result<Value, ExitError> {
    match result {
        Ok(done) => {
            worker.stored("mine", id);
            Ok(done.into())
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            log::warn!(minion:% = id; "the mine of {id} could not be changed: {e}");
            Ok(false.into())
        }
        Err(e) => Err(e.into()),
    }
}
