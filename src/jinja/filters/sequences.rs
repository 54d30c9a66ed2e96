//! Filters for lists and other sequences.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj, Set};
use super::access::{Path, folded};
use super::sort::sorted;
use super::{FilterFn, flag, integer};
use std::rc::Rc;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("batch", batch),
    ("count", length),
    ("dictsort", dictsort),
    ("first", first),
    ("items", items),
    ("join", join),
    ("last", last),
    ("length", length),
    ("list", list),
    ("max", |cx, v, a| extreme(cx, v, a, "max")),
    ("min", |cx, v, a| extreme(cx, v, a, "min")),
    ("reverse", reverse),
    ("slice", slice),
    ("sort", sort),
    ("sum", sum),
    ("unique", unique),
];

fn batch(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("do_batch", &["linecount", "fill_with"], 1)?;
    let count = usize::try_from(integer(&bound[0], 0)?).unwrap_or(0);
    let items = cx.iterate(value)?;
    if count == 0 {
        // As in Jinja: the empty first line already counts as full.
        let mut lines: Vec<Obj> = items
            .into_iter()
            .map(|item| Obj::list(vec![item]))
            .collect();
        if !lines.is_empty() {
            lines.insert(0, Obj::list(Vec::new()));
        }
        return Ok(Obj::generator("generator", lines));
    }
    let mut lines = Vec::new();
    for part in items.chunks(count) {
        let mut line = part.to_vec();
        if let Some(fill) = bound[1].as_ref().filter(|fill| !fill.is_none()) {
            cx.check_size(count)?;
            line.resize(count, fill.clone());
        }
        lines.push(Obj::list(line));
    }
    Ok(Obj::generator("generator", lines))
}

fn slice(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("do_slice", &["slices", "fill_with"], 1)?;
    let slices = integer(&bound[0], 0)?;
    let items = cx.iterate(value)?;
    if slices == 0 {
        return Err(Error::new(
            super::ErrorKind::ZeroDivision,
            "integer division or modulo by zero",
        ));
    }
    let slices = usize::try_from(slices).unwrap_or(0);
    cx.check_size(slices)?;
    let mut out = Vec::new();
    let mut start = 0;
    for n in 0..slices {
        let extra = n < items.len() % slices;
        let end = start + items.len() / slices + usize::from(extra);
        let mut part = items[start..end].to_vec();
        if let Some(fill) = bound[1].as_ref().filter(|fill| !fill.is_none() && !extra) {
            part.push(fill.clone());
        }
        out.push(Obj::list(part));
        start = end;
    }
    Ok(Obj::generator("generator", out))
}

fn length(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("len", &[])?;
    Ok(value.length()?.into())
}

fn list(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_list", &[])?;
    cx.iterate(value).map(Obj::list)
}

fn first(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_first", &[])?;
    let first = match value {
        Obj::Iter(iter) => iter.next(),
        other => cx.iterate(other)?.into_iter().next(),
    };
    Ok(first.unwrap_or_else(|| cx.undefined("No first item, sequence was empty.")))
}

/// The elements of a value accepted by `reversed()`.
fn reversible(cx: &mut Cx, value: &Obj) -> Result<Vec<Obj>, Error> {
    if matches!(value, Obj::Iter(_) | Obj::Set(_)) {
        return Err(Error::type_error(format!(
            "'{}' object is not reversible",
            value.type_name()
        )));
    }
    match cx.iterate(value) {
        Err(error) if !value.is_undefined() && matches!(error.kind(), super::ErrorKind::Type) => {
            Err(Error::type_error(format!(
                "'{}' object is not reversible",
                value.type_name()
            )))
        }
        other => other,
    }
}

fn last(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_last", &[])?;
    let last = reversible(cx, value)?.pop();
    Ok(last.unwrap_or_else(|| cx.undefined("No last item, sequence was empty.")))
}

fn reverse(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_reverse", &[])?;
    if let Some(text) = value.as_str() {
        return Ok(text.chars().rev().collect::<String>().into());
    }
    let label = match value {
        Obj::List(_) => "list_reverseiterator",
        Obj::Dict(_) => "dict_reversekeyiterator",
        Obj::Range(_) => "range_iterator",
        Obj::Iter(_) | Obj::Set(_) => "",
        _ => "reversed",
    };
    let mut items = match cx.iterate(value) {
        Ok(items) => items,
        Err(error) if value.is_undefined() => return Err(error),
        Err(_) => return Err(Error::filter_argument("argument must be iterable")),
    };
    items.reverse();
    Ok(match label {
        "" => Obj::list(items),
        label => Obj::generator(label, items),
    })
}

fn items(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_items", &[])?;
    let dict = match value {
        Obj::Undefined(_) => return Ok(Obj::generator("generator", Vec::new())),
        Obj::Dict(dict) => dict,
        _ => {
            return Err(Error::type_error("Can only get item pairs from a mapping."));
        }
    };
    let dict = dict.borrow();
    let pairs = dict.iter();
    let pairs = pairs.map(|(k, v)| Obj::tuple(vec![k.clone(), v.clone()]));
    Ok(Obj::generator("generator", pairs.collect()))
}

