//! Many simulated runtimes of ARENA behind a few managers, one connection each (reference, section 4.2). They have their own JSON
//! code, independent of the codec of the program under test.

use super::LONG;
use super::mosquitto::publication;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use halite::arena::mqtt::{Incoming, Mqtt, MqttEvent, MqttSettings};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often an unconfirmed registration is repeated.
const REPEAT: Duration = Duration::from_secs(10);
/// How often timers are checked.
const TICK: Duration = Duration::from_millis(100);

/// Counters of all managers and runtimes.
#[derive(Debug, Default)]
pub struct Tally {
    /// Connected managers.
    pub connected: AtomicUsize,
    /// Runtimes that are currently confirmed.
    pub confirmed: AtomicUsize,
    /// Confirmed registrations, repeated ones included.
    pub registrations: AtomicUsize,
    /// Requests to create a module, which may include duplicates.
    pub creates: AtomicUsize,
    /// Running modules.
    pub modules: AtomicUsize,
    /// Modules that were deleted.
    pub deletes: AtomicUsize,
    /// Keepalives sent.
    pub keepalives: AtomicUsize,
    /// Messages that could not be parsed, or did not fit in a queue.
    pub broken: AtomicUsize,
    stop: AtomicBool,
}

/// The value of a counter.
pub fn value(number: &AtomicUsize) -> usize {
    number.load(Ordering::Relaxed)
}

/// Managers and runtimes that run until this is dropped.
pub struct ArenaFleet {
    /// Their counters.
    pub tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

/// Name and minion id of the `n`-th runtime.
pub fn name(n: usize) -> String {
    format!("rt-{n:04}")
}

fn uuid(n: usize) -> String {
    format!("aaaaaaaa-0000-4000-8000-{n:012}")
}

fn manager_uuid(n: usize) -> String {
    format!("dddddddd-0000-4000-8000-{n:012}")
}

/// Properties of every runtime.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The first levels of all topics.
    pub realm: String,
    /// Most modules of each; 0 for no limit.
    pub max_modules: usize,
    /// The APIs that it supports.
    pub apis: Vec<String>,
}

impl ArenaFleet {
    /// Starts `each` runtimes behind every one of these connections.
    pub fn start(connections: &[MqttSettings], each: usize, offer: &Offer) -> ArenaFleet {
        let tally = Arc::new(Tally::default());
        let threads = connections.iter().enumerate().map(|(n, settings)| {
            let manager = Manager::open(n, settings, each, offer, tally.clone());
            std::thread::spawn(move || manager.run())
        });
        ArenaFleet {
            threads: threads.collect(),
            tally,
        }
    }
}

impl Drop for ArenaFleet {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Runtime {
    number: usize,
    uuid: String,
    confirmed: bool,
    /// Time between keepalives, as set by the orchestrator.
    interval: Duration,
    /// When the next keepalive or registration is due.
    due: Instant,
    modules: Vec<String>,
}

struct Manager {
    uuid: String,
    offer: Offer,
    mqtt: Mqtt,
    heard: Receiver<MqttEvent>,
    up: bool,
    runtimes: Vec<Runtime>,
    by_uuid: HashMap<String, usize>,
    sent: usize,
    tally: Arc<Tally>,
}

impl Manager {
    fn open(
        n: usize,
        settings: &MqttSettings,
        each: usize,
        offer: &Offer,
        tally: Arc<Tally>,
    ) -> Manager {
        let uuid_of_manager = manager_uuid(n);
        let runtimes: Vec<Runtime> = (n * each..(n + 1) * each)
            .map(|number| Runtime {
                number,
                uuid: uuid(number),
                confirmed: false,
                interval: Duration::ZERO,
                due: Instant::now(),
                modules: Vec::new(),
            })
            .collect();
        let by_uuid = runtimes.iter().enumerate();
        let by_uuid = by_uuid.map(|(at, one)| (one.uuid.clone(), at)).collect();
        let realm = &offer.realm;
        let mut filters = vec![format!("{realm}/proc/reg/{uuid_of_manager}")];
        for runtime in &runtimes {
            filters.push(format!("{realm}/proc/reg/{}", runtime.uuid));
            filters.push(format!("{realm}/proc/control/{}", runtime.uuid));
        }
        let filters: Vec<(&str, bool)> = filters.iter().map(|f| (f.as_str(), true)).collect();
        let goodbye = json!({"object_id": "will", "action": "delete", "type": "req",
            "data": {"type": "manager", "uuid": uuid_of_manager, "name": format!("manager-{n}")}});
        let settings = MqttSettings {
            will: Some(publication(
                &format!("{realm}/proc/reg/{uuid_of_manager}"),
                goodbye.to_string(),
            )),
            ..settings.clone()
        };
        let (to, heard) = crossbeam_channel::bounded(100_000);
        let mqtt = Mqtt::open_hearing(&settings, &filters, to).expect("settings are fine");
        Manager {
            uuid: uuid_of_manager,
            offer: offer.clone(),
            mqtt,
            heard,
            up: false,
            runtimes,
            by_uuid,
            sent: 0,
            tally,
        }
    }

