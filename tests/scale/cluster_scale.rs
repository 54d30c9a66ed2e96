//! Several masters of one cluster under the load of many simulated minions that go to another master when theirs is gone, and send
//! again what was not acknowledged. Tables are printed; nothing is judged by a clock.
//!
//! `HALITE_CLUSTER_MINIONS=5000` (20000) and `HALITE_BIN_DIR` with programs of a release build give the figures of docs/cluster.md.

use halite::sys::procs;
use halite::wire::ids::Jid;
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::cluster::{jobs, metric};
use testing::harness::send;
use testing::process::Process;
use testing::scale::patiently;
use testing::three::{Ear, LOG, ThreeByThree};
use testing::{Master, NatsServer, halite_program, short_dir};

/// Minions in the usual run.
const MINIONS: usize = 150;
/// Minions of one program: each needs two open files.
const EACH: usize = 9000;
/// Without a new return for that long, a job gets no more: longer than servers need to elect a leader.
const QUIET: Duration = Duration::from_secs(15);
/// What masters are told.
const LINES: &str = "auto_accept: true";

fn minions() -> usize {
    let named = std::env::var("HALITE_CLUSTER_MINIONS").ok();
    named.map_or(MINIONS, |text| text.parse().expect("a number of minions"))
}

/// Simulated minions of some masters, and the list of what was acknowledged to them.
struct Swarm {
    process: Process,
    acknowledged: PathBuf,
}

impl Swarm {
    fn start(dir: &std::path::Path, masters: &[Master], name: &str, words: &[&str]) -> Swarm {
        let place =
            |master: &Master| format!("127.0.0.1:{}:{}", master.ret_port, master.publish_port);
        let places: Vec<String> = masters.iter().map(place).collect();
        let acknowledged = dir.join(format!("{name}.acknowledged"));
        let mut command = Command::new(halite_program("halite-swarm"));
        command
            .args([
                "--master",
                &places.join(","),
                "--prefix",
                name,
                "--timeout",
                "5",
            ])
            .arg("--acknowledged")
            .arg(&acknowledged)
            .args(words);
        let process = Process::start(name, &mut command, &dir.join(format!("{name}.log")));
        Swarm {
            process,
            acknowledged,
        }
    }

    /// Ends it; what it has printed. It must have found no fault in what masters said.
    fn finish(mut self) -> (String, Vec<(Jid, String)>) {
        self.process.terminate();
        let said = self.process.output();
        let status = self.process.status().expect("it has ended");
        assert!(status.success(), "{said}");
        let list = std::fs::read_to_string(&self.acknowledged).expect("there is a list");
        let line = |line: &str| {
            let (jid, id) = line.split_once(' ').expect("a jid and an id");
            (jid.parse().expect("a jid"), id.to_owned())
        };
        (said, list.lines().map(line).collect())
    }
}

/// What is killed.
#[derive(Clone, Debug)]
enum Blow {
    Role(usize, String),
    Master(usize),
    Server(usize),
    Servers,
}

/// Three masters and servers, and minions that know all masters.
struct Fleet {
    swarms: Vec<Swarm>,
    three: ThreeByThree,
    minions: usize,
    /// By job: who was to return.
    published: BTreeMap<Jid, usize>,
    table: String,
}

impl Fleet {
    fn start(minions: usize) -> Option<Fleet> {
        let three = ThreeByThree::start_masters(3, LINES)?;
        let dir = three.path("");
        let begun = Instant::now();
        let swarms: Vec<Swarm> = (0..minions.div_ceil(EACH))
            .map(|n| {
                let count = EACH.min(minions - n * EACH).to_string();
                let words = ["--mode", "serve", "--minions", &count];
                Swarm::start(&dir, &three.masters, &format!("sw{n}"), &words)
            })
            .collect();
        let listening = |swarm: &Swarm| {
            swarm
                .process
                .output()
                .contains("are signed in and listening")
        };
        patiently("all minions are signed in", || swarms.iter().all(listening));
        let mut fleet = Fleet {
            swarms,
            three,
            minions,
            published: BTreeMap::new(),
            table: String::new(),
        };
        let took = begun.elapsed().as_secs_f64();
        fleet.note(&format!(
            "{minions} minions accepted and signed in after {took:.1} s"
        ));
        Some(fleet)
    }

