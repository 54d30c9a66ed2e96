//! A session with a clock and ids of its own.

mod modules;
mod register;

use super::*;
use crate::runtime::engine::End;
use crate::runtime::files::Sources;
use crate::wire::{ExitStatus, Scheme};
use bytes::Bytes;
use std::cell::Cell;
use std::time::SystemTime;

const RT: &str = "bbbbbbbb-0000-4000-8000-000000000001";
const OTHER: &str = "bbbbbbbb-0000-4000-8000-000000000002";
const MANAGER: &str = "dddddddd-0000-4000-8000-000000000001";
const MODULE: &str = "cccccccc-0000-4000-8000-000000000001";

/// A session and its time.
struct Rig {
    session: Session,
    now: Instant,
    cpu: Cell<Duration>,
}

fn limits() -> Limits {
    Limits {
        memory: 1 << 20,
        table_elements: 100,
        open_files: 8,
        waiting_messages: 8,
        message: 1024,
        messages_per_second: 100,
        output_per_second: 1024,
        code: 1 << 20,
    }
}

fn offer(uuid: &str, name: &str, max_modules: u32) -> Offer {
    let apis = [
        "wasm",
        "wasi",
        "channels",
        "loopback",
        "delete_module",
        "stdio:in",
    ];
    Offer {
        who: Registrant {
            uuid: uuid.parse().unwrap(),
            name: name.to_owned(),
        },
        max_modules,
        apis: apis.map(str::to_owned).to_vec(),
        limits: limits(),
    }
}

fn config(offers: Vec<Offer>) -> SessionConfig {
    SessionConfig {
        topics: Topics::new("realm", Scheme::Draft).unwrap(),
        confirmed: true,
        manager: None,
        offers,
        keepalive: None,
        kind: "linux".to_owned(),
        platform: serde_json::json!({}),
        metadata: Json::Null,
        sources: Sources::default(),
        memory: 0,
        patience: Duration::from_secs(5),
    }
}

fn rig_of(config: SessionConfig) -> Rig {
    let mut count = 0;
    let ids = move || {
        count += 1;
        format!("id-{count}")
    };
    Rig {
        session: Session::new(config, Box::new(ids)),
        now: Instant::now(),
        cpu: Cell::new(Duration::ZERO),
    }
}

/// One runtime with two places, registered, without keepalives.
fn rig() -> Rig {
    let mut rig = rig_of(config(vec![offer(RT, "rt1", 2)]));
    let sent = rig.up();
    rig.confirm(&sent[0], 0);
    rig
}

/// A manager with two runtimes of one place each.
fn managed() -> Rig {
    let mut config = config(vec![offer(RT, "one", 1), offer(OTHER, "two", 1)]);
    config.manager = Some(Registrant {
        uuid: MANAGER.parse().unwrap(),
        name: "node".to_owned(),
    });
    rig_of(config)
}

/// A message that was sent: its topic and content.
type Sent = (String, Json);

/// Separates messages from other acts.
fn split(acts: Vec<Act>) -> (Vec<Sent>, Vec<Act>) {
    let (mut sent, mut rest) = (Vec::new(), Vec::new());
    for act in acts {
        match act {
            Act::Publish(publication) => {
                assert_eq!(publication.qos, Qos::Two);
                let json = serde_json::from_slice(&publication.payload).unwrap();
                sent.push((publication.topic, json));
            }
            other => rest.push(other),
        }
    }
    (sent, rest)
}

/// The messages, if there are no other acts.
fn only_sent(acts: Vec<Act>) -> Vec<Sent> {
    let (sent, rest) = split(acts);
    assert!(rest.is_empty(), "{rest:?}");
    sent
}

impl Rig {
    fn up(&mut self) -> Vec<Sent> {
        only_sent(self.session.up(self.now))
    }

    fn hear(&mut self, topic: &str, payload: &str) -> Vec<Act> {
        let incoming = Incoming {
            topic: topic.to_owned(),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            retained: false,
            properties: Vec::new(),
        };
        self.session.handle_message(&incoming, self.now)
    }

    /// A request on the control topic of the first runtime.
    fn ask(&mut self, message: Json) -> Vec<Act> {
        self.hear(&control(RT), &message.to_string())
    }

    /// Answers a registration as halite does.
    fn confirm(&mut self, (topic, asked): &Sent, interval: u64) {
        let answer = serde_json::json!({
            "object_id": asked["object_id"], "type": "resp",
            "data": {"result": "ok", "uuid": asked["data"]["uuid"], "ka_interval_sec": interval},
        });
        assert!(self.hear(topic, &answer.to_string()).is_empty());
    }

    /// Lets time pass until something is due, at most this many seconds.
    fn later(&mut self, seconds: u64) -> Vec<Act> {
        self.now += Duration::from_secs(seconds);
        let cpu = self.cpu.get();
        self.session.tick(self.now, &|_| {
            Some(Figures {
                cpu,
                memory: 65536,
                active: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_598_370_380_545)),
                dropped: 0,
            })
        })
    }

    /// A create that is accepted, and the launch that follows.
    fn create(&mut self, message: Json) -> Launch {
        let (sent, rest) = split(self.ask(message));
        assert!(sent.is_empty(), "{sent:?}");
        match <[Act; 1]>::try_from(rest) {
            Ok([Act::Launch(launch)]) => *launch,
            other => panic!("{other:?}"),
        }
    }

    /// A running module, and the answer to the request for it.
    fn run(&mut self, uuid: &str) -> Sent {
        let launch = self.create(request(uuid));
        let acts = self
            .session
            .launched(&launch.spec.uuid, launch.serial, Ok(()), self.now);
        only_sent(acts).remove(0)
    }

    fn ended(&mut self, uuid: &str, status: ExitStatus, code: Option<i32>) -> Vec<Act> {
        let end = End {
            status,
            code,
            reason: String::new(),
        };
        self.session.ended(&uuid.parse().unwrap(), &end, self.now)
    }
}

fn control(uuid: &str) -> String {
    format!("realm/proc/control/{uuid}")
}

fn reg(uuid: &str) -> String {
    format!("realm/proc/reg/{uuid}")
}

/// A create in the form that our gateway forwards.
fn request(uuid: &str) -> Json {
    serde_json::json!({
        "object_id": format!("create-{uuid}"), "action": "create", "type": "req",
        "data": {"type": "module", "index": 1, "uuid": uuid, "name": "m", "parent": RT, "file": "x.wasm",
            "apis": ["wasm", "wasi"], "args": {"argv": ["a"], "env": ["E=1"]}, "channels": [], "status": "A"},
    })
}
