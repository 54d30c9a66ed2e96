//! Simulated runtimes and users of ARENA, and the events on the bus of a master meanwhile.

use super::mosquitto::{Mosquitto, Peer};
use super::{Cli, Master, wait_for, wait_until};
use halite::arena::mqtt::MqttSettings;
use halite_ipc::Subscriber;
use serde_json::{Value, json};
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time after which a runtime repeats a message, as real ones do.
const REPEAT: Duration = Duration::from_secs(1);

/// A master whose gateway is connected to this broker, with further settings of the gateway.
pub fn master(broker: &Mosquitto, more: &str) -> Master {
    Master::halite(&format!(
        "gather_job_timeout: 1\ngateways: {{arena: {{servers: '{}', {more}}}}}",
        broker.address()
    ))
}

/// A runtime controlled by a test.
pub struct Runtime {
    /// Its uuid.
    pub uuid: String,
    /// What it registers.
    pub data: Value,
    peer: Peer,
    requests: Cell<u32>,
}

impl Runtime {
    /// A runtime with this uuid and name; `more` are fields of its registration. It sends nothing yet.
    pub fn new(broker: &Mosquitto, uuid: &str, name: &str, more: Value) -> Runtime {
        Runtime::over(&broker.settings(&format!("rt-{uuid}")), uuid, name, more)
    }

    /// The same with these settings of its connection.
    pub fn over(settings: &MqttSettings, uuid: &str, name: &str, more: Value) -> Runtime {
        let mut data = json!({
            "type": "runtime", "uuid": uuid, "name": name, "runtime_type": "linux",
            "max_nmodules": 8, "apis": ["wasm", "wasi", "stdio:in"],
        });
        if let (Some(data), Some(more)) = (data.as_object_mut(), more.as_object()) {
            data.extend(more.clone());
        }
        let topics = ["reg", "control"].map(|room| format!("realm/proc/{room}/{uuid}"));
        let filters: Vec<_> = topics.iter().map(|topic| (topic.as_str(), true)).collect();
        let peer = Peer::with_room(settings, &filters, 10_000);
        peer.up();
        Runtime {
            uuid: uuid.to_owned(),
            data,
            peer,
            requests: Cell::new(0),
        }
    }

    /// Registers until there is a reply; returns the data of the reply.
    pub fn register(&self) -> Value {
        let topic = format!("realm/proc/reg/{}", self.uuid);
        wait_for("a registration is answered", || {
            let id = self.say(&topic, "create", self.data.clone());
            let found = self.peer.find(REPEAT, |message| {
                let json: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
                json["object_id"] == id.as_str() && json["type"] == "resp"
            })?;
            let answer: Value = serde_json::from_slice(&found.payload).ok()?;
            Some(answer["data"].clone())
        })
    }

    /// Like [`Runtime::register`]; the reply must be a confirmation.
    pub fn join(&self) {
        let answer = self.register();
        assert_eq!(answer["result"], "ok", "{answer}");
    }

    /// Sends a keepalive with the running modules.
    pub fn keepalive(&self, children: Value) {
        let mut data = self.data.clone();
        data["children"] = children;
        self.say(
            &format!("realm/proc/keepalive/{}", self.uuid),
            "update",
            data,
        );
    }

    /// Sends the message of its last will.
    pub fn leave(&self) {
        let topic = format!("realm/proc/reg/{}", self.uuid);
        self.say(
            &topic,
            "delete",
            json!({"type": "runtime", "uuid": self.uuid}),
        );
    }

    /// The next request to it with this action, as a whole message.
    pub fn asked(&self, action: &str) -> Value {
        let topic = format!("realm/proc/control/{}", self.uuid);
        self.peer
            .json(&format!("{action} of a module"), |on, json| {
                on == topic && json["action"] == action && json["type"] == "req"
            })
    }

    /// The next request to it with this action, if one comes within that time.
    pub fn asked_within(&self, action: &str, limit: Duration) -> Option<Value> {
        let found = self.peer.find(limit, |message| {
            let json: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
            json["action"] == action && json["type"] == "req"
        })?;
        serde_json::from_slice(&found.payload).ok()
    }

    /// Replies to a request.
    pub fn answer(&self, request: &Value, data: Value) {
        let message = json!({
            "object_id": request["object_id"], "action": request["action"], "type": "resp", "data": data,
        });
        let topic = format!("realm/proc/control/{}", self.uuid);
        self.peer.publish(&topic, message.to_string());
    }

    /// Reports that a module has exited.
    pub fn exited(&self, module: &str, more: Value) {
        let mut data = json!({"type": "module", "uuid": module});
        if let (Some(data), Some(more)) = (data.as_object_mut(), more.as_object()) {
            data.extend(more.clone());
        }
        self.say("realm/proc/control", "exited", data);
    }

    /// Publishes output of a module.
    pub fn writes(&self, module: &str, stream: &str, text: &str) {
        self.peer
            .publish(&format!("realm/proc/io/{module}/{stream}"), text);
    }

    /// Sends a request; returns its id.
    pub fn say(&self, topic: &str, action: &str, data: Value) -> String {
        self.requests.set(self.requests.get() + 1);
        let id = format!("{}-{}", self.uuid, self.requests.get());
        let message = json!({"object_id": id, "action": action, "type": "req", "data": data});
        self.peer.publish(topic, message.to_string());
        id
    }
}

/// Events on the bus of a master.
pub struct Events {
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Events {
    /// Listens from now on, for as long as the master runs.
    pub fn of(master: &Master) -> Events {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut bus = Subscriber::connect(master.bus()).expect("the bus is there");
        let keep = Arc::clone(&seen);
        std::thread::spawn(move || {
            while let Ok(event) = bus.next(None) {
                let Some(event) = event else { continue };
                let data = event.decode::<Value>().unwrap_or_default();
                keep.lock()
                    .expect("no thread panics while holding it")
                    .push((event.tag, data));
            }
        });
        Events { seen }
    }

    /// All events with this tag.
    pub fn all(&self, tag: &str) -> Vec<Value> {
        let seen = self.seen.lock().expect("no thread panics while holding it");
        let fitting = seen.iter().filter(|(found, _)| found == tag);
        fitting.map(|(_, data)| data.clone()).collect()
    }

    /// Waits for the first event with this tag.
    pub fn one(&self, tag: &str) -> Value {
        wait_for(tag, || self.all(tag).into_iter().next())
    }

    /// Waits for an event with this tag for which `fits` is true.
    pub fn fitting(&self, tag: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait_for(tag, || self.all(tag).into_iter().find(|data| fits(data)))
    }
}

/// Waits until exactly these minions are connected; `expected` is sorted.
pub fn present(cli: &Cli, expected: &[&str]) {
    wait_until(&format!("{expected:?} are present"), || {
        let ran = cli.runner(&["manage.present", "--out=json"]);
        ran.json().is_ok_and(|present| present == json!(expected))
    });
}
