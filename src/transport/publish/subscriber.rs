//! One subscriber and its queue.

use super::topics::Topics;
use super::{Context, PublishOptions, SubscriberCodec, SubscriberMessage};
use crate::outbox::Outbox;
use crate::stream::Stream;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Most bytes sent to one subscriber before the others get their turn.
const TURN: usize = 1 << 20;
/// Most heartbeats and replies to heartbeats queued; more are dropped.
const MAX_CONTROL: usize = 4;
/// Most subscriptions of one subscriber; a minion has at most three.
const MAX_TOPICS: usize = 16;
/// Most claims of one subscriber; each costs a check.
const MAX_CLAIMS: u8 = 16;
/// Longest topic, in bytes; a minion's is the SHA-1 of its id, 40 digits.
const MAX_TOPIC: usize = 128;

/// What a queued frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    /// Greeting or heartbeat.
    Control,
    /// Part of a publication, but not its last.
    Part,
    /// The last part of a publication.
    End,
}

/// The result of reading.
pub(super) enum ReadResult {
    /// Topics subscribed to, and claims to be a minion.
    Messages(Vec<Arc<[u8]>>, Vec<Vec<u8>>),
    /// It hung up.
    Closed,
    /// It is not a valid subscriber: why.
    Invalid(String),
}

/// A connection to the publish port.
pub(super) struct Subscriber<C> {
    /// The connection, non-blocking.
    pub stream: Stream,
    token: u64,
    pub peer: SocketAddr,
    codec: C,
    queue: Outbox<FrameKind>,
    /// Publications in `queue`; then the heartbeats and replies to heartbeats in it.
    pub waiting: usize,
    control: usize,
    /// Publications dropped, and how many of them were logged.
    pub lost: u64,
    pub reported: u64,
    /// Whether any was lost since the kernel last accepted bytes.
    overflowed: bool,
    topics: Vec<Arc<[u8]>>,
    claims: u8,
    /// When the kernel last accepted bytes, or the connection was accepted.
    moved: Instant,
    /// When it last sent something, and when it was sent a heartbeat since.
    last_read: Instant,
    pinged: Option<Instant>,
    /// Whether it waits until the kernel has room again.
    blocked: bool,
    /// Whether it is in the server's list of subscribers to send to.
    pub listed: bool,
}

impl<C: SubscriberCodec> Subscriber<C> {
    /// A subscriber on a connection that is registered for `EPOLLIN` under `token`; queues the greeting.
    pub fn new(stream: Stream, peer: SocketAddr, token: u64, now: Instant) -> Subscriber<C> {
        let mut new = Subscriber {
            stream,
            token,
            peer,
            codec: C::default(),
            queue: Outbox::default(),
            waiting: 0,
            control: 0,
            lost: 0,
            reported: 0,
            overflowed: false,
            topics: Vec::new(),
            claims: 0,
            moved: now,
            last_read: now,
            pinged: None,
            blocked: false,
            listed: false,
        };
        let hello = C::hello();
        if !hello.is_empty() {
            new.push(hello.into(), FrameKind::Control, now);
        }
        new
    }

    /// Whether something is queued and the socket is not known to be full.
    pub fn is_due(&self) -> bool {
        !self.queue.is_empty() && !self.blocked
    }

    /// Removes its subscriptions.
    pub fn cancel_all(&mut self, all: &mut Topics) {
        for topic in self.topics.drain(..) {
            all.remove(&topic, self.token);
        }
    }

    /// Whether it has any subscription.
    pub fn has_topics(&self) -> bool {
        !self.topics.is_empty()
    }

