//! Dispatches requests to workers: queues per class, reserved workers, deadlines, one retry.
//!
//! Pure bookkeeping without sockets; time is passed in, so that each rule can be tested.
//!
//! Slow classes (pillar, file, login, other) together never occupy the last worker of a pool, and none of them
//! alone more than all but two: sign-ins, jobs and returns always find one. Within these limits classes take
//! turns, but jobs and returns go before sign-ins: a storm of sign-ins must not delay running jobs.
//!
//! Handling a return or event costs a worker less than receiving and answering it. So a worker gets all those
//! waiting at once, and while one worker handles returns, another starts only when enough have gathered or a
//! short time has passed: the busier the master, the less each costs. File chunks and sign-ins are also
//! grouped, but never wait for others, and idle workers share them.

use super::commands::Class;
use super::latency::Latencies;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Most returns that a worker gets at once.
pub const MOST_AT_ONCE: usize = 64;
/// Most file requests that a worker gets at once.
const FILES_AT_ONCE: usize = 8;
/// Most sign-ins that a worker gets at once: a few milliseconds of work.
const SIGN_INS_AT_ONCE: usize = 4;
/// Returns that must wait per worker already handling returns before another one starts.
const ENOUGH: usize = 16;
/// Longest time for which a return waits for others.
pub const GATHER: Duration = Duration::from_millis(2);

/// Limits of a dispatcher.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most requests waiting per class and pool.
    pub queue: usize,
    /// Time from arrival to answer.
    pub deadline: Duration,
    /// How long a minion waits for the answer to a sign-in; `None` if unbounded.
    pub sign_in: Option<Duration>,
}

/// A waiting sign-in goes first after this many jobs and groups of returns went before it. Few, since a group
/// of returns may take as long as three sign-ins.
const PASSED: u32 = 2;

/// A worker's name in its pool: the one it uses on `workers.ipc`.
pub type WorkerName = Vec<u8>;

struct Waiting<P> {
    payload: P,
    deadline: Instant,
    retried: bool,
    /// Whether it is given to a worker on its own.
    alone: bool,
}

/// The requests that one worker is handling.
struct Running<P> {
    worker: WorkerName,
    class: Class,
    /// In the order in which they were sent; `None` if the deadline has passed since.
    requests: Vec<Option<Waiting<P>>>,
}

#[derive(Default)]
struct Worker {
    instance: u32,
    pool: usize,
    running: Option<u64>,
}

struct Pool<P> {
    workers: usize,
    idle: Vec<WorkerName>,
    queues: [VecDeque<Waiting<P>>; Class::COUNT],
    busy: [usize; Class::COUNT],
    turn: usize,
    /// How often jobs and returns went before a sign-in whose turn it was.
    passed: u32,
    /// When a worker last got returns.
    gathered: Option<Instant>,
}

/// Counters for logs and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Requests sent to a worker.
    pub dispatched: u64,
    /// Requests refused because their queue was full.
    pub refused: u64,
    /// Requests that missed their deadline.
    pub expired: u64,
    /// Requests given to a second worker because the first died.
    pub retried: u64,
    /// Sign-ins dropped because their minion no longer waited for the answer.
    pub outwaited: u64,
    /// Requests received, per class.
    pub taken: [u64; Class::COUNT],
    /// Latencies of requests answered in time.
    pub latencies: Latencies,
}

/// What happens to the earlier requests of a worker when a new instance of it reports.
#[derive(Debug, PartialEq, Eq)]
pub struct Reassigned<P> {
    /// Number of requests requeued at the head of their queue, each to be sent on its own.
    pub retried: usize,
    /// Requests that have now crashed two workers; their senders get an error.
    pub lost: Vec<P>,
}

impl<P> Default for Reassigned<P> {
    fn default() -> Self {
        Reassigned {
            retried: 0,
            lost: Vec::new(),
        }
    }
}

