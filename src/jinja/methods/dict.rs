//! Methods of dicts.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Dict, Obj, PyDict, View, ViewKind};
use super::{Table, positional};
use std::rc::Rc;

pub(super) const TABLE: Table = &[
    ("clear", |_, v, a| {
        positional("dict.clear", a, 0, 0)?;
        receiver(v)?.borrow_mut().clear();
        Ok(Obj::None)
    }),
    ("copy", |_, v, a| {
        positional("dict.copy", a, 0, 0)?;
        let copy = receiver(v)?.borrow().clone();
        Ok(Obj::dict(copy))
    }),
    ("fromkeys", fromkeys),
    ("get", get),
    ("items", |_, v, a| view("dict.items", v, a, ViewKind::Items)),
    ("keys", |_, v, a| view("dict.keys", v, a, ViewKind::Keys)),
    ("pop", pop),
    ("popitem", popitem),
    ("setdefault", setdefault),
    ("update", update),
    ("values", |_, v, a| {
        view("dict.values", v, a, ViewKind::Values)
    }),
];

fn receiver(value: &Obj) -> Result<&PyDict, Error> {
    match value {
        Obj::Dict(dict) => Ok(dict),
        _ => Err(Error::type_error("a dict is required")),
    }
}

fn view(name: &str, value: &Obj, args: &Args, kind: ViewKind) -> Result<Obj, Error> {
    positional(name, args, 0, 0)?;
    let dict = receiver(value)?.clone();
    Ok(Obj::View(Rc::new(View { kind, dict })))
}

fn get(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("get", args, 1, 2)?;
    let found = receiver(value)?.borrow().get(&args[0])?.cloned();
    Ok(found.or_else(|| args.get(1).cloned()).unwrap_or(Obj::None))
}

fn setdefault(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("setdefault", args, 1, 2)?;
    let dict = receiver(value)?;
    if let Some(found) = dict.borrow().get(&args[0])? {
        return Ok(found.clone());
    }
    let default = args.get(1).cloned().unwrap_or(Obj::None);
    dict.borrow_mut().insert(args[0].clone(), default.clone())?;
    Ok(default)
}

fn pop(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("pop", &["key", "default"])?;
    let Some(key) = &bound[0] else {
        return Err(Error::type_error("pop expected at least 1 argument, got 0"));
    };
    let taken = receiver(value)?.borrow_mut().remove(key)?;
    match taken.or_else(|| bound[1].clone()) {
        Some(taken) => Ok(taken),
        None => Err(Error::new(ErrorKind::Key, key.repr()?)),
    }
}

fn popitem(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    positional("dict.popitem", args, 0, 0)?;
    match receiver(value)?.borrow_mut().pop_last() {
        Some((key, item)) => Ok(Obj::tuple(vec![key, item])),
        None => Err(Error::new(
            ErrorKind::Key,
            "'popitem(): dictionary is empty'",
        )),
    }
}

fn fromkeys(cx: &mut Cx, _: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("fromkeys", args, 1, 2)?;
    let value = args.get(1).cloned().unwrap_or(Obj::None);
    let mut dict = Dict::new();
    for key in cx.iterate(&args[0])? {
        dict.insert(key, value.clone())?;
    }
    Ok(dict.into())
}

/// The entries of an argument of `dict.update(x)` or `dict(x)`: a dict, or pairs.
///
/// # Errors
/// It is neither of them.
pub fn entries(cx: &mut Cx, from: &Obj) -> Result<Vec<(Obj, Obj)>, Error> {
    if let Obj::Dict(dict) = from {
        let dict = dict.borrow();
        return Ok(dict.iter().map(|(k, v)| (k.clone(), v.clone())).collect());
    }
    let mut entries = Vec::new();
    for (n, pair) in cx.iterate(from)?.iter().enumerate() {
        let Ok(parts) = cx.iterate(pair) else {
            return Err(Error::type_error(format!(
                "cannot convert dictionary update sequence element #{n} to a sequence"
            )));
        };
        match parts.as_slice() {
            [key, value] => entries.push((key.clone(), value.clone())),
            other => {
                return Err(Error::value_error(format!(
                    "dictionary update sequence element #{n} has length {}; 2 is required",
                    other.len()
                )));
            }
        }
    }
    Ok(entries)
}

fn update(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if args.positional.len() > 1 {
        let given = args.positional.len();
        return Err(Error::type_error(format!(
            "update expected at most 1 argument, got {given}"
        )));
    }
    let more = match args.positional.first() {
        Some(from) => entries(cx, from)?,
        None => Vec::new(),
    };
    let dict = receiver(value)?;
    cx.check_size(dict.borrow().len() + more.len())?;
    let mut dict = dict.borrow_mut();
    for (key, item) in more {
        dict.insert(key, item)?;
    }
    for (key, item) in &args.keyword {
        dict.set_str(key, item.clone());
    }
    Ok(Obj::None)
}
