//! The known modules, by runtime, in the order in which they were requested.

use crate::registry::KeptModule;
use crate::wire::{Child, Module, State, Uuid};
use halite_gateway::clock::Clock;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

/// A module with state that is not saved over restarts.
#[derive(Debug)]
pub(super) struct ModuleEntry {
    /// The part that is saved.
    pub kept: KeptModule,
    /// Whether its runtime has confirmed that it runs.
    pub started: bool,
    /// Consecutive keepalives that did not list it.
    pub missed: u8,
    /// When it was sent to its runtime.
    pub sent: Option<Instant>,
    /// Whether it was sent again because it was missing, and has not been listed since.
    pub again: bool,
    /// `object_id` of the request that its runtime may answer.
    pub asked: Option<String>,
    /// Runtimes that refused or lost it, each with its last arrival at that time: one that has arrived anew since may
    /// be tried again.
    pub refused_by: Vec<(Uuid, u64)>,
    /// The runtime that it was moved away from, until it is placed on another.
    pub before: Option<Uuid>,
    /// The resources it uses, as last reported by its runtime.
    pub usage: Option<Child>,
    /// Whether it is dead because it was missing, not because it ended.
    pub missing: bool,
    /// When its runtime was told to end it.
    pub told: Option<Instant>,
    ended: Option<Instant>,
    /// Size of its record, in bytes.
    bytes: usize,
}

/// Modules ordered by their running numbers.
pub(super) type ModuleSet = BTreeSet<(u64, Uuid)>;

/// The modules of a runtime.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Modules that have not ended.
    living: ModuleSet,
    /// Those of them that wait for a place.
    queued: ModuleSet,
    /// Places taken: by modules that run or were told to end.
    taken: usize,
    /// Records of modules that have ended.
    dead: usize,
    /// Foreign modules that have not ended.
    foreign: usize,
}

/// All modules.
#[derive(Debug, Default)]
pub(super) struct Modules {
    all: HashMap<Uuid, ModuleEntry>,
    loads: HashMap<Uuid, Load>,
    unplaced: ModuleSet,
    by_name: HashMap<String, BTreeSet<Uuid>>,
    ended: VecDeque<(Instant, Uuid)>,
    dead: usize,
    foreign: usize,
    bytes: usize,
}

impl Modules {
    /// Finds a module.
    pub fn get(&self, uuid: &Uuid) -> Option<&ModuleEntry> {
        self.all.get(uuid)
    }

