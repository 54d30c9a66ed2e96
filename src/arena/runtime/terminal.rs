//! Runs a module in a terminal for testing: no broker, no orchestrator.

use super::engine::{End, Engine, Host, Running, Spec};
use crate::wire::{ExitStatus, Stream, Uuid};
use bytes::Bytes;
use crossbeam_channel::{Sender, bounded};
use halite_sys::signals::StopFlag;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// How often signals are checked.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes per read.
const PIECE: usize = 64 << 10;

/// Standard streams are those of this process; published messages are shown on standard error.
struct Terminal {
    ended: Sender<End>,
}

impl Host for Terminal {
    fn allows(&self, _: &str) -> bool {
        true
    }

    fn publish(&self, _: &Uuid, topic: &str, payload: &[u8]) -> bool {
        eprintln!("[{topic}] {}", String::from_utf8_lossy(payload));
        true
    }

    fn subscribe(&self, _: &Uuid, topic: &str) {
        log::info!("the module listens to {topic}");
    }

    fn unsubscribe(&self, _: &Uuid, topic: &str) {
        log::info!("the module no longer listens to {topic}");
    }

    fn output(&self, _: &Uuid, stream: Stream, data: &[u8]) {
        // It is not the module's fault if nobody reads its output.
        let _ = match stream {
            Stream::Stderr => io::stderr().write_all(data),
            _ => {
                let mut out = io::stdout();
                out.write_all(data).and_then(|()| out.flush())
            }
        };
    }

    fn ended(&self, _: &Uuid, end: End) {
        let _ = self.ended.send(end);
    }
}

/// Runs a module until it ends or a signal ends it.
///
/// # Errors
/// It cannot be started; the reason is readable text.
pub fn try_out(spec: Spec, engine: &dyn Engine, stop: &StopFlag) -> Result<End, String> {
    let (sender, ended) = bounded(1);
    let terminal = Arc::new(Terminal { ended: sender });
    let memory = usize::try_from(spec.limits.memory).unwrap_or(usize::MAX);
    let piece = PIECE.min(spec.limits.message).min(memory);
    let running: Arc<dyn Running> = Arc::from(engine.start(spec, terminal)?);
    let input = running.clone();
    // Stops with the process: a read from a terminal cannot be interrupted.
    let reader = std::thread::Builder::new().name("stdin".into());
    let reader = reader.spawn(move || {
        let (mut stdin, mut piece) = (io::stdin(), vec![0; piece]);
        while let Ok(count) = stdin.read(&mut piece) {
            // A pipe can be made to wait; input from a broker cannot.
            input.wait_for_room(count);
            // An empty read is the end of input, here and in modules.
            input.input(&Bytes::copy_from_slice(
                piece.get(..count).unwrap_or_default(),
            ));
            if count == 0 {
                return;
            }
        }
    });
    reader.map_err(|e| e.to_string())?;
    loop {
        if stop.is_set() {
            running.stop();
        }
        if let Ok(end) = ended.recv_timeout(LOOK) {
            return Ok(end);
        }
    }
}

/// The exit status that a shell would report for the end of a module.
pub fn exit_status(end: &End) -> i32 {
    match (end.status, end.code) {
        (ExitStatus::Exited, code) => code.unwrap_or(0),
        // As after TERM, ABRT and KILL.
        (ExitStatus::Deleted, _) => 143,
        (ExitStatus::Crashed, _) => 134,
        (ExitStatus::Killed, _) => 137,
    }
}
