//! All connections: a poll over non-blocking sockets. [`super::session`] and [`super::jobs`] decide what to do.

mod act;

use super::dialect::Inbound;
use super::jobs::Jobs;
use super::peer::{Input, Peer};
use super::registry::Keys;
use super::session::{ConnId, Frame, Rules, Sessions};
use crate::wire::{First, MachineId, MinionMessage};
use halite_config::SysinspectGateway;
use halite_gateway::clock::Clock;
use halite_gateway::frame::{self, Protocol};
use halite_gateway::master_events::{MasterEvent, MasterEvents, Order};
use halite_gateway::writer::WriteQueue;
use halite_master::EXIT_BIND;
use halite_store::minions::MinionCache;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LISTENER: u64 = 0;
const MASTER: u64 = 1;
const FIRST_PEER: u64 = 16;
/// Largest frame in bytes before a session exists: enough for a key or many traits, and so little that all unknown
/// peers together cannot fill the memory.
const STRANGER_FRAME: usize = 128 << 10;
/// Sockets handled in one turn of the loop.
const READY: usize = 256;
/// Connections accepted before the open ones get their turn.
const ACCEPTED: usize = 64;
/// How long accepting is suspended after the system ran out of descriptors.
const PAUSE: Duration = Duration::from_millis(250);
/// Backlog of connections to be accepted.
const BACKLOG: i32 = 4096;

/// The running gateway.
pub(super) struct Server {
    settings: SysinspectGateway,
    poll: Epoll,
    listener: TcpListener,
    closed_until: Option<Instant>,
    starving: LogLimiter,
    /// Whether the queue of master events is in the poll.
    hears_master: bool,
    ready: [EpollEvent; READY],
    ready_count: usize,
    peers: HashMap<ConnId, Peer>,
    next: ConnId,
    sessions: Sessions,
    jobs: Jobs,
    keys: Keys,
    /// The grains of minions.
    minions: Arc<dyn MinionCache>,
    writer: WriteQueue,
    master_key: String,
    buffer: Vec<u8>,
    dropped: u64,
    presence_changed: bool,
}

impl Protocol for Server {
    fn wait(&mut self, events: &MasterEvents, limit: Duration) -> Result<(), ExitError> {
        if !self.hears_master {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, MASTER);
            self.poll
                .add(events.as_fd(), event)
                .map_err(std::io::Error::from)?;
            self.hears_master = true;
        }
        let limit = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
        self.ready_count = match self.poll.wait(&mut self.ready, EpollTimeout::from(limit)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(std::io::Error::from(e).into()),
        };
        Ok(())
    }

    fn receive(&mut self) -> Result<bool, ExitError> {
        for n in 0..std::mem::take(&mut self.ready_count) {
            let event = self.ready[n];
            match event.data() {
                LISTENER => self.accept(),
                // The frame empties the queue.
                MASTER => {}
                conn => self.handle_peer(conn, event.events()),
            }
        }
        Ok(false)
    }

    fn master_event(&mut self, event: MasterEvent, now: Clock) {
        match event {
            MasterEvent::Job(order) => self.start_job(&order, now.at),
            MasterEvent::Key { id, deleted } => {
                let Ok(id) = id.parse() else { return };
                let actions = self.sessions.review(&id, &mut self.keys);
                self.perform(actions);
                if deleted {
                    self.keys.forget(&id);
                }
            }
        }
    }

    fn tick(&mut self, now: Clock) {
        let now = now.at;
        if self.closed_until.is_some_and(|until| until <= now) {
            self.closed_until = None;
            self.listen(true);
        }
        let actions = self.sessions.tick(now, &mut self.keys);
        self.perform(actions);
        let steps = self.jobs.tick(now);
        self.run_steps(steps);
        let patience = self.settings.hello_timeout;
        let overdue = |(conn, peer): (&ConnId, &Peer)| peer.overdue(now, patience).then_some(*conn);
        let late: Vec<_> = self.peers.iter().filter_map(overdue).collect();
        for conn in late {
            self.remove(conn);
        }
    }

    fn counters(&self) -> Map {
        let stats = self.sessions.stats;
        halite_wire::map! {
            "connections" => self.sessions.connections(), "sessions" => self.sessions.sessions(),
            "jobs" => self.jobs.count(), "dropped" => self.dropped, "refused" => stats.refused,
            "registrations" => stats.registrations, "duplicates" => stats.duplicates,
            "expired" => stats.expired, "garbage" => stats.garbage, "failures" => stats.failures,
        }
    }

    fn presence_changed(&mut self) -> bool {
        std::mem::take(&mut self.presence_changed)
    }

    fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        let who = self.sessions.connected();
        who.filter_map(|(id, address)| Some((minion(id)?, address)))
            .collect()
    }
}

