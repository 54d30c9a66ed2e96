//! Counters of a bus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A snapshot of the counters of a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounters {
    /// Events received.
    pub events_in: u64,
    /// Whole frames handed to the kernel, notices included.
    pub frames_out: u64,
    /// Frames dropped for slow listeners.
    pub dropped: u64,
    /// Listeners connected.
    pub subscribers: u64,
    /// Senders connected.
    pub publishers: u64,
    /// Senders disconnected because their stream had an invalid frame or ended inside one.
    pub bad_frames: u64,
    /// Frames without a valid event; only that event was dropped.
    pub bad_events: u64,
    /// Events over `max_event_size`.
    pub oversized: u64,
    /// Connections refused at the limit.
    pub refused: u64,
    /// Events that had come before, of those that are delivered once.
    pub repeated: u64,
}

/// The live counters. Written by the bus only, read by any thread.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub events_in: AtomicU64,
    pub frames_out: AtomicU64,
    pub dropped: AtomicU64,
    pub subscribers: AtomicU64,
    pub publishers: AtomicU64,
    pub bad_frames: AtomicU64,
    pub bad_events: AtomicU64,
    pub oversized: AtomicU64,
    pub refused: AtomicU64,
    pub repeated: AtomicU64,
    /// Listeners by token.
    pub listeners: Mutex<BTreeMap<u64, Arc<Listener>>>,
}

/// Counters of one listener.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub pid: i32,
    pub dropped: AtomicU64,
}

impl Counters {
    /// Adds a listener and returns its counters.
    pub fn add_listener(&self, token: u64, pid: i32) -> Arc<Listener> {
        let listener = Arc::new(Listener {
            pid,
            ..Listener::default()
        });
        self.lock().insert(token, listener.clone());
        listener
    }

    pub fn remove_listener(&self, token: u64) {
        self.lock().remove(&token);
    }

    /// Process id and number of lost events of each listener.
    pub fn listeners(&self) -> Vec<(i32, u64)> {
        let listeners = self.lock();
        listeners
            .values()
            .map(|l| (l.pid, l.dropped.load(Relaxed)))
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Listener>>> {
        // Nothing panics while it is held.
        self.listeners.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn snapshot(&self) -> BusCounters {
        BusCounters {
            events_in: self.events_in.load(Relaxed),
            frames_out: self.frames_out.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            subscribers: self.subscribers.load(Relaxed),
            publishers: self.publishers.load(Relaxed),
            bad_frames: self.bad_frames.load(Relaxed),
            bad_events: self.bad_events.load(Relaxed),
            oversized: self.oversized.load(Relaxed),
            refused: self.refused.load(Relaxed),
            repeated: self.repeated.load(Relaxed),
        }
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
