//! The thread that sends results and events to the master.
//!
//! Results are stored in the [`Spool`]; the queue only names them, and a result is removed from the spool when
//! the master has acknowledged it. While the master is silent, the sender keeps retrying the first one. After a
//! restart it starts with what an earlier process left.

use super::spool::Spool;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use halite_channel::channel::{Channel, Reply};
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::load::Load;
use halite_channel::session::{Session, chance, jittered};
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_wire::Map;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Length of the queue; further results wait in the spool only.
const QUEUE: usize = 4096;
/// How often a result is sent that the master receives but fails to handle.
const MAX_REFUSALS: u32 = 3;

/// Something to send.
#[derive(Debug)]
enum Outgoing {
    /// A result in the spool.
    Spooled(String),
    /// A result that could not be stored there.
    Loose(Vec<u8>),
    /// A `_minion_event` load.
    Event(Map),
    /// The same as a ping: losing it is reported.
    Ping(Map),
}

/// The sending end of the queue.
#[derive(Clone)]
pub struct Outbox {
    queue: Sender<Outgoing>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    /// Counts events dropped because the queue was full.
    dropped: Arc<Mutex<LogLimiter>>,
}

impl Outbox {
    /// Sends a result: it is first stored on disk, so that it survives this process.
    pub fn result(&self, name: &str, load: Vec<u8>) {
        let item = match self.store(name, &load) {
            true => Outgoing::Spooled(name.to_owned()),
            false => Outgoing::Loose(load),
        };
        match self.queue.try_send(item) {
            Err(TrySendError::Full(Outgoing::Spooled(_))) => {
                self.overflow.store(true, Ordering::Relaxed)
            }
            Err(_) => {
                log::error!(jid = name; "the result of job {name} cannot be queued and is lost")
            }
            Ok(()) => {}
        }
    }

    /// Stores a result on disk for the next process.
    pub fn store(&self, name: &str, load: &[u8]) -> bool {
        match self.spool.as_ref().map(|spool| spool.put(name, load)) {
            Some(Ok(())) => true,
            Some(Err(e)) => {
                log::error!(jid = name; "the result of job {name} is in memory only: {e}");
                false
            }
            None => false,
        }
    }

    /// Sends an event. Events are not stored on disk.
    pub fn event(&self, load: Map) {
        if self.queue.try_send(Outgoing::Event(load)).is_err() {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(n) = dropped.tick(Instant::now()) {
                log::warn!("{n} events for the master were dropped: too many are waiting");
            }
        }
    }

    /// Sends a ping, unless other messages are waiting; [`Outbox::ping_lost`] tells whether it was lost.
    pub fn ping(&self, load: Map) {
        let _ = self.queue.try_send(Outgoing::Ping(load));
    }

    /// Whether a ping was lost since the last call.
    pub fn ping_lost(&self) -> bool {
        self.lost.swap(false, Ordering::SeqCst)
    }
}

/// State of the sender thread.
pub struct ReturnSender {
    channel: Channel,
    session: Arc<Session>,
    queue: Receiver<Outgoing>,
    waiting: VecDeque<Outgoing>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    wake: Waker,
}

