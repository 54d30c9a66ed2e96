//! The port that minions subscribe to (reference `salt-protocol.md` 1.2). It speaks ZeroMQ ([`Zmtp`]) or the protocol of
//! another [`SubscriberCodec`].
//!
//! Our own code rather than libzmq's PUB socket, which silently drops messages to a slow subscriber and does not report
//! which one. One thread and one epoll set; a publication is framed once and its bytes are shared by all
//! queues. A slow subscriber loses only its own publications and never delays others; each loss is counted, and logged
//! once a minute with the address. A subscriber that is connected but whose subscription is still in transit gets the
//! publications sent meanwhile that match it.

mod codec;
mod drain;
mod newcomers;
mod port;
mod subscriber;
#[cfg(test)]
mod tests;
mod topics;

use crate::tcp_acceptor::{HANDSHAKES, HEADERS, LISTENER, TcpAcceptor};
use crate::tls::{Accepted, ServerTls};
use drain::Drain;
use halite_sys::log_limiter::LogLimiter;
use halite_wire::network::Network;
use newcomers::Newcomers;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subscriber::{ReadResult, Subscriber};
use topics::Topics;

pub use codec::{SubscriberCodec, SubscriberMessage, Tcp, Ws, Zmtp};
pub use port::{Claim, PublishCounters, PublishOptions, PublishPort, Relayed};

/// Begins lines of the log.
const SERVER: &str = "publisher";
/// Bytes read from one subscriber at once.
const CHUNK: usize = 16 << 10;
/// Connections accepted per turn.
const ACCEPTS: usize = 256;
/// Ready subscribers served per turn.
const READY: usize = 256;
/// Time between checks of all subscribers.
const ROUND: Duration = Duration::from_secs(1);
/// Slow subscribers named in the log, per minute.
const NAMED: usize = 10;

/// State that all subscribers need.
struct Context {
    options: PublishOptions,
    counters: PublishCounters,
    epoll: Epoll,
    /// The time of this turn.
    now: Instant,
}

/// The publish port with its subscribers.
pub struct PublishServer<C = Zmtp> {
    cx: Context,
    acceptor: TcpAcceptor,
    subscribers: HashMap<u64, Subscriber<C>>,
    topics: Topics,
    newcomers: Newcomers,
    /// Those whose address a load balancer has named, by token, and whether there were changes.
    relayed: HashMap<u64, Relayed>,
    relayed_changed: bool,
    next_token: u64,
    /// Connections with a smaller token were there when marked.
    marked: u64,
    claims: Vec<Claim>,
    /// Tokens of subscribers with something to send.
    due: Vec<u64>,
    chunk: Box<[u8]>,
    looked: Instant,
    draining: Option<Drain>,
    losses: LogLimiter,
    refusals: LogLimiter,
    endings: LogLimiter,
    vanished: LogLimiter,
    starving: LogLimiter,
}

impl<C: SubscriberCodec> PublishServer<C> {
    /// Binds `port` (0: any free port) on `interface`.
    ///
    /// # Errors
    /// The address cannot be bound: which and why.
    pub fn bind(
        interface: &str,
        port: u16,
        options: PublishOptions,
    ) -> io::Result<PublishServer<C>> {
        let PublishOptions {
            ipv6,
            backlog,
            keepalive,
            ..
        } = options;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let place = (interface, port);
        let acceptor = TcpAcceptor::bind(SERVER, place, ipv6, backlog, keepalive, &epoll)?;
        let now = Instant::now();
        Ok(PublishServer {
            cx: Context {
                options,
                counters: PublishCounters::default(),
                epoll,
                now,
            },
            acceptor,
            subscribers: HashMap::new(),
            topics: Topics::default(),
            relayed: HashMap::new(),
            relayed_changed: false,
            newcomers: Newcomers::new(options.queue, options.queue_bytes),
            next_token: LISTENER + 1,
            marked: LISTENER,
            claims: Vec::new(),
            due: Vec::new(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            looked: now,
            draining: None,
            losses: LogLimiter::default(),
            refusals: LogLimiter::default(),
            endings: LogLimiter::default(),
            vanished: LogLimiter::default(),
            starving: LogLimiter::default(),
        })
    }

    /// From now on, connections have TLS.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn with_tls(mut self, tls: ServerTls) -> io::Result<PublishServer<C>> {
        self.acceptor
            .set_tls(tls, self.cx.options.handshake, &self.cx.epoll)?;
        Ok(self)
    }