/// Queues and workers of one request server.
pub struct Dispatcher<P> {
    limits: Limits,
    pools: Vec<Pool<P>>,
    workers: HashMap<WorkerName, Worker>,
    running: HashMap<u64, Running<P>>,
    next: u64,
    /// Counters so far.
    pub counters: Counters,
}

impl<P> Dispatcher<P> {
    /// Creates a dispatcher with one pool per given number of workers. Numbers of groups begin after `first`.
    pub fn new(limits: Limits, pools: &[usize], first: u64) -> Self {
        Dispatcher {
            limits,
            pools: pools
                .iter()
                .map(|workers| Pool {
                    workers: (*workers).max(1),
                    idle: Vec::new(),
                    queues: Default::default(),
                    busy: [0; Class::COUNT],
                    turn: 0,
                    passed: 0,
                    gathered: None,
                })
                .collect(),
            workers: HashMap::new(),
            running: HashMap::new(),
            next: first,
            counters: Counters::default(),
        }
    }

    /// Queues a request, or returns it if the queue is full. `alone`: it is too large to be grouped with
    /// others.
    ///
    /// # Errors
    /// The queue of its class is full.
    pub fn submit(
        &mut self,
        now: Instant,
        pool: usize,
        class: Class,
        alone: bool,
        payload: P,
    ) -> Result<(), P> {
        let queue = &mut self.pools[pool].queues[class as usize];
        if queue.len() >= self.limits.queue {
            self.counters.refused += 1;
            return Err(payload);
        }
        self.counters.taken[class as usize] += 1;
        queue.push_back(Waiting {
            payload,
            deadline: now + self.limits.deadline,
            retried: false,
            alone: alone || !matches!(class, Class::Return | Class::File | Class::Auth),
        });
        Ok(())
    }

    /// A worker reports that it is idle. `instance` (its pid) distinguishes a restarted worker from a repeated
    /// report.
    pub fn ready(&mut self, pool: usize, name: &[u8], instance: u32) -> Reassigned<P> {
        let known = self.workers.entry(name.to_vec()).or_default();
        let fresh = known.instance != instance;
        if !fresh {
            return Reassigned::default();
        }
        let earlier = known.running.take();
        *known = Worker {
            instance,
            pool,
            running: None,
        };
        let idle = &mut self.pools[pool].idle;
        if !idle.iter().any(|w| w == name) {
            idle.push(name.to_vec());
        }
        earlier.map_or_else(Reassigned::default, |seq| self.revive(pool, seq))
    }

    fn revive(&mut self, pool: usize, seq: u64) -> Reassigned<P> {
        let mut fate = Reassigned::default();
        let Some(lost) = self.running.remove(&seq) else {
            return fate;
        };
        let pool = &mut self.pools[pool];
        pool.busy[lost.class as usize] -= 1;
        for mut request in lost.requests.into_iter().rev().flatten() {
            if request.retried {
                fate.lost.push(request.payload);
                continue;
            }
            // One of them may have crashed the worker: sent on its own, it takes no others with it.
            (request.retried, request.alone) = (true, true);
            pool.queues[lost.class as usize].push_front(request);
            fate.retried += 1;
        }
        self.counters.retried += fate.retried as u64;
        fate
    }

    /// A worker has answered the first `answered` requests of group `seq`. They are returned in order, `None`
    /// for each whose deadline had passed (its sender got an error already). The remaining ones were not
    /// started and are requeued. The worker is idle again.
    pub fn done(&mut self, now: Instant, name: &[u8], seq: u64, answered: usize) -> Vec<Option<P>> {
        let Some(worker) = self.workers.get_mut(name) else {
            return Vec::new();
        };
        if worker.running != Some(seq) {
            return Vec::new();
        }
        worker.running = None;
        let pool = &mut self.pools[worker.pool];
        pool.idle.push(name.to_vec());
        let Some(mut finished) = self.running.remove(&seq) else {
            return Vec::new();
        };
        let class = finished.class as usize;
        pool.busy[class] -= 1;
        let rest = finished
            .requests
            .split_off(answered.min(finished.requests.len()));
        for request in rest.into_iter().rev().flatten() {
            pool.queues[class].push_front(request);
        }
        for request in finished.requests.iter().flatten() {
            // A deadline is the time of arrival plus the limit.
            let took = now + self.limits.deadline;
            let took = took.saturating_duration_since(request.deadline);
            self.counters.latencies.add(finished.class, took);
        }
        let done = finished.requests.into_iter();
        done.map(|request| request.map(|r| r.payload)).collect()
    }

