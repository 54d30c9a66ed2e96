//! Hashes as Ruby fills them: of duplicate keys the last value is used, in the position of the first.

use super::Datum;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

/// Pairs without duplicate keys. Keys are compared as by Ruby's `eql?`, except that all NaNs are equal.
pub fn unique(pairs: impl Iterator<Item = (Datum, Datum)>) -> Vec<(Datum, Datum)> {
    let mut out: Vec<(Datum, Datum)> = Vec::new();
    // A random state, so that nobody can construct many keys with the same hash.
    let state = RandomState::new();
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for (key, value) in pairs {
        let mut hasher = state.build_hasher();
        hash(&key, &mut hasher);
        let candidates = places.entry(hasher.finish()).or_default();
        match candidates.iter().find(|at| same(&out[**at].0, &key)) {
            Some(at) => out[*at].1 = value,
            None => {
                candidates.push(out.len());
                out.push((key, value));
            }
        }
    }
    out
}

/// Binary text that is all ASCII equals other text.
fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Float(a), Datum::Float(b)) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
        }
        (Datum::Str(text), Datum::Bytes(bytes)) | (Datum::Bytes(bytes), Datum::Str(text)) => {
            text.is_ascii() && text.as_bytes() == bytes
        }
        (Datum::Array(a), Datum::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Datum::Hash(a), Datum::Hash(b)) => {
            let pair = |((k, v), (l, w)): (&(_, _), &(_, _))| same(k, l) && same(v, w);
            a.len() == b.len() && a.iter().zip(b).all(pair)
        }
        _ => a == b,
    }
}

/// Equal hashes for keys that are the same.
fn hash(datum: &Datum, hasher: &mut impl Hasher) {
    match datum {
        Datum::Nil => 0u8.hash(hasher),
        Datum::Bool(flag) => (1u8, flag).hash(hasher),
        Datum::Int(number) => (2u8, number).hash(hasher),
        Datum::Float(number) if number.is_nan() => 3u8.hash(hasher),
        Datum::Float(number) => (4u8, number.to_bits()).hash(hasher),
        Datum::Symbol(name) => (5u8, name).hash(hasher),
        Datum::Str(text) => (6u8, text.as_bytes()).hash(hasher),
        Datum::Bytes(bytes) => (6u8, bytes.as_slice()).hash(hasher),
        Datum::Regexp { source, options } => (7u8, source, options).hash(hasher),
        Datum::Array(items) => {
            (8u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Datum::Hash(pairs) => {
            (9u8, pairs.len()).hash(hasher);
            for (key, value) in pairs {
                hash(key, hasher);
                hash(value, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_keys_counts() {
        let nan = Datum::Float(f64::NAN);
        let keys = [
            "a".into(),
            Datum::symbol("a"),
            Datum::Bytes(b"a".to_vec()),
            nan.clone(),
            Datum::Array(vec![nan.clone()]),
            nan.clone(),
            Datum::Array(vec![nan]),
            Datum::Float(0.0),
            Datum::Float(-0.0),
            Datum::Int(0),
            Datum::Nil,
            Datum::Bool(false),
            Datum::Hash(vec![("a".into(), Datum::Nil)]),
            Datum::Hash(vec![("a".into(), Datum::Nil)]),
        ];
        let pairs = keys.into_iter().zip((0..).map(Datum::Int));
        let out = unique(pairs);
        let values: Vec<i64> = out.iter().filter_map(|(_, v)| v.as_int()).collect();
        assert_eq!(values, [2, 1, 5, 6, 7, 8, 9, 10, 11, 13]);
    }

    #[test]
    fn many_keys_alike_take_no_time() {
        let nan = || (Datum::Float(f64::NAN), Datum::Nil);
        let pairs = (0..200_000).map(|_| nan());
        assert_eq!(unique(pairs).len(), 1);
    }
}
