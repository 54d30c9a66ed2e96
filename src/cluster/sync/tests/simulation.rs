//! Random schedules of several masters over a model of the bucket.

use super::*;
use crate::random::Random;
use std::collections::VecDeque;

/// A bucket as JetStream has it, with watches that are in order but late. What a stranger has written is `None`.
///
/// Old servers with several replicas take a second write that replaces the same revision, if it comes at once.
#[derive(Default)]
struct Bucket {
    revision: u64,
    values: BTreeMap<MinionId, Entry>,
    /// Whether it is such a server.
    is_old: bool,
    step: u64,
    /// What the present value has replaced, and when.
    replaced: BTreeMap<MinionId, (u64, u64)>,
}

type Entry = (u64, Option<KeyRecord>);

/// Steps within which a second write is taken.
const AT_ONCE: u64 = 3;

impl Bucket {
    fn put(&mut self, id: &MinionId, record: Option<KeyRecord>, revision: u64) -> Put {
        let present = self.values.get(id).map_or(0, |(revision, _)| *revision);
        let is_taken_too = self.is_old
            && self.replaced.get(id).is_some_and(|(replaced, step)| {
                *replaced == revision && self.step - step < AT_ONCE
            });
        if present != revision && !is_taken_too {
            return Put::Conflict;
        }
        self.revision += 1;
        self.replaced.insert(id.clone(), (revision, self.step));
        self.values.insert(id.clone(), (self.revision, record));
        Put::Done(self.revision)
    }
}

#[derive(Default)]
struct Master {
    sync: KeySync,
    files: BTreeMap<MinionId, Keys>,
    /// Entries on their way.
    watch: VecDeque<(MinionId, Entry)>,
    /// Answers on their way.
    answers: VecDeque<(MinionId, Put)>,
    is_up: bool,
    was_up: bool,
    stored: BTreeMap<MinionId, Base>,
}

impl Master {
    fn hear(&mut self, id: &MinionId, (revision, record): Entry) -> Vec<Act> {
        let taken = record.map(|record| self.sync.entry(id, record, revision));
        match taken {
            Some(Ok(act)) => act,
            None | Some(Err(_)) => self.sync.foreign(id, revision),
        }
    }

    fn act(
        &mut self,
        acts: impl IntoIterator<Item = Act>,
        bucket: &mut Bucket,
        random: &mut Random,
    ) -> Vec<(MinionId, Entry)> {
        let mut news = Vec::new();
        for act in acts {
            match act {
                Act::Write { id, keys } => {
                    self.files.insert(id, keys);
                }
                Act::Put {
                    id,
                    record,
                    revision,
                } => {
                    let mut how = bucket.put(&id, Some(record.clone()), revision);
                    if let Put::Done(revision) = how {
                        news.push((id.clone(), (revision, Some(record))));
                    }
                    if random.below(8) == 0 {
                        // The answer is lost.
                        how = Put::Unknown;
                    }
                    self.answers.push_back((id, how));
                }
            }
        }
        news
    }

    /// The role begins anew, with a base that it has stored.
    fn begin_anew(&mut self) {
        self.sync = KeySync::with_base(self.stored.clone());
        for (id, keys) in &self.files {
            assert_eq!(self.sync.files_changed(id, keys.clone()), []);
        }
    }
}

/// The servers have what they had, but their numbers begin anew, as after a restore.
fn restore(masters: &mut [Master], bucket: &mut Bucket) {
    bucket.revision = 0;
    for (revision, _) in bucket.values.values_mut() {
        bucket.revision += 1;
        *revision = bucket.revision;
    }
    bucket.replaced.clear();
    for master in masters {
        master.is_up = false;
        master.watch.clear();
        master.answers.clear();
        master.sync.down();
    }
}

/// All that the bucket had is lost; the number of the master that fills it again.
fn lose_data(masters: &mut [Master], bucket: &mut Bucket) -> usize {
    *bucket = Bucket {
        is_old: bucket.is_old,
        ..Bucket::default()
    };
    let newest = |n: &usize| masters[*n].sync.newest();
    let first = (0..masters.len()).max_by_key(newest);
    for master in masters {
        master.is_up = false;
        master.watch.clear();
        master.answers.clear();
        master.sync.down();
        master.sync.begin_anew();
        master.stored.clone_from(&master.sync.base);
    }
    first.expect("there are masters")
}

