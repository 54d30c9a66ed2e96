//! Who gets the next request: queues per class, reserved workers, deadlines, one retry.
//!
//! Pure bookkeeping, no sockets and no clock of its own, so that each rule can be tested.
//!
//! Slow classes (pillar, file, login, other) together never hold the last worker of a pool, and
//! none of them alone more than all but two: sign-ins, jobs and returns always find one.
//! Within these limits classes take turns.

use crate::wire::envelope::Class;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Rules of one dispatcher.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests that may wait in one class of one pool.
    pub queue: usize,
    /// Time from arrival to answer.
    pub deadline: Duration,
}

/// A worker's name in its pool: what it calls itself on `workers.ipc`.
pub type WorkerName = Vec<u8>;

struct Waiting<P> {
    payload: P,
    deadline: Instant,
    retried: bool,
}

struct Running<P> {
    worker: WorkerName,
    class: Class,
    request: Waiting<P>,
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
}

/// Counters for logs and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests handed to a worker.
    pub dispatched: u64,
    /// Requests refused because their queue was full.
    pub refused: u64,
    /// Requests that missed their deadline.
    pub expired: u64,
    /// Requests given to a second worker because the first died.
    pub retried: u64,
    /// Requests taken in, per class.
    pub taken: [u64; Class::COUNT],
}

/// What became of a worker's earlier request when a new instance of it reports.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate<P> {
    /// It had none.
    None,
    /// It waits again, at the head of its queue.
    Retried,
    /// It has now cost two workers; the sender gets an error.
    Lost(P),
}

/// Queues and workers of one request server.
pub struct Dispatcher<P> {
    limits: Limits,
    pools: Vec<Pool<P>>,
    workers: HashMap<WorkerName, Worker>,
    running: HashMap<u64, Running<P>>,
    next: u64,
    /// What has happened so far.
    pub counters: Counters,
}