    fn note(&mut self, line: &str) {
        eprintln!("{line}");
        let _ = writeln!(self.table, "{line}");
    }

    /// Publishes a job at a master, as soon as that is possible.
    fn publish(&mut self, n: usize) -> Jid {
        let mut jid = None;
        patiently("a job is published", || {
            jid = self.three.publish(n, &["*", "test.ping"]).ok();
            jid.is_some()
        });
        let jid = jid.expect("it is published");
        self.published.insert(jid.clone(), self.minions);
        jid
    }

    /// Waits until a master has all returns of a job, or gets no more. How many it has, and the longest time without a new one.
    fn wait(&self, n: usize, jid: &Jid) -> (usize, Duration) {
        let store = jobs(&self.three.masters[n]);
        let (mut have, mut last, mut gap) = (0, Instant::now(), Duration::ZERO);
        while have < self.minions && last.elapsed() < QUIET {
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
            subscribers.sum::<f64>() as usize == self.minions
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
            Blow::Master(n) => three.masters[*n].kill(),
            Blow::Server(n) => three.servers[*n].kill(),
            Blow::Servers => three.servers.iter_mut().for_each(NatsServer::kill),
        }
    }

    fn mend(&mut self, blow: &Blow) {
        match blow {
            Blow::Role(..) => {}
            Blow::Master(n) => self.three.masters[*n].start_again(),
            Blow::Server(n) => self.three.start_server(*n),
            Blow::Servers => (0..3).for_each(|n| self.three.start_server(n)),
        }
    }

    /// A job is under way while something is killed, and another one comes afterwards.
    fn under(&mut self, blow: &Blow) {
        let hit = match blow {
            Blow::Role(n, _) | Blow::Master(n) | Blow::Server(n) => *n,
            Blow::Servers => 0,
        };
        let ears = [1, 2].map(|m| Ear::at(&self.three.masters[(hit + m) % 3]));
        let at = (hit + 1) % 3;
        let first = self.publish(at);
        self.strike(blow);
        // Without servers no other job can be published.
        if matches!(blow, Blow::Servers) {
            self.mend(blow);
        }
        let (have, gap) = self.wait(at, &first);
        let killed = matches!(blow, Blow::Master(_)).then_some(hit);
        self.wait_back(killed);
        let second = self.publish(at);
        let (later, _) = self.wait(at, &second);
        assert_eq!(later, self.minions, "all answer after {blow:?}");
        if !matches!(blow, Blow::Servers) {
            self.mend(blow);
        }
        self.wait_back(None);
        let (all, gap) = (self.minions, gap.as_secs_f64());
        self.note(&format!(
            "{blow:?}: {have} of {all} returned, longest gap {gap:.1} s, and then all"
        ));
        for ear in &ears {
            assert_eq!(ear.repeated(), Vec::<String>::new(), "{blow:?}");
        }
    }

    /// The ends of the titles of all roles of a master.
    fn roles(&self, n: usize) -> Vec<String> {
        let main = u32::try_from(self.three.masters[n].id()).expect("it runs");
        let family = procs::family(main).expect("processes can be listed");
        let roles = family.into_iter().filter(|role| role.pid != main);
        let name = |title: &str| title.rsplit_once(" info ").map(|(_, name)| name.to_owned());
        roles.filter_map(|role| name(&role.title)).collect()
    }