fn join(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_join", &["d", "attribute"])?;
    let separator = bound[0].clone().unwrap_or_else(|| Obj::from(""));
    let path = Path::new(bound[1].as_ref());
    let mut parts = Vec::new();
    for item in cx.iterate(value)? {
        parts.push(path.get(cx, &item, None)?);
    }
    let marked = cx.autoescape()
        && (matches!(separator, Obj::Markup(_))
            || parts.iter().any(|part| matches!(part, Obj::Markup(_))));
    let mut out = String::new();
    for (n, part) in parts.iter().enumerate() {
        let piece = |obj: &Obj| -> Result<Rc<str>, Error> {
            match (marked, obj) {
                (true, obj) => super::markup::escaped(obj),
                (_, Obj::Str(text) | Obj::Markup(text)) => Ok(text.clone()),
                (_, obj) => Ok(obj.to_str()?.into()),
            }
        };
        if n > 0 {
            out.push_str(&piece(&separator)?);
        }
        out.push_str(&piece(part)?);
        cx.check_size(out.len())?;
    }
    Ok(if marked {
        Obj::Markup(out.into())
    } else {
        out.into()
    })
}

fn sort(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_sort", &["reverse", "case_sensitive", "attribute"])?;
    let reverse = flag(&bound[0], false)?;
    let case_sensitive = flag(&bound[1], false)?;
    let paths = Path::several(bound[2].as_ref());
    let items = cx.iterate(value)?;
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        let mut key = Vec::with_capacity(paths.len());
        for path in &paths {
            key.push(folded(path.get(cx, item, None)?, case_sensitive));
        }
        keys.push(Obj::list(key));
    }
    sorted(cx, items, keys, reverse).map(Obj::list)
}

fn dictsort(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_dictsort", &["case_sensitive", "by", "reverse"])?;
    let case_sensitive = flag(&bound[0], false)?;
    let at = match bound[1].as_ref().map_or(Some("key"), Obj::as_str) {
        Some("key") => 0,
        Some("value") => 1,
        _ => {
            return Err(Error::filter_argument(
                "You can only sort by either \"key\" or \"value\"",
            ));
        }
    };
    let reverse = flag(&bound[2], false)?;
    let Obj::Dict(dict) = value else {
        if let Obj::Undefined(missing) = value {
            return Err(missing.error());
        }
        return Err(super::no_attribute(value, "items"));
    };
    let pairs: Vec<[Obj; 2]> = {
        let dict = dict.borrow();
        dict.iter().map(|(k, v)| [k.clone(), v.clone()]).collect()
    };
    let keys = pairs
        .iter()
        .map(|pair| folded(pair[at].clone(), case_sensitive));
    let keys = keys.collect();
    let items = pairs
        .into_iter()
        .map(|pair| Obj::tuple(pair.to_vec()))
        .collect();
    sorted(cx, items, keys, reverse).map(Obj::list)
}

/// Salt's `min` and `max`, which replace Jinja's: no attribute, case-sensitive (`salt/utils/jinja.py lst_min`).
fn extreme(cx: &mut Cx, value: &Obj, args: &Args, which: &str) -> Result<Obj, Error> {
    args.bind(&format!("lst_{which}"), &[])?;
    let mut items = cx.iterate(value)?.into_iter();
    let Some(mut best) = items.next() else {
        return Err(Error::value_error(format!(
            "{which}() arg is an empty sequence"
        )));
    };
    for item in items {
        let op = match which {
            "max" => super::super::value::CmpOp::Gt,
            _ => super::super::value::CmpOp::Lt,
        };
        if item.compare(op, &best)? {
            best = item;
        }
    }
    Ok(best)
}

fn sum(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_sum", &["attribute", "start"])?;
    let path = Path::new(bound[0].as_ref());
    let mut total = bound[1].clone().unwrap_or(Obj::Int(0));
    if total.as_str().is_some() {
        return Err(Error::type_error(
            "sum() can't sum strings [use ''.join(seq) instead]",
        ));
    }
    for item in cx.iterate(value)? {
        let item = path.get(cx, &item, None)?;
        total = super::numbers::add(cx, &total, &item)?;
    }
    Ok(total)
}

/// Salt's `unique`: a set if the elements are hashable, else a list of first occurrences (`salt/utils/jinja.py
/// unique`).
fn unique(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("unique", &[])?;
    unique_of(cx, value)
}

/// The implementation of [`unique`].
pub(super) fn unique_of(cx: &mut Cx, value: &Obj) -> Result<Obj, Error> {
    let items = cx.iterate(value)?;
    if super::truth::hashable(value) {
        return Ok(Obj::set(Set::of(items)?));
    }
    Ok(Obj::list(unique_items(cx, items)?))
}

/// The elements without those equal to an earlier one.
pub(super) fn unique_items(cx: &mut Cx, items: Vec<Obj>) -> Result<Vec<Obj>, Error> {
    let mut seen = Set::new();
    let mut others: Vec<Obj> = Vec::new();
    let mut out = Vec::new();
    for item in items {
        let new = match item.check_hashable() {
            Ok(()) => seen.insert(item.clone())?,
            Err(error) if item.is_undefined() => return Err(error),
            Err(_) => {
                cx.charge(others.len())?;
                let known = contains(&others, &item)?;
                if !known {
                    others.push(item.clone());
                }
                !known
            }
        };
        if new {
            out.push(item);
        }
    }
    Ok(out)
}

fn contains(items: &[Obj], wanted: &Obj) -> Result<bool, Error> {
    for item in items {
        if item.same(wanted) || item.equals(wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}
