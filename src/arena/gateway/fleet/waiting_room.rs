//! Runtimes that wait for the operator.

use super::hear::RequestContext;
use crate::registry::KeptRuntime;
use crate::wire::Uuid;
use halite_gateway::clock::Clock;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Size limit of all waiting runtimes, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Time between two admission checks of a waiting runtime.
const AGAIN: Duration = Duration::from_secs(60);

/// What a runtime waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The operator, who was told about it.
    Operator,
    /// The next check of its admission.
    Again,
    /// Its own registration: its key was deleted, and its keepalives do not bring it back.
    Registration,
}

/// A waiting runtime.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Its record, with the minion id under which it waits.
    pub kept: KeptRuntime,
    /// Its registration, to be confirmed; `None` if only a keepalive was received.
    pub ask: Option<RequestContext>,
    wait: Wait,
    asked: Instant,
    heard: Instant,
    bytes: usize,
}

/// All waiting runtimes.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: HashMap<Uuid, Waiter>,
    /// Those that wait under each minion id.
    by_id: HashMap<String, HashSet<Uuid>>,
    bytes: usize,
}

impl WaitingRoom {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Size of all of them, in bytes.
    #[cfg(test)]
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Lets a runtime wait; returns whether it is new that the operator can accept it. An earlier registration is
    /// still to be confirmed. If there are more than `most`, or too many bytes, those not heard for
    /// longest are dropped; they come back when they are heard again.
    pub fn wait(
        &mut self,
        kept: KeptRuntime,
        ask: Option<RequestContext>,
        wait: Wait,
        most: usize,
        now: Clock,
    ) -> bool {
        let uuid = kept.runtime.uuid.clone();
        let before = self.take(&uuid);
        let bytes = kept.runtime.byte_len();
        while self.waiting.len() >= most.max(1) || self.bytes + bytes > MAX_BYTES {
            let oldest = self.waiting.iter().min_by_key(|(_, one)| one.heard);
            let Some(oldest) = oldest.map(|(uuid, _)| uuid.clone()) else {
                break;
            };
            self.take(&oldest);
        }
        let known = before.as_ref().filter(|one| one.wait == Wait::Operator);
        let new = wait == Wait::Operator && known.is_none_or(|one| one.kept.id != kept.id);
        let waiter = Waiter {
            kept,
            ask: ask.or(before.and_then(|one| one.ask)),
            wait,
            asked: now.at,
            heard: now.at,
            bytes,
        };
        self.put(uuid, waiter);
        new
    }

    /// Marks a waiting runtime as one that can be accepted under this id; returns its record if that is new.
    pub fn mark_pending(&mut self, uuid: &Uuid, id: String) -> Option<KeptRuntime> {
        let mut waiter = self.take(uuid)?;
        let new = waiter.wait != Wait::Operator || waiter.kept.id != id;
        waiter.wait = Wait::Operator;
        waiter.kept.id = id;
        let kept = waiter.kept.clone();
        self.put(uuid.clone(), waiter);
        new.then_some(kept)
    }

    /// Leaves a waiting runtime alone until it registers again.
    pub fn await_registration(&mut self, uuid: &Uuid) {
        if let Some(waiter) = self.waiting.get_mut(uuid) {
            waiter.wait = Wait::Registration;
        }
    }

    fn put(&mut self, uuid: Uuid, waiter: Waiter) {
        let ids = self.by_id.entry(waiter.kept.id.clone()).or_default();
        ids.insert(uuid.clone());
        self.bytes += waiter.bytes;
        self.waiting.insert(uuid, waiter);
    }

    /// Records a keepalive; returns whether the runtime waits, so that admission need not be checked.
    pub fn record_message(&mut self, uuid: &Uuid, now: Clock) -> bool {
        let waiter = self.waiting.get_mut(uuid);
        waiter.map(|waiter| waiter.heard = now.at).is_some()
    }

    /// Finds a waiting runtime.
    pub fn get(&self, uuid: &Uuid) -> Option<&Waiter> {
        self.waiting.get(uuid)
    }

    /// Removes a waiting runtime.
    pub fn take(&mut self, uuid: &Uuid) -> Option<Waiter> {
        let waiter = self.waiting.remove(uuid)?;
        self.bytes -= waiter.bytes;
        if let Some(ids) = self.by_id.get_mut(&waiter.kept.id) {
            ids.remove(uuid);
            if ids.is_empty() {
                self.by_id.remove(&waiter.kept.id);
            }
        }
        Some(waiter)
    }

    /// Runtimes that wait under a minion id.
    pub fn with_id(&self, id: &str) -> Vec<Uuid> {
        self.by_id.get(id).into_iter().flatten().cloned().collect()
    }

    /// Runtimes due for another admission check; silent ones are dropped.
    pub fn due(&mut self, forget_after: Duration, now: Clock) -> Vec<Uuid> {
        let waiting = self.waiting.iter();
        let silent = waiting.filter(|(_, waiter)| now.is_past(waiter.heard, forget_after));
        let silent: Vec<Uuid> = silent.map(|(uuid, _)| uuid.clone()).collect();
        for uuid in silent {
            self.take(&uuid);
        }
        let waiting = self.waiting.iter_mut();
        let due = waiting.filter(|(_, waiter)| {
            waiter.wait != Wait::Registration && now.is_past(waiter.asked, AGAIN)
        });
        due.map(|(uuid, waiter)| {
            waiter.asked = now.at;
            uuid.clone()
        })
        .collect()
    }
}
