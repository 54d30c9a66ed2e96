//! Finds out which minions are nodes: accepted, connected, matched by `inward_targets`, and not of another gateway.
//!
//! Connections do not say whose they are, only from which address. If an address has fewer connections than minions, its
//! minions are pinged, once for each change; those that do not answer are no nodes.
//!
//! A survey is made when the bus reports a change, and periodically, since minions may also disappear silently.
//! Grains are decoded again only if their file has changed.

use super::{NAP, tell};
use crate::gateway::inward::{News, Node};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use halite_client::gather::{Gather, GatherTimeouts, MinionOutcome};
use halite_client::local::{Job, LocalClient};
use halite_config::{CollectiveGateway, MasterConfig};
use halite_store::jobs::JobStore;
use halite_store::keys::KeyState;
use halite_store::minions::{DataVersion, MinionCache};
use halite_store::presence::Connected;
use halite_store::{Stores, presence};
use halite_sys::signals::StopFlag;
use halite_target::{Inventory, Target, TargetError};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time between two surveys.
const EVERY: Duration = Duration::from_secs(15);
/// Shortest time between two surveys: when a thousand minions start at once, there is one survey.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes surveys until the role must stop.
pub(super) fn run(
    config: &MasterConfig,
    stores: &Stores,
    settings: &CollectiveGateway,
    stop: &StopFlag,
    bell: &Receiver<()>,
    news: &Sender<News>,
) {
    let mut surveyor = Surveyor::new(config, stores, &settings.inward_targets);
    let mut last: Option<Instant> = None;
    let mut rung = true;
    while !stop.is_set() {
        let since = last.map_or(EVERY, |at| at.elapsed());
        if since >= EVERY || (rung && since >= PAUSE) {
            // Requests until here are covered by this survey.
            let news_at = bell.try_recv().is_ok() || rung;
            rung = false;
            match surveyor.survey(news_at, stop) {
                Ok(nodes) => {
                    if !tell(news, stop, News::Nodes(nodes)) {
                        return;
                    }
                }
                Err(e) => {
                    log::error!("cannot find out which minions are nodes of the collective: {e}")
                }
            }
            last = Some(Instant::now());
        }
        match bell.recv_timeout(NAP) {
            Ok(()) => rung = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Makes surveys and caches what they need.
pub(super) struct Surveyor<'a> {
    config: &'a MasterConfig,
    targets: String,
    stores: &'a Stores,
    /// Grains with their version.
    grains: HashMap<MinionId, (DataVersion, Arc<Map>)>,
    /// Minions that were pinged, by the address that they share.
    pinged: HashMap<IpAddr, Pinged>,
    /// Ids already reported as invalid identities.
    warned: HashSet<MinionId>,
    complained: bool,
}

impl<'a> Surveyor<'a> {
    /// A surveyor with an empty cache.
    pub fn new(config: &'a MasterConfig, stores: &'a Stores, targets: &str) -> Surveyor<'a> {
        Surveyor {
            config,
            targets: targets.to_owned(),
            stores,
            grains: HashMap::new(),
            pinged: HashMap::new(),
            warned: HashSet::new(),
            complained: false,
        }
    }

    /// The current nodes; `news`: something has changed since the last survey.
    ///
    /// # Errors
    /// Keys or records of gateways cannot be listed.
    pub fn survey(&mut self, news: bool, stop: &StopFlag) -> io::Result<Vec<Node>> {
        let config = self.config;
        let stores = self.stores;
        let connected: Lookup =
            &|ids, grains| presence::connected_among(config, stores, ids, grains);
        let jobs = self.stores.jobs.clone();
        let ping: Ping = &|ids| ping(config, &*jobs, ids, stop);
        self.survey_with(connected, ping, news)
    }

    fn survey_with(&mut self, connected: Lookup, ping: Ping, news: bool) -> io::Result<Vec<Node>> {
        let accepted = self.stores.keys.list(KeyState::Accepted)?;
        let foreign = foreign(self.stores)?;
        let mut ids: Vec<MinionId> = accepted.iter().cloned().collect();
        ids.retain(|id| !foreign.contains(id));
        self.refresh(&ids);
        let held = &self.grains;
        let grains = |id: &MinionId| held.get(id).map(|(_, grains)| grains.clone());
        let present = connected(&ids, &grains);
        let silent = self.silent(&present, ping, news);
        ids.retain(|id| present.contains(id) && !silent.contains(id));
        let fleet = Fleet {
            ids: &ids,
            held: &self.grains,
            cache: &*self.stores.minions,
            pillars: RefCell::default(),
        };
        let meant = matching(&self.targets, &fleet, &self.config.nodegroups);
        let meant = meant.unwrap_or_else(|why| {
            if !self.complained {
                self.complained = true;
                log::error!("gateways:collective:inward_targets matches no minions: {why}");
            }
            Vec::new()
        });
        let mut groups = groups(&self.config.nodegroups, &fleet);
        let mut nodes = Vec::with_capacity(meant.len());
        let mut unfit = Vec::new();
        for id in meant {
            let Some((_, grains)) = self.grains.get(&id) else {
                continue;
            };
            let own = groups.remove(&id).unwrap_or_default();
            match Node::new(&id, grains.clone(), &own) {
                Some(node) => nodes.push(node),
                None => unfit.push(id),
            }
        }
        for id in unfit {
            if self.warned.insert(id.clone()) {
                log::warn!(
                    "the minion {id} cannot be a node of the collective: identities there are letters, digits, '_', '-' and single dots"
                );
            }
        }
        Ok(nodes)
    }

    /// Minions that are not connected, among those that share an address with too few connections.
    fn silent(&mut self, present: &Connected, ping: Ping, news: bool) -> BTreeSet<MinionId> {
        let doubtful = present.doubtful();
        self.pinged
            .retain(|address, _| doubtful.contains_key(address));
        let mut silent = BTreeSet::new();
        for (address, ids) in doubtful {
            let connections = present.connections.get(&address).copied().unwrap_or(0);
            let known = self.pinged.get(&address).filter(|known| {
                let same = known.ids == ids && known.connections == connections;
                same && !(news && known.at.elapsed() >= EVERY)
            });
            if let Some(known) = known {
                silent.extend(known.silent.iter().cloned());
                continue;
            }
            let answered = ping(&ids);
            let missing = ids.iter().filter(|id| !answered.contains(*id));
            let missing: Vec<MinionId> = missing.cloned().collect();
            silent.extend(missing.iter().cloned());
            let pinged = Pinged {
                ids,
                connections,
                silent: missing,
                at: Instant::now(),
            };
            self.pinged.insert(address, pinged);
        }
        silent
    }

    /// Reads the grains of minions whose file has changed.
    fn refresh(&mut self, ids: &[MinionId]) {
        let known: HashSet<&MinionId> = ids.iter().collect();
        self.grains.retain(|id, _| known.contains(id));
        for id in ids {
            let Some(version) = self.stores.minions.version(id) else {
                self.grains.remove(id);
                continue;
            };
            if self
                .grains
                .get(id)
                .is_some_and(|(seen, _)| *seen == version)
            {
                continue;
            }
            if let Some(data) = self.stores.minions.peek(id) {
                self.grains.insert(id.clone(), (version, data.grains));
            }
        }
    }
}

/// The minions that a compound target matches.
fn matching(targets: &str, fleet: &Fleet, groups: &Map) -> Result<Vec<MinionId>, TargetError> {
    let target = Target::parse(&Value::from(targets), "compound", None)?;
    let expected = target.expected(fleet, groups);
    expected.error.map_or(Ok(expected.minions), Err)
}

/// Returns which of these minions may be connected.
type Lookup<'a> = &'a dyn Fn(&[MinionId], &dyn Fn(&MinionId) -> Option<Arc<Map>>) -> Connected;

/// Returns which of these minions answer.
type Ping<'a> = &'a dyn Fn(&[MinionId]) -> BTreeSet<MinionId>;

/// Minions that share an address, and which of them did not answer.
struct Pinged {
    ids: Vec<MinionId>,
    connections: usize,
    silent: Vec<MinionId>,
    at: Instant,
}

/// Pings minions by a job. If that cannot be done, all of them count as connected.
fn ping(
    config: &MasterConfig,
    jobs: &dyn JobStore,
    ids: &[MinionId],
    stop: &StopFlag,
) -> BTreeSet<MinionId> {
    let mut client = LocalClient::new(config.clone());
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let job = Job {
        fun: "test.ping".into(),
        tgt: names.into(),
        tgt_type: "list".to_owned(),
        kwargs: halite_wire::map! {"delimiter" => ":"},
        ..Job::default()
    };
    let patience = GatherTimeouts {
        timeout: Duration::from_secs(config.timeout),
        find_job: Duration::from_secs(config.gather_job_timeout),
        together: true,
    };
    let mut answered = BTreeSet::new();
    let asked = client.listen().and_then(|mut events| {
        let published = client.publish(&job)?;
        let mut gather = Gather::new(&mut client, &mut events, Some(jobs), patience);
        gather.add_job(&published);
        gather.run(&|| stop.is_set(), &mut |id, outcome| {
            if !matches!(outcome, MinionOutcome::NotConnected | MinionOutcome::Lost) {
                answered.extend(id.parse::<MinionId>());
            }
        })
    });
    match asked {
        Ok(()) => answered,
        Err(e) => {
            log::warn!("minions of one address cannot be pinged: {e}");
            ids.iter().cloned().collect()
        }
    }
}

/// Agents of gateways, which are not offered to the collective: servers of the same collective are among
/// them, and would appear twice.
fn foreign(stores: &Stores) -> io::Result<HashSet<MinionId>> {
    let mut all = HashSet::new();
    for gateway in stores.gateways.all() {
        all.extend(gateway.ids()?);
    }
    Ok(all)
}

/// The nodegroups of each minion.
fn groups(nodegroups: &Map, fleet: &Fleet) -> HashMap<MinionId, Vec<String>> {
    let mut all: HashMap<MinionId, Vec<String>> = HashMap::new();
    for (name, _) in nodegroups.iter() {
        let Some(name) = name.as_str() else { continue };
        let target = Target::parse(&Value::from(name), "nodegroup", None);
        let Ok(expected) = target.map(|target| target.expected(fleet, nodegroups)) else {
            continue;
        };
        for id in expected.minions {
            all.entry(id).or_default().push(name.to_owned());
        }
    }
    all
}

/// The fleet for target matching. Pillars are read only if a target needs one.
struct Fleet<'a> {
    ids: &'a [MinionId],
    held: &'a HashMap<MinionId, (DataVersion, Arc<Map>)>,
    cache: &'a dyn MinionCache,
    pillars: RefCell<HashMap<MinionId, Option<Arc<Map>>>>,
}

