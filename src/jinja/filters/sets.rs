//! Salt's set filters: `union`, `difference`, `flatten`... (`salt/utils/jinja.py`).

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::methods;
use super::super::value::{Args, Obj, Set};
use super::sequences::{unique_items, unique_of};
use super::truth::{hashable, iterable};
use super::{FilterFn, flag, required};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("difference", difference),
    ("flatten", flatten),
    ("intersect", intersect),
    ("sorted_ignorecase", sorted_ignorecase),
    ("symmetric_difference", symmetric_difference),
    ("union", union),
];

fn other(args: &Args, name: &str) -> Result<Obj, Error> {
    Ok(required(&args.bind_required(name, &["lst2"], 1)?[0]))
}

fn as_sets(cx: &mut Cx, a: &Obj, b: &Obj, method: &str) -> Result<Option<Obj>, Error> {
    if !hashable(a) || !hashable(b) {
        return Ok(None);
    }
    let set = Obj::set(Set::of(cx.iterate(a)?)?);
    methods::call(cx, &set, method, &Args::positional([b.clone()])).map(Some)
}

fn union(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let other = other(args, "union")?;
    if let Some(set) = as_sets(cx, value, &other, "union")? {
        return Ok(set);
    }
    let all = super::numbers::add(cx, value, &other)?;
    unique_of(cx, &all)
}

/// The elements of `a` that are in `b` (`keep`), or that are not.
fn within(cx: &mut Cx, a: &Obj, b: &Obj, keep: bool) -> Result<Vec<Obj>, Error> {
    let mut out = Vec::new();
    for item in cx.iterate(a)? {
        cx.charge(b.length().unwrap_or(1))?;
        if cx.contains(b, &item)? == keep {
            out.push(item);
        }
    }
    unique_items(cx, out)
}

fn intersect(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let other = other(args, "intersect")?;
    match as_sets(cx, value, &other, "intersection")? {
        Some(set) => Ok(set),
        None => within(cx, value, &other, true).map(Obj::list),
    }
}

fn difference(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let other = other(args, "difference")?;
    match as_sets(cx, value, &other, "difference")? {
        Some(set) => Ok(set),
        None => within(cx, value, &other, false).map(Obj::list),
    }
}

fn symmetric_difference(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let other = other(args, "symmetric_difference")?;
    if let Some(set) = as_sets(cx, value, &other, "symmetric_difference")? {
        return Ok(set);
    }
    let all = super::numbers::add(cx, value, &other)?;
    let all = unique_of(cx, &all)?;
    let both = Obj::list(within(cx, value, &other, true)?);
    within(cx, &all, &both, false).map(Obj::list)
}

fn flatten(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("flatten", &["levels", "preserve_nulls"])?;
    let levels = match &bound[0] {
        None | Some(Obj::None) => None,
        other => Some(super::integer(other, 0)?),
    };
    let nulls = flag(&bound[1], false)?;
    let mut out = Vec::new();
    flatten_into(cx, value, levels, nulls, &mut out, 0)?;
    Ok(Obj::list(out))
}

fn flatten_into(
    cx: &mut Cx,
    value: &Obj,
    levels: Option<i64>,
    nulls: bool,
    out: &mut Vec<Obj>,
    depth: usize,
) -> Result<(), Error> {
    if depth > 100 {
        return Err(Error::limit(
            "the list is nested too deeply, or holds itself",
        ));
    }
    for item in cx.iterate(value)? {
        let null = item.is_none() || matches!(item.as_str(), Some("None" | "null"));
        if null && !nulls {
            continue;
        }
        if item.as_str().is_none() && iterable(cx, &item)? && levels.is_none_or(|n| n >= 1) {
            let levels = levels.map(|n| n - 1);
            flatten_into(cx, &item, levels, nulls, out, depth + 1)?;
            continue;
        }
        out.push(item);
        cx.check_size(out.len())?;
    }
    Ok(())
}

fn sorted_ignorecase(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("sorted_ignorecase", &[])?;
    let items = cx.iterate(value)?;
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        match item.as_str() {
            Some(text) => keys.push(text.to_lowercase().into()),
            None => return Err(super::no_attribute(item, "lower")),
        }
    }
    super::sort::sorted(cx, items, keys, false).map(Obj::list)
}
