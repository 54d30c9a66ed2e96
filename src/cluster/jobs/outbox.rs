//! What this master tells the others about jobs. Its job log is the truth and the queue: events only tell where to look, and
//! what was not acknowledged is read again.

use super::Inbox;
use super::record::{JobRecord, Message, pack};
use halite_master::events::PEER;
use halite_master::job_news::{JobNews, LOOK, MARGIN};
use halite_store::jobs::{JobStore, JobUpdate};
use halite_sys::time::unix_now;
use halite_wire::ids::Jid;
use halite_wire::{Map, msgpack};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Number of jobs whose position is remembered; others are told again from their start.
const MOST_PLACES: usize = 20_000;
/// Bytes after which a message is full.
const FULL: usize = 64 << 10;
/// Most messages without an answer.
const UNDER_WAY: usize = 64;
/// Most bytes of messages without an answer; one more may be on top.
const BYTES_UNDER_WAY: usize = 32 << 20;
/// Most publications that wait.
const MOST_PUBLICATIONS: usize = 1000;
/// How long a job may wait for a connection, in seconds: an election among the servers takes up to 9.
const TIMELY: u64 = 15;

/// A job that this master has published.
struct Publication {
    /// When, in Unix seconds.
    at: u64,
    /// What its publisher got.
    parts: Vec<Vec<u8>>,
}

/// What a message has.
struct Sent {
    /// Its jobs, and where what it tells of them begins.
    from: Vec<(Jid, u64)>,
    publication: Option<Publication>,
    bytes: usize,
}

/// What is to be told, and what is under way.
pub struct Outbox {
    jobs: Arc<dyn JobStore>,
    /// Jobs that wait.
    pub news: JobNews,
    publications: VecDeque<Publication>,
    looked: Instant,
    places: HashMap<Jid, u64>,
    under_way: HashMap<u64, Sent>,
    /// Bytes of what is under way.
    bytes: usize,
    ticket: u64,
    /// Everything in the log up to this time is told.
    reached: SystemTime,
    /// When the last search began.
    began: SystemTime,
    /// Messages that were told.
    pub told: u64,
}

impl Outbox {
    /// Begins at what was told before `reached`.
    pub fn new(jobs: Arc<dyn JobStore>, reached: SystemTime) -> Outbox {
        let mut news = JobNews::default();
        news.look = true;
        Outbox {
            jobs,
            news,
            publications: VecDeque::new(),
            looked: Instant::now(),
            places: HashMap::new(),
            under_way: HashMap::new(),
            bytes: 0,
            ticket: 0,
            reached,
            began: reached,
            told: 0,
        }
    }

    /// Nobody has what was told: everything is told again.
    pub fn forget(&mut self) {
        self.places.clear();
        self.reached = SystemTime::UNIX_EPOCH;
        self.began = SystemTime::UNIX_EPOCH;
        self.news.look = true;
    }

    /// This master has published a job, at that time in Unix seconds: what its publisher got.
    pub fn published(&mut self, at: u64, parts: Vec<Vec<u8>>) {
        if self.publications.len() < MOST_PUBLICATIONS {
            self.publications.push_back(Publication { at, parts });
        }
    }

    /// How a message has ended.
    pub fn ended(&mut self, ticket: u64, is_told: bool) {
        let Some(sent) = self.under_way.remove(&ticket) else {
            return;
        };
        self.bytes -= sent.bytes;
        if is_told {
            self.told += 1;
            return;
        }
        self.publications.extend(sent.publication);
        for (jid, from) in sent.from {
            let place = self.places.entry(jid.clone()).or_default();
            *place = from.min(*place);
            self.news.jobs.insert(jid);
        }
    }

    /// The connection is lost: what is under way may be, too.
    pub fn down(&mut self) {
        let tickets: Vec<u64> = self.under_way.keys().copied().collect();
        tickets
            .into_iter()
            .for_each(|ticket| self.ended(ticket, false));
    }

    /// Number of jobs that wait, and of messages under way.
    pub fn backlog(&self) -> usize {
        self.news.len() + self.under_way.len()
    }

