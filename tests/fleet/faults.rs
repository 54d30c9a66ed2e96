//! Kill tests: every process of a master is ended with SIGKILL under load. The fleet recovers,
//! and what was acknowledged is in the job cache.

use halite::client::swarm::Swarm;
use halite::sys::procs;
use halite::wire::zmtp;
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, command, eventually, free_ports};

const MINIONS: usize = 60;
/// Acknowledged returns between one blow and the next.
const BETWEEN: u64 = 150;

/// A master with a fleet that returns without pause.
struct Fleet {
    master: Master,
    swarm: Swarm,
}

impl Fleet {
    fn start() -> Fleet {
        let master = Master::start("worker_threads: 3\n");
        let swarm = master.swarm(MINIONS);
        swarm.send_returns(u64::MAX >> 1, 12);
        let fleet = Fleet { master, swarm };
        fleet.wait_returns();
        fleet
    }

    /// Waits until the fleet has got on.
    fn wait_returns(&self) {
        let goal = self.swarm.finished() + BETWEEN;
        assert!(
            self.swarm.wait(LIMIT, |s| s.finished() >= goal),
            "returns stopped at {}",
            self.swarm.finished()
        );
    }

    /// Publishes a ping and waits until the job cache has the answer of every minion.
    fn ping_all(&self, after: &str) {
        assert!(
            self.swarm.wait_ready(LIMIT),
            "after {after}: {} ready",
            self.swarm.ready()
        );
        let published = self.master.publish_ping("*");
        assert_eq!(published.minions.len(), MINIONS);
        let jobs = halite::store::Stores::open(&self.master.config()).jobs;
        let jid = published.jid.parse().unwrap();
        eventually(&format!("answers of all after {after}"), || {
            jobs.get(&jid)
                .unwrap()
                .is_some_and(|job| job.returns.len() == MINIONS)
        });
    }

    /// Kills the process with that title while a ping is under way; waits for its successor.
    fn kill(&self, title: &str) {
        let before = self
            .master
            .role(title)
            .unwrap_or_else(|| panic!("no process {title}"));
        let count = self.master.family().len();
        self.master.publish_ping("*");
        testing::harness::send(before.pid, Signal::SIGKILL);
        eventually(&format!("a successor of {title}"), || {
            self.master
                .role(title)
                .is_some_and(|now| now.pid != before.pid && now.title == before.title)
        });
        self.wait_returns();
        self.ping_all(title);
        assert_eq!(self.master.family().len(), count, "processes after {title}");
    }

    /// Lets everything under way end and compares what was acknowledged with the job cache.
    fn settle(self) -> Master {
        self.swarm.hold();
        assert!(
            self.swarm.wait(LIMIT, |s| s.under_way() == 0),
            "{} returns hang",
            self.swarm.under_way()
        );
        compare(&self.master, &self.swarm.acknowledged());
        let stats = self.swarm.finish().unwrap();
        assert_eq!(stats.errors, BTreeMap::new(), "{:?}", stats.notes);
        self.master
    }
}

fn compare(master: &Master, acknowledged: &[(String, String)]) {
    assert!(!acknowledged.is_empty());
    let mut by_jid: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (jid, id) in acknowledged {
        by_jid.entry(jid).or_default().insert(id);
    }
    let jobs = halite::store::Stores::open(&master.config()).jobs;
    for (jid, ids) in by_jid {
        let job = jobs.get(&jid.parse().unwrap()).unwrap().unwrap_or_default();
        let kept: BTreeSet<&str> = job.returns.iter().map(|r| r.id.as_str()).collect();
        let lost: Vec<_> = ids.difference(&kept).collect();
        assert!(
            lost.is_empty(),
            "job {jid}: acknowledged and lost: {lost:?}"
        );
    }
}

#[test]
fn the_event_publisher_may_die() {
    let fleet = Fleet::start();
    fleet.kill(" EventPublisher");
    fleet.settle();
}

