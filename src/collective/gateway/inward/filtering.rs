//! Evaluates filters on nodes.

use super::agents::data::about;
use super::nodes::Node;
use super::{Inward, agents};
use crate::filter::{Matcher, Node as Filtered, Semantics};
use crate::ruby::Datum;
use crate::wire::{Form, Request};
use halite_wire::{Map, Value};
use std::sync::Arc;

/// What all nodes have in common.
pub(super) struct Common {
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl Common {
    pub fn new(collectives: &[crate::wire::Collective]) -> Common {
        Common {
            agents: agents::AGENTS.map(str::to_owned).into(),
            collectives: collectives.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Metadata of an agent.
fn agent(name: &str) -> Option<Map> {
    let known = about(name)?.into_iter();
    let pairs = known.map(|(key, value)| (Value::from(key), Datum::to_value(&value)));
    Some(Map(pairs.collect()))
}

impl Inward {
    /// The nodes that match a filter, and the number of others. A filter that cannot be evaluated matches none.
    pub(super) fn filter(
        &mut self,
        request: &Request,
        form: Form,
        mut nodes: Vec<Arc<Node>>,
    ) -> (Vec<Arc<Node>>, usize) {
        let before = nodes.len();
        let mut broken = None;
        match Matcher::new(&request.filter, Semantics::of(form)) {
            Ok(matcher) => nodes.retain(|node| {
                let view = Filtered {
                    identity: node.identity.as_str(),
                    facts: &node.grains,
                    classes: &node.classes,
                    agents: &self.common.agents,
                    collectives: &self.common.collectives,
                    agent: &agent,
                };
                let passes = matcher.passes(&view).unwrap_or_else(|why| {
                    broken = Some(why);
                    false
                });
                let mut tally = node.tally();
                if passes {
                    tally.passed += 1
                } else {
                    tally.filtered += 1
                }
                passes
            }),
            Err(why) => {
                nodes.iter().for_each(|node| node.tally().filtered += 1);
                nodes.clear();
                broken = Some(why);
            }
        }
        if let Some(why) = broken {
            log::info!("a filter of {} cannot be evaluated: {why}", request.caller);
        }
        let filtered = before - nodes.len();
        (nodes, filtered)
    }
}
