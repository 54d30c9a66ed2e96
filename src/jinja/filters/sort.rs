//! Python's sorting.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::Obj;
use std::cmp::Ordering;

/// Sorts items by their keys; the sort is stable. Like Python, it only asks whether the later element is less than the
/// earlier one, which decides the wording of errors.
///
/// # Errors
/// Two keys cannot be ordered.
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

/// A stable sort that tolerates comparisons without a total order, for which the standard library may panic.
///
/// # Errors
/// The first error of a comparison.
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
