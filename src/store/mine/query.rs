//! Reads the mine: which minions are targeted, and what the requester may see
//! (`salt/daemons/masterapi.py RemoteFuncs._mine_get`, `salt/utils/mine.py`).

use super::MineStore;
use crate::minions::MinionInventory;
use halite_config::MasterConfig;
use halite_target::{Inventory, MinionId, PyRegex, QueryResults, RegexLimit, Target};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Marks a value with its own access rules (`MINE_ITEM_ACL_ID`).
const ACL: &str = "__saltmine_acl__";
/// Key of the value itself (`MINE_ITEM_ACL_DATA`).
const DATA: &str = "__data__";

/// A query: the fields of a `_mine_get` load, or the arguments of the runner `mine.get`.
#[derive(Debug)]
pub struct MineQuery<'a> {
    /// The requester; for a minion, the id of its channel.
    pub asker: &'a str,
    /// The minions whose values are requested.
    pub tgt: &'a Value,
    /// The type of `tgt`.
    pub tgt_type: &'a str,
    /// One function, several separated by commas, or a list.
    pub fun: &'a Value,
}

/// Runs a query. The result is id -> value, or for several functions function -> id -> value.
pub fn get(
    config: &MasterConfig,
    mine: &dyn MineStore,
    fleet: &MinionInventory,
    query: &MineQuery,
) -> Map {
    let Some((functions, several)) = functions(query.fun) else {
        return Map::new();
    };
    let functions = allowed(config.mine_get.as_ref(), query.asker, functions);
    if functions.is_empty() {
        return Map::new();
    }
    let fleet = StrictInventory { fleet, only: None };
    let kind = match query.tgt_type {
        // With patterns, a minion could guess the pillar of others bit by bit.
        "pillar" | "pillar_pcre" => "pillar_exact",
        "compound" => "compound_pillar_exact",
        other => other,
    };
    let target = match Target::parse(query.tgt, kind, None) {
        Ok(target) => target,
        Err(e) => {
            log::warn!(
                "{} queried the mine with an invalid target: {e}",
                query.asker
            );
            return Map::new();
        }
    };
    let mut access = AccessCheck {
        config,
        fleet: fleet.fleet,
        asker: query.asker.parse().ok(),
        known: HashMap::new(),
    };
    let mut answer = Map::new();
    for id in target.expected(&fleet, &config.nodegroups).minions {
        let data = match mine.get(&id) {
            Ok(Some(data)) => data,
            Ok(None) => continue,
            Err(e) => {
                log::error!("the mine of {id} cannot be read: {e}");
                continue;
            }
        };
        for function in &functions {
            let Some(value) = data.get(function).and_then(|entry| access.open(entry)) else {
                continue;
            };
            if several {
                let slot = match answer.get_mut(function) {
                    Some(Value::Map(slot)) => slot,
                    _ => {
                        answer.set(function, Map::new());
                        match answer.get_mut(function) {
                            Some(Value::Map(slot)) => slot,
                            _ => continue,
                        }
                    }
                };
                slot.set(id.as_str(), value.clone());
            } else {
                answer.set(id.as_str(), value.clone());
            }
        }
    }
    answer
}

/// The requested functions without duplicates, and whether the result has a level for functions.
fn functions(fun: &Value) -> Option<(Vec<String>, bool)> {
    let mut names: Vec<String> = match fun {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        Value::Array(_) => fun.str_list(),
        _ => return None,
    };
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let several = names.len() > 1 || fun.as_array().is_some();
    Some((names, several))
}

/// The functions that the option `mine_get` allows.
fn allowed(rules: Option<&Map>, asker: &str, functions: Vec<String>) -> Vec<String> {
    let Some(rules) = rules else {
        return functions;
    };
    let patterns: Vec<PyRegex> = rules
        .iter()
        .filter(|(ids, _)| ids.as_str().is_some_and(|ids| matches(ids, asker)))
        .flat_map(|(_, list)| list.str_list())
        .filter_map(|pattern| PyRegex::new(&pattern).ok())
        .collect();
    let may = |name: &String| patterns.iter().any(|p| p.matches(name) == Ok(true));
    functions.into_iter().filter(may).collect()
}

fn matches(pattern: &str, text: &str) -> bool {
    PyRegex::new(pattern).is_ok_and(|p| p.matches(text) == Ok(true))
}

/// Checks access to values that their owner has restricted.
struct AccessCheck<'a> {
    config: &'a MasterConfig,
    fleet: &'a MinionInventory<'a>,
    /// `None` if the requester is not a minion; then it is never among those allowed.
    asker: Option<MinionId>,
    /// Earlier decisions, by the rule's msgpack.
    known: HashMap<Vec<u8>, bool>,
}