    /// From now on, connections from `trusted` are those of load balancers, and must begin with the header of one
    /// ([`halite_wire::proxy`]).
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_balancers(mut self, trusted: Arc<[Network]>) -> io::Result<PublishServer<C>> {
        self.acceptor
            .set_balancers(trusted, self.cx.options.handshake, &self.cx.epoll)?;
        Ok(self)
    }

    /// The local address.
    ///
    /// # Errors
    /// That of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.acceptor.address()
    }

    fn publish_until(&mut self, mark: Option<u64>, topics: &[Vec<u8>], message: &[u8]) {
        let body: Arc<[u8]> = C::frame(message, false).into();
        // A message limited to earlier connections is not for newcomers.
        if mark.is_none() && !self.newcomers.is_empty() {
            self.newcomers.store(topics, false, message.len(), &body);
        }
        let mut wanting = Vec::new();
        // Tokens increase.
        let earlier = |token: &u64| mark.is_none_or(|next| *token < next);
        if !C::TOPICS {
            self.wanting_any(topics, &mut wanting);
            wanting.retain(earlier);
            return self.queue(&wanting, None, &body);
        }
        if topics.is_empty() {
            self.topics.matching(message, &mut wanting);
            wanting.retain(earlier);
            self.queue(&wanting, None, &body);
        }
        for topic in topics {
            wanting.clear();
            self.topics.matching(topic, &mut wanting);
            wanting.retain(earlier);
            if !wanting.is_empty() {
                let frame = C::frame(topic, true).into();
                self.queue(&wanting, Some(&frame), &body);
            }
        }
    }

    /// Who wants any of the topics; everybody without topics.
    fn wanting_any(&self, topics: &[Vec<u8>], out: &mut Vec<u64>) {
        if topics.is_empty() {
            let subscribed = self.subscribers.iter().filter(|(_, s)| s.has_topics());
            out.extend(subscribed.map(|(token, _)| token));
        }
        for topic in topics {
            self.topics.matching(topic, out);
        }
        out.sort_unstable();
        out.dedup();
    }

    fn queue(&mut self, tokens: &[u64], topic: Option<&Arc<[u8]>>, body: &Arc<[u8]>) {
        for token in tokens {
            let Some(subscriber) = self.subscribers.get_mut(token) else {
                continue;
            };
            let lost = subscriber.lost;
            let offered = subscriber.offer(topic, body, &mut self.cx);
            self.losses.add(subscriber.lost - lost);
            match offered {
                Ok(()) => self.enlist(*token),
                Err(_) => self.remove(*token),
            }
        }
    }

    fn enlist(&mut self, token: u64) {
        if let Some(subscriber) = self.subscribers.get_mut(&token)
            && subscriber.is_due()
            && !subscriber.listed
        {
            subscriber.listed = true;
            self.due.push(token);
        }
    }

    fn flush(&mut self) {
        for token in std::mem::take(&mut self.due) {
            let Some(subscriber) = self.subscribers.get_mut(&token) else {
                continue;
            };
            subscriber.listed = false;
            if subscriber.is_due() && subscriber.flush(&mut self.cx).is_err() {
                self.remove(token);
            }
        }
    }

    fn accept(&mut self) {
        let mut tries = ACCEPTS;
        loop {
            match self.acceptor.next(&mut tries, self.cx.now) {
                Ok(Some(accepted)) => self.admit(accepted),
                Ok(None) => return,
                Err(e) => return self.suspend(&e),
            }
        }
    }

    /// Suspends accepting for a while.
    fn suspend(&mut self, why: &io::Error) {
        self.cx.counters.starved += 1;
        if let Some(times) = self.starving.tick(self.cx.now) {
            log::error!(
                "publisher: cannot accept connections: {why} ({times} times, {} are connected); raise max_open_files and the system's limit of open files",
                self.subscribers.len()
            );
        }
        self.acceptor.suspend(&self.cx.epoll);
    }

    fn admit(&mut self, accepted: Accepted) {
        let Accepted { stream, peer, via } = accepted;
        let token = self.next_token;
        self.next_token += 1;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        if let Err(e) = self.cx.epoll.add(&stream, event) {
            log::error!("{SERVER}: cannot serve {peer}: {e}");
            return;
        }
        let mut new = Subscriber::new(stream, peer, token, self.cx.now);
        if C::AT_ONCE {
            new.set_topics([&b""[..]].into_iter(), &mut self.topics);
        } else {
            self.newcomers.add(token, self.cx.now);
        }
        self.subscribers.insert(token, new);
        if let Some(balancer) = via {
            let client = peer.ip().to_canonical();
            self.relayed.insert(token, Relayed { balancer, client });
            self.relayed_changed = true;
        }
        self.enlist(token);
    }

    fn peer(&mut self, token: u64, flags: EpollFlags) {
        // A connection closed earlier in this turn is gone.
        let Some(subscriber) = self.subscribers.get_mut(&token) else {
            return;
        };
        if flags.contains(EpollFlags::EPOLLOUT) && subscriber.flush(&mut self.cx).is_err() {
            return self.remove(token);
        }
        if !flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            return;
        }
        match subscriber.read(&mut self.chunk, &mut self.topics, self.cx.now) {
            ReadResult::Messages(new, claims) => {
                let peer = subscriber.peer;
                self.claims.extend(claims.into_iter().map(|envelope| Claim {
                    token,
                    peer,
                    envelope,
                }));
                if !new.is_empty() {
                    self.send_missed(token, &new);
                }
                self.enlist(token);
            }
            ReadResult::Closed => self.remove(token),
            ReadResult::Invalid(error) => self.cut_off(token, &error),
        }
    }

    fn cut_off(&mut self, token: u64, why: &str) {
        let Some(subscriber) = self.subscribers.get(&token) else {
            return;
        };
        let peer = subscriber.peer;
        self.cx.counters.refused += 1;
        if let Some(n) = self.refusals.tick(self.cx.now) {
            log::warn!("publisher: {peer} was cut off: {why} ({n} such connections)");
        }
        self.remove(token);
    }

    /// After its first subscription, a subscriber gets the matching publications since it connected.
    fn send_missed(&mut self, token: u64, new: &[Arc<[u8]>]) {
        let wants = |text: &[u8]| new.iter().any(|topic| text.starts_with(topic));
        for recent in self.newcomers.take_missed(token) {
            if recent.exact {
                if new
                    .iter()
                    .any(|topic| recent.topics.iter().any(|t| t[..] == topic[..]))
                {
                    self.queue(&[token], None, &recent.body);
                }
                continue;
            }
            if !C::TOPICS {
                self.queue(&[token], None, &recent.body);
                continue;
            }
            if recent.topics.is_empty() && wants(recent.message()) {
                self.queue(&[token], None, &recent.body);
            }
            for topic in recent.topics.iter().filter(|topic| wants(topic)) {
                let frame = C::frame(topic, true).into();
                self.queue(&[token], Some(&frame), &recent.body);
            }
        }
    }

    fn remove(&mut self, token: u64) {
        self.newcomers.remove(token);
        let Some(mut subscriber) = self.subscribers.remove(&token) else {
            return;
        };
        self.relayed_changed |= self.relayed.remove(&token).is_some();
        subscriber.cancel_all(&mut self.topics);
        report(&mut subscriber);
        let waiting = subscriber.waiting;
        self.cx.counters.gone += waiting as u64;
        if waiting > 0
            && let Some(n) = self.vanished.tick(self.cx.now)
        {
            let peer = subscriber.peer;
            log::warn!(
                "publisher: {waiting} publications waited for {peer} when its connection ended ({n} such subscribers)"
            );
        }
    }

    /// Lets go of as many subscribers as are due, if they are being sent away.
    fn let_go(&mut self) {
        let Some(drain) = &self.draining else {
            return;
        };
        let going = self
            .subscribers
            .len()
            .saturating_sub(drain.stay(self.cx.now));
        // The longest connected go first.
        let mut tokens: Vec<u64> = self.subscribers.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens.into_iter().take(going) {
            self.remove(token);
        }
    }

    /// Checks all subscribers.
    fn check_all(&mut self) {
        let now = self.cx.now;
        self.let_go();
        self.acceptor.resume(now, &self.cx.epoll);
        self.newcomers.expire(now, self.cx.options.handshake);
        let (mut over, mut due) = (Vec::new(), Vec::new());
        for (token, subscriber) in &mut self.subscribers {
            if let Some(why) = subscriber.check(&self.cx.options, now) {
                over.push((*token, subscriber.peer, why));
            } else if subscriber.is_due() {
                due.push(*token);
            }
        }
        due.into_iter().for_each(|token| self.enlist(token));
        self.flush();
        for (token, peer, why) in over {
            self.cx.counters.ended += 1;
            if let Some(n) = self.endings.tick(now) {
                log::warn!("publisher: {peer} was let go: {why} ({n} such subscribers)");
            }
            self.remove(token);
        }
        if self.losses.due(now).is_some() {
            self.log_losses();
        }
    }

    fn log_losses(&mut self) {
        let mut slow: Vec<_> = self
            .subscribers
            .values_mut()
            .filter(|s| s.lost > s.reported)
            .collect();
        slow.sort_unstable_by_key(|s| std::cmp::Reverse(s.lost - s.reported));
        let mut others = (0, 0);
        for (n, subscriber) in slow.into_iter().enumerate() {
            if n < NAMED {
                report(subscriber);
                continue;
            }
            others = (
                others.0 + 1,
                others.1 + subscriber.lost - subscriber.reported,
            );
            subscriber.reported = subscriber.lost;
        }
        if others.0 > 0 {
            log::warn!(
                "publisher: {} further subscribers lost {} publications",
                others.0,
                others.1
            );
        }
    }
}

