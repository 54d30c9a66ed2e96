//! Evaluates terms of targets on the data of all minions without reading the data again.
//!
//! In a fleet most grains have few distinct values. So each top-level grain has a column that holds, per minion,
//! the number of a value, and a term is evaluated once per value. Grains with too many values (addresses, serial
//! numbers), pillars, and expressions over several grains have no column. The results of such terms are cached per
//! minion, for the most recent terms.
//!
//! Memory is bounded: a minion takes two bytes per column and one per cached term, about 600 at most, plus its
//! name and 24 bytes; typically 300 in total.

use super::watch::{Changes, Watch};
use super::{Layout, LocalMinions, read_map, stamp};
use crate::keys::IdList;
use halite_target::{DataQuery, QueryResults, RegexLimit};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Item, Reader};
use halite_wire::{Map, Value};
use indexmap::IndexSet;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// Most distinct values of a column; a grain with more has no column.
const MAX_VALUES: usize = 1000;
/// Most bytes of all values of a column.
const MAX_VALUE_BYTES: usize = 32 << 10;
/// Most columns; further grains have none.
const MAX_COLUMNS: usize = 256;
/// An empty msgpack map.
const EMPTY: &[u8] = &[0x80];
/// Most terms whose results are cached.
const MAX_QUERIES: usize = 64;

/// The index of one [`LocalMinions`].
#[derive(Debug, Default)]
pub(super) struct Index(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    slots: HashMap<MinionId, usize>,
    rows: Vec<Row>,
    columns: HashMap<Box<str>, Column>,
    /// There are grains without a column because of [`MAX_COLUMNS`].
    columns_full: bool,
    /// Cached results by query text, the newest last; a byte per slot, see [`CachedAnswer`].
    queries: Vec<(String, Vec<u8>)>,
    /// The slots of a list of ids, in its order.
    order: Option<(IdList, Arc<[usize]>)>,
    watch: Option<Watch>,
    /// Rows with an earlier generation must be compared with the files.
    generation: u64,
}

/// State of one minion.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    state: RowState,
    /// Hash of the versions of the files when they were read.
    seen: u64,
    /// The generation in which the files were last compared.
    generation: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowState {
    /// Not read, or changed since.
    #[default]
    Unread,
    /// There is no data.
    Absent,
    /// Its grains are in the columns.
    Indexed,
    /// Its grains cannot be indexed one by one: terms are evaluated on all of them.
    Unindexable,
}

/// One grain at the top level.
#[derive(Debug, Default)]
struct Column {
    /// Per slot, the number of the value plus one; 0 if the minion does not have the grain.
    codes: Vec<u16>,
    /// The values as msgpack.
    values: IndexSet<Box<[u8]>>,
    /// Bytes of all values.
    bytes: usize,
    /// There were too many values; the other fields are empty.
    full: bool,
}

/// A cached result of a query for one minion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum CachedAnswer {
    /// Not evaluated yet.
    #[default]
    Unknown = 0,
    No = 1,
    Yes = 2,
    /// There is no data.
    NoData = 3,
    /// A regular expression takes too many steps.
    GaveUp = 4,
}

impl CachedAnswer {
    /// The result for a slot among the cached results of a query.
    fn of(cached: &[u8], slot: usize) -> CachedAnswer {
        match cached.get(slot) {
            Some(1) => CachedAnswer::No,
            Some(2) => CachedAnswer::Yes,
            Some(4) => CachedAnswer::GaveUp,
            _ => CachedAnswer::Unknown,
        }
    }
}

impl From<Result<bool, RegexLimit>> for CachedAnswer {
    fn from(matches: Result<bool, RegexLimit>) -> CachedAnswer {
        match matches {
            Ok(true) => CachedAnswer::Yes,
            Ok(false) => CachedAnswer::No,
            Err(RegexLimit) => CachedAnswer::GaveUp,
        }
    }
}

/// The results of one query for a list of minions. Unknown ones are evaluated when they are read.
pub(super) struct LazyResults<'a> {
    cache: &'a LocalMinions,
    ids: IdList,
    query: DataQuery<'a>,
    text: String,
    answers: Vec<Cell<CachedAnswer>>,
}

