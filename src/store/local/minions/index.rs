//! Answers the questions of targets about the data of all minions without reading the data again.
//!
//! Fleets repeat themselves: most grains have few values. So for each grain at the top level there is a
//! column that holds, per minion, the number of a value, and a question is put to each value once. Grains
//! with too many values (addresses, serial numbers), pillars, and expressions over several grains have no
//! column; the answers to those questions are kept, per minion, for the last of them that were asked.
//!
//! Bounded: a minion takes two bytes per column and one per question kept, at most some 600, beside its
//! name and 24 bytes; typically 300 in all.

use super::watch::{Changes, Watch};
use super::{Layout, LocalMinions, read_map, stamp};
use crate::keys::IdList;
use halite_target::{DataQuery, QueryResults};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Item, Reader};
use halite_wire::{Map, Value};
use indexmap::IndexSet;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// Values of a grain that are told apart; a grain with more has no column.
const VALUES: usize = 1000;
/// Bytes of all values of a column.
const OCTETS: usize = 32 << 10;
/// Columns; grains beyond have none.
const COLUMNS: usize = 256;
/// A map without entries.
const EMPTY: &[u8] = &[0x80];
/// Questions whose answers are kept.
const QUESTIONS: usize = 64;

/// The index of one cache of minions' data.
#[derive(Debug, Default)]
pub(super) struct Index(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    slots: HashMap<MinionId, usize>,
    rows: Vec<Row>,
    columns: HashMap<Box<str>, Column>,
    /// Grains without a column exist for want of room.
    crowded: bool,
    /// The last asked stands last; a byte per slot, as [`CachedAnswer`].
    questions: Vec<(String, Vec<u8>)>,
    /// The slots of a list of ids, in its order.
    order: Option<(IdList, Arc<[usize]>)>,
    watch: Option<Watch>,
    /// What a row held at an earlier time must be compared with the files.
    time: u64,
}

/// What is known of one minion.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    state: State,
    /// Hash of the stamps of the files when they were read.
    seen: u64,
    /// When that was compared last.
    time: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not read, or changed since.
    #[default]
    Unread,
    /// There are no data.
    Absent,
    /// Its grains stand in the columns.
    Told,
    /// Its grains are such that only all of them together give an answer.
    Odd,
}

/// One grain at the top level.
#[derive(Debug, Default)]
struct Column {
    /// Per slot the number of the value plus one; 0 where there is none.
    codes: Vec<u16>,
    /// The values as msgpack.
    values: IndexSet<Box<[u8]>>,
    octets: usize,
    /// There were too many values; the rest is empty.
    full: bool,
}

/// An answer as it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum CachedAnswer {
    /// Nobody has asked yet.
    #[default]
    Unknown = 0,
    No = 1,
    Yes = 2,
    /// There are no data.
    Nothing = 3,
}

impl CachedAnswer {
    /// What a slot has among the answers kept for a question.
    fn of(kept: &[u8], slot: usize) -> CachedAnswer {
        match kept.get(slot) {
            Some(1) => CachedAnswer::No,
            Some(2) => CachedAnswer::Yes,
            _ => CachedAnswer::Unknown,
        }
    }
}

impl From<bool> for CachedAnswer {
    fn from(yes: bool) -> CachedAnswer {
        if yes {
            CachedAnswer::Yes
        } else {
            CachedAnswer::No
        }
    }
}

/// The answers of a list of minions to one question; those not known yet are found when they are asked for.
pub(super) struct Found<'a> {
    cache: &'a LocalMinions,
    ids: IdList,
    question: DataQuery<'a>,
    text: String,
    said: Vec<Cell<CachedAnswer>>,
}

