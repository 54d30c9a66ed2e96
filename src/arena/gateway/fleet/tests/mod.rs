//! The orchestrator with fake time, a fake operator and no broker.

mod applauncher;
mod dialogues;
mod modules;
mod operator;
mod random;
mod requests;
mod runtimes;
mod trouble;

use super::*;
use crate::wire::{Json, Scheme};
use serde_json::json;
use std::collections::BTreeMap;

/// Seconds between keepalives in tests.
const INTERVAL: u64 = 10;

/// An operator's decisions: by name, and for all other names.
#[derive(Default)]
struct Operator {
    says: BTreeMap<String, Admitted>,
    asked: usize,
}

impl Admission for Operator {
    fn admit(&mut self, uuid: &Uuid, name: &str) -> Admitted {
        self.asked += 1;
        let usual = || Admitted::Yes(format!("{name}-{uuid}"));
        self.says.get(name).cloned().unwrap_or_else(usual)
    }

    fn check(&mut self, uuid: &Uuid, name: &str) -> Admitted {
        self.admit(uuid, name)
    }
}

/// The acts that followed from something.
struct Came {
    acts: Vec<Act>,
}

impl Came {
    /// The published messages: topic and message.
    fn published(&self) -> Vec<(&str, Json)> {
        let published = self.acts.iter().filter_map(|act| match act {
            Act::Publish(what) => Some(what),
            _ => None,
        });
        published
            .map(|what| {
                assert_eq!(what.qos, crate::mqtt::Qos::Two);
                let json = serde_json::from_slice(&what.payload).unwrap();
                (what.topic.as_str(), json)
            })
            .collect()
    }

    /// The reported events, one line each.
    fn told(&self) -> Vec<String> {
        let told = self.acts.iter().filter_map(|act| match act {
            Act::Report(what) => Some(line(what)),
            _ => None,
        });
        told.collect()
    }

    /// The published messages, one line each: topic below the realm, action or result, module or error.
    fn sent(&self) -> Vec<String> {
        let published = self.published().into_iter();
        published
            .map(|(topic, message)| {
                let data = &message["data"];
                let topic = topic.trim_start_matches("realm/proc/");
                let word = |value: &Json| value.as_str().unwrap_or_default().to_owned();
                match (message["action"].as_str(), message["type"].as_str()) {
                    (Some("error"), _) => format!("{topic} error {}", word(&data["desc"])),
                    (action, Some("resp" | "arts_resp")) => {
                        let details = &data["details"];
                        let state = word(&details["status"]);
                        let end = match data["result"].as_str() {
                            Some("ok") => format!("{} {state}", word(&details["uuid"])),
                            _ => word(&details["desc"]),
                        };
                        let action = action.unwrap_or("register");
                        format!("{topic} answer {action} {end}")
                            .trim_end()
                            .to_owned()
                    }
                    (action, _) => {
                        format!("{topic} {} {}", action.unwrap_or("-"), word(&data["uuid"]))
                    }
                }
            })
            .collect()
    }

    fn kept(&self) -> usize {
        let kept = self.acts.iter().filter(|act| matches!(act, Act::Save(_)));
        kept.count()
    }
}

fn line(what: &FleetEvent) -> String {
    let of = |kept: &KeptModule| {
        let module = &kept.module;
        let runtime = module
            .runtime
            .as_ref()
            .map_or("-", |runtime| runtime.as_str());
        format!("{} {} {runtime}", module.uuid, module.state.word())
    };
    match what {
        FleetEvent::Arrived(kept) => format!("arrived {}", kept.runtime.uuid),
        FleetEvent::Changed(kept) => format!("changed {}", kept.runtime.uuid),
        FleetEvent::Waiting(kept) => format!("waiting {}", kept.id),
        FleetEvent::Late(uuid) => format!("late {uuid}"),
        FleetEvent::Alive(uuid) => format!("alive {uuid}"),
        FleetEvent::Left(kept, why) => format!("left {} {why:?}", kept.runtime.uuid),
        FleetEvent::Queued(kept) => format!("queued {}", of(kept)),
        FleetEvent::Sent(kept) => format!("sent {}", of(kept)),
        FleetEvent::Started(kept) => format!("started {}", of(kept)),
        FleetEvent::Refused(kept, why) => format!("refused {} {why}", of(kept)),
        FleetEvent::Stopping(kept) => format!("stopping {}", of(kept)),
        FleetEvent::Ended(kept, exit) => format!("ended {} {}", of(kept), exit.status.word()),
        FleetEvent::Lost(kept, why) => format!("lost {} {why:?}", of(kept)),
        FleetEvent::Moved(kept, from) => format!("moved {} from {from}", of(kept)),
        FleetEvent::Foreign(kept) => format!("foreign {}", of(kept)),
        FleetEvent::Output(uuid, stream, data) => {
            format!("output {uuid} {stream} {}", String::from_utf8_lossy(data))
        }
        FleetEvent::Fault(fault) => format!("fault {fault}"),
    }
}

