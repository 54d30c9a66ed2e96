//! Connections to MQTT brokers: MQTT 5, for the gateway for ARENA and for runtimes.
//!
//! A connection has a thread of its own, reconnects for ever, one server after the other, and subscribes anew each
//! time. What it hears goes into a bounded queue, of 64 MiB at most; what does not fit is dropped and counted, so that a
//! flood costs messages, not memory.
//!
//! `rumqttc` reads and writes the packets. Its event loop is not used: it forgets publications that wait when a
//! connection breaks (with a clean start), gives one packet id to a publication and to a subscription at the same time, and
//! stops sending for ever once a broker has refused as many publications as may be on their way. `session` has the rules
//! instead, and the thread of `connection` the socket.

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

/// Bytes of the longest text in a packet.
const LONGEST_TEXT: usize = u16::MAX as usize;
/// The smallest packet that an operator may call the largest.
const LEAST_PACKET: usize = 1024;
/// How long the end of a connection may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// How a connection is made. Paths are empty where there is none.
#[derive(Clone, PartialEq, Eq)]
pub struct MqttSettings {
    /// `host:port` each, tried in turn.
    pub servers: Vec<String>,
    /// Client id; empty: the broker gives one.
    pub client_id: String,
    /// User.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Whether to speak TLS.
    pub tls: bool,
    /// CA whose servers are trusted; the system's if not given.
    pub tls_ca: PathBuf,
    /// Own certificate (PEM), where the broker asks for one.
    pub tls_cert: PathBuf,
    /// Its key (PEM).
    pub tls_key: PathBuf,
    /// Time between pings of MQTT itself; between a second and 18 hours.
    pub keep_alive: Duration,
    /// What the broker says when this connection breaks.
    pub will: Option<Publication>,
    /// Bytes of the largest packet in either direction.
    pub max_packet: usize,
    /// Publications that may wait to be sent; so many that come first, and so many others.
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

/// How surely a publication arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// At most once.
    Zero,
    /// At least once.
    One,
    /// Exactly once, but for a connection that breaks in between: then at least once.
    Two,
}

/// Something to publish; never retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: Vec<u8>,
    /// How surely.
    pub qos: Qos,
    /// User properties of MQTT 5.
    pub properties: Vec<(String, String)>,
}

/// What a connection tells.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A message.
    Message(Incoming),
    /// There is a connection, and the broker has answered to all subscriptions: to this server.
    Up(String),
    /// There is none any more: why.
    Down(String),
    /// Nothing is heard there, with each connection anew: a filter, and why the broker refuses it.
    Denied(String, String),
}

/// A message that came in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: bytes::Bytes,
    /// Whether the broker had kept it from before.
    pub retained: bool,
    /// User properties of MQTT 5.
    pub properties: Vec<(String, String)>,
}

impl ByteLen for Heard {
    fn byte_len(&self) -> usize {
        match self {
            Heard::Message(message) => {
                let texts = message.properties.iter().map(|(name, value)| {
                    // Many short ones take more room for themselves than for what they say.
                    size_of::<(String, String)>() + name.len() + value.len()
                });
                message.topic.len() + message.payload.len() + texts.sum::<usize>()
            }
            Heard::Up(words) | Heard::Down(words) => words.len(),
            Heard::Denied(filter, why) => filter.len() + why.len(),
        }
    }
}

/// Why a publication was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Too much waits to be sent already.
    Full,
    /// It is larger than `max_packet`, or than the broker takes, in bytes.
    TooLarge(usize),
    /// The topic is none to publish to, or a property has characters that brokers do not take.
    BadTopic,
}

/// What the thread and its owner share.
struct Shared {
    settings: MqttSettings,
    sink: BoundedTx<Heard>,
    state: Mutex<State>,
    /// Bytes of the largest packet that goes out.
    largest: AtomicUsize,
    /// Publications that the broker did not take.
    refused: AtomicU64,
    /// Filters that it did not let us hear, over all connections.
    denied: AtomicU64,
}

#[derive(Default)]
struct State {
    /// What is to be heard, and whether without our own messages.
    filters: BTreeMap<String, bool>,
    /// Filters whose state the broker has not been asked for. Kept while there is a connection only.
    changed: BTreeSet<String>,
    lanes: Lanes,
    /// Whether there is a socket.
    connected: bool,
    /// Whether there is a connection that has been told of.
    up: bool,
    /// Whether answers of the broker are awaited.
    busy: bool,
    /// When the thread must have ended.
    ending: Option<Instant>,
}

/// A connection. Dropping it ends it at once; its will is not sent then, since the broker is told goodbye. A thread that is
/// connecting right then is not waited for. It ends by itself, but may need ten seconds for each address of the server, for TLS and
/// for the greeting; until then it keeps its socket, and the queue of what is heard is not closed.
pub struct Mqtt {
    shared: Arc<Shared>,
    waker: Waker,
    /// Never hears anything; nobody speaks there any more when the thread has ended.
    ended: Receiver<()>,
}

