//! Figures about the fleet: keys by state, connections, versions, jobs with missing returns.

use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_store::minions::DataVersion;
use halite_store::presence::peers;
use halite_wire::Value;
use halite_wire::ids::{Jid, MinionId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long figures are cached: the stores are not read for every scrape.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// Seconds: only jobs started since then are checked.
const RECENT: i64 = 600;

/// Figures about the fleet.
#[derive(Debug, Default, PartialEq)]
pub struct Figures {
    /// Keys by the name of their state.
    pub keys: BTreeMap<&'static str, usize>,
    /// Minions with an accepted key whose address holds a connection to the publish port, and agents that their gateway
    /// lists as connected.
    pub connected: usize,
    /// Other minions with an accepted key.
    pub silent: usize,
    /// Minions by the version in their grains; an empty key where it is unknown.
    pub versions: BTreeMap<String, usize>,
    /// Jobs of the last ten minutes with missing returns.
    pub waiting_jobs: usize,
}

/// Cached facts from a minion's grains.
struct Known {
    stored: DataVersion,
    version: String,
    addresses: Vec<IpAddr>,
}

/// Collects the figures when they are requested and the cached ones are old.
pub struct FleetView {
    stores: Stores,
    known: HashMap<MinionId, Known>,
    /// Jobs that have all their returns.
    complete: BTreeSet<Jid>,
    figures: Figures,
    made: Option<Instant>,
}

impl FleetView {
    /// A view that has not read anything yet.
    pub fn new(stores: Stores) -> FleetView {
        FleetView {
            stores,
            known: HashMap::new(),
            complete: BTreeSet::new(),
            figures: Figures::default(),
            made: None,
        }
    }

    /// The figures, at most [`GOOD_FOR`] old.
    pub fn get(&mut self, config: &MasterConfig) -> &Figures {
        if self.made.is_none_or(|at| at.elapsed() >= GOOD_FOR) {
            self.figures = self.collect(config);
            self.made = Some(Instant::now());
        }
        &self.figures
    }

    fn collect(&mut self, config: &MasterConfig) -> Figures {
        let mut figures = Figures::default();
        let mut accepted = Vec::new();
        for state in [
            KeyState::Accepted,
            KeyState::Pending,
            KeyState::Rejected,
            KeyState::Denied,
        ] {
            // Nobody can use the keys in an unreadable directory, so it counts as empty.
            let ids = self.stores.keys.list(state).unwrap_or_default();
            figures.keys.insert(state.name(), ids.len());
            if state == KeyState::Accepted {
                accepted = ids.to_vec();
            }
        }
        let peers = peers(config);
        let gateways = self.stores.gateways.all();
        let agents: BTreeSet<MinionId> = gateways
            .iter()
            .flat_map(|gateway| gateway.connected().into_keys())
            .collect();
        self.known
            .retain(|id, _| accepted.binary_search(id).is_ok());
        for id in &accepted {
            let known = self.remember(id);
            let version = known.map(|k| k.version.clone()).unwrap_or_default();
            *figures.versions.entry(version).or_default() += 1;
            let there = known.is_some_and(|k| k.addresses.iter().any(|a| peers.contains(a)));
            // An agent may have the address of a minion on its host.
            let agent = gateways.iter().any(|gateway| gateway.knows(id));
            if agents.contains(id) || there && !agent {
                figures.connected += 1
            } else {
                figures.silent += 1
            }
        }
        figures.waiting_jobs = self.waiting_jobs();
        figures
    }

    fn remember(&mut self, id: &MinionId) -> Option<&Known> {
        let Some(stored) = self.stores.minions.version(id) else {
            self.known.remove(id);
            return None;
        };
        if self.known.get(id).is_none_or(|k| k.stored != stored) {
            let grains = self.stores.minions.peek(id)?.grains;
            let addresses = ["ipv4", "ipv6"]
                .iter()
                .filter_map(|grain| grains.get(grain))
                .flat_map(Value::str_list)
                .filter_map(|text| text.parse().ok())
                .collect();
            let version = grains.str("saltversion").unwrap_or_default().to_owned();
            let known = Known {
                stored,
                version,
                addresses,
            };
            self.known.insert(id.clone(), known);
        }
        self.known.get(id)
    }

    fn waiting_jobs(&mut self) -> usize {
        let since = jiff::Timestamp::now().as_second() - RECENT;
        let recent = self.stores.jobs.started_since(since).unwrap_or_default();
        let mut complete = BTreeSet::new();
        let mut waiting = 0;
        for jid in recent {
            // Nothing makes a complete job incomplete again.
            if self.complete.contains(&jid) || self.is_complete(&jid) {
                complete.insert(jid);
            } else {
                waiting += 1;
            }
        }
        self.complete = complete;
        waiting
    }

    fn is_complete(&self, jid: &Jid) -> bool {
        let Ok(Some(job)) = self.stores.jobs.get(jid) else {
            return true;
        };
        let returned: BTreeSet<&str> = job.returns.iter().map(|r| r.id.as_str()).collect();
        job.minions.iter().all(|id| returned.contains(id.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::Map;

    #[test]
    fn keys_versions_and_jobs_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"root_dir" => dir.path().to_string_lossy().as_ref()};
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let stores = halite_store::memory::stores();
        let (keys, jobs) = (&stores.keys, &stores.jobs);
        let (a, b): (MinionId, MinionId) = ("a".parse().unwrap(), "b".parse().unwrap());
        for id in [&a, &b] {
            keys.put(KeyState::Accepted, id, "key").unwrap();
        }
        keys.put(KeyState::Pending, &"c".parse().unwrap(), "key")
            .unwrap();
        let grains =
            halite_wire::map! {"saltversion" => "3008.3", "ipv4" => vec!["192.0.2.1".to_owned()]};
        stores.minions.store(&a, &grains, &Map::new()).unwrap();
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 1);
        jobs.save_load(&jid, &Map::new(), &["a".into()], &[])
            .unwrap();
        let mut view = FleetView::new(stores.clone());
        let figures = view.collect(&config);
        assert_eq!(figures.keys[KeyState::Accepted.name()], 2);
        assert_eq!(figures.keys[KeyState::Pending.name()], 1);
        assert_eq!((figures.connected, figures.silent), (0, 2));
        assert_eq!(
            figures.versions,
            BTreeMap::from([("3008.3".into(), 1), (String::new(), 1)])
        );
        assert_eq!(figures.waiting_jobs, 1);
        jobs.save_return(&jid, &a, &halite_wire::map! {"id" => "a"})
            .unwrap();
        assert_eq!(view.collect(&config).waiting_jobs, 0);
        // An agent of a gateway has no connection to the publish port.
        let gateway = stores.gateways.of("sysinspect");
        gateway.put(&b, "fingerprint").unwrap();
        let there = BTreeMap::from([(b, IpAddr::from([192, 0, 2, 2]))]);
        gateway.put_connected(&there).unwrap();
        let figures = view.collect(&config);
        assert_eq!((figures.connected, figures.silent), (1, 1));
    }
}
