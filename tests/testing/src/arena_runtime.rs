//! Real runtimes at a real broker, and a simulated orchestrator.

use super::mosquitto::{Mosquitto, Peer, publication};
use super::process::Process;
use super::{LONG, halite_program, short_dir, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Id of a runtime in configurations.
pub const RT: &str = "5f937916-d29d-4f66-801e-3d69f57728e2";

/// Compiles a module, given by its name in the test data or as text, to a file.
pub fn compile(source: &str, file: &Path) {
    let data = super::top().join("tests/data/arena/wat");
    let text = match source.starts_with('(') {
        true => source.to_owned(),
        false => std::fs::read_to_string(data.join(format!("{source}.wat"))).expect("test data"),
    };
    let code = wat::parse_str(text).expect("a module");
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).expect("a directory can be made");
    }
    std::fs::write(file, code).expect("a file can be written");
}

/// A module that writes `on` to the file `path`; if that fails, it exits with the error number.
pub fn writer(path: &str) -> String {
    let length = path.len();
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\08\00\00\00\02\00\00\00on")
  (data (i32.const 100) "{path}")
  (func (export "_start") (local $errno i32)
    (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const {length}) (i32.const 0)
      (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 200)))
    (if (local.get $errno) (then (call $exit (local.get $errno))))
    (call $exit (call $write (i32.load (i32.const 200)) (i32.const 0) (i32.const 1) (i32.const 300)))))"#
    )
}

/// A runtime process.
pub struct Runtime {
    pub process: Process,
}

impl Runtime {
    /// Stops it with a signal; returns its exit status, if it has one.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        self.process.signal(signal);
        wait_until("the runtime has ended", || self.process.status().is_some());
        self.process.status().and_then(|status| status.code())
    }
}

/// A broker, a directory with modules, and an orchestrator controlled by a test.
pub struct Rig {
    pub broker: Mosquitto,
    pub peer: Peer,
    pub dir: tempfile::TempDir,
    asked: Cell<u32>,
}

impl Rig {
    /// Only the broker runs. `None`, with a message, if it is not installed.
    pub fn new() -> Option<Rig> {
        let broker = Mosquitto::start()?;
        let peer = broker.peer("orchestrator", &["realm/proc/#", "home/#"]);
        let dir = short_dir();
        std::fs::create_dir_all(dir.path().join("modules")).expect("a directory can be made");
        Some(Rig {
            broker,
            peer,
            dir,
            asked: Cell::new(0),
        })
    }

    /// The same with modules of the test data, each as `NAME.wasm`.
    pub fn with(modules: &[&str]) -> Option<Rig> {
        let rig = Rig::new()?;
        for name in modules {
            compile(name, &rig.module(name));
        }
        Some(rig)
    }

