//! The statistics of a federation broker and how they are published (reference, section 16).

use super::rules::{Rejection, Rules};
use crate::broker::link::Figures;
use crate::wire::subjects::Side;
use halite_sys::time::unix_now;
use halite_transport::http::{HttpServer, Page};
use serde_json::{Value as Json, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A connection, which reports once a second, counts as stuck after this many seconds without a report.
const STUCK: u64 = 10;
/// How often the thread of the port looks whether to end.
const TURN: Duration = Duration::from_secs(1);

#[derive(Default)]
struct SideCounters {
    up: AtomicBool,
    received: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// Seconds since 1970.
    last: AtomicU64,
    /// When its connection last reported progress, in seconds since the counters were created.
    tick: AtomicU64,
    turned: [AtomicU64; Rejection::REASONS.len()],
}

/// Counters of both sides.
pub(super) struct Counters {
    started: u64,
    begun: Instant,
    /// Each kind of warning is logged at most once in this time.
    quiet: Duration,
    complained: Mutex<[Option<Instant>; Rejection::REASONS.len() + 1]>,
    federation: SideCounters,
    collective: SideCounters,
}

/// Data of a connection for statistics.
pub(super) struct Connection {
    /// Its server; empty if not connected.
    pub server: String,
    /// The subject it receives.
    pub source: String,
    /// Its counters.
    pub figures: Figures,
}

impl Counters {
    /// Counters started at that time, in seconds since 1970.
    pub fn new(started: u64, quiet: Duration) -> Counters {
        Counters {
            started,
            begun: Instant::now(),
            quiet,
            complained: Mutex::default(),
            federation: SideCounters::default(),
            collective: SideCounters::default(),
        }
    }

    fn of(&self, side: Side) -> &SideCounters {
        match side {
            Side::Federation => &self.federation,
            Side::Collective => &self.collective,
        }
    }

    pub fn up(&self, side: Side, up: bool) {
        self.tick(side);
        self.of(side).up.store(up, Ordering::Release);
    }

    pub fn is_up(&self, side: Side) -> bool {
        self.of(side).up.load(Ordering::Acquire)
    }

    /// Records progress of a connection.
    pub fn tick(&self, side: Side) {
        let now = self.begun.elapsed().as_secs();
        self.of(side).tick.store(now, Ordering::Relaxed);
    }

    /// Whether a connection is making progress: it reported recently, or is reconnecting.
    pub fn makes_progress(&self, side: Side) -> bool {
        let last = self.of(side).tick.load(Ordering::Relaxed);
        !self.is_up(side) || self.begun.elapsed().as_secs().saturating_sub(last) <= STUCK
    }

    pub fn received(&self, side: Side) {
        self.of(side).received.fetch_add(1, Ordering::Relaxed);
        self.of(side).last.store(unix_now(), Ordering::Relaxed);
    }

    pub fn sent(&self, side: Side, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.of(side).sent.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a message dropped for lack of room; returns whether to log a warning.
    pub fn dropped(&self, side: Side) -> bool {
        self.of(side).dropped.fetch_add(1, Ordering::Relaxed);
        self.complain(Rejection::REASONS.len())
    }

    /// Counts a message that is not forwarded; returns whether to log a warning.
    pub fn turned(&self, side: Side, turned: &Rejection) -> bool {
        let counter = self.of(side).turned.get(turned.index());
        counter.map(|counter| counter.fetch_add(1, Ordering::Relaxed));
        self.complain(turned.index())
    }

    fn complain(&self, kind: usize) -> bool {
        let mut all = self
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(last) = all.get_mut(kind) else {
            return true;
        };
        let due = last.is_none_or(|at| at.elapsed() >= self.quiet);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// All statistics, with the names used by Ruby's broker, and our own additions.
    pub fn report(&self, rules: &Rules, federation: &Connection, collective: &Connection) -> Json {
        let healthy = self.is_up(Side::Federation) && self.is_up(Side::Collective);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "start_time": self.started,
            "cluster": rules.cluster,
            "instance": rules.instance,
            "status": if healthy { "OK" } else { "DISCONNECTED" },
            "threads": threads(),
            "federation": self.side(Side::Federation, federation),
            "collective": self.side(Side::Collective, collective),
        })
    }

    fn side(&self, side: Side, connection: &Connection) -> Json {
        let of = self.of(side);
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refused: serde_json::Map<String, Json> = Rejection::REASONS
            .iter()
            .zip(&of.turned)
            .map(|(reason, counter)| ((*reason).to_owned(), number(counter).into()))
            .collect();
        json!({
            "source": connection.source,
            "received": number(&of.received),
            "sent": number(&of.sent),
            "last_message": number(&of.last),
            "connected_server": connection.server,
            "work_queue": connection.figures.waiting,
            "refused": refused,
            "dropped": number(&of.dropped) + connection.figures.dropped,
            "expired": connection.figures.expired,
            "connections": connection.figures.connections,
        })
    }
}

/// Number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// The port on the loopback address that answers `GET /stats`; closed when it is dropped.
pub(super) struct StatsPort {
    address: Option<SocketAddr>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatsPort {
    /// Opens the port; 0 opens none.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub fn open(port: u16, text: impl Fn() -> String + Send + 'static) -> io::Result<StatsPort> {
        let closed = Arc::new(AtomicBool::new(false));
        if port == 0 {
            return Ok(StatsPort {
                address: None,
                closed,
                thread: None,
            });
        }
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .and_then(HttpServer::new)
            .map_err(|e| io::Error::other(format!("the port {port} of stats_port: {e}")))?;
        let (address, stop) = (server.address()?, closed.clone());
        let thread = std::thread::Builder::new()
            .name("stats".into())
            .spawn(move || serve(server, &stop, &text))?;
        Ok(StatsPort {
            address: Some(address),
            closed,
            thread: Some(thread),
        })
    }
}

fn serve(mut server: HttpServer, closed: &AtomicBool, text: &dyn Fn() -> String) {
    let page = |path: &str| {
        let (status, text) = match path {
            "/stats" => (200, text()),
            _ => (404, "{\"error\":\"there is /stats\"}".to_owned()),
        };
        Page {
            status,
            kind: "application/json",
            text,
        }
    };
    while !closed.load(Ordering::Acquire) {
        if let Err(e) = server.turn(TURN, &page) {
            log::error!("the statistics are no longer served: {e}");
            return;
        }
    }
}

impl Drop for StatsPort {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        if let Some(address) = self.address {
            // Wakes the thread; if that fails, it notices a little later.
            let _ = TcpStream::connect(address);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
