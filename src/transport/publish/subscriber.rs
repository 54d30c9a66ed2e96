//! One subscriber and what waits for it.

use super::{Context, PublishOptions, SubscriberCodec, SubscriberMessage};
use crate::outbox::Outbox;
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Bytes one subscriber may be sent before the others have their turn.
const TURN: usize = 1 << 20;
/// Answers to heartbeats that may wait; whoever asks more often without listening gets none.
const ANSWERS: usize = 4;
/// Subscriptions of one subscriber; a minion has three at the most.
const TOPICS: usize = 64;

/// What a frame on its way is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Greeting or heartbeat.
    Word,
    /// Part of a publication that goes on.
    Part,
    /// The end of a publication.
    End,
}

/// What came of reading.
pub(super) enum Heard {
    /// It wants more from now on, or less.
    Topics(Vec<(Vec<u8>, bool)>),
    /// It has hung up.
    Gone,
    /// It is not a subscriber, and why.
    Fault(String),
}

/// A connection to the publish port.
pub(super) struct Subscriber<C> {
    /// The connection; it does not wait.
    pub stream: TcpStream,
    token: u64,
    pub peer: SocketAddr,
    codec: C,
    queue: Outbox<Kind>,
    /// Publications and answers to heartbeats in `queue`.
    pub waiting: usize,
    answers: usize,
    /// Publications that found no room, and those of them in the log already.
    pub lost: u64,
    pub reported: u64,
    /// Whether any was lost since the kernel last took something.
    overflowed: bool,
    topics: Vec<Box<[u8]>>,
    /// When the kernel last took something, or the connection began.
    moved: Instant,
    /// When it last said something, and when it was asked whether it lives since.
    heard: Instant,
    asked: Option<Instant>,
    /// Waits for the kernel to have room again.
    blocked: bool,
    /// Stands in the list of those to be sent to.
    pub listed: bool,
}

impl<C: SubscriberCodec> Subscriber<C> {
    /// Takes over a connection that is registered for `EPOLLIN` under `token`, and greets.
    pub fn new(stream: TcpStream, peer: SocketAddr, token: u64, now: Instant) -> Subscriber<C> {
        let mut new = Subscriber {
            stream,
            token,
            peer,
            codec: C::default(),
            queue: Outbox::default(),
            waiting: 0,
            answers: 0,
            lost: 0,
            reported: 0,
            overflowed: false,
            topics: Vec::new(),
            moved: now,
            heard: now,
            asked: None,
            blocked: false,
            listed: false,
        };
        let hello = C::hello();
        if !hello.is_empty() {
            new.push(hello.into(), Kind::Word, now);
        }
        new
    }

    /// Whether there is something to send and the kernel is not known to be full.
    pub fn is_due(&self) -> bool {
        !self.queue.is_empty() && !self.blocked
    }

    /// Its subscriptions.
    pub fn topics(&self) -> impl Iterator<Item = &[u8]> {
        self.topics.iter().map(|topic| &**topic)
    }

    fn push(&mut self, frame: Arc<[u8]>, kind: Kind, now: Instant) {
        if self.queue.is_empty() {
            self.moved = now;
        }
        self.waiting += usize::from(kind == Kind::End);
        self.queue.push(frame, kind);
    }

    /// Answers a heartbeat.
    pub fn answer(&mut self, context: &[u8], now: Instant) {
        self.word(C::pong(context), now);
    }

    fn word(&mut self, frame: Vec<u8>, now: Instant) {
        if self.answers < ANSWERS {
            self.answers += 1;
            self.push(frame.into(), Kind::Word, now);
        }
    }

    fn fits(&self, octets: usize, options: &PublishOptions) -> bool {
        self.waiting == 0
            || (self.waiting < options.queue
                && self.queue.byte_len() + octets <= options.queue_octets)
    }