/// A fleet, its saved state, and its surroundings.
struct World {
    fleet: Fleet,
    operator: Operator,
    now: Clock,
    kept: Model,
    requests: u64,
}

fn rules() -> Rules {
    Rules {
        topics: Topics::new("realm", Scheme::Draft).unwrap(),
        keepalive: Duration::from_secs(INTERVAL),
        policy: Policy::Wait,
        max_managers: 5,
        max_runtimes: 10,
        max_waiting: 10,
        max_modules: 50,
        max_bytes: 1 << 20,
        forget_after: Duration::from_secs(3600),
    }
}

impl World {
    fn new() -> World {
        World::with(rules())
    }

    fn with(rules: Rules) -> World {
        let now = Clock::now();
        let mut fleet = Fleet::new(rules, Snapshot::default(), now);
        assert_eq!(fleet.connected(true, now), Vec::new());
        World {
            fleet,
            operator: Operator::default(),
            now,
            kept: Model::default(),
            requests: 0,
        }
    }

    fn came(&mut self, acts: Vec<Act>) -> Came {
        for act in &acts {
            if let Act::Save(change) = act {
                self.kept.apply(change);
            }
        }
        self.kept.check(&self.fleet);
        Came { acts }
    }

    /// Delivers a payload on a topic below `realm/proc/`.
    fn raw(&mut self, topic: &str, payload: &[u8]) -> Came {
        let message = Incoming {
            topic: format!("realm/proc/{topic}"),
            payload: payload.to_vec().into(),
            retained: false,
            properties: Vec::new(),
        };
        self.hear(&message)
    }

    fn hear(&mut self, message: &Incoming) -> Came {
        let acts = self
            .fleet
            .handle_message(message, &mut self.operator, self.now);
        self.came(acts)
    }

    /// Delivers a message on a topic below `realm/proc/`.
    fn say(&mut self, topic: &str, message: Json) -> Came {
        self.raw(topic, message.to_string().as_bytes())
    }

    /// Delivers a request with a new id.
    fn ask(&mut self, topic: &str, action: &str, data: Json) -> Came {
        self.requests += 1;
        let id = format!("request-{}", self.requests);
        let message = json!({"object_id": id, "action": action, "type": "req", "data": data});
        self.say(topic, message)
    }

    /// A runtime registers, with this many places.
    fn register(&mut self, uuid: &str, places: u32) -> Came {
        let data = json!({
            "type": "runtime", "uuid": uuid, "name": format!("name-{uuid}"), "max_nmodules": places,
            "apis": ["wasm", "wasi"],
        });
        self.ask(&format!("reg/{uuid}"), "create", data)
    }

    /// A runtime unregisters.
    fn unregister(&mut self, uuid: &str) -> Came {
        let data = json!({"type": "runtime", "uuid": uuid});
        self.ask(&format!("reg/{uuid}"), "delete", data)
    }

    /// A module is requested, with these additional fields.
    fn create(&mut self, uuid: &str, more: Json) -> Came {
        let mut data = json!({"type": "module", "uuid": uuid, "file": "x.wasm"});
        let object = data.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        self.ask("control", "create", data)
    }

    /// A request to end a module.
    fn delete(&mut self, uuid: &str) -> Came {
        self.ask("control", "delete", json!({"type": "module", "uuid": uuid}))
    }

    /// A runtime reports that a module has ended.
    fn exit(&mut self, runtime: &str, uuid: &str) -> Came {
        let data = json!({"type": "module", "uuid": uuid, "status": "exited"});
        self.ask(&format!("control/{runtime}"), "exited", data)
    }

