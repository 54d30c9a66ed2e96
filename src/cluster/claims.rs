//! Which runs of scheduled jobs have begun: the leader claims each in the bucket before it starts, so that the next leader, whose
//! clock may differ, does not run it again. No IO and no clock: it is told the time.
//!
//! An entry for each job has the time its last run was due. A run is refused if that is not later, or if the job has an
//! interval that has not passed since. The scheduler names its question with a ticket, which is in the entry too: a question
//! whose answer was lost gets the same answer again.

use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a run that is asked for is tried to be claimed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How many seconds a run may lie ahead of the clock of another master.
const AHEAD: u64 = 120;
/// Most questions, and most answers that are shown; the scheduler has fewer questions at a time.
const MOST: usize = 64;

/// A run of a job that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it was due, in Unix seconds.
    pub at: u64,
    /// The ticket of the scheduler that asked for it, a random number.
    pub by: u64,
}

/// What a scheduler asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub name: String,
    /// The run.
    pub run: Run,
    /// The interval of the job in seconds; 0 if it has none.
    pub interval: u64,
}

impl Claim {
    /// Whether the run may begin after this one. Of an interval, a tenth may be missing: masters plan it by times of their own.
    fn may_follow(&self, last: Run) -> bool {
        let least = self.interval - self.interval / 10;
        self.run.at > last.at && self.run.at - last.at >= least
    }

    /// Whether this is the run of a master whose clock is wrong. It must not keep all others from running the job until then.
    fn is_ahead(&self, last: Run) -> bool {
        last.at > self.run.at.saturating_add(AHEAD)
    }
}

/// What is known of a job.
#[derive(Debug, Default)]
struct Known {
    last: Option<Run>,
    revision: u64,
}

#[derive(Debug)]
struct Asked {
    claim: Claim,
    since: Instant,
    /// Whether a write has no answer yet.
    is_pending: bool,
    /// When it may be written again.
    again: Option<Instant>,
}

/// The jobs of this master's schedule, and what is asked for.
#[derive(Debug, Default)]
pub struct Claims {
    known: BTreeMap<String, Known>,
    asked: Vec<Asked>,
    answers: VecDeque<(u64, bool)>,
    has_news: bool,
}

impl Claims {
    /// For the jobs of the option `schedule`; what others write about more is not remembered.
    pub fn new(schedule: &Map) -> Claims {
        let names = schedule.iter().filter_map(|(name, _)| name.as_str());
        Claims {
            known: names
                .map(|name| (name.to_owned(), Known::default()))
                .collect(),
            ..Claims::default()
        }
    }

    /// The scheduler asks whether a run may begin.
    pub fn ask(&mut self, claim: Claim, now: Instant) {
        let ticket = claim.run.by;
        let is_known = self.asked.iter().any(|one| one.claim.run.by == ticket);
        let is_answered = self.answers.iter().any(|(one, _)| *one == ticket);
        if is_answered || is_known || self.asked.len() >= MOST {
            return;
        }
        self.asked.push(Asked {
            claim,
            since: now,
            is_pending: false,
            again: None,
        });
    }

    /// An entry of the bucket; `None` for one of no master. `false` if it is not one, or was there before. `unix` is the time, in Unix
    /// seconds: what lies far ahead of it is of a clock that was wrong, and may be replaced by what is earlier.
    pub fn entry(&mut self, name: &str, run: Option<Run>, revision: u64, unix: u64) -> bool {
        let Some(known) = self.known.get_mut(name) else {
            return run.is_some();
        };
        if revision <= known.revision {
            return true;
        }
        known.revision = revision;
        let is_newer =
            |run: &Run, last: Run| run.at >= last.at || last.at > unix.saturating_add(AHEAD);
        let run = run.filter(|run| known.last.is_none_or(|last| is_newer(run, last)));
        known.last = run.or(known.last);
        run.is_some()
    }