#[test]
fn the_publisher_may_die() {
    let fleet = Fleet::start();
    fleet.kill(" PubServerChannel._publish_daemon");
    fleet.settle();
}

#[test]
fn the_request_server_may_die() {
    let fleet = Fleet::start();
    fleet.kill(" ReqServer MWorkerQueue");
    fleet.settle();
}

#[test]
fn every_worker_may_die() {
    let fleet = Fleet::start();
    for n in 0..3 {
        fleet.kill(&format!(" ReqServer MWorker-{n}"));
    }
    fleet.settle();
}

#[test]
fn all_workers_may_die_at_once_and_again() {
    let fleet = Fleet::start();
    for _ in 0..4 {
        let workers: Vec<_> = fleet
            .master
            .family()
            .into_iter()
            .filter(|p| p.title.contains("MWorker-"))
            .collect();
        assert_eq!(workers.len(), 3);
        workers
            .iter()
            .for_each(|w| testing::harness::send(w.pid, Signal::SIGKILL));
        eventually("three new workers", || {
            let now = fleet.master.family();
            let fresh = |p: &&procs::Process| {
                p.title.contains("MWorker-") && workers.iter().all(|w| w.pid != p.pid)
            };
            now.iter().filter(fresh).count() == 3
        });
        fleet.wait_returns();
    }
    fleet.ping_all("four times all workers");
    fleet.settle();
}

/// Where the program begins in the memory of a process.
fn place(pid: u32) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.split('-').next().unwrap().to_owned()
}

#[test]
fn roles_are_split_off_and_successors_executed_anew() {
    let master = Master::start("worker_threads: 1\n");
    let main = place(master.pid());
    for role in master.family() {
        assert_eq!(place(role.pid), main, "{}", role.title);
    }
    let title = " ReqServer MWorker-0";
    let fallen = master.role(title).unwrap();
    testing::harness::send(fallen.pid, Signal::SIGKILL);
    eventually("a successor that serves", || {
        let now = master.role(title);
        now.is_some_and(|now| now.pid != fallen.pid && place(now.pid) != main)
    });
}

#[test]
fn maintenance_may_die() {
    let fleet = Fleet::start();
    fleet.kill(" Maintenance");
    fleet.settle();
}

#[test]
fn the_main_process_may_die() {
    let mut fleet = Fleet::start();
    let old = fleet.master.pids();
    fleet.master.publish_ping("*");
    testing::harness::send(fleet.master.pid(), Signal::SIGKILL);
    fleet.master.wait_end(LIMIT).unwrap();
    eventually("the end of all children", || living(&old).is_empty());
    compare(&fleet.master, &fleet.swarm.acknowledged());
    fleet.master.restart();
    fleet.wait_returns();
    fleet.ping_all("a restart");
    assert_eq!(fleet.master.family().len(), old.len());
    fleet.settle();
}

/// Which of these processes still live.
fn living(pids: &[u32]) -> Vec<String> {
    let all = procs::all().unwrap();
    let left = all
        .into_iter()
        .filter(|p| pids.contains(&p.pid) && p.title.contains("halite-master"));
    left.map(|p| p.title).collect()
}

#[test]
fn sigterm_ends_everything_in_time() {
    let mut fleet = Fleet::start();
    let pids = fleet.master.pids();
    let begun = Instant::now();
    fleet.master.signal(Signal::SIGTERM);
    let status = fleet.master.wait_end(Duration::from_secs(10));
    println!("SIGTERM under load: all ended after {:?}", begun.elapsed());
    assert_eq!(status.and_then(|s| s.code()), Some(0));
    assert_eq!(living(&pids), Vec::<String>::new(), "orphans");
    // Whatever was acknowledged until the end is there.
    compare(&fleet.master, &fleet.swarm.acknowledged());
}

