//! What a job cache lacks, fetched from other masters: after a gap in the stream, for a new master, or when asked for.
//!
//! The one that lacks something asks each other master in turn. It tells what it has of some jobs, in order, as a digest of
//! each; the other sends what differs, as much as fits into a letter, and how far that goes. So neither remembers anything
//! about the other, and a letter that is lost is asked for again.

use crate::jobs::record::JobRecord;
use crate::jobs::records;
use crate::letter::{Ask, Digest, Fill};
use halite_store::jobs::{JobStore, JobUpdate};
use halite_wire::fnv::fnv;
use halite_wire::ids::Jid;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// Most jobs of a question.
const JOBS: usize = 1000;
/// Returns after which no further job is read for a letter.
const RETURNS: usize = 50_000;
/// Bytes of the job log after which no further job is read for a letter.
const READ: u64 = 64 << 20;
/// Bytes of records after which a letter is full.
const FULL: usize = 4 << 20;
/// Largest record that fits into a letter; a larger one stays where it is, as in the stream.
const LARGEST: usize = 15 << 20;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked for.
const TRIES: u32 = 3;
/// Pause before those that did not answer are asked again.
const PAUSE: Duration = Duration::from_secs(60);

/// What this master has of a job.
fn digest_of(update: &JobUpdate) -> Digest {
    let load = update.load.as_ref().filter(|load| !load.contains("return"));
    let ids = update.returns.iter().map(|one| fnv(one.id.as_bytes()));
    Digest {
        count: update.returns.len() as u64,
        content: ids.fold(u64::from(load.is_some()), |all, one| all ^ one),
    }
}

/// Jobs since a time, after this one.
fn jobs_after(jobs: &dyn JobStore, since: u64, after: Option<&Jid>) -> io::Result<Vec<Jid>> {
    let all = jobs.started_since(i64::try_from(since).unwrap_or(i64::MAX))?;
    Ok(all.into_iter().filter(|jid| Some(jid) > after).collect())
}

/// How much may still be read for a letter: meanwhile nothing else happens.
#[derive(Default)]
struct ReadBudget {
    returns: usize,
    bytes: u64,
}

impl ReadBudget {
    fn spend(&mut self, update: &JobUpdate) {
        self.returns += update.returns.len() + 1;
        self.bytes += update.end;
    }

    fn is_spent(&self) -> bool {
        self.returns >= RETURNS || self.bytes >= READ
    }
}

/// The answer to a question.
///
/// # Errors
/// The job log cannot be read.
pub fn answer(jobs: &dyn JobStore, ask: Ask) -> io::Result<Fill> {
    let have: HashMap<Jid, Digest> = ask.have.into_iter().collect();
    let mut fill = Fill {
        ticket: ask.ticket,
        records: Vec::new(),
        after: ask.after.clone(),
        skip: 0,
        is_end: false,
    };
    let (mut size, mut skip) = (0, ask.skip);
    let mut budget = ReadBudget::default();
    for jid in jobs_after(jobs, ask.since, ask.after.as_ref())? {
        if ask.until.as_ref().is_some_and(|until| jid > *until) {
            break;
        }
        if budget.is_spent() {
            return Ok(fill);
        }
        if let Some(update) = jobs.updates(&jid, 0)? {
            budget.spend(&update);
            if have.get(&jid) != Some(&digest_of(&update)) {
                let all = records(jobs, update, |_| true)?;
                for record in all
                    .into_iter()
                    .skip(usize::try_from(skip).unwrap_or(usize::MAX))
                {
                    if record.size() > LARGEST {
                        fill.skip += 1;
                        continue;
                    }
                    if size > 0 && size + record.size() > FULL {
                        fill.skip += skip;
                        return Ok(fill);
                    }
                    size += record.size();
                    fill.skip += 1;
                    fill.records.push(record);
                }
            }
        }
        (fill.after, fill.skip, skip) = (Some(jid), 0, 0);
    }
    (fill.after, fill.is_end) = (ask.until, true);
    Ok(fill)
}

