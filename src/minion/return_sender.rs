//! The thread that brings results and events to the master.
//!
//! Results lie in the [`Spool`]; the queue only names them, and a result leaves the spool
//! when the master has answered. While the master is silent the courier stays with the
//! first one; a minion that was restarted begins with what an earlier process left.

use super::spool::Spool;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use halite_channel::MinionError;
use halite_channel::channel::{Channel, Reply};
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::session::{Session, chance, jittered};
use halite_sys::log_limiter::LogLimiter;
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Letters that may wait; results beyond it wait in the spool alone.
const QUEUE: usize = 4096;
/// How often a result is offered that the master takes but cannot handle.
const MAX_REFUSALS: u32 = 3;

/// What the courier carries.
#[derive(Debug)]
enum Outgoing {
    /// A result in the spool.
    Spooled(String),
    /// A result that could not be put there.
    Loose(Vec<u8>),
    /// A `_minion_event` load.
    Event(Map),
    /// The same, as a ping: somebody wants to know whether it arrives.
    Ping(Map),
}

/// The way to the courier.
#[derive(Clone)]
pub struct Outbox {
    letters: Sender<Outgoing>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    /// Events that found no room.
    dropped: Arc<Mutex<LogLimiter>>,
}

impl Outbox {
    /// Sends a result: kept on disk first, so that it survives this process.
    pub fn result(&self, name: &str, load: Vec<u8>) {
        let letter = match self.keep(name, &load) {
            true => Outgoing::Spooled(name.to_owned()),
            false => Outgoing::Loose(load),
        };
        match self.letters.try_send(letter) {
            Err(TrySendError::Full(Outgoing::Spooled(_))) => {
                self.overflow.store(true, Ordering::Relaxed)
            }
            Err(_) => {
                log::error!(jid = name; "the result of job {name} cannot be queued and is lost")
            }
            Ok(()) => {}
        }
    }

    /// Keeps a result on disk for the next process.
    pub fn keep(&self, name: &str, load: &[u8]) -> bool {
        match self.spool.as_ref().map(|spool| spool.put(name, load)) {
            Some(Ok(())) => true,
            Some(Err(e)) => {
                log::error!(jid = name; "the result of job {name} is kept in memory only: {e}");
                false
            }
            None => false,
        }
    }

    /// Sends an event. Events are not kept.
    pub fn event(&self, load: Map) {
        if self.letters.try_send(Outgoing::Event(load)).is_err() {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(n) = dropped.tick(Instant::now()) {
                log::warn!("{n} events for the master were dropped: too many are waiting");
            }
        }
    }

    /// Sends a ping, unless others wait already; [`Outbox::ping_lost`] tells if nobody answered.
    pub fn ping(&self, load: Map) {
        let _ = self.letters.try_send(Outgoing::Ping(load));
    }

    /// Whether a ping was lost since the last time.
    pub fn ping_lost(&self) -> bool {
        self.lost.swap(false, Ordering::SeqCst)
    }
}

/// The courier's own state.
pub struct Courier {
    channel: Channel,
    session: Arc<Session>,
    letters: Receiver<Outgoing>,
    waiting: VecDeque<Outgoing>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    wake: Waker,
}

impl Courier {
    /// A courier, and the way to it. What the spool holds is carried first. `wake` is told of lost pings.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(
        session: &Arc<Session>,
        spool: Option<Spool>,
        stop: Stop,
        wake: &Waker,
    ) -> io::Result<(Courier, Outbox)> {
        let (letters, received) = bounded(QUEUE);
        let overflow = Arc::new(AtomicBool::new(false));
        let lost = Arc::new(AtomicBool::new(false));
        let left = spool.as_ref().map(Spool::names).unwrap_or_default();
        if !left.is_empty() {
            log::info!(
                "{} results of an earlier process are sent to the master",
                left.len()
            );
        }
        let courier = Courier {
            channel: Channel::new(session, stop)?,
            session: session.clone(),
            letters: received,
            waiting: left.into_iter().map(Outgoing::Spooled).collect(),
            spool: spool.clone(),
            overflow: overflow.clone(),
            lost: lost.clone(),
            wake: wake.clone(),
        };
        Ok((
            courier,
            Outbox {
                letters,
                spool,
                overflow,
                lost,
                dropped: Arc::default(),
            },
        ))
    }

    /// Carries letters until the process ends.
    ///
    /// # Errors
    /// A sign-in is refused for good.
    pub fn run(mut self) -> Result<(), MinionError> {
        while let Some(letter) = self.next() {
            if !self.deliver(letter)? {
                break;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Outgoing> {
        loop {
            if let Some(letter) = self.waiting.pop_front() {
                return Some(letter);
            }
            if self.overflow.swap(false, Ordering::Relaxed)
                && let Some(spool) = &self.spool
            {
                // Letters that are queued as well find their file gone later.
                self.waiting
                    .extend(spool.names().into_iter().map(Outgoing::Spooled));
                continue;
            }
            // The end of the process does not wait for this thread.
            return self.letters.recv().ok();
        }
    }

    /// Brings one letter; `false` if the process is to end.
    fn deliver(&mut self, letter: Outgoing) -> Result<bool, MinionError> {
        match letter {
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

    /// Whether it arrived; `None` if the process is to end.
    fn event(&mut self, load: &Map) -> Result<Option<bool>, MinionError> {
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

    /// Stays with a result until the master has it.
    fn result(&mut self, name: &str, bytes: &[u8]) -> Result<bool, MinionError> {
        let Ok(Value::Map(load)) = msgpack::decode(bytes) else {
            log::error!(jid = name; "the kept result {name} is damaged and is given up");
            return Ok(true);
        };
        let config = self.session.config().clone();
        let tries = config.return_retry_tries.max(1);
        let mut refused = 0;
        let mut silent_since = None;
        loop {
            match self.channel.call(&load, self.patience(), tries)? {
                // An empty text is an exception in the master's handler.
                Reply::Value(v) if v.is_str("") && refused + 1 < MAX_REFUSALS => refused += 1,
                Reply::Value(v) if v.is_str("") => {
                    log::error!(
                        jid = name;
                        "the master failed to take the result of job {name} {MAX_REFUSALS} times; it is given up"
                    );
                    return Ok(true);
                }
                Reply::Value(_) => return Ok(true),
                Reply::Stopped => return Ok(false),
                Reply::Refused(words) => {
                    log::error!(jid = name; "the master does not take the result of job {name}: {words}")
                }
                Reply::Silence => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    log::warn!(
                        jid = name;
                        "the master has not acknowledged the result of job {name} for {} s; it is offered again",
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

    /// How long to wait for an acknowledgement: between `return_retry_timer` and
    /// `return_retry_timer_max`, by chance (`salt/minion.py MinionBase._return_retry_timer`).
    fn patience(&self) -> Duration {
        let config = self.session.config();
        let least = config.return_retry_timer.max(1);
        let most = config.return_retry_timer_max.max(least);
        Duration::from_secs_f64(least as f64 + (most - least) as f64 * chance())
    }
}
