//! A master's data about its minions, for functions and external pillars that need it. A minion that renders for itself
//! has no fleet.

use halite_config::{MasterConfig, SaltSeries};
use halite_store::Stores;
use halite_store::cached_data::{CachedPart, cached_data};
use halite_store::keys::{IdList, KeyState};
use halite_store::mine::query::{self, MineQuery};
use halite_store::minions::MinionInventory;
use halite_store::presence::connected_ids;
use halite_target::{Inventory, Target};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Accepted minions and their cached data.
pub struct Fleet {
    config: MasterConfig,
    stores: Stores,
}

impl Fleet {
    /// Opens the stores that `config` names; nothing is read yet.
    pub fn new(config: &MasterConfig) -> Fleet {
        Fleet {
            stores: Stores::open(config),
            config: config.clone(),
        }
    }

    fn accepted(&self) -> Result<MinionInventory<'_>, String> {
        let ids = self.stores.keys.list(KeyState::Accepted);
        Ok(self.known(ids.map_err(|e| e.to_string())?))
    }

    fn known(&self, ids: IdList) -> MinionInventory<'_> {
        MinionInventory {
            ids,
            cache: &*self.stores.minions,
            caches_data: self.config.minion_data_cache,
        }
    }

    /// Whether a minion's key is accepted and its cached data match, as `CkMinions.check_minions` sees it.
    pub(super) fn matches(&self, id: &MinionId, target: &Target, nodegroups: &Map) -> bool {
        let key = self.stores.keys.get(KeyState::Accepted, id);
        let known = self.known(Arc::new(vec![id.clone()]));
        key.is_ok_and(|key| key.is_some())
            && !target.expected(&known, nodegroups).minions.is_empty()
    }

    /// Values of the mine that the pillar of `id` may see.
    ///
    /// Minions may restrict values to some askers. Before 3008 the asker is the minion of the pillar; since then it
    /// is the master, which no target matches.
    pub(super) fn mine(
        &self,
        id: &MinionId,
        tgt: &Value,
        tgt_type: &str,
        fun: &Value,
    ) -> Result<Map, String> {
        let asker = match self.config.salt_series {
            SaltSeries::S3006 | SaltSeries::S3007 => id.as_str(),
            SaltSeries::S3008 => self.config.id.as_str(),
        };
        let request = MineQuery {
            asker,
            tgt,
            tgt_type,
            fun,
        };
        Ok(query::get(
            &self.config,
            &*self.stores.mine,
            &self.accepted()?,
            &request,
        ))
    }

    /// Cached data of the minions of a target, or of all.
    pub(super) fn cached(
        &self,
        part: CachedPart,
        tgt: Option<(&Value, &str)>,
    ) -> Result<Map, String> {
        let mine = &*self.stores.mine;
        cached_data(&self.config, mine, &self.accepted()?, part, tgt)
    }

    /// Connected minions with their addresses; with `subset`, only these.
    pub(super) fn connected(
        &self,
        subset: Option<&[MinionId]>,
    ) -> Result<BTreeMap<MinionId, IpAddr>, String> {
        connected_ids(&self.config, &self.stores, subset).map_err(|e| e.to_string())
    }

    /// Accepted minions that are not connected.
    pub(super) fn disconnected(&self) -> Result<Vec<MinionId>, String> {
        let connected = self.connected(None)?;
        let known = self.accepted()?;
        let absent = known.ids().iter().filter(|id| !connected.contains_key(*id));
        Ok(absent.cloned().collect())
    }
}