/// The first job that can have started at this time, in Unix seconds.
pub fn first_jid(at: u64) -> Jid {
    Jid::from_time(i64::try_from(at).unwrap_or(i64::MAX), 0)
}

/// What is being fetched.
#[derive(Debug)]
struct Round {
    since: u64,
    peer: String,
    after: Option<Jid>,
    /// The last job of the present question; `None` if it goes to the end.
    until: Option<Jid>,
    /// Whether `until` counts, and the jobs up to it are being asked for.
    is_within: bool,
    skip: u64,
    asked: Option<Instant>,
    tries: u32,
}

/// Fetches what this master lacks.
#[derive(Debug, Default)]
pub struct Resync {
    /// Jobs that started then or later are to be compared, in Unix seconds.
    pub wanted: Option<u64>,
    /// The same, once more, after what is under way.
    next: Option<u64>,
    peers: VecDeque<String>,
    /// Those that did not answer, and when they are asked again.
    silent: VecDeque<String>,
    again: Option<Instant>,
    round: Option<Round>,
    /// That of the last question; the first one is random, so that answers to an earlier process mean nothing.
    ticket: u64,
    /// Records that were fetched.
    pub fetched: u64,
    /// How often it was finished.
    pub finished: u64,
}

impl Resync {
    /// Nothing is compared yet; `ticket` is random.
    pub fn new(ticket: u64) -> Resync {
        Resync {
            ticket,
            ..Resync::default()
        }
    }

    /// Jobs that started then or later are to be compared with those of the others.
    pub fn want(&mut self, since: u64) {
        let is_under_way = self.round.is_some() || !self.peers.is_empty();
        let wanted = match is_under_way {
            true => &mut self.next,
            false => &mut self.wanted,
        };
        *wanted = Some(wanted.map_or(since, |wanted| wanted.min(since)));
    }

    /// The next question, and to whom; `present` are the masters that are there.
    ///
    /// # Errors
    /// The job log cannot be read.
    pub fn next(
        &mut self,
        present: &[String],
        jobs: &dyn JobStore,
        now: Instant,
    ) -> io::Result<Option<(String, Ask)>> {
        let Some(since) = self.wanted else {
            return Ok(None);
        };
        if self.again.is_some_and(|at| now < at) {
            return Ok(None);
        }
        let is_waiting = |at: Instant| now.saturating_duration_since(at) < PATIENCE;
        match &mut self.round {
            Some(round) if round.asked.is_some_and(is_waiting) => return Ok(None),
            Some(round) => {
                round.tries += 1;
                if round.tries > TRIES {
                    let peer = std::mem::take(&mut round.peer);
                    log::warn!(
                        "cluster: {peer} does not answer what its job cache has; it is asked again"
                    );
                    self.silent.push_back(peer);
                    self.round = None;
                    self.end_if_over(now);
                    return Ok(None);
                }
            }
            None if self.peers.is_empty() && present.is_empty() => return Ok(None),
            None => {
                if self.peers.is_empty() {
                    self.peers.extend(present.iter().cloned());
                    log::info!(
                        "cluster: compares jobs with those of {}",
                        present.join(", ")
                    );
                }
                // What the others have told, they have told all; those that have gone compare when they are back.
                self.peers.retain(|peer| present.contains(peer));
                self.round = self.peers.pop_front().map(|peer| Round {
                    since,
                    peer,
                    after: None,
                    until: None,
                    is_within: false,
                    skip: 0,
                    asked: None,
                    tries: 1,
                });
            }
        }
        let Some(round) = &mut self.round else {
            self.end_if_over(now);
            return Ok(None);
        };
        self.ticket = self.ticket.wrapping_add(1);
        round.asked = Some(now);
        let ask = round.ask(self.ticket, jobs)?;
        Ok(Some((round.peer.clone(), ask)))
    }

