//! Sorting as Python sorts.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::Obj;
use std::cmp::Ordering;

/// The items in the order of their keys, equal ones in the order they had. Python asks only
/// whether the later is smaller than the earlier, which decides what an error says.
///
/// # Errors
/// Two keys have no order.
pub fn sorted(
    cx: &mut Cx,
    items: Vec<Obj>,
    keys: Vec<Obj>,
    reverse: bool,
) -> Result<Vec<Obj>, Error> {
    let length = items.len();
    let steps = (usize::BITS - length.leading_zeros()) as usize;
    cx.charge(length.saturating_mul(steps))?;
    let mut pairs: Vec<(Obj, Obj)> = keys.into_iter().zip(items).collect();
    if reverse {
        pairs.reverse();
    }
    let mut width = 1;
    while width < pairs.len() {
        let mut merged = Vec::with_capacity(pairs.len());
        for part in pairs.chunks(width * 2) {
            let middle = width.min(part.len());
            merge(&part[..middle], &part[middle..], &mut merged)?;
        }
        pairs = merged;
        width *= 2;
    }
    if reverse {
        pairs.reverse();
    }
    Ok(pairs.into_iter().map(|(_, item)| item).collect())
}

fn merge(
    mut left: &[(Obj, Obj)],
    mut right: &[(Obj, Obj)],
    out: &mut Vec<(Obj, Obj)>,
) -> Result<(), Error> {
    while let ([first, rest_left @ ..], [second, rest_right @ ..]) = (left, right) {
        if second.0.order(&first.0)? == Ordering::Less {
            out.push(second.clone());
            right = rest_right;
        } else {
            out.push(first.clone());
            left = rest_left;
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
    Ok(())
}
