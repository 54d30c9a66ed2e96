//! Single steps, and random schedules of several masters over a model of the bucket.

use super::*;
use crate::random::Random;
use std::collections::VecDeque;

fn id(n: usize) -> MinionId {
    format!("m{n}").parse().unwrap()
}

fn keys(state: KeyState, text: &str) -> Keys {
    [(state, text.to_owned())].into()
}

fn record(number: u64, keys: Keys) -> KeyRecord {
    KeyRecord {
        number,
        change: number,
        epoch: 0,
        keys,
    }
}

/// The record of a minion whose key was taken away.
fn taken(number: u64) -> KeyRecord {
    KeyRecord {
        epoch: 1,
        ..record(number, Keys::new())
    }
}

/// The record after entries of strangers were replaced so often.
fn replaced(times: u64, mut record: KeyRecord) -> KeyRecord {
    record.change -= times;
    record
}

fn base(revision: u64, record: &KeyRecord) -> Base {
    Base {
        revision,
        record: record.clone(),
    }
}

/// The bucket takes the write of a minion, says so, and the watch tells it.
fn written(sync: &mut KeySync, n: usize, revision: u64) -> Vec<Act> {
    let record = sync.pending[&id(n)].record.clone();
    assert_eq!(sync.put_ended(&id(n), Put::Done(revision)), []);
    assert!(!sync.is_settled(), "the answer alone is not believed");
    sync.entry(&id(n), record, revision).unwrap()
}

#[test]
fn a_change_goes_to_the_bucket_and_comes_back_as_known() {
    let mut sync = KeySync::default();
    let accepted = keys(KeyState::Accepted, "a");
    assert_eq!(sync.files_changed(&id(1), accepted.clone()), []);
    let acts = sync.all_told(Joins::Again);
    let put = Act::Put {
        id: id(1),
        record: record(1, accepted.clone()),
        revision: 0,
    };
    assert_eq!(acts, [put]);
    assert!(!sync.is_settled());
    // The watch may be faster than the answer.
    assert_eq!(
        sync.entry(&id(1), record(1, accepted.clone()), 5),
        Ok(vec![])
    );
    assert_eq!(sync.put_ended(&id(1), Put::Done(5)), []);
    assert!(sync.is_settled());
    // A deletion.
    let act = sync.files_changed(&id(1), Keys::new());
    let put = Act::Put {
        id: id(1),
        record: taken(2),
        revision: 5,
    };
    assert_eq!(act, [put]);
    assert_eq!(written(&mut sync, 1, 6), []);
    assert_eq!(sync.count(), 0);
}

#[test]
fn the_bucket_decides_between_two() {
    let mut sync = KeySync::default();
    sync.all_told(Joins::Again);
    let (ours, theirs) = (keys(KeyState::Pending, "a"), keys(KeyState::Pending, "b"));
    assert!(!sync.files_changed(&id(1), ours).is_empty());
    assert_eq!(sync.entry(&id(1), record(1, theirs.clone()), 3), Ok(vec![]));
    let write = Act::Write {
        id: id(1),
        keys: theirs,
    };
    assert_eq!(sync.put_ended(&id(1), Put::Conflict), [write]);
    assert!(sync.is_settled());
}

#[test]
fn what_was_deleted_does_not_come_back() {
    // This master was away while the minion was deleted.
    let mut sync = KeySync::default();
    sync.files_changed(&id(1), keys(KeyState::Accepted, "a"));
    sync.files_changed(&id(2), keys(KeyState::Accepted, "b"));
    sync.entry(&id(1), record(4, Keys::new()), 9).unwrap();
    let acts = sync.all_told(Joins::New);
    let gone = Act::Write {
        id: id(1),
        keys: Keys::new(),
    };
    assert!(acts.contains(&gone), "{acts:?}");
    // Of one that nobody else knows, the operator decides.
    let waits = Act::Write {
        id: id(2),
        keys: keys(KeyState::Pending, "b"),
    };
    assert!(acts.contains(&waits), "{acts:?}");
    assert_eq!(acts.len(), 3);
}

/// Changes of the files without a connection, also over a restart of the role.
#[test]
fn what_is_changed_meanwhile_counts_unless_others_were_faster() {
    let accepted = keys(KeyState::Accepted, "a");
    let mut sync = KeySync::default();
    for n in 1..4 {
        sync.files_changed(&id(n), accepted.clone());
    }
    sync.all_told(Joins::Again);
    for n in 1..4 {
        written(&mut sync, n, n as u64);
    }
    let base = sync.take_base().unwrap().clone();
    assert_eq!(sync.take_base(), None);
    let mut sync = KeySync::with_base(base);
    // The first was deleted here, the second here and rejected elsewhere, the third elsewhere; the fourth is new.
    let rejected = keys(KeyState::Rejected, "a");
    sync.files_changed(&id(3), accepted.clone());
    sync.files_changed(&id(4), accepted.clone());
    sync.entry(&id(1), record(1, accepted.clone()), 1).unwrap();
    sync.entry(&id(2), record(2, rejected.clone()), 7).unwrap();
    sync.entry(&id(3), record(2, Keys::new()), 8).unwrap();
    let put = |n, record: KeyRecord, revision| Act::Put {
        id: id(n),
        record,
        revision,
    };
    let write = |n, keys: &Keys| Act::Write {
        id: id(n),
        keys: keys.clone(),
    };
    assert_eq!(
        sync.all_told(Joins::Again),
        [
            put(1, taken(2), 1),
            write(2, &rejected),
            write(3, &Keys::new()),
            put(4, record(1, accepted.clone()), 0)
        ]
    );
}

