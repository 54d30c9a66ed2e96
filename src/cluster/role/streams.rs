//! Jobs and data of minions: tells the others what is new here, and takes what they tell.

use super::{Cluster, Membership};
use crate::data::DataShare;
use crate::events::EventShare;
use crate::feed::News;
use crate::jobs::record::{JobRecord, Message};
use crate::jobs::{Inbox, Outbox, Recent};
use crate::link::{Channel, Cursor, Found, Link, StreamKind};
use crate::memory::StreamsMemory;
use crate::pieces::{Foreign, Voice};
use crate::record::Meta;
use crate::resync::first_jid;
use halite_config::{Acknowledge, MasterConfig};
use halite_crypto::ClusterSecret;
use halite_master::events::Bus;
use halite_store::Stores;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::time::unix_now;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// What is told about jobs.
const LOG: &str = "log";
const EARLY: &str = "job";
/// A job may have returns that come this much later than it started, in seconds.
const LONGEST_JOB: u64 = 86_400;
/// Pause after a stream could not be opened: the next time, the servers may choose another one for it.
const REOPENING: Duration = Duration::from_secs(1);
/// Pause after the servers did not take something: without a leader they say so at once.
const PAUSE: Duration = Duration::from_millis(250);
/// How far the clocks of an earlier and this start may differ, in seconds.
const SKEW: u64 = 5;

/// What the role has about the streams.
pub(super) struct Streams {
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) data: DataShare,
    pub(super) events: EventShare,
    /// As a member: how it tells, and how it understands.
    voice: Option<Voice>,
    /// The same for jobs that were just published.
    early: Option<Voice>,
    recent: Recent,
    is_following: bool,
    has_data: bool,
    /// When to open again what could not be opened.
    open_at: Option<Instant>,
    /// When to try again what the servers did not take.
    try_at: Option<Instant>,
    /// Whether a cursor has changed in memory since it was stored.
    is_cursor_new: bool,
    /// The last message about jobs that was taken.
    taken: u64,
    memory: StreamsMemory,
    file: PathBuf,
    /// When this process started, in Unix seconds.
    started: u64,
    twins: LogLimiter,
}

impl Streams {
    pub(super) fn new(config: &MasterConfig, stores: &Stores) -> Result<Streams, ExitError> {
        let file = StreamsMemory::path(&config.cluster_dir());
        let memory = StreamsMemory::read(&file)?.unwrap_or_default();
        let reached = SystemTime::UNIX_EPOCH + Duration::from_secs(memory.told);
        Ok(Streams {
            inbox: Inbox::new(config, stores.jobs.clone())?,
            outbox: Outbox::new(stores.jobs.clone(), reached.min(SystemTime::now())),
            data: DataShare::default(),
            events: EventShare::default(),
            voice: None,
            early: None,
            recent: Recent::default(),
            is_following: false,
            has_data: false,
            open_at: None,
            try_at: None,
            is_cursor_new: false,
            taken: 0,
            memory,
            file,
            started: unix_now(),
            twins: LogLimiter::default(),
        })
    }

    /// This master is a member of a bucket, as the start `origin`.
    pub(super) fn join(&mut self, secret: &ClusterSecret, id: &str, meta: &Meta, origin: &str) {
        let (mark, before) = (meta.mark.as_str(), &meta.before);
        if self.memory.bucket != mark {
            let is_refilled = before.contains(&self.memory.bucket);
            let earlier = std::mem::take(&mut self.memory);
            self.memory = StreamsMemory {
                bucket: mark.to_owned(),
                ..StreamsMemory::default()
            };
            if is_refilled {
                // The streams are lost, too: what is compared with the others is what they tell for the first time.
                self.memory.heard = earlier.heard;
                self.memory.resync = earlier.resync;
                self.memory.announce = earlier.announce;
            }
            self.outbox.forget();
            self.voice = None;
        }
        if self.voice.is_none() {
            self.events.join(secret, mark, origin);
            self.voice = Some(Voice::new(secret, mark, LOG, origin));
            self.early = Some(Voice::new(secret, mark, EARLY, origin));
        }
        self.data.join(secret, mark, id);
    }

    /// Whether the streams are open.
    pub(super) fn is_open(&self) -> bool {
        self.is_following && self.has_data
    }

    /// The streams that are not open, and where this master was in them.
    pub(super) fn closed(&self) -> Vec<(StreamKind, Cursor)> {
        let all = [
            (self.is_following, StreamKind::Jobs, &self.memory.jobs),
            (self.has_data, StreamKind::Data, &self.memory.data),
        ];
        let closed = all.into_iter().filter(|(is_open, ..)| !is_open);
        closed
            .map(|(_, kind, cursor)| (kind, cursor.clone()))
            .collect()
    }