impl QueryResults for LazyResults<'_> {
    fn get(&self, at: usize) -> Result<Option<bool>, RegexLimit> {
        let (Some(cell), Some(id)) = (self.answers.get(at), self.ids.get(at)) else {
            return Ok(None);
        };
        if cell.get() == CachedAnswer::Unknown {
            let mut inner = self.cache.index.lock();
            // Slots may have been reassigned since the query was made.
            let slot = inner.slot(id);
            cell.set(inner.evaluate(self.cache, slot, id, &self.query, &self.text));
        }
        match cell.get() {
            CachedAnswer::No => Ok(Some(false)),
            CachedAnswer::Yes => Ok(Some(true)),
            CachedAnswer::Unknown | CachedAnswer::NoData => Ok(None),
            CachedAnswer::GaveUp => Err(RegexLimit),
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

    /// Starts a query, with the results that are known without reading files.
    pub(super) fn query<'a>(
        &self,
        cache: &'a LocalMinions,
        ids: &IdList,
        query: DataQuery<'a>,
    ) -> LazyResults<'a> {
        let mut inner = self.lock();
        inner.refresh_watch(cache);
        let slots = inner.slots_of(ids);
        let text = query.to_string();
        let answers = inner.known_answers(&slots, &query, &text);
        LazyResults {
            cache,
            ids: ids.clone(),
            query,
            text,
            answers,
        }
    }

    /// Reads pending notifications, so that the kernel's queue does not overflow.
    pub(super) fn poll_changes(&self) {
        self.lock().poll_changes();
    }
}

impl Inner {
    fn poll_changes(&mut self) {
        let Some(watch) = &self.watch else { return };
        match watch.changes() {
            Changes::Files(names) => {
                for name in names {
                    let name = name.to_str().and_then(|name| name.strip_suffix(".p"));
                    let id = name.and_then(|name| MinionId::parse(name).ok());
                    if let Some(slot) = id.and_then(|id| self.slots.get(&id).copied()) {
                        self.rows[slot].state = RowState::Unread;
                    }
                }
            }
            Changes::Overflow => self.generation += 1,
            Changes::Lost => self.watch = None,
        }
    }

    /// Reads pending notifications. If there is no valid watch, starts a new generation, and a watch if possible.
    fn refresh_watch(&mut self, cache: &LocalMinions) {
        self.poll_changes();
        let banks = cache.banks();
        let banks = banks.as_deref().unwrap_or_default();
        if self.watch.as_ref().is_some_and(|watch| watch.is_of(banks)) {
            return;
        }
        // Watch first, then compare, so that no change is missed.
        self.watch = Watch::new(banks);
        self.generation += 1;
    }

