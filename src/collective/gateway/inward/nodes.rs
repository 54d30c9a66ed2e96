//! The current nodes: a table sorted by minion id, replaced as a whole when a survey finds a change.

use super::Act;
use super::stats::Tally;
use crate::broker::Place;
use crate::wire::{AgentName, Collective, Identity};
use halite_target::Inventory;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A minion as the collective sees it.
#[derive(Debug)]
pub struct Node {
    /// Its identity in the collective.
    pub identity: Identity,
    /// Its minion id, which is the same text.
    pub minion: MinionId,
    /// Its facts.
    pub grains: Arc<Map>,
    /// Its classes, sorted: its nodegroups, and those in its grain `classes`.
    pub classes: Vec<String>,
    /// Its message counters.
    pub(super) tally: Mutex<Tally>,
}

impl Clone for Node {
    fn clone(&self) -> Node {
        Node {
            identity: self.identity.clone(),
            minion: self.minion.clone(),
            grains: self.grains.clone(),
            classes: self.classes.clone(),
            tally: Mutex::new(*self.tally()),
        }
    }
}

impl Node {
    /// A minion as a node; `groups` are its nodegroups. `None` if its id is not a valid identity.
    pub fn new(minion: &MinionId, grains: Arc<Map>, groups: &[String]) -> Option<Node> {
        let mut classes = groups.to_vec();
        if let Some(Value::Array(own)) = grains.get("classes") {
            let own = own.iter().filter_map(Value::as_str);
            classes.extend(own.map(str::to_owned));
        }
        classes.sort_unstable();
        classes.dedup();
        Some(Node {
            identity: minion.as_str().parse().ok()?,
            minion: minion.clone(),
            grains,
            classes,
            tally: Mutex::default(),
        })
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        match self.tally.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    fn same(&self, other: &Node) -> bool {
        (Arc::ptr_eq(&self.grains, &other.grains) || self.grains == other.grains)
            && self.classes == other.classes
    }
}

/// All nodes.
pub(super) struct Nodes {
    collectives: Vec<Collective>,
    agents: Vec<AgentName>,
    ids: Vec<MinionId>,
    /// In the order of `ids`.
    nodes: Vec<Arc<Node>>,
    by_identity: HashMap<Identity, usize>,
}

impl Nodes {
    /// An empty table.
    pub fn new(collectives: Vec<Collective>, agents: Vec<AgentName>) -> Nodes {
        Nodes {
            collectives,
            agents,
            ids: Vec::new(),
            nodes: Vec::new(),
            by_identity: HashMap::new(),
        }
    }

    /// All nodes.
    pub fn all(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The node with that identity.
    pub fn get(&self, identity: &Identity) -> Option<&Arc<Node>> {
        self.nodes.get(*self.by_identity.get(identity)?)
    }

    /// The places of messages for them.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for collective in &self.collectives {
            let broadcast = |agent: &AgentName| Place::Broadcast(collective.clone(), agent.clone());
            places.extend(self.agents.iter().map(broadcast));
        }
        places.extend(self.nodes.iter().flat_map(|node| self.places_of(node)));
        places
    }

    fn places_of(&self, node: &Node) -> Vec<Place> {
        let collectives = self.collectives.iter();
        collectives
            .map(|collective| Place::Node(collective.clone(), node.identity.clone()))
            .collect()
    }