impl AccessCheck<'_> {
    /// The value of an entry, if the requester may read it.
    fn open<'v>(&mut self, entry: &'v Value) -> Option<&'v Value> {
        let Some(restricted) = entry.as_map().filter(|m| m.contains(ACL)) else {
            return Some(entry);
        };
        if let Some(allow) = restricted.get("allow_tgt") {
            let kind = restricted.get("allow_tgt_type");
            if !self.admits(allow, kind) {
                return None;
            }
        }
        restricted.get(DATA)
    }

    fn admits(&mut self, allow: &Value, kind: Option<&Value>) -> bool {
        let rule = Value::Array(vec![allow.clone(), kind.cloned().unwrap_or_default()]);
        let rule = halite_wire::msgpack::encode(&rule, halite_wire::msgpack::Profile::Local);
        if let Some(known) = self.known.get(&rule) {
            return *known;
        }
        let admitted = self.decide(allow, kind);
        self.known.insert(rule, admitted);
        admitted
    }

    /// Whether the target matches the requester. An invalid target matches nobody.
    fn decide(&self, allow: &Value, kind: Option<&Value>) -> bool {
        let kind = match kind {
            None => "glob",
            Some(Value::Str(kind)) => kind,
            Some(_) => return false,
        };
        let (Some(asker), Ok(target)) = (&self.asker, Target::parse(allow, kind, None)) else {
            return false;
        };
        let only = StrictInventory {
            fleet: self.fleet,
            only: Some(std::slice::from_ref(asker)),
        };
        only.contains(asker.as_str())
            && !target
                .expected(&only, &self.config.nodegroups)
                .minions
                .is_empty()
    }
}

/// Like [`MinionInventory`], but strict: a minion without cached data matches no grain, no pillar and
/// no address (`check_minions` with `greedy=False`). With `only`, there are no other minions.
struct StrictInventory<'a> {
    fleet: &'a MinionInventory<'a>,
    only: Option<&'a [MinionId]>,
}

impl Inventory for StrictInventory<'_> {
    fn ids(&self) -> &[MinionId] {
        self.only.unwrap_or(&self.fleet.ids)
    }

    fn contains(&self, id: &str) -> bool {
        self.fleet.contains(id)
            && self
                .only
                .is_none_or(|ids| ids.iter().any(|own| own.as_str() == id))
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        let known = self.fleet.caches_data().then(|| self.fleet.grains(id));
        Some(known.flatten().unwrap_or_default())
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        let known = self.fleet.caches_data().then(|| self.fleet.pillar(id));
        Some(known.flatten().unwrap_or_default())
    }

    fn query<'b>(
        &'b self,
        query: halite_target::DataQuery<'b>,
    ) -> Option<Box<dyn QueryResults + 'b>> {
        if self.only.is_some() || !self.fleet.caches_data() {
            return None;
        }
        let if_unknown = query.matches(&Map::new());
        let inner = self.fleet.query(query)?;
        Some(Box::new(StrictResults { inner, if_unknown }))
    }
}

/// Query results in which a minion without cached data counts as one with empty data.
struct StrictResults<'a> {
    inner: Box<dyn QueryResults + 'a>,
    if_unknown: Result<bool, RegexLimit>,
}

