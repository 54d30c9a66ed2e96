//! A connection to NATS that always reconnects; raw subjects and payloads.
//!
//! One thread per link, with a new runtime for each connection, so that all state of the client library for a lost
//! connection is dropped with its runtime. Outgoing messages wait in a bounded queue, also across a
//! reconnection, until they expire.

mod session;

use super::{Unsent, held};
pub use halite_nats::LinkOptions;
use halite_sys::log_limiter::LogLimiter;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Most messages queued for sending.
const WAITING: usize = 16_384;
/// Most bytes queued for sending.
const WAITING_BYTES: usize = 64 << 20;
/// Largest payload until the broker has reported its limit: the default of `nats-server`.
const USUAL_PAYLOAD: usize = 1 << 20;

/// An event of a link.
#[derive(Debug)]
pub enum LinkEvent<'a> {
    /// A message: its subject and payload.
    Message(&'a str, &'a [u8]),
    /// Connected to this server, with all subscriptions.
    Up(&'a str),
    /// Not connected: why.
    Down(&'a str),
    /// Sent about once a second while connected.
    Tick,
}

/// Callback for events. It is called in the link's thread and must not block.
pub type Listener = Arc<dyn Fn(LinkEvent) + Send + Sync>;

/// Counters of a link since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Received messages that were dropped for lack of room.
    pub dropped: u64,
    /// Outgoing messages that expired in the queue.
    pub expired: u64,
    /// Connections established.
    pub connections: u64,
    /// Payloads queued now.
    pub waiting: u64,
}

/// One payload for one or more subjects.
#[derive(Debug)]
pub struct Outgoing {
    /// The subjects.
    pub subjects: Vec<String>,
    /// The reply subject of NATS, not the header of the packet.
    pub reply: Option<String>,
    /// The payload.
    pub payload: Vec<u8>,
    /// How long it may wait for a connection before it expires.
    pub keep: Duration,
}

#[derive(Debug)]
struct Waiting {
    item: Outgoing,
    until: Instant,
}

struct Shared {
    options: LinkOptions,
    listener: Listener,
    /// Subjects with their queue groups.
    wanted: Mutex<BTreeMap<String, Option<String>>>,
    changed: Notify,
    closing: AtomicBool,
    listening: AtomicUsize,
    waiting_bytes: AtomicUsize,
    largest: AtomicUsize,
    server: Mutex<String>,
    dropped: AtomicU64,
    expired: AtomicU64,
    connections: AtomicU64,
    complaints: Mutex<LogLimiter>,
}

/// A link, which stays connected until it is dropped.
pub struct Link {
    shared: Arc<Shared>,
    out: mpsc::Sender<Waiting>,
    /// Dropped to end a pause between two attempts.
    alive: Mutex<Option<crossbeam_channel::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// Starts connecting; the listener is told the result.
    ///
    /// # Errors
    /// No server is configured, or no thread can be started.
    pub fn open(options: LinkOptions, listener: Listener) -> io::Result<Link> {
        if options.servers.is_empty() {
            let words = "no server is configured; set at least one host:port";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let (out, waiting) = mpsc::channel(WAITING);
        let (alive, ended) = crossbeam_channel::bounded(0);
        let shared = Arc::new(Shared {
            options,
            listener,
            wanted: Mutex::default(),
            changed: Notify::new(),
            closing: AtomicBool::new(false),
            listening: AtomicUsize::new(0),
            waiting_bytes: AtomicUsize::new(0),
            largest: AtomicUsize::new(USUAL_PAYLOAD),
            server: Mutex::default(),
            dropped: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            complaints: Mutex::default(),
        });
        let ours = shared.clone();
        let thread = std::thread::Builder::new()
            .name("nats".into())
            .spawn(move || session::run(&ours, waiting, &ended))?;
        Ok(Link {
            shared,
            out,
            alive: Mutex::new(Some(alive)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Subscribes to a subject, alone or in a queue group, where each message goes to one member.
    pub fn subscribe(&self, subject: &str, group: Option<&str>) {
        held(&self.shared.wanted).insert(subject.to_owned(), group.map(str::to_owned));
        self.shared.changed.notify_one();
    }

    /// Unsubscribes; messages in transit still arrive.
    pub fn unsubscribe(&self, subject: &str) {
        held(&self.shared.wanted).remove(subject);
        self.shared.changed.notify_one();
    }

    /// Queues all of them, or none.
    ///
    /// # Errors
    /// One is larger than the broker accepts, or the queue is full.
    pub fn publish(&self, items: Vec<Outgoing>) -> Result<(), Unsent> {
        let largest = self.shared.largest.load(Ordering::Relaxed);
        if items.iter().any(|item| item.payload.len() > largest) {
            return Err(Unsent::TooLarge(largest));
        }
        let bytes: usize = items.iter().map(|item| item.payload.len()).sum();
        let before = self
            .shared
            .waiting_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let permits = if before + bytes <= WAITING_BYTES {
            self.out.try_reserve_many(items.len()).ok()
        } else {
            None
        };
        let Some(permits) = permits else {
            self.shared
                .waiting_bytes
                .fetch_sub(bytes, Ordering::Relaxed);
            return Err(Unsent::Full);
        };
        let now = Instant::now();
        for (permit, item) in permits.zip(items) {
            let until = now + item.keep;
            permit.send(Waiting { item, until });
        }
        Ok(())
    }

    /// The connected server, as `nats://host:port`; empty if not connected.
    pub fn server(&self) -> String {
        held(&self.shared.server).clone()
    }

    /// The current counters.
    pub fn figures(&self) -> Figures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            dropped: of(&self.shared.dropped),
            expired: of(&self.shared.expired),
            connections: of(&self.shared.connections),
            waiting: (self.out.max_capacity() - self.out.capacity()) as u64,
        }
    }

    /// Ends all subscriptions and waits until messages in transit were passed to the listener. Returns whether that
    /// happened in time.
    pub fn drain(&self, within: Duration) -> bool {
        held(&self.shared.wanted).clear();
        self.shared.changed.notify_one();
        let end = Instant::now() + within;
        loop {
            if self.shared.listening.load(Ordering::Acquire) == 0 {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends what is queued, if connected, and stops.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        *held(&self.alive) = None;
        self.shared.changed.notify_one();
        let thread = held(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}
