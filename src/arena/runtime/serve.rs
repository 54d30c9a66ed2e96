//! The loop of a runtime: handles messages, events of modules, and timers.

use super::board::{Board, Broker, ModuleEvent, Streams};
use super::engine::{Engine, Limits};
use super::files::{Fetcher, Salt, Sources};
use super::identity::{Identities, host, platform};
use super::launcher::Launcher;
use super::session::{Act, Offer, Registrant, Session, SessionConfig};
use crate::choice::offers;
use crate::mqtt::{Mqtt, MqttEvent, MqttSettings, Publication, Unsent};
use crate::wire::{Json, MAX_MESSAGE, Uuid};
use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use halite_channel::interrupt::Stop;
use halite_config::{ModuleLimits, RuntimeConfig};
use halite_crypto::random_uuid;
use halite_sys::debug_report;
use halite_sys::service::Service;
use halite_sys::signals::StopFlag;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Messages and events that may be queued for the loop.
const QUEUE: usize = 10_000;
/// Publications that may be queued for sending.
const WAITING: usize = 10_000;
/// Publications queued before modules have to wait.
const MODULES_WAITING: usize = 2000;
/// Their size in bytes.
const MODULES_BYTES: usize = 4 << 20;
/// Size limit of a packet without its payload, in bytes.
const HEAD: usize = 16 << 10;
/// How soon a message that had no room is retried.
const AGAIN: Duration = Duration::from_millis(100);
/// How often to check whether the last messages were delivered.
const LOOK: Duration = Duration::from_millis(10);
/// Offered in addition to the engine's apis: modules of one process receive each other's messages without the broker.
const LOOPBACK: &str = "loopback";

/// The connection, while there is one: modules may outlive it by a moment.
struct BrokerConnection(RwLock<Option<Mqtt>>);

impl BrokerConnection {
    fn with<T>(&self, otherwise: T, work: impl FnOnce(&Mqtt) -> T) -> T {
        let mqtt = self.0.read().unwrap_or_else(PoisonError::into_inner);
        mqtt.as_ref().map_or(otherwise, work)
    }

    /// The runtime's own messages do not wait behind those of its modules.
    fn publish_first(&self, what: Publication) -> Result<(), Unsent> {
        self.with(Err(Unsent::Full), |mqtt| mqtt.publish_first(what))
    }

    fn take(&self) -> Option<Mqtt> {
        let mut mqtt = self.0.write().unwrap_or_else(PoisonError::into_inner);
        mqtt.take()
    }
}

impl Broker for BrokerConnection {
    fn has_room(&self, bytes: usize) -> bool {
        let (count, waiting) = self.with((MODULES_WAITING, 0), Mqtt::waiting);
        // If nothing is queued, a message of any size fits.
        let fits = waiting == 0 || waiting.saturating_add(bytes) <= MODULES_BYTES;
        count < MODULES_WAITING && fits
    }

    fn publish(&self, what: Publication) -> Result<(), Unsent> {
        self.with(Err(Unsent::Full), |mqtt| mqtt.publish(what))
    }

    fn subscribe(&self, topic: &str) {
        self.with((), |mqtt| mqtt.subscribe(topic, true));
    }

    fn unsubscribe(&self, topic: &str) {
        self.with((), |mqtt| mqtt.unsubscribe(topic));
    }
}

