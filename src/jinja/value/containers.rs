//! Lists, tuples, dicts, sets and their iterators.

use super::{Obj, PyDict};
use crate::error::Error;
use indexmap::{Equivalent, IndexMap};
use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

/// Nesting depth up to which containers are dropped recursively; deeper ones wait in a queue.
const DROP_DEPTH: usize = 100;

thread_local! {
    static DROPPING: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Obj>> = const { RefCell::new(Vec::new()) };
}

/// Drops the contents of a container without deep recursion, which templates could provoke.
pub(crate) fn drop_all(mut items: Vec<Obj>) {
    items.retain(holds_others);
    if items.is_empty() {
        return;
    }
    let depth = DROPPING.get();
    if depth >= DROP_DEPTH {
        // The outermost call drains the queue.
        // At the end of a thread the queue may be gone before a value that another thread-local kept.
        let _ = WAITING.try_with(|waiting| waiting.borrow_mut().append(&mut items));
        return;
    }
    DROPPING.set(depth + 1);
    drop(items);
    if depth == 0 {
        while let Ok(Some(next)) = WAITING.try_with(|waiting| waiting.borrow_mut().pop()) {
            drop(next);
        }
    }
    DROPPING.set(depth);
}

fn holds_others(item: &Obj) -> bool {
    matches!(
        item,
        Obj::List(_)
            | Obj::Tuple(_)
            | Obj::Dict(_)
            | Obj::Set(_)
            | Obj::View(_)
            | Obj::Iter(_)
            | Obj::Native(_)
            | Obj::Undefined(_)
    )
}

/// A list; borrow it to read or change it.
pub struct List(RefCell<Vec<Obj>>);

/// A shared list.
pub type PyList = Rc<List>;

impl List {
    /// A list with these elements.
    pub fn new(items: Vec<Obj>) -> List {
        List(RefCell::new(items))
    }
}

impl Deref for List {
    type Target = RefCell<Vec<Obj>>;

    fn deref(&self) -> &RefCell<Vec<Obj>> {
        &self.0
    }
}

impl Drop for List {
    fn drop(&mut self) {
        drop_all(std::mem::take(self.0.get_mut()));
    }
}

/// A tuple.
pub struct Tuple(Vec<Obj>);

impl Tuple {
    /// A tuple with these elements.
    pub fn new(items: Vec<Obj>) -> Tuple {
        Tuple(items)
    }
}

impl Deref for Tuple {
    type Target = [Obj];

    fn deref(&self) -> &[Obj] {
        &self.0
    }
}

impl Drop for Tuple {
    fn drop(&mut self) {
        drop_all(std::mem::take(&mut self.0));
    }
}

/// A hashable value as dict key or set element: `1`, `1.0` and `True` are the same key, as in Python.
#[derive(Clone)]
pub struct Key(Obj);

impl Key {
    /// A key with this value.
    ///
    /// # Errors
    /// Lists, dicts, sets and strict undefined values have no hash.
    pub fn new(obj: &Obj) -> Result<Key, Error> {
        obj.check_hashable()?;
        Ok(Key(obj.clone()))
    }

    /// A text key.
    pub fn text(text: impl Into<Rc<str>>) -> Key {
        Key(Obj::Str(text.into()))
    }

    /// The value.
    pub fn obj(&self) -> &Obj {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0.same(&other.0) || self.0.equals(&other.0).unwrap_or(false)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

/// A text to look up without creating a [`Key`].
pub struct StrKey<'a>(pub &'a str);

/// The hash of a text, as a key or inside one.
pub(super) fn hash_str<H: Hasher>(text: &str, state: &mut H) {
    state.write_u8(1);
    text.hash(state);
}

impl Hash for StrKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_str(self.0, state);
    }
}

impl Equivalent<Key> for StrKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.0.as_str() == Some(self.0)
    }
}

/// The class of a dict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DictKind {
    /// `dict`.
    #[default]
    Plain,
    /// `collections.OrderedDict`, which prints differently.
    Ordered,
}

impl DictKind {
    /// The name of the class.
    pub fn type_name(self) -> &'static str {
        match self {
            DictKind::Plain => "dict",
            DictKind::Ordered => "OrderedDict",
        }
    }
}