impl<C: SubscriberCodec> PublishPort for PublishServer<C> {
    fn drain(&mut self, within: Duration, now: Instant) -> io::Result<()> {
        if self.draining.is_some() {
            return Ok(());
        }
        self.draining = Some(Drain::new(now, within, self.subscribers.len()));
        self.acceptor.close(&self.cx.epoll)
    }

    fn descriptor(&self) -> i32 {
        self.cx.epoll.0.as_raw_fd()
    }

    fn counters(&self) -> PublishCounters {
        self.cx.counters
    }

    fn changed_relayed(&mut self) -> bool {
        std::mem::take(&mut self.relayed_changed)
    }

    fn relayed(&self) -> Vec<Relayed> {
        self.relayed.values().copied().collect()
    }

    fn waiting(&self) -> (usize, usize) {
        let waiting = self.subscribers.values().map(|s| s.waiting).sum();
        (self.subscribers.len(), waiting)
    }

    fn lossy(&self) -> Vec<(SocketAddr, u64)> {
        let lossy = self.subscribers.values().filter(|s| s.lost > 0);
        let mut lossy: Vec<_> = lossy.map(|s| (s.peer, s.lost)).collect();
        lossy.sort_unstable_by_key(|(peer, lost)| (std::cmp::Reverse(*lost), *peer));
        lossy
    }

