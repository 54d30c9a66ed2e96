//! A publish port as the master uses it: options, counters, and what it can do.

use crate::sockets::KeepAlive;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Options of a publish port.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions {
    /// Most publications queued for one subscriber (`pub_hwm`).
    pub queue: usize,
    /// Most bytes queued for one subscriber. They are shared between subscribers.
    pub queue_bytes: usize,
    /// Backlog of connections not yet accepted.
    pub backlog: i32,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Whether to listen on IPv6 as well.
    pub ipv6: bool,
    /// Silence after which a subscriber is sent a heartbeat, and how long it may take to reply.
    pub heartbeat: Option<(Duration, Duration)>,
    /// How long a subscriber that has lost publications may read nothing before it is disconnected.
    pub stalled: Duration,
    /// How long a connection may take for the handshake.
    pub handshake: Duration,
}

impl Default for PublishOptions {
    fn default() -> Self {
        PublishOptions {
            queue: 1000,
            queue_bytes: 64 << 20,
            backlog: 1000,
            keepalive: KeepAlive {
                on: true,
                idle: -1,
                count: -1,
                interval: -1,
            },
            ipv6: false,
            heartbeat: None,
            stalled: Duration::from_secs(60),
            handshake: Duration::from_secs(30),
        }
    }
}

/// Counters of a publish port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishCounters {
    /// Publications handed to the kernel, counted once per subscriber.
    pub copies: u64,
    /// Publications dropped because a subscriber's queue was full, counted once per subscriber.
    pub slow: u64,
    /// Publications that were queued for a connection when it ended.
    pub gone: u64,
    /// Subscribers disconnected because they read nothing or did not reply to heartbeats.
    pub ended: u64,
    /// Connections of peers that were not subscribers.
    pub refused: u64,
    /// Failures to accept a connection.
    pub starved: u64,
}

impl AddAssign for PublishCounters {
    fn add_assign(&mut self, other: PublishCounters) {
        self.copies += other.copies;
        self.slow += other.slow;
        self.gone += other.gone;
        self.ended += other.ended;
        self.refused += other.refused;
        self.starved += other.starved;
    }
}

/// What a subscriber says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The connection, for [`PublishPort::register`] and [`PublishPort::refuse`].
    pub token: u64,
    /// Its address.
    pub peer: SocketAddr,
    /// msgpack of an envelope.
    pub envelope: Vec<u8>,
}

/// A connection of a load balancer, which has said for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// The balancer's end of the connection.
    pub balancer: SocketAddr,
    /// Who has connected to the balancer.
    pub client: IpAddr,
}

/// A publish port as the master uses it.
pub trait PublishPort {
    /// A descriptor that is readable when [`turn`](PublishPort::turn) has something to do.
    fn descriptor(&self) -> i32;

    /// Serves ready connections without blocking. Must be called at least once a second, with the current time.
    ///
    /// # Errors
    /// Those of epoll itself; no peer can cause one.
    fn turn(&mut self, now: Instant) -> io::Result<()>;

    /// Refuses new subscribers from now on, and closes the connections of those that are there within this time.
    ///
    /// # Errors
    /// Those of epoll itself.
    fn drain(&mut self, within: Duration, now: Instant) -> io::Result<()>;

    /// Queues a message for its subscribers: with `topics`, once for each topic and under its name, else for subscriptions
    /// that are a prefix of the message. Where subscribers do not name topics, everybody gets it once, but for those that are
    /// registered and have none of the topics. [`turn`](PublishPort::turn) sends it.
    fn publish(&mut self, topics: &[Vec<u8>], message: &[u8]);

    /// Queues a message, without a topic, for those who have subscribed to exactly this topic, or are registered with it.
    fn publish_exact(&mut self, topic: &[u8], message: &[u8]);

    /// Marks the present connections, for [`publish_to_marked`](PublishPort::publish_to_marked).
    fn mark(&mut self);

    /// As [`publish`](PublishPort::publish), but only to the connections that were last marked.
    fn publish_to_marked(&mut self, topics: &[Vec<u8>], message: &[u8]);

    /// What subscribers have said about themselves since the last call.
    fn take_claims(&mut self) -> Vec<Claim>;

    /// Accepts a claim: the subscriber has these topics from now on.
    fn register(&mut self, token: u64, topics: &[Vec<u8>]);

    /// Refuses a claim and closes the connection.
    fn refuse(&mut self, token: u64, why: &str);

    /// Counters of the port.
    fn counters(&self) -> PublishCounters;

    /// Whether there is anything new in [`relayed`](PublishPort::relayed) since the last call.
    fn changed_relayed(&mut self) -> bool;

    /// The connections of load balancers and whose they are, without those of the balancers themselves.
    fn relayed(&self) -> Vec<Relayed>;

    /// Number of connections, and of publications queued for them.
    fn waiting(&self) -> (usize, usize);

    /// Connected subscribers that have lost publications, with the number lost; the largest number first.
    fn lossy(&self) -> Vec<(SocketAddr, u64)>;

    /// Sends what is queued, as long as some subscriber reads and `limit` has not passed.
    ///
    /// # Errors
    /// Those of epoll itself.
    fn finish(&mut self, limit: Duration) -> io::Result<()>;
}