    fn slots_of(&mut self, ids: &IdList) -> Arc<[usize]> {
        if let Some((known, slots)) = &self.order
            && Arc::ptr_eq(known, ids)
        {
            return slots.clone();
        }
        if self.slots.len() > 2 * ids.len() + 1000 {
            // Most of them belong to removed minions.
            let (watch, generation) = (self.watch.take(), self.generation);
            *self = Inner {
                watch,
                generation,
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

    /// The column that a query is evaluated on: `None` if there is none, `Some(None)` if no minion has the grain.
    fn column(&self, query: &DataQuery) -> Option<Option<&Column>> {
        match self.columns.get(query.grain()?) {
            Some(column) if column.full => None,
            None if self.columns_full => None,
            column => Some(column),
        }
    }

    /// The results that are known without reading files.
    fn known_answers(
        &self,
        slots: &[usize],
        query: &DataQuery,
        text: &str,
    ) -> Vec<Cell<CachedAnswer>> {
        let column = self.column(query);
        let matching = column.map(|column| {
            let values = column.iter().flat_map(|column| &column.values);
            let by_value = values.map(|value| value_matches(query, value));
            let without = query.matches(&Map::new());
            std::iter::once(without)
                .chain(by_value)
                .map(CachedAnswer::from)
                .collect::<Vec<_>>()
        });
        let by_code = |code| {
            let matching = matching.as_ref()?;
            Some(matching.get(usize::from(code)).copied().unwrap_or_default())
        };
        let cached = self.cached_answers(text);
        let answers = slots
            .iter()
            .map(|slot| self.known_answer(*slot, column.flatten(), cached, &by_code));
        answers.map(Cell::new).collect()
    }

    /// The result for one minion, if it is known without reading files; `by_code` gives the result for a code of the
    /// column, if there is a column.
    fn known_answer(
        &self,
        slot: usize,
        column: Option<&Column>,
        cached: &[u8],
        by_code: &impl Fn(u16) -> Option<CachedAnswer>,
    ) -> CachedAnswer {
        let row = self.rows[slot];
        if row.generation != self.generation {
            return CachedAnswer::Unknown;
        }
        match row.state {
            RowState::Unread => CachedAnswer::Unknown,
            RowState::Absent => CachedAnswer::NoData,
            RowState::Indexed => {
                let code = column.and_then(|column| column.codes.get(slot)).copied();
                by_code(code.unwrap_or(0)).unwrap_or_else(|| CachedAnswer::of(cached, slot))
            }
            RowState::Unindexable => CachedAnswer::of(cached, slot),
        }
    }

    /// The cached results of a query, by its text.
    fn cached_answers(&self, text: &str) -> &[u8] {
        let cached = self.queries.iter().find(|(known, _)| known == text);
        cached.map_or(&[], |(_, answers)| answers)
    }

    /// The result for one minion, from its files if it is not known.
    fn evaluate(
        &mut self,
        cache: &LocalMinions,
        slot: usize,
        id: &MinionId,
        query: &DataQuery,
        text: &str,
    ) -> CachedAnswer {
        self.refresh(cache, slot, id);
        let column = self.column(query);
        let by_code = |code: u16| {
            let values = column?.map(|column| &column.values);
            let value = usize::from(code)
                .checked_sub(1)
                .and_then(|at| values?.get_index(at));
            Some(CachedAnswer::from(match value {
                Some(value) => value_matches(query, value),
                None => query.matches(&Map::new()),
            }))
        };
        let known = self.known_answer(slot, column.flatten(), self.cached_answers(text), &by_code);
        if known != CachedAnswer::Unknown {
            return known;
        }
        let matches = match query.grain() {
            Some(name) if self.rows[slot].state == RowState::Indexed => {
                let bytes = std::fs::read(&cache.paths(id)[0]).unwrap_or_default();
                match part(grains_of(&bytes, cache.layout), name.as_bytes()) {
                    Some(value) => value_matches(query, value),
                    None => query.matches(&Map::new()),
                }
            }
            _ => matches_files(cache, id, query),
        };
        let answer = CachedAnswer::from(matches);
        self.cache_answer(slot, text, answer);
        answer
    }

    fn cache_answer(&mut self, slot: usize, text: &str, answer: CachedAnswer) {
        let at = self.queries.iter().position(|(known, _)| known == text);
        let at = at.unwrap_or_else(|| {
            if self.queries.len() >= MAX_QUERIES {
                self.queries.remove(0);
            }
            self.queries.push((text.to_owned(), Vec::new()));
            self.queries.len() - 1
        });
        let cached = &mut self.queries[at].1;
        if cached.len() <= slot {
            cached.resize(self.rows.len(), 0);
        }
        cached[slot] = answer as u8;
    }

    /// Brings a row up to date with the files of its minion.
    fn refresh(&mut self, cache: &LocalMinions, slot: usize, id: &MinionId) {
        let row = self.rows[slot];
        if row.state != RowState::Unread && row.generation == self.generation {
            return;
        }
        let paths = cache.paths(id);
        let seen = seen(&paths, cache.layout);
        self.rows[slot].generation = self.generation;
        if row.state != RowState::Unread && row.seen == seen {
            return;
        }
        for (_, answers) in &mut self.queries {
            if let Some(answer) = answers.get_mut(slot) {
                *answer = 0;
            }
        }
        for column in self.columns.values_mut() {
            if let Some(code) = column.codes.get_mut(slot) {
                *code = 0;
            }
        }
        let bytes = std::fs::read(&paths[0]).ok();
        let bytes = bytes.as_deref().filter(|bytes| is_map(bytes));
        let grains = bytes.map(|bytes| grains_of(bytes, cache.layout));
        self.rows[slot].seen = seen;
        self.rows[slot].state = match grains {
            None => RowState::Absent,
            Some(grains) => self.index_grains(slot, grains),
        };
    }

    /// Adds grains, a msgpack map, to the columns.
    fn index_grains(&mut self, slot: usize, grains: &[u8]) -> RowState {
        let mut reader = Reader::new(grains);
        let Ok(Item::Map(pairs)) = reader.item() else {
            return RowState::Absent;
        };
        let mut names = IndexSet::with_capacity(pairs.min(1000));
        for _ in 0..pairs {
            let name = match reader.item() {
                Ok(Item::Str(name)) => std::str::from_utf8(name).ok(),
                Ok(_) => None,
                Err(_) => return RowState::Absent,
            };
            // A target may spell a numeric name differently, and of duplicate names only the last counts.
            let Some(name) = name.filter(|name| names.insert(*name)) else {
                return RowState::Unindexable;
            };
            let Ok(value) = reader.skip() else {
                return RowState::Absent;
            };
            self.put(slot, name, value);
        }
        RowState::Indexed
    }

    fn put(&mut self, slot: usize, name: &str, value: &[u8]) {
        if !self.columns.contains_key(name) {
            if self.columns.len() >= MAX_COLUMNS {
                self.columns_full = true;
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
            self.bytes += value.len();
            self.values.insert_full(value.into()).0
        });
        if number >= MAX_VALUES || self.bytes > MAX_VALUE_BYTES {
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

/// Whether the grain matches with this value, which is msgpack.
fn value_matches(query: &DataQuery, value: &[u8]) -> Result<bool, RegexLimit> {
    let name = query.grain().unwrap_or_default();
    match msgpack::decode(value) {
        Ok(value) => query.matches(&halite_wire::map! {name => value}),
        Err(_) => Ok(false),
    }
}

/// Whether a minion matches, evaluated on all of its grains or pillar.
fn matches_files(
    cache: &LocalMinions,
    id: &MinionId,
    query: &DataQuery,
) -> Result<bool, RegexLimit> {
    let [grains, pillar] = cache.paths(id);
    let path = if query.is_pillar() { &pillar } else { &grains };
    let data = read_map(path).unwrap_or_default();
    match cache.layout {
        Layout::Split => query.matches(&data),
        Layout::Combined => {
            let part = if query.is_pillar() {
                "pillar"
            } else {
                "grains"
            };
            let part = data.get(part).and_then(Value::as_map);
            query.matches(part.unwrap_or(&Map::new()))
        }
    }
}

/// The grains in the map that a file holds.
fn grains_of(bytes: &[u8], layout: Layout) -> &[u8] {
    match layout {
        Layout::Split => bytes,
        Layout::Combined => part(bytes, b"grains")
            .filter(|part| is_map(part))
            .unwrap_or(EMPTY),
    }
}

/// Whether the bytes are exactly one msgpack map.
fn is_map(bytes: &[u8]) -> bool {
    let head = Reader::new(bytes).item();
    let mut whole = Reader::new(bytes);
    let ends = whole.skip().is_ok_and(|value| value.len() == bytes.len());
    ends && matches!(head, Ok(Item::Map(_)))
}

/// The value of a name in a msgpack map; of duplicate names the last counts.
fn part<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut reader = Reader::new(bytes);
    let Ok(Item::Map(pairs)) = reader.item() else {
        return None;
    };
    let mut found = None;
    for _ in 0..pairs {
        let key = reader.skip().ok()?;
        let value = reader.skip().ok()?;
        if matches!(Reader::new(key).item(), Ok(Item::Str(found)) if found == name) {
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