    /// Assigns waiting requests to an idle worker: one, or a group of returns, file requests or sign-ins.
    pub fn assign(&mut self, now: Instant) -> Option<(WorkerName, u64, Vec<&P>)> {
        let (pool, class) = self.choose(now)?;
        let state = &mut self.pools[pool];
        let requests = state.take(class);
        let worker = state.idle.pop()?;
        state.busy[class as usize] += 1;
        if class == Class::Return {
            state.gathered = Some(now);
        }
        self.next += 1;
        let seq = self.next;
        self.counters.dispatched += requests.len() as u64;
        if let Some(w) = self.workers.get_mut(&worker) {
            w.running = Some(seq);
        }
        let running = self.running.entry(seq).insert_entry(Running {
            worker,
            class,
            requests,
        });
        let running = running.into_mut();
        let payloads = running.requests.iter().flatten().map(|r| &r.payload);
        Some((running.worker.clone(), seq, payloads.collect()))
    }

    /// Whether returns wait for others although a worker is idle: call again after [`GATHER`].
    pub fn gathers(&self, now: Instant) -> bool {
        self.pools
            .iter()
            .any(|pool| !pool.idle.is_empty() && pool.gathers(now))
    }

    fn choose(&mut self, now: Instant) -> Option<(usize, Class)> {
        for (index, pool) in self.pools.iter_mut().enumerate() {
            if pool.idle.is_empty() {
                continue;
            }
            for step in 0..Class::ALL.len() {
                let class = Class::ALL[(pool.turn + step) % Class::ALL.len()];
                if pool.queues[class as usize].is_empty() || !pool.admits(class) {
                    continue;
                }
                let goes = match class {
                    Class::Return => !pool.gathers(now),
                    Class::Auth => !pool.passes_sign_ins(now),
                    _ => true,
                };
                if goes {
                    pool.turn = (class as usize + 1) % Class::ALL.len();
                    return Some((index, class));
                }
            }
        }
        None
    }

    /// Removes sign-ins that have waited longer than their minions do. These try again; handling the old
    /// request would cost as much as one that is still awaited, and help nobody. They get no answer.
    pub fn outwaited(&mut self, now: Instant) -> Vec<P> {
        let Some(patience) = self.limits.sign_in else {
            return Vec::new();
        };
        // A deadline is the time of arrival plus the limit.
        let left = self.limits.deadline.saturating_sub(patience);
        let mut out = Vec::new();
        for pool in &mut self.pools {
            let queue = &mut pool.queues[Class::Auth as usize];
            while queue.front().is_some_and(|w| w.deadline <= now + left) {
                out.extend(queue.pop_front().map(|w| w.payload));
            }
        }
        self.counters.outwaited += out.len() as u64;
        out
    }

    /// Removes all requests past their deadline: waiting ones, and running ones, whose worker stays busy until
    /// it answers or is restarted.
    pub fn expire(&mut self, now: Instant) -> Vec<P> {
        let mut out = Vec::new();
        for pool in &mut self.pools {
            for queue in &mut pool.queues {
                while queue.front().is_some_and(|w| w.deadline <= now) {
                    out.extend(queue.pop_front().map(|w| w.payload));
                }
            }
        }
        let (pools, workers) = (&mut self.pools, &self.workers);
        self.running.retain(|_, running| {
            for slot in &mut running.requests {
                if slot.as_ref().is_some_and(|r| r.deadline <= now) {
                    out.extend(slot.take().map(|r| r.payload));
                }
            }
            let some = running.requests.iter().any(Option::is_some);
            if !some && let Some(worker) = workers.get(&running.worker) {
                pools[worker.pool].busy[running.class as usize] -= 1;
            }
            some
        });
        self.counters.expired += out.len() as u64;
        out
    }