fn play(seed: u64) {
    const IDS: u64 = 4;
    let mut random = Random::new(seed);
    let mut bucket = Bucket {
        is_old: seed.is_multiple_of(3),
        ..Bucket::default()
    };
    let mut masters: Vec<Master> = (0..3).map(|_| Master::default()).collect();
    // The keys of minion 0 are only changed at master 0: nothing that others do may undo that.
    let mut of_first = Keys::new();
    let steps = 80;
    // Strangers and lost memories at once: then a change may be undone.
    let has_strangers = seed.is_multiple_of(2);
    // The data of the servers are lost once; this master fills the bucket, and the others wait for it.
    let lost_at = Some(random.below(steps)).filter(|_| seed % 5 == 1);
    let restored_at = Some(random.below(steps)).filter(|_| seed % 5 == 2);
    let mut filling = None;
    for step in 0..steps + 600 {
        let quiet = step >= steps;
        bucket.step = step;
        if lost_at == Some(step) && masters.iter().all(|master| master.was_up) {
            filling = Some(lose_data(&mut masters, &mut bucket));
        }
        if restored_at == Some(step) {
            restore(&mut masters, &mut bucket);
        }
        if filling.is_some_and(|n: usize| masters[n].is_up && masters[n].sync.is_settled()) {
            filling = None;
        }
        let n = random.below(3) as usize;
        let what = if quiet {
            random.below(4)
        } else {
            random.below(8)
        };
        let master = &mut masters[n];
        let mut news = Vec::new();
        match what {
            0 | 1 => {
                if let Some((id, entry)) = master.watch.pop_front() {
                    let act = master.hear(&id, entry);
                    news = master.act(act, &mut bucket, &mut random);
                }
            }
            2 => {
                if let Some((id, how)) = master.answers.pop_front() {
                    let act = master.sync.put_ended(&id, how);
                    news = master.act(act, &mut bucket, &mut random);
                }
            }
            3 if !master.is_up && filling.is_some_and(|first| first != n) => {}
            3 if !master.is_up => {
                master.is_up = true;
                for (id, entry) in &bucket.values {
                    assert_eq!(master.hear(id, entry.clone()), []);
                }
                let joins = match (bucket.revision, std::mem::replace(&mut master.was_up, true)) {
                    (1.., false) if n > 0 => Joins::New,
                    _ => Joins::Again,
                };
                let acts = master.sync.all_told(joins);
                news = master.act(acts, &mut bucket, &mut random);
            }
            3 => {
                let acts = master.sync.retry();
                news = master.act(acts, &mut bucket, &mut random);
            }
            4 => {
                let is_certain = master.sync.is_settled() && master.sync.uncertain.is_empty();
                master.is_up = false;
                master.watch.clear();
                master.answers.clear();
                master.sync.down();
                if random.below(2) == 0 && (n > 0 || is_certain) {
                    // The others may begin with a base that is not the newest.
                    if n == 0 || has_strangers || random.below(2) == 0 {
                        master.stored = master.sync.base.clone();
                    }
                    master.begin_anew();
                }
            }
            5 if has_strangers => {
                let id = id(random.below(IDS) as usize);
                let present = bucket.values.get(&id).map_or(0, |(revision, _)| *revision);
                if let Put::Done(revision) = bucket.put(&id, None, present) {
                    news.push((id, (revision, None)));
                }
            }
            _ => {
                let of = random.below(IDS) as usize;
                if of == 0 && n > 0 {
                    continue;
                }
                let state = KeyState::ALL[random.below(4) as usize];
                let new = match random.below(3) {
                    0 => Keys::new(),
                    _ => keys(state, &format!("{step}")),
                };
                if of == 0 {
                    of_first.clone_from(&new);
                }
                master.files.insert(id(of), new.clone());
                let act = master.sync.files_changed(&id(of), new);
                news = master.act(act, &mut bucket, &mut random);
            }
        }
        for new in news {
            for master in masters.iter_mut().filter(|master| master.is_up) {
                master.watch.push_back(new.clone());
            }
        }
    }
    // All are connected and have heard everything.
    for master in &masters {
        assert!(master.is_up && master.sync.is_settled(), "seed {seed}");
        for n in 0..IDS as usize {
            let files = master.files.get(&id(n)).cloned().unwrap_or_default();
            let value = match bucket.values.get(&id(n)) {
                Some((_, Some(record))) => record.keys.clone(),
                // Of a stranger: nobody has known the minion.
                Some((_, None)) | None => Keys::new(),
            };
            assert_eq!(files, value, "seed {seed}, {n}");
            // With old servers and strangers at once, what others do against these may be taken beside a change.
            let may_be_undone = n > 0 || (bucket.is_old && has_strangers);
            assert!(may_be_undone || files == of_first, "seed {seed}: undone");
        }
    }
}

#[test]
fn masters_agree_whatever_happens() {
    for seed in 0..20_000 {
        play(seed);
    }
}
