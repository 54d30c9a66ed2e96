//! A swarm of simulated minions in one process, to load a master and to check its answers.
//!
//! Each simulated minion has its own id, request connection, subscription and session, signs in with all checks
//! of a real one, answers jobs and verifies each reply. Keys are shared from a small pool, because generating
//! thousands takes minutes. The master may be halite's or a stock one.

pub mod answer;
pub mod jobs;
pub mod listen;
mod minion;
pub mod publish;
pub mod session;
mod shard;
pub mod stats;
pub mod tally;
pub mod work;

use halite_sys::process::raise_open_files;
use halite_transport::tls::ClientTls;
use halite_wire::Transport;
use session::MinionKeys;
use shard::Shard;
use stats::Stats;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub use tally::Acknowledged;
use work::Work;

/// Where a master listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterAddress {
    /// Its request server.
    pub requests: SocketAddr,
    /// Port for publications; if `None`, the one in the sign-in reply.
    pub publish_port: Option<u16>,
}

/// Parameters of a swarm.
#[derive(Clone)]
pub struct SwarmOptions {
    /// The masters, at least one. Minions begin at them in turn. One whose master refuses connections, or does not answer in
    /// time, goes to another one and takes its session and what it had to return with it.
    pub masters: Vec<MasterAddress>,
    /// Protocol of both ports.
    pub transport: Transport,
    /// TLS, if the ports have it.
    pub tls: Option<ClientTls>,
    /// Number of minions.
    pub minions: usize,
    /// Ids are `<prefix>-<number>`.
    pub prefix: String,
    /// Key pairs, used in turn.
    pub keys: Vec<Arc<MinionKeys>>,
    /// Whether the minions subscribe to publications.
    pub subscribe: bool,
    /// Concurrent sign-ins.
    pub sign_ins: usize,
    /// How long to wait for a reply; then the connection is closed and the request repeated.
    pub timeout: Duration,
    /// Attempts for one return before it counts as an error.
    pub tries: u32,
    /// Threads among which the minions are divided.
    pub threads: usize,
    /// Whether to record jid and id of every acknowledged return.
    pub record: bool,
    /// Where to write a line with jid and id of every acknowledged return.
    pub acknowledged: Option<PathBuf>,
    /// Whether returns ask the master for a jid (`req`) rather than naming a job of their own. A stock master
    /// fails on returns for jobs that it has not published.
    pub master_jids: bool,
    /// Whether minions, after an outage of the master, ask it once they are subscribed again whether it knows
    /// them.
    pub come_back: bool,
}

impl SwarmOptions {
    /// Default values for `minions` minions of the master at `master`.
    pub fn new(master: SocketAddr, minions: usize, keys: Vec<MinionKeys>) -> SwarmOptions {
        SwarmOptions {
            masters: vec![MasterAddress {
                requests: master,
                publish_port: None,
            }],
            transport: Transport::ZeroMq,
            tls: None,
            minions,
            prefix: "sw".into(),
            keys: keys.into_iter().map(Arc::new).collect(),
            subscribe: true,
            sign_ins: 64,
            timeout: Duration::from_secs(10),
            tries: 5,
            threads: 1,
            record: false,
            acknowledged: None,
            master_jids: false,
            come_back: false,
        }
    }

    /// Id of the minion with that number.
    pub fn id(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }
}

/// State shared by the shards and their owner.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Minions that have signed in and, if they subscribe, are subscribed.
    ready: AtomicUsize,
    /// Acknowledged answers to jobs.
    answered: AtomicU64,
    /// Pieces of own work that minions have finished.
    finished: AtomicU64,
    /// What minions do on their own.
    work: Mutex<Work>,
    /// How much of it has not started yet.
    quota: AtomicU64,
    /// How much may be in progress at the same time, per shard.
    concurrency: AtomicUsize,
    /// How much is in progress.
    under_way: AtomicUsize,
    /// Number of further sign-ins that every minion makes.
    rounds: AtomicUsize,
    /// Further sign-ins made.
    again: AtomicU64,
    /// Operations given up.
    failed: AtomicU64,
    /// Requests sent again.
    repeated: AtomicU64,
    /// Minions that have lost their master.
    away: AtomicUsize,
    /// When it accepted the connection of one of them again.
    reopened: OnceLock<Instant>,
    /// Minions that are back.
    back: AtomicUsize,
    record: Mutex<Vec<Acknowledged>>,
    acknowledged: Option<Mutex<BufWriter<File>>>,
}

/// A running swarm, stopped when dropped.
pub struct Swarm {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<Stats>>>,
    minions: usize,
    prefix: String,
}