/// A dict, in insertion order.
#[derive(Default)]
pub struct Dict {
    map: IndexMap<Key, Obj>,
    /// Its class.
    pub kind: DictKind,
}

impl Clone for Dict {
    fn clone(&self) -> Dict {
        Dict {
            map: self.map.clone(),
            kind: self.kind,
        }
    }
}

impl Drop for Dict {
    fn drop(&mut self) {
        let map = std::mem::take(&mut self.map);
        let mut items = Vec::new();
        for (key, value) in map {
            items.push(value);
            if holds_others(&key.0) {
                items.push(key.0);
            }
        }
        drop_all(items);
    }
}

impl Dict {
    /// An empty dict.
    pub fn new() -> Dict {
        Dict::default()
    }

    /// An empty dict with capacity.
    pub fn with_capacity(entries: usize) -> Dict {
        Dict {
            map: IndexMap::with_capacity(entries),
            kind: DictKind::Plain,
        }
    }

    /// An empty `OrderedDict`.
    pub fn ordered() -> Dict {
        Dict {
            map: IndexMap::new(),
            kind: DictKind::Ordered,
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The key cannot be hashed.
    pub fn get(&self, key: &Obj) -> Result<Option<&Obj>, Error> {
        if let Some(text) = key.as_str() {
            return Ok(self.get_str(text));
        }
        Ok(self.map.get(&Key::new(key)?))
    }

    /// The value of a text key.
    pub fn get_str(&self, key: &str) -> Option<&Obj> {
        self.map.get(&StrKey(key))
    }

    /// Sets a key and returns the previous value.
    ///
    /// # Errors
    /// The key cannot be hashed.
    pub fn insert(&mut self, key: Obj, value: Obj) -> Result<Option<Obj>, Error> {
        key.check_hashable()?;
        Ok(self.map.insert(Key(key), value))
    }

    /// Sets a text key.
    pub fn set_str(&mut self, key: &str, value: Obj) {
        if let Some(slot) = self.map.get_mut(&StrKey(key)) {
            *slot = value;
            return;
        }
        self.map.insert(Key::text(key), value);
    }

    /// Sets a key that is known to be hashable.
    pub fn insert_key(&mut self, key: Key, value: Obj) -> Option<Obj> {
        self.map.insert(key, value)
    }

    /// Removes a key; the others keep their order.
    ///
    /// # Errors
    /// The key cannot be hashed.
    pub fn remove(&mut self, key: &Obj) -> Result<Option<Obj>, Error> {
        Ok(self.map.shift_remove(&Key::new(key)?))
    }

    /// Removes the last entry.
    pub fn pop_last(&mut self) -> Option<(Obj, Obj)> {
        self.map.pop().map(|(key, value)| (key.0, value))
    }

    /// The entry at a position.
    pub fn at(&self, index: usize) -> Option<(&Obj, &Obj)> {
        self.map
            .get_index(index)
            .map(|(key, value)| (&key.0, value))
    }

    /// Whether the key exists.
    ///
    /// # Errors
    /// The key cannot be hashed.
    pub fn contains(&self, key: &Obj) -> Result<bool, Error> {
        Ok(self.get(key)?.is_some())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Obj, &Obj)> + ExactSizeIterator {
        self.map.iter().map(|(key, value)| (&key.0, value))
    }

    /// Keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Obj> + ExactSizeIterator {
        self.map.keys().map(|key| &key.0)
    }

    /// Values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Obj> + ExactSizeIterator {
        self.map.values()
    }
}

impl<K: Into<Rc<str>>, V: Into<Obj>> FromIterator<(K, V)> for Dict {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Dict {
        let mut dict = Dict::new();
        for (key, value) in iter {
            dict.map.insert(Key::text(key), value.into());
        }
        dict
    }
}

/// A set, in insertion order (Python's order is arbitrary).
#[derive(Clone, Default)]
pub struct Set(Dict);

impl Set {
    /// An empty set.
    pub fn new() -> Set {
        Set::default()
    }

    /// A set with these elements.
    ///
    /// # Errors
    /// An element cannot be hashed.
    pub fn of(items: impl IntoIterator<Item = Obj>) -> Result<Set, Error> {
        let mut set = Set::new();
        for item in items {
            set.insert(item)?;
        }
        Ok(set)
    }

