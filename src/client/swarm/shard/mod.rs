//! The event loop of one thread of a swarm.

mod jobs;
mod reconnect;
mod requests;
mod signin;

use super::answer::grains;
use super::minion::{InFlight, Minion};
use super::session::Load;
use super::stats::Stats;
use super::{MasterAddress, Shared, SwarmOptions};
use halite_transport::client::{Connection, Server};
use halite_transport::sockets::KeepAlive;
use halite_transport::zmtp::{Event, SocketType};
use halite_wire::Map;
use halite_wire::ids::JidClock;
use jobs::PublicationCache;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often to check for time-outs, at the most.
const TICK: Duration = Duration::from_millis(50);
/// The same for each minion: the check looks at all of them, and must not take all of a processor.
const TICK_EACH: Duration = Duration::from_micros(20);
/// Pause after a lost connection or a refused sign-in; spread by the minion's number.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause is doubled at most this often for consecutive refused connections.
const DOUBLINGS: u32 = 4;

pub(super) struct Shard {
    options: Arc<SwarmOptions>,
    shared: Arc<Shared>,
    epoll: Epoll,
    minions: Vec<Minion>,
    sign_in_queue: VecDeque<usize>,
    signing_in: usize,
    stats: Stats,
    opened: PublicationCache,
    grains: Map,
    jids: JidClock,
    /// Jid and load of the current round of returns.
    round: Option<(Arc<str>, Arc<Load>)>,
    /// The minion that starts the next piece of own work.
    cursor: usize,
    /// Pieces of own work in progress.
    working: usize,
    /// The request of a minion after an outage of the master.
    question: Arc<Load>,
}

impl Shard {
    pub fn new(
        options: Arc<SwarmOptions>,
        shared: Arc<Shared>,
        number: usize,
        shards: usize,
    ) -> io::Result<Shard> {
        let minions: Vec<Minion> = (number..options.minions)
            .step_by(shards)
            .map(|n| Minion::new(&options, n))
            .collect();
        Ok(Shard {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            sign_in_queue: VecDeque::new(),
            signing_in: 0,
            stats: Stats::default(),
            opened: PublicationCache::default(),
            grains: grains(),
            jids: JidClock::default(),
            round: None,
            cursor: 0,
            working: 0,
            question: reconnect::question(),
            minions,
            options,
            shared,
        })
    }