#[test]
fn removed_entries_are_written_again() {
    // Of a minion that is accepted, and of one that was deleted.
    let accepted = record(2, keys(KeyState::Accepted, "a"));
    let deleted = taken(4);
    let known: BTreeMap<_, _> = [(id(1), base(5, &accepted)), (id(2), base(6, &deleted))].into();
    let mut sync = KeySync::with_base(known.clone());
    sync.files_changed(&id(1), accepted.keys.clone());
    let acts = sync.all_told(Joins::Again);
    let put = |n, record: &KeyRecord| Act::Put {
        id: id(n),
        record: KeyRecord {
            number: record.number + 1,
            ..record.clone()
        },
        revision: 0,
    };
    assert_eq!(acts, [put(1, &accepted), put(2, &deleted)]);
    // Neither can an old one be put in their place.
    let mut sync = KeySync::with_base(known);
    let old = record(1, accepted.keys);
    assert_eq!(sync.entry(&id(1), old, 9), Err(2));
}

#[test]
fn old_records_cannot_be_put_back() {
    let mut sync = KeySync::default();
    sync.all_told(Joins::Again);
    let accepted = keys(KeyState::Accepted, "a");
    assert!(
        !sync
            .entry(&id(1), record(2, accepted.clone()), 4)
            .unwrap()
            .is_empty()
    );
    assert!(
        !sync
            .entry(&id(1), record(3, Keys::new()), 5)
            .unwrap()
            .is_empty()
    );
    assert_eq!(sync.entry(&id(1), record(2, accepted), 6), Err(3));
}

#[test]
fn what_others_write_is_replaced() {
    let mut sync = KeySync::default();
    let accepted = keys(KeyState::Accepted, "a");
    sync.files_changed(&id(1), accepted.clone());
    sync.all_told(Joins::Again);
    written(&mut sync, 1, 1);
    let put = |record: KeyRecord, revision| Act::Put {
        id: id(1),
        record,
        revision,
    };
    let again = |number| replaced(number - 1, record(number, accepted.clone()));
    assert_eq!(sync.foreign(&id(1), 2), [put(again(2), 2)]);
    written(&mut sync, 1, 3);
    // It does not stand in the way of a change, nor of one that was made without a connection.
    assert_eq!(sync.foreign(&id(1), 4), [put(again(3), 4)]);
    assert_eq!(sync.files_changed(&id(1), Keys::new()), []);
    let deleted = |number| put(replaced(2, taken(number)), number + 1);
    assert_eq!(written(&mut sync, 1, 5), [deleted(4)]);
    written(&mut sync, 1, 6);
    let base = sync.take_base().unwrap().clone();
    let mut sync = KeySync::with_base(base);
    sync.foreign(&id(1), 9);
    // That the key was taken away once is not forgotten.
    let again = replaced(3, taken(5));
    assert_eq!(sync.all_told(Joins::Again), [put(again, 9)]);
    // An entry of the same number as another one before, from a write that lost.
    let mut sync = KeySync::default();
    sync.all_told(Joins::Again);
    sync.entry(&id(1), record(3, accepted.clone()), 3).unwrap();
    assert_eq!(sync.entry(&id(1), record(3, Keys::new()), 4), Err(3));
    // Of minions that nobody knows, there is nothing to replace it by.
    assert_eq!(sync.foreign(&id(2), 5), []);
    let accepts = sync.files_changed(&id(2), accepted);
    assert!(matches!(accepts[..], [Act::Put { revision: 5, .. }]));
}

/// What another master does against a stranger's entry does not undo what this one has changed.
#[test]
fn a_replaced_entry_outweighs_no_change() {
    let accepted = keys(KeyState::Accepted, "a");
    let again = || replaced(1, record(2, accepted.clone()));
    let deletes = |number| Act::Put {
        id: id(1),
        record: replaced(number - 2, taken(number)),
        revision: number,
    };
    let mut sync = KeySync::default();
    sync.files_changed(&id(1), accepted.clone());
    sync.all_told(Joins::Again);
    written(&mut sync, 1, 1);
    // The other master was faster with its answer to the stranger, who wrote before this deletion.
    assert!(!sync.files_changed(&id(1), Keys::new()).is_empty());
    assert_eq!(sync.foreign(&id(1), 2), []);
    assert_eq!(sync.entry(&id(1), again(), 3), Ok(vec![]));
    assert_eq!(sync.put_ended(&id(1), Put::Conflict), [deletes(3)]);
    // The same without a connection, and over a restart.
    let known = base(1, &record(1, accepted.clone()));
    let mut sync = KeySync::with_base([(id(1), known)].into());
    sync.entry(&id(1), again(), 3).unwrap();
    assert_eq!(sync.all_told(Joins::Again), [deletes(3)]);
}

