//! Connections to MQTT brokers: MQTT 5, for the gateway for ARENA and for runtimes.
//!
//! Each connection has its own thread, which reconnects for ever, tries one server after the other, and subscribes
//! again each time. Incoming messages go into a bounded queue of at most 64 MiB; those that do not fit are dropped and
//! counted, so that a flood costs messages, not memory.
//!
//! `rumqttc` encodes and decodes the packets. Its event loop is not used: it forgets queued publications when a
//! connection breaks (with a clean start), assigns one packet id to a publication and a subscription at the same time,
//! and stops sending for ever once a broker has rejected as many publications as may be in flight. Instead, `session`
//! implements the protocol, and the thread of `connection` the socket.

mod connection;
mod lanes;
mod names;
mod packets;
mod session;

use crossbeam_channel::{Receiver, Sender};
use halite_transport::bounded::{self, BoundedTx, ByteLen};
use halite_transport::held;
use halite_transport::stream::{self, Security};
use halite_transport::wake::{self, Waker};
use lanes::{Lane, Lanes};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Publish, PublishProperties};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Bytes of the longest string in a packet.
const LONGEST_TEXT: usize = u16::MAX as usize;
/// The smallest `max_packet` allowed, in bytes.
const LEAST_PACKET: usize = 1024;
/// How long closing a connection may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Settings of a connection. Paths are empty if not set.
#[derive(Clone, PartialEq, Eq)]
pub struct MqttSettings {
    /// `host:port` each, tried in turn.
    pub servers: Vec<String>,
    /// Client id; if empty, the broker assigns one.
    pub client_id: String,
    /// User name.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Whether to speak TLS.
    pub tls: bool,
    /// File with the CA of the servers; the system's CAs if empty.
    pub tls_ca: PathBuf,
    /// Client certificate (PEM), if the broker requires one.
    pub tls_cert: PathBuf,
    /// Its key (PEM).
    pub tls_key: PathBuf,
    /// Time between pings of MQTT itself; from 1 second to 18 hours.
    pub keep_alive: Duration,
    /// What the broker publishes when this connection breaks.
    pub will: Option<Publication>,
    /// Size limit of packets in either direction, in bytes.
    pub max_packet: usize,
    /// Urgent publications that may be queued, and likewise others.
    pub max_waiting: usize,
}

impl fmt::Debug for MqttSettings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("MqttSettings")
            .field("servers", &self.servers)
            .field("client_id", &self.client_id)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("tls_ca", &self.tls_ca)
            .field("tls_cert", &self.tls_cert)
            .field("tls_key", &self.tls_key)
            .field("keep_alive", &self.keep_alive)
            .field("will", &self.will)
            .field("max_packet", &self.max_packet)
            .field("max_waiting", &self.max_waiting)
            .finish()
    }
}

/// How reliably a publication is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// At most once.
    Zero,
    /// At least once.
    One,
    /// Exactly once; at least once if the connection breaks in between.
    Two,
}

/// A message to publish; never retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The topic.
    pub topic: String,
    /// What.
    pub payload: Vec<u8>,
    /// The quality of service.
    pub qos: Qos,
    /// User properties of MQTT 5.
    pub properties: Vec<(String, String)>,
}

/// An event of a connection.
#[derive(Clone, Debug)]
pub enum MqttEvent {
    /// A message.
    Message(Incoming),
    /// Connected to this server, and the broker has answered all subscriptions.
    Up(String),
    /// Disconnected, with the reason.
    Down(String),
    /// The broker rejects this filter, with the reason. Reported again on each connection.
    Denied(String, String),
}

/// An incoming message.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The topic.
    pub topic: String,
    /// What.
    pub payload: bytes::Bytes,
    /// Whether the broker had retained it from before.
    pub retained: bool,
    /// User properties of MQTT 5.
    pub properties: Vec<(String, String)>,
}

impl ByteLen for MqttEvent {
    fn byte_len(&self) -> usize {
        match self {
            MqttEvent::Message(message) => {
                let texts = message.properties.iter().map(|(name, value)| {
                    // Many short properties take more memory than their text.
                    size_of::<(String, String)>() + name.len() + value.len()
                });
                message.topic.len() + message.payload.len() + texts.sum::<usize>()
            }
            MqttEvent::Up(words) | MqttEvent::Down(words) => words.len(),
            MqttEvent::Denied(filter, why) => filter.len() + why.len(),
        }
    }
}

/// Why a publication was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The queue is full.
    Full,
    /// It is larger than `max_packet`, or than the broker accepts; its size in bytes.
    TooLarge(usize),
    /// The topic is not valid for publications, or a property has characters that brokers reject.
    BadTopic,
}