impl Inventory for Fleet<'_> {
    fn ids(&self) -> &[MinionId] {
        self.ids
    }

    fn contains(&self, id: &str) -> bool {
        let found = self.ids.binary_search_by(|own| own.as_str().cmp(id));
        found.is_ok()
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.held.get(id).map(|(_, grains)| grains.clone())
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        let mut pillars = self.pillars.borrow_mut();
        let read = || self.cache.peek(id).map(|data| data.pillar);
        pillars.entry(id.clone()).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::load_master;
    use halite_crypto::PrivateKey;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn config(dir: &Path) -> MasterConfig {
        let text = format!(
            "root_dir: {0}\npki_dir: {0}/pki\ncachedir: {0}/cache\nsock_dir: {0}/run\nnodegroups:\n  web: 'w*'\n  debian: 'G@os:Debian'\n",
            dir.display()
        );
        std::fs::write(dir.join("master"), text).unwrap();
        load_master(dir).unwrap()
    }

    fn ids(nodes: &[Node]) -> Vec<&str> {
        nodes.iter().map(|node| node.identity.as_str()).collect()
    }

    #[test]
    fn nodes_are_accepted_connected_meant_and_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let stores = halite_store::memory::stores();
        let (keys, cache) = (&stores.keys, &stores.minions);
        let key = PrivateKey::generate(1024).unwrap().public().to_pem();
        for id in ["w1", "w2", "db1", "gone", "foreign", "w 3", "nograins"] {
            let id: MinionId = id.parse().unwrap();
            keys.put(KeyState::Accepted, &id, &key).unwrap();
            let os = if id.as_str() == "w2" {
                "Arch"
            } else {
                "Debian"
            };
            let grains = halite_wire::map! {"os" => os};
            if id.as_str() != "nograins" {
                cache
                    .store(&id, &grains, &halite_wire::map! {"role" => "x"})
                    .unwrap();
            }
        }
        let pending: MinionId = "w9".parse().unwrap();
        keys.put(KeyState::Pending, &pending, &key).unwrap();
        let gateway = stores.gateways.of("collective");
        gateway.put(&"foreign".parse().unwrap(), "x").unwrap();

        let connected: Lookup = &|ids, grains| {
            let there = ids.iter().filter(|id| id.as_str() != "gone");
            let there = there.filter(|id| grains(id).is_some()).cloned();
            let address = IpAddr::from([10, 0, 0, 1]);
            Connected {
                minions: there.map(|id| (id, address)).collect(),
                connections: BTreeMap::from([(address, 9)]),
                ..Connected::default()
            }
        };
        let nobody: Ping = &|_| panic!("nobody is in doubt");
        let mut surveyor = Surveyor::new(&config, &stores, "*");
        let nodes = surveyor.survey_with(connected, nobody, true).unwrap();
        assert_eq!(ids(&nodes), ["db1", "w1", "w2"]);
        assert_eq!(nodes[1].classes, ["debian", "web"]);
        assert_eq!(nodes[2].classes, ["web"]);
        assert_eq!(surveyor.warned.len(), 1);

        for (targets, expected) in [
            ("w* and G@os:Debian", &["w1"][..]),
            ("not N@web", &["db1"]),
            ("I@role:x and w2", &["w2"]),
            ("N@nothing", &[]),
        ] {
            let mut surveyor = Surveyor::new(&config, &stores, targets);
            let nodes = surveyor.survey_with(connected, nobody, true).unwrap();
            assert_eq!(ids(&nodes), expected, "{targets}");
        }

        // Grains that have not changed are shared, others are read.
        cache
            .store(
                &"w2".parse().unwrap(),
                &halite_wire::map! {"os" => "Debian"},
                &Map::new(),
            )
            .unwrap();
        let again = surveyor.survey_with(connected, nobody, true).unwrap();
        assert!(Arc::ptr_eq(&nodes[1].grains, &again[1].grains));
        assert_eq!(again[2].classes, ["debian", "web"]);
        keys.delete(KeyState::Accepted, &"w1".parse().unwrap())
            .unwrap();
        let fewer = surveyor.survey_with(connected, nobody, true).unwrap();
        assert_eq!(ids(&fewer), ["db1", "w2"]);
        assert!(
            !surveyor
                .grains
                .contains_key(&"w1".parse::<MinionId>().unwrap())
        );
    }

    /// Of two minions behind one address, one has gone.
    #[test]
    fn a_minion_that_shares_an_address_is_no_node_once_it_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let stores = halite_store::memory::stores();
        let key = PrivateKey::generate(1024).unwrap().public().to_pem();
        for id in ["a", "b"] {
            let id: MinionId = id.parse().unwrap();
            stores.keys.put(KeyState::Accepted, &id, &key).unwrap();
            stores.minions.store(&id, &Map::new(), &Map::new()).unwrap();
        }
        let (connections, pings) = (Cell::new(2), Cell::new(0));
        let address = IpAddr::from([10, 0, 0, 1]);
        let connected: Lookup = &|ids, _| Connected {
            minions: ids.iter().map(|id| (id.clone(), address)).collect(),
            connections: BTreeMap::from([(address, connections.get())]),
            ..Connected::default()
        };
        let ping: Ping = &|ids| {
            pings.set(pings.get() + 1);
            ids.iter()
                .filter(|id| id.as_str() == "b")
                .cloned()
                .collect()
        };
        let mut surveyor = Surveyor::new(&config, &stores, "*");
        let mut survey = |count: usize| {
            connections.set(count);
            let nodes = surveyor.survey_with(connected, ping, false).unwrap();
            (ids(&nodes).join(" "), pings.get())
        };
        assert_eq!(survey(2), ("a b".to_owned(), 0));
        assert_eq!(survey(1), ("b".to_owned(), 1));
        // Nothing has changed: nobody is asked again.
        assert_eq!(survey(1), ("b".to_owned(), 1));
        assert_eq!(survey(2), ("a b".to_owned(), 1));
        assert_eq!(survey(1), ("b".to_owned(), 2));
    }
}
