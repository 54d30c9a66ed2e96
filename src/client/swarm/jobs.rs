//! Jobs that the swarm publishes itself, one after another, each checked against the minions that the master
//! named.

use super::Swarm;
use super::answer::answer;
use super::listen::Listener;
use super::publish::{JobSpec, Publisher};
use super::stats::{Op, Stats};
use super::tally::{JobTally, event_data};
use halite_wire::Map;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Polling interval of a job's tally.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Length of the queue of returns heard but not checked yet.
const QUEUE_LEN: usize = 65_536;

/// A return heard on the bus.
struct HeardReturn {
    tag: String,
    data: Map,
    at: Instant,
}

/// A listener for the returns of jobs.
pub struct ReturnListener {
    listener: Listener,
    heard: Receiver<HeardReturn>,
}

impl ReturnListener {
    /// Listens on the bus in `sock_dir`. Start it before minions sign in: a bus accepts listeners in between
    /// serving others.
    ///
    /// # Errors
    /// The bus cannot be reached.
    pub fn open(sock_dir: &Path) -> io::Result<ReturnListener> {
        let (send, heard) = sync_channel(QUEUE_LEN);
        let prefixes = ["salt/job/".to_owned()];
        let listener = Listener::start(sock_dir, &prefixes, move |event, at, stats| {
            if !event.tag.contains("/ret/") {
                return;
            }
            match event_data(&event.payload) {
                // The receiver is gone once the jobs are over.
                Some(data) => drop(send.send(HeardReturn {
                    tag: event.tag.clone(),
                    data,
                    at,
                })),
                None => stats.error("the data of an event is not a map"),
            }
        })?;
        Ok(ReturnListener { listener, heard })
    }
}

/// Publishes jobs and checks their returns. Counts go into a [`Stats`] of its own.
pub struct JobRunner<'a> {
    swarm: &'a Swarm,
    publisher: Publisher,
    order: JobSpec,
    /// What the minions return.
    expected: Map,
    /// Time without an answer after which a job is given up.
    patience: Duration,
    bus: Option<ReturnListener>,
    stats: Stats,
}

impl<'a> JobRunner<'a> {
    /// Prepares jobs; with `bus`, each return must also be heard there.
    pub fn new(
        swarm: &'a Swarm,
        publisher: Publisher,
        order: JobSpec,
        patience: Duration,
        bus: Option<ReturnListener>,
    ) -> JobRunner<'a> {
        JobRunner {
            swarm,
            publisher,
            expected: answer(&order.job(), &|_| None),
            order,
            patience,
            bus,
            stats: Stats::default(),
        }
    }

    /// Publishes one job and waits until it is complete, `stop` returns true, or nothing arrives any more.
    /// Returns whether all minions answered.
    ///
    /// # Errors
    /// The master does not accept the job.
    pub fn run(&mut self, stop: &dyn Fn() -> bool) -> io::Result<bool> {
        // Left over from earlier jobs, or from other clients' jobs.
        drop(self.swarm.take_acknowledged());
        let repeated = self.swarm.repeated();
        let begun = Instant::now();
        let published = self
            .publisher
            .publish(&self.order)
            .map_err(|e| io::Error::other(format!("the job cannot be published: {e}")))?;
        if published.jid.is_empty() {
            let why = published.error.unwrap_or_default();
            return Err(io::Error::other(format!(
                "the job matches no minion: {why}"
            )));
        }
        let named = published.minions.len();
        let ours: Vec<String> = published
            .minions
            .into_iter()
            .filter(|id| self.swarm.number(id).is_some())
            .collect();
        if ours.len() < named {
            self.stats
                .note("jobs that named minions beside those of the swarm");
        }
        if ours.is_empty() {
            return Err(io::Error::other("the job matches no minion of the swarm"));
        }
        let mut tally = JobTally::new(&published.jid, ours, self.bus.is_some());
        let mut moved = Instant::now();
        while !stop() && moved.elapsed() < self.patience {
            let new = self.swarm.take_acknowledged();
            if !new.is_empty() {
                moved = Instant::now();
            }
            new.iter().for_each(|item| tally.acknowledged(item));
            if self.hear(&mut tally, begun) {
                moved = Instant::now();
            }
            if tally.complete() {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if stop() && !tally.complete() {
            return Ok(false);
        }
        if tally.all_answered()
            && let Some(last) = tally.last()
        {
            self.stats.done(Op::Job, last.duration_since(begun));
        }
        let complete = tally.complete();
        for (what, count) in tally.close(self.swarm.repeated() > repeated) {
            *self.stats.errors.entry(what).or_default() += count;
        }
        Ok(complete)
    }

    /// Reads returns from the bus; whether there were any.
    fn hear(&mut self, tally: &mut JobTally, begun: Instant) -> bool {
        let Some(bus) = &self.bus else {
            return false;
        };
        let mut some = false;
        for heard in bus.heard.try_iter() {
            some = true;
            if tally.heard(&heard.tag, &heard.data, &self.expected) {
                let took = heard.at.saturating_duration_since(begun);
                self.stats.done(Op::ReturnHeard, took);
            }
        }
        some
    }

    /// Stops and returns the counts.
    ///
    /// # Errors
    /// The listener failed.
    pub fn finish(mut self) -> io::Result<Stats> {
        if let Some(bus) = self.bus.take() {
            // The listener must not wait for room in a queue that nobody reads.
            drop(bus.heard);
            self.stats.merge(bus.listener.finish()?);
        }
        Ok(self.stats)
    }
}
