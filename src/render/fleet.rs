//! A master's data about its minions, for functions and external pillars that need it. A minion that renders for itself
//! has no fleet.

use halite_config::{MasterConfig, SaltSeries};
use halite_store::cached_data::{CachedPart, cached_data};
use halite_store::keys::{IdList, KeyState, KeyStore};
use halite_store::mine::query::{self, Question};
use halite_store::minions::{MinionCache, MinionInventory};
use halite_store::open;
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
    keys: KeyStore,
    minions: MinionCache,
}

impl Fleet {
    /// Opens the stores that `config` names; nothing is read yet.
    pub fn new(config: &MasterConfig) -> Fleet {
        Fleet {
            keys: open::key_store(config),
            minions: open::minion_cache(config),
            config: config.clone(),
        }
    }

    fn accepted(&self) -> Result<MinionInventory<'_>, String> {
        let ids = self.keys.list(KeyState::Accepted);
        Ok(self.known(ids.map_err(|e| e.to_string())?))
    }

    fn known(&self, ids: IdList) -> MinionInventory<'_> {
        MinionInventory {
            ids,
            cache: &self.minions,
            caches_data: self.config.minion_data_cache,
        }
    }

    /// Whether a minion's key is accepted and its cached data match, as `CkMinions.check_minions` sees it.
    pub(super) fn matches(&self, id: &MinionId, target: &Target, nodegroups: &Map) -> bool {
        let key = self.keys.get(KeyState::Accepted, id);
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
        let question = Question {
            asker,
            tgt,
            tgt_type,
            fun,
        };
        let mines = open::mine_store(&self.config);
        Ok(query::get(
            &self.config,
            &mines,
            &self.accepted()?,
            &question,
        ))
    }

    /// Cached data of the minions of a target, or of all.
    pub(super) fn cached(
        &self,
        part: CachedPart,
        tgt: Option<(&Value, &str)>,
    ) -> Result<Map, String> {
        cached_data(&self.config, &self.accepted()?, part, tgt)
    }

    /// Connected minions with their addresses; with `subset`, only these.
    pub(super) fn connected(
        &self,
        subset: Option<&[MinionId]>,
    ) -> Result<BTreeMap<MinionId, IpAddr>, String> {
        connected_ids(&self.config, subset).map_err(|e| e.to_string())
    }

    /// Accepted minions that are not connected.
    pub(super) fn disconnected(&self) -> Result<Vec<MinionId>, String> {
        let connected = self.connected(None)?;
        let known = self.accepted()?;
        let absent = known.ids().iter().filter(|id| !connected.contains_key(*id));
        Ok(absent.cloned().collect())
    }
}