    /// Adds an element; returns whether it is new.
    ///
    /// # Errors
    /// It cannot be hashed.
    pub fn insert(&mut self, item: Obj) -> Result<bool, Error> {
        if self.0.contains(&item)? {
            return Ok(false);
        }
        Ok(self.0.insert(item, Obj::None)?.is_none())
    }

    /// Whether it contains an element.
    ///
    /// # Errors
    /// It cannot be hashed.
    pub fn contains(&self, item: &Obj) -> Result<bool, Error> {
        self.0.contains(item)
    }

    /// Removes an element; returns whether it was present.
    ///
    /// # Errors
    /// It cannot be hashed.
    pub fn remove(&mut self, item: &Obj) -> Result<bool, Error> {
        Ok(self.0.remove(item)?.is_some())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Obj> + ExactSizeIterator {
        self.0.keys()
    }
}

/// `range(start, stop, step)`; `step` is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First number.
    pub start: i64,
    /// The end, exclusive.
    pub stop: i64,
    /// Difference between consecutive numbers.
    pub step: i64,
}

impl Range {
    /// Number of elements.
    pub fn len(&self) -> usize {
        let (low, high) = if self.step > 0 {
            (self.start, self.stop)
        } else {
            (self.stop, self.start)
        };
        let span = i128::from(high) - i128::from(low);
        if span <= 0 {
            return 0;
        }
        let step = i128::from(self.step).abs().max(1);
        usize::try_from((span + step - 1) / step).unwrap_or(usize::MAX)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at a position, from 0.
    pub fn at(&self, index: usize) -> Option<i64> {
        if index >= self.len() {
            return None;
        }
        let at = i128::from(self.start) + i128::from(self.step) * index as i128;
        i64::try_from(at).ok()
    }

    /// Whether it contains a number.
    pub fn contains(&self, number: i64) -> bool {
        let within = if self.step > 0 {
            self.start <= number && number < self.stop
        } else {
            self.stop < number && number <= self.start
        };
        let off = i128::from(number) - i128::from(self.start);
        within && off % i128::from(self.step) == 0
    }

    /// The numbers.
    pub fn iter(&self) -> impl Iterator<Item = Obj> + '_ {
        (0..self.len()).filter_map(|index| self.at(index).map(Obj::Int))
    }
}

/// The part of a dict shown by a [`View`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// `dict_keys`.
    Keys,
    /// `dict_values`.
    Values,
    /// `dict_items`.
    Items,
}

impl ViewKind {
    /// The name of the class.
    pub fn type_name(self) -> &'static str {
        match self {
            ViewKind::Keys => "dict_keys",
            ViewKind::Values => "dict_values",
            ViewKind::Items => "dict_items",
        }
    }
}

/// The current keys, values or items of a dict.
pub struct View {
    /// The part shown.
    pub kind: ViewKind,
    /// The dict.
    pub dict: PyDict,
}

impl View {
    /// The current elements.
    pub fn items(&self) -> Vec<Obj> {
        let length = self.dict.borrow().len();
        (0..length).filter_map(|index| self.at(index)).collect()
    }

    /// The current element at a position.
    pub fn at(&self, index: usize) -> Option<Obj> {
        let dict = self.dict.borrow();
        let (key, value) = dict.at(index)?;
        Some(match self.kind {
            ViewKind::Keys => key.clone(),
            ViewKind::Values => value.clone(),
            ViewKind::Items => Obj::tuple(vec![key.clone(), value.clone()]),
        })
    }
}

/// Elements that can be iterated once.
pub struct Generator {
    /// The name of its class.
    pub label: &'static str,
    rest: RefCell<std::vec::IntoIter<Obj>>,
}

impl Generator {
    /// A generator over precomputed elements.
    pub fn new(label: &'static str, items: Vec<Obj>) -> Generator {
        Generator {
            label,
            rest: RefCell::new(items.into_iter()),
        }
    }

    /// The next element.
    pub fn next(&self) -> Option<Obj> {
        self.rest.borrow_mut().next()
    }

    /// All remaining elements.
    pub fn take(&self) -> Vec<Obj> {
        self.rest.borrow_mut().by_ref().collect()
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        drop_all(self.rest.get_mut().collect());
    }
}
