//! Messages of this process's modules: channels, standard streams, and the loopback between modules (seed 003;
//! reference, section 6).
//!
//! Each topic is subscribed to once, however many modules read it, without messages published by this process; a
//! message of a module is delivered to the other modules here directly.

use super::engine::{End, Figures, Host, Running};
use crate::mqtt::{Publication, Qos, Unsent};
use crate::wire::{Place, Stream, Topic, Topics, Uuid};
use bytes::Bytes;
use crossbeam_channel::Sender;
use halite_channel::session::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[cfg(test)]
mod tests;

/// Bytes of output per message.
const PIECE: usize = 64 << 10;

/// The part of the broker's connection that modules need. Nothing here blocks.
pub(super) trait Broker: Send + Sync {
    /// Whether a module may publish this many bytes now. Modules get less room than other messages.
    fn has_room(&self, bytes: usize) -> bool;
    /// Publishes a message; returns why not if it cannot.
    fn publish(&self, what: Publication) -> Result<(), Unsent>;
    /// Subscribes to a topic, without messages published by this process.
    fn subscribe(&self, topic: &str);
    /// Unsubscribes from a topic.
    fn unsubscribe(&self, topic: &str);
}

/// Topics of standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// `stdio/{module}` for all; the user property `stream` names the stream. Input may also arrive on
    /// `io/{module}/stdin`.
    One,
    /// `io/{module}/stdin`, `stdout` and `stderr`.
    Each,
}

/// ModuleEvent of modules, for the loop.
#[derive(Debug)]
pub(super) enum ModuleEvent {
    /// Result of a launch.
    Launched(Uuid, u64, Result<(), String>),
    /// A module has ended.
    Ended(Uuid, End),
}

/// How a module uses a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TopicUse {
    Channel,
    Stdin,
}

#[derive(Default)]
struct Table {
    /// Modules that run or are about to, each with its number.
    modules: HashMap<Uuid, (u64, Option<Arc<dyn Running>>)>,
    /// The number of the latest one.
    latest: u64,
    /// Which modules read a topic, and how often each has opened it.
    topics: BTreeMap<String, BTreeMap<(Uuid, TopicUse), u32>>,
}

/// Connects modules with the broker and with each other.
pub(super) struct Board {
    topics: Topics,
    streams: Streams,
    broker: Arc<dyn Broker>,
    events: Sender<ModuleEvent>,
    table: Mutex<Table>,
    dropped: AtomicU64,
}

impl Board {
    /// A board without modules.
    pub fn new(
        topics: Topics,
        streams: Streams,
        broker: Arc<dyn Broker>,
        events: Sender<ModuleEvent>,
    ) -> Board {
        Board {
            topics,
            streams,
            broker,
            events,
            table: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Registers a module that is about to start; returns a number that distinguishes it from others with the same
    /// uuid.
    pub fn expect(&self, module: &Uuid) -> u64 {
        let mut table = lock(&self.table);
        table.latest += 1;
        let number = table.latest;
        table.modules.insert(module.clone(), (number, None));
        number
    }

    /// Registers a running module; with `stdin` it reads its standard input. Does nothing if it has ended already,
    /// even if another one has taken its place.
    pub fn attach(&self, module: &Uuid, number: u64, running: Arc<dyn Running>, stdin: bool) {
        let mut table = lock(&self.table);
        let Some((_, slot)) = table.modules.get_mut(module).filter(|(n, _)| *n == number) else {
            return;
        };
        *slot = Some(running);
        // Peers that write to it may know either topic.
        for stream in [Stream::Stdin, Stream::Both] {
            if stdin && (stream == Stream::Stdin || self.streams == Streams::One) {
                let place = Place::Stdio(module.clone(), stream);
                let topic = self.topics.topic(&place).to_string();
                self.open(&mut table, module, &topic, TopicUse::Stdin);
            }
        }
    }

    /// Removes a module that has ended or could not be started.
    pub fn detach(&self, module: &Uuid) {
        let mut table = lock(&self.table);
        table.modules.remove(module);
        let mut silent = Vec::new();
        table.topics.retain(|topic, uses| {
            let before = uses.len();
            uses.retain(|(user, _), _| user != module);
            if uses.is_empty() && before > 0 {
                silent.push(topic.clone());
            }
            !uses.is_empty()
        });
        // Under the lock, so that subscriptions reach the broker in the right order.
        for topic in silent {
            self.broker.unsubscribe(&topic);
        }
    }

    /// Finds a running module.
    pub fn running(&self, module: &Uuid) -> Option<Arc<dyn Running>> {
        let table = lock(&self.table);
        table
            .modules
            .get(module)
            .and_then(|(_, running)| running.clone())
    }

    /// The resources used by a module so far.
    pub fn figures(&self, module: &Uuid) -> Option<Figures> {
        self.running(module).map(|running| running.figures())
    }

    /// Delivers a message from the broker.
    pub fn deliver(&self, topic: &str, payload: &Bytes) {
        self.deliver_to_readers(topic, payload, None);
    }

    /// Delivers a message to all modules that read its topic, except one.
    fn deliver_to_readers(&self, topic: &str, payload: &Bytes, except: Option<&Uuid>) {
        // Not under the lock: a module that receives may publish.
        for (running, what) in self.readers(topic, except) {
            match what {
                TopicUse::Channel => running.deliver(topic, payload),
                TopicUse::Stdin => running.input(payload),
            }
        }
    }

    /// The modules that read a topic, except one.
    fn readers(&self, topic: &str, except: Option<&Uuid>) -> Vec<(Arc<dyn Running>, TopicUse)> {
        let table = lock(&self.table);
        let Some(uses) = table.topics.get(topic) else {
            return Vec::new();
        };
        let others = uses.keys().filter(|(user, _)| Some(user) != except);
        let running = |(user, what): &(Uuid, TopicUse)| {
            let running = table.modules.get(user)?.1.clone()?;
            Some((running, *what))
        };
        others.filter_map(running).collect()
    }

    /// Delivers a module's message to others here that read the topic; usually there are none, and nothing is copied.
    fn deliver_local(&self, module: &Uuid, topic: &str, payload: &[u8]) {
        if !self.readers(topic, Some(module)).is_empty() {
            self.deliver_to_readers(topic, &Bytes::copy_from_slice(payload), Some(module));
        }
    }

    fn open(&self, table: &mut Table, module: &Uuid, topic: &str, what: TopicUse) {
        let uses = table.topics.entry(topic.to_owned()).or_default();
        let fresh = uses.is_empty();
        *uses.entry((module.clone(), what)).or_default() += 1;
        if fresh {
            self.broker.subscribe(topic);
        }
    }

    fn close(&self, table: &mut Table, module: &Uuid, topic: &str) {
        let Some(uses) = table.topics.get_mut(topic) else {
            return;
        };
        let key = (module.clone(), TopicUse::Channel);
        match uses.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                uses.remove(&key);
            }
            None => return,
        }
        if uses.is_empty() {
            table.topics.remove(topic);
            self.broker.unsubscribe(topic);
        }
    }

