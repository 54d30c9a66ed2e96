//! What the outside world and the thread of a module share: messages that wait to be read, the wish to end, and figures.

use super::{Figures, Limits};
use bytes::Bytes;
use halite_sys::time::since_epoch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Something that is read: an open channel, or standard input.
pub(super) type ReaderId = u32;

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    /// What was waited for is there.
    Ready(T),
    /// The time is over.
    Late,
    /// The module is to end.
    Stopped,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A message, or as much of it as was asked for.
    Data(Bytes),
    /// Nothing more will come.
    End,
}

/// The shared state of one module.
pub(super) struct Inbox {
    inner: Mutex<Inner>,
    woken: Condvar,
    /// Something has been read.
    read: Condvar,
    busy: AtomicU64,
    memory: AtomicU64,
    active: AtomicU64,
    dropped: AtomicU64,
}

struct Inner {
    stop: bool,
    readers: BTreeMap<ReaderId, Reader>,
    next_reader: ReaderId,
    next_message: u64,
    messages: usize,
    octets: u64,
    most_messages: usize,
    most_octets: u64,
    largest: usize,
}

/// Messages for one reader, each with its number among all.
struct Reader {
    /// The topic; none is standard input.
    topic: Option<Arc<str>>,
    queue: VecDeque<(u64, Bytes)>,
    ended: bool,
}

