//! State shared by the thread of a module and the rest of the program: unread messages, the request to end, and usage
//! figures.

use super::{Figures, Limits};
use bytes::Bytes;
use halite_sys::time::since_epoch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A reader: an open channel, or standard input.
pub(super) type ReaderId = u32;

/// Result of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaitResult<T> {
    /// The thing waited for.
    Ready(T),
    /// Timed out.
    Late,
    /// The module must end.
    Stopped,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// A message, or as much of it as was requested.
    Data(Bytes),
    /// End of file.
    End,
}

/// The shared state of one module.
pub(super) struct Inbox {
    inner: Mutex<Inner>,
    woken: Condvar,
    /// Signalled when something has been read.
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
    bytes: u64,
    most_messages: usize,
    max_bytes: u64,
    largest: usize,
}

/// Unread messages of one reader, each with its sequence number across all readers.
struct Reader {
    /// The topic; `None` for standard input.
    topic: Option<Arc<str>>,
    queue: VecDeque<(u64, Bytes)>,
    ended: bool,
}

impl Inbox {
    /// An inbox with these limits. Unread messages may take as many bytes in total as the module has memory.
    pub(super) fn new(limits: &Limits) -> Inbox {
        let inner = Inner {
            stop: false,
            readers: BTreeMap::new(),
            next_reader: 0,
            next_message: 0,
            messages: 0,
            bytes: 0,
            most_messages: limits.waiting_messages,
            max_bytes: limits.memory,
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

    /// Opens a reader of a topic, or of standard input if there is no topic.
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

    /// Closes a reader and drops its unread messages.
    pub(super) fn close(&self, id: ReaderId) {
        let mut inner = self.lock();
        if let Some(reader) = inner.readers.remove(&id) {
            inner.messages = inner.messages.saturating_sub(reader.queue.len());
            let bytes: u64 = reader.queue.iter().map(|(_, b)| b.len() as u64).sum();
            inner.bytes = inner.bytes.saturating_sub(bytes);
        }
        drop(inner);
        self.read.notify_all();
    }

    /// Delivers a message to all readers of a topic. Empty messages are ignored: reading one would look like the end
    /// of a file.
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

    /// Appends to standard input; an empty message ends it.
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

    /// Waits until this many bytes of standard input fit beside the unread messages, or nobody reads it.
    pub(super) fn wait_for_room(&self, bytes: usize) {
        let mut inner = self.lock();
        while !inner.stop && inner.reads_input() && !inner.has_room(bytes) {
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

    /// Marks a reader as ended: end of file once its unread messages were read.
    pub(super) fn end(&self, id: ReaderId) {
        self.lock().end(id);
        self.woken.notify_all();
        self.read.notify_all();
    }

    /// Tells the module to end, and wakes it if it waits.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.woken.notify_all();
        self.read.notify_all();
    }

    /// Whether the module must end.
    pub(super) fn stopped(&self) -> bool {
        self.lock().stop
    }

    /// Takes up to `most` bytes of a reader's oldest message; `None` if there is none yet. End of file once the module
    /// must end.
    pub(super) fn take(&self, id: ReaderId, most: usize) -> Option<ReadResult> {
        let found = self.lock().take(id, most);
        self.read.notify_all();
        found
    }

    /// Waits until a reader has data, and takes it like [`Inbox::take`].
    pub(super) fn wait_take(&self, id: ReaderId, most: usize) -> ReadResult {
        let found = self.wait(None, |inner| inner.take(id, most));
        self.read.notify_all();
        match found {
            WaitResult::Ready(found) => found,
            WaitResult::Late | WaitResult::Stopped => ReadResult::End,
        }
    }

    /// Waits until one of several readers has data or has ended, or until a point in time.
    pub(super) fn wait_any(&self, ids: &[ReaderId], until: Option<Instant>) -> WaitResult<()> {
        self.wait(until, |inner| {
            ids.iter()
                .any(|id| inner.waiting(*id).is_some())
                .then_some(())
        })
    }

    /// Bytes available to a read: the rest of the oldest message, 0 at the end of file; `None` if it would block.
    pub(super) fn waiting(&self, id: ReaderId) -> Option<usize> {
        self.lock().waiting(id)
    }

    fn wait<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut Inner) -> Option<T>,
    ) -> WaitResult<T> {
        let mut inner = self.lock();
        loop {
            if inner.stop {
                return WaitResult::Stopped;
            }
            if let Some(found) = ready(&mut inner) {
                return WaitResult::Ready(found);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            inner = match left {
                Some(Duration::ZERO) => return WaitResult::Late,
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

    /// Adds to the time that the interpreter has run.
    pub(super) fn worked(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy.fetch_add(nanos, Relaxed);
    }

    /// Sets the size of the linear memory in bytes.
    pub(super) fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Relaxed);
    }

    /// Records that a channel was read or written now.
    pub(super) fn touch(&self) {
        let millis = since_epoch().as_millis();
        self.active
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
    }

    /// The resources used so far.
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

    /// Whether standard input has a reader.
    fn reads_input(&self) -> bool {
        let reads = |reader: &Reader| reader.topic.is_none() && !reader.ended;
        self.readers.values().any(reads)
    }

    /// Whether a message fits beside the unread ones.
    fn has_room(&self, bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes as u64);
        self.messages < self.most_messages && bytes <= self.max_bytes
    }

    /// Appends a message; returns how many messages were dropped for it.
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
        self.bytes += payload.len() as u64;
        let mut lost = 0;
        while self.messages > self.most_messages || self.bytes > self.max_bytes {
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
            self.bytes = self.bytes.saturating_sub(message.len() as u64);
        }
        true
    }

    fn end(&mut self, id: ReaderId) {
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.ended = true;
        }
    }

    fn take(&mut self, id: ReaderId, most: usize) -> Option<ReadResult> {
        if self.stop {
            return Some(ReadResult::End);
        }
        let Some(reader) = self.readers.get_mut(&id) else {
            return Some(ReadResult::End);
        };
        let Some((_, message)) = reader.queue.front_mut() else {
            return reader.ended.then_some(ReadResult::End);
        };
        let data = message.split_to(most.min(message.len()));
        self.bytes = self.bytes.saturating_sub(data.len() as u64);
        if message.is_empty() {
            reader.queue.pop_front();
            self.messages = self.messages.saturating_sub(1);
        }
        Some(ReadResult::Data(data))
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
