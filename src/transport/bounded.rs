//! A sender into a queue that is limited in messages and bytes; it never blocks.

use super::held;
use crossbeam_channel::{Sender, TrySendError};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Default limit on the bytes in a queue.
pub const MAX_BYTES: usize = 64 << 20;

/// Size in memory.
pub trait ByteLen {
    /// Approximate size in bytes.
    fn byte_len(&self) -> usize;
}

/// Never blocks: messages that do not fit are dropped and counted. The latest connection state is not dropped but sent as
/// soon as there is room. The queue limits the number of messages, `most` their bytes.
pub struct BoundedTx<T> {
    sender: Sender<T>,
    most: usize,
    queued: Mutex<Queued<T>>,
    dropped: AtomicU64,
}

struct Queued<T> {
    /// The latest connection state, if it could not be sent yet.
    unsent_state: Option<T>,
    /// Bytes of each message in the queue, after those of some that were already received.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl<T: ByteLen> BoundedTx<T> {
    /// Sends to a queue that has no other senders, with at most `most` bytes queued at once. A larger message is accepted
    /// only when the queue is empty.
    pub fn new(sender: Sender<T>, most: usize) -> BoundedTx<T> {
        BoundedTx {
            sender,
            most,
            queued: Mutex::new(Queued {
                unsent_state: None,
                sizes: VecDeque::new(),
                bytes: 0,
            }),
            dropped: AtomicU64::new(0),
        }
    }

    /// Sends a message, after a pending connection state.
    pub fn put(&self, message: T) {
        let mut queued = held(&self.queued);
        self.send_state(&mut queued);
        let bytes = message.byte_len();
        let fits = queued.bytes == 0 || queued.bytes + bytes <= self.most;
        if !fits || self.send(&mut queued, message, bytes).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends the connection state as soon as there is room.
    pub fn state(&self, state: T) {
        let mut queued = held(&self.queued);
        queued.unsent_state = Some(state);
        self.send_state(&mut queued);
    }

    /// Tries again to send a pending state.
    pub fn tick(&self) {
        self.send_state(&mut held(&self.queued));
    }

    fn send_state(&self, queued: &mut Queued<T>) {
        // Messages are received in order: the first sizes belong to those that are no longer in the queue.
        while queued.sizes.len() > self.sender.len() {
            let taken = queued.sizes.pop_front();
            queued.bytes -= taken.unwrap_or(0);
        }
        if let Some(state) = queued.unsent_state.take() {
            queued.unsent_state = self.send(queued, state, 0).err();
        }
    }

    /// Returns the message if the queue is full. A closed queue is not an error.
    fn send(&self, queued: &mut Queued<T>, message: T, bytes: usize) -> Result<(), T> {
        match self.sender.try_send(message) {
            Ok(()) => {
                queued.sizes.push_back(bytes);
                queued.bytes += bytes;
                Ok(())
            }
            Err(TrySendError::Full(message)) => Err(message),
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Number of messages dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ByteLen for &str {
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
    fn bytes_have_room_again_when_they_are_taken() {
        let (to, from) = crossbeam_channel::bounded(100);
        let sink = BoundedTx::new(to, 10);
        for _ in 0..3 {
            // Larger than the limit, but alone in the queue.
            sink.put("twelve bytes");
            sink.put("x");
            sink.state("up, whatever room there is");
            assert_eq!(from.try_recv(), Ok("twelve bytes"));
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