impl QueryResults for StrictResults<'_> {
    fn get(&self, at: usize) -> Result<Option<bool>, RegexLimit> {
        match self.inner.get(at)? {
            None => self.if_unknown.map(Some),
            known => Ok(known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stores;
    use halite_wire::map;

    struct World {
        config: MasterConfig,
        stores: Stores,
    }

    fn world(extra: Map) -> World {
        let config = MasterConfig::from_map(extra, std::path::Path::new("/etc/halite")).unwrap();
        let stores = crate::memory::stores();
        for (id, role) in [("web1", "web"), ("web2", "web"), ("db1", "db")] {
            let id: MinionId = id.parse().unwrap();
            let pillar = map! {"secret" => role};
            stores
                .minions
                .store(&id, &map! {"role" => role}, &pillar)
                .unwrap();
            let restricted = |tgt: &str, kind: &str| {
                map! {ACL => 1, DATA => "private", "allow_tgt" => tgt, "allow_tgt_type" => kind}
            };
            let values = map! {
                "open" => id.as_str(),
                "webs" => restricted("web*", "glob"),
                "dbs" => restricted("G@role:db", "compound"),
                "nobody" => restricted("gone", "list"),
                "odd" => map! {ACL => 1, DATA => "private", "allow_tgt" => 5},
                "plain" => map! {ACL => 1, DATA => "public"},
            };
            stores.mine.put(&id, values, false).unwrap();
        }
        World { config, stores }
    }

    impl World {
        fn ask(&self, asker: &str, tgt: &str, tgt_type: &str, fun: impl Into<Value>) -> Map {
            let mut ids: Vec<MinionId> = ["db1", "web1", "web2"]
                .iter()
                .map(|id| id.parse().unwrap())
                .collect();
            ids.sort();
            let fleet = MinionInventory {
                ids: ids.into(),
                cache: &*self.stores.minions,
                caches_data: self.config.minion_data_cache,
            };
            let query = MineQuery {
                asker,
                tgt: &tgt.into(),
                tgt_type,
                fun: &fun.into(),
            };
            get(&self.config, &*self.stores.mine, &fleet, &query)
        }
    }

    #[test]
    fn shapes_of_answers() {
        let w = world(Map::new());
        assert_eq!(
            w.ask("db1", "web1", "glob", "open"),
            map! {"web1" => "web1"}
        );
        let two = w.ask("db1", "web1", "glob", "open,plain");
        assert_eq!(
            two,
            map! {"open" => map! {"web1" => "web1"}, "plain" => map! {"web1" => "public"}}
        );
        let listed = w.ask("db1", "web1", "glob", vec!["open".to_owned()]);
        assert_eq!(listed, map! {"open" => map! {"web1" => "web1"}});
        assert_eq!(w.ask("db1", "*", "glob", "open,open").len(), 3);
        for nothing in ["none", "", ","] {
            assert!(w.ask("db1", "*", "glob", nothing).is_empty());
        }
        assert!(w.ask("db1", "*", "glob", 5).is_empty());
        assert!(w.ask("db1", "*", "no_such", "open").is_empty());
    }

    #[test]
    fn every_target_type() {
        let w = world(map! {"nodegroups" => map! {"group" => "web1 or db1"}});
        for (tgt, kind, count) in [
            ("web*", "glob", 2),
            ("web\\d", "pcre", 2),
            ("web1,db1,gone", "list", 2),
            ("role:w*", "grain", 2),
            ("role:[wd].*", "grain_pcre", 3),
            ("secret:web", "pillar", 2),
            ("secret:w*", "pillar", 0),
            ("secret:.*", "pillar_pcre", 0),
            ("I@secret:w* or I@secret:db", "compound", 1),
            ("J@secret:w.*", "compound", 0),
            ("group", "nodegroup", 2),
            ("10.0.0.0/8", "ipcidr", 0),
        ] {
            assert_eq!(w.ask("db1", tgt, kind, "open").len(), count, "{kind} {tgt}");
        }
    }

    #[test]
    fn owners_decide_who_may_read() {
        let w = world(Map::new());
        assert_eq!(w.ask("web2", "*", "glob", "webs").len(), 3);
        assert_eq!(w.ask("db1", "*", "glob", "webs").len(), 0);
        assert_eq!(w.ask("db1", "*", "glob", "dbs").len(), 3);
        assert_eq!(w.ask("web1", "web1", "glob", "dbs").len(), 0, "its own too");
        for asker in ["web1", "db1", "stranger", "the_master", "../x"] {
            for fun in ["nobody", "odd"] {
                assert!(w.ask(asker, "*", "glob", fun).is_empty(), "{asker} {fun}");
            }
        }
        assert!(w.ask("stranger", "*", "glob", "webs").is_empty());
        assert!(
            w.ask("web3", "*", "glob", "webs").is_empty(),
            "no accepted key"
        );
    }

    #[test]
    fn without_cached_data_rules_by_grain_match_nobody() {
        let w = world(map! {"minion_data_cache" => false, "enforce_mine_cache" => true});
        assert_eq!(w.ask("db1", "*", "glob", "open").len(), 3);
        assert!(w.ask("db1", "*", "glob", "dbs").is_empty());
        assert!(w.ask("db1", "role:db", "grain", "open").is_empty());
    }

    #[test]
    fn the_master_restricts_functions() {
        let rules = map! {
            "web.*" => vec!["op".to_owned(), "(".to_owned()],
            "db.*" => "open", "(" => vec!["open".to_owned()],
        };
        let w = world(map! {"mine_get" => rules});
        assert_eq!(w.ask("web1", "*", "glob", "open").len(), 3);
        assert_eq!(
            w.ask("web1", "web1", "glob", "open,plain"),
            map! {"open" => map! {"web1" => "web1"}}
        );
        assert!(w.ask("db1", "*", "glob", "open").is_empty(), "no list");
        assert!(w.ask("x", "*", "glob", "open").is_empty());
    }
}
