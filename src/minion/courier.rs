//! The thread that brings results and events to the master.
//!
//! Results lie in the [`Spool`]; the queue only names them, and a result leaves the spool
//! when the master has answered. While the master is silent the courier stays with the
//! first one; a minion that was restarted begins with what an earlier process left.

use super::ask::Stop;
use super::channel::{Channel, Reply};
use super::session::{Session, chance, jittered};
use super::spool::Spool;
use super::{Alarm, MinionError};
use crate::wire::msgpack;
use crate::wire::{Map, Value};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Letters that may wait; results beyond it wait in the spool alone.
const QUEUE: usize = 4096;
/// How often the courier looks whether the process is to end.
const LOOK: Duration = Duration::from_millis(500);
/// How often a result is offered that the master takes but cannot handle.
const MAX_REFUSALS: u32 = 3;

/// What the courier carries.
#[derive(Debug)]
enum Letter {
    /// A result in the spool.
    Spooled(String),
    /// A result that could not be put there.
    Loose(Vec<u8>),
    /// A `_minion_event` load.
    Event(Map),
}

/// The way to the courier.
#[derive(Clone)]
pub struct Outbox {
    letters: Sender<Letter>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
}

impl Outbox {
    /// Sends a result: kept on disk first, so that it survives this process.
    pub fn result(&self, name: &str, load: Vec<u8>) {
        let letter = match self.keep(name, &load) {
            true => Letter::Spooled(name.to_owned()),
            false => Letter::Loose(load),
        };
        match self.letters.try_send(letter) {
            Err(TrySendError::Full(Letter::Spooled(_))) => {
                self.overflow.store(true, Ordering::Relaxed)
            }
            Err(_) => log::error!("the result of job {name} cannot be queued and is lost"),
            Ok(()) => {}
        }
    }

    /// Keeps a result on disk for the next process.
    pub fn keep(&self, name: &str, load: &[u8]) -> bool {
        match self.spool.as_ref().map(|spool| spool.put(name, load)) {
            Some(Ok(())) => true,
            Some(Err(e)) => {
                log::error!("the result of job {name} is kept in memory only: {e}");
                false
            }
            None => false,
        }
    }

    /// Sends an event. Events are not kept.
    pub fn event(&self, load: Map) {
        if self.letters.try_send(Letter::Event(load)).is_err() {
            log::warn!("an event for the master is dropped: too many are waiting");
        }
    }
}

/// The courier's own state.
pub struct Courier {
    channel: Channel,
    session: Arc<Session>,
    letters: Receiver<Letter>,
    waiting: VecDeque<Letter>,
    spool: Option<Spool>,
    overflow: Arc<AtomicBool>,
}

impl Courier {
    /// A courier, and the way to it. What the spool holds is carried first.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(
        session: &Arc<Session>,
        spool: Option<Spool>,
        stop: Stop,
    ) -> io::Result<(Courier, Outbox)> {
        let (letters, received) = bounded(QUEUE);
        let overflow = Arc::new(AtomicBool::new(false));
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
            waiting: left.into_iter().map(Letter::Spooled).collect(),
            spool: spool.clone(),
            overflow: overflow.clone(),
        };
        Ok((
            courier,
            Outbox {
                letters,
                spool,
                overflow,
            },
        ))
    }

    /// Carries letters until the process ends. A sign-in that is refused for good goes to `alarm`.
    pub fn run(mut self, alarm: &Alarm) {
        while let Some(letter) = self.next() {
            match self.deliver(letter) {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => return alarm.raise(e),
            }
        }
    }

    fn next(&mut self) -> Option<Letter> {
        loop {
            if let Some(letter) = self.waiting.pop_front() {
                return Some(letter);
            }
            if self.overflow.swap(false, Ordering::Relaxed)
                && let Some(spool) = &self.spool
            {
                // Letters that are queued as well find their file gone later.
                self.waiting
                    .extend(spool.names().into_iter().map(Letter::Spooled));
                continue;
            }
            match self.letters.recv_timeout(LOOK) {
                Ok(letter) => return Some(letter),
                Err(RecvTimeoutError::Timeout) if !self.channel.stop().is_set() => {}
                Err(_) => return None,
            }
        }
    }

    /// Brings one letter; `false` if the process is to end.
    fn deliver(&mut self, letter: Letter) -> Result<bool, MinionError> {
        match letter {
            Letter::Event(load) => self.event(&load),
            Letter::Loose(bytes) => self.result("(not kept)", &bytes),
            Letter::Spooled(name) => {
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

    fn event(&mut self, load: &Map) -> Result<bool, MinionError> {
        let (timeout, tries) = self.channel.usual();
        match self.channel.call(load, timeout, tries)? {
            Reply::Value(_) => Ok(true),
            Reply::Stopped => Ok(false),
            Reply::Silence | Reply::Refused(_) => {
                log::warn!(
                    "an event ({}) did not reach the master",
                    load.str("tag").unwrap_or_default()
                );
                Ok(true)
            }
        }
    }

    /// Stays with a result until the master has it.
    fn result(&mut self, name: &str, bytes: &[u8]) -> Result<bool, MinionError> {
        let Ok(Value::Map(load)) = msgpack::decode(bytes) else {
            log::error!("the kept result {name} is damaged and is given up");
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
                        "the master failed to take the result of job {name} {MAX_REFUSALS} times; it is given up"
                    );
                    return Ok(true);
                }
                Reply::Value(_) => return Ok(true),
                Reply::Stopped => return Ok(false),
                Reply::Refused(words) => {
                    log::error!("the master does not take the result of job {name}: {words}")
                }
                Reply::Silence => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    log::warn!(
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
