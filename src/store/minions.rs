//! Cached grains and pillar of minions, as of their last refresh.

use super::keys::{IdList, Version};
use halite_target::{DataQuery, Inventory, QueryResults};
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::io;
use std::sync::Arc;

/// Cached data of one minion.
#[derive(Debug, Default)]
pub struct MinionData {
    /// Its grains at the last refresh.
    pub grains: Arc<Map>,
    /// Its pillar at the last refresh.
    pub pillar: Arc<Map>,
}

/// Most bytes of the grains of one minion: each worker reads those of all minions for a target by grains.
pub const MAX_GRAINS: usize = 1 << 20;

/// Fails if the encoded grains of a minion are larger than [`MAX_GRAINS`].
pub(crate) fn check_size(grains: &[u8]) -> io::Result<()> {
    if grains.len() <= MAX_GRAINS {
        return Ok(());
    }
    let why = format!("the grains are larger than {MAX_GRAINS} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// A part of the cached data of a minion.
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
    /// Stores grains and pillar of a minion, unless the same data is already stored.
    ///
    /// # Errors
    /// The grains are larger than [`MAX_GRAINS`] (`InvalidInput`), or they cannot be written.
    fn store(&self, id: &MinionId, grains: &Map, pillar: &Map) -> io::Result<()>;

    /// The cached data of `id`; `None` if there is none. Keeps it in memory, for frequent reads.
    fn get(&self, id: &MinionId) -> Option<Arc<MinionData>>;

    /// Like [`MinionCache::get`], for callers that read each version once and keep their own copy.
    fn peek(&self, id: &MinionId) -> Option<MinionData>;

    /// Changes whenever something is stored for `id`; `None` if nothing is.
    fn version(&self, id: &MinionId) -> Option<DataVersion>;

    /// Minions with cached grains, sorted.
    fn ids(&self) -> io::Result<Vec<MinionId>>;

    /// Whether the data of each of `ids`, the accepted minions, matches one term of a target. `None` if there is no
    /// index; then the caller reads the data of each minion.
    fn query<'a>(
        &'a self,
        _ids: &IdList,
        _query: DataQuery<'a>,
    ) -> Option<Box<dyn QueryResults + 'a>> {
        None
    }

    /// Reads notifications about changes by other processes. Long-running readers should call this from time to time;
    /// without it, [`MinionCache::query`] is still correct, but slower.
    fn poll_changes(&self) {}

    /// Removes all cached data, in any layout, of minions for which `keep` is false. Failures to remove
    /// are logged.
    ///
    /// # Errors
    /// The cache cannot be listed.
    fn retain(&self, keep: &dyn Fn(&MinionId) -> bool) -> io::Result<()>;

    /// Removes the grains or the pillar of `id`.
    fn clear(&self, id: &MinionId, part: DataPart) -> io::Result<()>;

    /// Removes grains, pillar and mine of `id`.
    fn remove(&self, id: &MinionId) -> io::Result<()>;
}

/// Accepted minions with their cached data.
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

    fn query<'b>(&'b self, query: DataQuery<'b>) -> Option<Box<dyn QueryResults + 'b>> {
        self.cache.query(&self.ids, query)
    }
}
