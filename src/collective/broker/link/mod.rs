//! A connection to NATS that never gives up: raw subjects and payloads.
//!
//! One thread per connection, with a runtime of its own for as long as that connection lasts; whatever the client library
//! keeps about a lost connection goes with the runtime. Messages to be sent wait in a bounded queue, over a
//! reconnection too, until nobody would listen to them any more.

mod session;

use super::{Unsent, held};
use halite_config::CollectiveGateway;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Messages that may wait to be sent.
const WAITING: usize = 16_384;
/// Bytes of them.
const WAITING_OCTETS: usize = 64 << 20;
/// What brokers take before they have said how much: the default of `nats-server`.
const USUAL_PAYLOAD: usize = 1 << 20;

/// How a connection to NATS is made.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// `host:port` each, or `nats://host:port`; tried in turn.
    pub servers: Vec<String>,
    /// User.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Whether TLS must be spoken.
    pub tls: bool,
    /// File with the CA of the servers; empty for the system's.
    pub ca: PathBuf,
    /// File with our certificate; empty for none.
    pub certificate: PathBuf,
    /// File with its key.
    pub key: PathBuf,
    /// Name of the connection, which the servers show.
    pub name: String,
}

impl fmt::Debug for LinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("LinkOptions")
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("name", &self.name)
            .finish()
    }
}

impl From<&CollectiveGateway> for LinkOptions {
    fn from(settings: &CollectiveGateway) -> LinkOptions {
        LinkOptions {
            servers: settings.servers.clone(),
            user: settings.user.clone(),
            password: settings.password.clone(),
            tls: settings.tls,
            ca: settings.tls_ca.clone(),
            certificate: settings.tls_cert.clone(),
            key: settings.tls_key.clone(),
            name: settings.identity.clone(),
        }
    }
}

/// What a link tells.
#[derive(Debug)]
pub enum Told<'a> {
    /// A message: the subject that it came in on, and what it is.
    Message(&'a str, &'a [u8]),
    /// There is a connection, with all subscriptions: to this server.
    Up(&'a str),
    /// There is none: why.
    Down(&'a str),
    /// Nothing; comes about once a second while there is a connection.
    Tick,
}

/// Who is told. It is called in the link's thread and must not wait.
pub type Listener = Arc<dyn Fn(Told) + Send + Sync>;

/// Figures of a link since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages heard that had no room.
    pub dropped: u64,
    /// Messages that waited so long to be sent that nobody would have listened.
    pub expired: u64,
    /// Connections made.
    pub connections: u64,
    /// Payloads that wait to be sent now.
    pub waiting: u64,
}

/// One payload for one or several subjects.
#[derive(Debug)]
pub struct Outgoing {
    /// Where it goes.
    pub subjects: Vec<String>,
    /// The reply subject of the protocol, which is not the header of the packet.
    pub reply: Option<String>,
    /// What goes there.
    pub payload: Vec<u8>,
    /// How long it may wait for a connection.
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
    waiting_octets: AtomicUsize,
    largest: AtomicUsize,
    server: Mutex<String>,
    dropped: AtomicU64,
    expired: AtomicU64,
    connections: AtomicU64,
}

/// A connection that lasts until it is dropped.
pub struct Link {
    shared: Arc<Shared>,
    out: mpsc::Sender<Waiting>,
    /// Dropped to end a pause between two attempts.
    alive: Mutex<Option<crossbeam_channel::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// Begins to connect; whether that works is told later.
    ///
    /// # Errors
    /// No server is named, or no thread can be had.
    pub fn open(options: LinkOptions, listener: Listener) -> io::Result<Link> {
        if options.servers.is_empty() {
            let words = "no server is named; give at least one host:port";
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
            waiting_octets: AtomicUsize::new(0),
            largest: AtomicUsize::new(USUAL_PAYLOAD),
            server: Mutex::default(),
            dropped: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            connections: AtomicU64::new(0),
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

    /// Hears a subject, alone or as one of a group of which one member hears each message.
    pub fn subscribe(&self, subject: &str, group: Option<&str>) {
        held(&self.shared.wanted).insert(subject.to_owned(), group.map(str::to_owned));
        self.shared.changed.notify_one();
    }

    /// Hears it no longer; what is on its way still comes.
    pub fn unsubscribe(&self, subject: &str) {
        held(&self.shared.wanted).remove(subject);
        self.shared.changed.notify_one();
    }

    /// Sends all of them, or none.
    ///
    /// # Errors
    /// One is larger than the broker takes, or too much waits already.
    pub fn publish(&self, items: Vec<Outgoing>) -> Result<(), Unsent> {
        let largest = self.shared.largest.load(Ordering::Relaxed);
        if items.iter().any(|item| item.payload.len() > largest) {
            return Err(Unsent::TooLarge(largest));
        }
        let octets: usize = items.iter().map(|item| item.payload.len()).sum();
        let before = self
            .shared
            .waiting_octets
            .fetch_add(octets, Ordering::Relaxed);
        let permits = if before + octets <= WAITING_OCTETS {
            self.out.try_reserve_many(items.len()).ok()
        } else {
            None
        };
        let Some(permits) = permits else {
            self.shared
                .waiting_octets
                .fetch_sub(octets, Ordering::Relaxed);
            return Err(Unsent::Full);
        };
        let now = Instant::now();
        for (permit, item) in permits.zip(items) {
            let until = now + item.keep;
            permit.send(Waiting { item, until });
        }
        Ok(())
    }

    /// The server that there is a connection to, as `nats://host:port`; empty without.
    pub fn server(&self) -> String {
        held(&self.shared.server).clone()
    }

    /// Figures up to now.
    pub fn figures(&self) -> Figures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            dropped: of(&self.shared.dropped),
            expired: of(&self.shared.expired),
            connections: of(&self.shared.connections),
            waiting: (self.out.max_capacity() - self.out.capacity()) as u64,
        }
    }

    /// Ends all subscriptions, and waits until what was on its way has been told. Says whether that came about in time.
    pub fn quiet(&self, within: Duration) -> bool {
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

    /// Sends what waits, if there is a connection, and ends.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        *held(&self.alive) = None;
        self.shared.changed.notify_one();
        let thread = held(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic in there was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}
