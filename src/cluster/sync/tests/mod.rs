//! Single steps; [`simulation`] plays random schedules.

mod simulation;

use super::*;

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
