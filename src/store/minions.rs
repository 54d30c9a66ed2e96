//! Grains and pillar of the minions, as of their last refresh.

use super::keys::{IdList, Version};
use halite_target::{DataQuery, Inventory, QueryResults};
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::io;
use std::sync::Arc;

/// What is cached of one minion.
#[derive(Debug, Default)]
pub struct MinionData {
    /// Its grains at the last refresh.
    pub grains: Arc<Map>,
    /// Its pillar at the last refresh.
    pub pillar: Arc<Map>,
}

/// One part of what is cached of a minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPart {
    /// Its grains.
    Grains,
    /// Its pillar.
    Pillar,
}

/// Versions of the grains and of the pillar of one minion.
pub type DataVersion = [Version; 2];

/// Where grains and pillar of minions are cached.
pub trait MinionCache: Send + Sync {
    /// Stores grains and pillar of a minion, unless the same are stored already.
    fn store(&self, id: &MinionId, grains: &Map, pillar: &Map) -> io::Result<()>;

    /// What is cached of `id`; `None` if nothing is. Kept in memory: for those who ask often.
    fn get(&self, id: &MinionId) -> Option<Arc<MinionData>>;

    /// As [`MinionCache::get`], for those who ask once for each version and keep their own copy.
    fn peek(&self, id: &MinionId) -> Option<MinionData>;

    /// Changes whenever something is stored for `id`; `None` if nothing is.
    fn version(&self, id: &MinionId) -> Option<DataVersion>;

    /// Minions of which grains are cached, sorted.
    fn ids(&self) -> io::Result<Vec<MinionId>>;

    /// How the data of each of `ids`, the accepted minions, answer one question of a target; `None` without an index: then
    /// the data of each minion are asked.
    fn query<'a>(
        &'a self,
        _ids: &IdList,
        _question: DataQuery<'a>,
    ) -> Option<Box<dyn QueryResults + 'a>> {
        None
    }

    /// Takes in changes that other processes made. To be called from time to time by long-running readers; without
    /// it [`MinionCache::query`] is as correct, but slower.
    fn poll_changes(&self) {}

    /// Removes everything that is cached, in any layout, of minions that `keep` does not name. What cannot be
    /// removed is logged.
    ///
    /// # Errors
    /// The cache cannot be listed.
    fn retain(&self, keep: &dyn Fn(&MinionId) -> bool) -> io::Result<()>;

    /// Removes the grains or the pillar of `id`.
    fn clear(&self, id: &MinionId, part: DataPart) -> io::Result<()>;

    /// Removes grains, pillar and mine of `id`.
    fn remove(&self, id: &MinionId) -> io::Result<()>;
}

/// Accepted minions with what is cached of them.
pub struct MinionInventory<'a> {
    /// Accepted ids.
    pub ids: IdList,
    /// Grains and pillar.
    pub cache: &'a dyn MinionCache,
    /// Option `minion_data_cache`.
    pub caches_data: bool,
}

impl Inventory for MinionInventory<'_> {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    fn contains(&self, id: &str) -> bool {
        self.ids
            .binary_search_by(|known| known.as_str().cmp(id))
            .is_ok()
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.get(id).map(|data| data.grains.clone())
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.get(id).map(|data| data.pillar.clone())
    }

    fn caches_data(&self) -> bool {
        self.caches_data
    }

    fn query<'b>(&'b self, question: DataQuery<'b>) -> Option<Box<dyn QueryResults + 'b>> {
        self.cache.query(&self.ids, question)
    }
}
