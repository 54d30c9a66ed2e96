//! WASM modules of ARENA.

use halite::arena::runtime::engine::{End, Host, Limits, Spec, attempt};
use halite::arena::wire::{Channel, ExitStatus, Mode, Stream, Uuid};
use std::sync::Arc;

/// Steps that a module may take.
const FUEL: u64 = 10_000;

/// A host that takes everything.
struct Taker;

impl Host for Taker {
    fn allows(&self, _: &str) -> bool {
        true
    }

    fn publish(&self, _: &Uuid, topic: &str, payload: &[u8]) -> bool {
        assert!(topic.starts_with("realm/out") && payload.len() <= 1024);
        true
    }

    fn subscribe(&self, _: &Uuid, topic: &str) {
        assert!(topic.starts_with("realm/in"), "{topic}");
    }

    fn unsubscribe(&self, _: &Uuid, topic: &str) {
        assert!(topic.starts_with("realm/in"), "{topic}");
    }

    fn output(&self, _: &Uuid, _: Stream, data: &[u8]) {
        assert!(!data.is_empty() && data.len() <= 4096);
    }

    fn ended(&self, _: &Uuid, _: End) {
        unreachable!("nobody runs it to its end");
    }
}

fn channel(path: &str, mode: Mode, topic: &str) -> Channel {
    Channel::new(path, mode, topic).expect("a path and a topic")
}

/// Any octets as a module: it is refused, or runs for a while with its channels and nothing else.
pub fn arena_module(data: &[u8]) {
    let spec = Spec {
        uuid: "fuzzed".parse().expect("an id"),
        code: data.to_vec(),
        argv: vec!["one".into()],
        program: "fuzzed.wasm".into(),
        env: vec!["NAME=value".into()],
        channels: vec![
            channel("in", Mode::Read, "realm/in"),
            channel("out", Mode::Write, "realm/out"),
        ],
        stdin: true,
        limits: Limits {
            memory: 256 << 10,
            table_elements: 1000,
            open_files: 4,
            waiting_messages: 4,
            message: 1024,
            messages_per_second: 0,
            output_per_second: 0,
            code: 64 << 10,
        },
    };
    if let Ok(end) = attempt(&spec, Arc::new(Taker), FUEL) {
        assert_eq!(end.status, ExitStatus::Deleted, "{end:?}");
    }
}
