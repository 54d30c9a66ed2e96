//! Runtimes that wait for the operator.

use super::hear::RequestContext;
use crate::registry::KeptRuntime;
use crate::wire::Uuid;
use halite_gateway::clock::Clock;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Size limit of all waiting runtimes, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Time between two admission checks of a waiting runtime.
const AGAIN: Duration = Duration::from_secs(60);

/// A waiting runtime.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Its record, with the minion id under which it waits.
    pub kept: KeptRuntime,
    /// Its registration, to be confirmed; `None` if only a keepalive was received.
    pub ask: Option<RequestContext>,
    /// Whether the operator was told that it waits.
    pending: bool,
    asked: Instant,
    heard: Instant,
    bytes: usize,
}

/// All waiting runtimes.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: HashMap<Uuid, Waiter>,
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

    /// Lets a runtime wait; `pending`: the operator can accept it. Returns whether that is new. An earlier
    /// registration is still to be confirmed. If there are more than `most`, or too many bytes, those not heard for
    /// longest are dropped; they come back when they are heard again.
    pub fn wait(
        &mut self,
        kept: KeptRuntime,
        ask: Option<RequestContext>,
        pending: bool,
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
        let known = before.as_ref().filter(|one| one.pending);
        let new = pending && known.is_none_or(|one| one.kept.id != kept.id);
        let waiter = Waiter {
            kept,
            ask: ask.or(before.and_then(|one| one.ask)),
            pending,
            asked: now.at,
            heard: now.at,
            bytes,
        };
        self.bytes += bytes;
        self.waiting.insert(uuid, waiter);
        new
    }

    /// Marks a waiting runtime as one that can be accepted under this id; returns its record if that is new.
    pub fn mark_pending(&mut self, uuid: &Uuid, id: String) -> Option<KeptRuntime> {
        let waiter = self.waiting.get_mut(uuid)?;
        let new = !waiter.pending || waiter.kept.id != id;
        waiter.pending = true;
        waiter.kept.id = id;
        new.then(|| waiter.kept.clone())
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
        Some(waiter)
    }

    /// Runtimes that wait under a minion id.
    pub fn with_id(&self, id: &str) -> Vec<Uuid> {
        let waiting = self.waiting.iter();
        waiting
            .filter(|(_, waiter)| waiter.kept.id == id)
            .map(|(uuid, _)| uuid.clone())
            .collect()
    }

    /// Runtimes due for another admission check; silent ones are dropped.
    pub fn due(&mut self, forget_after: Duration, now: Clock) -> Vec<Uuid> {
        let bytes = &mut self.bytes;
        self.waiting.retain(|_, waiter| {
            let keeps = !now.is_past(waiter.heard, forget_after);
            *bytes -= if keeps { 0 } else { waiter.bytes };
            keeps
        });
        let waiting = self.waiting.iter_mut();
        let due = waiting.filter(|(_, waiter)| now.is_past(waiter.asked, AGAIN));
        due.map(|(uuid, waiter)| {
            waiter.asked = now.at;
            uuid.clone()
        })
        .collect()
    }
}