impl QueryResults for Found<'_> {
    fn get(&self, at: usize) -> Option<bool> {
        let (cell, id) = (self.said.get(at)?, self.ids.get(at)?);
        if cell.get() == CachedAnswer::Unknown {
            let mut inner = self.cache.index.lock();
            // Slots may have been given anew since the question was put.
            let slot = inner.slot(id);
            cell.set(inner.find(self.cache, slot, id, &self.question, &self.text));
        }
        match cell.get() {
            CachedAnswer::No => Some(false),
            CachedAnswer::Yes => Some(true),
            CachedAnswer::Unknown | CachedAnswer::Nothing => None,
        }
    }
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// What is known of the minions to a question.
    pub(super) fn query<'a>(
        &self,
        cache: &'a LocalMinions,
        ids: &IdList,
        question: DataQuery<'a>,
    ) -> Found<'a> {
        let mut inner = self.lock();
        inner.look(cache);
        let slots = inner.slots_of(ids);
        let text = question.to_string();
        let said = inner.known(&slots, &question, &text);
        Found {
            cache,
            ids: ids.clone(),
            question,
            text,
            said,
        }
    }

    /// Takes in what has changed, so that the kernel need not remember it.
    pub(super) fn poll_changes(&self) {
        self.lock().poll_changes();
    }
}

impl Inner {
    fn poll_changes(&mut self) {
        let Some(watch) = &self.watch else { return };
        match watch.changes() {
            Changes::Of(names) => {
                for name in names {
                    let name = name.to_str().and_then(|name| name.strip_suffix(".p"));
                    let id = name.and_then(|name| MinionId::parse(name).ok());
                    if let Some(slot) = id.and_then(|id| self.slots.get(&id).copied()) {
                        self.rows[slot].state = State::Unread;
                    }
                }
            }
            Changes::Many => self.time += 1,
            Changes::Gone => self.watch = None,
        }
    }

    /// Makes rows of a time that may have passed count as such.
    fn look(&mut self, cache: &LocalMinions) {
        self.poll_changes();
        let banks = cache.banks();
        let banks = banks.as_deref().unwrap_or_default();
        if self.watch.as_ref().is_some_and(|watch| watch.is_of(banks)) {
            return;
        }
        // Watched first, then compared: nothing falls between.
        self.watch = Watch::new(banks);
        self.time += 1;
    }

    fn slots_of(&mut self, ids: &IdList) -> Arc<[usize]> {
        if let Some((known, slots)) = &self.order
            && Arc::ptr_eq(known, ids)
        {
            return slots.clone();
        }
        if self.slots.len() > 2 * ids.len() + 1000 {
            // Mostly minions of the past.
            let (watch, time) = (self.watch.take(), self.time);
            *self = Inner {
                watch,
                time,
                ..Inner::default()
            };
        }
        let slots: Arc<[usize]> = ids.iter().map(|id| self.slot(id)).collect();
        self.order = Some((ids.clone(), slots.clone()));
        slots
    }

    fn slot(&mut self, id: &MinionId) -> usize {
        if let Some(slot) = self.slots.get(id) {
            return *slot;
        }
        let slot = self.rows.len();
        self.rows.push(Row::default());
        self.slots.insert(id.clone(), slot);
        slot
    }

    /// The column that a question is answered from; an empty one for a grain that nobody has.
    fn column(&self, question: &DataQuery) -> Option<Option<&Column>> {
        match self.columns.get(question.grain()?) {
            Some(column) if column.full => None,
            None if self.crowded => None,
            column => Some(column),
        }
    }

    /// The answers that need no file to be looked at.
    fn known(&self, slots: &[usize], question: &DataQuery, text: &str) -> Vec<Cell<CachedAnswer>> {
        let column = self.column(question);
        let judged = column.map(|column| {
            let values = column.iter().flat_map(|column| &column.values);
            let by_value = values.map(|value| judge(question, value));
            let none = question.matches(&Map::new());
            std::iter::once(none).chain(by_value).collect::<Vec<bool>>()
        });
        let by_code = |code| {
            let judged = judged.as_ref()?;
            Some(
                judged
                    .get(usize::from(code))
                    .map_or(CachedAnswer::Unknown, |yes| CachedAnswer::from(*yes)),
            )
        };
        let kept = self.kept(text);
        let said = slots
            .iter()
            .map(|slot| self.said(*slot, column.flatten(), kept, &by_code));
        said.map(Cell::new).collect()
    }

