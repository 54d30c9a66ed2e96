//! The thread that brings returns and events to the upper master
//! (`salt/minion.py SyndicManager._forward_events`, `Syndic._return_pub_multi`).

use super::Shared;
use super::basket::Returns;
use crate::minion::MinionError;
use crate::minion::channel::{Channel, Reply};
use crate::minion::session::lock;
use crate::store::jobs::JobStore;
use crate::store::jobs::joblog::JobLog;
use crate::wire::ids::Jid;
use crate::wire::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between looks for entries of the ledger that are too old.
const SWEEP: Duration = Duration::from_secs(3600);

pub(super) struct Carrier {
    pub shared: Arc<Shared>,
    pub channel: Channel,
    pub jobs: JobLog,
    pub id: String,
    /// Between two messages.
    pub pause: Duration,
    /// How long jobs are remembered.
    pub keep: Duration,
    /// Jobs whose load the upper master has got from us, the latest last.
    pub loads: VecDeque<Jid>,
    pub most_loads: usize,
}

impl Carrier {
    /// Carries until the process is to end.
    ///
    /// # Errors
    /// The upper master refuses for good.
    pub fn run(mut self) -> Result<(), MinionError> {
        let mut swept = Instant::now();
        while self.channel.stop().sleep(self.pause) {
            if self.shared.behind.swap(false, Ordering::Relaxed) {
                self.catch_up();
            }
            if !self.events()? || !self.returns()? {
                return Ok(());
            }
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                lock(&self.shared.ledger).expire(self.keep);
            }
        }
        Ok(())
    }

    /// Takes from the job cache what the bus did not bring, or an earlier process did not send.
    fn catch_up(&mut self) {
        let known = lock(&self.shared.ledger).jobs();
        for jid in known {
            let job = match self.jobs.get(&jid) {
                Ok(Some(job)) => job,
                Ok(None) => continue,
                Err(e) => {
                    log::error!("the job cache cannot be read for job {jid}: {e}");
                    continue;
                }
            };
            let ledger = lock(&self.shared.ledger);
            let mut basket = lock(&self.shared.basket);
            for stored in job.returns {
                if !ledger.has(&jid, &stored.id) {
                    let mut load = stored.load;
                    if !load.contains("fun")
                        && let Some(fun) = job.load.get("fun")
                    {
                        load.set("fun", fun.clone());
                    }
                    basket.add_return(&jid, &stored.id, &load);
                }
            }
        }
    }

    /// Events are tried once, as in stock. `false`: the process is to end.
    fn events(&mut self) -> Result<bool, MinionError> {
        let events = lock(&self.shared.basket).take_events();
        if events.is_empty() {
            return Ok(true);
        }
        let count = events.len();
        let load = crate::map! {
            "id" => self.id.as_str(), "cmd" => "_minion_event",
            "pretag" => format!("syndic/{}", self.id), "events" => events,
        };
        let (timeout, _) = self.channel.usual();
        Ok(match self.channel.call(&load, timeout, 1)? {
            Reply::Stopped => false,
            Reply::Value(_) => true,
            Reply::Silence | Reply::Refused(_) => {
                log::warn!("{count} events did not reach the upper master");
                true
            }
        })
    }

    /// Returns stay until the upper master has acknowledged them.
    fn returns(&mut self) -> Result<bool, MinionError> {
        loop {
            let mut batch = lock(&self.shared.basket).take_returns();
            for (jid, job) in &mut batch {
                let ledger = lock(&self.shared.ledger);
                job.by_id
                    .0
                    .retain(|(id, _)| !id.as_str().is_some_and(|id| ledger.has(jid, id)));
            }
            batch.retain(|(_, job)| !job.by_id.is_empty());
            if batch.is_empty() {
                if lock(&self.shared.basket).has_returns() {
                    continue;
                }
                return Ok(true);
            }
            let loads: Vec<Value> = batch
                .iter()
                .map(|(jid, job)| self.load(jid, job).into())
                .collect();
            let load = crate::map! {
                "cmd" => "_syndic_return", "id" => self.id.as_str(), "load" => loads,
            };
            let (timeout, tries) = self.channel.usual();
            match self.channel.call(&load, timeout, tries)? {
                // An empty text is an exception in the upper master's handler.
                Reply::Value(v) if !v.is_str("") => self.acknowledged(batch),
                Reply::Stopped => return Ok(false),
                _ => {
                    log::warn!(
                        "the upper master has not acknowledged returns of {} jobs; they are offered again",
                        batch.len()
                    );
                    lock(&self.shared.basket).put_back(batch);
                    return Ok(true);
                }
            }
        }
    }

    /// One job of a `_syndic_return`. Its load goes along once.
    fn load(&mut self, jid: &Jid, job: &Returns) -> Map {
        let mut load = crate::map! {
            "id" => self.id.as_str(), "jid" => jid.as_str(), "fun" => job.fun.clone(),
            "arg" => Value::Nil, "tgt" => Value::Nil, "tgt_type" => Value::Nil,
            "load" => self.job_load(jid),
        };
        if let Some(master) = &job.master_id {
            load.set("master_id", master.clone());
        }
        load.set("return", job.by_id.clone());
        load
    }

    fn job_load(&self, jid: &Jid) -> Map {
        if self.loads.contains(jid) {
            return Map::new();
        }
        match self.jobs.get(jid) {
            Ok(Some(job)) => job.load,
            _ => Map::new(),
        }
    }

    fn acknowledged(&mut self, batch: Vec<(Jid, Returns)>) {
        for (jid, job) in batch {
            let ids: Vec<String> = job
                .by_id
                .iter()
                .filter_map(|(id, _)| id.as_str().map(str::to_owned))
                .collect();
            if let Err(e) = lock(&self.shared.ledger).done(&jid, &ids) {
                log::error!("returns of job {jid} would go up again after a restart: {e}");
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
