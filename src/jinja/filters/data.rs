//! Salt's filters for nested data (`salt/utils/data.py`).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Dict, Obj};
use super::{FilterFn, flag, required, text_of};
use halite_wire::yaml;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("compare_dicts", compare_dicts),
    ("compare_lists", compare_lists),
    ("from_entries", from_entries),
    ("json_decode_dict", encode_dict),
    ("json_decode_list", encode_list),
    ("json_encode_dict", encode_dict),
    ("json_encode_list", encode_list),
    ("mysql_to_dict", mysql_to_dict),
    ("to_entries", to_entries),
    ("traverse", traverse),
];

/// Splits `a:b:c` at the delimiters; anything else is a list of keys.
fn keys_of(cx: &mut Cx, key: &Obj, delimiter: &str) -> Result<Vec<Obj>, Error> {
    if let Some(text) = key.as_str() {
        if delimiter.is_empty() {
            return Err(Error::value_error("empty separator"));
        }
        return Ok(text.split(delimiter).map(Obj::from).collect());
    }
    match key {
        Obj::Int(_) | Obj::Bool(_) => Ok(vec![key.clone()]),
        other => cx.iterate(other),
    }
}

fn traverse(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["key", "default", "delimiter"];
    let bound = args.bind_required("traverse_dict_and_list", &names, 1)?;
    let delimiter = super::text_or(&bound[2], ":")?;
    let mut at = value.clone();
    for key in keys_of(cx, &required(&bound[0]), delimiter)? {
        let next = match &at {
            Obj::List(list) => {
                let items = list.borrow().clone();
                in_list(cx, &items, &key)?
            }
            other => in_other(other, &key)?,
        };
        match next {
            Some(next) => at = next,
            None => return Ok(bound[1].clone().unwrap_or(Obj::None)),
        }
    }
    Ok(at)
}

/// An element of a list by index. A dict in the list that has the key takes precedence.
fn in_list(cx: &mut Cx, items: &[Obj], key: &Obj) -> Result<Option<Obj>, Error> {
    let number = match key.as_str() {
        Some(text) => super::parse::int(text, 10).map(Obj::big),
        None => key.as_bigint().map(Obj::big),
    };
    let wanted = number.as_ref().unwrap_or(key);
    for item in items {
        if let Obj::Dict(dict) = item
            && let Some(found) = dict.borrow().get(wanted)?
        {
            return Ok(Some(found.clone()));
        }
    }
    cx.charge(items.len())?;
    let Some(index) = number.and_then(|number| number.as_int()) else {
        return Ok(None);
    };
    Ok(element(items, index))
}

/// The element at an index; negative indices count from the end.
fn element(items: &[Obj], index: i64) -> Option<Obj> {
    let index = if index < 0 {
        index + items.len() as i64
    } else {
        index
    };
    let at = usize::try_from(index).ok()?;
    items.get(at).cloned()
}

fn in_other(value: &Obj, key: &Obj) -> Result<Option<Obj>, Error> {
    let Obj::Dict(dict) = value else {
        return match (value, key.as_int()) {
            (Obj::Undefined(missing), _) => Err(missing.error()),
            (Obj::Tuple(items), Some(index)) => Ok(element(items, index)),
            _ => Ok(None),
        };
    };
    let dict = dict.borrow();
    if let Some(found) = dict.get(key)? {
        return Ok(Some(found.clone()));
    }
    let Some(text) = key.as_str() else {
        return Ok(None);
    };
    // Parsed as YAML, the key may be a number (salt/utils/args.py yamlify_arg).
    let loaded = Obj::from(yaml::yamlify_arg(text));
    if loaded.check_hashable().is_err() {
        return Ok(None);
    }
    Ok(dict.get(&loaded)?.cloned())
}

fn to_entries(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("to_entries", &[])?;
    let entry = |key: Obj, value: &Obj| {
        let mut dict = Dict::new();
        dict.set_str("key", key);
        dict.set_str("value", value.clone());
        Obj::dict(dict)
    };
    match value {
        Obj::Dict(dict) => {
            let dict = dict.borrow();
            let entries = dict.iter().map(|(k, v)| entry(k.clone(), v));
            Ok(Obj::list(entries.collect()))
        }
        Obj::List(list) => {
            let list = list.borrow();
            let entries = list.iter().enumerate().map(|(n, v)| entry(n.into(), v));
            Ok(Obj::list(entries.collect()))
        }
        Obj::Undefined(missing) => Err(missing.error()),
        _ => Err(Error::new(
            ErrorKind::Other,
            "Input data must be a dict or list",
        )),
    }
}

fn from_entries(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("from_entries", &[])?;
    let mut out = Dict::new();
    for entry in cx.iterate(value)? {
        let Obj::Dict(entry) = &entry else {
            return Err(Error::type_error(format!(
                "'{}' object is not iterable",
                entry.type_name()
            )));
        };
        let entry = entry.borrow();
        let named = |wanted: &str| {
            let mut found = entry
                .iter()
                .filter(|(key, _)| key.as_str().is_some_and(|key| key.to_lowercase() == wanted));
            found.next_back().map(|(_, value)| value.clone())
        };
        for name in ["key", "name"] {
            let Some(key) = named(name) else { continue };
            if key.truthy()? {
                out.insert(key, named("value").unwrap_or(Obj::None))?;
                break;
            }
        }
    }
    Ok(out.into())
}

