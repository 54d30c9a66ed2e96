//! Output of modules: the last lines of each for `arena.logs`, and batches of lines for events. Does no IO.
//!
//! Output is split into lines, because reactors work on lines. Everything is bounded: the length of a line, the lines
//! and bytes stored per module and in total, and the lines that become events per second. What is dropped is counted.

use crate::wire::{Stream, Uuid};
use halite_config::ArenaGateway;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Longest line in bytes; the rest becomes a line of its own.
const LINE: usize = 4096;
/// Bytes of lines stored per module, and in total.
const KEPT: usize = 256 << 10;
const KEPT_OF_ALL: usize = 64 << 20;
/// Bytes of lines in one event.
const EVENT: usize = 128 << 10;
/// An incomplete line counts as complete if nothing has followed for this long.
const REST: Duration = Duration::from_millis(500);
/// The window in which lines that become events are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Lines of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// The module that wrote them.
    pub uuid: Uuid,
    /// Whether they were written to standard error.
    pub stderr: bool,
    /// The lines, without newlines.
    pub lines: Vec<String>,
    /// Lines dropped since the last batch.
    pub dropped: u64,
}

/// The output of all modules.
pub(super) struct Output {
    log_lines: usize,
    event_lines: usize,
    all: HashMap<Uuid, Written>,
    /// Modules with new output for events.
    fresh: HashSet<Uuid>,
    /// Lines that did not become events.
    pub dropped: u64,
}

#[derive(Default)]
struct Written {
    kept: VecDeque<String>,
    bytes: usize,
    streams: [StreamState; 2],
    /// Start of the current window, and lines that became events since.
    window: Option<(Instant, usize)>,
    /// How often the module was sent to a runtime.
    sent: u32,
}

/// One stream.
#[derive(Default)]
struct StreamState {
    /// The incomplete line, and when it arrived.
    open: Vec<u8>,
    since: Option<Instant>,
    /// Lines for the next event.
    batch: Vec<String>,
    bytes: usize,
    dropped: u64,
}

impl Output {
    /// No output yet.
    pub fn new(settings: &ArenaGateway) -> Output {
        Output {
            log_lines: settings.log_lines,
            event_lines: settings.output_lines,
            all: HashMap::new(),
            fresh: HashSet::new(),
            dropped: 0,
        }
    }

    /// Records that a module was sent to a runtime.
    pub fn sent(&mut self, uuid: &Uuid) {
        let written = self.all.entry(uuid.clone()).or_default();
        written.sent = written.sent.saturating_add(1);
    }

    /// How often a module was sent again.
    pub fn restarts(&self, uuid: &Uuid) -> u32 {
        self.all.get(uuid).map_or(0, |w| w.sent.saturating_sub(1))
    }

    /// Adds output of a module.
    pub fn heard(&mut self, uuid: &Uuid, stream: Stream, bytes: &[u8], now: Instant) {
        let room = self.room();
        let written = self.all.entry(uuid.clone()).or_default();
        let at = usize::from(stream == Stream::Stderr);
        let mut lines = Vec::new();
        if let Some(part) = written.streams.get_mut(at) {
            for piece in bytes.split_inclusive(|b| *b == b'\n') {
                part.take(piece, &mut lines);
            }
            part.since = (!part.open.is_empty()).then_some(now);
        }
        for line in lines {
            self.dropped += written.line(at, line, now, (self.log_lines, room, self.event_lines));
        }
        self.fresh.insert(uuid.clone());
    }

    /// Handles the end of a module: completes its incomplete lines.
    pub fn ended(&mut self, uuid: &Uuid, now: Instant) {
        self.close(uuid, now, |_| true);
    }