impl ReturnSender {
    /// Creates the sender and its queue. What the spool holds is sent first. `wake` is woken by lost pings.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(
        session: &Arc<Session>,
        spool: Option<Spool>,
        stop: Stop,
        wake: &Waker,
    ) -> io::Result<(ReturnSender, Outbox)> {
        let (queue, received) = bounded(QUEUE);
        let overflow = Arc::new(AtomicBool::new(false));
        let lost = Arc::new(AtomicBool::new(false));
        let left = spool.as_ref().map(Spool::names).unwrap_or_default();
        if !left.is_empty() {
            log::info!(
                "sending {} results of an earlier process to the master",
                left.len()
            );
        }
        let sender = ReturnSender {
            channel: Channel::new(session, stop)?,
            session: session.clone(),
            queue: received,
            waiting: left.into_iter().map(Outgoing::Spooled).collect(),
            spool: spool.clone(),
            overflow: overflow.clone(),
            lost: lost.clone(),
            wake: wake.clone(),
        };
        Ok((
            sender,
            Outbox {
                queue,
                spool,
                overflow,
                lost,
                dropped: Arc::default(),
            },
        ))
    }

    /// Sends until the process stops.
    ///
    /// # Errors
    /// A sign-in is refused permanently.
    pub fn run(mut self) -> Result<(), ExitError> {
        while let Some(item) = self.next() {
            if !self.deliver(item)? {
                break;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Outgoing> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Some(item);
            }
            if self.overflow.swap(false, Ordering::Relaxed)
                && let Some(spool) = &self.spool
            {
                // Those that are queued too are skipped later, as their file is gone.
                self.waiting
                    .extend(spool.names().into_iter().map(Outgoing::Spooled));
                continue;
            }
            // Stopping does not wait for this thread.
            return self.queue.recv().ok();
        }
    }

    /// Sends one item; returns `false` if the process is stopping.
    fn deliver(&mut self, item: Outgoing) -> Result<bool, ExitError> {
        match item {
            Outgoing::Event(load) => Ok(self.event(&load)?.is_some()),
            Outgoing::Ping(load) => {
                let answered = self.event(&load)?;
                if answered == Some(false) {
                    self.lost.store(true, Ordering::SeqCst);
                    self.wake.wake();
                }
                Ok(answered.is_some())
            }
            Outgoing::Loose(bytes) => self.result("(not kept)", &bytes),
            Outgoing::Spooled(name) => {
                let Some(bytes) = self.spool.as_ref().and_then(|s| s.get(&name)) else {
                    return Ok(true);
                };
                let going_on = self.result(&name, &bytes)?;
                if going_on && let Some(spool) = &self.spool {
                    spool.remove(&name);
                }
                Ok(going_on)
            }
        }
    }

    /// Whether it arrived; `None` if the process is stopping.
    fn event(&mut self, load: &Map) -> Result<Option<bool>, ExitError> {
        let (timeout, tries) = self.channel.usual();
        match self.channel.call(load, timeout, tries)? {
            Reply::Value(_) => Ok(Some(true)),
            Reply::Stopped => Ok(None),
            Reply::Silence | Reply::Refused(_) => {
                log::warn!(
                    tag = load.str("tag").unwrap_or_default();
                    "an event ({}) did not reach the master",
                    load.str("tag").unwrap_or_default()
                );
                Ok(Some(false))
            }
        }
    }

    /// Retries a result until the master has it.
    fn result(&mut self, name: &str, bytes: &[u8]) -> Result<bool, ExitError> {
        let Ok(load) = Load::encoded(bytes) else {
            log::error!(jid = name; "the stored result {name} is damaged; giving it up");
            return Ok(true);
        };
        let config = self.session.config().clone();
        let tries = config.return_retry_tries.max(1);
        let mut refused = 0;
        let mut silent_since = None;
        loop {
            match self.channel.call(load.clone(), self.patience(), tries)? {
                // An empty string means an exception in the master's handler.
                Reply::Value(v) if v.is_str("") && refused + 1 < MAX_REFUSALS => refused += 1,
                Reply::Value(v) if v.is_str("") => {
                    log::error!(
                        jid = name;
                        "the master failed to take the result of job {name} {MAX_REFUSALS} times; giving it up"
                    );
                    return Ok(true);
                }
                Reply::Value(_) => return Ok(true),
                Reply::Stopped => return Ok(false),
                Reply::Refused(words) => {
                    log::error!(jid = name; "the master does not accept the result of job {name}: {words}")
                }
                Reply::Silence => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    log::warn!(
                        jid = name;
                        "the master has not acknowledged the result of job {name} for {} s; sending it again",
                        since.elapsed().as_secs()
                    );
                    continue;
                }
            }
            if !self.channel.stop().sleep(jittered(self.patience())) {
                return Ok(false);
            }
        }
    }

    /// How long to wait for an acknowledgement: a random time between `return_retry_timer` and
    /// `return_retry_timer_max` (`salt/minion.py MinionBase._return_retry_timer`).
    fn patience(&self) -> Duration {
        let config = self.session.config();
        let least = config.return_retry_timer.max(1);
        let most = config.return_retry_timer_max.max(least);
        Duration::from_secs_f64(least as f64 + (most - least) as f64 * chance())
    }
}