/// Runs until a signal or the orchestrator stops it. Reports status and progress to the service manager.
///
/// # Errors
/// The configuration requires something unavailable, nothing can be stored, or the connection settings cannot work.
pub fn run(
    config: &RuntimeConfig,
    engine: &Arc<dyn Engine>,
    stop: &StopFlag,
    service: &mut Service,
) -> io::Result<()> {
    let session_config = session_config(config, &**engine)?;
    let (topics, limits) = (
        session_config.topics.clone(),
        largest(&session_config.offers),
    );
    let client = session_config
        .manager
        .as_ref()
        .or(session_config.offers.first().map(|o| &o.who));
    let client = client.map(|who| format!("halite-{}", who.uuid));
    let mut session = Session::new(session_config, Box::new(random_uuid));
    let mut settings = settings(config, limits);
    if settings.client_id.is_empty() {
        settings.client_id = client.unwrap_or_default();
    }
    settings.will = session.will();
    let (sender, heard) = bounded(QUEUE);
    let filters = session.filters();
    let filters: Vec<(&str, bool)> = filters.iter().map(|f| (f.as_str(), true)).collect();
    let mqtt = Mqtt::open_hearing(&settings, &filters, sender)?;
    let connection = Arc::new(BrokerConnection(RwLock::new(Some(mqtt))));
    let (told, events) = bounded(QUEUE);
    let streams = match (config.streams.as_str(), config.topics.as_str()) {
        ("io", _) | (_, "scene") => Streams::Each,
        _ => Streams::One,
    };
    let board = Arc::new(Board::new(
        topics,
        streams,
        connection.clone(),
        told.clone(),
    ));
    let fetcher = fetcher(config, stop)?;
    let launcher = Launcher::new(engine.clone(), board.clone(), fetcher, told)?;
    let mut work = Loop {
        session,
        board,
        launcher,
        connection: connection.clone(),
        outgoing: VecDeque::new(),
        lost: 0,
        dropped: 0,
        denied: 0,
        over: false,
    };
    let stopped = stopped(stop)?;
    let served = work.serve(&heard, &events, &stopped, service);
    let patience = Duration::from_secs(config.stop_timeout);
    service.status("saying goodbye");
    let said = work.farewell(Instant::now() + patience);
    drop(work);
    match connection.take() {
        Some(mqtt) if said => mqtt.close(patience),
        Some(mqtt) => {
            log::warn!(
                "not all messages could be sent; the broker will announce that the runtime is gone"
            );
            // No DISCONNECT is sent, so that the broker publishes the will. The connection is closed when the process
            // exits, which is now.
            std::mem::forget(mqtt);
        }
        None => {}
    }
    served
}

struct Loop {
    session: Session,
    board: Arc<Board>,
    launcher: Launcher,
    connection: Arc<BrokerConnection>,
    /// Messages that must be sent and had no room yet.
    outgoing: VecDeque<Publication>,
    lost: u64,
    /// Dropped messages that were reported.
    dropped: u64,
    /// Filters that the broker rejected.
    denied: u64,
    over: bool,
}

impl Loop {
    fn serve(
        &mut self,
        heard: &Receiver<MqttEvent>,
        events: &Receiver<ModuleEvent>,
        stopped: &Receiver<()>,
        service: &mut Service,
    ) -> io::Result<()> {
        let mut stopped = stopped.clone();
        while !self.over {
            let due = self.session.due();
            let retry = (!self.outgoing.is_empty()).then(|| Instant::now() + AGAIN);
            let first = due.into_iter().chain(retry).min();
            let wait = first.map(|at| at.saturating_duration_since(Instant::now()));
            let timer = match service.at_most(wait) {
                Some(wait) => after(wait),
                None => never(),
            };
            select! {
                recv(heard) -> what => match what {
                    Ok(what) => self.handle_mqtt(what, service),
                    Err(_) => return Err(io::Error::other("the thread of the connection has stopped")),
                },
                recv(events) -> what => {
                    if let Ok(what) = what {
                        self.handle_module_event(what);
                    }
                },
                recv(stopped) -> _ => {
                    log::info!("the runtime is shutting down");
                    service.stopping();
                    service.status("ending modules");
                    let acts = self.session.end(Instant::now());
                    self.act(acts);
                    stopped = never();
                },
                recv(timer) -> _ => {}
            }
            let figures = |uuid: &Uuid| self.board.figures(uuid);
            let acts = self.session.tick(Instant::now(), &figures);
            self.act(acts);
            self.send_queued();
            self.count();
            debug_report::write_if_asked("halite-runtime", String::new);
            service.beat(true);
        }
        Ok(())
    }

    /// Reports incoming messages that were dropped: a few times, not a million.
    fn count(&mut self) {
        let dropped = self.connection.with(0, Mqtt::dropped);
        if dropped >= self.dropped.saturating_mul(2).max(1) {
            self.dropped = dropped;
            log::warn!(
                "{dropped} messages arrived faster than they could be processed and were dropped"
            );
        }
    }

    fn handle_mqtt(&mut self, what: MqttEvent, service: &mut Service) {
        match what {
            MqttEvent::Message(message) => {
                self.board.deliver(&message.topic, &message.payload);
                let acts = self.session.handle_message(&message, Instant::now());
                self.act(acts);
            }
            MqttEvent::Up(server) => {
                log::info!("connected to {server}");
                service.status(&format!("connected to {server}"));
                let acts = self.session.up(Instant::now());
                self.act(acts);
            }
            MqttEvent::Down(why) => {
                log::warn!("not connected to a broker: {why}");
                service.status("not connected to a broker");
                self.session.down();
            }
            MqttEvent::Denied(filter, why) => {
                // Modules open as many topics as they like.
                self.denied += 1;
                if self.denied.is_power_of_two() {
                    log::error!(
                        "the broker does not let us hear {filter}: {why}; its rules must allow this to the user or certificate of the \
                         runtime (filter {} of this sort)",
                        self.denied
                    );
                }
            }
        }
    }

