//! What this host knows about the minions: accepted ids, cached grains and pillar.

use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::keys::{IdList, KeyState};
use halite_store::minions::{MinionCache, MinionInventory};
use halite_target::MinionId;
use halite_wire::Map;
use std::io;
use std::sync::Arc;

/// Read access to the stores from outside the master's processes.
pub struct Fleet {
    ids: IdList,
    cache: Arc<dyn MinionCache>,
    caches_data: bool,
}

impl Fleet {
    /// Lists the accepted keys of the master described by `config`.
    pub fn open(config: &MasterConfig) -> io::Result<Fleet> {
        let stores = Stores::open(config);
        Ok(Fleet {
            ids: stores.keys.list(KeyState::Accepted)?,
            cache: stores.minions,
            caches_data: config.minion_data_cache,
        })
    }

    /// The inventory for matching targets.
    pub fn inventory(&self) -> MinionInventory<'_> {
        MinionInventory {
            ids: self.ids.clone(),
            cache: &*self.cache,
            caches_data: self.caches_data,
        }
    }

    /// Accepted ids.
    pub fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    /// Cached grains of one minion.
    pub fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.get(id).map(|data| data.grains.clone())
    }
}
