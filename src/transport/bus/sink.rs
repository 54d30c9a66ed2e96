//! One listener and its queue.

use super::BusOptions;
use super::counters::{Counters, Listener, add};
use crate::outbox::Outbox;
use halite_ipc::{DROPPED, Event};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes sent to one listener before the others get their turn.
const TURN: usize = 1 << 20;
/// How long senders wait for a listener that is behind, before it loses events.
const HOLD: Duration = Duration::from_secs(1);

/// State of the bus that every listener needs.
pub(super) struct Context {
    pub options: BusOptions,
    pub counters: Arc<Counters>,
    pub epoll: Epoll,
}

/// A connection to the pub socket.
#[derive(Debug)]
pub(super) struct Sink {
    stream: UnixStream,
    token: u64,
    pub pid: i32,
    queue: Outbox<()>,
    /// Events lost since the listener fell behind; while this is not zero, all events are dropped.
    gap: u64,
    /// Since when the queue has been nearly full, without having become half empty.
    tight_since: Option<Instant>,
    /// Events lost in total, and how many of them were logged.
    pub dropped: u64,
    pub reported: u64,
    interest: EpollFlags,
    counted: Arc<Listener>,
}

impl Sink {
    /// A sink for a connection that is registered for `EPOLLIN` under `token`.
    pub fn new(stream: UnixStream, token: u64, counted: Arc<Listener>) -> Sink {
        Sink {
            stream,
            token,
            pid: counted.pid,
            queue: Outbox::default(),
            gap: 0,
            tight_since: None,
            dropped: 0,
            reported: 0,
            interest: EpollFlags::EPOLLIN,
            counted,
        }
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether it waits until the kernel has room again.
    fn blocked(&self) -> bool {
        self.interest.contains(EpollFlags::EPOLLOUT)
    }

    /// Queues one frame, or counts it as lost. An error means that the listener hung up.
    pub fn offer(&mut self, frame: &Arc<[u8]>, cx: &Context) -> io::Result<()> {
        if self.gap == 0 && !self.fits(frame.len(), cx) && !self.blocked() {
            self.flush(cx)?;
        }
        if self.gap > 0 || !self.fits(frame.len(), cx) {
            self.gap += 1;
            self.dropped += 1;
            add(&cx.counters.dropped, 1);
            add(&self.counted.dropped, 1);
            return Ok(());
        }
        self.queue.push(frame.clone(), ());
        Ok(())
    }

    fn fits(&self, len: usize, cx: &Context) -> bool {
        let options = &cx.options;
        self.queue.is_empty()
            || (self.queue.len() < options.queue_frames
                && self.queue.byte_len() + len <= options.queue_bytes)
    }

    /// Until when senders should wait, so that a listener that reads loses nothing in a burst. One that does not read
    /// delays them once, until it has caught up.
    pub fn hold_until(&mut self, now: Instant, cx: &Context) -> Option<Instant> {
        if self.is_half_empty(cx) {
            self.tight_since = None;
            return None;
        }
        let (frames, bytes) = (cx.options.queue_frames, cx.options.queue_bytes);
        let is_tight = self.queue.len() >= frames / 4 * 3 || self.queue.byte_len() >= bytes / 4 * 3;
        if is_tight {
            self.tight_since.get_or_insert(now);
        }
        let until = self.tight_since? + HOLD;
        (self.gap == 0 && until > now).then_some(until)
    }

    fn is_half_empty(&self, cx: &Context) -> bool {
        self.queue.len() <= cx.options.queue_frames / 2
            && self.queue.byte_len() <= cx.options.queue_bytes / 2
    }

    /// Sends if there is something queued and the socket is not known to be full.
    pub fn send(&mut self, cx: &Context) -> io::Result<()> {
        if self.queue.is_empty() || self.blocked() {
            return Ok(());
        }
        self.flush(cx)
    }

    /// Sends as much as the kernel accepts, up to `TURN` bytes.
    pub fn flush(&mut self, cx: &Context) -> io::Result<()> {
        let mut share = TURN;
        while !self.queue.is_empty() {
            if share == 0 {
                return self.want_write(true, cx);
            }
            let mut whole = 0;
            let n = match self.queue.send(&self.stream, |()| whole += 1) {
                Ok(n) => n,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return self.want_write(true, cx),
                Err(e) => return Err(e.into()),
            };
            share = share.saturating_sub(n);
            add(&cx.counters.frames_out, whole);
            self.catch_up(cx);
        }
        self.queue.shrink(false);
        self.want_write(false, cx)
    }

    /// Ends a gap once half of the queue is free, so that there are few, contiguous gaps.
    fn catch_up(&mut self, cx: &Context) {
        if self.gap == 0 || !self.is_half_empty(cx) {
            return;
        }
        if cx.options.notify_dropped
            && let Some(frame) = dropped_notice(self.gap, &cx.options)
        {
            self.queue.push(frame, ());
        }
        self.gap = 0;
    }

    /// Discards what the listener sends. An error means that it hung up.
    pub fn ignore_input(&mut self, chunk: &mut [u8], cx: &Context) -> io::Result<()> {
        match (&self.stream).read(chunk) {
            // Only its sending half is closed; epoll reports the end of the other half as a hang-up.
            Ok(0) => self.set_interest(self.interest - EpollFlags::EPOLLIN, cx),
            Ok(_) => Ok(()),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(e),
            },
        }
    }

    fn want_write(&mut self, on: bool, cx: &Context) -> io::Result<()> {
        let mut interest = self.interest;
        interest.set(EpollFlags::EPOLLOUT, on);
        self.set_interest(interest, cx)
    }

    fn set_interest(&mut self, interest: EpollFlags, cx: &Context) -> io::Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        let mut event = EpollEvent::new(interest, self.token);
        cx.epoll.modify(&self.stream, &mut event)?;
        self.interest = interest;
        Ok(())
    }
}

/// The frame that a listener gets in place of `count` lost events.
fn dropped_notice(count: u64, options: &BusOptions) -> Option<Arc<[u8]>> {
    let data = halite_wire::map! { "count" => count };
    let mut event = Event::new(DROPPED, &data).ok()?;
    event.restamp(options.stamp).ok()?;
    Some(event.frame(options.framing).into())
}
