//! Hashes as Ruby fills them: of a key that comes twice the last value counts, in the place of the first.

use super::Datum;
use std::collections::HashMap;

/// A hash of at most so many pairs is looked through pair by pair.
const FEW: usize = 8;

/// Pairs without a key twice.
pub(in crate::wire) fn unique(pairs: impl Iterator<Item = (Datum, Datum)>) -> Vec<(Datum, Datum)> {
    let mut out: Vec<(Datum, Datum)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (key, value) in pairs {
        let at = if out.len() < FEW {
            out.iter().position(|(known, _)| *known == key)
        } else {
            if places.is_empty() {
                places = out
                    .iter()
                    .enumerate()
                    .map(|(at, (key, _))| (name(key), at))
                    .collect();
            }
            match places.entry(name(&key)) {
                std::collections::hash_map::Entry::Occupied(place) => Some(*place.get()),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(out.len());
                    None
                }
            }
        };
        match at {
            Some(at) => out[at].1 = value,
            None => out.push((key, value)),
        }
    }
    out
}

/// A text that only equal keys share.
fn name(key: &Datum) -> String {
    match key {
        Datum::Str(text) => format!("\"{text}"),
        Datum::Symbol(text) => format!(":{text}"),
        other => format!("{other:?}"),
    }
}
