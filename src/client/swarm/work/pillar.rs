//! Pillars: the request, and checks of the reply.

use crate::swarm::session::{Load, SessionError};
use halite_crypto::HashType;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;

/// Requests for pillars.
#[derive(Debug)]
pub struct Pillars {
    load: Arc<Load>,
    expected: Option<Map>,
}

impl Pillars {
    /// Requests with these grains; with `expected`, every pillar must equal it, ignoring the order of keys.
    pub fn new(grains: &Map, expected: Option<Map>) -> Pillars {
        // Reference 9.1.
        let load = halite_wire::map! {
            "cmd" => "_pillar", "grains" => grains.clone(), "saltenv" => Value::Nil, "pillarenv" => Value::Nil,
            "pillar_override" => Map::new(), "extra_minion_data" => Map::new(), "ver" => "2",
        };
        Pillars {
            load: Arc::new(Load::new(&load)),
            expected,
        }
    }

    /// The request.
    pub fn load(&self) -> Arc<Load> {
        self.load.clone()
    }

    /// Checks a pillar against the expected one and the previous one of the same minion, whose digest is in
    /// `before`. Pillars may be secret, so errors name keys but no values.
    ///
    /// # Errors
    /// The pillar differs, or rendering has failed.
    pub fn check(&self, pillar: &Map, before: &mut Option<String>) -> Result<(), SessionError> {
        let expects_errors = self
            .expected
            .as_ref()
            .is_some_and(|e| e.contains("_errors"));
        if pillar.contains("_errors") && !expects_errors {
            return SessionError::wrong("the pillar holds errors of its rendering");
        }
        if let Some(expected) = &self.expected {
            compare(pillar, expected)?;
        }
        let digest = digest(pillar);
        match before {
            Some(before) if *before != digest => {
                SessionError::wrong("the pillar of a minion has changed")
            }
            Some(_) => Ok(()),
            None => {
                *before = Some(digest);
                Ok(())
            }
        }
    }
}

fn compare(pillar: &Map, expected: &Map) -> Result<(), SessionError> {
    for (key, value) in expected.iter() {
        let name = key.as_str().unwrap_or("(no text)");
        match pillar.iter().find(|(k, _)| k == key) {
            None => {
                return SessionError::wrong(format!("the pillar lacks the expected key {name}"));
            }
            Some((_, found)) if canonical(found) != canonical(value) => {
                return SessionError::wrong(format!(
                    "the pillar holds something else than expected under {name}"
                ));
            }
            Some(_) => {}
        }
    }
    match pillar
        .iter()
        .find(|(key, _)| !expected.iter().any(|(k, _)| k == key))
    {
        Some((key, _)) => SessionError::wrong(format!(
            "the pillar holds the unexpected key {}",
            key.as_str().unwrap_or("(no text)")
        )),
        None => Ok(()),
    }
}

fn digest(pillar: &Map) -> String {
    HashType::Sha256.hex(&canonical(&Value::Map(pillar.clone())))
}

/// The same bytes for the same data, regardless of the order of keys in maps.
fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Map(map) => {
            let mut pairs: Vec<_> = map
                .iter()
                .map(|(k, v)| (canonical(k), canonical(v)))
                .collect();
            pairs.sort();
            msgpack::put_map_header(&mut out, pairs.len());
            for (key, value) in pairs {
                out.extend(key);
                out.extend(value);
            }
        }
        Value::Array(list) => {
            msgpack::put_array_header(&mut out, list.len());
            list.iter().for_each(|item| out.extend(canonical(item)));
        }
        other => msgpack::encode_into(&mut out, other, Profile::Local),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pillar() -> Map {
        halite_wire::map! {"a" => 1, "b" => halite_wire::map! {"x" => "1", "y" => true}}
    }

    fn why(pillars: &Pillars, pillar: &Map, before: &mut Option<String>) -> String {
        pillars.check(pillar, before).unwrap_err().to_string()
    }

    #[test]
    fn the_order_of_keys_does_not_count() {
        let turned =
            halite_wire::map! {"b" => halite_wire::map! {"y" => true, "x" => "1"}, "a" => 1};
        let pillars = Pillars::new(&Map::new(), Some(pillar()));
        let mut before = None;
        pillars.check(&pillar(), &mut before).unwrap();
        pillars.check(&turned, &mut before).unwrap();
    }

    #[test]
    fn another_pillar_than_before_is_wrong() {
        let pillars = Pillars::new(&Map::new(), None);
        let mut before = None;
        pillars.check(&pillar(), &mut before).unwrap();
        let mut other = pillar();
        other.set("a", 2);
        assert!(why(&pillars, &other, &mut before).contains("changed"));
    }

    #[test]
    fn another_pillar_than_expected_is_wrong() {
        let pillars = Pillars::new(&Map::new(), Some(pillar()));
        let mut other = pillar();
        other.set("a", "1");
        assert!(why(&pillars, &other, &mut None).contains("under a"));
        let mut more = pillar();
        more.set("c", 1);
        assert!(why(&pillars, &more, &mut None).contains("unexpected key c"));
        let mut less = pillar();
        less.remove("b");
        assert!(why(&pillars, &less, &mut None).contains("lacks the expected key b"));
    }

    #[test]
    fn a_pillar_that_failed_is_wrong() {
        let failed = halite_wire::map! {"_errors" => vec![Value::from("x")]};
        let pillars = Pillars::new(&Map::new(), None);
        assert!(why(&pillars, &failed, &mut None).contains("errors"));
        let wanted = Pillars::new(&Map::new(), Some(failed.clone()));
        wanted.check(&failed, &mut None).unwrap();
    }
}