/// A second change is not undone by the first, whose answer was lost.
#[test]
fn the_echo_of_a_write_undoes_nothing() {
    let (one, two) = (keys(KeyState::Accepted, "a"), keys(KeyState::Rejected, "a"));
    for is_lost in [false, true] {
        let mut sync = KeySync::default();
        sync.all_told(Joins::Again);
        sync.files_changed(&id(1), one.clone());
        if is_lost {
            // With the connection.
            sync.down();
            sync.files_changed(&id(1), two.clone());
            sync.entry(&id(1), record(1, one.clone()), 1).unwrap();
            assert!(
                matches!(&sync.all_told(Joins::Again)[..], [Act::Put { record, .. }] if record.keys == two)
            );
        } else {
            sync.put_ended(&id(1), Put::Unknown);
            sync.files_changed(&id(1), two.clone());
            sync.entry(&id(1), record(1, one.clone()), 1).unwrap();
            let act = sync.put_ended(&id(1), Put::Conflict);
            assert!(matches!(&act[..], [Act::Put { record, .. }] if record.keys == two));
        }
    }
}

#[test]
fn a_deletion_waits_for_the_entry_that_was_faster() {
    let mut sync = KeySync::default();
    sync.files_changed(&id(1), keys(KeyState::Accepted, "a"));
    sync.all_told(Joins::Again);
    written(&mut sync, 1, 1);
    assert!(!sync.files_changed(&id(1), Keys::new()).is_empty());
    // Someone without the secret was faster: that does not bring the key back.
    assert_eq!(sync.put_ended(&id(1), Put::Conflict), []);
    let put = Act::Put {
        id: id(1),
        record: taken(2),
        revision: 2,
    };
    assert_eq!(sync.foreign(&id(1), 2), [put]);
}

/// Revisions of a bucket that was restored are lower; numbers decide.
#[test]
fn a_newer_record_counts_whatever_its_revision() {
    let accepted = record(5, keys(KeyState::Accepted, "a"));
    for (revision, deleted) in [(310, taken(7)), (401, taken(7))] {
        let mut sync = KeySync::with_base([(id(1), base(400, &accepted))].into());
        sync.files_changed(&id(1), accepted.keys.clone());
        sync.entry(&id(1), deleted.clone(), revision).unwrap();
        let gone = Act::Write {
            id: id(1),
            keys: Keys::new(),
        };
        assert_eq!(sync.all_told(Joins::Again), [gone]);
        assert_eq!(sync.base[&id(1)], base(revision, &deleted));
    }
    // The same record in another place is the same record; what is older than that was put back.
    let mut sync = KeySync::with_base([(id(1), base(400, &accepted))].into());
    sync.files_changed(&id(1), accepted.keys.clone());
    assert_eq!(sync.entry(&id(1), accepted.clone(), 30), Ok(vec![]));
    assert_eq!(sync.all_told(Joins::Again), []);
    assert_eq!(sync.newest(), 30);
    let old = record(4, Keys::new());
    assert_eq!(sync.entry(&id(1), old, 31), Err(5));
}

/// Whoever reads along can answer in the place of the servers.
#[test]
fn an_answer_alone_is_not_believed() {
    let mut sync = KeySync::default();
    sync.files_changed(&id(1), keys(KeyState::Accepted, "a"));
    sync.all_told(Joins::Again);
    assert_eq!(sync.put_ended(&id(1), Put::Done(1 << 60)), []);
    assert!(sync.base.is_empty() && sync.retry().is_empty());
    // The watch does not tell it: it is written again.
    assert!(matches!(&sync.retry()[..], [Act::Put { revision: 0, .. }]));
}

#[test]
fn epochs_outlive_entries_that_are_removed() {
    let accepted = KeyRecord {
        epoch: 3,
        ..record(2, keys(KeyState::Accepted, "a"))
    };
    let known: BTreeMap<_, _> = [(id(1), base(5, &accepted))].into();
    for (files, epoch) in [(accepted.keys.clone(), 3), (Keys::new(), 4)] {
        let mut sync = KeySync::with_base(known.clone());
        sync.files_changed(&id(1), files);
        let acts = sync.all_told(Joins::Again);
        assert!(matches!(&acts[..], [Act::Put { record, .. }] if record.epoch == epoch));
    }
}

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
