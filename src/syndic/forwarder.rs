//! The thread that forwards returns and events to the upper master (`salt/minion.py
//! SyndicManager._forward_events`, `Syndic._return_pub_multi`).

use super::forward_queue::{LOAD_BYTES, Returns, is_too_deep, size};
use super::{Shared, Upper};
use halite_channel::channel::{Channel, Reply};
use halite_channel::session::lock;
use halite_config::MinionConfig;
use halite_store::jobs::JobStore;
use halite_sys::exit::ExitError;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use rand::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between removals of old records.
const SWEEP: Duration = Duration::from_secs(3600);

pub(super) struct Forwarder {
    /// Index of the upper master in `syndic_master`.
    pub master: usize,
    pub shared: Arc<Shared>,
    pub channel: Channel,
    pub jobs: Arc<dyn JobStore>,
    pub upper: Arc<MinionConfig>,
    /// Pause between two messages.
    pub pause: Duration,
    /// How long jobs are remembered.
    pub keep: Duration,
    /// Jobs whose load the upper master has received from us, the latest last.
    pub loads: VecDeque<Jid>,
    pub most_loads: usize,
    /// Consecutive messages without an answer.
    pub unanswered: u32,
    /// The link is down, so this thread stops too.
    pub over: Arc<AtomicBool>,
}