    /// A message about jobs that was sent at `at` was taken.
    fn heard_at(&mut self, at: u64) {
        // Clocks differ.
        self.memory.heard = at.min(unix_now()).max(self.memory.heard);
    }

    /// The last message of a stream that was taken.
    pub(super) fn taken(&self, kind: StreamKind) -> u64 {
        match kind {
            StreamKind::Jobs => self.taken,
            StreamKind::Data => self.memory.data.sequence,
        }
    }

    /// What jobs are still to be compared, since when.
    pub(super) fn resync(&self) -> Option<u64> {
        self.memory.resync
    }

    /// They are compared.
    pub(super) fn compared(&mut self) {
        (self.memory.resync, self.memory.announce) = (None, None);
        self.is_cursor_new = true;
    }

    /// Another master has what this one lacks.
    pub(super) fn fetched(
        &mut self,
        peer: &str,
        record: JobRecord,
        bus: &mut Bus,
    ) -> io::Result<()> {
        let first = self.memory.announce.map(first_jid);
        match first.is_some_and(|first| record.jid >= first) {
            true => self.inbox.store(peer, record, bus).map(drop),
            false => self.inbox.known.store(peer, record).map(drop),
        }
    }

    /// A stream could not be opened, or is not open any more.
    pub(super) fn not_following(&mut self, kind: StreamKind) {
        match kind {
            StreamKind::Jobs => self.is_following = false,
            StreamKind::Data => self.has_data = false,
        }
        self.open_at = Some(Instant::now() + REOPENING);
    }

    /// Whether it is time to open it again; says so once.
    pub(super) fn is_opening_due(&mut self) -> bool {
        let is_due = self.open_at.is_some_and(|at| at <= Instant::now());
        is_due && self.open_at.take().is_some()
    }

    /// The servers did not take something.
    pub(super) fn not_taken(&mut self) {
        self.try_at = Some(Instant::now() + PAUSE);
    }

    /// Whether they are left alone for a moment.
    pub(super) fn is_pausing(&self) -> bool {
        self.try_at.is_some_and(|at| at > Instant::now())
    }

    pub(super) fn down(&mut self) {
        (self.open_at, self.try_at) = (None, None);
        (self.is_following, self.has_data) = (false, false);
        self.outbox.down();
        self.data.down();
        self.events.down();
    }

    pub(super) fn remember(&mut self) -> Result<(), ExitError> {
        let told = self.outbox.reached();
        let is_between = self
            .voice
            .as_ref()
            .is_some_and(|voice| voice.listener.is_between_pieces());
        let mut memory = self.memory.clone();
        memory.told = told.max(memory.told);
        if !is_between {
            memory.jobs.sequence = memory.jobs.sequence.max(self.taken);
        }
        let is_new = std::mem::take(&mut self.is_cursor_new) || memory != self.memory;
        if memory.bucket.is_empty() || !is_new {
            return Ok(());
        }
        self.memory = memory;
        Ok(self.memory.write(&self.file)?)
    }
}

