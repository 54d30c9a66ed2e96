//! Whole modules through the interpreter.

mod basics;
mod c_program;
mod channels;
mod hostile;
mod stopping;

use super::{End, Host, Limits, Running, Spec, interpreter};
use crate::wire::{Channel, ExitStatus, Mode, Stream, Uuid};
use bytes::Bytes;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Published(String, Vec<u8>),
    Subscribed(String),
    Unsubscribed(String),
    Output(Stream, Vec<u8>),
    Ended(End),
}

/// A host that forwards its calls.
struct Teller {
    to: Mutex<Sender<Told>>,
    /// Messages that it accepts until it has no room.
    room: Mutex<usize>,
}

impl Teller {
    fn tell(&self, told: Told) {
        // A test that has seen enough stops listening.
        let _ = self.to.lock().expect("not poisoned").send(told);
    }
}

impl Host for Teller {
    fn allows(&self, topic: &str) -> bool {
        !topic.starts_with("reserved")
    }

    fn publish(&self, _: &Uuid, topic: &str, payload: &[u8]) -> bool {
        let mut room = self.room.lock().expect("not poisoned");
        let Some(left) = room.checked_sub(1) else {
            return false;
        };
        *room = left;
        self.tell(Told::Published(topic.into(), payload.into()));
        true
    }

    fn subscribe(&self, _: &Uuid, topic: &str) {
        self.tell(Told::Subscribed(topic.into()));
    }

    fn unsubscribe(&self, _: &Uuid, topic: &str) {
        self.tell(Told::Unsubscribed(topic.into()));
    }

    fn output(&self, _: &Uuid, stream: Stream, data: &[u8]) {
        self.tell(Told::Output(stream, data.into()));
    }

    fn ended(&self, _: &Uuid, end: End) {
        self.tell(Told::Ended(end));
    }
}

/// A running module, and the calls to its host.
struct Run {
    running: Box<dyn Running>,
    told: Receiver<Told>,
    host: Arc<Teller>,
}

impl Run {
    fn next(&self) -> Told {
        self.told
            .recv_timeout(PATIENCE)
            .expect("the host is told something")
    }

    /// All calls up to the end, which is the last one.
    fn rest(&self) -> (Vec<Told>, End) {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Told::Ended(end) => return (all, end),
                told => all.push(told),
            }
        }
    }

    fn deliver(&self, topic: &str, payload: &[u8]) {
        self.running
            .deliver(topic, &Bytes::copy_from_slice(payload));
    }
}

fn limits() -> Limits {
    Limits {
        memory: 4 << 20,
        table_elements: 10_000,
        open_files: 8,
        waiting_messages: 4,
        message: 64 << 10,
        messages_per_second: 0,
        output_per_second: 0,
        code: 1 << 20,
    }
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("a module")
}

/// A module of `tests/data/arena/wat`.
fn module(name: &str) -> Vec<u8> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/arena/wat")
        .join(format!("{name}.wat"));
    wat(&std::fs::read_to_string(path).expect("the module is there"))
}

fn open(path: &str, mode: Mode, topic: &str) -> Channel {
    Channel::new(path, mode, topic).expect("a path and a topic")
}

fn spec(code: Vec<u8>) -> Spec {
    Spec {
        uuid: "module-1".parse().expect("an id"),
        code,
        argv: vec!["one".into(), "two words".into()],
        program: "test.wasm".into(),
        env: vec!["NAME=value".into(), "EMPTY=".into()],
        channels: vec![
            open("in", Mode::Read, "realm/in"),
            open("out", Mode::Write, "realm/out"),
        ],
        stdin: false,
        limits: limits(),
    }
}

fn try_start(spec: Spec, room: usize) -> Result<Run, String> {
    let (to, told) = channel();
    let host = Arc::new(Teller {
        to: Mutex::new(to),
        room: Mutex::new(room),
    });
    let running = interpreter().start(spec, host.clone())?;
    Ok(Run {
        running,
        told,
        host,
    })
}

fn start(spec: Spec) -> Run {
    try_start(spec, usize::MAX).expect("it starts")
}

fn refused(spec: Spec) -> String {
    match try_start(spec, usize::MAX) {
        Err(why) => why,
        Ok(_) => panic!("it is started"),
    }
}

fn exited(code: i32) -> End {
    End {
        status: ExitStatus::Exited,
        code: Some(code),
        reason: String::new(),
    }
}

fn deleted() -> End {
    End {
        status: ExitStatus::Deleted,
        code: None,
        reason: String::new(),
    }
}

fn out(text: &str) -> Told {
    Told::Output(Stream::Stdout, text.into())
}

/// The whole output of a stream.
fn text(told: &[Told], wanted: Stream) -> String {
    let mut all = Vec::new();
    for told in told {
        if let Told::Output(stream, data) = told
            && *stream == wanted
        {
            all.extend_from_slice(data);
        }
    }
    String::from_utf8(all).expect("text")
}