impl Forwarder {
    /// Forwards until the process stops.
    ///
    /// # Errors
    /// The upper master refuses permanently.
    pub fn run(mut self) -> Result<(), ExitError> {
        let mut swept = Instant::now();
        while self.channel.stop().sleep(self.pause) && !self.over.load(Ordering::Relaxed) {
            if self.mine().behind.swap(false, Ordering::Relaxed) {
                self.catch_up();
            }
            if !self.events()? || !self.returns()? {
                return Ok(());
            }
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                lock(&self.shared.routes).expire(self.master, self.keep);
            }
        }
        Ok(())
    }

    fn mine(&self) -> &Upper {
        &self.shared.uppers[self.master]
    }

    /// Timeout of one attempt (`salt/minion.py MinionBase._return_retry_timer`).
    fn patience(&self) -> Duration {
        let least = self.upper.return_retry_timer.max(1);
        let most = self.upper.return_retry_timer_max.max(least);
        Duration::from_secs(rand::thread_rng().gen_range(least..=most))
    }

    /// Queues returns from the job cache that did not arrive over the bus, or that an earlier process did not
    /// send.
    fn catch_up(&mut self) {
        let known = lock(&self.shared.routes).jobs(self.master);
        for jid in known {
            let job = match self.jobs.get(&jid) {
                Ok(Some(job)) => job,
                Ok(None) => continue,
                Err(e) => {
                    log::error!("the job cache cannot be read for job {jid}: {e}");
                    continue;
                }
            };
            let routes = lock(&self.shared.routes);
            let mut queue = lock(&self.mine().queue);
            if queue.is_full() {
                // The others are looked up when these are gone.
                queue.overflowed = true;
                return;
            }
            for stored in job.returns {
                if !routes.has(self.master, &jid, &stored.id) {
                    let mut load = stored.load;
                    if !load.contains("fun")
                        && let Some(fun) = job.load.get("fun")
                    {
                        load.set("fun", fun.clone());
                    }
                    queue.add_return(&jid, &stored.id, &load);
                }
            }
        }
    }

    /// Sends events once, without retries, as in stock. `false`: the process is stopping.
    fn events(&mut self) -> Result<bool, ExitError> {
        loop {
            let events = lock(&self.mine().queue).take_events();
            if events.is_empty() {
                return Ok(true);
            }
            if let Some(done) = self.send_events(events)? {
                return Ok(done);
            }
        }
    }

    /// Sends events; `None` if they arrived, otherwise what [`Forwarder::events`] returns.
    fn send_events(&mut self, events: Vec<Value>) -> Result<Option<bool>, ExitError> {
        let count = events.len();
        let load = halite_wire::map! {
            "id" => self.upper.id.as_str(), "cmd" => "_minion_event",
            "pretag" => format!("syndic/{}", self.upper.id), "events" => events,
        };
        Ok(match self.channel.call(&load, self.patience(), 1)? {
            Reply::Stopped => Some(false),
            Reply::Value(_) => {
                self.mine().reach(true);
                None
            }
            Reply::Silence | Reply::Refused(_) => {
                log::warn!("{count} events did not reach the upper master");
                Some(true)
            }
        })
    }

    /// Sends returns. They stay queued until the upper master has acknowledged them. `false`: the process is
    /// stopping.
    fn returns(&mut self) -> Result<bool, ExitError> {
        loop {
            let batch = lock(&self.mine().queue).take_returns();
            let batch = self.missing_upstream(batch);
            if batch.is_empty() {
                if lock(&self.mine().queue).has_returns() {
                    continue;
                }
                return Ok(true);
            }
            let mut room = LOAD_BYTES;
            let loads: Vec<Value> = batch
                .iter()
                .map(|(jid, job)| self.load(jid, job, &mut room).into())
                .collect();
            let load = halite_wire::map! {
                "cmd" => "_syndic_return", "id" => self.upper.id.as_str(), "load" => loads,
            };
            // Longer than stock waits: a master that is just starting handles each attempt as a separate
            // message and would fire each return as often. In a cluster another master can have them meanwhile.
            let (timeout, tries) = if lock(&self.shared.routes).rules().cluster {
                (self.patience(), self.upper.return_retry_tries.max(1))
            } else {
                self.channel.usual()
            };
            match self.channel.call(&load, timeout, tries)? {
                // An empty string means an exception in the upper master's handler.
                Reply::Value(v) if !v.is_str("") => self.acknowledged(batch),
                Reply::Stopped => return Ok(false),
                _ => {
                    log::warn!(
                        "the upper master has not acknowledged returns of {} jobs; sending them again",
                        batch.len()
                    );
                    self.unanswered(batch);
                    return Ok(true);
                }
            }
        }
    }

    /// Filters the returns that this upper master is to get and does not have.
    fn missing_upstream(&self, batch: Vec<(Jid, Returns)>) -> Vec<(Jid, Returns)> {
        let mut kept = Vec::new();
        for (jid, mut job) in batch {
            let routes = lock(&self.shared.routes);
            let has = |id: &str| routes.has(self.master, &jid, id);
            job.by_id.0.retain(|(id, _)| !id.as_str().is_some_and(has));
            let mine = routes.knows(self.master, &jid);
            drop(routes);
            if job.by_id.is_empty() {
                continue;
            }
            if mine {
                kept.push((jid, job));
                continue;
            }
            // The job was reassigned while these waited.
            for owner in self.shared.owners(&jid) {
                let other = &self.shared.uppers[owner];
                lock(&other.queue).put_back(vec![(jid.clone(), job.clone())]);
            }
        }
        kept
    }

    /// Requeues returns that were not acknowledged, or moves them to another upper master if that may have
    /// them.
    fn unanswered(&mut self, batch: Vec<(Jid, Returns)>) {
        self.unanswered += 1;
        self.mine().reach(false);
        let mut own = Vec::new();
        let retries = lock(&self.shared.routes).rules().retries;
        for (jid, job) in batch {
            let reached = self.shared.reached();
            let other = if self.unanswered >= retries {
                lock(&self.shared.routes).reassign(self.master, &jid, &reached)
            } else {
                Ok(None)
            };
            match other {
                Ok(Some(other)) => {
                    log::warn!("returns of job {jid} are reassigned to another upper master");
                    lock(&self.shared.uppers[other].queue).put_back(vec![(jid, job)]);
                }
                Ok(None) => own.push((jid, job)),
                Err(e) => {
                    log::error!(
                        "cannot reassign returns of job {jid} to another upper master: {e}"
                    );
                    own.push((jid, job));
                }
            }
        }
        lock(&self.mine().queue).put_back(own);
    }

    /// One job of a `_syndic_return`. Its load is included only once, and if there is room in the message.
    fn load(&mut self, jid: &Jid, job: &Returns, room: &mut usize) -> Map {
        let mut load = halite_wire::map! {
            "id" => self.upper.id.as_str(), "jid" => jid.as_str(), "fun" => job.fun.clone(),
            "arg" => Value::Nil, "tgt" => Value::Nil, "tgt_type" => Value::Nil,
            "load" => self.job_load(jid, room),
        };
        if let Some(master) = &job.master_id {
            load.set("master_id", master.clone());
        }
        load.set("return", job.by_id.clone());
        load
    }

    fn job_load(&self, jid: &Jid, room: &mut usize) -> Map {
        if self.loads.contains(jid) {
            return Map::new();
        }
        match self.jobs.get(jid) {
            Ok(Some(job)) if !is_too_deep(&job.load) => {
                let bytes = job.load.iter().map(|(key, value)| size(key) + size(value));
                match room.checked_sub(bytes.sum()) {
                    Some(left) => {
                        *room = left;
                        job.load
                    }
                    None => Map::new(),
                }
            }
            _ => Map::new(),
        }
    }

    fn acknowledged(&mut self, batch: Vec<(Jid, Returns)>) {
        self.unanswered = 0;
        self.mine().reach(true);
        if std::mem::take(&mut lock(&self.mine().queue).overflowed) {
            self.mine().behind.store(true, Ordering::Relaxed);
        }
        for (jid, job) in batch {
            let ids: Vec<String> = job
                .by_id
                .iter()
                .filter_map(|(id, _)| id.as_str().map(str::to_owned))
                .collect();
            if let Err(e) = lock(&self.shared.routes).record(self.master, &jid, &ids) {
                log::error!(
                    "cannot record the acknowledged returns of job {jid}, which would be sent again after a restart: {e}"
                );
            }
            if !self.loads.contains(&jid) {
                self.loads.push_back(jid);
                if self.loads.len() > self.most_loads {
                    self.loads.pop_front();
                }
            }
        }
    }
}