    /// What is known of one minion; `by_code` judges a value of a column by its number plus one, if there
    /// is a column.
    fn said(
        &self,
        slot: usize,
        column: Option<&Column>,
        kept: &[u8],
        by_code: &impl Fn(u16) -> Option<CachedAnswer>,
    ) -> CachedAnswer {
        let row = self.rows[slot];
        if row.time != self.time {
            return CachedAnswer::Unknown;
        }
        match row.state {
            State::Unread => CachedAnswer::Unknown,
            State::Absent => CachedAnswer::Nothing,
            State::Told => {
                let code = column.and_then(|column| column.codes.get(slot)).copied();
                by_code(code.unwrap_or(0)).unwrap_or_else(|| CachedAnswer::of(kept, slot))
            }
            State::Odd => CachedAnswer::of(kept, slot),
        }
    }

    /// The answers that are kept for a question.
    fn kept(&self, text: &str) -> &[u8] {
        let kept = self.questions.iter().find(|(known, _)| known == text);
        kept.map_or(&[], |(_, said)| said)
    }

    /// The answer of one minion, from its files where it must be.
    fn find(
        &mut self,
        cache: &LocalMinions,
        slot: usize,
        id: &MinionId,
        question: &DataQuery,
        text: &str,
    ) -> CachedAnswer {
        self.refresh(cache, slot, id);
        let column = self.column(question);
        let by_code = |code: u16| {
            let values = column?.map(|column| &column.values);
            let value = usize::from(code)
                .checked_sub(1)
                .and_then(|at| values?.get_index(at));
            Some(CachedAnswer::from(match value {
                Some(value) => judge(question, value),
                None => question.matches(&Map::new()),
            }))
        };
        let known = self.said(slot, column.flatten(), self.kept(text), &by_code);
        if known != CachedAnswer::Unknown {
            return known;
        }
        let said = match question.grain() {
            Some(name) if self.rows[slot].state == State::Told => {
                let octets = std::fs::read(&cache.paths(id)[0]).unwrap_or_default();
                match part(grains_of(&octets, cache.layout), name.as_bytes()) {
                    Some(value) => judge(question, value),
                    None => question.matches(&Map::new()),
                }
            }
            _ => asked(cache, id, question),
        };
        self.keep(slot, text, said);
        said.into()
    }

    fn keep(&mut self, slot: usize, text: &str, said: bool) {
        let at = self.questions.iter().position(|(known, _)| known == text);
        let at = at.unwrap_or_else(|| {
            if self.questions.len() >= QUESTIONS {
                self.questions.remove(0);
            }
            self.questions.push((text.to_owned(), Vec::new()));
            self.questions.len() - 1
        });
        let kept = &mut self.questions[at].1;
        if kept.len() <= slot {
            kept.resize(self.rows.len(), 0);
        }
        kept[slot] = CachedAnswer::from(said) as u8;
    }

    /// Has a row say what the files of its minion say now.
    fn refresh(&mut self, cache: &LocalMinions, slot: usize, id: &MinionId) {
        let row = self.rows[slot];
        if row.state != State::Unread && row.time == self.time {
            return;
        }
        let paths = cache.paths(id);
        let seen = seen(&paths, cache.layout);
        self.rows[slot].time = self.time;
        if row.state != State::Unread && row.seen == seen {
            return;
        }
        for (_, said) in &mut self.questions {
            if let Some(said) = said.get_mut(slot) {
                *said = 0;
            }
        }
        for column in self.columns.values_mut() {
            if let Some(code) = column.codes.get_mut(slot) {
                *code = 0;
            }
        }
        let octets = std::fs::read(&paths[0]).ok();
        let octets = octets.as_deref().filter(|octets| is_map(octets));
        let grains = octets.map(|octets| grains_of(octets, cache.layout));
        self.rows[slot].seen = seen;
        self.rows[slot].state = match grains {
            None => State::Absent,
            Some(grains) => self.fill(slot, grains),
        };
    }