    fn handle_module_event(&mut self, event: ModuleEvent) {
        let now = Instant::now();
        let acts = match event {
            ModuleEvent::Launched(uuid, serial, how) => {
                self.session.launched(&uuid, serial, how, now)
            }
            ModuleEvent::Ended(uuid, end) => self.session.ended(&uuid, &end, now),
        };
        self.act(acts);
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Publish(publication) => self.queue_message(publication),
                Act::Launch(launch) => {
                    let (uuid, serial) = (launch.spec.uuid.clone(), launch.serial);
                    if !self.launcher.order(*launch) {
                        let why = Err("too many modules are waiting to be fetched".to_owned());
                        self.handle_module_event(ModuleEvent::Launched(uuid, serial, why));
                    }
                }
                Act::Cancel(uuid, serial) => {
                    if self.launcher.cancel(serial) {
                        let why = Err("it is no longer wanted".to_owned());
                        self.handle_module_event(ModuleEvent::Launched(uuid, serial, why));
                    }
                }
                Act::Stop(module) => {
                    if let Some(running) = self.board.running(&module) {
                        running.stop();
                    }
                }
                Act::End => self.over = true,
            }
        }
    }

    /// Queues a message that must be sent. The limit is only reached by a flood of invalid requests while nothing can
    /// be sent.
    fn queue_message(&mut self, publication: Publication) {
        if self.outgoing.len() < WAITING {
            self.outgoing.push_back(publication);
        } else {
            self.lost += 1;
            if self.lost.is_power_of_two() {
                log::error!(
                    "{} messages were dropped because the queue was full",
                    self.lost
                );
            }
        }
        self.send_queued();
    }

    /// Sends the queued messages until the broker has acknowledged all of them. `false` if that was not done by
    /// `until`.
    fn farewell(&mut self, until: Instant) -> bool {
        loop {
            self.send_queued();
            if self.outgoing.is_empty() && self.connection.with(false, Mqtt::settled) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Sends queued messages, as far as there is room.
    fn send_queued(&mut self) {
        while let Some(publication) = self.outgoing.front() {
            match self.connection.publish_first(publication.clone()) {
                Err(Unsent::Full) => return,
                Err(why) => {
                    let topic = &publication.topic;
                    log::error!("a message to {topic} cannot be sent: {why:?}");
                }
                Ok(()) => {}
            }
            self.outgoing.pop_front();
        }
    }
}

/// Reports TERM and INT. The thread stops with the process.
fn stopped(stop: &StopFlag) -> io::Result<Receiver<()>> {
    let (sender, receiver): (Sender<()>, _) = bounded(1);
    let mut signals = stop.descriptor()?;
    if stop.is_set() {
        let _ = sender.try_send(());
    }
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut byte = [0];
            while signals.read(&mut byte).is_ok_and(|count| count > 0) {
                let _ = sender.try_send(());
            }
        })?;
    Ok(receiver)
}

/// What the session is about.
fn session_config(config: &RuntimeConfig, engine: &dyn Engine) -> io::Result<SessionConfig> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let available = available_apis(engine);
    let mut identities = Identities::open(&config.cachedir)
        .map_err(|e| io::Error::new(e.kind(), format!("cachedir: {e}")))?;
    let mut offered = Vec::new();
    for runtime in config.offered() {
        if let Some(api) = runtime.apis.iter().find(|api| !offers(&available, api)) {
            let words = available.join(", ");
            return Err(bad(format!(
                "apis: {api:?} is not available; available are {words}"
            )));
        }
        let uuid = match runtime.uuid {
            Some(uuid) => uuid,
            None => identities.of(&runtime.name)?,
        };
        offered.push(Offer {
            who: Registrant {
                uuid,
                name: runtime.name,
            },
            max_modules: runtime.max_modules,
            apis: if runtime.apis.is_empty() {
                available.clone()
            } else {
                runtime.apis
            },
            limits: module_limits(&runtime.limits),
        });
    }
    let manager = if config.is_manager() {
        Some(Registrant {
            uuid: match config.uuid.parse() {
                Ok(uuid) => uuid,
                Err(_) => identities.of(&format!("manager {}", config.name))?,
            },
            name: config.name.clone(),
        })
    } else {
        None
    };
    let mut metadata = host();
    if let Some(own) = &config.metadata {
        let own = serde_json::to_value(own).map_err(|e| bad(format!("metadata: {e}")))?;
        metadata.extend(own.as_object().cloned().unwrap_or_default());
    }
    let lower = |host: &String| host.to_ascii_lowercase();
    Ok(SessionConfig {
        topics: config.topics().map_err(|e| bad(e.to_string()))?,
        confirmed: config.topics != "scene",
        manager,
        offers: offered,
        keepalive: config.keepalive.map(|s| Duration::from_secs(s.into())),
        kind: config.runtime_type.clone(),
        platform: platform(),
        metadata: Json::Object(metadata),
        sources: Sources {
            salt: !config.minion_config_dir.as_os_str().is_empty(),
            hosts: config.file_hosts.iter().map(lower).collect(),
        },
        memory: config.modules_memory,
        patience: Duration::from_secs(config.stop_timeout),
    })
}