    fn turn(&mut self, now: Instant) -> io::Result<()> {
        self.cx.now = now;
        let mut ready = [EpollEvent::empty(); READY];
        let n = match self.cx.epoll.wait(&mut ready, EpollTimeout::ZERO) {
            Ok(n) => n,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        for event in ready.iter().take(n) {
            match event.data() {
                LISTENER => self.accept(),
                HANDSHAKES | HEADERS => {
                    for accepted in self.acceptor.finished(now) {
                        self.admit(accepted);
                    }
                }
                token => self.peer(token, event.events()),
            }
        }
        self.flush();
        if now.duration_since(self.looked) >= ROUND {
            self.looked = now;
            self.check_all();
            self.acceptor.tend(now)?;
        }
        Ok(())
    }

    fn publish(&mut self, topics: &[Vec<u8>], message: &[u8]) {
        self.publish_until(None, topics, message);
    }

    fn publish_exact(&mut self, topic: &[u8], message: &[u8]) {
        let body: Arc<[u8]> = C::frame(message, false).into();
        if !self.newcomers.is_empty() {
            self.newcomers
                .store(&[topic.to_vec()], true, message.len(), &body);
        }
        let mut wanting = Vec::new();
        self.topics.exact(topic, &mut wanting);
        self.queue(&wanting, None, &body);
    }

    fn mark(&mut self) {
        self.marked = self.next_token;
    }

    fn publish_to_marked(&mut self, topics: &[Vec<u8>], message: &[u8]) {
        self.publish_until(Some(self.marked), topics, message);
    }

    fn take_claims(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.claims)
    }

    fn register(&mut self, token: u64, topics: &[Vec<u8>]) {
        if let Some(subscriber) = self.subscribers.get_mut(&token) {
            subscriber.set_topics(topics.iter().map(Vec::as_slice), &mut self.topics);
        }
    }

    fn refuse(&mut self, token: u64, why: &str) {
        self.cut_off(token, why);
    }

    fn finish(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        loop {
            let now = Instant::now();
            self.turn(now)?;
            if now >= end || self.waiting().1 == 0 {
                self.subscribers.values_mut().for_each(report);
                return Ok(());
            }
            let left = end.saturating_duration_since(now);
            let wait = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::ZERO);
            match self.cx.epoll.wait(&mut [EpollEvent::empty()], wait) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn report<C>(subscriber: &mut Subscriber<C>) {
    let lost = subscriber.lost - subscriber.reported;
    if lost > 0 {
        let (peer, all, waiting) = (subscriber.peer, subscriber.lost, subscriber.waiting);
        log::warn!(
            "publisher: subscriber {peer} is too slow and lost {lost} publications ({all} in all, {waiting} waiting)"
        );
        subscriber.reported = subscriber.lost;
    }
}
