//! Which minions are connected: those with cached grains, one of whose addresses has an
//! established connection to the publish port (`salt/utils/minions.py CkMinions.connected_ids`).
//!
//! As in Salt, minions behind one address cannot be distinguished, and a minion without cached grains
//! is never found. Agents of a gateway are connected if the gateway lists them.

use super::Stores;
use super::gateways::GatewayStore;
use super::minions::{DataVersion, MinionCache};
use super::relayed;
use halite_config::MasterConfig;
use halite_sys::net;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Minions and the address that each is connected from.
pub type Addresses = BTreeMap<MinionId, IpAddr>;

/// What the other masters of a cluster have told about minions that are connected to them.
pub trait Elsewhere: Send + Sync {
    /// Replaces the list.
    ///
    /// # Errors
    /// It cannot be stored.
    fn put(&self, connected: &Addresses) -> io::Result<()>;

    /// The list is still right: without this it counts for 20 seconds only, in case its writer has ended.
    ///
    /// # Errors
    /// It cannot be changed.
    fn keep(&self) -> io::Result<()>;

    /// The list.
    fn get(&self) -> Addresses;
}

/// When minions were connected last: what somebody who looks now and then has found.
pub trait LastSeen: Send + Sync {
    /// Replaces the list.
    ///
    /// # Errors
    /// It cannot be stored.
    fn put(&self, all: &BTreeMap<MinionId, i64>) -> io::Result<()>;

    /// Unix seconds by id.
    fn get(&self) -> BTreeMap<MinionId, i64>;

    /// These are connected at `now`, in Unix seconds. Of the others, those are forgotten for which `keep` is false.
    ///
    /// # Errors
    /// It cannot be stored.
    fn note(
        &self,
        connected: &Addresses,
        now: i64,
        keep: &dyn Fn(&MinionId) -> bool,
    ) -> io::Result<()> {
        let before = self.get();
        let mut all = before.clone();
        all.retain(|id, _| keep(id));
        all.extend(connected.keys().map(|id| (id.clone(), now)));
        if all == before {
            return Ok(());
        }
        self.put(&all)
    }
}

/// Connected minions and the address of each, at all masters of a cluster: of all with cached grains, or of `subset`.
///
/// # Errors
/// The cache cannot be listed.
pub fn connected_ids(
    config: &MasterConfig,
    stores: &Stores,
    subset: Option<&[MinionId]>,
) -> io::Result<Addresses> {
    ConnectedHere::default().look_everywhere(config, stores, subset)
}

/// The minions that are connected to other masters; without a cluster there are none.
pub fn elsewhere(config: &MasterConfig, stores: &Stores) -> Addresses {
    match config.cluster() {
        Some(_) => stores.elsewhere.get(),
        None => Addresses::new(),
    }
}

/// Minions that are connected to this master. Remembers addresses in grains, for those who look again and again.
#[derive(Debug, Default)]
pub struct ConnectedHere {
    known: HashMap<MinionId, (DataVersion, Vec<IpAddr>)>,
}

impl ConnectedHere {
    /// Who is connected now, and from where: of all with cached grains, or of `subset`.
    ///
    /// # Errors
    /// The cache cannot be listed.
    pub fn look(
        &mut self,
        config: &MasterConfig,
        stores: &Stores,
        subset: Option<&[MinionId]>,
    ) -> io::Result<Addresses> {
        if !config.minion_data_cache {
            return Ok(Addresses::new());
        }
        let gateways = stores.gateways.all();
        let mut found = of_gateways(&gateways, subset);
        let peers = peers(config);
        if peers.is_empty() {
            return Ok(found);
        }
        let mut ids = match subset {
            Some(ids) => ids.to_vec(),
            None => stores.minions.ids()?,
        };
        // Agents may have the same address as a minion on the same host.
        ids.retain(|id| !gateways.iter().any(|gateway| gateway.knows(id)));
        ids.sort_unstable();
        self.known.retain(|id, _| ids.binary_search(id).is_ok());
        for id in ids {
            let known = self.addresses(&*stores.minions, &id);
            let address = known.iter().find(|address| peers.contains(address));
            found.extend(address.map(|address| (id, *address)));
        }
        Ok(found)
    }

    /// As [`connected_ids`].
    ///
    /// # Errors
    /// The cache cannot be listed.
    pub fn look_everywhere(
        &mut self,
        config: &MasterConfig,
        stores: &Stores,
        subset: Option<&[MinionId]>,
    ) -> io::Result<Addresses> {
        if !config.minion_data_cache {
            return Ok(Addresses::new());
        }
        let mut found = elsewhere(config, stores);
        if let Some(subset) = subset {
            found.retain(|id, _| subset.contains(id));
        }
        found.extend(self.look(config, stores, subset)?);
        Ok(found)
    }

    fn addresses(&mut self, cache: &dyn MinionCache, id: &MinionId) -> &[IpAddr] {
        let version = cache.version(id);
        let is_known = |(known, _): &(DataVersion, _)| Some(*known) == version;
        if !self.known.get(id).is_some_and(is_known) {
            self.known.remove(id);
            // Others keep their own copies of what they need of it.
            if let (Some(version), Some(data)) = (version, cache.peek(id)) {
                let addresses = addresses(&data.grains).collect();
                self.known.insert(id.clone(), (version, addresses));
            }
        }
        self.known.get(id).map_or(&[], |(_, addresses)| addresses)
    }
}