fn change(old: &Obj, new: &Obj) -> Obj {
    let mut dict = Dict::new();
    dict.set_str("old", old.clone());
    dict.set_str("new", new.clone());
    dict.into()
}

fn dict_of<'a>(value: &'a Obj, name: &str) -> Result<std::cell::Ref<'a, Dict>, Error> {
    match value {
        Obj::Dict(dict) => Ok(dict.borrow()),
        Obj::Undefined(missing) => Err(missing.error()),
        other => Err(Error::type_error(format!(
            "{name} must be a dict, not {}",
            other.type_name()
        ))),
    }
}

fn compare_dicts(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("compare_dicts", &["new"])?;
    let new = required(&bound[0]);
    let (old, new) = (dict_of(value, "old")?, dict_of(&new, "new")?);
    let mut out = Dict::new();
    for (key, item) in new.iter() {
        match old.get(key)? {
            None => out.insert(key.clone(), change(&"".into(), item))?,
            Some(before) if !before.equals(item)? => {
                out.insert(key.clone(), change(before, item))?
            }
            Some(_) => None,
        };
    }
    for (key, item) in old.iter() {
        if !new.contains(key)? {
            let mut gone = Dict::new();
            gone.set_str("new", "".into());
            gone.set_str("old", item.clone());
            out.insert(key.clone(), gone.into())?;
        }
    }
    Ok(out.into())
}

fn compare_lists(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("compare_lists", &["new"])?;
    let new = required(&bound[0]);
    let mut out = Dict::new();
    for (name, these, others) in [("new", &new, value), ("old", value, &new)] {
        let mut only = Vec::new();
        for item in cx.iterate(these)? {
            cx.charge(others.length().unwrap_or(1))?;
            if !cx.contains(others, &item)? {
                only.push(item);
            }
        }
        if !only.is_empty() {
            out.set_str(name, Obj::list(only));
        }
    }
    Ok(out.into())
}

/// Parses a table printed by `mysql` (`salt/utils/data.py mysql_to_dict`).
fn mysql_to_dict(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("mysql_to_dict", &["key"], 1)?;
    let key = required(&bound[0]);
    let mut headers: Vec<String> = Vec::new();
    let mut out = Dict::new();
    for line in cx.iterate(value)? {
        let line = text_of(&line)?;
        if line.is_empty() || line.starts_with('+') {
            continue;
        }
        let cells: Vec<&str> = line
            .split('|')
            .map(|cell| cell.trim_matches(halite_wire::pytext::is_space))
            .collect();
        if headers.len() < 2 {
            headers = cells.into_iter().map(str::to_owned).collect();
            continue;
        }
        let mut row = Dict::new();
        for (n, header) in headers.iter().enumerate().take(headers.len() - 1).skip(1) {
            let Some(cell) = cells.get(n) else {
                return Err(Error::new(ErrorKind::Index, "list index out of range"));
            };
            row.set_str(header, super::numbers::number_or_text(cell));
        }
        let Some(own) = row.get(&key)?.cloned() else {
            return Err(Error::new(ErrorKind::Key, key.repr()?));
        };
        out.insert(own, row.into())?;
    }
    Ok(out.into())
}

/// Converts texts to bytes and tuples to lists (`salt/utils/data.py encode_dict`, despite its name).
fn encoded(cx: &mut Cx, value: &Obj, depth: usize) -> Result<Obj, Error> {
    cx.charge(4)?;
    if depth > 100 {
        return Err(Error::limit("containers are nested too deeply"));
    }
    Ok(match value {
        Obj::Undefined(missing) => return Err(missing.error()),
        Obj::Str(text) | Obj::Markup(text) => Obj::Bytes(text.as_bytes().into()),
        Obj::List(list) => {
            let list = list.borrow();
            let items = list.iter().map(|item| encoded(cx, item, depth + 1));
            Obj::list(items.collect::<Result<_, _>>()?)
        }
        Obj::Tuple(items) => {
            let items = items.iter().map(|item| encoded(cx, item, depth + 1));
            Obj::list(items.collect::<Result<_, _>>()?)
        }
        Obj::Dict(dict) => {
            let mut out = Dict::new();
            for (key, item) in dict.borrow().iter() {
                out.insert(encoded(cx, key, depth + 1)?, encoded(cx, item, depth + 1)?)?;
            }
            out.into()
        }
        other => other.clone(),
    })
}

fn encode_dict(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = [
        "encoding",
        "errors",
        "keep",
        "preserve_dict_class",
        "preserve_tuples",
    ];
    flag(&args.bind("encode_dict", &names)?[2], false)?;
    match value {
        Obj::Dict(_) => encoded(cx, value, 0),
        other => Err(super::no_attribute(other, "items")),
    }
}

fn encode_list(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = [
        "encoding",
        "errors",
        "keep",
        "preserve_dict_class",
        "preserve_tuples",
    ];
    args.bind("encode_list", &names)?;
    let items = Obj::list(cx.iterate(value)?);
    encoded(cx, &items, 0)
}
