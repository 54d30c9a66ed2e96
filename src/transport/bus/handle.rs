//! Access to a bus from within its process.

use super::counters::{BusCounters, Counters};
use super::source::{Defect, check};
use crossbeam_channel::{SendTimeoutError, Sender};
use halite_ipc::{Event, EventError, StampStyle};
use nix::sys::eventfd::EventFd;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a fire may wait for a busy bus.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fires events into a bus of this process, reads its counters and stops it.
#[derive(Clone, Debug)]
pub struct BusHandle {
    pub(super) inbox: Sender<Vec<u8>>,
    pub(super) signals: Arc<Signals>,
    pub(super) counters: Arc<Counters>,
    pub(super) stamp: StampStyle,
    pub(super) max_event_size: usize,
}

/// What wakes the loop.
#[derive(Debug)]
pub(super) struct Signals {
    pub wake: EventFd,
    /// A wake-up is pending; no other is needed.
    pub woken: AtomicBool,
    pub stop: AtomicBool,
}

/// Why an event could not be handed to the bus.
#[derive(Debug)]
pub enum FireError {
    /// The bus has stopped.
    Stopped,
    /// The bus accepted nothing for some seconds.
    Busy,
    /// The data is larger than `max_event_size`, which it holds, in bytes.
    TooLarge(usize),
    /// The tag or the data is not valid in an event.
    Event(EventError),
}

impl fmt::Display for FireError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FireError::Stopped => f.write_str("the event bus of this process has stopped"),
            FireError::Busy => write!(
                f,
                "the event bus of this process took no event for {} s",
                PATIENCE.as_secs()
            ),
            FireError::TooLarge(max) => write!(f, "the event is over max_event_size ({max} bytes)"),
            FireError::Event(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for FireError {}

impl BusHandle {
    /// Fires one event; adds `_stamp` if it has none.
    ///
    /// Blocks while the bus is busy, so it must not be called from the bus's own thread.
    pub fn fire(&self, event: &Event) -> Result<(), FireError> {
        let mut event = event.clone();
        event.stamp(self.stamp).map_err(FireError::Event)?;
        let body = event.body();
        check(&body, self.max_event_size).map_err(|defect| match defect {
            Defect::TooLarge => FireError::TooLarge(self.max_event_size),
            Defect::Malformed => {
                FireError::Event(EventError::Data("bad tag, or nested too deeply".into()))
            }
        })?;
        self.inbox
            .send_timeout(body, PATIENCE)
            .map_err(|e| match e {
                SendTimeoutError::Timeout(_) => FireError::Busy,
                SendTimeoutError::Disconnected(_) => FireError::Stopped,
            })?;
        self.signals.wake();
        Ok(())
    }

    /// A snapshot of the counters.
    pub fn counters(&self) -> BusCounters {
        self.counters.snapshot()
    }

    /// Process id and number of lost events of each connected listener.
    pub fn listeners(&self) -> Vec<(i32, u64)> {
        self.counters.listeners()
    }

    /// Makes [`BusServer::run`](super::BusServer::run) return after it has tried to deliver what is queued.
    pub fn stop(&self) {
        self.signals.stop.store(true, Ordering::SeqCst);
        self.signals.wake();
    }
}

impl Signals {
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            // Fails only when the counter is full, and then the loop is awake anyway.
            let _ = self.wake.write(1);
        }
    }

    /// The loop must call this before it checks the inbox and `stop`.
    pub fn acknowledge(&self) {
        let _ = self.wake.read();
        self.woken.store(false, Ordering::SeqCst);
    }
}