    /// Runs until the swarm is stopped.
    pub fn run(&mut self) -> io::Result<Stats> {
        for n in 0..self.minions.len() {
            self.want_sign_in(n);
        }
        let mut events = vec![EpollEvent::empty(); 512];
        let mut ticked = Instant::now();
        let tick = TICK.max(TICK_EACH * u32::try_from(self.minions.len()).unwrap_or(u32::MAX));
        while !self.shared.stop.load(Ordering::Acquire) {
            self.start_sign_ins();
            self.start_work();
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(10u8)) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(e.into()),
            };
            for event in &events[..count] {
                let token = event.data() as usize;
                let socket = if token & 1 == 0 {
                    SocketType::Req
                } else {
                    SocketType::Sub
                };
                self.progress(token / 2, socket);
            }
            if ticked.elapsed() > tick {
                ticked = Instant::now();
                self.tick();
            }
        }
        Ok(std::mem::take(&mut self.stats))
    }

    fn progress(&mut self, n: usize, socket: SocketType) {
        let minion = &mut self.minions[n];
        let slot = if socket == SocketType::Req {
            &mut minion.req
        } else {
            &mut minion.sub
        };
        let Some(connection) = slot else { return };
        let mut events = Vec::new();
        let outcome = connection.progress(&mut |event| events.push(event));
        for event in events {
            self.on_event(n, socket, event);
        }
        if let Err(e) = outcome {
            self.connection_lost(n, socket, &e);
        }
    }

    fn on_event(&mut self, n: usize, socket: SocketType, event: Event) {
        match (socket, event) {
            (SocketType::Sub, Event::Ready) => {
                self.publisher_connected(n);
                self.ping(n);
            }
            (SocketType::Sub, Event::Pong) => {
                // The first answer may overtake the subscription inside the master, the second cannot.
                self.minions[n].pongs += 1;
                if self.minions[n].pongs == 1 {
                    self.ping(n);
                } else {
                    self.minions[n].subscribed = true;
                    self.count_ready(n);
                    self.confirm_reconnect(n);
                }
            }
            (SocketType::Sub, Event::Message(mut frames)) => match frames.pop() {
                Some(body) if frames.len() <= 1 => {
                    self.publication(n, body);
                }
                _ => self.stats.error("a publication has too many frames"),
            },
            (SocketType::Req, Event::Message(frames)) => match <[Vec<u8>; 1]>::try_from(frames) {
                Ok([body]) => {
                    self.minions[n].refused = 0;
                    self.reply(n, &body);
                }
                Err(_) => self.stats.error("a reply has not exactly one frame"),
            },
            (SocketType::Req, _) => {}
        }
    }

    fn ping(&mut self, n: usize) {
        let sent = self.minions[n].sub.as_mut().map(Connection::ping);
        if let Some(Err(e)) = sent {
            self.connection_lost(n, SocketType::Sub, &e);
        }
    }

    /// A connection was closed: what was in progress is repeated on the next one.
    fn connection_lost(&mut self, n: usize, socket: SocketType, _why: &io::Error) {
        self.stats.note("connections lost or refused");
        self.minions[n].refused += 1;
        if socket == SocketType::Sub {
            self.publisher_lost(n);
            self.minions[n].sub = None;
            self.minions[n].subscribed = false;
            self.count_ready(n);
            self.move_if_refused(n);
            self.pause(n);
            return;
        }
        self.minions[n].req = None;
        self.move_if_refused(n);
        match self.minions[n].task.take() {
            // The request was not refused: this does not count as an attempt.
            Some(InFlight::Request(item, _)) => {
                self.pause(n);
                self.shared.repeated.fetch_add(1, Ordering::AcqRel);
                self.minions[n].queue.push_front(*item);
            }
            task => {
                self.minions[n].task = task;
                self.repeat(n);
            }
        }
    }

    fn master_of(&self, n: usize) -> MasterAddress {
        self.options.masters[self.minions[n].master]
    }

    /// One lost connection may be that of a role which comes back at once; the next refusal is that of a master that is gone.
    fn move_if_refused(&mut self, n: usize) {
        if self.minions[n].refused > 1 {
            self.move_on(n);
        }
    }

    /// Minion `n` goes to another master, if there are several: its session is valid there.
    fn move_on(&mut self, n: usize) {
        let count = self.options.masters.len();
        if count == 1 {
            return;
        }
        self.publisher_lost(n);
        let minion = &mut self.minions[n];
        // Not all to the same one.
        minion.master = (minion.master + 1 + n / count % (count - 1)) % count;
        minion.refused = 0;
        minion.req = None;
        minion.sub = None;
        minion.subscribed = false;
        self.count_ready(n);
        self.stats.note("moves to another master");
    }

    fn pause(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        let spread = Duration::from_millis(n as u64 * 7 % 100);
        let times = 1 << minion.refused.saturating_sub(1).min(DOUBLINGS);
        minion.pause = Some(Instant::now() + (PAUSE + spread) * times);
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let rounds = self.shared.rounds.load(Ordering::Acquire);
        for n in 0..self.minions.len() {
            if self.minions[n].task.is_some()
                && now.duration_since(self.minions[n].sent) > self.options.timeout
            {
                self.stats.note("time-outs");
                self.minions[n].req = None;
                self.move_on(n);
                self.repeat(n);
            }
            if self.minions[n].pause.is_some_and(|p| p <= now) {
                self.minions[n].pause = None;
                if self.minions[n].wants_sign_in {
                    self.sign_in_queue.push_back(n);
                }
                self.subscribe(n);
                self.next_task(n);
            }
            let minion = &mut self.minions[n];
            if minion.rounds < rounds
                && minion.session.is_some()
                && !minion.wants_sign_in
                && minion.task.is_none()
            {
                minion.rounds += 1;
                self.want_sign_in(n);
            }
        }
    }

    fn send(&mut self, n: usize, request: &[u8]) {
        self.minions[n].sent = Instant::now();
        if self.minions[n].req.is_none() {
            match self.connect(n, SocketType::Req, self.master_of(n).requests) {
                Ok(connection) => self.minions[n].req = Some(connection),
                Err(e) => return self.connection_lost(n, SocketType::Req, &e),
            }
        }
        let sent = self.minions[n].req.as_mut().map(|c| c.request(request));
        if let Some(Err(e)) = sent {
            self.connection_lost(n, SocketType::Req, &e);
        }
    }

    fn connect(&self, n: usize, socket: SocketType, address: SocketAddr) -> io::Result<Connection> {
        let server = Server {
            transport: self.options.transport,
            address,
            host: &address.ip().to_string(),
            keepalive: KeepAlive::REQUEST_SERVER,
            tls: self.options.tls.as_ref(),
        };
        let mut connection = Connection::open(&server, socket)?;
        if socket == SocketType::Sub {
            connection.claim(&self.minions[n].claim())?;
        }
        let token = n as u64 * 2 + u64::from(socket == SocketType::Sub);
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        self.epoll.add(&connection, EpollEvent::new(flags, token))?;
        Ok(connection)
    }

    fn subscribe(&mut self, n: usize) {
        if !self.options.subscribe || self.minions[n].sub.is_some() {
            return;
        }
        let Some(session) = &self.minions[n].session else {
            return;
        };
        let master = self.master_of(n);
        let port = master.publish_port.unwrap_or(session.publish_port);
        let address = SocketAddr::new(master.requests.ip(), port);
        self.minions[n].pongs = 0;
        match self.connect(n, SocketType::Sub, address) {
            Ok(connection) => self.minions[n].sub = Some(connection),
            Err(e) => self.connection_lost(n, SocketType::Sub, &e),
        }
    }

    fn count_ready(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        let ready = minion.session.is_some() && (minion.subscribed || !self.options.subscribe);
        if ready && !minion.counted_ready {
            self.shared.ready.fetch_add(1, Ordering::AcqRel);
        } else if !ready && minion.counted_ready {
            self.shared.ready.fetch_sub(1, Ordering::AcqRel);
        }
        minion.counted_ready = ready;
    }

    fn reply(&mut self, n: usize, body: &[u8]) {
        match self.minions[n].task.take() {
            Some(InFlight::SignIn(sign_in)) => self.signed_in(n, *sign_in, body),
            Some(InFlight::Request(item, nonce)) => self.answered(n, *item, &nonce, body),
            None => self.stats.error("a reply to no request"),
        }
        if self.minions[n].wants_sign_in && self.minions[n].pause.is_none() {
            self.sign_in_queue.push_back(n);
        }
        self.next_task(n);
    }
}
