//! The way from a connection's thread into the queue of whoever listens.

use super::held;
use crossbeam_channel::{Sender, TrySendError};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may lie in the queue of a listener, where nothing else is said.
pub const MAX_BYTES: usize = 64 << 20;

/// What takes room in memory.
pub trait Weigh {
    /// Bytes, about.
    fn byte_len(&self) -> usize;
}

/// Never waits: what finds no room is dropped and counted, but for the last word about the connection, which is kept. Room is a
/// matter of places, which the queue has, and of bytes.
pub struct BoundedTx<T> {
    heard: Sender<T>,
    most: usize,
    told: Mutex<Told<T>>,
    dropped: AtomicU64,
}

struct Told<T> {
    /// Whether there is a connection, where that could not be told yet.
    untold: Option<T>,
    /// Bytes of each that lies in the queue, and of some that were taken already.
    sizes: VecDeque<usize>,
    octets: usize,
}

impl<T: Weigh> BoundedTx<T> {
    /// Into a queue that nobody else puts anything into, for so many bytes at once. What alone is larger is told where the queue is
    /// empty.
    pub fn new(heard: Sender<T>, most: usize) -> BoundedTx<T> {
        BoundedTx {
            heard,
            most,
            told: Mutex::new(Told {
                untold: None,
                sizes: VecDeque::new(),
                octets: 0,
            }),
            dropped: AtomicU64::new(0),
        }
    }

    /// Tells a message, behind what could not be told yet.
    pub fn put(&self, heard: T) {
        let mut told = held(&self.told);
        self.tell(&mut told);
        let octets = heard.byte_len();
        let fits = told.octets == 0 || told.octets + octets <= self.most;
        if !fits || self.send(&mut told, heard, octets).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells whether there is a connection, as soon as there is room.
    pub fn state(&self, state: T) {
        let mut told = held(&self.told);
        told.untold = Some(state);
        self.tell(&mut told);
    }

    /// Tries once more to tell what could not be told.
    pub fn tick(&self) {
        self.tell(&mut held(&self.told));
    }

    fn tell(&self, told: &mut Told<T>) {
        // What was put in first was taken first: only the last of the sizes are still of something.
        while told.sizes.len() > self.heard.len() {
            let taken = told.sizes.pop_front();
            told.octets -= taken.unwrap_or(0);
        }
        if let Some(state) = told.untold.take() {
            told.untold = self.send(told, state, 0).err();
        }
    }

    /// Gives back what had no place. It is nobody's fault if nobody listens any more.
    fn send(&self, told: &mut Told<T>, what: T, octets: usize) -> Result<(), T> {
        match self.heard.try_send(what) {
            Ok(()) => {
                told.sizes.push_back(octets);
                told.octets += octets;
                Ok(())
            }
            Err(TrySendError::Full(what)) => Err(what),
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Messages that had no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for &str {
        fn byte_len(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn messages_without_room_are_counted_and_the_last_state_waits() {
        let (to, from) = crossbeam_channel::bounded(1);
        let sink = BoundedTx::new(to, MAX_BYTES);
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

    #[test]
    fn octets_have_room_again_when_they_are_taken() {
        let (to, from) = crossbeam_channel::bounded(100);
        let sink = BoundedTx::new(to, 10);
        for _ in 0..3 {
            // Larger than all there may be, but alone.
            sink.put("twelve octets");
            sink.put("x");
            sink.state("up, whatever room there is");
            assert_eq!(from.try_recv(), Ok("twelve octets"));
            sink.put("12345");
            sink.put("67890");
            sink.put("x");
            assert!(
                from.try_iter()
                    .eq(["up, whatever room there is", "12345", "67890"])
            );
        }
        assert_eq!(sink.dropped(), 6);
        drop(from);
        for _ in 0..100 {
            sink.put("1234");
        }
        assert_eq!(sink.dropped(), 6);
    }
}
