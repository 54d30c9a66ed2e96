//! Cached grains, pillar or mine of several minions at once
//! (`salt/utils/master.py MasterPillarUtil`, as the runner `cache` uses it).

use super::mine::MineStore;
use super::minions::MinionInventory;
use halite_config::MasterConfig;
use halite_target::Target;
use halite_wire::{Map, Value};

/// Which part of the cached data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedPart {
    /// Grains at the last refresh.
    Grains,
    /// Pillar at the last refresh.
    Pillar,
    /// Values of the mine.
    Mine,
}

/// Id -> data: for the minions of a target (and its type), an empty map if nothing is cached; without a target, for all
/// minions with cached data.
///
/// # Errors
/// The target is invalid, or the cache cannot be read.
pub fn cached_data(
    config: &MasterConfig,
    mine: &dyn MineStore,
    fleet: &MinionInventory,
    part: CachedPart,
    tgt: Option<(&Value, &str)>,
) -> Result<Map, String> {
    let text = |e: std::io::Error| e.to_string();
    let ids = match tgt {
        None => fleet.cache.ids().map_err(text)?,
        Some((tgt, kind)) => {
            let target = Target::parse(tgt, kind, None).map_err(|e| e.to_string())?;
            let expected = target.expected(fleet, config);
            expected.minions.to_vec()
        }
    };
    let mut out = Map::new();
    for id in ids {
        let data = match part {
            _ if !config.minion_data_cache => None,
            CachedPart::Mine => mine.get(&id).map_err(text)?,
            CachedPart::Grains => fleet.cache.get(&id).map(|data| (*data.grains).clone()),
            CachedPart::Pillar => fleet.cache.get(&id).map(|data| (*data.pillar).clone()),
        };
        let data = data.unwrap_or_default();
        if tgt.is_some() || !data.is_empty() {
            out.set(id.as_str(), data);
        }
    }
    Ok(out)
}