/// State shared by the thread and its owner.
struct Shared {
    settings: MqttSettings,
    sink: BoundedTx<MqttEvent>,
    state: Mutex<State>,
    /// Size limit of outgoing packets, in bytes.
    largest: AtomicUsize,
    /// Publications that the broker rejected.
    refused: AtomicU64,
    /// Filters that it rejected, over all connections.
    denied: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The requested filters, and whether without our own messages.
    filters: BTreeMap<String, bool>,
    /// Filters whose change the broker has not been told yet. Only used while connected.
    changed: BTreeSet<String>,
    lanes: Lanes,
    /// Whether there is a socket.
    connected: bool,
    /// Whether [`MqttEvent::Up`] was sent for the current connection.
    up: bool,
    /// Whether acknowledgements are outstanding.
    busy: bool,
    /// When the thread must have stopped.
    ending: Option<Instant>,
}

/// A connection. Dropping it closes it at once; its will is not published, since a DISCONNECT is sent. A thread that
/// is just connecting is not waited for. It stops by itself, but may need ten seconds for each address of the server,
/// for TLS and for the CONNACK; until then it keeps its socket, and the channel of events is not closed.
pub struct Mqtt {
    shared: Arc<Shared>,
    waker: Waker,
    /// Never receives anything; disconnected once the thread has stopped.
    ended: Receiver<()>,
}

impl Mqtt {
    /// Connects as the settings say; events go to `heard`.
    ///
    /// # Errors
    /// The settings can never work: which one, and why. An unreachable broker is not an error, but reported as
    /// [`MqttEvent::Down`].
    pub fn open(settings: &MqttSettings, heard: Sender<MqttEvent>) -> io::Result<Mqtt> {
        Mqtt::open_hearing(settings, &[], heard)
    }

    /// Like [`Mqtt::open`], with initial subscriptions: the first [`MqttEvent::Up`] is sent after the broker has answered
    /// them. Each is a filter, and whether to leave out messages published by this connection.
    ///
    /// # Errors
    /// As for [`Mqtt::open`].
    pub fn open_hearing(
        settings: &MqttSettings,
        filters: &[(&str, bool)],
        heard: Sender<MqttEvent>,
    ) -> io::Result<Mqtt> {
        check(settings).map_err(|words| io::Error::new(io::ErrorKind::InvalidInput, words))?;
        if let Some(security) = settings.security() {
            security.connector()?;
        }
        let (waker, woken) = wake::pair()?;
        let (speaks, ended) = crossbeam_channel::bounded(0);
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            sink: BoundedTx::new(heard, bounded::MAX_BYTES),
            state: Mutex::default(),
            largest: AtomicUsize::new(settings.max_packet),
            refused: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        });
        let ours = shared.clone();
        let mqtt = Mqtt {
            shared,
            waker,
            ended,
        };
        for (filter, no_local) in filters {
            mqtt.subscribe(filter, *no_local);
        }
        std::thread::Builder::new()
            .name("mqtt".into())
            .spawn(move || {
                connection::run(&ours, &woken);
                drop(speaks);
            })?;
        Ok(mqtt)
    }

    /// Subscribes to a filter, now and after each reconnect, at QoS 2; `no_local` leaves out messages published by
    /// this connection. An invalid filter is denied at once.
    pub fn subscribe(&self, filter: &str, no_local: bool) {
        if !names::is_filter(filter) {
            let why = "invalid MQTT filter".to_owned();
            return self
                .shared
                .sink
                .put(MqttEvent::Denied(filter.to_owned(), why));
        }
        // The specification forbids combining the two.
        let no_local = no_local && !filter.starts_with("$share/");
        let mut state = held(&self.shared.state);
        if state.filters.insert(filter.to_owned(), no_local) != Some(no_local) {
            self.changed(&mut state, filter);
        }
    }

    /// Unsubscribes from a filter.
    pub fn unsubscribe(&self, filter: &str) {
        let mut state = held(&self.shared.state);
        if state.filters.remove(filter).is_some() {
            self.changed(&mut state, filter);
        }
    }

    fn changed(&self, state: &mut State, filter: &str) {
        if state.connected {
            state.changed.insert(filter.to_owned());
            self.waker.wake();
        }
    }

    /// Publishes a message. While there is no connection, messages are queued, up to `max_waiting` and 64 MiB of
    /// payloads.
    ///
    /// # Errors
    /// It cannot be sent now, or ever.
    pub fn publish(&self, what: Publication) -> Result<(), Unsent> {
        self.send(what, Lane::Rest)
    }

    /// Like [`Mqtt::publish`], for urgent messages that must not wait behind a flood: they overtake other queued
    /// messages if these are more than a hundred or more than 1 MiB. They have a queue of their own with the same
    /// limits, and part of the window of messages in flight is reserved for them. Urgent messages keep their order
    /// among themselves.
    ///
    /// # Errors
    /// As for [`Mqtt::publish`].
    pub fn publish_first(&self, what: Publication) -> Result<(), Unsent> {
        self.send(what, Lane::First)
    }

    /// Queued publications of both kinds, and bytes of their payloads, without those in flight.
    pub fn waiting(&self) -> (usize, usize) {
        held(&self.shared.state).lanes.waiting()
    }

    fn send(&self, what: Publication, lane: Lane) -> Result<(), Unsent> {
        if !names::is_topic(&what.topic) {
            return Err(Unsent::BadTopic);
        }
        let texts = || {
            what.properties
                .iter()
                .flat_map(|(name, value)| [name, value])
        };
        if texts().any(|text| text.len() > LONGEST_TEXT) {
            return Err(Unsent::TooLarge(LONGEST_TEXT));
        }
        if !texts().all(|text| names::is_text(text)) {
            return Err(Unsent::BadTopic);
        }
        let publish = packet(what);
        let largest = self.shared.largest.load(Ordering::Relaxed);
        if size(&publish) > largest {
            return Err(Unsent::TooLarge(largest));
        }
        let most = self.shared.settings.max_waiting;
        held(&self.shared.state).lanes.put(publish, lane, most)?;
        self.waker.wake();
        Ok(())
    }

    /// Incoming messages dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.shared.sink.dropped()
    }

    /// Publications that brokers rejected as not allowed or too large.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Whether there is a connection, and the broker has answered all subscriptions and publications so far.
    pub fn settled(&self) -> bool {
        let state = held(&self.shared.state);
        state.up && !state.busy && state.changed.is_empty() && state.lanes.is_empty()
    }

    /// Sends what is queued, for `patience` at most, then disconnects and stops.
    pub fn close(self, patience: Duration) {
        held(&self.shared.state).ending = Some(Instant::now() + patience);
        self.waker.wake();
        // Nothing is ever received; this waits until the thread has stopped, or its time is up.
        let _ = self.ended.recv_timeout(patience + GOODBYE);
    }
}

