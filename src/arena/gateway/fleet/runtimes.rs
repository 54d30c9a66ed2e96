//! The runtimes that are known: who they are, whether they are there, when they were heard.

use crate::registry::KeptRuntime;
use crate::wire::{RuntimeState, Uuid};
use halite_gateway::clock::Clock;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Intervals that a runtime may take for one, at most.
const SLOWEST: u32 = 10;

/// A runtime with what is forgotten when the gateway ends.
#[derive(Debug)]
pub(super) struct Unit {
    /// What is kept.
    pub kept: KeptRuntime,
    /// When it was heard last, or when waiting for it began.
    pub heard: Instant,
    /// Whether `heard` is when it was heard, so that the time to the next message is its own.
    pub timed: bool,
    /// The time between its last two signs of life.
    pub gap: Duration,
    /// Whether it has been told that it is late.
    pub late: bool,
    /// When its record was kept last.
    pub saved: Instant,
    /// When it went away.
    pub left: Option<Instant>,
    /// Which arrival of any runtime was its last one; 0 is none since the gateway began.
    pub arrival: u64,
}

impl Unit {
    fn new(kept: KeptRuntime, now: Clock) -> Unit {
        let left = (kept.runtime.state == RuntimeState::Dead).then_some(now.at);
        Unit {
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

    /// Whether it is there.
    pub fn alive(&self) -> bool {
        self.kept.runtime.state == RuntimeState::Alive
    }

    /// It was heard.
    pub fn hear(&mut self, now: Clock) {
        // One message may be a return and a sign of life.
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

    /// Waiting for it begins anew: nobody could have been heard until now.
    pub fn excuse(&mut self, now: Clock) {
        self.heard = now.at;
        self.timed = false;
        self.late = false;
    }

    /// Time within which its next keepalive is waited for; `None` where none is: it was told to send none, or has
    /// sent none since it registered, as the minimal runtimes never do (reference, section 4.3).
    ///
    /// No peer but ours reads the interval that it is told (reference, section 4.1). One that was late and then
    /// sent is taken to be one of those, and waited for as long as that took, until it is quicker again.
    pub fn pace(&self) -> Option<Duration> {
        let told = Duration::from_secs(self.kept.runtime.keepalive);
        if told.is_zero() || !self.kept.speaks || !self.alive() {
            return None;
        }
        Some(if self.gap >= late(told) {
            // Who was silent for a day once is not waited for that long again.
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

/// All runtimes, by their uuids, ids and names.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    all: HashMap<Uuid, Unit>,
    by_id: HashMap<String, BTreeSet<Uuid>>,
    by_name: HashMap<String, BTreeSet<Uuid>>,
    alive: usize,
    arrivals: u64,
}

impl Runtimes {
    /// One of them.
    pub fn get(&self, uuid: &Uuid) -> Option<&Unit> {
        self.all.get(uuid)
    }

    /// The one with this minion id. A device that was installed anew may have left another record with it: who is there counts, else
    /// who was heard last.
    pub fn by_id(&self, id: &str) -> Option<&Unit> {
        let uuids = self.by_id.get(id)?.iter();
        let units = uuids.filter_map(|uuid| self.all.get(uuid));
        units.max_by_key(|unit| (unit.alive(), unit.kept.heard, unit.arrival))
    }

    /// Those with this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Unit> {
        let uuids = self.by_name.get(name).into_iter().flatten();
        uuids.filter_map(|uuid| self.all.get(uuid))
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.all.values()
    }

    /// How many are known, and how many of them are there.
    pub fn counts(&self) -> (usize, usize) {
        (self.all.len(), self.alive)
    }

    /// Keeps a runtime under its uuid, id and name; what was known of its silence stays.
    pub fn put(&mut self, kept: KeptRuntime, now: Clock) {
        let uuid = kept.runtime.uuid.clone();
        let unit = match self.take(&uuid) {
            Some(mut unit) => {
                unit.left = match kept.runtime.state {
                    RuntimeState::Alive => None,
                    RuntimeState::Dead => unit.left.or(Some(now.at)),
                };
                unit.kept = kept;
                unit.saved = now.at;
                unit
            }
            None => Unit::new(kept, now),
        };
        let name = unit.kept.runtime.name.clone();
        self.by_name.entry(name).or_default().insert(uuid.clone());
        let id = unit.kept.id.clone();
        self.by_id.entry(id).or_default().insert(uuid.clone());
        self.alive += usize::from(unit.alive());
        self.all.insert(uuid, unit);
    }

    /// Changes what does not concern its id, name and state.
    pub fn touch<T>(&mut self, uuid: &Uuid, change: impl FnOnce(&mut Unit) -> T) -> Option<T> {
        self.all.get_mut(uuid).map(change)
    }

    /// One has come, or come anew: it was heard.
    pub fn arrive(&mut self, uuid: &Uuid, now: Clock) {
        self.arrivals += 1;
        if let Some(unit) = self.all.get_mut(uuid) {
            unit.arrival = self.arrivals;
            unit.hear(now);
        }
    }

    /// Which arrival of any runtime was the last one of this.
    pub fn arrival(&self, uuid: &Uuid) -> u64 {
        self.all.get(uuid).map_or(0, |unit| unit.arrival)
    }

    /// Forgets one.
    pub fn take(&mut self, uuid: &Uuid) -> Option<Unit> {
        let unit = self.all.remove(uuid)?;
        forget(&mut self.by_id, &unit.kept.id, uuid);
        forget(&mut self.by_name, &unit.kept.runtime.name, uuid);
        self.alive -= usize::from(unit.alive());
        Some(unit)
    }

    /// Nobody could be heard until now.
    pub fn excuse(&mut self, now: Clock) {
        for unit in self.all.values_mut() {
            unit.excuse(now);
        }
    }
}

/// Takes a runtime out of a list of those with the same id or name.
fn forget(lists: &mut HashMap<String, BTreeSet<Uuid>>, key: &str, uuid: &Uuid) {
    if let Some(list) = lists.get_mut(key) {
        list.remove(uuid);
        if list.is_empty() {
            lists.remove(key);
        }
    }
}