    /// The path of the file of a module.
    pub fn module(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("modules/{name}.wasm"))
    }

    /// Starts a runtime called `name` with further options.
    pub fn start(&self, name: &str, more: &str) -> Runtime {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        let text = format!(
            "servers: ['{}']\nname: {name}\ncachedir: {}\nmodule_dir: {}\nlog_file: {}\n{more}\n",
            self.broker.address(),
            dir.join("cache").display(),
            self.dir.path().join("modules").display(),
            dir.join("log").display(),
        );
        std::fs::write(dir.join("runtime"), text).expect("a file can be written");
        let mut command = Command::new(halite_program("halite-runtime"));
        command.arg("-c").arg(&dir).args(["-l", "debug"]);
        Runtime {
            process: Process::start("halite-runtime", &mut command, &dir.join("out")),
        }
    }

    /// A runtime with the id [`RT`] that has registered, as a stock orchestrator would let it.
    pub fn joined(&self, more: &str) -> Runtime {
        let runtime = self.start("rt1", &format!("uuid: {RT}\n{more}"));
        let asked = self.registration(RT);
        self.confirm(&asked, 60);
        runtime
    }

    /// The next registration under a uuid.
    pub fn registration(&self, uuid: &str) -> Json {
        let topic = format!("realm/proc/reg/{uuid}");
        self.peer.json("a registration", |on, message| {
            on == topic && message["action"] == "create" && message["type"] == "req"
        })
    }

    /// Confirms a registration as a stock orchestrator does (reference, T1).
    pub fn confirm(&self, asked: &Json, interval: u32) {
        let mut details = asked["data"].clone();
        details["ka_interval_sec"] = interval.into();
        details["status"] = "A".into();
        let data = json!({"result": "ok", "details": details});
        let answer = json!({"object_id": asked["object_id"], "type": "resp", "data": data});
        let uuid = asked["data"]["uuid"].as_str().expect("a uuid");
        self.say(&format!("realm/proc/reg/{uuid}"), &answer);
    }

    /// The next goodbye or last will: its `data`.
    pub fn goodbye(&self, uuid: &str) -> Json {
        let topic = format!("realm/proc/reg/{uuid}");
        let message = self.peer.json("a goodbye", |on, message| {
            on == topic && message["action"] == "delete" && message["type"] == "req"
        });
        message["data"].clone()
    }

    pub fn say(&self, topic: &str, message: &Json) {
        self.peer.publish(topic, message.to_string());
    }

    /// Sends a request to a runtime; returns its id.
    pub fn ask(&self, runtime: &str, action: &str, data: Json) -> String {
        self.asked.set(self.asked.get() + 1);
        let id = format!("ask-{}", self.asked.get());
        let message = json!({"object_id": id, "action": action, "type": "req", "data": data});
        self.say(&format!("realm/proc/control/{runtime}"), &message);
        id
    }

    /// The reply to a request.
    pub fn answer(&self, id: &str) -> Json {
        self.peer.json("an answer", |_, message| {
            message["object_id"] == id && message["type"] == "resp"
        })
    }

    /// Asks the runtime [`RT`] to create a module, with further fields; returns the `data` of the reply.
    pub fn create(&self, uuid: &str, file: &str, more: Json) -> Json {
        self.create_on(RT, uuid, file, more)
    }

    /// Like [`Rig::create`], on another runtime.
    pub fn create_on(&self, runtime: &str, uuid: &str, file: &str, more: Json) -> Json {
        let mut data =
            json!({"type": "module", "uuid": uuid, "name": uuid, "parent": runtime, "file": file});
        if let (Some(data), Some(more)) = (data.as_object_mut(), more.as_object()) {
            data.extend(more.clone());
        }
        let id = self.ask(runtime, "create", data);
        self.answer(&id)["data"].clone()
    }

    /// Starts a module, which must succeed.
    pub fn run(&self, uuid: &str, file: &str, more: Json) {
        let answer = self.create(uuid, file, more);
        assert_eq!(answer["result"], "ok", "{answer}");
    }

    /// Deletes a module; returns the id of the request.
    pub fn delete(&self, uuid: &str) -> String {
        self.ask(RT, "delete", json!({"type": "module", "uuid": uuid}))
    }

    /// The `data` of the notice that a module has exited.
    pub fn exit(&self, uuid: &str) -> Json {
        let message = self.peer.json("an exit", |on, message| {
            on == "realm/proc/control"
                && message["action"] == "exited"
                && message["data"]["uuid"] == uuid
        });
        message["data"].clone()
    }

    /// Status and code of an exit.
    pub fn ended(&self, uuid: &str) -> (String, Option<i64>) {
        let exit = self.exit(uuid);
        let status = exit["status"].as_str().expect("a status").to_owned();
        (status, exit["exit_code"].as_i64())
    }

    /// All text on a topic up to and including `last`.
    pub fn text(&self, topic: &str, last: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(last) {
            let found = self.peer.find(LONG, |message| message.topic == topic);
            let found = found.unwrap_or_else(|| panic!("{topic}: only {text:?}"));
            text.push_str(&String::from_utf8_lossy(&found.payload));
        }
        text
    }

    /// The next message on a topic, as text.
    pub fn heard(&self, topic: &str) -> String {
        String::from_utf8_lossy(&self.peer.on(topic).payload).into_owned()
    }

    /// Publishes `probe` on one topic until something comes on another, which shows that the modules between them listen. Drops
    /// messages that are still on their way.
    pub fn warm(&self, from: &str, to: &str) {
        let pause = std::time::Duration::from_millis(50);
        wait_until("modules listen", || {
            let sent = self.peer.mqtt.publish(publication(from, "probe"));
            assert!(sent.is_ok());
            self.peer
                .find(pause, |message| message.topic == to)
                .is_some()
        });
        self.peer.publish(from, "settled");
        while self.heard(to) != "settled" {}
    }
}