impl<P> Dispatcher<P> {
    /// A dispatcher with one pool for each number of workers.
    pub fn new(limits: Limits, pools: &[usize]) -> Self {
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
                })
                .collect(),
            workers: HashMap::new(),
            running: HashMap::new(),
            next: 0,
            counters: Counters::default(),
        }
    }

    /// Queues a request; gives it back if the queue is full.
    pub fn submit(&mut self, now: Instant, pool: usize, class: Class, payload: P) -> Result<(), P> {
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
        });
        Ok(())
    }

    /// A worker says that it waits for work. `instance` (its pid) tells a restarted worker
    /// from one that merely repeats itself.
    pub fn ready(&mut self, pool: usize, name: &[u8], instance: u32) -> Fate<P> {
        let known = self.workers.entry(name.to_vec()).or_default();
        let fresh = known.instance != instance;
        if !fresh {
            return Fate::None;
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
        match earlier {
            Some(seq) => self.revive(pool, seq),
            None => Fate::None,
        }
    }

    fn revive(&mut self, pool: usize, seq: u64) -> Fate<P> {
        let Some(mut lost) = self.running.remove(&seq) else {
            return Fate::None;
        };
        let pool = &mut self.pools[pool];
        pool.busy[lost.class as usize] -= 1;
        if lost.request.retried {
            return Fate::Lost(lost.request.payload);
        }
        lost.request.retried = true;
        pool.queues[lost.class as usize].push_front(lost.request);
        self.counters.retried += 1;
        Fate::Retried
    }

    /// A worker has answered request `seq`. The request comes back unless its deadline had
    /// passed (its sender was told already). The worker is idle again.
    pub fn done(&mut self, name: &[u8], seq: u64) -> Option<P> {
        let worker = self.workers.get_mut(name)?;
        if worker.running != Some(seq) {
            return None;
        }
        worker.running = None;
        let pool = &mut self.pools[worker.pool];
        pool.idle.push(name.to_vec());
        let finished = self.running.remove(&seq)?;
        pool.busy[finished.class as usize] -= 1;
        Some(finished.request.payload)
    }

    /// Assigns one waiting request to an idle worker.
    pub fn assign(&mut self) -> Option<(WorkerName, u64, &P)> {
        let (pool, class) = self.choose()?;
        let state = &mut self.pools[pool];
        let worker = state.idle.pop()?;
        let request = state.queues[class as usize].pop_front()?;
        state.busy[class as usize] += 1;
        self.next += 1;
        let seq = self.next;
        self.counters.dispatched += 1;
        if let Some(w) = self.workers.get_mut(&worker) {
            w.running = Some(seq);
        }
        let running = self.running.entry(seq).insert_entry(Running {
            worker,
            class,
            request,
        });
        let running = running.into_mut();
        Some((running.worker.clone(), seq, &running.request.payload))
    }

    fn choose(&mut self) -> Option<(usize, Class)> {
        for (index, pool) in self.pools.iter_mut().enumerate() {
            if pool.idle.is_empty() {
                continue;
            }
            for step in 0..Class::ALL.len() {
                let class = Class::ALL[(pool.turn + step) % Class::ALL.len()];
                if !pool.queues[class as usize].is_empty() && pool.admits(class) {
                    pool.turn = (class as usize + 1) % Class::ALL.len();
                    return Some((index, class));
                }
            }
        }
        None
    }

    /// Takes out every request whose time is over: waiting ones, and running ones, whose
    /// worker stays busy until it answers or is restarted.
    pub fn expire(&mut self, now: Instant) -> Vec<P> {
        let mut out = Vec::new();
        for pool in &mut self.pools {
            for queue in &mut pool.queues {
                while queue.front().is_some_and(|w| w.deadline <= now) {
                    out.extend(queue.pop_front().map(|w| w.payload));
                }
            }
        }
        let late: Vec<u64> = self
            .running
            .iter()
            .filter(|(_, r)| r.request.deadline <= now)
            .map(|(seq, _)| *seq)
            .collect();
        for seq in late {
            if let Some(running) = self.running.remove(&seq) {
                if let Some(worker) = self.workers.get(&running.worker) {
                    self.pools[worker.pool].busy[running.class as usize] -= 1;
                }
                out.push(running.request.payload);
            }
        }
        self.counters.expired += out.len() as u64;
        out
    }

    /// Requests that wait or run.
    pub fn pending(&self) -> usize {
        let waiting: usize = self
            .pools
            .iter()
            .flat_map(|p| &p.queues)
            .map(VecDeque::len)
            .sum();
        waiting + self.running.len()
    }

    /// How long the request has waited that waits longest.
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

    /// Workers that have reported, and those of them that wait for work.
    pub fn workers(&self) -> (usize, usize) {
        let idle = self.pools.iter().map(|p| p.idle.len()).sum();
        (self.workers.len(), idle)
    }

    /// Requests that wait, per class over all pools.
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
mod tests {
    use super::*;

    fn dispatcher(workers: usize) -> (Dispatcher<u32>, Instant) {
        let limits = Limits {
            queue: 3,
            deadline: Duration::from_secs(60),
        };
        let mut d = Dispatcher::new(limits, &[workers]);
        for w in 0..workers {
            d.ready(0, format!("w{w}").as_bytes(), 100 + w as u32);
        }
        (d, Instant::now())
    }

    fn take(d: &mut Dispatcher<u32>) -> Option<(WorkerName, u64, u32)> {
        d.assign().map(|(w, s, p)| (w, s, *p))
    }

    #[test]
    fn slow_work_leaves_a_worker_for_the_rest() {
        let (mut d, now) = dispatcher(3);
        for i in 0..3 {
            d.submit(now, 0, Class::Pillar, i).unwrap();
            d.submit(now, 0, Class::File, 10 + i).unwrap();
        }
        let mut got = vec![take(&mut d).unwrap().2, take(&mut d).unwrap().2];
        got.sort_unstable();
        assert_eq!(
            got,
            [0, 10],
            "one of each, then the last worker is kept free"
        );
        assert!(take(&mut d).is_none());
        d.submit(now, 0, Class::Auth, 99).unwrap();
        assert_eq!(take(&mut d).unwrap().2, 99);
    }

    #[test]
    fn logins_that_hang_do_not_take_all_workers() {
        let (mut d, now) = dispatcher(3);
        for i in 0..3 {
            d.submit(now, 0, Class::Login, i).unwrap();
        }
        assert_eq!(take(&mut d).unwrap().2, 0);
        assert!(
            take(&mut d).is_none(),
            "others wait, although workers are idle"
        );
        for class in [Class::Auth, Class::Publish] {
            d.submit(now, 0, class, 99).unwrap();
            assert_eq!(take(&mut d).unwrap().2, 99);
        }
    }

    #[test]
    fn classes_take_turns() {
        let (mut d, now) = dispatcher(1);
        for i in 0..3 {
            d.submit(now, 0, Class::Return, i).unwrap();
        }
        d.submit(now, 0, Class::Auth, 50).unwrap();
        let mut order = Vec::new();
        while let Some((worker, seq, payload)) = take(&mut d) {
            order.push(payload);
            assert_eq!(d.done(&worker, seq), Some(payload));
        }
        assert_eq!(order, [50, 0, 1, 2]);
    }

    #[test]
    fn a_full_queue_refuses() {
        let (mut d, now) = dispatcher(1);
        for i in 0..3 {
            d.submit(now, 0, Class::Other, i).unwrap();
        }
        assert_eq!(d.submit(now, 0, Class::Other, 9), Err(9));
        assert_eq!(d.counters.refused, 1);
        d.submit(now, 0, Class::Auth, 9).unwrap();
    }

    #[test]
    fn a_dead_worker_costs_one_retry_only() {
        let (mut d, now) = dispatcher(1);
        d.submit(now, 0, Class::Return, 7).unwrap();
        take(&mut d).unwrap();
        assert_eq!(
            d.ready(0, b"w0", 100),
            Fate::None,
            "the same instance repeats itself"
        );
        assert!(take(&mut d).is_none());
        assert_eq!(d.ready(0, b"w0", 200), Fate::Retried);
        assert_eq!(take(&mut d).unwrap().2, 7);
        assert_eq!(
            d.ready(0, b"w0", 300),
            Fate::Lost(7),
            "a request that kills is not tried for ever"
        );
        assert!(take(&mut d).is_none());
        assert_eq!(d.pending(), 0);
    }

    #[test]
    fn deadlines_hold_for_waiting_and_running() {
        let (mut d, now) = dispatcher(1);
        d.submit(now, 0, Class::Return, 1).unwrap();
        d.submit(now, 0, Class::Return, 2).unwrap();
        let (worker, seq, _) = take(&mut d).unwrap();
        assert!(d.expire(now + Duration::from_secs(59)).is_empty());
        let mut late = d.expire(now + Duration::from_secs(60));
        late.sort_unstable();
        assert_eq!(late, [1, 2]);
        assert_eq!(
            d.done(&worker, seq),
            None,
            "its sender has been told already"
        );
        d.submit(now, 0, Class::Return, 3).unwrap();
        assert_eq!(take(&mut d).unwrap().2, 3, "the late worker serves again");
    }
}