    /// Modules with this name that have not ended.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &ModuleEntry> {
        let uuids = self.by_name.get(name).into_iter().flatten();
        uuids.filter_map(|uuid| self.all.get(uuid))
    }

    /// All modules, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &ModuleEntry> {
        self.all.values()
    }

    /// How many modules have not ended, not counting foreign ones.
    pub fn living(&self) -> usize {
        self.all.len() - self.dead - self.foreign
    }

    /// How many foreign modules have not ended: in total, and on this runtime.
    pub fn foreign(&self, runtime: &Uuid) -> (usize, usize) {
        let of_it = self.loads.get(runtime).map_or(0, |load| load.foreign);
        (self.foreign, of_it)
    }

    /// Size of all records, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Keepalives may have been lost: resets the counts of missed ones.
    pub fn reset_missed(&mut self) {
        for entry in self.all.values_mut() {
            entry.missed = 0;
        }
    }

    /// Modules of a runtime that have not ended, oldest first.
    pub fn of(&self, runtime: &Uuid) -> Vec<Uuid> {
        let load = self.loads.get(runtime);
        load.map(|load| uuids(&load.living)).unwrap_or_default()
    }

    /// How many modules of a runtime have not ended.
    pub fn count(&self, runtime: &Uuid) -> usize {
        self.loads.get(runtime).map_or(0, |load| load.living.len())
    }

    /// How many places of a runtime are taken.
    pub fn taken(&self, runtime: &Uuid) -> usize {
        self.loads.get(runtime).map_or(0, |load| load.taken)
    }

    /// Whether any record names this runtime.
    pub fn name_runtime(&self, runtime: &Uuid) -> bool {
        self.loads.contains_key(runtime)
    }

    /// The oldest module that waits for a place on this runtime.
    pub fn first_queued(&self, runtime: &Uuid) -> Option<Uuid> {
        let load = self.loads.get(runtime)?;
        let (_, uuid) = load.queued.first()?;
        Some(uuid.clone())
    }

    /// Modules that wait for any runtime, oldest first.
    pub fn unplaced(&self) -> Vec<Uuid> {
        uuids(&self.unplaced)
    }

    /// Whether a module waits for any runtime.
    pub fn any_unplaced(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// Inserts a module; replaces one with the same uuid.
    pub fn insert(&mut self, kept: KeptModule, now: Clock) {
        let uuid = kept.module.uuid.clone();
        self.remove(&uuid);
        let bytes = kept.module.byte_len();
        self.bytes += bytes;
        let entry = ModuleEntry {
            bytes,
            told: None,
            kept,
            started: false,
            missed: 0,
            sent: None,
            again: false,
            asked: None,
            refused_by: Vec::new(),
            before: None,
            usage: None,
            missing: false,
            ended: None,
        };
        self.all.insert(uuid.clone(), entry);
        self.add_to_lists(&uuid, now);
    }

    /// Changes a module's record; returns the record afterwards.
    pub fn change(
        &mut self,
        uuid: &Uuid,
        now: Clock,
        change: impl FnOnce(&mut Module),
    ) -> Option<KeptModule> {
        self.remove_from_lists(uuid);
        change(&mut self.all.get_mut(uuid)?.kept.module);
        self.add_to_lists(uuid, now);
        self.all.get(uuid).map(|entry| entry.kept.clone())
    }

    /// Changes the part of a module that is not saved.
    pub fn touch<T>(
        &mut self,
        uuid: &Uuid,
        change: impl FnOnce(&mut ModuleEntry) -> T,
    ) -> Option<T> {
        self.all.get_mut(uuid).map(change)
    }

    /// Removes a module.
    pub fn remove(&mut self, uuid: &Uuid) -> Option<ModuleEntry> {
        self.remove_from_lists(uuid);
        let entry = self.all.remove(uuid)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Of the modules of a runtime with this name, the one that ended last.
    pub fn last_ended(&self, runtime: &Uuid, name: &str) -> Option<&ModuleEntry> {
        let ended = self.ended.iter().rev();
        let known = ended.filter_map(|(at, uuid)| Some((at, self.all.get(uuid)?)));
        let mut its = known.filter(|(at, entry)| {
            let module = &entry.kept.module;
            let same = module.name == name && module.runtime.as_ref() == Some(runtime);
            same && entry.ended == Some(**at)
        });
        its.next().map(|(_, entry)| entry)
    }

    /// The module that ended first, if it ended before `before` or if more than `most` have ended.
    pub fn oldest_ended(&mut self, before: Option<Instant>, most: usize) -> Option<Uuid> {
        while let Some((at, uuid)) = self.ended.front() {
            let entry = self.all.get(uuid);
            if entry.and_then(|entry| entry.ended) != Some(*at) {
                // It was replaced, or runs again.
                self.ended.pop_front();
                continue;
            }
            if self.dead > most || before.is_some_and(|before| *at <= before) {
                return Some(uuid.clone());
            }
            return None;
        }
        None
    }

    /// Removes a module from all lists.
    fn remove_from_lists(&mut self, uuid: &Uuid) {
        let Some(entry) = self.all.get(uuid) else {
            return;
        };
        let module = &entry.kept.module;
        let key = (module.index, uuid.clone());
        let state = module.state;
        let foreign = usize::from(entry.kept.foreign && state != State::Dead);
        self.foreign -= foreign;
        match &module.runtime {
            Some(runtime) => {
                if let Some(load) = self.loads.get_mut(runtime) {
                    load.foreign -= foreign;
                    load.living.remove(&key);
                    load.queued.remove(&key);
                    load.taken -= usize::from(takes(state));
                    load.dead -= usize::from(state == State::Dead);
                    if load.living.is_empty() && load.dead == 0 {
                        self.loads.remove(runtime);
                    }
                }
            }
            None => {
                self.unplaced.remove(&key);
            }
        }
        self.dead -= usize::from(state == State::Dead);
        if let Some(named) = self.by_name.get_mut(&module.name) {
            named.remove(uuid);
            if named.is_empty() {
                self.by_name.remove(&module.name);
            }
        }
    }

    /// Adds a module to the lists that it belongs to.
    fn add_to_lists(&mut self, uuid: &Uuid, now: Clock) {
        let Some(entry) = self.all.get_mut(uuid) else {
            return;
        };
        let module = &entry.kept.module;
        let key = (module.index, uuid.clone());
        let state = module.state;
        let foreign = usize::from(entry.kept.foreign && state != State::Dead);
        self.foreign += foreign;
        if let Some(runtime) = &module.runtime {
            let load = self.loads.entry(runtime.clone()).or_default();
            load.foreign += foreign;
            load.taken += usize::from(takes(state));
            load.dead += usize::from(state == State::Dead);
            if state == State::Queued {
                load.queued.insert(key.clone());
            }
            if state != State::Dead {
                load.living.insert(key);
            }
        } else if state == State::Queued {
            self.unplaced.insert(key);
        }
        if state == State::Dead {
            self.dead += 1;
            if entry.ended.is_none() {
                entry.ended = Some(now.at);
                self.ended.push_back((now.at, uuid.clone()));
            }
        } else {
            entry.ended = None;
            let named = self.by_name.entry(module.name.clone()).or_default();
            named.insert(uuid.clone());
        }
    }
}

/// Whether a module in this state takes a place on its runtime.
fn takes(state: State) -> bool {
    matches!(state, State::Alive | State::Exiting)
}

fn uuids(line: &ModuleSet) -> Vec<Uuid> {
    line.iter().map(|(_, uuid)| uuid.clone()).collect()
}