    /// Takes the batches for events that have accumulated since the last call.
    pub fn take(&mut self, now: Instant) -> Vec<Batch> {
        let mut out = Vec::new();
        for uuid in std::mem::take(&mut self.fresh) {
            self.close(&uuid, now, |since| now.duration_since(since) >= REST);
            let Some(written) = self.all.get_mut(&uuid) else {
                continue;
            };
            let mut open = false;
            for (at, part) in written.streams.iter_mut().enumerate() {
                open |= part.since.is_some();
                let lines = std::mem::take(&mut part.batch);
                let dropped = std::mem::take(&mut part.dropped);
                part.bytes = 0;
                if !lines.is_empty() || dropped > 0 {
                    out.push(Batch {
                        uuid: uuid.clone(),
                        stderr: at == 1,
                        lines,
                        dropped,
                    });
                }
            }
            if open {
                self.fresh.insert(uuid);
            }
        }
        out
    }

    /// The last lines of a module, with newlines.
    pub fn tail(&self, uuid: &Uuid, lines: usize) -> String {
        let Some(written) = self.all.get(uuid) else {
            return String::new();
        };
        let skip = written.kept.len().saturating_sub(lines);
        let shown = written.kept.iter().skip(skip);
        shown.flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Forgets modules that are no longer known, and trims the output of the others to what each may have now.
    pub fn prune(&mut self, known: impl Fn(&Uuid) -> bool) {
        self.all.retain(|uuid, _| known(uuid));
        let room = self.room();
        for written in self.all.values_mut() {
            written.trim(self.log_lines, room);
        }
    }

    /// Bytes that may be stored per module: less if there are many.
    fn room(&self) -> usize {
        KEPT.min(KEPT_OF_ALL / self.all.len().max(1))
    }

    fn close(&mut self, uuid: &Uuid, now: Instant, which: impl Fn(Instant) -> bool) {
        let limits = (self.log_lines, self.room(), self.event_lines);
        let Some(written) = self.all.get_mut(uuid) else {
            return;
        };
        for at in 0..2 {
            let Some(part) = written.streams.get_mut(at) else {
                continue;
            };
            if part.since.is_some_and(&which) {
                let line = text(&std::mem::take(&mut part.open));
                part.since = None;
                self.dropped += written.line(at, line, now, limits);
                self.fresh.insert(uuid.clone());
            }
        }
    }
}

impl StreamState {
    /// Adds a piece that contains at most one newline.
    fn take(&mut self, mut piece: &[u8], lines: &mut Vec<String>) {
        while self.open.len() + piece.len() > LINE {
            let (head, rest) = piece.split_at((LINE - self.open.len()).min(piece.len()));
            self.open.extend_from_slice(head);
            piece = rest;
            // Only the newline is left of the line.
            if piece == b"\n" {
                piece = b"";
            }
            lines.push(text(&std::mem::take(&mut self.open)));
        }
        self.open.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            lines.push(text(&std::mem::take(&mut self.open)));
        }
    }
}

impl Written {
    /// Stores a line, and adds it to the next event if there is room; returns how many lines were dropped.
    fn line(
        &mut self,
        at: usize,
        line: String,
        now: Instant,
        (kept, room, event): (usize, usize, usize),
    ) -> u64 {
        let count = match self.window {
            Some((since, count)) if now.duration_since(since) < WINDOW => count,
            _ => {
                self.window = Some((now, 0));
                0
            }
        };
        let mut left = 1;
        if let Some(part) = self.streams.get_mut(at) {
            if count < event && part.bytes + line.len() <= EVENT {
                part.bytes += line.len();
                part.batch.push(line.clone());
                left = 0;
            } else {
                part.dropped += 1;
            }
        }
        if left == 0
            && let Some((_, count)) = &mut self.window
        {
            *count += 1;
        }
        self.bytes += line.len();
        self.kept.push_back(line);
        self.trim(kept, room);
        left
    }

    fn trim(&mut self, lines: usize, bytes: usize) {
        while self.kept.len() > lines || self.bytes > bytes {
            let Some(line) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= line.len();
        }
    }
}

/// A line as text, without its newline.
fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests;