    /// Replaces the nodes by those a survey found. Nodes that stay keep their counters; new ones start with `fresh`.
    pub fn replace(&mut self, mut found: Vec<Node>, fresh: Tally) -> Vec<Act> {
        found.sort_by(|a, b| a.minion.cmp(&b.minion));
        found.dedup_by(|a, b| a.minion == b.minion);
        let mut acts = Vec::new();
        let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(found.len());
        for node in found {
            nodes.push(match self.get(&node.identity) {
                Some(known) if known.same(&node) => known.clone(),
                Some(known) => {
                    *node.tally() = *known.tally();
                    Arc::new(node)
                }
                None => {
                    *node.tally() = fresh;
                    acts.extend(self.places_of(&node).into_iter().map(Act::Subscribe));
                    Arc::new(node)
                }
            });
        }
        let by_identity: HashMap<Identity, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.identity.clone(), at))
            .collect();
        let gone = self.nodes.iter();
        let gone = gone.filter(|node| !by_identity.contains_key(&node.identity));
        acts.extend(
            gone.flat_map(|node| self.places_of(node))
                .map(Act::Unsubscribe),
        );
        self.ids = nodes.iter().map(|node| node.minion.clone()).collect();
        self.nodes = nodes;
        self.by_identity = by_identity;
        acts
    }

    fn at(&self, id: &str) -> Option<&Arc<Node>> {
        let at = self.ids.binary_search_by(|own| own.as_str().cmp(id)).ok()?;
        self.nodes.get(at)
    }
}

/// For permissions that apply to some minions only. Pillar targets grant nothing: the pillar is not kept here.
impl Inventory for Nodes {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    fn contains(&self, id: &str) -> bool {
        self.at(id).is_some()
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.at(id.as_str()).map(|node| node.grains.clone())
    }

    fn pillar(&self, _: &MinionId) -> Option<Arc<Map>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, os: &str) -> Node {
        let grains =
            halite_wire::map! {"os" => os, "classes" => vec!["base".to_owned(), "web".to_owned()]};
        Node::new(&id.parse().unwrap(), Arc::new(grains), &["web".to_owned()]).unwrap()
    }

    fn nodes() -> Nodes {
        let names = |names: &[&str]| names.iter().map(|n| n.parse().unwrap()).collect();
        Nodes::new(
            names(&["mcollective", "dev"]),
            vec!["rpcutil".parse().unwrap()],
        )
    }

    #[test]
    fn places_come_and_go_with_the_minions() {
        let mut nodes = nodes();
        assert_eq!(nodes.places().len(), 2);
        let acts = nodes.replace(vec![node("b", "x"), node("a", "x")], Tally::default());
        assert_eq!(acts.len(), 4);
        assert!(acts.iter().all(|act| matches!(act, Act::Subscribe(_))));
        assert_eq!(nodes.places().len(), 6);
        let order: Vec<_> = nodes.all().iter().map(|n| n.identity.as_str()).collect();
        assert_eq!(order, ["a", "b"]);
        let acts = nodes.replace(vec![node("b", "x")], Tally::default());
        let gone =
            |c: &str| Act::Unsubscribe(Place::Node(c.parse().unwrap(), "a".parse().unwrap()));
        assert_eq!(acts, [gone("mcollective"), gone("dev")]);
        assert!(nodes.get(&"a".parse().unwrap()).is_none());
        assert!(nodes.contains("b") && !nodes.contains("a"));
    }

    #[test]
    fn counters_outlive_new_facts() {
        let mut nodes = nodes();
        nodes.replace(vec![node("a", "x")], Tally::default());
        let first = nodes.all()[0].clone();
        first.tally().replies = 7;
        nodes.replace(vec![node("a", "x")], Tally::default());
        assert!(Arc::ptr_eq(&first, &nodes.all()[0]));
        nodes.replace(vec![node("a", "y")], Tally::default());
        assert!(!Arc::ptr_eq(&first, &nodes.all()[0]));
        assert_eq!(nodes.all()[0].tally().replies, 7);
        assert_eq!(nodes.all()[0].classes, ["base", "web"]);
    }

    #[test]
    fn ids_that_are_no_names_of_nodes_make_none() {
        for id in ["a b", "host/1", "h*", "a..b"] {
            let Ok(id) = id.parse::<MinionId>() else {
                continue;
            };
            assert!(Node::new(&id, Arc::default(), &[]).is_none(), "{id}");
        }
    }
}
