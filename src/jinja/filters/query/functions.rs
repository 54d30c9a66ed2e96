//! JMESPath functions.

use super::super::json::{JsonStyle, dumps};
use super::super::numbers::{add, number_or_text, whole};
use super::super::sort::sorted;
use super::eval::{elements, eval, is_number};
use super::fail;
use super::parse::Node;
use crate::cx::Cx;
use crate::error::Error;
use crate::value::{CmpOp, Dict, Obj};

/// The result of a function call.
///
/// # Errors
/// An unknown function, or unsuitable arguments.
pub fn call(
    cx: &mut Cx,
    name: &str,
    nodes: &[Node],
    value: &Obj,
    depth: usize,
) -> Result<Obj, Error> {
    // Functions with an expression take a list, and the expression to apply to each element.
    let by = match (name, nodes) {
        ("sort_by" | "max_by" | "min_by", [list, Node::Reference(by)]) => Some((list, by)),
        ("map", [Node::Reference(by), list]) => Some((list, by)),
        _ => None,
    };
    if let Some((list, by)) = by {
        let list = eval(cx, list, value, depth)?;
        let items = elements(&list).ok_or_else(|| wrong(name, &list))?;
        return by_expression(cx, name, items, by, depth);
    }
    let args = nodes.iter().map(|node| eval(cx, node, value, depth));
    let args: Vec<Obj> = args.collect::<Result<_, _>>()?;
    match args.as_slice() {
        [one] => of_one(cx, name, one),
        [one, two] => of_two(cx, name, one, two),
        several => of_several(name, several),
    }
}

fn wrong(name: &str, value: &Obj) -> Error {
    let shown = value.to_str().unwrap_or_default();
    fail(format!(
        "In function {name}(), invalid type for value: {shown}, received: \"{}\"",
        kind(value)
    ))
}

fn unknown(name: &str) -> Error {
    fail(format!("Unknown function: {name}()"))
}

fn kind(value: &Obj) -> &'static str {
    match value {
        Obj::None => "null",
        Obj::Bool(_) => "boolean",
        Obj::Str(_) | Obj::Markup(_) => "string",
        Obj::List(_) => "array",
        Obj::Dict(_) => "object",
        _ if is_number(value) => "number",
        _ => "unknown",
    }
}

fn by_expression(
    cx: &mut Cx,
    name: &str,
    items: Vec<Obj>,
    by: &Node,
    depth: usize,
) -> Result<Obj, Error> {
    let mut keys = Vec::with_capacity(items.len());
    for item in &items {
        keys.push(eval(cx, by, item, depth)?);
    }
    if name == "map" {
        return Ok(Obj::list(keys));
    }
    for key in &keys {
        let same_kind = kind(key) == kind(&keys[0]);
        if !same_kind || !(is_number(key) || key.as_str().is_some()) {
            return Err(wrong(name, key));
        }
    }
    match name {
        "sort_by" => sorted(cx, items, keys, false).map(Obj::list),
        _ => {
            let op = if name == "max_by" {
                CmpOp::Gt
            } else {
                CmpOp::Lt
            };
            let mut best: Option<(Obj, Obj)> = None;
            for pair in keys.into_iter().zip(items) {
                let better = match &best {
                    Some((key, _)) => pair.0.compare(op, key)?,
                    None => true,
                };
                if better {
                    best = Some(pair);
                }
            }
            Ok(best.map_or(Obj::None, |(_, item)| item))
        }
    }
}