    /// What is to be written now, if this master leads: the job, its run, and the revision that it replaces. To be called as a member
    /// only. Finds answers, too: what was written may be known when another one leads.
    pub fn due(&mut self, leads: bool, now: Instant) -> Vec<(String, Run, u64)> {
        let mut writes = Vec::new();
        let mut pending: BTreeSet<String> = self.pending().map(str::to_owned).collect();
        let mut at = 0;
        while let Some(asked) = self.asked.get_mut(at) {
            let known = self.known.entry(asked.claim.name.clone()).or_default();
            let answer = match known.last {
                Some(last) if last.by == asked.claim.run.by => Some(true),
                Some(last) if asked.claim.is_ahead(last) => None,
                Some(last) if !asked.claim.may_follow(last) => Some(false),
                _ if now.saturating_duration_since(asked.since) >= PATIENCE => Some(false),
                _ => None,
            };
            if asked.is_pending {
                at += 1;
            } else if let Some(is_granted) = answer {
                let ticket = asked.claim.run.by;
                self.asked.remove(at);
                self.answers.push_back((ticket, is_granted));
                let too_many = self.answers.len().saturating_sub(MOST);
                self.answers.drain(..too_many);
                self.has_news = true;
            } else {
                let is_due = leads && asked.again.is_none_or(|again| now >= again);
                if is_due && pending.insert(asked.claim.name.clone()) {
                    (asked.is_pending, asked.again) = (true, Some(now + RETRY));
                    let write = (asked.claim.name.clone(), asked.claim.run, known.revision);
                    writes.push(write);
                }
                at += 1;
            }
        }
        writes
    }

    /// Jobs with a write that has no answer yet.
    fn pending(&self) -> impl Iterator<Item = &str> {
        let pending = self.asked.iter().filter(|one| one.is_pending);
        pending.map(|one| one.claim.name.as_str())
    }

    /// A write for this job has ended. How, the watch tells: whoever reads along could answer, too.
    pub fn ended(&mut self, name: &str) {
        let mut asked = self.asked.iter_mut();
        let Some(asked) = asked.find(|one| one.is_pending && one.claim.name == name) else {
            return;
        };
        asked.is_pending = false;
    }

    /// The connection is lost: what is in the bucket is told again.
    pub fn down(&mut self) {
        self.asked.iter_mut().for_each(|one| one.is_pending = false);
        self.known.values_mut().for_each(|known| known.revision = 0);
    }