impl Swarm {
    /// Starts the threads; the minions start to sign in at once.
    ///
    /// # Errors
    /// There are no keys or masters, the list of acknowledged returns cannot be written, or the limit of open files is too low
    /// and cannot be raised.
    pub fn start(options: SwarmOptions) -> io::Result<Swarm> {
        if options.keys.is_empty() || options.masters.is_empty() || options.minions == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a swarm needs minions, a master and at least one key pair",
            ));
        }
        let per_minion = if options.subscribe { 2 } else { 1 };
        let wanted = (options.minions * per_minion + 64) as u64;
        let limit = raise_open_files(wanted)?;
        if limit < wanted {
            return Err(io::Error::other(format!(
                "{} minions need {wanted} open files and the system allows {limit}; raise it (ulimit -Hn) or start fewer",
                options.minions
            )));
        }
        let list = options.acknowledged.as_deref().map(File::create);
        let shared = Arc::new(Shared {
            acknowledged: list
                .transpose()?
                .map(|file| Mutex::new(BufWriter::new(file))),
            ..Shared::default()
        });
        let threads = options.threads.clamp(1, options.minions);
        let options = Arc::new(options);
        let mut swarm = Swarm {
            shared,
            threads: Vec::new(),
            minions: options.minions,
            prefix: options.prefix.clone(),
        };
        for number in 0..threads {
            let mut shard = Shard::new(options.clone(), swarm.shared.clone(), number, threads)?;
            let thread = std::thread::Builder::new().name(format!("swarm-{number}"));
            swarm.threads.push(thread.spawn(move || shard.run())?);
        }
        Ok(swarm)
    }

    /// Number of minions that are ready now.
    pub fn ready(&self) -> usize {
        self.shared.ready.load(Ordering::Acquire)
    }

    /// Acknowledged answers to jobs so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// Pieces of own work finished by minions so far: returns, pillars, files, events.
    pub fn finished(&self) -> u64 {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// Further sign-ins so far.
    pub fn signed_in_again(&self) -> u64 {
        self.shared.again.load(Ordering::Acquire)
    }

    /// Operations given up so far.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Requests sent again so far, which the master may have seen twice.
    pub fn repeated(&self) -> u64 {
        self.shared.repeated.load(Ordering::Acquire)
    }

    /// Minions that have lost their master so far, if they are to come back.
    pub fn away(&self) -> usize {
        self.shared.away.load(Ordering::Acquire)
    }

    /// Minions of those that are back: subscribed, and known to the master.
    pub fn back(&self) -> usize {
        self.shared.back.load(Ordering::Acquire)
    }

    /// Returns in progress.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.load(Ordering::Acquire)
    }

    /// Lets the minions send `count` more returns, `concurrency` at a time.
    pub fn send_returns(&self, count: u64, concurrency: usize) {
        self.work(Work::Returns, count, concurrency);
    }

    /// Lets the minions do `count` more pieces of work, `concurrency` at a time. All are of one kind: remaining
    /// work of another kind becomes work of this kind.
    pub fn work(&self, work: Work, count: u64, concurrency: usize) {
        if let Ok(mut current) = self.shared.work.lock() {
            *current = work;
        }
        let shards = self.threads.len().max(1);
        self.shared
            .concurrency
            .store(concurrency.div_ceil(shards).max(1), Ordering::Release);
        self.shared.quota.fetch_add(count, Ordering::AcqRel);
    }

    /// Starts no further returns; those in progress continue.
    pub fn hold(&self) {
        self.shared.quota.store(0, Ordering::Release);
    }

    /// Lets every minion sign in `rounds` more times.
    pub fn sign_in_again(&self, rounds: usize) {
        self.shared.rounds.fetch_add(rounds, Ordering::AcqRel);
    }

    /// Waits until `done` returns true; returns `false` if `limit` passes first or a thread has stopped.
    pub fn wait(&self, limit: Duration, done: impl Fn(&Swarm) -> bool) -> bool {
        let end = Instant::now() + limit;
        while !done(self) {
            if Instant::now() > end || self.threads.iter().any(JoinHandle::is_finished) {
                return done(self);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Waits until every minion is ready.
    pub fn wait_ready(&self, limit: Duration) -> bool {
        self.wait(limit, |s| s.ready() >= s.minions)
    }

    /// Jid and id of every acknowledged return, if recorded.
    pub fn acknowledged(&self) -> Vec<(String, String)> {
        let record = self.shared.record.lock();
        let pair = |a: &Acknowledged| (a.jid.to_string(), a.id.clone());
        record
            .map(|r| r.iter().map(pair).collect())
            .unwrap_or_default()
    }

    /// The returns acknowledged since the last call, if recorded.
    pub fn take_acknowledged(&self) -> Vec<Acknowledged> {
        let record = self.shared.record.lock();
        record
            .map(|mut r| std::mem::take(&mut *r))
            .unwrap_or_default()
    }

    /// Number of an id of this swarm.
    pub fn number(&self, id: &str) -> Option<usize> {
        let number = id.strip_prefix(&*self.prefix)?.strip_prefix('-')?;
        number
            .parse::<usize>()
            .ok()
            .filter(|n| *n < self.minions && n.to_string() == number)
    }

    /// Stops all minions and returns their counts.
    pub fn finish(mut self) -> io::Result<Stats> {
        self.shared.stop.store(true, Ordering::Release);
        let mut stats = Stats::default();
        for thread in self.threads.drain(..) {
            let ended = thread
                .join()
                .map_err(|_| io::Error::other("a thread of the swarm panicked"))?;
            stats.merge(ended?);
        }
        if let Some(Ok(mut list)) = self.shared.acknowledged.as_ref().map(Mutex::lock) {
            list.flush()?;
        }
        Ok(stats)
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}
