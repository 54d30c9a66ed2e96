//! The thread that saves changes of the fleet, so that they survive a restart. The loop does not wait for the disk
//! unless the queue is full.

use crate::registry::{ArenaStore, Change};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Changes that may be queued; if the queue is full the loop waits.
const WAITING: usize = 20_000;
/// Changes saved together.
const BATCH: usize = 1000;
/// Time between two attempts while the disk does not work.
const AGAIN: Duration = Duration::from_secs(1);

/// Creates the queue of changes.
pub(super) fn queue() -> (Sender<Change>, Receiver<Change>) {
    crossbeam_channel::bounded(WAITING)
}

/// Queues a change.
pub(super) fn enqueue(keeper: &Sender<Change>, change: Change) {
    if keeper.send(change).is_err() {
        log::error!("the thread that saves the fleet has stopped; a change is lost");
    }
}

/// Saves changes until the other end of the queue is dropped.
///
/// Changes that cannot be saved are retried. Of each runtime or module only the last change is then kept, so that no
/// more changes are held than there are runtimes and modules.
pub(super) fn run(store: &mut ArenaStore, changes: &Receiver<Change>) {
    let mut held: Vec<Change> = Vec::new();
    let mut failures: u64 = 0;
    // While the disk does not work: when to try again, and how many changes may be held before superseded ones are
    // dropped.
    let mut rest: Option<(Instant, usize)> = None;
    loop {
        let ended = match receive(changes, rest.map(|(until, _)| until)) {
            Ok(change) => {
                held.push(change);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        held.extend(changes.try_iter().take(BATCH));
        if let Some((until, most)) = &mut rest
            && !ended
            && Instant::now() < *until
        {
            if held.len() > *most {
                last_of_each(&mut held);
                *most = 2 * held.len() + BATCH;
            }
            continue;
        }
        match store.save(&held) {
            Ok(()) => {
                if failures > 0 {
                    log::info!("the fleet can be saved again");
                }
                failures = 0;
                rest = None;
                held.clear();
            }
            Err(e) => {
                failures += 1;
                if failures.is_power_of_two() {
                    log::error!(
                        "the fleet cannot be saved: {e}; retrying, {failures} failures so far"
                    );
                }
                last_of_each(&mut held);
                rest = Some((Instant::now() + AGAIN, 2 * held.len() + BATCH));
            }
        }
        if ended {
            return;
        }
    }
}

/// Receives the next change; waits for ever, or until `until`.
fn receive(changes: &Receiver<Change>, until: Option<Instant>) -> Result<Change, RecvTimeoutError> {
    match until {
        None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(until) => changes.recv_deadline(until),
    }
}

/// Keeps only the last change of each runtime, manager and module, in their order.
fn last_of_each(changes: &mut Vec<Change>) {
    let mut seen = std::collections::HashSet::new();
    let mut last: Vec<Change> = std::mem::take(changes)
        .into_iter()
        .rev()
        .filter(|change| seen.insert(subject(change)))
        .collect();
    last.reverse();
    *changes = last;
}

/// What a change is about: a kind and a uuid.
fn subject(change: &Change) -> (u8, String) {
    let (kind, uuid) = match change {
        Change::Manager(manager) => (0, &manager.uuid),
        Change::NoManager(uuid) => (0, uuid),
        Change::Runtime(kept) => (1, &kept.runtime.uuid),
        Change::NoRuntime(uuid) => (1, uuid),
        Change::Module(kept) => (2, &kept.module.uuid),
        Change::NoModule(uuid) => (2, uuid),
    };
    (kind, uuid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::grains::tests::runtime;
    use crate::wire::{Manager, RuntimeState};

    #[test]
    fn of_what_waits_the_last_counts() {
        let uuid = |text: &str| text.parse().unwrap();
        let manager = |name: &str| {
            Change::Manager(Manager {
                uuid: uuid("a"),
                name: name.to_owned(),
                state: RuntimeState::Alive,
            })
        };
        let mut changes = vec![
            manager("one"),
            Change::Runtime(Box::new(runtime("a", "rt"))),
            manager("two"),
            Change::NoRuntime(uuid("a")),
            Change::NoModule(uuid("a")),
        ];
        last_of_each(&mut changes);
        let left = [
            manager("two"),
            Change::NoRuntime(uuid("a")),
            Change::NoModule(uuid("a")),
        ];
        assert_eq!(changes, left);
    }

    #[test]
    fn what_could_not_be_kept_is_kept_later() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("gateways");
        std::fs::write(&blocked, "no directory").unwrap();
        let (give_to, changes) = queue();
        let mut store = ArenaStore::new(dir.path());
        let reader = ArenaStore::new(dir.path());
        let worker = std::thread::spawn(move || run(&mut store, &changes));
        for name in ["one", "two"] {
            enqueue(&give_to, Change::Runtime(Box::new(runtime("a", name))));
        }
        // The queue is empty as soon as the changes are held.
        while !give_to.is_empty() {
            std::thread::yield_now();
        }
        std::fs::remove_file(&blocked).unwrap();
        drop(give_to);
        worker.join().unwrap();
        let kept = reader.load().unwrap().runtimes;
        assert_eq!(kept, [runtime("a", "two")]);
    }

    #[test]
    fn all_is_kept_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ArenaStore::new(dir.path());
        let (give_to, changes) = queue();
        let kept = runtime("a", "rt");
        enqueue(&give_to, Change::Runtime(Box::new(kept.clone())));
        drop(give_to);
        run(&mut store, &changes);
        assert_eq!(store.load().unwrap().runtimes, [kept]);
    }
}
