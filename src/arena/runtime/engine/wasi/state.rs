//! All that belongs to one module while it runs, apart from its code: open files, output, rates. Owned by its thread.

use super::errno::{Errno, Fault};
use super::files::Files;
use crate::runtime::engine::inbox::{Inbox, Waited};
use crate::runtime::engine::limits::{Rate, Retry, Room};
use crate::runtime::engine::output::Lines;
use crate::runtime::engine::{Host, Spec};
use crate::wire::{Channel, Stream, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What handing on a piece of output costs beyond its bytes: it becomes a message.
const PIECE_COST: u32 = 128;

/// The state of a module.
pub(in crate::runtime::engine) struct State {
    /// Who it is.
    pub(in crate::runtime::engine) uuid: Uuid,
    /// Its arguments, the program first, each with a NUL at its end.
    pub(super) argv: Vec<Vec<u8>>,
    /// Its environment, each entry with a NUL at its end.
    pub(super) env: Vec<Vec<u8>>,
    /// Its channels.
    pub(super) channels: Vec<Channel>,
    /// Its open files.
    pub(super) files: Files,
    /// Bytes of its largest message.
    pub(super) largest: usize,
    /// What it shares with the outside world.
    pub(in crate::runtime::engine) inbox: Arc<Inbox>,
    /// Limits of memory and tables.
    pub(in crate::runtime::engine) room: Room,
    /// Its memory, once it is there.
    pub(in crate::runtime::engine) memory: Option<wasmi::Memory>,
    /// Cost of the function that it called last, in fuel.
    pub(super) cost: u64,
    /// When it began.
    pub(super) began: Instant,
    host: Arc<dyn Host>,
    out: Lines,
    err: Lines,
    publishing: Rate,
    /// When a host without room is asked again.
    retry: Retry,
    writing: Rate,
    /// Topics that it reads, and how often.
    topics: BTreeMap<Arc<str>, usize>,
    /// Since when the interpreter works.
    working: Instant,
}

/// Text with a NUL at its end.
fn with_nul(text: &str) -> Vec<u8> {
    let mut raw = text.as_bytes().to_vec();
    raw.push(0);
    raw
}

impl State {
    /// The state before it runs.
    ///
    /// # Errors
    /// An argument or a variable holds a NUL, which would cut it.
    pub(in crate::runtime::engine) fn new(
        spec: &Spec,
        host: Arc<dyn Host>,
        inbox: Arc<Inbox>,
    ) -> Result<State, String> {
        let words = || [&spec.program].into_iter().chain(&spec.argv);
        if words().chain(&spec.env).any(|word| word.contains('\0')) {
            return Err("an argument or variable holds a NUL".into());
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
            room: Room::new(spec.limits.memory, spec.limits.table_elements),
            memory: None,
            cost: 0,
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

    /// The interpreter begins to work.
    pub(in crate::runtime::engine) fn resume(&mut self) {
        self.working = Instant::now();
    }

    /// The interpreter rests: what it has worked is noted.
    pub(in crate::runtime::engine) fn pause(&mut self) {
        let now = Instant::now();
        self.inbox
            .worked(now.saturating_duration_since(self.working));
        self.working = now;
    }

    /// Time that the interpreter has worked, now included.
    pub(super) fn worked(&self) -> Duration {
        self.inbox.figures().cpu + self.working.elapsed()
    }

    /// Waits for something while the interpreter rests. What the module has written is handed on before.
    pub(super) fn rest<T>(&mut self, wait: impl FnOnce(&Inbox) -> T) -> Result<T, Fault> {
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

    /// Waits until a moment.
    fn sleep_until(&mut self, moment: Instant) -> Result<(), Fault> {
        match self.idle(|inbox| inbox.wait_any(&[], Some(moment))) {
            Waited::Stopped => Err(Fault::Stopped),
            Waited::Ready(()) | Waited::Late => Ok(()),
        }
    }

    /// Publishes a message on a topic, as soon as its rate and its host allow; `nonblock`: now or not at all.
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
            self.rest(|_| ())?;
            self.sleep_until(next)?;
        }
    }

    /// When it may publish again, as its rate and its host allow; `None` is now.
    pub(super) fn publish_at(&self, now: Instant) -> Option<Instant> {
        self.publishing.ready_at(now).max(self.retry.ready_at(now))
    }

    /// Whether its host lets modules use a topic.
    pub(super) fn allows(&self, topic: &str) -> bool {
        self.host.allows(topic)
    }

    /// A reader of a topic: the first one subscribes, which counts as a message.
    pub(super) fn subscribe(&mut self, topic: Arc<str>) -> Result<(), Fault> {
        if !self.topics.contains_key(&topic) {
            while let Some(ready) = self.publishing.ready_at(Instant::now()) {
                self.rest(|_| ())?;
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

    /// One reader less; the last one unsubscribes.
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

    /// Hands on what is due of a stream, or all of it, as soon as its rate allows.
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
                None => self.hand_on(stream, due, now),
            }
        }
    }

    fn hand_on(&mut self, stream: Stream, octets: usize, now: Instant) {
        let data = self.lines(stream).take(octets, now);
        let units = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let units = units.saturating_add(PIECE_COST);
        self.writing.take(units, now);
        self.host.output(&self.uuid, stream, &data);
    }

    /// Between two slices: hands on what has waited long enough. `false`: the module is to end.
    pub(in crate::runtime::engine) fn between_slices(&mut self) -> bool {
        let flushed = self
            .flush(Stream::Stdout, false)
            .and_then(|()| self.flush(Stream::Stderr, false));
        flushed.is_ok() && !self.inbox.stopped()
    }

    /// After the end: hands on what is left of the output, and gives up its topics.
    pub(in crate::runtime::engine) fn finish(&mut self) {
        let now = Instant::now();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let left = self.lines(stream).len();
            if left > 0 {
                self.hand_on(stream, left, now);
            }
        }
        for topic in std::mem::take(&mut self.topics).into_keys() {
            self.host.unsubscribe(&self.uuid, &topic);
        }
    }
}