    /// An answer of a master: the records to be stored.
    pub fn take(&mut self, peer: &str, fill: Fill, now: Instant) -> Vec<JobRecord> {
        let ticket = self.ticket;
        let Some(round) = self
            .round
            .as_mut()
            .filter(|round| round.peer == peer && fill.ticket == ticket)
        else {
            return Vec::new();
        };
        // Those that are older are no longer kept.
        let first = first_jid(round.since);
        let mut records = fill.records;
        records.retain(|record| record.jid >= first);
        self.fetched += records.len() as u64;
        (round.after, round.skip) = (fill.after, fill.skip);
        (round.asked, round.tries) = (None, 0);
        if fill.is_end {
            round.is_within = false;
            if round.until.is_none() {
                self.round = None;
                self.end_if_over(now);
            }
        }
        records
    }

    fn end_if_over(&mut self, now: Instant) {
        if self.peers.is_empty() && !self.silent.is_empty() {
            self.peers = std::mem::take(&mut self.silent);
            self.again = Some(now + PAUSE);
        } else if self.peers.is_empty() {
            self.wanted = self.next.take();
            self.finished += 1;
            log::info!(
                "cluster: jobs are compared; records fetched so far: {}",
                self.fetched
            );
        }
    }
}

impl Round {
    /// What to ask now.
    fn ask(&mut self, ticket: u64, jobs: &dyn JobStore) -> io::Result<Ask> {
        let own = jobs_after(jobs, self.since, self.after.as_ref())?;
        let (mut have, mut budget) = (Vec::new(), ReadBudget::default());
        let limit = self.until.clone().filter(|_| self.is_within);
        let mut is_all = true;
        for jid in own {
            if limit.as_ref().is_some_and(|limit| jid > *limit) {
                break;
            }
            if have.len() >= JOBS || budget.is_spent() {
                is_all = false;
                break;
            }
            if let Some(update) = jobs.updates(&jid, 0)? {
                budget.spend(&update);
                have.push((jid, digest_of(&update)));
            }
        }
        if !self.is_within {
            let last = have.last().map(|(jid, _)| jid.clone());
            (self.until, self.is_within) = (last.filter(|_| !is_all), true);
        }
        Ok(Ask {
            ticket,
            since: self.since,
            after: self.after.clone(),
            until: self.until.clone(),
            skip: self.skip,
            have,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Known;
    use crate::letter::Letter;
    use halite_wire::ids::MinionId;
    use std::sync::Arc;

    fn jid(n: usize) -> Jid {
        format!("2026112600{n:010}").parse().unwrap()
    }

    fn save(jobs: &dyn JobStore, n: usize, ids: &[&str], size: usize) {
        let load = halite_wire::map! {"fun" => "test.ping"};
        jobs.save_load(&jid(n), &load, &["a".into()], &[]).unwrap();
        for id in ids {
            let id: MinionId = id.parse().unwrap();
            let load = halite_wire::map! {"id" => id.as_str(), "return" => "x".repeat(size)};
            jobs.save_return(&jid(n), &id, &load).unwrap();
        }
    }

    /// Plays it to its end; returns how many letters went there and back, and how many
    /// records came. Some are lost.
    fn play(lacks: &Arc<dyn JobStore>, has: &dyn JobStore, loses: bool) -> (usize, u64) {
        let mut known = Known::of(lacks.clone());
        let mut resync = Resync::new(7);
        resync.want(0);
        let mut now = Instant::now();
        let present = ["m2".to_owned()];
        for n in 0..1000 {
            let Some((to, ask)) = resync.next(&present, &**lacks, now).unwrap() else {
                assert_eq!((resync.wanted, resync.finished), (None, 1));
                return (n, resync.fetched);
            };
            assert_eq!(to, "m2");
            let sent = Letter::Ask(ask).encode("m2");
            let Some(Letter::Ask(ask)) = Letter::decode(&sent, "m2") else {
                panic!("it is a question");
            };
            assert_eq!(Letter::decode(&sent, "m3"), None);
            let sent = Letter::Fill(answer(has, ask).unwrap()).encode("m1");
            assert!(sent.len() < 2 * FULL);
            let Some(Letter::Fill(fill)) = Letter::decode(&sent, "m1") else {
                panic!("it is an answer");
            };
            if loses && n % 3 == 0 {
                now += PATIENCE;
                continue;
            }
            for record in resync.take("m2", fill, now) {
                drop(known.store("m2", record).unwrap());
            }
        }
        panic!("it does not end");
    }

    #[test]
    fn what_is_missing_is_fetched() {
        for loses in [false, true] {
            let [lacks, has] = [(); 2].map(|()| halite_store::memory::stores().jobs);
            // Many that both have, one without a return, one that is large, one that only the first has.
            for n in 0..3000 {
                save(&*lacks, n, &["a"], 1);
                let ids: &[&str] = if n == 1700 { &["a", "b"] } else { &["a"] };
                save(&*has, n, ids, 1);
            }
            save(&*has, 5000, &["a", "b", "c"], 3 << 20);
            save(&*has, 5001, &["a"], 10);
            // Too large for a letter: nothing else stays behind with it.
            save(&*has, 4999, &["a", "b"], LARGEST);
            save(&*lacks, 6000, &["a"], 10);
            let (letters, _) = play(&lacks, &*has, loses);
            assert!(letters < 20, "{letters}");
            for (n, count) in [(0, 1), (1700, 2), (5000, 3), (5001, 1), (6000, 1)] {
                let job = lacks.get(&jid(n)).unwrap().unwrap();
                assert_eq!(
                    (job.returns.len(), job.minions),
                    (count, vec!["a".to_owned()])
                );
                assert_eq!(job.load.str("fun"), Some("test.ping"));
            }
            // Nothing is missing any more but what is too large, so only the load of that job is sent.
            let (letters, fetched) = play(&lacks, &*has, false);
            assert!(letters <= 4 && fetched == 1, "{letters} {fetched}");
        }
    }

    #[test]
    fn who_does_not_answer_is_asked_again() {
        let jobs = halite_store::memory::stores().jobs;
        let mut resync = Resync::new(7);
        let mut now = Instant::now();
        let present = ["m2".to_owned()];
        assert!(resync.next(&present, &*jobs, now).unwrap().is_none());
        resync.want(7);
        assert!(resync.next(&[], &*jobs, now).unwrap().is_none());
        for _ in 0..2 {
            let mut asked = 0;
            for _ in 0..TRIES + 1 {
                asked += u32::from(resync.next(&present, &*jobs, now).unwrap().is_some());
                assert!(resync.next(&present, &*jobs, now).unwrap().is_none());
                now += PATIENCE;
            }
            assert_eq!((asked, resync.wanted), (TRIES, Some(7)));
            now += PAUSE;
        }
        // Until it is gone.
        assert!(resync.next(&[], &*jobs, now).unwrap().is_none());
        assert_eq!((resync.wanted, resync.finished), (None, 1));
    }

    #[test]
    fn what_is_wanted_meanwhile_comes_next() {
        let [lacks, has] = [(); 2].map(|()| halite_store::memory::stores().jobs);
        save(&*has, 1, &["a"], 1);
        let mut resync = Resync::new(7);
        let now = Instant::now();
        let present = ["m2".to_owned()];
        let since = 1_795_651_200;
        resync.want(since);
        let mut asks = 0;
        while let Some((_, ask)) = resync.next(&present, &*lacks, now).unwrap() {
            asks += 1;
            if asks == 1 {
                resync.want(since + 9);
                resync.want(since + 5);
            }
            let fill = answer(&*has, ask).unwrap();
            let other = Fill {
                ticket: fill.ticket - 1,
                ..fill.clone()
            };
            // An answer to another question, and jobs that were not asked for.
            assert_eq!(resync.take("m2", other, now), []);
            let mut more = fill.clone();
            let old: Jid = "20251126000000000001".parse().unwrap();
            more.records.push(JobRecord::of(old));
            assert_eq!(resync.take("m2", more, now), fill.records);
        }
        assert_eq!((asks, resync.finished, resync.wanted), (2, 2, None));
    }
}