impl Drop for Mqtt {
    fn drop(&mut self) {
        let mut state = held(&self.shared.state);
        state.ending = Some(Instant::now());
        let connected = state.connected;
        drop(state);
        self.waker.wake();
        if connected {
            // As in `close`. A thread that is still looking for a server stops by itself.
            let _ = self.ended.recv_timeout(GOODBYE);
        }
    }
}

impl MqttSettings {
    /// The TLS settings, if TLS is used.
    fn security(&self) -> Option<Security> {
        self.tls.then(|| Security {
            ca: self.tls_ca.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
        })
    }
}

/// Checks whether a connection is possible with these settings.
fn check(settings: &MqttSettings) -> Result<(), String> {
    if settings.servers.is_empty() {
        return Err("no server is configured; give at least one host:port".into());
    }
    for server in &settings.servers {
        stream::split(server, 1).map_err(|e| e.to_string())?;
    }
    let texts = [
        ("client_id", Some(&settings.client_id)),
        ("user", settings.user.as_ref()),
    ];
    for (name, text) in texts {
        if text.is_some_and(|text| !names::is_text(text)) {
            return Err(format!(
                "{name} is too long, or has characters that brokers reject"
            ));
        }
    }
    // A password may be any bytes.
    let password = settings.password.as_ref();
    if password.is_some_and(|text| text.len() > LONGEST_TEXT) {
        return Err(format!("the password has more than {LONGEST_TEXT} bytes"));
    }
    if !(1..=u64::from(u16::MAX)).contains(&settings.keep_alive.as_secs()) {
        return Err("keep_alive must be between 1 and 65535 seconds".into());
    }
    if !(LEAST_PACKET..=256 << 20).contains(&settings.max_packet) {
        return Err(format!(
            "max_packet must be between {LEAST_PACKET} bytes and 256 MiB"
        ));
    }
    if let Some(will) = &settings.will {
        if !names::is_topic(&will.topic) {
            return Err(format!("the last will cannot go to {:?}", will.topic));
        }
        let mut texts = will
            .properties
            .iter()
            .flat_map(|(name, value)| [name, value]);
        if !texts.all(|text| names::is_text(text)) {
            return Err("a property of the last will has characters that brokers reject".into());
        }
        if will.payload.len() > LONGEST_TEXT {
            return Err(format!("the last will has more than {LONGEST_TEXT} bytes"));
        }
    }
    Ok(())
}

fn packet(what: Publication) -> Publish {
    let properties = (!what.properties.is_empty()).then(|| PublishProperties {
        user_properties: what.properties,
        ..PublishProperties::default()
    });
    Publish::new(
        what.topic,
        session::to_client_qos(what.qos),
        what.payload,
        properties,
    )
}

/// Size of the packet in bytes, once it has an id.
fn size(publish: &Publish) -> usize {
    let id = match publish.qos {
        QoS::AtMostOnce => 0,
        // The length may need one more byte.
        _ => 3,
    };
    publish.size() + id
}
