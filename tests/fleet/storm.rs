//! Storms: all minions sign in at the same moment, after a restart of the master, after it was killed, after its key of
//! publications was replaced. Nobody is lost, every one answers one ping, and the job cache has it.
//!
//! `HALITE_STORM` is the number of minions (300 without it); the times printed are for whoever reads them, nothing
//! depends on them:
//!
//!     HALITE_STORM=10000 cargo test --release --test fleet -- storm:: --nocapture --test-threads 1

use halite::client::swarm::Swarm;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, eventually};

fn minions() -> usize {
    let asked = std::env::var("HALITE_STORM").ok();
    asked.map_or(300, |n| n.parse().expect("HALITE_STORM is a number"))
}

/// A master with a swarm whose minions sign in without waiting for each other, as real ones do.
struct Storm {
    master: Master,
    swarm: Swarm,
    count: usize,
    answers: u64,
}

impl Storm {
    fn begin(count: usize, extra: &str) -> Storm {
        // All have the same address here, and those that get no answer in time ask again.
        let master = Master::start(&format!("auth_rate_burst: {}\n{extra}", 10 * count));
        let mut options = master.swarm_options(count);
        options.sign_ins = count;
        options.timeout = Duration::from_secs(5);
        options.threads = 2;
        let watch = Watch::start(&master);
        let swarm = Swarm::start(options).unwrap();
        let storm = Storm {
            master,
            swarm,
            count,
            answers: 0,
        };
        storm.all_are_ready();
        watch.tell("first contact of all", &storm.master);
        storm
    }

    /// Far longer than anything takes.
    fn limit(&self) -> Duration {
        LIMIT * (1 + self.count as u32 / 1000)
    }

    fn all_are_ready(&self) {
        let ready = self.swarm.wait_ready(self.limit());
        assert!(ready, "{} of {} are there", self.swarm.ready(), self.count);
    }

    /// Pings all; each must answer, and the job cache must have it.
    fn ping(&mut self) {
        let published = self.master.publish_ping("*");
        assert_eq!(published.minions.len(), self.count);
        self.answers += self.count as u64;
        let wanted = self.answers;
        let answered = self.swarm.wait(self.limit(), |s| s.answered() >= wanted);
        assert!(
            answered,
            "{} of {wanted} answers; {} sign-ins",
            self.swarm.answered(),
            self.swarm.signed_in_again()
        );
        let jobs = halite::store::Stores::open(&self.master.config()).jobs;
        let job = jobs.get(&published.jid.parse().unwrap()).unwrap().unwrap();
        let kept: BTreeSet<String> = job.returns.into_iter().map(|r| r.id).collect();
        let all = (0..self.count).map(|n| format!("sw-{n}")).collect();
        assert!(kept == all, "{} of {} in the cache", kept.len(), self.count);
    }

    /// Ends the master by a signal and starts it again when all have noticed; measured from that start on.
    fn restart(&mut self, signal: Signal) -> Watch {
        let pids = self.master.pids();
        self.master.signal(signal);
        assert!(self.master.wait_end(LIMIT).is_some());
        let gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
        eventually("the end of all roles", || pids.iter().all(gone));
        let lost = self.swarm.wait(self.limit(), |s| s.ready() == 0);
        assert!(lost, "{} still think it is there", self.swarm.ready());
        // A new process counts from zero.
        let watch = Watch {
            begun: Instant::now(),
            cpu: Duration::ZERO,
        };
        self.master.restart();
        watch
    }

    fn finish(self) {
        let stats = self.swarm.finish().unwrap();
        for (what, count) in &stats.notes {
            println!("  note: {count} {what}");
        }
        assert_eq!(stats.errors, Default::default());
    }
}

/// What something took.
struct Watch {
    begun: Instant,
    cpu: Duration,
}

impl Watch {
    fn start(master: &Master) -> Watch {
        Watch {
            begun: Instant::now(),
            cpu: cpu(master),
        }
    }

    fn tell(&self, what: &str, master: &Master) {
        println!(
            "{what}: {:.2} s to the last one, {:.2} s CPU of the master",
            self.begun.elapsed().as_secs_f64(),
            cpu(master).saturating_sub(self.cpu).as_secs_f64()
        );
    }
}

fn cpu(master: &Master) -> Duration {
    master.family().iter().map(|p| p.cpu).sum()
}

#[test]
fn all_come_back_after_a_restart() {
    let mut storm = Storm::begin(minions(), "");
    storm.ping();
    for (round, signal) in [(1, Signal::SIGTERM), (2, Signal::SIGKILL)] {
        let watch = storm.restart(signal);
        storm.all_are_ready();
        watch.tell(&format!("connected after {signal}"), &storm.master);
        // The key of publications is new: nobody can open this one without signing in.
        storm.ping();
        watch.tell(&format!("answered after {signal}"), &storm.master);
        let again = storm.swarm.signed_in_again();
        assert!(again >= round * storm.count as u64, "{again} sign-ins");
    }
    storm.finish();
}

#[test]
fn a_replaced_key_costs_one_sign_in_each() {
    let mut storm = Storm::begin(minions(), "loop_interval: 1");
    storm.ping();
    let watch = Watch::start(&storm.master);
    let config = storm.master.config();
    let file = config.cachedir.join(".dfn");
    std::fs::write(&file, &config.id).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o400)).unwrap();
    eventually("the rotation", || !file.exists());
    // The announcement under the old key is passed over; it makes nobody sign in.
    eventually("the new key", || {
        storm.master.log().contains("was rotated (generation 2)")
    });
    storm.ping();
    watch.tell("answered after a rotation", &storm.master);
    let again = storm.swarm.signed_in_again();
    assert!(again >= storm.count as u64, "{again} sign-ins");
    storm.finish();
}

#[test]
fn sign_ins_beyond_the_rate_come_in_later() {
    let count = 60;
    let extra = "auth_rate_limit: 40\nauth_rate_burst: 20";
    let master = Master::start(extra);
    let mut options = master.swarm_options(count);
    options.sign_ins = count;
    options.timeout = Duration::from_millis(300);
    let swarm = Swarm::start(options).unwrap();
    assert!(swarm.wait_ready(LIMIT), "{} are there", swarm.ready());
    eventually("a line of the log", || {
        master
            .log()
            .contains("because their address exceeds auth_rate_limit")
    });
    let stats = swarm.finish().unwrap();
    assert_eq!(stats.errors, Default::default());
    assert!(stats.notes.contains_key("time-outs"), "{:?}", stats.notes);
}
