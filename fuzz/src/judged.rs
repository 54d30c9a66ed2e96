//! Filters of collectives: read from any encoding, judged on a node in every dialect.

use halite::collective::filter::{Matcher, Node, Semantics, Unusable};
use halite::collective::ruby::{json, marshal, psych};
use halite::collective::wire::Filter;
use halite::wire::{Map, Value};
use std::sync::OnceLock;

struct Own {
    facts: Map,
    classes: Vec<String>,
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl Own {
    fn new() -> Own {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Own {
            facts: halite::map! {
                "country" => "uk", "memory" => 2048, "load" => 1.5, "roles" => vec![Value::from("web"), Value::Nil],
                "os" => halite::map! {"family" => "Debian", "deep" => vec![Value::from(halite::map! {"k" => 1})]},
            },
            classes: texts(&["common::linux", "web"]),
            agents: texts(&["discovery", "rpcutil"]),
            collectives: texts(&["mcollective"]),
        }
    }
}

impl Own {
    fn passes(&self, matcher: &Matcher) -> Result<bool, Unusable> {
        matcher.passes(&Node {
            identity: "node1.example",
            facts: &self.facts,
            classes: &self.classes,
            agents: &self.agents,
            collectives: &self.collectives,
            agent: &|_| Some(halite::map! {"version" => "1.0", "timeout" => 10}),
        })
    }
}

/// A filter in any encoding; written and read again, it says the same.
pub fn collective_filter(data: &[u8]) {
    static NODE: OnceLock<Own> = OnceLock::new();
    let node = NODE.get_or_init(Own::new);
    let decoded = json::read(data).or_else(|_| psych::read(data));
    let Ok(datum) = decoded.or_else(|_| marshal::read(data)) else {
        return;
    };
    let Ok(filter) = Filter::read(&datum) else {
        return;
    };
    let collective = "mcollective".parse().expect("a name");
    let again =
        Filter::read(&filter.write(true, &collective)).expect("what was written can be read");
    for semantics in [Semantics::Mcollective, Semantics::Choria, Semantics::Go] {
        let verdict = |filter| Matcher::new(filter, semantics).and_then(|m| node.passes(&m));
        let (first, second) = (verdict(&filter), verdict(&again));
        // Entries of facts without symbols were written with them.
        if semantics != Semantics::Mcollective {
            assert_eq!(first, second, "{filter:?}");
        }
    }
}