/// All available apis.
fn available_apis(engine: &dyn Engine) -> Vec<String> {
    let all = engine.apis().iter().copied().chain([LOOPBACK]);
    all.map(str::to_owned).collect()
}

/// The limits of the configuration in the form that an engine takes.
pub fn module_limits(limits: &ModuleLimits) -> Limits {
    Limits {
        memory: limits.memory,
        table_elements: limits.table_elements,
        open_files: limits.open_files,
        waiting_messages: limits.waiting_messages,
        message: limits.message,
        messages_per_second: limits.messages_per_second,
        output_per_second: limits.output_per_second,
        code: limits.size,
    }
}

/// Size of the largest message that any module may send, in bytes.
fn largest(offers: &[Offer]) -> usize {
    offers
        .iter()
        .map(|offer| offer.limits.message)
        .max()
        .unwrap_or(0)
}

fn settings(config: &RuntimeConfig, message: usize) -> MqttSettings {
    MqttSettings {
        servers: config.servers.clone(),
        client_id: config.client_id.clone(),
        user: config.mqtt_user.clone(),
        password: config.mqtt_password.clone(),
        tls: config.tls,
        tls_ca: config.tls_ca.clone(),
        tls_cert: config.tls_cert.clone(),
        tls_key: config.tls_key.clone(),
        keep_alive: Duration::from_secs(config.mqtt_keepalive.into()),
        will: None,
        max_packet: message.max(MAX_MESSAGE) + HEAD,
        max_waiting: WAITING,
    }
}

fn fetcher(config: &RuntimeConfig, stop: &StopFlag) -> io::Result<Fetcher> {
    let salt = if config.minion_config_dir.as_os_str().is_empty() {
        None
    } else {
        Some(Salt::new(
            config.minion_config_dir.clone(),
            config.cachedir.clone(),
            config.saltenv.clone(),
            Stop::of(stop)?,
            Duration::from_secs(config.fetch_timeout),
        ))
    };
    Ok(Fetcher {
        module_dir: config.module_dir.clone(),
        salt,
        patience: Duration::from_secs(config.fetch_timeout),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::Qos;
    use halite_wire::map;
    use std::path::Path;

    fn connection() -> BrokerConnection {
        // Nobody is connected, so everything is queued.
        let options = map! {"servers" => vec!["127.0.0.1:1".to_owned()]};
        let config = RuntimeConfig::from_map(options, Path::new("/nonexistent")).unwrap();
        let (heard, _) = bounded(QUEUE);
        let mqtt = Mqtt::open(&settings(&config, 1 << 20), heard).unwrap();
        BrokerConnection(RwLock::new(Some(mqtt)))
    }

    fn said(bytes: usize) -> Publication {
        Publication {
            topic: "home/light".to_owned(),
            payload: vec![0; bytes],
            qos: Qos::One,
            properties: Vec::new(),
        }
    }

    #[test]
    fn modules_have_a_part_of_what_may_wait() {
        let many = connection();
        for _ in 0..MODULES_WAITING {
            assert!(many.has_room(1));
            many.publish(said(1)).unwrap();
        }
        assert!(!many.has_room(1));
        assert_eq!(many.publish_first(said(1)), Ok(()));
        let large = connection();
        assert!(large.has_room(2 * MODULES_BYTES));
        for _ in 0..4 {
            assert!(large.has_room(1 << 20));
            large.publish(said(1 << 20)).unwrap();
        }
        assert!(!large.has_room(1));
        // Without a connection there is no room.
        drop(large.take());
        assert!(!large.has_room(1));
    }
}