    /// Whether there are new answers since this was asked.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The last answers, for the scoreboard: tickets of runs that may begin, and of those that may not.
    pub fn answers(&self) -> [Value; 2] {
        [true, false].map(|wanted| {
            let all = self.answers.iter().filter(|(_, is)| *is == wanted);
            Value::Array(all.map(|(ticket, _)| Value::from(*ticket)).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn claim(at: u64, by: u64, interval: u64) -> Claim {
        Claim {
            name: "j".into(),
            run: Run { at, by },
            interval,
        }
    }

    fn claims() -> Claims {
        Claims::new(&halite_wire::map! {"j" => Map::new()})
    }

    fn answer(claims: &Claims, ticket: u64) -> Option<bool> {
        let answers = &claims.answers;
        let found = answers.iter().find(|(one, _)| *one == ticket);
        found.map(|(_, is_granted)| *is_granted)
    }

    #[test]
    fn a_run_begins_once() {
        let now = Instant::now();
        let [mut one, mut two] = [claims(), claims()];
        one.ask(claim(100, 1, 0), now);
        let (name, run, revision) = one.due(true, now).remove(0);
        assert_eq!((name.as_str(), run.at, revision), ("j", 100, 0));
        // The answer is lost, but the write was taken.
        one.ended("j");
        assert!(one.due(true, now).is_empty() && answer(&one, 1).is_none());
        assert!(one.entry("j", Some(run), 7, 100) && two.entry("j", Some(run), 7, 100));
        assert!(one.due(true, now).is_empty() && one.take_news());
        assert_eq!(answer(&one, 1), Some(true));
        // Of the next leader: the same run, and later ones.
        for (at, by, interval, expected) in [
            (100, 2, 0, Some(false)),
            (99, 3, 0, Some(false)),
            (130, 4, 60, Some(false)),
        ] {
            two.ask(claim(at, by, interval), now);
            assert!(two.due(true, now).is_empty());
            assert_eq!(answer(&two, by), expected, "{by}");
        }
        two.ask(claim(160, 5, 60), now);
        let (_, run, revision) = two.due(true, now).remove(0);
        assert_eq!((run.at, revision), (160, 7));
        two.ended("j");
        assert!(two.entry("j", Some(run), 8, 160) && two.due(true, now).is_empty());
        assert_eq!(answer(&two, 5), Some(true));
        // An old entry that somebody puts back, and garbage, change nothing, but what is written replaces them.
        assert!(!two.entry("j", Some(Run { at: 100, by: 1 }), 9, 160));
        assert!(!two.entry("j", None, 10, 160));
        assert!(!two.entry("x", None, 11, 160) && two.entry("x", Some(run), 12, 160));
        two.ask(claim(160, 6, 0), now);
        two.ask(claim(161, 7, 0), now);
        assert_eq!(two.due(true, now)[0].2, 10);
        assert_eq!(answer(&two, 6), Some(false));
        two.ended("j");
        assert!(two.due(true, now + RETRY / 2).is_empty());
        assert_eq!(two.due(true, now + RETRY).len(), 1);
        two.down();
        assert_eq!(two.due(true, now + PATIENCE).len(), 0);
        assert_eq!(answer(&two, 7), Some(false));
    }

    #[test]
    fn a_clock_that_was_wrong_keeps_nobody_from_running() {
        let now = Instant::now();
        let mut claims = claims();
        let ahead = Run { at: 100_000, by: 1 };
        assert!(claims.entry("j", Some(ahead), 5, 1000));
        claims.ask(claim(1000, 2, 0), now);
        let (_, run, revision) = claims.due(true, now).remove(0);
        assert_eq!((run.at, revision), (1000, 5));
        assert!(claims.entry("j", Some(run), 6, 1000));
        claims.ended("j");
        claims.due(true, now);
        assert_eq!(answer(&claims, 2), Some(true));
        // Where that is not ahead, what is earlier was put back.
        assert!(!claims.entry("j", Some(Run { at: 10, by: 3 }), 7, 1000));
    }

    /// Three masters whose clocks differ, who lead in turn, with writes and answers that are lost.
    fn play(seed: u64) -> usize {
        let mut random = Random::new(seed);
        let start = Instant::now();
        let interval = [0, 60][random.below(2) as usize];
        let skews: [u64; 3] = std::array::from_fn(|_| random.below(90));
        let mut masters: [Claims; 3] = std::array::from_fn(|_| claims());
        let mut watches: [VecDeque<(Run, u64)>; 3] = Default::default();
        let mut bucket: Option<(Run, u64)> = None;
        let (mut leader, mut asked, mut given) = (0, Vec::new(), BTreeSet::new());
        let mut began: Vec<u64> = Vec::new();
        for second in 0..1200_u64 {
            let now = start + Duration::from_secs(second);
            if random.below(40) == 0 {
                leader = random.below(3) as usize;
            }
            let clock = 1000 + second + skews[leader];
            if clock.is_multiple_of(60) {
                asked.push(clock);
                let ticket = asked.len() as u64;
                masters[leader].ask(claim(clock, ticket, interval), now);
            }
            for ((master, watch), skew) in masters.iter_mut().zip(&mut watches).zip(skews) {
                while random.below(3) > 0
                    && let Some((run, revision)) = watch.pop_front()
                {
                    let unix = 1000 + second + skew;
                    assert!(master.entry("j", Some(run), revision, unix), "seed {seed}");
                }
            }
            if random.below(50) == 0 {
                let lost = random.below(3) as usize;
                masters[lost].down();
                watches[lost] = bucket.into_iter().collect();
            }
            for (name, run, replaced) in masters[leader].due(true, now) {
                let present = bucket.map_or(0, |(_, revision)| revision);
                if replaced == present {
                    bucket = Some((run, present + 1));
                    let all = watches.iter_mut();
                    all.for_each(|watch| watch.push_back((run, present + 1)));
                }
                masters[leader].ended(&name);
            }
            for master in &mut masters {
                assert_eq!(master.due(false, now), []);
                let granted = master.answers.iter().filter(|(_, granted)| *granted);
                let new = granted.filter(|(ticket, _)| given.insert(*ticket));
                began.extend(new.map(|(ticket, _)| asked[*ticket as usize - 1]));
            }
        }
        began.sort_unstable();
        let steps = began.windows(2).map(|pair| pair[1].checked_sub(pair[0]));
        for step in steps {
            assert!(
                step.is_some_and(|step| step > 0 && step >= interval - interval / 10),
                "seed {seed}: {began:?}"
            );
        }
        began.len()
    }

    #[test]
    fn leaders_in_turn_begin_no_run_twice() {
        let began: usize = (0..3000).map(play).sum();
        assert!(began > 3000 * 8, "{began}");
    }
}