    fn run(mut self) {
        while !self.tally.stop.load(Ordering::Relaxed) {
            match self.heard.recv_timeout(TICK) {
                Ok(heard) => self.hear(heard),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(heard) = self.heard.try_recv() {
                self.hear(heard);
            }
            if self.up {
                self.beat();
            }
        }
        self.mqtt.close(LONG);
    }

    fn hear(&mut self, heard: MqttEvent) {
        match heard {
            MqttEvent::Up(_) => {
                self.up = true;
                self.tally.connected.fetch_add(1, Ordering::Relaxed);
                let data = json!({"type": "manager", "uuid": self.uuid, "name": self.uuid});
                let topic = format!("reg/{}", self.uuid);
                self.request(&topic, "create", data);
            }
            MqttEvent::Down(_) => {
                if std::mem::take(&mut self.up) {
                    self.tally.connected.fetch_sub(1, Ordering::Relaxed);
                }
                // The last will has reported that all are gone: they register again.
                for runtime in &mut self.runtimes {
                    if std::mem::take(&mut runtime.confirmed) {
                        self.tally.confirmed.fetch_sub(1, Ordering::Relaxed);
                    }
                    runtime.due = Instant::now();
                }
            }
            MqttEvent::Message(message) => {
                if self.message(&message).is_none() {
                    self.tally.broken.fetch_add(1, Ordering::Relaxed);
                }
            }
            MqttEvent::Denied(..) => {
                self.tally.broken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// `None` if an orchestrator does not send such messages.
    fn message(&mut self, message: &Incoming) -> Option<()> {
        let said: Json = serde_json::from_slice(&message.payload).ok()?;
        let (room, whose) = message.topic.rsplit_once('/')?;
        let data = &said["data"];
        let (kind, action) = (said["type"].as_str()?, said["action"].as_str());
        let Some(at) = self.by_uuid.get(whose).copied() else {
            // The reply to the manager's own registration.
            return (whose == self.uuid && data["result"] == "ok").then_some(());
        };
        match (room.rsplit('/').next()?, kind, action) {
            ("reg", "resp", _) => {
                let seconds = data["ka_interval_sec"].as_u64()?;
                if data["result"] != "ok" || data["uuid"] != whose {
                    return None;
                }
                self.tally.registrations.fetch_add(1, Ordering::Relaxed);
                let count = self.runtimes.len();
                let runtime = &mut self.runtimes[at];
                if !std::mem::replace(&mut runtime.confirmed, true) {
                    self.tally.confirmed.fetch_add(1, Ordering::Relaxed);
                }
                runtime.interval = Duration::from_secs(seconds);
                // Spread them over time.
                let share = runtime.interval.mul_f64(at as f64 / count as f64);
                runtime.due = Instant::now() + share;
                Some(())
            }
            ("control", "req", Some("create")) => {
                let module = data["uuid"].as_str()?.to_owned();
                data["file"].as_str()?;
                if data["parent"] != whose {
                    return None;
                }
                self.tally.creates.fetch_add(1, Ordering::Relaxed);
                let modules = &mut self.runtimes[at].modules;
                if !modules.contains(&module) {
                    modules.push(module.clone());
                    self.tally.modules.fetch_add(1, Ordering::Relaxed);
                }
                let answer = json!({"object_id": said["object_id"], "action": "create", "type": "resp",
                    "from": whose,
                    "data": {"result": "ok", "details": {"type": "module", "uuid": module}}});
                self.publish(&format!("control/{whose}"), &answer);
                Some(())
            }
            ("control", "req", Some("delete")) => {
                let module = data["uuid"].as_str()?.to_owned();
                self.tally.deletes.fetch_add(1, Ordering::Relaxed);
                let modules = &mut self.runtimes[at].modules;
                let place = modules.iter().position(|one| *one == module)?;
                modules.swap_remove(place);
                self.tally.modules.fetch_sub(1, Ordering::Relaxed);
                let data = json!({"type": "module", "uuid": module, "status": "deleted"});
                self.request("control", "exited", data);
                Some(())
            }
            _ => None,
        }
    }

    /// Sends what is due: keepalives, and registrations that are not confirmed yet.
    fn beat(&mut self) {
        let now = Instant::now();
        for at in 0..self.runtimes.len() {
            let runtime = &mut self.runtimes[at];
            if runtime.due > now {
                continue;
            }
            let own = runtime.uuid.clone();
            if runtime.confirmed {
                runtime.due += runtime.interval;
                let child = |module: &String| {
                    json!({"uuid": module, "active": -1, "cpu_usage_percent": 1.5,
                        "mem_usage": 1_048_576})
                };
                let children: Vec<Json> = runtime.modules.iter().map(child).collect();
                let data = json!({"type": "runtime", "uuid": own, "name": name(runtime.number),
                    "apis": self.offer.apis, "children": children});
                self.request(&format!("keepalive/{own}"), "update", data);
                self.tally.keepalives.fetch_add(1, Ordering::Relaxed);
            } else {
                runtime.due = now + REPEAT;
                let data = json!({"type": "runtime", "uuid": own, "name": name(runtime.number),
                    "runtime_type": "simulated", "max_nmodules": self.offer.max_modules,
                    "apis": self.offer.apis, "parent": self.uuid,
                    "platform": {"cpu": {"arch": "x86_64", "cores": 2}, "mem": {"total": 1_073_741_824}},
                    "metadata": {"host": format!("host-{}", runtime.number / 10)}});
                self.request(&format!("reg/{own}"), "create", data);
            }
        }
    }

    fn request(&mut self, topic: &str, action: &str, data: Json) {
        self.sent += 1;
        let id = format!("{}/{}", self.uuid, self.sent);
        let message = json!({"object_id": id, "action": action, "type": "req", "data": data});
        self.publish(topic, &message);
    }

    fn publish(&self, topic: &str, message: &Json) {
        let topic = format!("{}/proc/{topic}", self.offer.realm);
        let sent = self.mqtt.publish(publication(&topic, message.to_string()));
        if sent.is_err() {
            self.tally.broken.fetch_add(1, Ordering::Relaxed);
        }
    }
}
