//! Evaluates JMESPath expressions.

use super::functions;
use super::parse::Node;
use super::{DEPTH, fail};
use crate::cx::Cx;
use crate::error::Error;
use crate::value::{Dict, Obj};

/// The result of an expression applied to a value.
///
/// # Errors
/// An unknown function, or unsuitable arguments.
pub fn eval(cx: &mut Cx, node: &Node, value: &Obj, depth: usize) -> Result<Obj, Error> {
    cx.charge(1)?;
    // Long chains of expressions nest to the left, so the tree is deeper than the nesting in the text.
    if depth > DEPTH * 4 {
        return Err(Error::limit("the expression is nested too deeply"));
    }
    let depth = depth + 1;
    Ok(match node {
        Node::Current => value.clone(),
        Node::Literal(obj) => obj.clone(),
        Node::Field(name) => match value {
            Obj::Dict(dict) => dict.borrow().get_str(name).cloned().unwrap_or(Obj::None),
            _ => Obj::None,
        },
        Node::Index(index) => match elements(value) {
            Some(items) => {
                let at = if *index < 0 {
                    index + items.len() as i64
                } else {
                    *index
                };
                let at = usize::try_from(at).ok();
                at.and_then(|at| items.get(at))
                    .cloned()
                    .unwrap_or(Obj::None)
            }
            None => Obj::None,
        },
        Node::Slice(parts) => match elements(value) {
            Some(items) => Obj::list(sliced(&items, parts)?),
            None => Obj::None,
        },
        Node::Then(left, right) => {
            let left = eval(cx, left, value, depth)?;
            eval(cx, right, &left, depth)?
        }
        Node::Each(left, right) => match elements(&eval(cx, left, value, depth)?) {
            Some(items) => projected(cx, &items, right, depth)?,
            None => Obj::None,
        },
        Node::EachValue(left, right) => match eval(cx, left, value, depth)? {
            Obj::Dict(dict) => {
                let items: Vec<Obj> = dict.borrow().values().cloned().collect();
                projected(cx, &items, right, depth)?
            }
            _ => Obj::None,
        },
        Node::Filter(left, condition, right) => match elements(&eval(cx, left, value, depth)?) {
            Some(items) => {
                let mut kept = Vec::new();
                for item in items {
                    if truth(&eval(cx, condition, &item, depth)?) {
                        kept.push(item);
                    }
                }
                projected(cx, &kept, right, depth)?
            }
            None => Obj::None,
        },
        Node::Flatten(left) => match elements(&eval(cx, left, value, depth)?) {
            Some(items) => {
                let mut out = Vec::new();
                for item in items {
                    match elements(&item) {
                        Some(inner) => out.extend(inner),
                        None => out.push(item),
                    }
                }
                cx.check_size(out.len())?;
                Obj::list(out)
            }
            None => Obj::None,
        },
        Node::Or(left, right) => match eval(cx, left, value, depth)? {
            left if truth(&left) => left,
            _ => eval(cx, right, value, depth)?,
        },
        Node::And(left, right) => match eval(cx, left, value, depth)? {
            left if truth(&left) => eval(cx, right, value, depth)?,
            left => left,
        },
        Node::Not(inner) => Obj::Bool(!truth(&eval(cx, inner, value, depth)?)),
        Node::Equal(left, right, wanted) => {
            let (left, right) = (
                eval(cx, left, value, depth)?,
                eval(cx, right, value, depth)?,
            );
            Obj::Bool(equal(&left, &right)? == *wanted)
        }
        Node::Order(left, op, right) => {
            let (left, right) = (
                eval(cx, left, value, depth)?,
                eval(cx, right, value, depth)?,
            );
            let comparable = |obj: &Obj| is_number(obj) || obj.as_str().is_some();
            if comparable(&left) && comparable(&right) {
                Obj::Bool(left.compare(*op, &right)?)
            } else {
                Obj::None
            }
        }
        Node::List(_) | Node::Map(_) if value.is_none() => Obj::None,
        Node::List(items) => {
            let items = items.iter().map(|item| eval(cx, item, value, depth));
            Obj::list(items.collect::<Result<_, _>>()?)
        }
        Node::Map(entries) => {
            let mut dict = Dict::new();
            for (name, item) in entries {
                dict.set_str(name, eval(cx, item, value, depth)?);
            }
            dict.into()
        }
        Node::Call(name, args) => functions::call(cx, name, args, value, depth)?,
        Node::Reference(_) => return Err(fail("an expression reference is no value")),
    })
}

/// The elements of a list.
pub fn elements(value: &Obj) -> Option<Vec<Obj>> {
    match value {
        Obj::List(list) => Some(list.borrow().clone()),
        _ => None,
    }
}

/// Whether it is a number; booleans do not count.
pub fn is_number(value: &Obj) -> bool {
    matches!(value, Obj::Int(_) | Obj::Big(_) | Obj::Float(_))
}

fn truth(value: &Obj) -> bool {
    match value {
        Obj::None | Obj::Bool(false) => false,
        Obj::Str(_) | Obj::Markup(_) | Obj::List(_) | Obj::Dict(_) => {
            value.truthy().unwrap_or(false)
        }
        _ => true,
    }
}

/// Equality that distinguishes booleans from numbers.
fn equal(a: &Obj, b: &Obj) -> Result<bool, Error> {
    if matches!(a, Obj::Bool(_)) != matches!(b, Obj::Bool(_)) {
        return Ok(false);
    }
    a.equals(b)
}

/// Applies `right` to every element and drops null results.
fn projected(cx: &mut Cx, items: &[Obj], right: &Node, depth: usize) -> Result<Obj, Error> {
    let mut out = Vec::new();
    for item in items {
        let result = eval(cx, right, item, depth)?;
        if !result.is_none() {
            out.push(result);
        }
    }
    Ok(Obj::list(out))
}

fn sliced(items: &[Obj], parts: &[Option<i64>; 3]) -> Result<Vec<Obj>, Error> {
    let step = parts[2].unwrap_or(1);
    if step == 0 {
        return Err(fail("slice step cannot be zero"));
    }
    let length = items.len() as i64;
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let clip = |part: Option<i64>, default: i64| match part {
        None => default,
        Some(n) if n < 0 => (n.saturating_add(length)).clamp(low, high),
        Some(n) => n.clamp(low, high),
    };
    let (from, to) = if step > 0 { (low, high) } else { (high, low) };
    let (mut at, stop) = (clip(parts[0], from), clip(parts[1], to));
    let mut out = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        out.extend(usize::try_from(at).ok().and_then(|n| items.get(n)).cloned());
        at = at.saturating_add(step);
    }
    Ok(out)
}