    /// The topic of a module's stream.
    fn stream(&self, module: &Uuid, stream: Stream) -> String {
        let stream = match self.streams {
            Streams::One => Stream::Both,
            Streams::Each => stream,
        };
        let place = Place::Stdio(module.clone(), stream);
        self.topics.topic(&place).to_string()
    }

    /// Logs a loss; a flood is logged a few times, not a million.
    fn log_loss(&self, module: &Uuid, what: &str) {
        let before = self.dropped.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_power_of_two() {
            log::warn!(
                "{what} of the module {module} was dropped ({} so far)",
                before + 1
            );
        }
    }
}

impl Host for Board {
    /// It is a valid topic, and not one of the orchestrator's.
    fn allows(&self, topic: &str) -> bool {
        topic.parse::<Topic>().is_ok() && !self.topics.is_reserved(topic)
    }

    fn publish(&self, module: &Uuid, topic: &str, payload: &[u8]) -> bool {
        if !self.allows(topic) {
            self.log_loss(module, "a message to a topic that modules may not use");
            return true;
        }
        // Check before copying anything: a module that has to wait tries again and again.
        if !self.broker.has_room(payload.len()) {
            return false;
        }
        let publication = Publication {
            topic: topic.to_owned(),
            payload: payload.to_vec(),
            qos: Qos::One,
            properties: Vec::new(),
        };
        match self.broker.publish(publication) {
            Ok(()) => {
                self.deliver_local(module, topic, payload);
                true
            }
            Err(Unsent::Full) => false,
            Err(Unsent::TooLarge(_) | Unsent::BadTopic) => {
                self.log_loss(module, "a message that the broker rejects");
                true
            }
        }
    }

    fn subscribe(&self, module: &Uuid, topic: &str) {
        if !self.allows(topic) {
            return self.log_loss(module, "a subscription to a topic that modules may not use");
        }
        let mut table = lock(&self.table);
        if table.modules.contains_key(module) {
            self.open(&mut table, module, topic, TopicUse::Channel);
        }
    }

    fn unsubscribe(&self, module: &Uuid, topic: &str) {
        self.close(&mut lock(&self.table), module, topic);
    }

    fn output(&self, module: &Uuid, stream: Stream, data: &[u8]) {
        let properties = match self.streams {
            Streams::One => vec![("stream".to_owned(), stream.to_string())],
            Streams::Each => Vec::new(),
        };
        for piece in data.chunks(PIECE) {
            let publication = Publication {
                topic: self.stream(module, stream),
                payload: piece.to_vec(),
                qos: Qos::One,
                properties: properties.clone(),
            };
            let topic = publication.topic.clone();
            if self.broker.publish(publication).is_err() {
                self.log_loss(module, "output");
                continue;
            }
            // Another module may have it as a channel.
            self.deliver_local(module, &topic, piece);
        }
    }

    fn ended(&self, module: &Uuid, end: End) {
        self.detach(module);
        if self
            .events
            .send(ModuleEvent::Ended(module.clone(), end))
            .is_err()
        {
            log::debug!("the module {module} ended after the runtime");
        }
    }
}