fn of_one(cx: &mut Cx, name: &str, value: &Obj) -> Result<Obj, Error> {
    let list = || elements(value).ok_or_else(|| wrong(name, value));
    Ok(match name {
        "type" => kind(value).into(),
        "length" => match value {
            Obj::Str(_) | Obj::Markup(_) | Obj::List(_) | Obj::Dict(_) => value.length()?.into(),
            other => return Err(wrong(name, other)),
        },
        "keys" | "values" => match value {
            Obj::Dict(dict) => {
                let dict = dict.borrow();
                Obj::list(match name {
                    "keys" => dict.keys().cloned().collect(),
                    _ => dict.values().cloned().collect(),
                })
            }
            other => return Err(wrong(name, other)),
        },
        "abs" | "ceil" | "floor" => {
            let f = value.as_float().filter(|_| is_number(value));
            let f = f.ok_or_else(|| wrong(name, value))?;
            match name {
                "abs" if matches!(value, Obj::Float(_)) => Obj::Float(f.abs()),
                "abs" => Obj::big(
                    value
                        .as_bigint()
                        .unwrap_or_default()
                        .magnitude()
                        .clone()
                        .into(),
                ),
                "ceil" => Obj::big(whole(f.ceil())?),
                _ => Obj::big(whole(f.floor())?),
            }
        }
        "max" | "min" => {
            let items = list()?;
            let op = if name == "max" { CmpOp::Gt } else { CmpOp::Lt };
            let mut best = Obj::None;
            for item in items {
                if best.is_none() || item.compare(op, &best)? {
                    best = item;
                }
            }
            best
        }
        "sum" | "avg" => {
            let items = list()?;
            let mut total = Obj::Int(0);
            for item in &items {
                if !is_number(item) {
                    return Err(wrong(name, item));
                }
                total = add(cx, &total, item)?;
            }
            match (name, items.len()) {
                ("sum", _) => total,
                (_, 0) => Obj::None,
                (_, n) => Obj::Float(total.as_float().unwrap_or(0.0) / n as f64),
            }
        }
        "sort" => {
            let items = list()?;
            sorted(cx, items.clone(), items, false).map(Obj::list)?
        }
        "reverse" => match value.as_str() {
            Some(text) => text.chars().rev().collect::<String>().into(),
            None => Obj::list(list()?.into_iter().rev().collect()),
        },
        "to_array" => match value {
            Obj::List(_) => value.clone(),
            other => Obj::list(vec![other.clone()]),
        },
        "to_string" => match value.as_str() {
            Some(_) => value.clone(),
            None => {
                let style = JsonStyle {
                    indent: None,
                    sort_keys: false,
                    ascii: true,
                    separators: Some((",".to_owned(), ":".to_owned())),
                };
                dumps(cx, value, &style)?.into()
            }
        },
        "to_number" => match value.as_str().map(number_or_text) {
            Some(number) if is_number(&number) => number,
            None if is_number(value) => value.clone(),
            _ => Obj::None,
        },
        "not_null" | "merge" => return of_several(name, std::slice::from_ref(value)),
        _ => return Err(unknown(name)),
    })
}

fn of_two(cx: &mut Cx, name: &str, one: &Obj, two: &Obj) -> Result<Obj, Error> {
    let texts = || match (one.as_str(), two.as_str()) {
        (Some(one), Some(two)) => Ok((one, two)),
        (None, _) => Err(wrong(name, one)),
        _ => Err(wrong(name, two)),
    };
    Ok(match name {
        "contains" => match one {
            Obj::Str(_) | Obj::Markup(_) if two.as_str().is_none() => return Err(wrong(name, two)),
            Obj::Str(_) | Obj::Markup(_) | Obj::List(_) => Obj::Bool(cx.contains(one, two)?),
            other => return Err(wrong(name, other)),
        },
        "starts_with" => Obj::Bool(texts()?.0.starts_with(texts()?.1)),
        "ends_with" => Obj::Bool(texts()?.0.ends_with(texts()?.1)),
        "join" => {
            let between = one.as_str().ok_or_else(|| wrong(name, one))?;
            let items = elements(two).ok_or_else(|| wrong(name, two))?;
            let parts = items
                .iter()
                .map(|item| item.as_str().ok_or_else(|| wrong(name, item)));
            parts.collect::<Result<Vec<_>, _>>()?.join(between).into()
        }
        "not_null" | "merge" => return of_several(name, &[one.clone(), two.clone()]),
        _ => return Err(unknown(name)),
    })
}

fn of_several(name: &str, args: &[Obj]) -> Result<Obj, Error> {
    match name {
        "not_null" => {
            let found = args.iter().find(|arg| !arg.is_none());
            Ok(found.cloned().unwrap_or(Obj::None))
        }
        "merge" => {
            let mut merged = Dict::new();
            for arg in args {
                let Obj::Dict(dict) = arg else {
                    return Err(wrong(name, arg));
                };
                for (key, item) in dict.borrow().iter() {
                    merged.insert(key.clone(), item.clone())?;
                }
            }
            Ok(merged.into())
        }
        _ => Err(unknown(name)),
    }
}
