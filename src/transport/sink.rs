//! The way from a connection's thread into the queue of whoever listens.

use super::held;
use crossbeam_channel::{Sender, TrySendError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Never waits: what finds no room is dropped and counted, but for the last word about the connection, which is kept.
pub(super) struct Sink<T> {
    heard: Sender<T>,
    /// Whether there is a connection, where that could not be told yet.
    untold: Mutex<Option<T>>,
    dropped: AtomicU64,
}

impl<T> Sink<T> {
    pub(super) fn new(heard: Sender<T>) -> Sink<T> {
        Sink {
            heard,
            untold: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Tells a message, behind what could not be told yet.
    pub(super) fn put(&self, heard: T) {
        self.tick();
        if let Err(TrySendError::Full(_)) = self.heard.try_send(heard) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells whether there is a connection, as soon as there is room.
    pub(super) fn state(&self, state: T) {
        *held(&self.untold) = Some(state);
        self.tick();
    }

    /// Tries once more to tell what could not be told.
    pub(super) fn tick(&self) {
        let mut untold = held(&self.untold);
        if let Some(state) = untold.take()
            && let Err(TrySendError::Full(state)) = self.heard.try_send(state)
        {
            *untold = Some(state);
        }
    }

    /// Messages that had no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_room_are_counted_and_the_last_state_waits() {
        let (to, from) = crossbeam_channel::bounded(1);
        let sink = Sink::new(to);
        sink.put("message");
        sink.put("another");
        sink.state("up");
        sink.state("down");
        assert_eq!(sink.dropped(), 1);
        assert_eq!(from.try_recv(), Ok("message"));
        sink.tick();
        assert_eq!(from.try_recv(), Ok("down"));
        sink.tick();
        assert!(from.try_recv().is_err());
    }
}
