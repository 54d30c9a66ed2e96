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
    let less = |a: &(Obj, Obj), b: &(Obj, Obj)| Ok(a.0.order(&b.0)? == Ordering::Less);
    let mut pairs = merge_sort(pairs, less)?;
    if reverse {
        pairs.reverse();
    }
    Ok(pairs.into_iter().map(|(_, item)| item).collect())
}

/// A stable sort that bears a comparison without a total order, which the standard library may
/// answer with a panic.
///
/// # Errors
/// The first that a comparison gives.
pub fn merge_sort<T: Clone, E>(
    mut items: Vec<T>,
    mut less: impl FnMut(&T, &T) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for part in items.chunks(width * 2) {
            let (mut left, mut right) = part.split_at(width.min(part.len()));
            while let ([first, rest_left @ ..], [second, rest_right @ ..]) = (left, right) {
                if less(second, first)? {
                    merged.push(second.clone());
                    right = rest_right;
                } else {
                    merged.push(first.clone());
                    left = rest_left;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        items = merged;
        width *= 2;
    }
    Ok(items)
}
