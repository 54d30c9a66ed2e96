//! Merging data of several sources (`salt/utils/dictupdate.py merge`, `salt/utils/aggregation.py aggregate`).

use halite_wire::{Map, Value};
use std::fmt;

/// What happens to keys that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Maps are merged recursively, other values replaced.
    Recurse,
    /// Values that the renderer `yamlex` marked are joined, others replaced.
    Aggregate,
    /// Values of the first level are replaced.
    Overwrite,
    /// Both values end up in a list. Keys that only the right side has are dropped.
    List,
}

impl MergeStrategy {
    /// Parses `pillar_source_merging_strategy`. `smart` depends on the last part of `renderer`; `none` means
    /// that there is one source; unknown words mean `recurse`.
    pub fn of(word: &str, renderer: &str) -> MergeStrategy {
        let yamlex =
            || renderer.rsplit('|').next() == Some("yamlex") || renderer.starts_with("yamlex_");
        match word {
            "smart" if yamlex() => MergeStrategy::Aggregate,
            "aggregate" => MergeStrategy::Aggregate,
            "overwrite" => MergeStrategy::Overwrite,
            "list" => MergeStrategy::List,
            "smart" | "recurse" | "none" => MergeStrategy::Recurse,
            other => {
                log::warn!("Unknown merging strategy '{other}', fallback to recurse");
                MergeStrategy::Recurse
            }
        }
    }
}

/// Merging something other than maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeError;

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Cannot update using non-dict types in dictupdate.update()")
    }
}

impl std::error::Error for MergeError {}

/// A strategy and its setting for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merger {
    /// The strategy.
    pub strategy: MergeStrategy,
    /// `pillar_merge_lists`.
    pub lists: bool,
}

impl Merger {
    /// Merges `upd` into `dest`. Keys of `dest` keep their place, new ones follow.
    pub fn merge(&self, mut dest: Map, upd: &Map) -> Map {
        match self.strategy {
            MergeStrategy::Recurse => update(&mut dest, upd, self.lists),
            MergeStrategy::Overwrite | MergeStrategy::Aggregate => replace(&mut dest, upd),
            MergeStrategy::List => {
                for (key, own) in &mut dest.0 {
                    if let Some(value) = upd.iter().find(|(k, _)| k == key).map(|(_, v)| v) {
                        *own = Value::Array(vec![std::mem::take(own), value.clone()]);
                    }
                }
            }
        }
        dest
    }

    /// Like [`Merger::merge`], for a value that should be a map.
    ///
    /// # Errors
    /// It is not a map.
    pub fn merge_value(&self, dest: Map, upd: &Value) -> Result<Map, MergeError> {
        upd.as_map()
            .map(|upd| self.merge(dest, upd))
            .ok_or(MergeError)
    }
}

fn find<'a>(map: &'a mut Map, key: &Value) -> Option<&'a mut Value> {
    map.0.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v)
}

/// `dictupdate.update`: recursive; lists are replaced, or joined without duplicates.
pub fn update(dest: &mut Map, upd: &Map, merge_lists: bool) {
    for (key, value) in upd.iter() {
        let Some(own) = find(dest, key) else {
            dest.0.push((key.clone(), value.clone()));
            continue;
        };
        match (own, value) {
            (Value::Map(own), Value::Map(value)) => update(own, value, merge_lists),
            (Value::Array(own), Value::Array(items)) if merge_lists => {
                for item in items {
                    if !own.contains(item) {
                        own.push(item.clone());
                    }
                }
            }
            (own, value) => *own = value.clone(),
        }
    }
}

/// Replaces keys that both have. `aggregate` does the same unless the renderer `yamlex` marked a value.
fn replace(dest: &mut Map, upd: &Map) {
    for (key, value) in upd.iter() {
        match find(dest, key) {
            Some(own) => *own = value.clone(),
            None => dest.0.push((key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::yaml;

    fn merged(strategy: &str, lists: bool, a: &str, b: &str) -> String {
        let read = |text| yaml::parse(text).unwrap().into_map().unwrap();
        let merger = Merger {
            strategy: MergeStrategy::of(strategy, "jinja|yaml"),
            lists,
        };
        let map = merger.merge(read(a), &read(b));
        yaml::emit_flow(&Value::Map(map)).trim().to_owned()
    }

    #[test]
    fn strategies() {
        let (a, b) = (
            "{x: 1, m: {a: 1, b: [1, 2]}}",
            "{m: {b: [2, 3], c: 3}, x: 2, y: 1}",
        );
        assert_eq!(
            merged("smart", false, a, b),
            "{x: 2, m: {a: 1, b: [2, 3], c: 3}, y: 1}"
        );
        assert_eq!(
            merged("recurse", true, a, b),
            "{x: 2, m: {a: 1, b: [1, 2, 3], c: 3}, y: 1}"
        );
        assert_eq!(
            merged("overwrite", false, a, b),
            "{x: 2, m: {b: [2, 3], c: 3}, y: 1}"
        );
        assert_eq!(
            merged("aggregate", true, a, b),
            "{x: 2, m: {b: [2, 3], c: 3}, y: 1}"
        );
        assert_eq!(
            merged("list", false, a, b),
            "{x: [1, 2], m: [{a: 1, b: [1, 2]}, {b: [2, 3], c: 3}]}"
        );
    }
}