    /// Puts grains, a msgpack map, into the columns.
    fn fill(&mut self, slot: usize, grains: &[u8]) -> State {
        let mut reader = Reader::new(grains);
        let Ok(Item::Map(pairs)) = reader.item() else {
            return State::Absent;
        };
        let mut names = IndexSet::with_capacity(pairs.min(1000));
        for _ in 0..pairs {
            let name = match reader.item() {
                Ok(Item::Str(name)) => std::str::from_utf8(name).ok(),
                Ok(_) => None,
                Err(_) => return State::Absent,
            };
            // Of numbers, a target may name one in another spelling, and of equal names the last counts.
            let Some(name) = name.filter(|name| names.insert(*name)) else {
                return State::Odd;
            };
            let Ok(value) = reader.skip() else {
                return State::Absent;
            };
            self.put(slot, name, value);
        }
        State::Told
    }

    fn put(&mut self, slot: usize, name: &str, value: &[u8]) {
        if !self.columns.contains_key(name) {
            if self.columns.len() >= COLUMNS {
                self.crowded = true;
                return;
            }
            self.columns.insert(name.into(), Column::default());
        }
        if let Some(column) = self.columns.get_mut(name) {
            column.put(slot, self.rows.len(), value);
        }
    }
}

impl Column {
    fn put(&mut self, slot: usize, slots: usize, value: &[u8]) {
        if self.full {
            return;
        }
        let number = self.values.get_index_of(value).unwrap_or_else(|| {
            self.octets += value.len();
            self.values.insert_full(value.into()).0
        });
        if number >= VALUES || self.octets > OCTETS {
            *self = Column {
                full: true,
                ..Column::default()
            };
            return;
        }
        if self.codes.len() <= slot {
            self.codes.resize(slots.max(slot + 1), 0);
        }
        self.codes[slot] = number as u16 + 1;
    }
}

/// The answer of a minion whose grain has that value, msgpack.
fn judge(question: &DataQuery, value: &[u8]) -> bool {
    let name = question.grain().unwrap_or_default();
    let value = msgpack::decode(value);
    value.is_ok_and(|value| question.matches(&halite_wire::map! {name => value}))
}

/// The answer of a minion, from all of its grains or pillar.
fn asked(cache: &LocalMinions, id: &MinionId, question: &DataQuery) -> bool {
    let [grains, pillar] = cache.paths(id);
    let path = if question.is_pillar() {
        &pillar
    } else {
        &grains
    };
    let data = read_map(path).unwrap_or_default();
    match cache.layout {
        Layout::Split => question.matches(&data),
        Layout::Combined => {
            let part = if question.is_pillar() {
                "pillar"
            } else {
                "grains"
            };
            let part = data.get(part).and_then(Value::as_map);
            question.matches(part.unwrap_or(&Map::new()))
        }
    }
}

/// The grains within the map that a file holds.
fn grains_of(octets: &[u8], layout: Layout) -> &[u8] {
    match layout {
        Layout::Split => octets,
        Layout::Combined => part(octets, b"grains")
            .filter(|part| is_map(part))
            .unwrap_or(EMPTY),
    }
}

/// Whether bytes are one msgpack map and nothing else.
fn is_map(octets: &[u8]) -> bool {
    let head = Reader::new(octets).item();
    let mut whole = Reader::new(octets);
    let ends = whole.skip().is_ok_and(|value| value.len() == octets.len());
    ends && matches!(head, Ok(Item::Map(_)))
}

/// The value of one name in a msgpack map; of equal names the last counts.
fn part<'a>(octets: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut reader = Reader::new(octets);
    let Ok(Item::Map(pairs)) = reader.item() else {
        return None;
    };
    let mut found = None;
    for _ in 0..pairs {
        let key = reader.skip().ok()?;
        let value = reader.skip().ok()?;
        if matches!(Reader::new(key).item(), Ok(Item::Str(own)) if own == name) {
            found = Some(value);
        }
    }
    found
}

fn seen(paths: &[PathBuf; 2], layout: Layout) -> u64 {
    let mut hasher = DefaultHasher::new();
    stamp(&paths[0]).hash(&mut hasher);
    if layout == Layout::Split {
        stamp(&paths[1]).hash(&mut hasher);
    }
    hasher.finish()
}