/// The minions that may be connected, and how many connections each address has.
#[derive(Debug, Default)]
pub struct Connected {
    /// Minions of this master by the address that one of them is connected from.
    pub minions: Addresses,
    /// Minions of other masters of the cluster.
    pub elsewhere: Addresses,
    /// Connections by address; those of this host count for each of its addresses.
    pub connections: BTreeMap<IpAddr, usize>,
}

impl Connected {
    /// Whether a minion may be connected, to any master.
    pub fn contains(&self, id: &MinionId) -> bool {
        self.minions.contains_key(id) || self.elsewhere.contains_key(id)
    }

    /// Minions that share an address with too few connections for all of them: some are not connected.
    pub fn doubtful(&self) -> BTreeMap<IpAddr, Vec<MinionId>> {
        let mut groups: BTreeMap<IpAddr, Vec<MinionId>> = BTreeMap::new();
        for (id, address) in &self.minions {
            groups.entry(*address).or_default().push(id.clone());
        }
        groups.retain(|address, ids| {
            let connections = self.connections.get(address).copied();
            ids.len() > connections.unwrap_or(0)
        });
        groups
    }
}

/// Which of `ids` may be connected, for callers that have their grains. Ignores the lists of gateways at this master.
pub fn connected_among(
    config: &MasterConfig,
    stores: &Stores,
    ids: &[MinionId],
    grains: &dyn Fn(&MinionId) -> Option<Arc<Map>>,
) -> Connected {
    let mut connections = relayed::peer_counts(config);
    let own = net::own_addresses();
    let here = |address: &IpAddr| address.is_loopback() || own.contains(address);
    let local: usize = connections
        .iter()
        .filter(|(address, _)| here(address))
        .map(|(_, count)| count)
        .sum();
    if local > 0 {
        // A minion on this host: its grains name the host's other addresses.
        connections.retain(|address, _| !address.is_loopback());
        connections.extend(own.iter().map(|address| (*address, local)));
    }
    let peers = connections.keys().copied().collect();
    Connected {
        minions: among(grains, ids.to_vec(), &peers),
        elsewhere: elsewhere(config, stores),
        connections,
    }
}

/// Addresses connected to the publish port. A minion on this host may use any of its addresses.
pub fn peers(config: &MasterConfig) -> BTreeSet<IpAddr> {
    let mut peers: BTreeSet<IpAddr> = relayed::peer_counts(config).into_keys().collect();
    if peers.iter().any(IpAddr::is_loopback) {
        // Its grains name the host's other addresses.
        peers.retain(|address| !address.is_loopback());
        peers.extend(net::own_addresses());
    }
    peers
}

fn of_gateways(gateways: &[Arc<dyn GatewayStore>], subset: Option<&[MinionId]>) -> Addresses {
    let mut found = Addresses::new();
    for gateway in gateways {
        found.extend(gateway.connected());
    }
    if let Some(subset) = subset {
        found.retain(|id, _| subset.contains(id));
    }
    found
}

fn among(
    grains: &dyn Fn(&MinionId) -> Option<Arc<Map>>,
    ids: Vec<MinionId>,
    peers: &BTreeSet<IpAddr>,
) -> Addresses {
    ids.into_iter()
        .filter_map(|id| {
            let grains = grains(&id)?;
            let address = addresses(&grains).find(|address| peers.contains(address))?;
            Some((id, address))
        })
        .collect()
}

/// The addresses that a minion's grains name.
pub fn addresses(grains: &Map) -> impl Iterator<Item = IpAddr> {
    ["ipv4", "ipv6"]
        .iter()
        .filter_map(|grain| grains.get(grain))
        .flat_map(Value::str_list)
        .filter_map(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minions_are_in_doubt_where_connections_are_missing() {
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        let ids =
            |ids: &[&str]| -> Vec<MinionId> { ids.iter().map(|id| id.parse().unwrap()).collect() };
        let minions = [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3)];
        let minions = minions.map(|(id, n)| (id.parse().unwrap(), address(n)));
        let connected = Connected {
            minions: BTreeMap::from(minions),
            elsewhere: BTreeMap::from([("f".parse().unwrap(), address(1))]),
            connections: BTreeMap::from([(address(1), 1), (address(2), 2), (address(3), 9)]),
        };
        let doubtful = BTreeMap::from([(address(1), ids(&["a", "b"]))]);
        assert_eq!(connected.doubtful(), doubtful);
        let known = |id: &str| connected.contains(&id.parse().unwrap());
        assert!(known("a") && known("f") && !known("g"));
    }

    #[test]
    fn a_minion_is_found_by_an_address_in_its_grains() {
        let cache = crate::memory::stores().minions;
        let list = |a: &str| Value::from(vec!["127.0.0.1".to_owned(), a.to_owned()]);
        for (id, grains) in [
            ("a", halite_wire::map! {"ipv4" => list("10.0.0.2")}),
            ("b", halite_wire::map! {"ipv4" => list("10.0.0.3")}),
            ("c", halite_wire::map! {"ipv6" => list("fd00::7")}),
            ("d", halite_wire::map! {"ipv4" => "none of it"}),
        ] {
            cache
                .store(&id.parse().unwrap(), &grains, &halite_wire::Map::new())
                .unwrap();
        }
        let peers = ["10.0.0.2", "fd00::7"].map(|a| a.parse().unwrap());
        let grains = |id: &MinionId| cache.get(id).map(|data| data.grains.clone());
        let found = among(&grains, cache.ids().unwrap(), &BTreeSet::from(peers));
        let ids: Vec<_> = found.keys().map(MinionId::as_str).collect();
        assert_eq!(ids, ["a", "c"]);
    }
}