impl Server {
    /// Binds the port.
    pub fn new(frame: &frame::Frame, settings: &SysinspectGateway) -> Result<Server, ExitError> {
        let (config, writer) = (frame.config, frame.writer.clone());
        let master = halite_master::rsa_master_key(config, "gateways:sysinspect")?;
        let place = (settings.interface.as_str(), settings.port);
        let listener = TcpListener::bind(place).map_err(|e| {
            let place = format!("{}:{}", settings.interface, settings.port);
            ExitError::new(EXIT_BIND, format!("gateways:sysinspect: {place}: {e}"))
        })?;
        if let Ok(backlog) = nix::sys::socket::Backlog::new(BACKLOG) {
            nix::sys::socket::listen(&listener, backlog).map_err(std::io::Error::from)?;
        }
        listener.set_nonblocking(true)?;
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(std::io::Error::from)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENER);
        poll.add(&listener, event).map_err(std::io::Error::from)?;
        let rules = Rules {
            ping_interval: settings.ping_interval,
            session_timeout: settings.session_timeout,
            hello_timeout: settings.hello_timeout,
            max_connections: settings.max_connections,
            max_strangers: settings.max_strangers,
            registrations_per_minute: settings.registrations_per_minute,
        };
        let now = Instant::now();
        let master_key = master.public().to_pkcs1_pem();
        log::info!(
            "listening for sysinspect minions on {}:{}; the fingerprint of the master's key is {}",
            settings.interface,
            settings.port,
            master.public().pkcs1_fingerprint()
        );
        let mut keys = Keys::new(config, frame.stores, settings, master, writer.clone());
        keys.sweep()?;
        Ok(Server {
            master_key,
            keys,
            sessions: Sessions::new(rules, now),
            jobs: Jobs::new(settings.job_timeout),
            settings: settings.clone(),
            poll,
            listener,
            closed_until: None,
            starving: LogLimiter::default(),
            hears_master: false,
            ready: [EpollEvent::empty(); READY],
            ready_count: 0,
            peers: HashMap::new(),
            next: FIRST_PEER,
            writer,
            minions: frame.stores.minions.clone(),
            buffer: vec![0; 64 << 10],
            dropped: 0,
            presence_changed: false,
        })
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            let (stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => return self.suspend(&e),
            };
            let address = address.ip().to_canonical();
            if !self.sessions.opened(self.next, address, Instant::now()) {
                log::debug!("{address}: connection refused: too many connections");
                continue;
            }
            let conn = self.next;
            self.next += 1;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, conn);
            let added = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true))
                .and_then(|()| self.poll.add(&stream, event).map_err(Into::into));
            if let Err(e) = added {
                log::warn!("{address}: {e}");
                self.sessions.closed(conn);
                continue;
            }
            let limit = STRANGER_FRAME.min(self.settings.max_frame);
            let peer = Peer::new(stream, address, limit);
            self.peers.insert(conn, peer);
        }
    }

    /// Accepts nothing for a while: without file descriptors it would fail again at once.
    fn suspend(&mut self, why: &std::io::Error) {
        let now = Instant::now();
        if let Some(times) = self.starving.tick(now) {
            log::error!(
                "gateway-sysinspect: cannot accept connections: {why} ({times} times, {} are connected); raise max_open_files and the system's limit of open files",
                self.peers.len()
            );
        }
        self.listen(false);
        self.closed_until = Some(now + PAUSE);
    }

    fn listen(&mut self, open: bool) {
        let flags = if open {
            EpollFlags::EPOLLIN
        } else {
            EpollFlags::empty()
        };
        let mut event = EpollEvent::new(flags, LISTENER);
        // If even this fails, accepting fails and is suspended again.
        let _ = self.poll.modify(&self.listener, &mut event);
    }

    fn handle_peer(&mut self, conn: ConnId, what: EpollFlags) {
        if what.contains(EpollFlags::EPOLLOUT) {
            self.flush(conn);
        }
        let inward = EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if !what.intersects(inward) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&conn) else {
            return;
        };
        let now = Instant::now();
        let mut bodies = Vec::new();
        let input = peer.read(&mut self.buffer, now, &mut bodies);
        let address = peer.address;
        for body in bodies {
            self.handle_body(conn, &body, now);
        }
        match input {
            Input::Open => {}
            Input::Ended => self.remove(conn),
            Input::TooLong(e) => {
                log::warn!("{address}: {e}");
                self.remove(conn);
            }
        }
    }

    fn handle_body(&mut self, conn: ConnId, body: &[u8], now: Instant) {
        let frame = self.decode(conn, body);
        let actions = self.sessions.frame(conn, frame, now, &mut self.keys);
        self.perform(actions);
    }

    fn decode(&mut self, conn: ConnId, body: &[u8]) -> Frame {
        let known = self.sessions.dialect(conn).map(|(dialect, _)| dialect);
        let dialect = match known.map_or_else(|| First::of(body), |d| Ok(First::Message(d))) {
            Ok(First::Message(dialect)) => dialect,
            Ok(First::Secure) => return Frame::Secure,
            Err(e) => {
                log::debug!("connection {conn}: {e}");
                return Frame::Garbage;
            }
        };
        match MinionMessage::decode(body, dialect) {
            Ok(message) => {
                self.sessions.set_dialect(conn, dialect);
                let heard = Inbound::of(&message, dialect);
                Frame::Message(message.id, heard)
            }
            Err(e) => {
                log::debug!("connection {conn}: {e}");
                Frame::Garbage
            }
        }
    }

    /// Starts a job on its minions that are connected; the others count as not connected.
    fn start_job(&mut self, order: &Order, now: Instant) {
        for id in &order.ids {
            let Some((_, id, dialect, _)) = self.sessions.find(id) else {
                continue;
            };
            let id = id.clone();
            let steps = self.jobs.start(order, &id, dialect, now);
            self.run_steps(steps);
        }
    }

    fn queue(&mut self, conn: ConnId, frame: &[u8]) {
        let Some(peer) = self.peers.get_mut(&conn) else {
            return;
        };
        if !peer.queue(frame, self.settings.max_queue) {
            self.dropped += 1;
            // Log a flood a few times, not a million.
            if self.dropped.is_power_of_two() {
                log::warn!(
                    "{}: message dropped, the queue of this connection is full; {} so far",
                    peer.address,
                    self.dropped
                );
            }
        }
        self.flush(conn);
    }

    fn flush(&mut self, conn: ConnId) {
        let Some(peer) = self.peers.get_mut(&conn) else {
            return;
        };
        if !peer.flush() {
            return self.remove(conn);
        }
        let waits = peer.waits();
        if waits == peer.blocked {
            return;
        }
        peer.blocked = waits;
        let mut wanted = EpollFlags::EPOLLIN;
        wanted.set(EpollFlags::EPOLLOUT, waits);
        let changed = self
            .poll
            .modify(&peer.stream, &mut EpollEvent::new(wanted, conn));
        if changed.is_err() {
            self.remove(conn);
        }
    }

    /// Drops a connection.
    fn remove(&mut self, conn: ConnId) {
        // Closing the socket takes it out of the poll.
        self.peers.remove(&conn);
        let actions = self.sessions.closed(conn);
        self.perform(actions);
    }
}

fn minion(id: &MachineId) -> Option<MinionId> {
    id.as_str().parse().ok()
}