    /// Queues a publication, with its topic as a part of its own if it has one, or counts it as lost.
    ///
    /// # Errors
    /// The subscriber is gone.
    pub fn offer(
        &mut self,
        topic: Option<&Arc<[u8]>>,
        body: &Arc<[u8]>,
        cx: &mut Context,
    ) -> io::Result<()> {
        let octets = body.len() + topic.map_or(0, |topic| topic.len());
        if !self.fits(octets, &cx.options) && !self.blocked {
            self.flush(cx)?;
        }
        if !self.fits(octets, &cx.options) {
            self.lost += 1;
            self.overflowed = true;
            cx.counters.slow += 1;
            return Ok(());
        }
        if let Some(topic) = topic {
            self.push(topic.clone(), Kind::Part, cx.now);
        }
        self.push(body.clone(), Kind::End, cx.now);
        Ok(())
    }

    /// Sends as much as the kernel takes, up to a fair share.
    ///
    /// # Errors
    /// The subscriber is gone.
    pub fn flush(&mut self, cx: &mut Context) -> io::Result<()> {
        let mut share = TURN;
        while !self.queue.is_empty() {
            if share == 0 {
                return self.want_write(true, cx);
            }
            let (waiting, answers) = (&mut self.waiting, &mut self.answers);
            let copies = &mut cx.counters.copies;
            let sent = self.queue.send(&self.stream, |kind| match kind {
                Kind::Word => *answers = answers.saturating_sub(1),
                Kind::Part => {}
                Kind::End => {
                    *waiting -= 1;
                    *copies += 1;
                }
            });
            let n = match sent {
                Ok(n) => n,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return self.want_write(true, cx),
                Err(e) => return Err(e.into()),
            };
            share = share.saturating_sub(n);
            self.moved = cx.now;
            self.overflowed = false;
        }
        // Memory is for those who wait.
        self.queue.shrink(true);
        self.want_write(false, cx)
    }

    /// Reads what it says, once.
    pub fn hear(&mut self, chunk: &mut [u8], now: Instant) -> Heard {
        let n = match self.stream.read(chunk) {
            Ok(0) => return Heard::Gone,
            Ok(n) => n,
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                    return Heard::Topics(Vec::new());
                }
                _ => return Heard::Gone,
            },
        };
        self.heard = now;
        self.asked = None;
        let mut messages = Vec::new();
        let octets = chunk.get(..n).unwrap_or_default();
        if let Err(fault) = self.codec.hear(octets, |message| messages.push(message)) {
            return Heard::Fault(fault.to_string());
        }
        let mut changes = Vec::new();
        for message in messages {
            match message {
                SubscriberMessage::Subscribe(_) if self.topics.len() >= TOPICS => {
                    return Heard::Fault(format!("it has more than {TOPICS} subscriptions"));
                }
                SubscriberMessage::Subscribe(topic) => {
                    self.topics.push(topic.as_slice().into());
                    changes.push((topic, true));
                }
                SubscriberMessage::Cancel(topic) => {
                    let at = self.topics.iter().position(|t| **t == *topic);
                    let Some(at) = at else { continue };
                    self.topics.swap_remove(at);
                    if !self.topics().any(|t| *t == *topic) {
                        changes.push((topic, false));
                    }
                }
                SubscriberMessage::Ping(context) => self.answer(&context, now),
                SubscriberMessage::Other => {}
            }
        }
        Heard::Topics(changes)
    }

    /// Asks whether it lives, if it is time to; the reason if it is to be let go.
    pub fn check(&mut self, options: &PublishOptions, now: Instant) -> Option<&'static str> {
        if !self.codec.is_open() {
            let late = now.duration_since(self.moved) >= options.handshake;
            return late.then_some("it did not say who it is");
        }
        if self.overflowed && now.duration_since(self.moved) >= options.stalled {
            return Some("its queue is full and it takes nothing");
        }
        let (every, patience) = options.heartbeat?;
        match self.asked {
            Some(asked) if now.duration_since(asked) >= patience => {
                return Some("it does not answer heartbeats");
            }
            Some(_) => {}
            None if now.duration_since(self.heard) >= every => {
                self.asked = Some(now);
                self.word(C::ping(), now);
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
    /// Whether it was asked if it lives, and has said nothing since.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }
}
