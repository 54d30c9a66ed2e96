//! Three masters and servers, and minions that take part while something is killed, cut off or lost.

use super::swarm::Swarm;
use super::{EACH, LINES};
use halite::store::keys::KeyState;
use halite::sys::procs;
use halite::wire::ids::Jid;
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testing::cluster::{Relays, jobs, keys, metric, state};
use testing::harness::send;
use testing::scale::patiently;
use testing::three::{Ear, ThreeByThree};
use testing::{Master, Minion, NatsServer, Stock};

/// Without a new return for that long, a job gets no more: longer than servers need to elect leaders one after the other.
const QUIET: Duration = Duration::from_secs(40);
const ALL: [usize; 3] = [0, 1, 2];

/// What is killed.
#[derive(Clone, Debug)]
pub enum Blow {
    /// A role of a master.
    Role(usize, String),
    /// A master with all its roles.
    Master(usize),
    /// A server.
    Server(usize),
    /// All servers at once.
    Servers,
    /// The program of a master, for another one.
    Program(usize, PathBuf),
}

/// Stock minions behind an address that moves from master to master.
struct StockMinions {
    minions: Vec<Minion>,
    relays: Relays,
    /// Where it is.
    master: usize,
    cli: Stock,
}

/// Three masters and servers, and simulated minions.
pub struct Fleet {
    swarms: Vec<Swarm>,
    stock: Option<StockMinions>,
    /// The masters and servers.
    pub three: ThreeByThree,
    /// Simulated minions.
    simulated: usize,
    jobs: usize,
}

impl Fleet {
    /// That many simulated minions that know all masters, and stock minions of each Salt that is there.
    pub fn start(minions: usize) -> Option<Fleet> {
        let three = ThreeByThree::start_masters(3, LINES)?;
        let mut fleet = Fleet::with(three, minions);
        let begun = Instant::now();
        for n in 0..minions.div_ceil(EACH) {
            let count = EACH.min(minions - n * EACH).to_string();
            let words = ["--mode", "serve", "--minions", &count];
            let (dir, name) = (fleet.three.path(""), format!("sw{n}"));
            let swarm = Swarm::start(&dir, &fleet.three.masters, &name, &words);
            fleet.swarms.push(swarm);
        }
        fleet.wait_signed_in(begun);
        fleet.start_stock();
        Some(fleet)
    }

    /// That many simulated minions on each of three hosts with a master and a server, which know the master there alone.
    pub fn start_on_hosts(each: usize) -> Option<Fleet> {
        let three = ThreeByThree::start_masters_on_hosts(LINES)?;
        let mut fleet = Fleet::with(three, 3 * each);
        let (begun, count) = (Instant::now(), each.to_string());
        for n in ALL {
            let words = ["--mode", "serve", "--minions", &count];
            let (dir, name) = (fleet.three.path(""), format!("sw{n}"));
            let start =
                |master: &_| Swarm::start(&dir, std::slice::from_ref(master), &name, &words);
            let swarm = fleet.three.at(n, start);
            fleet.swarms.push(swarm);
        }
        fleet.wait_signed_in(begun);
        Some(fleet)
    }

    fn with(three: ThreeByThree, simulated: usize) -> Fleet {
        Fleet {
            swarms: Vec::new(),
            stock: None,
            three,
            simulated,
            jobs: 0,
        }
    }

    fn wait_signed_in(&self, begun: Instant) {
        let listening = |swarm: &Swarm| {
            let said = swarm.process.output();
            said.contains("are signed in and listening")
        };
        patiently("all minions are signed in", || {
            self.swarms.iter().all(listening)
        });
        eprintln!(
            "{} minions accepted and signed in after {:.1} s",
            self.simulated,
            begun.elapsed().as_secs_f64()
        );
    }

