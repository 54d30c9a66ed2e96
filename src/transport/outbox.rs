//! The send queue of one peer: frames that may be shared with the queues of other peers, sent in order over a
//! non-blocking socket.

use crate::stream::Stream;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Frames per system call.
const BATCH: usize = 64;
/// Capacity, in frames, that an empty queue keeps.
const KEPT: usize = 1024;

/// The queue, of frames that may be shared. Each frame has a mark, which [`send`](Outbox::send) reports when the whole frame
/// is sent.
#[derive(Debug)]
pub(super) struct Outbox<T, F = Arc<[u8]>> {
    queue: VecDeque<(F, T)>,
    /// Bytes in `queue`.
    bytes: usize,
    /// Bytes of the first frame that are already sent.
    sent: usize,
}

impl<T, F> Default for Outbox<T, F> {
    fn default() -> Self {
        Outbox {
            queue: VecDeque::new(),
            bytes: 0,
            sent: 0,
        }
    }
}

impl<T: Copy, F: AsRef<[u8]>> Outbox<T, F> {
    /// Queued frames, including one that is partly sent.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the queued frames.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Queues a frame.
    pub fn push(&mut self, frame: F, mark: T) {
        self.bytes += frame.as_ref().len();
        self.queue.push_back((frame, mark));
    }

    /// Sends what one system call accepts, and reports the mark of each frame that is completely sent. Returns the bytes
    /// sent.
    ///
    /// # Errors
    /// The socket's: `EAGAIN` when it is full.
    pub fn send(&mut self, socket: &impl AsRawFd, whole: impl FnMut(T)) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); BATCH];
        let mut skip = self.sent;
        let mut used = 0;
        for (slot, (frame, _)) in slices.iter_mut().zip(&self.queue) {
            *slot = IoSlice::new(frame.as_ref().get(skip..).unwrap_or_default());
            skip = 0;
            used += 1;
        }
        let slices = slices.get(..used).unwrap_or_default();
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let n = sendmsg::<()>(socket.as_raw_fd(), slices, &[], flags, None)?;
        self.advance(n, whole);
        Ok(n)
    }

    /// As [`send`](Outbox::send), over a stream that may have TLS.
    ///
    /// # Errors
    /// As [`send`](Outbox::send).
    pub fn send_over(&mut self, stream: &mut Stream, whole: impl FnMut(T)) -> io::Result<usize> {
        let tls = match stream {
            Stream::Plain(tcp) => return Ok(self.send(tcp, whole)?),
            Stream::Tls(tls) => tls,
        };
        let Some((first, _)) = self.queue.front() else {
            return Ok(0);
        };
        // A record holds 16 KiB of it at most.
        let n = tls.write(first.as_ref().get(self.sent..).unwrap_or_default())?;
        self.advance(n, whole);
        Ok(n)
    }

    /// Takes `n` bytes from the front, which were sent.
    pub fn advance(&mut self, n: usize, mut whole: impl FnMut(T)) {
        self.sent += n;
        while let Some((first, mark)) = self.queue.front()
            && self.sent >= first.as_ref().len()
        {
            let length = first.as_ref().len();
            self.sent -= length;
            self.bytes -= length;
            whole(*mark);
            self.queue.pop_front();
        }
    }

    /// Frees the memory of a queue that is empty again; all of it with `all`.
    pub fn shrink(&mut self, all: bool) {
        if self.queue.is_empty() && (all || self.queue.capacity() > KEPT) {
            self.queue = VecDeque::new();
        }
    }
}

#[cfg(test)]
impl<T, F> Outbox<T, F> {
    /// Frames for which it has memory.
    pub fn capacity(&self) -> usize {
        self.queue.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn frames_go_out_in_order_however_they_are_divided() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox: Outbox<usize> = Outbox::default();
        let (mut expected, mut marks) = (Vec::new(), Vec::new());
        for n in 0..200usize {
            let frame: Vec<u8> = (0..n * 101).map(|i| (i + n) as u8).collect();
            expected.extend_from_slice(&frame);
            outbox.push(frame.into(), n);
        }
        assert_eq!((outbox.len(), outbox.byte_len()), (200, expected.len()));
        let mut heard = Vec::new();
        let mut chunk = vec![0; 7919];
        while !outbox.is_empty() {
            match outbox.send(&ours, |n| marks.push(n)) {
                Ok(_) => {}
                Err(Errno::EAGAIN) => {
                    let n = theirs.read(&mut chunk).unwrap();
                    heard.extend_from_slice(&chunk[..n]);
                }
                Err(e) => panic!("{e}"),
            }
        }
        drop(ours);
        theirs.read_to_end(&mut heard).unwrap();
        assert!(heard == expected);
        assert!(marks.into_iter().eq(0..200));
        assert_eq!(outbox.byte_len(), 0);
        outbox.shrink(true);
        assert_eq!(outbox.capacity(), 0);
    }
}
