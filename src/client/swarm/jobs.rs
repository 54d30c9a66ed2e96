//! Jobs that the swarm publishes by itself, one after another, each held against what the master named.

use super::Swarm;
use super::answer::answer;
use super::ledger::{Ledger, event_data};
use super::listen::Listener;
use super::publish::{Order, Publisher};
use super::stats::{Op, Stats};
use halite_wire::Map;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How often the account of a job is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Returns heard and not yet looked at.
const WAITING: usize = 65_536;

/// A return that was heard on the bus.
struct Heard {
    tag: String,
    data: Map,
    at: Instant,
}

/// A listener for the returns of jobs.
pub struct Bus {
    listener: Listener,
    heard: Receiver<Heard>,
}

impl Bus {
    /// Listens on the bus in `sock_dir`. Do so before minions sign in: a bus takes listeners in while it serves others.
    ///
    /// # Errors
    /// If the bus cannot be reached.
    pub fn open(sock_dir: &Path) -> io::Result<Bus> {
        let (send, heard) = sync_channel(WAITING);
        let prefixes = ["salt/job/".to_owned()];
        let listener = Listener::start(sock_dir, &prefixes, move |event, at, stats| {
            if !event.tag.contains("/ret/") {
                return;
            }
            match event_data(&event.payload) {
                // Nobody takes it once the jobs are over.
                Some(data) => drop(send.send(Heard {
                    tag: event.tag.clone(),
                    data,
                    at,
                })),
                None => stats.error("the data of an event is no map"),
            }
        })?;
        Ok(Bus { listener, heard })
    }
}

/// Publishes jobs and keeps their accounts. Counts go into a [`Stats`] of its own.
pub struct Jobs<'a> {
    swarm: &'a Swarm,
    publisher: Publisher,
    order: Order,
    /// What the minions return.
    expected: Map,
    /// A job is given up when no answer came for so long.
    patience: Duration,
    bus: Option<Bus>,
    stats: Stats,
}

impl<'a> Jobs<'a> {
    /// Prepares jobs; with `bus`, each return must be heard there as well.
    pub fn new(
        swarm: &'a Swarm,
        publisher: Publisher,
        order: Order,
        patience: Duration,
        bus: Option<Bus>,
    ) -> Jobs<'a> {
        Jobs {
            swarm,
            publisher,
            expected: answer(&order.job(), &|_| None),
            order,
            patience,
            bus,
            stats: Stats::default(),
        }
    }

    /// Publishes one job and waits until it is complete, `stop` says so, or nothing comes any more. Gives whether
    /// it was answered by all.
    ///
    /// # Errors
    /// If the master does not take the job.
    pub fn run(&mut self, stop: &dyn Fn() -> bool) -> io::Result<bool> {
        // What is left of earlier jobs, or of somebody else's.
        drop(self.swarm.take_acknowledged());
        let repeated = self.swarm.repeated();
        let begun = Instant::now();
        let published = self
            .publisher
            .publish(&self.order)
            .map_err(|e| io::Error::other(format!("the job cannot be published: {e}")))?;
        if published.jid.is_empty() {
            let why = published.error.unwrap_or_default();
            return Err(io::Error::other(format!("the job means no minion: {why}")));
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
            return Err(io::Error::other("the job means no minion of the swarm"));
        }
        let mut ledger = Ledger::new(&published.jid, ours, self.bus.is_some());
        let mut moved = Instant::now();
        while !stop() && moved.elapsed() < self.patience {
            let new = self.swarm.take_acknowledged();
            if !new.is_empty() {
                moved = Instant::now();
            }
            new.iter().for_each(|item| ledger.acknowledged(item));
            if self.hear(&mut ledger, begun) {
                moved = Instant::now();
            }
            if ledger.complete() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        if stop() && !ledger.complete() {
            return Ok(false);
        }
        if ledger.all_answered()
            && let Some(last) = ledger.last()
        {
            self.stats.done(Op::Job, last.duration_since(begun));
        }
        let complete = ledger.complete();
        for (what, count) in ledger.close(self.swarm.repeated() > repeated) {
            *self.stats.errors.entry(what).or_default() += count;
        }
        Ok(complete)
    }

    /// Takes what the bus brought; whether there was something.
    fn hear(&mut self, ledger: &mut Ledger, begun: Instant) -> bool {
        let Some(bus) = &self.bus else {
            return false;
        };
        let mut some = false;
        for heard in bus.heard.try_iter() {
            some = true;
            if ledger.heard(&heard.tag, &heard.data, &self.expected) {
                let took = heard.at.saturating_duration_since(begun);
                self.stats.done(Op::ReturnHeard, took);
            }
        }
        some
    }

    /// Ends it and gives what was counted.
    ///
    /// # Errors
    /// If the listener broke down.
    pub fn finish(mut self) -> io::Result<Stats> {
        if let Some(bus) = self.bus.take() {
            // The listener must not wait for room in a queue that nobody empties.
            drop(bus.heard);
            self.stats.merge(bus.listener.finish()?);
        }
        Ok(self.stats)
    }
}
