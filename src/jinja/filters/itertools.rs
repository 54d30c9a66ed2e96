//! Salt's filters for Python's `itertools`, and `zip`.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{FilterFn, integer, required};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("combinations", |cx, v, a| picked(cx, v, a, "combinations")),
    ("combinations_with_replacement", |cx, v, a| {
        picked(cx, v, a, "combinations_with_replacement")
    }),
    ("compress", compress),
    ("permutations", permutations),
    ("product", product),
    ("zip", zip),
    ("zip_longest", zip_longest),
];

/// Charges for a result of `count` tuples with `width` elements each.
fn charge(cx: &mut Cx, count: u128, width: usize) -> Result<(), Error> {
    let total = count.saturating_mul(width.max(1) as u128);
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    cx.check_size(total)?;
    cx.charge(total)
}

/// All selections by indices, from the first one on, until `next` returns false.
fn choices(
    items: &[Obj],
    mut at: Vec<usize>,
    mut next: impl FnMut(&mut Vec<usize>) -> bool,
) -> Vec<Obj> {
    let mut out = Vec::new();
    loop {
        out.push(Obj::tuple(at.iter().map(|i| items[*i].clone()).collect()));
        if !next(&mut at) {
            return out;
        }
    }
}

fn picked(cx: &mut Cx, value: &Obj, args: &Args, name: &'static str) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind(name, &["r"])?;
    if bound[0].is_none() {
        return Err(Error::type_error(format!(
            "{name}() missing required argument 'r' (pos 2)"
        )));
    }
    let r = size(&bound[0], 0)?;
    let items = cx.iterate(value)?;
    cx.check_size(r)?;
    let n = items.len();
    let again = name != "combinations";
    if (r > n && !again) || (n == 0 && r > 0) {
        return Ok(Obj::generator(name, Vec::new()));
    }
    let top = if again { n + r.saturating_sub(1) } else { n };
    let mut count: u128 = 1;
    for k in 0..r {
        count = count.saturating_mul((top - k) as u128) / (k as u128 + 1);
    }
    charge(cx, count, r)?;
    let first = if again { vec![0; r] } else { (0..r).collect() };
    let out = choices(&items, first, |at| {
        let last = |i: usize| if again { n - 1 } else { i + n - r };
        let Some(i) = (0..r).rev().find(|i| at[*i] != last(*i)) else {
            return false;
        };
        let base = at[i] + 1;
        for (step, slot) in at[i..].iter_mut().enumerate() {
            *slot = if again { base } else { base + step };
        }
        true
    });
    Ok(Obj::generator(name, out))
}

fn size(argument: &Option<Obj>, default: i64) -> Result<usize, Error> {
    usize::try_from(integer(argument, default)?)
        .map_err(|_| Error::value_error("r must be non-negative"))
}

fn permutations(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind("permutations", &["r"])?;
    let items = cx.iterate(value)?;
    let n = items.len();
    let r = match &bound[0] {
        None | Some(Obj::None) => n,
        other => size(other, 0)?,
    };
    if r > n {
        return Ok(Obj::generator("permutations", Vec::new()));
    }
    let count = (0..r).fold(1u128, |count, k| count.saturating_mul((n - k) as u128));
    charge(cx, count, r)?;
    let mut out = Vec::new();
    let mut at = Vec::new();
    permute(&items, r, &mut at, &mut vec![false; n], &mut out);
    Ok(Obj::generator("permutations", out))
}

fn permute(items: &[Obj], r: usize, at: &mut Vec<usize>, used: &mut Vec<bool>, out: &mut Vec<Obj>) {
    // Recursion is as deep as `r`; `charge` refuses long permutations.
    if at.len() == r {
        out.push(Obj::tuple(at.iter().map(|i| items[*i].clone()).collect()));
        return;
    }
    for i in 0..items.len() {
        if used[i] {
            continue;
        }
        used[i] = true;
        at.push(i);
        permute(items, r, at, used, out);
        at.pop();
        used[i] = false;
    }
}

fn lists(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Vec<Vec<Obj>>, Error> {
    let all = std::iter::once(value).chain(&args.positional);
    all.map(|list| cx.iterate(list)).collect()
}

fn product(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let (rest, repeat) = args.without("repeat");
    let repeat = size(&repeat, 1)?;
    let once = lists(cx, value, &rest)?;
    cx.check_size(once.len().saturating_mul(repeat))?;
    let pools: Vec<&Vec<Obj>> = std::iter::repeat_n(&once, repeat).flatten().collect();
    let count = pools.iter().fold(1u128, |count, pool| {
        count.saturating_mul(pool.len() as u128)
    });
    charge(cx, count, pools.len())?;
    let mut rows = Vec::new();
    let mut at = vec![0; pools.len()];
    let mut more = pools.iter().all(|pool| !pool.is_empty());
    while more {
        let row = pools.iter().zip(&at).map(|(pool, i)| pool[*i].clone());
        rows.push(Obj::tuple(row.collect()));
        let last = (0..pools.len())
            .rev()
            .find(|i| at[*i] + 1 < pools[*i].len());
        more = last.is_some();
        if let Some(last) = last {
            at[last] += 1;
            at[last + 1..].fill(0);
        }
    }
    Ok(Obj::generator("product", rows))
}

fn compress(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let bound = args.bind_required("compress", &["selectors"], 1)?;
    let selectors = cx.iterate(&required(&bound[0]))?;
    let mut out = Vec::new();
    for (item, selector) in cx.iterate(value)?.into_iter().zip(selectors) {
        if selector.truthy()? {
            out.push(item);
        }
    }
    Ok(Obj::generator("compress", out))
}

fn zipped(lists: &[Vec<Obj>], length: usize, fill: &Obj) -> Vec<Obj> {
    let row = |n: usize| {
        let items = lists.iter();
        let items = items.map(|list| list.get(n).unwrap_or(fill).clone());
        Obj::tuple(items.collect())
    };
    (0..length).map(row).collect()
}

fn zip(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let (rest, strict) = args.without("strict");
    let lists = lists(cx, value, &rest)?;
    let length = lists.iter().map(Vec::len).min().unwrap_or(0);
    if super::flag(&strict, false)? && lists.iter().any(|list| list.len() != length) {
        return Err(Error::value_error(
            "zip() argument 2 is shorter than argument 1",
        ));
    }
    let rows = zipped(&lists, length, &Obj::None);
    Ok(Obj::generator("zip", rows))
}

fn zip_longest(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if let Some(undefined) = super::serialise::undefined_within(cx, value)? {
        return Ok(undefined);
    }
    let (rest, fill) = args.without("fillvalue");
    let lists = lists(cx, value, &rest)?;
    let length = lists.iter().map(Vec::len).max().unwrap_or(0);
    charge(cx, length as u128, lists.len())?;
    let rows = zipped(&lists, length, &fill.unwrap_or(Obj::None));
    Ok(Obj::generator("zip_longest", rows))
}