#[test]
fn a_second_master_is_refused() {
    let fleet = Fleet::start();
    let pids = fleet.master.pids();
    let refused = |dir: &Path, args: &[&str], why: &str| {
        let stderr = std::process::Stdio::piped();
        let ended = command(dir).args(args).stderr(stderr).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(4), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    };
    let why = "another halite-master already runs";
    refused(fleet.master.dir.path(), &["-l", "error"], why);

    // Other directories, the same ports: one after the other.
    for taken in ["ret_port", "publish_port"] {
        let dir = tempfile::tempdir().unwrap();
        let [mut publish, mut ret] = free_ports();
        if taken == "ret_port" {
            ret = fleet.master.ret_port;
        } else {
            publish = fleet.master.publish_port;
        }
        let text = format!(
            "root_dir: {}\ninterface: 127.0.0.1\npublish_port: {publish}\nret_port: {ret}\n",
            dir.path().display()
        );
        std::fs::write(dir.path().join("master"), text).unwrap();
        let why = "The ports are not available to bind";
        refused(dir.path(), &["-l", "error"], why);
        refused(dir.path(), &["-d"], why);
    }
    assert_eq!(fleet.master.pids(), pids, "the first master lives on");
    fleet.ping_all("a second master");
    fleet.settle();
}

#[test]
fn ten_thousand_silent_connections() {
    let limit = halite::sys::process::raise_open_files(11_000).unwrap();
    // The master has the same limit for both ports together, less some for itself.
    let count = 10_000.min(limit as usize - 500);
    let fleet = Fleet::start();
    let pids = fleet.master.pids();
    let ports = [fleet.master.ret_port, fleet.master.publish_port];
    let silent: Vec<TcpStream> = (0..count)
        .map(|n| TcpStream::connect(("127.0.0.1", ports[n % 2])).unwrap())
        .collect();
    fleet.wait_returns();
    fleet.ping_all("silent connections");
    drop(silent);
    fleet.wait_returns();
    fleet.ping_all("the end of silent connections");
    assert_eq!(fleet.master.pids(), pids);
    fleet.settle();
}

/// Writes blocks of frames to a port, `bears` octets or, without that, until the process behind it is a new one.
/// A connection that is cut before that is made anew.
fn flood(
    fleet: &Fleet,
    port: u16,
    kind: &str,
    title: &str,
    bears: Option<u64>,
    mut block: impl FnMut(u64) -> Vec<u8>,
) {
    let before = fleet.master.role(title).unwrap();
    let same = || {
        fleet
            .master
            .role(title)
            .is_some_and(|p| p.pid == before.pid)
    };
    let mut sent = 0;
    let end = Instant::now() + LIMIT;
    while bears.map_or_else(same, |most| sent < most) {
        assert!(Instant::now() < end, "{title} bears {} MiB", sent >> 20);
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            continue;
        };
        // A connection that is no longer read is given up too.
        let patience = Some(Duration::from_secs(5));
        stream.set_write_timeout(patience).unwrap();
        let mut bytes = zmtp::handshake(kind);
        while stream.write_all(&bytes).is_ok() && Instant::now() < end {
            sent += bytes.len() as u64;
            bytes = block(sent);
        }
    }
    println!(
        "{title} {} after {} MiB",
        if same() { "lives" } else { "started afresh" },
        sent >> 20
    );
    assert_eq!(same(), bears.is_some());
    eventually("a successor", || fleet.master.role(title).is_some());
    assert!(fleet.master.memory() < 1 << 30);
    fleet.wait_returns();
    fleet.ping_all("a flood");
}

#[test]
fn a_message_without_end() {
    let fleet = Fleet::start();
    let frames = [1u8, 1, b'x'].repeat(1 << 18);
    // libzmq makes 64 bytes of these three: together, that would be more than the process may have.
    let bears = Some(64 << 20);
    // Who takes the memory is cut off.
    flood(
        &fleet,
        fleet.master.ret_port,
        "REQ",
        " ReqServer MWorkerQueue",
        bears,
        |_| frames.clone(),
    );
    // So is who sends what no subscriber sends.
    flood(
        &fleet,
        fleet.master.publish_port,
        "SUB",
        " PubServerChannel._publish_daemon",
        bears,
        |_| frames.clone(),
    );
    fleet.settle();
}