    /// A runtime sends a keepalive with these modules.
    fn keepalive(&mut self, runtime: &str, children: &[&str]) -> Came {
        let child = |uuid: &&str| json!({"uuid": uuid, "active": -1, "cpu_usage_percent": 1.5, "mem_usage": 1000});
        let children: Vec<Json> = children.iter().map(child).collect();
        let data = json!({"type": "runtime", "uuid": runtime, "children": children});
        self.ask(&format!("keepalive/{runtime}"), "update", data)
    }

    /// Lets time pass, then calls `tick`.
    fn pass(&mut self, seconds: f64) -> Came {
        self.now = self.now.after(Duration::from_secs_f64(seconds));
        let acts = self.fleet.tick(&mut self.operator, self.now);
        self.came(acts)
    }

    fn connected(&mut self, up: bool) -> Came {
        let acts = self.fleet.connected(up, self.now);
        self.came(acts)
    }

    fn decided(&mut self, id: &str) -> Came {
        let acts = self.fleet.key_decided(id, &mut self.operator, self.now);
        self.came(acts)
    }

    /// Restarts the gateway with the saved state.
    fn restart(&mut self) -> Came {
        let snapshot = self.kept.snapshot();
        self.fleet = Fleet::new(self.fleet.rules.clone(), snapshot, self.now);
        self.kept.check(&self.fleet);
        self.connected(true)
    }

    /// State and runtime of a module.
    fn state(&self, uuid: &str) -> String {
        match self.fleet.module(&id(uuid)) {
            Some(kept) => {
                let runtime = kept.module.runtime.as_ref();
                let runtime = runtime.map_or("-", |runtime| runtime.as_str());
                format!("{} {runtime}", kept.module.state.word())
            }
            None => "none".into(),
        }
    }

    fn count(&self, name: &str) -> u64 {
        let counters = self.fleet.counters();
        u64::try_from(counters.int(name).unwrap()).unwrap()
    }
}

fn id(text: &str) -> Uuid {
    text.parse().unwrap()
}

/// What a store would contain after all saved changes.
#[derive(Default)]
struct Model {
    managers: BTreeMap<Uuid, Manager>,
    runtimes: BTreeMap<Uuid, KeptRuntime>,
    modules: BTreeMap<Uuid, KeptModule>,
}

impl Model {
    fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::Manager(manager) => {
                self.managers.insert(manager.uuid.clone(), manager);
            }
            Change::Runtime(kept) => {
                self.runtimes.insert(kept.runtime.uuid.clone(), *kept);
            }
            Change::Module(kept) => {
                self.modules.insert(kept.module.uuid.clone(), *kept);
            }
            Change::NoManager(uuid) => {
                self.managers.remove(&uuid);
            }
            Change::NoRuntime(uuid) => {
                self.runtimes.remove(&uuid);
                self.modules
                    .retain(|_, kept| kept.module.runtime.as_ref() != Some(&uuid));
            }
            Change::NoModule(uuid) => {
                self.modules.remove(&uuid);
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut modules: Vec<_> = self.modules.values().cloned().collect();
        modules.sort_by_key(|kept| kept.module.index);
        let last = modules.last().map_or(0, |kept| kept.module.index + 1);
        Snapshot {
            managers: self.managers.values().cloned().collect(),
            runtimes: self.runtimes.values().cloned().collect(),
            modules,
            next_index: last,
        }
    }

    /// Checks that the fleet equals the saved state, except for times and memory from keepalives, which are saved only
    /// now and then.
    fn check(&self, fleet: &Fleet) {
        let plain = |kept: &KeptRuntime| KeptRuntime {
            heard: 0,
            memory: 0,
            ..kept.clone()
        };
        let here: Vec<_> = fleet.runtimes().into_iter().map(plain).collect();
        let kept: Vec<_> = self.runtimes.values().map(plain).collect();
        assert_eq!(here, kept);
        let mut here: Vec<_> = fleet.modules.iter().map(|entry| &entry.kept).collect();
        here.sort_by(|a, b| a.module.uuid.cmp(&b.module.uuid));
        let kept: Vec<_> = self.modules.values().collect();
        assert_eq!(here, kept);
        let here: BTreeMap<_, _> = fleet.managers.iter().map(|(u, (m, _))| (u, m)).collect();
        assert_eq!(here, self.managers.iter().collect());
    }
}
