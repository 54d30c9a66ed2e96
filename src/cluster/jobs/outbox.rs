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
use std::collections::{BTreeSet, HashMap, VecDeque};
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
/// Most groups of answers that wait.
const MOST_HOLDS: usize = 20_000;
/// How long a job may wait for a connection, in seconds: an election among the servers takes up to 9.
const TIMELY: u64 = 15;

/// A job that this master has published.
struct Publication {
    /// When, in Unix seconds.
    at: u64,
    /// What its publisher got.
    parts: Vec<Vec<u8>>,
    /// Whether it was in a message before.
    is_said: bool,
}

/// What a message has.
struct Sent {
    /// Its jobs, and where what it tells of them begins.
    from: Vec<(Jid, u64)>,
    publication: Option<Publication>,
    bytes: usize,
}

/// Answers that wait for what the log had of some jobs when they were asked for.
struct Hold {
    number: u64,
    /// Jobs to be read from the log.
    unread: BTreeSet<Jid>,
    /// Tickets of messages that have what was read.
    messages: BTreeSet<u64>,
}

impl Hold {
    fn is_over(&self) -> bool {
        self.unread.is_empty() && self.messages.is_empty()
    }
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
    holds: Vec<Hold>,
    /// Numbers of groups of answers: the servers have what they acknowledge.
    pub stored: Vec<u64>,
    /// The same, but nobody knows when the servers will have it.
    pub given_up: Vec<u64>,
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
            holds: Vec::new(),
            stored: Vec::new(),
            given_up: Vec::new(),
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
            self.publications.push_back(Publication {
                at,
                parts,
                is_said: false,
            });
        }
    }

    /// Answers wait for what the log has of these jobs; their number is in `stored` when the servers have it.
    pub fn hold(&mut self, number: u64, jobs: Vec<Jid>) {
        if self.holds.len() >= MOST_HOLDS {
            return;
        }
        for jid in &jobs {
            self.news.add(jid.clone(), false);
        }
        self.holds.push(Hold {
            number,
            unread: jobs.into_iter().collect(),
            messages: BTreeSet::new(),
        });
    }

    /// These jobs were read: what answers wait for is in messages that are under way.
    fn have_read(&mut self, jobs: &BTreeSet<Jid>) {
        if self.holds.iter().all(|hold| hold.unread.is_disjoint(jobs)) {
            return;
        }
        let mut messages: HashMap<&Jid, Vec<u64>> = HashMap::new();
        for (ticket, sent) in &self.under_way {
            for (jid, _) in &sent.from {
                messages.entry(jid).or_default().push(*ticket);
            }
        }
        for hold in &mut self.holds {
            for jid in jobs {
                if hold.unread.remove(jid) {
                    hold.messages
                        .extend(messages.get(jid).into_iter().flatten());
                }
            }
        }
        self.end_holds();
    }

    fn end_holds(&mut self) {
        let over = self.holds.extract_if(.., |hold| hold.is_over());
        self.stored.extend(over.map(|hold| hold.number));
    }

    /// How a message has ended.
    pub fn ended(&mut self, ticket: u64, is_told: bool) {
        let Some(sent) = self.under_way.remove(&ticket) else {
            return;
        };
        self.bytes -= sent.bytes;
        for hold in &mut self.holds {
            if hold.messages.remove(&ticket) && !is_told {
                hold.unread
                    .extend(sent.from.iter().map(|(jid, _)| jid.clone()));
            }
        }
        if is_told {
            self.told += 1;
            self.end_holds();
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
        self.given_up
            .extend(self.holds.drain(..).map(|hold| hold.number));
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

    /// Messages with jobs that were published, each with its ticket, and whether it is the first with its job.
    ///
    /// # Errors
    /// The job log cannot be read.
    pub fn publications(&mut self, inbox: &mut Inbox) -> io::Result<Vec<(u64, Message, bool)>> {
        let mut out = Vec::new();
        while let Some(mut publication) = self.publications.pop_front() {
            if unix_now().saturating_sub(publication.at) >= TIMELY {
                log::warn!(
                    "cluster: a job was published to the minions of this master, and to others only if they heard of it at once: the servers did not \
                     take it in time"
                );
            } else if let Some((record, from)) = self.publication(&publication, inbox)? {
                let mut batch = Batch::default();
                batch.add(record, from);
                let is_first = !std::mem::replace(&mut publication.is_said, true);
                let (ticket, message) = self.message(batch, Some(publication));
                out.push((ticket, message, is_first));
            }
        }
        Ok(out)
    }

    /// The next messages with what else is new, each with its ticket; none if enough are under way.
    ///
    /// # Errors
    /// The job log cannot be read.
    pub fn next(&mut self, inbox: &mut Inbox) -> io::Result<Vec<(u64, Message)>> {
        let mut out = Vec::new();
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
        let (mut batch, mut read) = (Batch::default(), BTreeSet::new());
        while self.under_way.len() < UNDER_WAY
            && self.bytes < BYTES_UNDER_WAY
            && let Some(jid) = self.news.jobs.pop_first()
        {
            let from = self.places.get(&jid).copied().unwrap_or(0);
            read.insert(jid.clone());
            let Some(update) = self.jobs.updates(&jid, from)? else {
                continue;
            };
            inbox.known.learn(&update);
            self.set_place(&jid, update.end);
            for record in records(&*self.jobs, update, is_own)? {
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
        self.have_read(&read);
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
                inbox.known.learn(&update);
                self.set_place(&jid, update.end);
                records(&*self.jobs, update, is_own)?
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
}

/// Whether no other master has told it.
fn is_own(load: &Map) -> bool {
    !load.contains(PEER)
}

/// What is new about a job, in records that fit into a message, as far as loads are wanted.
///
/// # Errors
/// The job log cannot be read.
pub fn records(
    jobs: &dyn JobStore,
    update: JobUpdate,
    is_wanted: fn(&Map) -> bool,
) -> io::Result<Vec<JobRecord>> {
    let mut out = vec![JobRecord::of(update.jid.clone())];
    out[0].is_started_by_minion = update.is_started_by_minion;
    let is_load = |load: &Map| is_wanted(load) && !load.contains("return");
    if let Some(load) = update.load.filter(is_load)
        && let Some(job) = jobs.get(&update.jid)?
    {
        out[0].minions = job.minions;
        out[0].missing = job.missing;
        out[0].load = Some(pack(&load));
    }
    let mut size = out[0].size();
    for one in update.returns.iter().filter(|one| is_wanted(&one.load)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::MasterConfig;
    use halite_wire::ids::MinionId;
    use std::path::Path;

    struct Fixture {
        outbox: Outbox,
        inbox: Inbox,
        jobs: Arc<dyn JobStore>,
        _dir: tempfile::TempDir,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"sock_dir" => dir.path().display().to_string()};
        let config = MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap();
        let jobs = halite_store::memory::stores().jobs;
        Fixture {
            outbox: Outbox::new(jobs.clone(), SystemTime::now()),
            inbox: Inbox::new(&config, jobs.clone()).unwrap(),
            jobs,
            _dir: dir,
        }
    }

    fn jid(n: u32) -> Jid {
        format!("2026112600000000{n:04}").parse().unwrap()
    }

    impl Fixture {
        /// A return is stored; the answer to it has this number.
        fn returned(&mut self, n: u32, id: &str, number: u64) {
            let load = halite_wire::map! {"id" => id, "return" => true};
            let id: MinionId = id.parse().unwrap();
            self.jobs.save_return(&jid(n), &id, &load).unwrap();
            self.outbox.hold(number, vec![jid(n)]);
        }

        fn tickets(&mut self) -> Vec<u64> {
            let next = self.outbox.next(&mut self.inbox).unwrap();
            next.into_iter().map(|(ticket, _)| ticket).collect()
        }

        fn stored(&mut self) -> Vec<u64> {
            std::mem::take(&mut self.outbox.stored)
        }
    }

    #[test]
    fn answers_wait_until_what_they_acknowledge_is_told() {
        let mut f = fixture();
        f.returned(1, "a", 10);
        let first = f.tickets();
        f.returned(1, "b", 11);
        let second = f.tickets();
        assert_eq!((first.len(), second.len()), (1, 1));
        assert!(f.stored().is_empty());
        // The second is told first: it does not have what the first answer waits for.
        f.outbox.ended(second[0], true);
        assert!(f.stored().is_empty());
        f.outbox.ended(first[0], true);
        let mut stored = f.stored();
        stored.sort_unstable();
        assert_eq!(stored, [10, 11]);
        // There is nothing more to be told.
        f.outbox.hold(12, vec![jid(1)]);
        assert!(f.tickets().is_empty());
        assert_eq!(f.stored(), [12]);
    }

    #[test]
    fn what_is_not_told_is_told_again_before_it_is_acknowledged() {
        let mut f = fixture();
        f.returned(1, "a", 10);
        let first = f.tickets();
        f.outbox.ended(first[0], false);
        assert!(f.stored().is_empty());
        let again = f.tickets();
        assert_eq!(again.len(), 1);
        f.outbox.ended(again[0], true);
        assert_eq!(f.stored(), [10]);
        // Without a connection nobody knows when it will be told.
        f.returned(3, "a", 11);
        f.tickets();
        f.returned(3, "b", 12);
        f.outbox.down();
        assert!(f.stored().is_empty());
        assert_eq!(f.outbox.given_up, [11, 12]);
        let again = f.tickets();
        again
            .iter()
            .for_each(|ticket| f.outbox.ended(*ticket, true));
        assert!(f.stored().is_empty());
    }
}
