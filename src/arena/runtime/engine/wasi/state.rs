//! The state of a running module apart from its code: open files, output, rates. Owned by its thread.

use super::errno::{Errno, Fault};
use super::files::Files;
use crate::runtime::engine::inbox::{Inbox, WaitResult};
use crate::runtime::engine::limits::{MemoryLimiter, Rate, Retry};
use crate::runtime::engine::output::Lines;
use crate::runtime::engine::{Host, Spec};
use crate::wire::{Channel, Stream, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What passing on a piece of output costs beyond its bytes: it becomes a message.
const PIECE_COST: u32 = 128;

/// The state of a module.
pub(in crate::runtime::engine) struct State {
    /// The module's uuid.
    pub(in crate::runtime::engine) uuid: Uuid,
    /// Its arguments, starting with the program's name, each terminated by NUL.
    pub(super) argv: Vec<Vec<u8>>,
    /// Its environment, each entry terminated by NUL.
    pub(super) env: Vec<Vec<u8>>,
    /// Its channels.
    pub(super) channels: Vec<Channel>,
    /// Its open files.
    pub(super) files: Files,
    /// Size limit of its messages, in bytes.
    pub(super) largest: usize,
    /// The state shared with the rest of the program.
    pub(in crate::runtime::engine) inbox: Arc<Inbox>,
    /// Limits of memory and tables.
    pub(in crate::runtime::engine) room: MemoryLimiter,
    /// Its memory, once it exists.
    pub(in crate::runtime::engine) memory: Option<wasmi::Memory>,
    /// When it started.
    pub(super) began: Instant,
    host: Arc<dyn Host>,
    out: Lines,
    err: Lines,
    publishing: Rate,
    /// When to try again if the host has no room.
    retry: Retry,
    writing: Rate,
    /// Topics that it reads, and how often each is open.
    topics: BTreeMap<Arc<str>, usize>,
    /// Since when the interpreter runs.
    working: Instant,
}

/// Text terminated by NUL.
fn with_nul(text: &str) -> Vec<u8> {
    let mut raw = text.as_bytes().to_vec();
    raw.push(0);
    raw
}

impl State {
    /// The state before the start.
    ///
    /// # Errors
    /// An argument or a variable contains a NUL, which would truncate it.
    pub(in crate::runtime::engine) fn new(
        spec: &Spec,
        host: Arc<dyn Host>,
        inbox: Arc<Inbox>,
    ) -> Result<State, String> {
        let words = || [&spec.program].into_iter().chain(&spec.argv);
        if words().chain(&spec.env).any(|word| word.contains('\0')) {
            return Err("an argument or variable contains a NUL".into());
        }
        let stdin = inbox.open(None);
        if !spec.stdin {
            inbox.end(stdin);
        }
        let now = Instant::now();
        Ok(State {
            uuid: spec.uuid.clone(),
            argv: words().map(|word| with_nul(word)).collect(),
            env: spec.env.iter().map(|word| with_nul(word)).collect(),
            channels: spec.channels.clone(),
            files: Files::new(stdin, spec.limits.open_files),
            largest: spec.limits.message,
            inbox,
            room: MemoryLimiter::new(spec.limits.memory, spec.limits.table_elements),
            memory: None,
            began: now,
            host,
            out: Lines::default(),
            err: Lines::default(),
            publishing: Rate::new(spec.limits.messages_per_second),
            retry: Retry::default(),
            writing: Rate::new(spec.limits.output_per_second),
            topics: BTreeMap::new(),
            working: now,
        })
    }

    /// The interpreter starts or resumes.
    pub(in crate::runtime::engine) fn resume(&mut self) {
        self.working = Instant::now();
    }

    /// The interpreter pauses: adds the time that it ran.
    pub(in crate::runtime::engine) fn pause(&mut self) {
        let now = Instant::now();
        self.inbox
            .worked(now.saturating_duration_since(self.working));
        self.working = now;
    }

    /// Time that the interpreter ran, including the current slice.
    pub(super) fn worked(&self) -> Duration {
        self.inbox.figures().cpu + self.working.elapsed()
    }

    /// Waits for something while the interpreter pauses. Passes on the module's output first.
    pub(super) fn wait_paused<T>(&mut self, wait: impl FnOnce(&Inbox) -> T) -> Result<T, Fault> {
        self.flush(Stream::Stdout, true)?;
        self.flush(Stream::Stderr, true)?;
        Ok(self.idle(wait))
    }

    fn idle<T>(&mut self, wait: impl FnOnce(&Inbox) -> T) -> T {
        self.pause();
        let found = wait(&self.inbox);
        self.resume();
        found
    }

    /// Waits until a point in time.
    fn sleep_until(&mut self, moment: Instant) -> Result<(), Fault> {
        match self.idle(|inbox| inbox.wait_any(&[], Some(moment))) {
            WaitResult::Stopped => Err(Fault::Stopped),
            WaitResult::Ready(()) | WaitResult::Late => Ok(()),
        }
    }

    /// Publishes a message as soon as rate and host allow; with `nonblock`, now or not at all.
    pub(super) fn publish(
        &mut self,
        topic: &str,
        payload: &[u8],
        nonblock: bool,
    ) -> Result<(), Fault> {
        loop {
            let now = Instant::now();
            let next = match self.publish_at(now) {
                Some(ready) => ready,
                None if self.host.publish(&self.uuid, topic, payload) => {
                    self.publishing.take(1, now);
                    self.retry = Retry::default();
                    self.inbox.touch();
                    return Ok(());
                }
                None => self.retry.refused(now),
            };
            if nonblock {
                return Err(Errno::Again.into());
            }
            self.wait_paused(|_| ())?;
            self.sleep_until(next)?;
        }
    }

    /// When rate and host allow the next message; `None` is now.
    pub(super) fn publish_at(&self, now: Instant) -> Option<Instant> {
        self.publishing.ready_at(now).max(self.retry.ready_at(now))
    }

    /// Whether the host allows modules to use a topic.
    pub(super) fn allows(&self, topic: &str) -> bool {
        self.host.allows(topic)
    }

    /// Adds a reader of a topic: the first one subscribes, which counts as a message.
    pub(super) fn subscribe(&mut self, topic: Arc<str>) -> Result<(), Fault> {
        if !self.topics.contains_key(&topic) {
            while let Some(ready) = self.publishing.ready_at(Instant::now()) {
                self.wait_paused(|_| ())?;
                self.sleep_until(ready)?;
            }
            self.publishing.take(1, Instant::now());
        }
        let readers = self.topics.entry(topic.clone()).or_default();
        *readers += 1;
        if *readers == 1 {
            self.host.subscribe(&self.uuid, &topic);
        }
        Ok(())
    }

    /// Removes a reader; the last one unsubscribes.
    pub(super) fn unsubscribe(&mut self, topic: &str) {
        match self.topics.get_mut(topic) {
            Some(readers) if *readers > 1 => *readers -= 1,
            Some(_) => {
                self.topics.remove(topic);
                self.host.unsubscribe(&self.uuid, topic);
            }
            None => {}
        }
    }

    fn lines(&mut self, stream: Stream) -> &mut Lines {
        match stream {
            Stream::Stderr => &mut self.err,
            Stream::Stdin | Stream::Stdout | Stream::Both => &mut self.out,
        }
    }

    /// Writes to a standard stream.
    pub(super) fn write(&mut self, stream: Stream, mut data: &[u8]) -> Result<(), Fault> {
        while !data.is_empty() {
            let taken = self.lines(stream).push(data, Instant::now());
            data = data.get(taken..).unwrap_or_default();
            self.flush(stream, false)?;
        }
        Ok(())
    }

    /// Passes on the output of a stream that is due, or all of it, as soon as the rate allows.
    fn flush(&mut self, stream: Stream, all: bool) -> Result<(), Fault> {
        loop {
            let now = Instant::now();
            let lines = self.lines(stream);
            let due = if all { lines.len() } else { lines.due(now) };
            if due == 0 {
                return Ok(());
            }
            match self.writing.ready_at(now) {
                Some(ready) => self.sleep_until(ready)?,
                None => self.emit_output(stream, due, now),
            }
        }
    }

    fn emit_output(&mut self, stream: Stream, bytes: usize, now: Instant) {
        let data = self.lines(stream).take(bytes, now);
        let units = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let units = units.saturating_add(PIECE_COST);
        self.writing.take(units, now);
        self.host.output(&self.uuid, stream, &data);
    }

    /// Between two slices: passes on output that has waited long enough. `false` if the module must end.
    pub(in crate::runtime::engine) fn between_slices(&mut self) -> bool {
        let flushed = self
            .flush(Stream::Stdout, false)
            .and_then(|()| self.flush(Stream::Stderr, false));
        flushed.is_ok() && !self.inbox.stopped()
    }

    /// After the end: passes on the rest of the output, and unsubscribes from its topics.
    pub(in crate::runtime::engine) fn finish(&mut self) {
        let now = Instant::now();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let left = self.lines(stream).len();
            if left > 0 {
                self.emit_output(stream, left, now);
            }
        }
        for topic in std::mem::take(&mut self.topics).into_keys() {
            self.host.unsubscribe(&self.uuid, &topic);
        }
    }
}
