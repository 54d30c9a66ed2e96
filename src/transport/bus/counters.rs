//! What a bus has done so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A snapshot of the counters of a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounters {
    /// Events taken in.
    pub events_in: u64,
    /// Whole frames handed to the kernel, notices included.
    pub frames_out: u64,
    /// Frames that slow listeners lost.
    pub dropped: u64,
    /// Listeners connected.
    pub subscribers: u64,
    /// Senders connected.
    pub publishers: u64,
    /// Senders cut off because their stream was no stream of frames, or ended inside one.
    pub bad_frames: u64,
    /// Frames that held no event; only the event was lost.
    pub bad_events: u64,
    /// Events over `max_event_size`.
    pub oversized: u64,
    /// Connections turned away at the limit.
    pub refused: u64,
}

/// The counters themselves. Written by the bus alone, read by anyone.
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
}

impl Counters {
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
        }
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
