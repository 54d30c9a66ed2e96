//! The known runtimes: their identities, whether they are connected, when they were last heard.

use crate::registry::KeptRuntime;
use crate::wire::{RuntimeState, Uuid};
use halite_gateway::clock::Clock;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The longest interval accepted from a runtime, as a multiple of the configured one.
const SLOWEST: u32 = 10;

/// A runtime with state that is not saved over restarts.
#[derive(Debug)]
pub(super) struct RuntimeEntry {
    /// The part that is saved.
    pub kept: KeptRuntime,
    /// When it was last heard, or when waiting for it started.
    pub heard: Instant,
    /// Whether `heard` is the time of a message, so that the time until the next one is the runtime's own interval.
    pub timed: bool,
    /// The time between its last two messages.
    pub gap: Duration,
    /// Whether it has been reported as late.
    pub late: bool,
    /// When its record was last saved.
    pub saved: Instant,
    /// When it disconnected.
    pub left: Option<Instant>,
    /// The number of its last arrival, counted over all runtimes; 0 if it has not arrived since the gateway started.
    pub arrival: u64,
}

impl RuntimeEntry {
    fn new(kept: KeptRuntime, now: Clock) -> RuntimeEntry {
        let left = (kept.runtime.state == RuntimeState::Dead).then_some(now.at);
        RuntimeEntry {
            kept,
            heard: now.at,
            timed: false,
            gap: Duration::ZERO,
            late: false,
            saved: now.at,
            left,
            arrival: 0,
        }
    }

    /// Whether it is connected.
    pub fn alive(&self) -> bool {
        self.kept.runtime.state == RuntimeState::Alive
    }

    /// Records a message from it.
    pub fn record_message(&mut self, now: Clock) {
        // One message may be both a return and a sign of life.
        if !self.timed || self.heard != now.at {
            self.gap = if self.timed {
                now.at.duration_since(self.heard)
            } else {
                Duration::ZERO
            };
        }
        self.heard = now.at;
        self.timed = true;
        self.late = false;
        self.kept.heard = u64::try_from(now.unix).unwrap_or(0);
    }

    /// Restarts the wait for it: nothing could be heard until now.
    pub fn restart_wait(&mut self, now: Clock) {
        self.heard = now.at;
        self.timed = false;
        self.late = false;
    }

    /// Time within which its next keepalive is expected; `None` if none is: it was told to send none, or has sent none
    /// since it registered, like the minimal runtimes (reference, section 4.3).
    ///
    /// No other runtime than ours uses the interval that it is told (reference, section 4.1). If one is late and then
    /// sends a keepalive, that time becomes its interval until it is quicker again.
    pub fn pace(&self) -> Option<Duration> {
        let told = Duration::from_secs(self.kept.runtime.keepalive);
        if told.is_zero() || !self.kept.speaks || !self.alive() {
            return None;
        }
        Some(if self.gap >= late(told) {
            // A runtime that was once silent for a day is not waited for that long again.
            self.gap.min(told.saturating_mul(SLOWEST))
        } else {
            told
        })
    }
}

/// Time after which a keepalive with this pace is late.
pub(super) fn late(pace: Duration) -> Duration {
    pace.saturating_mul(3) / 2
}

/// Time after which a runtime with this pace is gone.
pub(super) fn gone(pace: Duration) -> Duration {
    pace.saturating_mul(3)
}

/// All runtimes, by uuid, id and name.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    all: HashMap<Uuid, RuntimeEntry>,
    by_id: HashMap<String, BTreeSet<Uuid>>,
    by_name: HashMap<String, BTreeSet<Uuid>>,
    alive: usize,
    arrivals: u64,
}

impl Runtimes {
    /// Finds a runtime.
    pub fn get(&self, uuid: &Uuid) -> Option<&RuntimeEntry> {
        self.all.get(uuid)
    }

    /// The runtime with this minion id. A device that was reinstalled may have left another record with the same id:
    /// the connected one is returned, else the one heard last.
    pub fn by_id(&self, id: &str) -> Option<&RuntimeEntry> {
        let uuids = self.by_id.get(id)?.iter();
        let units = uuids.filter_map(|uuid| self.all.get(uuid));
        units.max_by_key(|entry| (entry.alive(), entry.kept.heard, entry.arrival))
    }

    /// Runtimes with this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &RuntimeEntry> {
        let uuids = self.by_name.get(name).into_iter().flatten();
        uuids.filter_map(|uuid| self.all.get(uuid))
    }

    /// All runtimes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &RuntimeEntry> {
        self.all.values()
    }

    /// How many are known, and how many of them are connected.
    pub fn counts(&self) -> (usize, usize) {
        (self.all.len(), self.alive)
    }

    /// Stores a runtime under its uuid, id and name; keeps what is known about its silence.
    pub fn put(&mut self, kept: KeptRuntime, now: Clock) {
        let uuid = kept.runtime.uuid.clone();
        let entry = match self.take(&uuid) {
            Some(mut entry) => {
                entry.left = match kept.runtime.state {
                    RuntimeState::Alive => None,
                    RuntimeState::Dead => entry.left.or(Some(now.at)),
                };
                entry.kept = kept;
                entry.saved = now.at;
                entry
            }
            None => RuntimeEntry::new(kept, now),
        };
        let name = entry.kept.runtime.name.clone();
        self.by_name.entry(name).or_default().insert(uuid.clone());
        let id = entry.kept.id.clone();
        self.by_id.entry(id).or_default().insert(uuid.clone());
        self.alive += usize::from(entry.alive());
        self.all.insert(uuid, entry);
    }

    /// Changes anything but its id, name and state.
    pub fn touch<T>(
        &mut self,
        uuid: &Uuid,
        change: impl FnOnce(&mut RuntimeEntry) -> T,
    ) -> Option<T> {
        self.all.get_mut(uuid).map(change)
    }

    /// Records that a runtime has connected, or connected anew.
    pub fn arrive(&mut self, uuid: &Uuid, now: Clock) {
        self.arrivals += 1;
        if let Some(entry) = self.all.get_mut(uuid) {
            entry.arrival = self.arrivals;
            entry.record_message(now);
        }
    }

    /// The number of its last arrival, counted over all runtimes.
    pub fn arrival(&self, uuid: &Uuid) -> u64 {
        self.all.get(uuid).map_or(0, |entry| entry.arrival)
    }

    /// Removes a runtime.
    pub fn take(&mut self, uuid: &Uuid) -> Option<RuntimeEntry> {
        let entry = self.all.remove(uuid)?;
        forget(&mut self.by_id, &entry.kept.id, uuid);
        forget(&mut self.by_name, &entry.kept.runtime.name, uuid);
        self.alive -= usize::from(entry.alive());
        Some(entry)
    }

    /// Nothing could be heard until now.
    pub fn restart_wait(&mut self, now: Clock) {
        for entry in self.all.values_mut() {
            entry.restart_wait(now);
        }
    }
}

/// Removes a runtime from a list of those with the same id or name.
fn forget(lists: &mut HashMap<String, BTreeSet<Uuid>>, key: &str, uuid: &Uuid) {
    if let Some(list) = lists.get_mut(key) {
        list.remove(uuid);
        if list.is_empty() {
            lists.remove(key);
        }
    }
}
