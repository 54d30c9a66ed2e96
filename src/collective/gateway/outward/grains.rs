//! The inventory of a node as grains.
//!
//! Each fact becomes a grain of the same name; other data of the inventory gets grains with names that facts cannot
//! override.

use halite_wire::{Map, Value};
use std::net::IpAddr;

/// Most facts stored per node; real ones have some hundreds.
const MOST: usize = 4096;

/// NodeRequest the gateway stores of an inventory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Inventory {
    /// Grains: facts and other data.
    pub grains: Map,
    /// Agents, sorted.
    pub agents: Vec<String>,
    /// The address in the facts.
    pub address: Option<IpAddr>,
}

impl Inventory {
    /// From the data of `rpcutil inventory` of the node `id`; `None` if it is not an inventory.
    pub fn of(id: &str, data: &Value) -> Option<Inventory> {
        let data = data.as_map()?;
        let names = |key: &str| {
            let mut names = data.get(key).map(Value::str_list).unwrap_or_default();
            names.truncate(MOST);
            names.sort();
            names
        };
        let agents = names("agents");
        let mut grains = halite_wire::map! {
            "id" => id, "gateway" => super::super::NAME, "agents" => agents.clone(),
            "classes" => names("classes"), "collectives" => names("collectives"),
        };
        for (name, source) in [
            ("main_collective", "main_collective"),
            ("collective_version", "version"),
        ] {
            if let Some(value) = data.get(source).filter(|value| !value.is_nil()) {
                grains.set(name, value.clone());
            }
        }
        let none = Map::new();
        let facts = data.get("facts").and_then(Value::as_map).unwrap_or(&none);
        for (name, value) in facts.iter().take(MOST) {
            let Some(name) = name.as_str() else { continue };
            if grains.get(name).is_none() {
                grains.0.push((name.into(), value.clone()));
            }
        }
        let addresses = [
            address(facts, "ipaddress", "ip"),
            address(facts, "ipaddress6", "ip6"),
        ];
        for (name, found) in ["ipv4", "ipv6"].iter().zip(addresses) {
            if let Some(found) = found
                && grains.get(name).is_none()
            {
                grains.set(*name, vec![found.to_string()]);
            }
        }
        Some(Inventory {
            grains,
            agents,
            address: addresses.into_iter().flatten().next(),
        })
    }
}

/// An address as reported by Facter: a flat fact in old versions, in `networking` in current ones.
fn address(facts: &Map, flat: &str, nested: &str) -> Option<IpAddr> {
    let networking = facts.get("networking").and_then(Value::as_map);
    let found = facts.str(flat).or_else(|| networking?.str(nested));
    found?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_their_names() {
        let list = |names: &[&str]| -> Value {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            names.into()
        };
        let data = halite_wire::map! {
            "facts" => halite_wire::map! {
                "country" => "uk", "id" => "root", "gateway" => "10.0.0.1",
                "networking" => halite_wire::map! {"ip" => "10.0.0.7"},
            },
            "agents" => list(&["rpcutil", "discovery"]), "classes" => list(&["role::web"]),
            "collectives" => list(&["mcollective"]), "main_collective" => "mcollective",
            "version" => "2.12.5", "data_plugins" => list(&["fact_data"]),
        };
        let found = Inventory::of("node1.example", &data.into()).unwrap();
        assert_eq!(found.grains.str("country"), Some("uk"));
        // A fact cannot change the node's identity.
        assert_eq!(found.grains.str("id"), Some("node1.example"));
        assert_eq!(found.grains.str("gateway"), Some("collective"));
        assert_eq!(found.grains.str("collective_version"), Some("2.12.5"));
        assert_eq!(found.agents, ["discovery", "rpcutil"]);
        assert_eq!(found.address, "10.0.0.7".parse().ok());
        assert_eq!(found.grains.get("ipv4").unwrap().str_list(), ["10.0.0.7"]);
        assert_eq!(Inventory::of("a", &"{}".into()), None);
    }

    #[test]
    fn of_many_facts_the_rest_is_left_out() {
        let facts: Map = (0..2 * MOST).map(|n| (format!("f{n}"), n as i64)).collect();
        let data = halite_wire::map! {"facts" => facts};
        let found = Inventory::of("a", &data.into()).unwrap();
        assert_eq!(found.grains.len(), MOST + 5);
    }
}
