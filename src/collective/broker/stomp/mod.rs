//! The connector for RabbitMQ and ActiveMQ over STOMP, as used by MCollective (reference, section 13).
//!
//! One thread owns the socket; a socket pair wakes it when there is something to send.

mod session;

use super::{Connector, Heard, Place, To, Unsent, held, next_sequence};
use crate::security::MAX_TTL;
use crate::stomp::Frame;
use crate::wire::subjects::{Bus, Names};
use crate::wire::{CallerId, Identity, LARGEST_PACKET, Packet};
use crossbeam_channel::Sender;
use halite_config::{Broker, CollectiveGateway};
use halite_sys::time::unix_now;
use halite_transport::bounded::{self, BoundedTx};
use halite_transport::wake::{self, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most messages queued for sending.
const WAITING: usize = 16_384;
/// Most bytes queued for sending.
const WAITING_BYTES: usize = 64 << 20;
/// How much longer than its time to live a message may stay at the broker, in seconds.
const GRACE: u64 = 10;

/// One message for one or more destinations, some with their own header.
struct Waiting {
    /// Destination, and the node that a header selects.
    to: Vec<(String, Option<Identity>)>,
    /// The rest of the message.
    frame: Frame,
    until: Instant,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Waiting>,
    bytes: usize,
}

/// A subscription at the broker.
#[derive(Clone)]
struct Subscription {
    id: u64,
    place: Place,
    destination: String,
    selector: Option<String>,
}

struct Shared {
    settings: CollectiveGateway,
    bus: Bus,
    names: Names,
    sink: BoundedTx<Heard>,
    wanted: Mutex<HashMap<Place, u64>>,
    /// Incremented with each change of the wanted subscriptions.
    version: AtomicU64,
    queue: Mutex<Queue>,
    closing: AtomicBool,
}

impl Shared {
    /// The subscription for a place. RabbitMQ creates the reply queue by itself, at the first request that names it.
    fn subscription(&self, place: &Place, id: u64) -> Option<Subscription> {
        let selector = match (self.bus, place) {
            (Bus::RabbitMq, Place::Replies(_)) => return None,
            (Bus::ActiveMq, Place::Node(_, node)) => Some(format!("mc_identity = '{node}'")),
            _ => None,
        };
        Some(Subscription {
            id,
            place: place.clone(),
            destination: self.names.of(place),
            selector,
        })
    }
}

/// A connection to a broker that speaks STOMP.
pub(super) struct Stomp {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Stomp {
    pub(super) fn open(
        settings: &CollectiveGateway,
        caller: &CallerId,
        heard: Sender<Heard>,
    ) -> io::Result<Stomp> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidInput, e);
        let identity: Identity = settings.identity.parse().map_err(invalid)?;
        let bus = match settings.broker {
            Broker::ActiveMq => Bus::ActiveMq,
            Broker::RabbitMq | Broker::Nats => Bus::RabbitMq,
        };
        if settings.servers.is_empty() {
            let words = "no server is configured; set at least one host:port";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let names = Names::new(
            bus,
            &identity,
            caller,
            true,
            std::process::id(),
            next_sequence(),
        );
        let (waker, woken) = wake::pair()?;
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            bus,
            names,
            sink: BoundedTx::new(heard, bounded::MAX_BYTES),
            wanted: Mutex::default(),
            version: AtomicU64::new(1),
            queue: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        let ours = shared.clone();
        let thread = std::thread::Builder::new()
            .name("stomp".into())
            .spawn(move || session::run(&ours, &woken))?;
        Ok(Stomp {
            shared,
            waker,
            thread: Some(thread),
        })
    }

    fn changed(&self) {
        self.shared.version.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }
}

/// Milliseconds since 1970, as needed by ActiveMQ: now, and `later` after that.
fn stamps(later: u64) -> (String, String) {
    let now = unix_now();
    let of = |seconds: u64| (seconds * 1000).to_string();
    (of(now), of(now + later))
}

impl Connector for Stomp {
    fn subscribe(&self, place: &Place) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        held(&self.shared.wanted)
            .entry(place.clone())
            .or_insert_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
        self.changed();
    }

    fn unsubscribe(&self, place: &Place) {
        held(&self.shared.wanted).remove(place);
        self.changed();
    }

    fn publish(&self, to: &To, packet: Packet, request: bool, ttl: u32) -> Result<(), Unsent> {
        if packet.data.len() > LARGEST_PACKET {
            return Err(Unsent::TooLarge(LARGEST_PACKET));
        }
        let bus = self.shared.bus;
        let (collective, to) = match to {
            To::Broadcast(collective, agent) => {
                let destination = bus.broadcast(collective, agent);
                (Some(collective), vec![(destination, None)])
            }
            To::Nodes(collective, nodes) => {
                let one = |node: &Identity| {
                    let selected = (bus == Bus::ActiveMq).then(|| node.clone());
                    (bus.node(collective, node), selected)
                };
                (Some(collective), nodes.iter().map(one).collect())
            }
            To::Reply(destination) => {
                if !bus.may_answer(destination, false) {
                    return Err(Unsent::Forbidden);
                }
                (None, vec![(destination.clone(), None)])
            }
        };
        let mut frame = Frame::new("SEND");
        if let (true, Some(collective)) = (request, collective) {
            frame = frame.with("reply-to", self.shared.names.replies(collective));
        }
        // Whoever sends a request chooses its time to live; brokers refuse to keep a message for centuries, and close
        // the connection.
        let ttl = ttl.min(MAX_TTL);
        let lasts = u64::from(ttl) + GRACE;
        if bus == Bus::ActiveMq {
            let (now, later) = stamps(lasts);
            frame = frame.with("timestamp", now).with("expires", later);
        } else {
            frame = frame.with("expiration", (lasts * 1000).to_string());
        }
        if let Some(sender) = packet.sender {
            frame = frame.with("mc_sender", sender);
        }
        frame = frame.with("content-length", packet.data.len().to_string());
        frame.body = packet.data;
        let bytes = frame.body.len();
        let mut queue = held(&self.shared.queue);
        if queue.items.len() >= WAITING || queue.bytes + bytes > WAITING_BYTES {
            return Err(Unsent::Full);
        }
        queue.bytes += bytes;
        queue.items.push_back(Waiting {
            to,
            frame,
            until: Instant::now() + Duration::from_secs(ttl.into()),
        });
        drop(queue);
        self.waker.wake();
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.shared.sink.dropped()
    }
}

impl Drop for Stomp {
    /// Sends what is queued, if connected, and stops.
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
