//! Filters that apply other filters and tests: `map`, `select` and similar ones.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj, quote};
use super::FilterFn;
use super::access::Path;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("attr", attr),
    ("map", map),
    ("reject", |cx, v, a| chosen(cx, v, a, false, false)),
    ("rejectattr", |cx, v, a| chosen(cx, v, a, false, true)),
    ("select", |cx, v, a| chosen(cx, v, a, true, false)),
    ("selectattr", |cx, v, a| chosen(cx, v, a, true, true)),
];

/// An attribute only; elements found by `obj[name]` do not count.
fn attr(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("do_attr", &["name"], 1)?;
    let name = super::required(&bound[0]);
    let name = super::text_of(&name)?;
    if let Obj::Dict(_) = value
        && !super::super::methods::has(value, name)
        && !name.starts_with('_')
    {
        return Ok(cx.undefined_element(value, &Obj::from(name)));
    }
    cx.get_attr(value, name)
}

fn map(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let mut out = Vec::new();
    if !value.truthy()? {
        return Ok(Obj::generator("generator", out));
    }
    if args.positional.is_empty() && args.named("attribute").is_some() {
        let (rest, attribute) = args.without("attribute");
        let (rest, default) = rest.without("default");
        if let Some((name, _)) = rest.keyword.first() {
            return Err(Error::filter_argument(format!(
                "Unexpected keyword argument {}",
                quote(name)
            )));
        }
        let path = Path::new(attribute.as_ref());
        for item in cx.iterate(value)? {
            out.push(path.get(cx, &item, default.as_ref())?);
        }
        return Ok(Obj::generator("generator", out));
    }
    let Some((name, rest)) = named(args, 0) else {
        return Err(Error::filter_argument("map requires a filter argument"));
    };
    let name = super::text_of(&name)?;
    for item in cx.iterate(value)? {
        out.push(cx.filter(name, &item, &rest)?);
    }
    Ok(Obj::generator("generator", out))
}

/// The argument at a position, and those after it.
fn named(args: &Args, at: usize) -> Option<(Obj, Args)> {
    let name = args.positional.get(at)?.clone();
    let rest = Args {
        positional: args.positional[at + 1..].to_vec(),
        keyword: args.keyword.clone(),
    };
    Some((name, rest))
}

fn chosen(
    cx: &mut Cx,
    value: &Obj,
    args: &Args,
    keep: bool,
    by_attribute: bool,
) -> Result<Obj, Error> {
    let mut out = Vec::new();
    if !value.truthy()? {
        return Ok(Obj::generator("generator", out));
    }
    let path = match (by_attribute, args.positional.first()) {
        (true, None) => {
            return Err(Error::filter_argument(
                "Missing parameter for attribute name",
            ));
        }
        (true, attribute) => Path::new(attribute),
        (false, _) => Path::new(None),
    };
    let test = named(args, usize::from(by_attribute));
    for item in cx.iterate(value)? {
        let tested = path.get(cx, &item, None)?;
        let holds = match &test {
            Some((name, rest)) => cx.test(super::text_of(name)?, &tested, rest)?,
            None => tested.truthy()?,
        };
        if holds == keep {
            out.push(item);
        }
    }
    Ok(Obj::generator("generator", out))
}
