//! Methods of lists, tuples and sets.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::filters::sort::sorted;
use super::super::value::{Args, Obj, PyList, PySet, Set};
use super::{Table, bounds, integer, positional};
use std::rc::Rc;

pub(super) const LIST: Table = &[
    ("append", append),
    ("clear", |_, v, a| {
        positional("list.clear", a, 0, 0)?;
        list(v)?.borrow_mut().clear();
        Ok(Obj::None)
    }),
    ("copy", |_, v, a| {
        positional("list.copy", a, 0, 0)?;
        let items = list(v)?.borrow().clone();
        Ok(Obj::list(items))
    }),
    ("count", count),
    ("extend", extend),
    ("index", index),
    ("insert", insert),
    ("pop", pop),
    ("remove", remove),
    ("reverse", |_, v, a| {
        positional("list.reverse", a, 0, 0)?;
        list(v)?.borrow_mut().reverse();
        Ok(Obj::None)
    }),
    ("sort", sort),
];

pub(super) const TUPLE: Table = &[("count", count), ("index", index)];

pub(super) const SET: Table = &[
    ("add", |_, v, a| {
        let args = positional("set.add", a, 1, 1)?;
        set(v)?.borrow_mut().insert(args[0].clone())?;
        Ok(Obj::None)
    }),
    ("clear", |_, v, a| {
        positional("set.clear", a, 0, 0)?;
        set(v)?.borrow_mut().clear();
        Ok(Obj::None)
    }),
    ("copy", |_, v, a| {
        positional("set.copy", a, 0, 0)?;
        let copy = set(v)?.borrow().clone();
        Ok(Obj::set(copy))
    }),
    ("difference", |cx, v, a| {
        combined(cx, v, a, Combine::Difference)
    }),
    ("discard", |_, v, a| {
        let args = positional("set.discard", a, 1, 1)?;
        set(v)?.borrow_mut().remove(&args[0])?;
        Ok(Obj::None)
    }),
    ("intersection", |cx, v, a| {
        combined(cx, v, a, Combine::Intersection)
    }),
    ("isdisjoint", |cx, v, a| {
        related(cx, v, a, |own, other| none_in(other, own))
    }),
    ("issubset", |cx, v, a| related(cx, v, a, all_in)),
    ("issuperset", |cx, v, a| {
        related(cx, v, a, |own, other| all_in(other, own))
    }),
    ("pop", |_, v, a| {
        positional("set.pop", a, 0, 0)?;
        let set = set(v)?;
        let first = set.borrow().iter().next().cloned();
        let Some(first) = first else {
            return Err(Error::new(ErrorKind::Key, "'pop from an empty set'"));
        };
        set.borrow_mut().remove(&first)?;
        Ok(first)
    }),
    ("remove", |_, v, a| {
        let args = positional("set.remove", a, 1, 1)?;
        if set(v)?.borrow_mut().remove(&args[0])? {
            Ok(Obj::None)
        } else {
            Err(Error::new(ErrorKind::Key, args[0].repr()?))
        }
    }),
    ("symmetric_difference", |cx, v, a| {
        combined(cx, v, a, Combine::Symmetric)
    }),
    ("union", |cx, v, a| combined(cx, v, a, Combine::Union)),
    ("update", |cx, v, a| {
        let Obj::Set(all) = combined(cx, v, a, Combine::Union)? else {
            return Ok(Obj::None);
        };
        let all = all.borrow().clone();
        *set(v)?.borrow_mut() = all;
        Ok(Obj::None)
    }),
];

fn list(value: &Obj) -> Result<&PyList, Error> {
    match value {
        Obj::List(list) => Ok(list),
        _ => Err(Error::type_error("a list is required")),
    }
}

fn set(value: &Obj) -> Result<&PySet, Error> {
    match value {
        Obj::Set(set) => Ok(set),
        _ => Err(Error::type_error("a set is required")),
    }
}

fn append(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("list.append", args, 1, 1)?;
    let list = list(value)?;
    cx.check_size(list.borrow().len() + 1)?;
    list.borrow_mut().push(args[0].clone());
    Ok(Obj::None)
}

fn extend(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("list.extend", args, 1, 1)?;
    let more = cx.iterate(&args[0])?;
    let list = list(value)?;
    cx.check_size(list.borrow().len() + more.len())?;
    list.borrow_mut().extend(more);
    Ok(Obj::None)
}

fn insert(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("insert", args, 2, 2)?;
    let list = list(value)?;
    let length = list.borrow().len();
    cx.check_size(length + 1)?;
    let at = match integer(&args[0])? {
        at if at < 0 => length.saturating_sub(at.unsigned_abs() as usize),
        at => (at as usize).min(length),
    };
    list.borrow_mut().insert(at, args[1].clone());
    Ok(Obj::None)
}