    /// Number of waiting and running requests.
    pub fn pending(&self) -> usize {
        let waiting: usize = self
            .pools
            .iter()
            .flat_map(|p| &p.queues)
            .map(VecDeque::len)
            .sum();
        let running = self.running.values();
        waiting
            + running
                .map(|r| r.requests.iter().flatten().count())
                .sum::<usize>()
    }

    /// Age of the oldest waiting request.
    pub fn oldest(&self, now: Instant) -> Duration {
        let queues = self.pools.iter().flat_map(|p| &p.queues);
        let left = queues
            .filter_map(|q| q.front())
            .map(|w| w.deadline.saturating_duration_since(now))
            .min();
        left.map_or(Duration::ZERO, |left| {
            self.limits.deadline.saturating_sub(left)
        })
    }

    /// Number of workers that have reported, and of those that are idle.
    pub fn workers(&self) -> (usize, usize) {
        let idle = self.pools.iter().map(|p| p.idle.len()).sum();
        (self.workers.len(), idle)
    }

    /// Waiting requests per class, over all pools.
    pub fn depths(&self) -> [usize; Class::COUNT] {
        let mut out = [0; Class::COUNT];
        for pool in &self.pools {
            for (sum, queue) in out.iter_mut().zip(&pool.queues) {
                *sum += queue.len();
            }
        }
        out
    }
}

impl<P> Pool<P> {
    /// Whether a sign-in whose turn it is lets jobs and returns go first once more.
    fn passes_sign_ins(&mut self, now: Instant) -> bool {
        let waits = |class| !self.queues[class as usize].is_empty();
        let before = waits(Class::Publish) || (waits(Class::Return) && !self.gathers(now));
        self.passed = if before && self.passed < PASSED {
            self.passed + 1
        } else {
            0
        };
        self.passed > 0
    }

    /// Takes the next request of a class, with those behind it that may be grouped with it.
    fn take(&mut self, class: Class) -> Vec<Option<Waiting<P>>> {
        let queue = &mut self.queues[class as usize];
        let share = queue.len().div_ceil(self.idle.len().max(1));
        let most = match class {
            Class::File => share.min(FILES_AT_ONCE),
            Class::Auth => share.min(SIGN_INS_AT_ONCE),
            _ => MOST_AT_ONCE,
        };
        let together = queue.iter().take(most).take_while(|r| !r.alone).count();
        let count = together.max(1).min(queue.len());
        queue.drain(..count).map(Some).collect()
    }

    /// Whether returns wait for more of them: workers are handling some since a short time, and few have
    /// arrived since.
    fn gathers(&self, now: Instant) -> bool {
        let (waiting, busy) = (
            self.queues[Class::Return as usize].len(),
            self.busy[Class::Return as usize],
        );
        waiting > 0
            && waiting < ENOUGH * busy
            && self
                .gathered
                .is_some_and(|at| now.saturating_duration_since(at) < GATHER)
    }

    fn admits(&self, class: Class) -> bool {
        let slow = [Class::Pillar, Class::File, Class::Other, Class::Login];
        if self.workers == 1 || !slow.contains(&class) {
            return true;
        }
        let busy: usize = slow.iter().map(|c| self.busy[*c as usize]).sum();
        let alone = self.workers.saturating_sub(2).max(1);
        busy < self.workers - 1 && self.busy[class as usize] < alone
    }
}

#[cfg(test)]
mod tests;