impl Inbox {
    /// An inbox with these limits. Messages that wait may hold as many bytes together as the module has memory.
    pub(super) fn new(limits: &Limits) -> Inbox {
        let inner = Inner {
            stop: false,
            readers: BTreeMap::new(),
            next_reader: 0,
            next_message: 0,
            messages: 0,
            octets: 0,
            most_messages: limits.waiting_messages,
            most_octets: limits.memory,
            largest: limits.message,
        };
        Inbox {
            inner: Mutex::new(inner),
            woken: Condvar::new(),
            read: Condvar::new(),
            busy: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            active: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new reader of a topic; without a topic, of standard input.
    pub(super) fn open(&self, topic: Option<Arc<str>>) -> ReaderId {
        let mut inner = self.lock();
        let id = inner.next_reader;
        inner.next_reader = id.wrapping_add(1);
        let reader = Reader {
            topic,
            queue: VecDeque::new(),
            ended: false,
        };
        inner.readers.insert(id, reader);
        id
    }

    /// Ends a reader and forgets what waits for it.
    pub(super) fn close(&self, id: ReaderId) {
        let mut inner = self.lock();
        if let Some(reader) = inner.readers.remove(&id) {
            inner.messages = inner.messages.saturating_sub(reader.queue.len());
            let octets: u64 = reader.queue.iter().map(|(_, b)| b.len() as u64).sum();
            inner.octets = inner.octets.saturating_sub(octets);
        }
        drop(inner);
        self.read.notify_all();
    }

    /// A message for all readers of a topic. Empty ones are passed over: read as nothing they would look like the end of a file.
    pub(super) fn deliver(&self, topic: &str, payload: &Bytes) {
        let mut inner = self.lock();
        let same = |reader: &Reader| reader.topic.as_deref() == Some(topic);
        let mut lost = 0;
        for id in inner.matching(same) {
            lost += inner.push(id, payload);
        }
        drop(inner);
        self.after(lost);
    }

    /// Something for standard input; an empty message ends it.
    pub(super) fn input(&self, data: &Bytes) {
        let mut inner = self.lock();
        let mut lost = 0;
        for id in inner.matching(|reader| reader.topic.is_none()) {
            if data.is_empty() {
                inner.end(id);
            } else {
                lost += inner.push(id, data);
            }
        }
        drop(inner);
        self.after(lost);
    }

    /// Waits until standard input of so many bytes has room beside what waits already, or nobody reads it.
    pub(super) fn wait_for_room(&self, octets: usize) {
        let mut inner = self.lock();
        while !inner.stop && inner.reads_input() && !inner.has_room(octets) {
            let woken = self.read.wait(inner);
            inner = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn after(&self, lost: u64) {
        if lost > 0 {
            self.dropped.fetch_add(lost, Relaxed);
        }
        self.woken.notify_all();
    }

    /// Makes a reader's end of file known, once what waits has been read.
    pub(super) fn end(&self, id: ReaderId) {
        self.lock().end(id);
        self.woken.notify_all();
        self.read.notify_all();
    }

    /// The module is to end; whoever waits is woken.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.woken.notify_all();
        self.read.notify_all();
    }

    /// Whether the module is to end.
    pub(super) fn stopped(&self) -> bool {
        self.lock().stop
    }

    /// Takes up to `most` bytes of the oldest message of a reader; `None` if there is none yet. The end once the module is to end.
    pub(super) fn take(&self, id: ReaderId, most: usize) -> Option<Found> {
        let found = self.lock().take(id, most);
        self.read.notify_all();
        found
    }

    /// Waits until there is something for a reader, and takes it as [`Inbox::take`] does.
    pub(super) fn wait_take(&self, id: ReaderId, most: usize) -> Found {
        let found = self.wait(None, |inner| inner.take(id, most));
        self.read.notify_all();
        match found {
            Waited::Ready(found) => found,
            Waited::Late | Waited::Stopped => Found::End,
        }
    }

    /// Waits until one of some readers has something, or has ended, or until a moment.
    pub(super) fn wait_any(&self, ids: &[ReaderId], until: Option<Instant>) -> Waited<()> {
        self.wait(until, |inner| {
            ids.iter()
                .any(|id| inner.waiting(*id).is_some())
                .then_some(())
        })
    }

    /// Bytes that a read would find: of the oldest message, 0 at the end; `None` if it would wait.
    pub(super) fn waiting(&self, id: ReaderId) -> Option<usize> {
        self.lock().waiting(id)
    }

    fn wait<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Waited<T> {
        let mut inner = self.lock();
        loop {
            if inner.stop {
                return Waited::Stopped;
            }
            if let Some(found) = ready(&mut inner) {
                return Waited::Ready(found);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            inner = match left {
                Some(Duration::ZERO) => return Waited::Late,
                Some(left) => {
                    let woken = self.woken.wait_timeout(inner, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let woken = self.woken.wait(inner);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Adds to the time that the interpreter has worked.
    pub(super) fn worked(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy.fetch_add(nanos, Relaxed);
    }

    /// Sets the size of the linear memory.
    pub(super) fn set_memory(&self, octets: u64) {
        self.memory.store(octets, Relaxed);
    }

    /// A channel has been read or written now.
    pub(super) fn touch(&self) {
        let millis = since_epoch().as_millis();
        self.active
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
    }

    /// What has been used so far.
    pub(super) fn figures(&self) -> Figures {
        let active = match self.active.load(Relaxed) {
            0 => None,
            millis => UNIX_EPOCH.checked_add(Duration::from_millis(millis)),
        };
        Figures {
            cpu: Duration::from_nanos(self.busy.load(Relaxed)),
            memory: self.memory.load(Relaxed),
            active,
            dropped: self.dropped.load(Relaxed),
        }
    }
}

impl Inner {
    fn matching(&self, fits: impl Fn(&Reader) -> bool) -> Vec<ReaderId> {
        let fitting = self.readers.iter().filter(|(_, reader)| fits(reader));
        fitting.map(|(id, _)| *id).collect()
    }

    /// Whether anybody reads standard input.
    fn reads_input(&self) -> bool {
        let reads = |reader: &Reader| reader.topic.is_none() && !reader.ended;
        self.readers.values().any(reads)
    }

    /// Whether a message has room beside what waits.
    fn has_room(&self, octets: usize) -> bool {
        let octets = self.octets.saturating_add(octets as u64);
        self.messages < self.most_messages && octets <= self.most_octets
    }

    /// Appends a message; how many were lost for it.
    fn push(&mut self, id: ReaderId, payload: &Bytes) -> u64 {
        if payload.is_empty() {
            return 0;
        }
        if payload.len() > self.largest {
            return 1;
        }
        let number = self.next_message;
        match self.readers.get_mut(&id) {
            Some(reader) if !reader.ended => reader.queue.push_back((number, payload.clone())),
            _ => return 0,
        }
        self.next_message += 1;
        self.messages += 1;
        self.octets += payload.len() as u64;
        let mut lost = 0;
        while self.messages > self.most_messages || self.octets > self.most_octets {
            if !self.drop_oldest() {
                break;
            }
            lost += 1;
        }
        lost
    }

    fn drop_oldest(&mut self) -> bool {
        let age = |reader: &Reader| reader.queue.front().map(|(number, _)| *number);
        let queues = self.readers.values_mut();
        let Some(oldest) = queues
            .filter(|r| !r.queue.is_empty())
            .min_by_key(|r| age(r))
        else {
            return false;
        };
        if let Some((_, message)) = oldest.queue.pop_front() {
            self.messages -= 1;
            self.octets = self.octets.saturating_sub(message.len() as u64);
        }
        true
    }

    fn end(&mut self, id: ReaderId) {
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.ended = true;
        }
    }

    fn take(&mut self, id: ReaderId, most: usize) -> Option<Found> {
        if self.stop {
            return Some(Found::End);
        }
        let Some(reader) = self.readers.get_mut(&id) else {
            return Some(Found::End);
        };
        let Some((_, message)) = reader.queue.front_mut() else {
            return reader.ended.then_some(Found::End);
        };
        let data = message.split_to(most.min(message.len()));
        self.octets = self.octets.saturating_sub(data.len() as u64);
        if message.is_empty() {
            reader.queue.pop_front();
            self.messages = self.messages.saturating_sub(1);
        }
        Some(Found::Data(data))
    }

    fn waiting(&self, id: ReaderId) -> Option<usize> {
        if self.stop {
            return Some(0);
        }
        let Some(reader) = self.readers.get(&id) else {
            return Some(0);
        };
        match reader.queue.front() {
            Some((_, message)) => Some(message.len()),
            None => reader.ended.then_some(0),
        }
    }
}