impl Mqtt {
    /// Connects as settings say, and hears `heard`.
    ///
    /// # Errors
    /// Settings are such that no connection can ever come about: which and why. Brokers that are away are none; they
    /// are told of by [`Heard::Down`].
    pub fn open(settings: &MqttSettings, heard: Sender<Heard>) -> io::Result<Mqtt> {
        Mqtt::open_hearing(settings, &[], heard)
    }

    /// As [`Mqtt::open`], with subscriptions to begin with: the first [`Heard::Up`] comes after the broker's answer to them.
    /// Each is a filter, and whether without what this connection publishes itself.
    ///
    /// # Errors
    /// As with [`Mqtt::open`].
    pub fn open_hearing(
        settings: &MqttSettings,
        filters: &[(&str, bool)],
        heard: Sender<Heard>,
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

    /// Hears what comes in there, now and after each reconnection, at QoS 2; `no_local`: but not what this connection
    /// publishes itself. What is no filter is denied at once.
    pub fn subscribe(&self, filter: &str, no_local: bool) {
        if !names::is_filter(filter) {
            let why = "this is no filter of MQTT".to_owned();
            return self.shared.sink.put(Heard::Denied(filter.to_owned(), why));
        }
        // The specification forbids both at once.
        let no_local = no_local && !filter.starts_with("$share/");
        let mut state = held(&self.shared.state);
        if state.filters.insert(filter.to_owned(), no_local) != Some(no_local) {
            self.changed(&mut state, filter);
        }
    }

    /// Hears it no longer.
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

    /// Publishes. While there is no connection, publications wait, up to `max_waiting` and 64 MiB of payloads.
    ///
    /// # Errors
    /// It cannot be sent, now or ever.
    pub fn publish(&self, what: Publication) -> Result<(), Unsent> {
        self.send(what, Lane::Rest)
    }

    /// As [`Mqtt::publish`], for what must not wait behind a flood: it is sent before what else waits, where that is more than a
    /// hundred publications or 1 MiB; what is less it does not overtake. Has room of its own, as much as the others have, and keeps
    /// a part of what may be on its way free. Those that come first keep their order among themselves.
    ///
    /// # Errors
    /// As with [`Mqtt::publish`].
    pub fn publish_first(&self, what: Publication) -> Result<(), Unsent> {
        self.send(what, Lane::First)
    }

    /// Publications that wait to be sent, of both kinds, and bytes of their payloads. What is on its way to the broker is
    /// not among them.
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

    /// Messages that were heard but had no room in the queue.
    pub fn dropped(&self) -> u64 {
        self.shared.sink.dropped()
    }

    /// Publications that a broker did not take, because they are not allowed there or too large for it.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Whether there is a connection, and the broker has answered to all subscriptions and publications up to now.
    pub fn settled(&self) -> bool {
        let state = held(&self.shared.state);
        state.up && !state.busy && state.changed.is_empty() && state.lanes.is_empty()
    }

    /// Sends what waits, for so long at most, says goodbye and ends.
    pub fn close(self, patience: Duration) {
        held(&self.shared.state).ending = Some(Instant::now() + patience);
        self.waker.wake();
        // Nothing is ever heard; what matters is that it has ended, or has had its time.
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
            // As with closing. A thread that still looks for a server ends by itself.
            let _ = self.ended.recv_timeout(GOODBYE);
        }
    }
}

impl MqttSettings {
    /// What TLS needs, if it is spoken.
    fn security(&self) -> Option<Security> {
        self.tls.then(|| Security {
            ca: self.tls_ca.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
        })
    }
}

/// Whether a connection can come about with these settings.
fn check(settings: &MqttSettings) -> Result<(), String> {
    if settings.servers.is_empty() {
        return Err("no server is named; give at least one host:port".into());
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
                "{name} is too long, or has characters that brokers do not take"
            ));
        }
    }
    // Any bytes make a password.
    let password = settings.password.as_ref();
    if password.is_some_and(|text| text.len() > LONGEST_TEXT) {
        return Err(format!("the password has more than {LONGEST_TEXT} octets"));
    }
    if !(1..=u64::from(u16::MAX)).contains(&settings.keep_alive.as_secs()) {
        return Err("keep_alive lies between 1 and 65535 seconds".into());
    }
    if !(LEAST_PACKET..=256 << 20).contains(&settings.max_packet) {
        return Err(format!(
            "max_packet lies between {LEAST_PACKET} octets and 256 MiB"
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
            return Err(
                "a property of the last will has characters that brokers do not take".into(),
            );
        }
        if will.payload.len() > LONGEST_TEXT {
            return Err(format!("the last will has more than {LONGEST_TEXT} octets"));
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
        session::quality(what.qos),
        what.payload,
        properties,
    )
}

/// Bytes of the packet, once it has an id.
fn size(publish: &Publish) -> usize {
    let id = match publish.qos {
        QoS::AtMostOnce => 0,
        // The length may need one more byte.
        _ => 3,
    };
    publish.size() + id
}