fn pop(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("pop", args, 0, 1)?;
    let list = list(value)?;
    let mut items = list.borrow_mut();
    if items.is_empty() {
        return Err(Error::new(ErrorKind::Index, "pop from empty list"));
    }
    let at = args.first().map_or(Ok(-1), integer)?;
    let length = items.len() as i64;
    let at = if at < 0 { at + length } else { at };
    if !(0..length).contains(&at) {
        return Err(Error::new(ErrorKind::Index, "pop index out of range"));
    }
    Ok(items.remove(at as usize))
}

fn elements(value: &Obj) -> Vec<Obj> {
    match value {
        Obj::List(list) => list.borrow().clone(),
        Obj::Tuple(items) => items.to_vec(),
        _ => Vec::new(),
    }
}

fn position(items: &[Obj], wanted: &Obj) -> Result<Option<usize>, Error> {
    for (n, item) in items.iter().enumerate() {
        if item.same(wanted) || item.equals(wanted)? {
            return Ok(Some(n));
        }
    }
    Ok(None)
}

fn remove(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("list.remove", args, 1, 1)?;
    match position(&elements(value), &args[0])? {
        Some(at) => {
            list(value)?.borrow_mut().remove(at);
            Ok(Obj::None)
        }
        None => Err(Error::value_error("list.remove(x): x not in list")),
    }
}

fn index(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("index", args, 1, 3)?;
    let items = elements(value);
    let (start, end) = bounds(args, 1, items.len())?;
    let part = items.get(start..end).unwrap_or_default();
    match (position(part, &args[0])?, value) {
        (Some(at), _) => Ok((start + at).into()),
        (None, Obj::Tuple(_)) => Err(Error::value_error("tuple.index(x): x not in tuple")),
        (None, _) => Err(Error::value_error(format!(
            "{} is not in list",
            args[0].repr()?
        ))),
    }
}

fn count(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let name = format!("{}.count", value.type_name());
    let args = positional(&name, args, 1, 1)?;
    let mut count = 0usize;
    for item in elements(value) {
        count += usize::from(item.same(&args[0]) || item.equals(&args[0])?);
    }
    Ok(count.into())
}

fn sort(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if !args.positional.is_empty() {
        return Err(Error::type_error("sort() takes no positional arguments"));
    }
    let bound = args.bind("sort", &["key", "reverse"])?;
    let items = elements(value);
    let keys = match &bound[0] {
        None | Some(Obj::None) => items.clone(),
        Some(key) => {
            let keys = items.iter();
            let keys = keys.map(|item| cx.call(key, &Args::positional([item.clone()])));
            keys.collect::<Result<_, _>>()?
        }
    };
    let reverse = bound[1].as_ref().map_or(Ok(false), Obj::truthy)?;
    let items = sorted(cx, items, keys, reverse)?;
    *list(value)?.borrow_mut() = items;
    Ok(Obj::None)
}

#[derive(Clone, Copy)]
enum Combine {
    Union,
    Intersection,
    Difference,
    Symmetric,
}

fn combined(cx: &mut Cx, value: &Obj, args: &Args, how: Combine) -> Result<Obj, Error> {
    let mut result = set(value)?.borrow().clone();
    for other in &args.positional {
        let other = Set::of(cx.iterate(other)?)?;
        result = match how {
            Combine::Union => Set::of(result.iter().chain(other.iter()).cloned())?,
            Combine::Intersection => chosen(&result, &other, true)?,
            Combine::Difference => chosen(&result, &other, false)?,
            Combine::Symmetric => {
                let (a, b) = (
                    chosen(&result, &other, false)?,
                    chosen(&other, &result, false)?,
                );
                Set::of(a.iter().chain(b.iter()).cloned())?
            }
        };
    }
    Ok(Obj::set(result))
}

/// The elements that are in the other set (`within`), or that are not.
fn chosen(own: &Set, other: &Set, within: bool) -> Result<Set, Error> {
    let mut result = Set::new();
    for item in own.iter() {
        if other.contains(item)? == within {
            result.insert(item.clone())?;
        }
    }
    Ok(result)
}

fn related(
    cx: &mut Cx,
    value: &Obj,
    args: &Args,
    is: fn(&Set, &Set) -> Result<bool, Error>,
) -> Result<Obj, Error> {
    let args = positional("set method", args, 1, 1)?;
    let other = Set::of(cx.iterate(&args[0])?)?;
    let own = Rc::clone(set(value)?);
    let own = own.borrow();
    is(&own, &other).map(Obj::Bool)
}

fn all_in(small: &Set, large: &Set) -> Result<bool, Error> {
    Ok(chosen(small, large, false)?.is_empty())
}

fn none_in(small: &Set, large: &Set) -> Result<bool, Error> {
    Ok(chosen(small, large, true)?.is_empty())
}