    /// Replaces its subscriptions.
    pub fn set_topics<'t>(&mut self, topics: impl Iterator<Item = &'t [u8]>, all: &mut Topics) {
        self.cancel_all(all);
        self.topics = topics.map(|topic| all.add(topic, self.token)).collect();
    }

    fn subscribe(&mut self, topic: &[u8], all: &mut Topics) -> Result<Arc<[u8]>, String> {
        if self.topics.len() >= MAX_TOPICS {
            return Err(format!("it has more than {MAX_TOPICS} subscriptions"));
        }
        if topic.len() > MAX_TOPIC {
            return Err(format!(
                "it subscribes to a topic of more than {MAX_TOPIC} bytes"
            ));
        }
        let topic = all.add(topic, self.token);
        self.topics.push(topic.clone());
        Ok(topic)
    }

    fn cancel(&mut self, topic: &[u8], all: &mut Topics) {
        let Some(at) = self.topics.iter().position(|t| **t == *topic) else {
            return;
        };
        self.topics.swap_remove(at);
        if !self.topics.iter().any(|t| **t == *topic) {
            all.remove(topic, self.token);
        }
    }

    fn push(&mut self, frame: Arc<[u8]>, kind: FrameKind, now: Instant) {
        if self.queue.is_empty() {
            self.moved = now;
        }
        self.waiting += usize::from(kind == FrameKind::End);
        self.queue.push(frame, kind);
    }

    /// Queues a heartbeat or an answer; drops it if there are many.
    pub fn push_control(&mut self, frame: Vec<u8>, now: Instant) {
        if self.control < MAX_CONTROL {
            self.control += 1;
            self.push(frame.into(), FrameKind::Control, now);
        }
    }

    fn fits(&self, bytes: usize, options: &PublishOptions) -> bool {
        self.waiting == 0
            || (self.waiting < options.queue
                && self.queue.byte_len() + bytes <= options.queue_bytes)
    }

    /// Queues a publication, with its topic as a separate part if it has one, or counts it as lost.
    ///
    /// # Errors
    /// The subscriber hung up.
    pub fn offer(
        &mut self,
        topic: Option<&Arc<[u8]>>,
        body: &Arc<[u8]>,
        cx: &mut Context,
    ) -> io::Result<()> {
        let bytes = body.len() + topic.map_or(0, |topic| topic.len());
        if !self.fits(bytes, &cx.options) && !self.blocked {
            self.flush(cx)?;
        }
        if !self.fits(bytes, &cx.options) {
            self.lost += 1;
            self.overflowed = true;
            cx.counters.slow += 1;
            return Ok(());
        }
        if let Some(topic) = topic {
            self.push(topic.clone(), FrameKind::Part, cx.now);
        }
        self.push(body.clone(), FrameKind::End, cx.now);
        Ok(())
    }

    /// Sends as much as the kernel accepts, up to `TURN` bytes.
    ///
    /// # Errors
    /// The subscriber hung up.
    pub fn flush(&mut self, cx: &mut Context) -> io::Result<()> {
        let mut share = TURN;
        while !self.queue.is_empty() {
            if share == 0 {
                return self.want_write(true, cx);
            }
            let (waiting, control) = (&mut self.waiting, &mut self.control);
            let copies = &mut cx.counters.copies;
            let sent = self.queue.send_over(&mut self.stream, |kind| match kind {
                FrameKind::Control => *control = control.saturating_sub(1),
                FrameKind::Part => {}
                FrameKind::End => {
                    *waiting -= 1;
                    *copies += 1;
                }
            });
            let n = match sent {
                Ok(n) => n,
                Err(e) => match e.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock => return self.want_write(true, cx),
                    _ => return Err(e),
                },
            };
            share = share.saturating_sub(n);
            self.moved = cx.now;
            self.overflowed = false;
        }
        // An idle subscriber needs no memory.
        self.queue.shrink(true);
        self.want_write(false, cx)
    }

    /// Reads once and handles the messages; subscriptions are kept in `all`.
    pub fn read(&mut self, chunk: &mut [u8], all: &mut Topics, now: Instant) -> ReadResult {
        let n = match self.stream.read(chunk) {
            Ok(0) => return ReadResult::Closed,
            Ok(n) => n,
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                    return ReadResult::Messages(Vec::new(), Vec::new());
                }
                _ => return ReadResult::Closed,
            },
        };
        self.last_read = now;
        self.pinged = None;
        let mut messages = Vec::new();
        let bytes = chunk.get(..n).unwrap_or_default();
        if let Err(error) = self.codec.decode(bytes, |message| messages.push(message)) {
            return ReadResult::Invalid(error.to_string());
        }
        let (mut new, mut claims) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                SubscriberMessage::Subscribe(topic) => match self.subscribe(&topic, all) {
                    Ok(topic) => new.push(topic),
                    Err(why) => return ReadResult::Invalid(why),
                },
                SubscriberMessage::Cancel(topic) => self.cancel(&topic, all),
                SubscriberMessage::Answer(bytes) => self.push_control(bytes, now),
                SubscriberMessage::Claim(_) if self.claims >= MAX_CLAIMS => {
                    return ReadResult::Invalid("it says too often who it is".to_owned());
                }
                SubscriberMessage::Claim(claim) => {
                    self.claims += 1;
                    claims.push(claim);
                }
                SubscriberMessage::Other => {}
            }
        }
        ReadResult::Messages(new, claims)
    }

    /// Sends a heartbeat if one is due. Returns a reason if the subscriber must be disconnected.
    pub fn check(&mut self, options: &PublishOptions, now: Instant) -> Option<&'static str> {
        if !self.codec.is_open() {
            let late = now.duration_since(self.moved) >= options.handshake;
            return late.then_some("it did not complete the handshake");
        }
        if self.overflowed && now.duration_since(self.moved) >= options.stalled {
            return Some("its queue is full and it reads nothing");
        }
        let (every, patience) = options.heartbeat?;
        match self.pinged {
            Some(pinged) if now.duration_since(pinged) >= patience => {
                return Some("it does not reply to heartbeats");
            }
            Some(_) => {}
            None if now.duration_since(self.last_read) >= every => {
                if let Some(ping) = C::ping() {
                    self.pinged = Some(now);
                    self.push_control(ping, now);
                }
            }
            None => {}
        }
        None
    }

    fn want_write(&mut self, on: bool, cx: &Context) -> io::Result<()> {
        if on == self.blocked {
            return Ok(());
        }
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, on);
        cx.epoll
            .modify(&self.stream, &mut EpollEvent::new(flags, self.token))?;
        self.blocked = on;
        Ok(())
    }
}

#[cfg(test)]
impl<C> Subscriber<C> {
    /// Number of its subscriptions.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Whether it was sent a heartbeat and has sent nothing since.
    pub fn is_pinged(&self) -> bool {
        self.pinged.is_some()
    }
}