    fn start_stock(&mut self) {
        let stock: Vec<Stock> = ["3006", "3008"]
            .into_iter()
            .filter_map(Stock::find)
            .collect();
        let Some(cli) = stock.last().cloned() else {
            return;
        };
        let (relays, minions) = Relays::before(&mut self.three.masters[0], |master| {
            let start = |one| Minion::stock(one, master, &format!("stock{}", one.series), "");
            stock.iter().map(start).collect()
        });
        self.stock = Some(StockMinions {
            minions,
            relays,
            master: 0,
            cli,
        });
        self.wait_back(None);
    }

    /// All minions.
    fn minions(&self) -> usize {
        self.simulated + self.stock.as_ref().map_or(0, |stock| stock.minions.len())
    }

    /// Publishes a job at a master, as soon as that is possible.
    fn publish(&mut self, n: usize, more: &[&str]) -> Jid {
        let words = [&["*", "test.ping"], more].concat();
        let mut jid = None;
        patiently("a job is published", || {
            jid = self.three.publish(n, &words).ok();
            jid.is_some()
        });
        self.jobs += 1;
        jid.expect("it is published")
    }

    /// Waits until a master has that many returns of a job, or gets no more. How many it has, and the longest time without a new one.
    fn wait(&self, n: usize, jid: &Jid, wanted: usize) -> (usize, Duration) {
        let store = jobs(&self.three.masters[n]);
        let (mut have, mut last, mut gap) = (0, Instant::now(), Duration::ZERO);
        while have < wanted && last.elapsed() < QUIET {
            let job = store.get(jid).expect("jobs can be read");
            let now = job.map_or(0, |job| job.returns.len());
            if now > have {
                gap = gap.max(last.elapsed());
                (have, last) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        (have, gap)
    }

    /// A job for all is published at a master, and all answer.
    fn all_answer(&mut self, n: usize, when: &str) {
        let jid = self.publish(n, &[]);
        let (have, _) = self.wait(n, &jid, self.minions());
        assert_eq!(have, self.minions(), "all answer {when}");
        if let Some(stock) = &self.stock {
            let cli = self.three.masters[n].stock_cli(&stock.cli);
            let said = cli.ask(&["stock*", "test.ping", "-t", "20"]);
            let said = said.expect("stock's client gets an answer");
            let answered = |minion: &Minion| said.get(&minion.id) == Some(&json!(true));
            assert!(stock.minions.iter().all(answered), "{when}: {said:?}");
        }
    }

    /// Waits until all masters but one that is killed take part, and all minions are subscribed.
    fn wait_back(&self, killed: Option<usize>) {
        let masters = self.three.masters.iter().enumerate();
        let alive = || masters.clone().filter(|(n, _)| Some(*n) != killed);
        for (n, master) in alive() {
            patiently(&format!("master {n} takes part"), || {
                metric(master, "halite_cluster_member") == 1.0
            });
        }
        patiently("all minions are subscribed", || {
            let subscribers = alive().map(|(_, master)| metric(master, "halite_subscribers"));
            subscribers.sum::<f64>() as usize == self.minions()
        });
    }

    fn strike(&mut self, blow: &Blow) {
        let three = &mut self.three;
        match blow {
            Blow::Role(n, name) => {
                let main = u32::try_from(three.masters[*n].id()).expect("it runs");
                let family = procs::family(main).expect("processes can be listed");
                // It may be between two lives.
                if let Some(role) = family.iter().find(|role| role.title.ends_with(name)) {
                    send(role.pid, Signal::SIGKILL);
                }
            }
            Blow::Master(n) => {
                three.masters[*n].kill();
                if let Some(stock) = self.stock.as_mut().filter(|stock| stock.master == *n) {
                    stock.master = (*n + 1) % 3;
                    stock.relays.move_to(&three.masters[stock.master]);
                }
            }
            Blow::Program(n, program) => three.masters[*n].replace(program.clone()),
            Blow::Server(n) => three.servers[*n].kill(),
            Blow::Servers => three.servers.iter_mut().for_each(NatsServer::kill),
        }
    }

    fn mend(&mut self, blow: &Blow) {
        match blow {
            Blow::Role(..) | Blow::Program(..) => {}
            Blow::Master(n) => self.three.masters[*n].start_again(),
            Blow::Server(n) => self.three.start_server(*n),
            Blow::Servers => (0..3).for_each(|n| self.three.start_server(n)),
        }
    }

    /// A job is under way while something is killed, and another one comes afterwards.
    pub fn under(&mut self, blow: &Blow) {
        let hit = match blow {
            Blow::Role(n, _) | Blow::Program(n, _) | Blow::Master(n) | Blow::Server(n) => *n,
            Blow::Servers => 0,
        };
        let ears = [1, 2].map(|m| Ear::at(&self.three.masters[(hit + m) % 3]));
        let at = (hit + 1) % 3;
        let first = self.publish(at, &[]);
        self.strike(blow);
        // Without servers no other job can be published, and two masters cannot serve what three can.
        let is_back = match blow {
            Blow::Servers | Blow::Program(..) => true,
            Blow::Master(_) => self.simulated > 2 * EACH,
            _ => false,
        };
        if is_back {
            self.mend(blow);
        }
        let (have, gap) = self.wait(at, &first, self.minions());
        let killed = (matches!(blow, Blow::Master(_)) && !is_back).then_some(hit);
        self.wait_back(killed);
        self.all_answer(at, &format!("after {blow:?}"));
        if !is_back {
            self.mend(blow);
        }
        self.wait_back(None);
        let (all, gap) = (self.minions(), gap.as_secs_f64());
        eprintln!("{blow:?}: {have} of {all} returned, longest gap {gap:.1} s, and then all");
        for ear in &ears {
            assert_eq!(ear.repeated(), Vec::<String>::new(), "{blow:?}");
        }
    }

    /// A host with its master, server and minions is cut off: it serves its own minions, and the others go on.
    pub fn cut(&mut self, island: usize) {
        let network = "hosts are in a network";
        let ears = ALL.map(|n| Ear::at(&self.three.masters[n]));
        let at = (island + 1) % 3;
        let own = self.simulated / 3;
        let first = self.publish(at, &[]);
        self.three.network.as_ref().expect(network).cut(island);
        let (have, gap) = self.wait(at, &first, self.simulated);
        assert!(have >= 2 * own, "{have} returned");
        patiently("the island notices", || {
            metric(&self.three.masters[island], "halite_cluster_member") == 0.0
        });
        let here = self.publish(island, &["--here"]);
        let there = self.publish(at, &[]);
        assert_eq!(self.wait(island, &here, own).0, own);
        assert_eq!(self.wait(at, &there, 2 * own).0, 2 * own);
        self.three.network.as_ref().expect(network).heal(island);
        self.wait_back(None);
        self.all_answer(at, "after the network is mended");
        for n in ALL {
            patiently("all hear what the island did", || {
                self.wait(n, &here, own).0 == own
            });
        }
        let (all, gap) = (self.simulated, gap.as_secs_f64());
        eprintln!("host {island} was cut off: {have} of {all} returned, longest gap {gap:.1} s");
        for ear in &ears {
            assert_eq!(ear.repeated(), Vec::<String>::new());
        }
    }

    /// All servers lose all they have while a job is under way. The masters fill the bucket again.
    pub fn lose_data(&mut self) {
        let id = "gone".parse().expect("an id");
        let store = keys(&self.three.masters[0]);
        store.put(KeyState::Accepted, &id, "a key").expect("stored");
        self.three
            .wait_state(&ALL, "gone", Some(KeyState::Accepted));
        assert!(store.delete(KeyState::Accepted, &id).expect("deleted"));
        self.three.wait_state(&ALL, "gone", None);
        let first = self.publish(0, &[]);
        self.three.servers.iter_mut().for_each(NatsServer::kill);
        (0..3).for_each(|n| self.three.lose_data(n));
        patiently("a master fills the bucket", || {
            let mut logs = self.three.masters.iter().map(Master::log);
            logs.any(|log| log.contains("this master fills the bucket of test again"))
        });
        self.wait_back(None);
        self.all_answer(1, "after the loss");
        for n in ALL {
            let have = self.wait(n, &first, self.simulated).0;
            eprintln!("master {n}: {have} returned a job that was under way when all was lost");
            assert_eq!(state(&self.three.masters[n], "gone"), None);
        }
    }

    /// The ends of the titles of all roles of a master.
    pub fn roles(&self, n: usize) -> Vec<String> {
        let main = u32::try_from(self.three.masters[n].id()).expect("it runs");
        let family = procs::family(main).expect("processes can be listed");
        let roles = family.into_iter().filter(|role| role.pid != main);
        let name = |title: &str| title.rsplit_once(" info ").map(|(_, name)| name.to_owned());
        roles.filter_map(|role| name(&role.title)).collect()
    }

    /// All minions answer each master; then what was acknowledged is compared with what the masters have.
    pub fn settle(mut self) {
        (0..3).for_each(|n| self.all_answer(n, "at the end"));
        let mut acknowledged: BTreeMap<Jid, BTreeSet<String>> = BTreeMap::new();
        let mut total = 0;
        for swarm in std::mem::take(&mut self.swarms) {
            let (said, list) = swarm.finish();
            eprintln!("{said}");
            for (jid, id) in list {
                total += 1;
                let words = format!("{id} has run {jid} twice");
                assert!(acknowledged.entry(jid).or_default().insert(id), "{words}");
            }
        }
        for minion in self.stock.iter().flat_map(|stock| &stock.minions) {
            let (executed, given_up) = done_by(minion);
            for (jid, times) in executed {
                assert_eq!(times, 1, "{} has run {jid} {times} times", minion.id);
                if !given_up.contains(&jid) {
                    total += 1;
                    acknowledged
                        .entry(jid)
                        .or_default()
                        .insert(minion.id.clone());
                }
            }
            let (id, count) = (&minion.id, given_up.len());
            eprintln!("{id} has given up to return {count} jobs");
        }
        let mut lost = BTreeSet::new();
        patiently("all masters have what was acknowledged", || {
            lost.clear();
            for n in ALL {
                let mut cache = self.three.job_cache(n);
                for (jid, ids) in &acknowledged {
                    let (_, returned) = cache.remove(jid).unwrap_or_default();
                    let kept: BTreeSet<String> = returned.iter().cloned().collect();
                    assert_eq!(kept.len(), returned.len(), "{jid} has a return twice");
                    let missing = ids.difference(&kept).map(|id| (n, jid.clone(), id.clone()));
                    lost.extend(missing);
                }
            }
            if !lost.is_empty() {
                eprintln!("{} missing so far, {:?} ...", lost.len(), lost.first());
            }
            lost.is_empty()
        });
        eprintln!(
            "{} jobs, {total} acknowledged returns: 0 lost, 0 doubled, 0 run twice",
            self.jobs
        );
    }
}

/// The jobs that a stock minion has run, by its log, and how often; and those of which it says that nobody took what they returned.
fn done_by(minion: &Minion) -> (BTreeMap<Jid, usize>, BTreeSet<Jid>) {
    let log = fs::read_to_string(minion.home.log()).unwrap_or_default();
    let after = |line: &str, words: &str| -> Option<Jid> {
        let (_, rest) = line.split_once(words)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let (mut executed, mut given_up) = (BTreeMap::new(), BTreeSet::new());
    for line in log.lines() {
        if let Some(jid) = after(line, "Executing command test.ping with jid ") {
            *executed.entry(jid).or_default() += 1;
        }
        given_up.extend(after(line, "failed to return the job information for job "));
    }
    (executed, given_up)
}