    /// All minions answer each master; then what was acknowledged is compared with what the masters have.
    fn settle(mut self) {
        for n in 0..3 {
            let jid = self.publish(n);
            let (have, _) = self.wait(n, &jid);
            assert_eq!(have, self.minions, "all answer master {n}");
        }
        let mut acknowledged: BTreeMap<Jid, BTreeSet<String>> = BTreeMap::new();
        let mut total = 0;
        for swarm in std::mem::take(&mut self.swarms) {
            let (said, list) = swarm.finish();
            self.note(&said);
            for (jid, id) in list {
                total += 1;
                let words = format!("{id} has run {jid} twice");
                assert!(acknowledged.entry(jid).or_default().insert(id), "{words}");
            }
        }
        let mut lost = BTreeSet::new();
        patiently("all masters have what was acknowledged", || {
            lost.clear();
            for n in 0..3 {
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
        let jobs = self.published.len();
        self.note(&format!(
            "{jobs} jobs, {total} acknowledged returns: 0 lost, 0 doubled, 0 run twice"
        ));
    }
}

/// Every process of every master, every master, every server, and all servers are killed in turn while jobs are under way.
#[test]
fn whatever_is_killed_no_acknowledged_return_is_lost() {
    let minions = minions();
    let Some(mut fleet) = Fleet::start(minions) else {
        return;
    };
    let thorough = minions > MINIONS;
    let mut blows = Vec::new();
    for n in 0..3 {
        if n == 0 || thorough {
            let roles = fleet.roles(n);
            blows.extend(roles.into_iter().map(|name| Blow::Role(n, name)));
        }
        blows.push(Blow::Master(n));
        if thorough {
            blows.push(Blow::Server(n));
        }
    }
    for blow in &blows {
        fleet.under(blow);
    }
    let leader = fleet.three.leader_of(LOG);
    fleet.under(&Blow::Server(leader));
    fleet.under(&Blow::Servers);
    fleet.settle();
}

/// CPU time of masters and servers for a return, and their memory: without a cluster, and for one to three masters.
#[test]
fn the_price_of_a_return() {
    let minions = minions().min(EACH);
    let count = (minions * 20).to_string();
    for masters in 0..=3 {
        let dir = short_dir();
        let mut three = None;
        let mut alone = Vec::new();
        if masters == 0 {
            alone.push(Master::halite(LINES));
        } else {
            three = ThreeByThree::start_masters(masters, LINES);
            if three.is_none() {
                return;
            }
        }
        let all = three.as_ref().map_or(&alone, |three| &three.masters);
        let servers = three
            .iter()
            .flat_map(|three| three.servers.iter().map(NatsServer::id));
        let servers: Vec<u32> = servers.collect();
        let mains: Vec<u32> = all
            .iter()
            .map(|master| master.id().unsigned_abs())
            .collect();
        let keys = dir.path().join("keys");
        let start = |words: &str| {
            let line = format!("{words} --minions {minions} --keys {}", keys.display());
            let words: Vec<&str> = line.split(' ').collect();
            run(Swarm::start(dir.path(), all, "sw", &words))
        };
        start("--mode signin");
        let before = [spent(&mains), spent(&servers)];
        let said = start(&format!("--mode returns --count {count} --concurrency 256"));
        let returns: f64 = count.parse().expect("a number");
        let memory = |pids: &[u32]| pids.iter().map(|pid| memory(*pid)).collect::<Vec<_>>();
        eprintln!(
            "{masters} masters in a cluster, {minions} minions; memory of the masters {:?} MiB, of the servers {:?} MiB; \
             CPU ms for a return (with its share of a sign-in):",
            memory(&mains),
            memory(&servers),
        );
        let (mut all, [masters_before, servers_before]) = (0.0, before);
        for (now, before) in [
            (spent(&mains), masters_before),
            (spent(&servers), servers_before),
        ] {
            for (role, cpu) in now {
                let cpu = (cpu - before.get(&role).copied().unwrap_or(0.0)) / returns;
                all += cpu;
                if cpu >= 0.0005 {
                    eprintln!("  {role:<40} {cpu:.4}");
                }
            }
        }
        eprintln!("  {:<40} {all:.4}\n{said}", "all");
    }
}

/// CPU time in ms of these processes and their children, by role.
fn spent(pids: &[u32]) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    for pid in pids {
        for one in procs::family(*pid).expect("processes can be listed") {
            let role = one
                .title
                .rsplit_once(" info ")
                .map_or("server", |(_, role)| role);
            let role = role.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            *out.entry(role.to_owned()).or_default() += one.cpu.as_secs_f64() * 1e3;
        }
    }
    out
}

/// Waits for its end, which must be a success; what it has printed.
fn run(mut swarm: Swarm) -> String {
    patiently("the swarm is done", || swarm.process.status().is_some());
    let said = swarm.process.output();
    let status = swarm.process.status().expect("it has ended");
    assert!(status.success(), "{said}");
    said
}

/// Proportional set size of a process and its children, in MiB.
fn memory(pid: u32) -> u64 {
    let family = procs::family(pid).expect("processes can be listed");
    let of = |one: &procs::Process| {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", one.pid)).ok()?;
        let line = text.lines().find(|line| line.starts_with("Pss:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    family.iter().filter_map(of).sum::<u64>() / 1024
}