impl Cluster<'_> {
    /// Opens the streams that are not.
    pub(super) fn follow(&self) {
        if self.membership != Membership::Member {
            return;
        }
        for (kind, cursor) in self.streams.closed() {
            self.link.follow(kind, cursor);
        }
    }

    pub(super) fn news(&mut self, news: News) {
        let outbox = &mut self.streams.outbox;
        match news {
            News::Job { jid, is_late } => outbox.news.add(jid, is_late),
            News::Published(at, parts) => outbox.published(at, parts),
            News::Returns(number, jobs) if self.streams.is_following => outbox.hold(number, jobs),
            News::Returns(number, _) => outbox.given_up.push(number),
            News::Data(bank, id) => self.streams.data.changed((bank, id)),
            News::Event(tag, payload) => self.streams.events.add(tag, payload),
            News::Resync(hours) => {
                let since =
                    hours.map(|hours| unix_now().saturating_sub(hours.saturating_mul(3600)));
                self.resync(since.unwrap_or(0));
            }
            News::Seen(codes) => self.tell_seen(&codes),
            News::Token(digest) => self.tell_token(digest),
            News::Claim(claim) => self.claims.ask(claim, Instant::now()),
            News::Drain => self.drain(),
            News::Missed => outbox.news.look = true,
        }
    }

    /// A stream is open.
    pub(super) fn following(&mut self, kind: StreamKind, found: Found) -> Result<(), ExitError> {
        let streams = &mut self.streams;
        streams.is_cursor_new = true;
        if kind == StreamKind::Data {
            if found.is_another || streams.memory.data.stream == 0 {
                streams.data.begin(found.last, &self.stores)?;
            }
            streams.memory.data = found.cursor;
            streams.has_data = true;
            return Ok(());
        }
        if found.is_another {
            log::warn!(
                "cluster: the stream of jobs was made anew; each master tells again what its job cache has"
            );
            streams.outbox.forget();
            streams.memory.told = 0;
        }
        if found.missed > 0 {
            log::warn!(
                "cluster: {} messages about jobs of other masters are no longer there (`keep`, `keep_bytes` of option cluster): what \
                 this master's job cache lacks is fetched from the others",
                found.missed
            );
        }
        if found.missed > 0 || streams.memory.jobs.stream == 0 {
            self.resync_gap();
        }
        let streams = &mut self.streams;
        streams.memory.jobs = found.cursor;
        streams.memory.jobs.sequence += found.missed;
        streams.taken = streams.memory.jobs.sequence;
        streams.is_following = true;
        Ok(())
    }

    /// A message with events.
    pub(super) fn heard(&mut self, origin: &str, bytes: &[u8]) {
        match self.streams.events.take(origin, bytes) {
            Some(events) => {
                for (tag, data) in &events {
                    self.heard_event(tag, data);
                }
                self.bus.fire_all(events);
            }
            None => self.stranger(&format!("a message of ev.{origin:.100}")),
        }
    }

    /// A message about data, with its number in the stream, and when that was stored.
    pub(super) fn told_data(
        &mut self,
        tail: &str,
        bytes: &[u8],
        (sequence, stored): (u64, u64),
    ) -> Result<(), ExitError> {
        let streams = &mut self.streams;
        if sequence <= streams.memory.data.sequence {
            return Ok(());
        }
        let place = (sequence, stored);
        let is_ours = streams.data.take(tail, bytes, place, &self.stores)?;
        streams.memory.data.sequence = sequence;
        streams.is_cursor_new = true;
        if !is_ours {
            self.stranger(&format!("the message {sequence} of data.{tail:.100}"));
        }
        Ok(())
    }

    /// A message about jobs.
    pub(super) fn told(
        &mut self,
        origin: &str,
        bytes: &[u8],
        sequence: u64,
    ) -> Result<(), ExitError> {
        let taken = self.streams.taken;
        if sequence <= taken || self.streams.voice.is_none() {
            return Ok(());
        }
        let missed = sequence - taken - 1;
        if missed > 0 && taken > 0 {
            log::error!(
                "cluster: {missed} messages about jobs of other masters were removed from the stream by somebody; what they told is \
                 fetched from the masters"
            );
            self.resync_gap();
        }
        let Some(voice) = &mut self.streams.voice else {
            return Ok(());
        };
        if !voice.is_own(origin) {
            match opened(voice, origin, bytes) {
                Ok((peer, Some(message))) => {
                    self.streams.heard_at(message.at);
                    self.take(&peer, message)?;
                }
                Ok((_, None)) => {}
                Err(Foreign) => self.stranger(&format!("the message {sequence} of {origin:.100}")),
            }
        }
        self.streams.taken = sequence;
        Ok(())
    }

    /// Another master is there (again): what it may have missed is told once more.
    pub(super) fn tell_again(&mut self) {
        if let Some(early) = &mut self.streams.early {
            for message in self.streams.recent.all(Instant::now()) {
                tell_early(&self.link, early, message);
            }
        }
    }

    /// A job that another master has just published. It is in the stream as well.
    pub(super) fn heard_job(&mut self, origin: &str, bytes: &[u8]) -> Result<(), ExitError> {
        let Some(voice) = &mut self.streams.early else {
            return Ok(());
        };
        if voice.is_own(origin) {
            return Ok(());
        }
        match opened(voice, origin, bytes) {
            Ok((peer, Some(message))) => self.take(&peer, message)?,
            Ok((_, None)) => {}
            Err(Foreign) => self.stranger(&format!("a message of job.{origin:.100}")),
        }
        Ok(())
    }

    fn take(&mut self, peer: &str, message: Message) -> Result<(), ExitError> {
        if peer == self.config.id {
            self.twin(message.at);
        } else if message.at >= self.oldest_kept() {
            self.streams.inbox.take(peer, message, &mut self.bus)?;
        }
        Ok(())
    }

    /// A message of another start with this master's id: an earlier one, or a master that has the same id.
    pub(super) fn twin(&mut self, at: u64) {
        if at <= self.streams.started + SKEW {
            return;
        }
        if self.streams.twins.tick(Instant::now()).is_some() {
            log::error!(
                "cluster: another master has the id {} as well, so that neither takes what the other tells about jobs: set a different \
                 `id` on each master",
                self.config.id
            );
        }
    }

    /// Something that others told is missing: jobs are to be compared with theirs.
    fn resync_gap(&mut self) {
        self.resync_from(self.streams.memory.heard);
    }

    /// What others told after this time, in Unix seconds, may be missing; 0 if this master was not there. What was told while it
    /// was there is announced on the bus, as if it had been heard.
    pub(super) fn resync_from(&mut self, at: u64) {
        let since = at.saturating_sub(LONGEST_JOB);
        if at > 0 {
            let announce = &mut self.streams.memory.announce;
            *announce = Some(announce.map_or(since, |earlier| earlier.min(since)));
        }
        self.resync(since);
    }

    /// Jobs that started after this time, in Unix seconds, are to be compared with those of the others.
    fn resync(&mut self, since: u64) {
        let wanted = self.streams.memory.resync.unwrap_or(u64::MAX);
        let since = self.oldest_kept().max(since.min(wanted));
        self.streams.memory.resync = Some(since);
        self.streams.is_cursor_new = true;
        self.peers.resync.want(since);
    }

    /// When the oldest jobs started that are kept, in Unix seconds.
    fn oldest_kept(&self) -> u64 {
        match self.config.keep_jobs_seconds {
            0 => 0,
            keep => unix_now().saturating_sub(keep),
        }
    }

    /// Tells the request server which answers to returns can be given.
    pub(super) fn acknowledge(&mut self) {
        let outbox = &mut self.streams.outbox;
        let mut numbers = std::mem::take(&mut outbox.stored);
        let given_up = std::mem::take(&mut outbox.given_up);
        if self.acknowledges == Acknowledge::Local {
            numbers.extend(given_up);
        }
        for number in numbers {
            // Without it they wait until their time is over.
            let _ = self.requests.try_send(&[b"A", &number.to_be_bytes()[..]]);
        }
    }

    /// Tells the others what is new.
    pub(super) fn tell(&mut self) -> Result<(), ExitError> {
        let is_pausing = self.streams.is_pausing();
        let jobs = &mut self.streams;
        let Some(Voice { teller, .. }) = &mut jobs.voice else {
            return Ok(());
        };
        if self.membership != Membership::Member {
            return Ok(());
        }
        for pieces in jobs.events.messages() {
            let tell = |piece| {
                let origin = self.origin.clone();
                self.link.tell(Channel::Events, origin, piece)
            };
            if !pieces.into_iter().all(tell) {
                jobs.events.dropped += 1;
            }
        }
        if is_pausing {
            return Ok(());
        }
        if jobs.has_data {
            for sending in jobs.data.next(&self.stores) {
                let (tail, ticket) = (sending.tail, sending.ticket);
                let pieces = vec![sending.bytes];
                if !self.link.append(StreamKind::Data, &tail, pieces, ticket) {
                    jobs.data.ended(ticket, false);
                }
            }
        }
        let published = jobs.outbox.publications(&mut jobs.inbox)?;
        let news = match jobs.is_following {
            true => jobs.outbox.next(&mut jobs.inbox)?,
            false => Vec::new(),
        };
        let news = news
            .into_iter()
            .map(|(ticket, message)| (ticket, message, false));
        for (ticket, message, is_new_job) in published.into_iter().chain(news) {
            let bytes = message.encode();
            if let Some(early) = jobs.early.as_mut().filter(|_| is_new_job) {
                tell_early(&self.link, early, &bytes);
            }
            let sealed = teller.seal(&bytes);
            if is_new_job {
                jobs.recent.add(bytes, Instant::now());
            }
            match sealed {
                Ok(pieces) => {
                    if !self
                        .link
                        .append(StreamKind::Jobs, &teller.origin, pieces, ticket)
                    {
                        jobs.outbox.ended(ticket, false);
                    }
                }
                Err(size) => {
                    let jids = message.records.iter().map(|r| r.jid.as_str());
                    let jids: Vec<&str> = jids.collect();
                    log::error!(
                        "cluster: a return of job {} is not told to the other masters: {size} bytes are too many",
                        jids.join(", ")
                    );
                    jobs.outbox.ended(ticket, true);
                }
            }
        }
        Ok(())
    }
}

/// Those who cannot read the stream now hear of a job all the same.
fn tell_early(link: &Link, early: &mut Voice, message: &[u8]) {
    let origin = early.teller.origin.clone();
    // If it is too large, that is said of the stream.
    for piece in early.teller.seal(message).unwrap_or_default() {
        link.tell(Channel::Jobs, origin.clone(), piece);
    }
}

/// What another start of a master has told about jobs, once it is complete.
fn opened(
    voice: &mut Voice,
    origin: &str,
    bytes: &[u8],
) -> Result<(String, Option<Message>), Foreign> {
    let (peer, whole) = voice.open(origin, bytes)?;
    let message = whole.map(|bytes| Message::decode(&bytes).ok_or(Foreign));
    Ok((peer, message.transpose()?))
}