    /// The time up to which all is told, in Unix seconds.
    pub fn reached(&self) -> u64 {
        let since = self.reached.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    /// The next messages, each with its ticket; none if enough are under way.
    ///
    /// # Errors
    /// The job log cannot be read.
    pub fn next(&mut self, inbox: &mut Inbox) -> io::Result<Vec<(u64, Message)>> {
        let mut out = Vec::new();
        while let Some(publication) = self.publications.pop_front() {
            if unix_now().saturating_sub(publication.at) >= TIMELY {
                log::warn!(
                    "cluster: a job was published to the minions of this master only: there was no connection in time"
                );
            } else if let Some((record, from)) = self.publication(&publication, inbox)? {
                let mut batch = Batch::default();
                batch.add(record, from);
                out.push(self.message(batch, Some(publication)));
            }
        }
        if self.news.look || self.looked.elapsed() >= LOOK {
            (self.news.look, self.looked) = (false, Instant::now());
            let began = SystemTime::now();
            let from = self.reached.checked_sub(MARGIN);
            let changed = self
                .jobs
                .changed_since(from.unwrap_or(SystemTime::UNIX_EPOCH))?;
            self.news.jobs.extend(changed);
            self.began = began;
        }
        self.news.take_late();
        let mut batch = Batch::default();
        while self.under_way.len() < UNDER_WAY
            && self.bytes < BYTES_UNDER_WAY
            && let Some(jid) = self.news.jobs.pop_first()
        {
            let from = self.places.get(&jid).copied().unwrap_or(0);
            let Some(update) = self.jobs.updates(&jid, from)? else {
                continue;
            };
            inbox.learn(&update);
            self.set_place(&jid, update.end);
            for record in self.records(update)? {
                // What is large goes alone: if it is too large, nothing else stays behind with it.
                if batch.size > 0 && batch.size + record.size() > FULL {
                    out.push(self.message(std::mem::take(&mut batch), None));
                }
                batch.add(record, from);
            }
        }
        if !batch.records.is_empty() {
            out.push(self.message(batch, None));
        }
        if self.backlog() == 0 {
            self.reached = self.began.max(self.reached);
        }
        Ok(out)
    }

    fn message(&mut self, batch: Batch, publication: Option<Publication>) -> (u64, Message) {
        let Batch {
            records,
            from,
            size,
        } = batch;
        self.ticket += 1;
        self.bytes += size;
        let sent = Sent {
            from,
            publication,
            bytes: size,
        };
        self.under_way.insert(self.ticket, sent);
        let at = unix_now();
        (self.ticket, Message { at, records })
    }

    fn set_place(&mut self, jid: &Jid, end: u64) {
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(jid) {
            self.places.clear();
        }
        self.places.insert(jid.clone(), end);
    }

    /// A job that was just published, with what its log has so far.
    fn publication(
        &mut self,
        publication: &Publication,
        inbox: &mut Inbox,
    ) -> io::Result<Option<(JobRecord, u64)>> {
        let load = publication
            .parts
            .first()
            .and_then(|load| msgpack::decode(load).ok());
        let jid = load
            .as_ref()
            .and_then(|load| load.as_map()?.str("jid")?.parse::<Jid>().ok());
        let Some(jid) = jid else {
            return Ok(None);
        };
        let from = self.places.get(&jid).copied().unwrap_or(0);
        let mut records = match self.jobs.updates(&jid, from)? {
            Some(update) => {
                inbox.learn(&update);
                self.set_place(&jid, update.end);
                self.records(update)?
            }
            None => Vec::new(),
        };
        let mut record = match records.is_empty() {
            true => JobRecord::of(jid),
            false => records.swap_remove(0),
        };
        record.published = publication.at;
        record.publication.clone_from(&publication.parts);
        // What else there is, if so much has come already, is told like any other news.
        if !records.is_empty() {
            self.places.insert(record.jid.clone(), from);
            self.news.jobs.insert(record.jid.clone());
        }
        Ok(Some((record, from)))
    }

    /// What is this master's own in an update.
    fn records(&self, update: JobUpdate) -> io::Result<Vec<JobRecord>> {
        let is_own = |load: &Map| !load.contains(PEER);
        let mut out = vec![JobRecord::of(update.jid.clone())];
        out[0].is_started_by_minion = update.is_started_by_minion;
        let is_load = |load: &Map| is_own(load) && !load.contains("return");
        if let Some(load) = update.load.filter(is_load)
            && let Some(job) = self.jobs.get(&update.jid)?
        {
            out[0].minions = job.minions;
            out[0].missing = job.missing;
            out[0].load = Some(pack(&load));
        }
        let mut size = out[0].size();
        for one in update.returns.iter().filter(|one| is_own(&one.load)) {
            let packed = pack(&one.load);
            if size > 0 && size + packed.len() > FULL {
                out.push(JobRecord::of(update.jid.clone()));
                size = 0;
            }
            size += packed.len();
            if let Some(last) = out.last_mut() {
                last.returns.push(packed);
            }
        }
        out.retain(|record| record.load.is_some() || !record.returns.is_empty());
        Ok(out)
    }
}

#[derive(Default)]
struct Batch {
    records: Vec<JobRecord>,
    from: Vec<(Jid, u64)>,
    size: usize,
}

impl Batch {
    fn add(&mut self, record: JobRecord, from: u64) {
        self.size += record.size();
        self.from.push((record.jid.clone(), from));
        self.records.push(record);
    }
}
