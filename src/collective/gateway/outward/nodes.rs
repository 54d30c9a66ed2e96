//! The known nodes: identity, liveness, inventory.

use super::super::act::Clock;
use crate::wire::Identity;
use halite_gateway::agent_keys::Standing;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// Most nodes remembered; further ones are refused.
pub(super) const MOST: usize = 100_000;
/// Rounds of discovery without a reply after which a node counts as gone.
const MISSES: u8 = 2;
/// Time before a failed inventory request is repeated.
const AGAIN: Duration = Duration::from_secs(60);

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    /// Its id.
    pub id: MinionId,
    /// Its identity in the collective, the same text.
    pub identity: Identity,
    /// Index of its collective in the settings.
    pub collective: usize,
    /// Its standing in the key store.
    pub standing: Standing,
    /// Whether it counts as connected.
    pub here: bool,
    /// Agents, once known from an inventory.
    pub agents: Option<Vec<String>>,
    /// When a message from it was last received.
    seen: Option<Instant>,
    misses: u8,
    address: Option<IpAddr>,
    /// When to request its inventory.
    due: Option<Instant>,
    asked: bool,
}

/// All nodes, by id.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: HashMap<String, Node>,
    here: usize,
    /// Whether the list of connected nodes has changed.
    pub changed: bool,
}

impl Nodes {
    /// The node with that id.
    pub fn get(&self, id: &str) -> Option<&Node> {
        self.all.get(id)
    }

    /// Number of known and of connected nodes.
    pub fn counts(&self) -> (usize, usize) {
        (self.all.len(), self.here)
    }

    /// Adds a node; `false` if there is no room.
    pub fn learn(&mut self, id: &MinionId, identity: Identity, collective: usize) -> bool {
        if self.all.contains_key(id.as_str()) {
            return true;
        }
        if self.all.len() >= MOST {
            return false;
        }
        let node = Node {
            id: id.clone(),
            identity,
            collective,
            standing: Standing::Unknown,
            here: false,
            agents: None,
            seen: None,
            misses: 0,
            address: None,
            due: None,
            asked: false,
        };
        self.all.insert(id.as_str().to_owned(), node);
        true
    }

    /// Removes a node.
    pub fn forget(&mut self, id: &str) {
        if let Some(node) = self.all.remove(id)
            && node.here
        {
            self.here -= 1;
            self.changed = true;
        }
    }

    /// Records a message from a node; `true` if it has just become connected.
    pub fn mark_seen(&mut self, id: &str, now: Clock) -> bool {
        let Some(node) = self.all.get_mut(id) else {
            return false;
        };
        node.seen = Some(now.at);
        node.misses = 0;
        self.update_connected(id, now)
    }

    /// Sets the standing of a node; `true` if it has become connected by that.
    pub fn set_standing(&mut self, id: &str, standing: Standing, now: Clock) -> bool {
        let Some(node) = self.all.get_mut(id) else {
            return false;
        };
        node.standing = standing;
        if standing != Standing::Accepted {
            self.leave(id);
        }
        self.update_connected(id, now)
    }

    /// Marks a node as connected if it is alive and accepted.
    fn update_connected(&mut self, id: &str, now: Clock) -> bool {
        let Some(node) = self.all.get_mut(id) else {
            return false;
        };
        let lives = node.seen.is_some() && node.misses == 0;
        if node.here || !lives || node.standing != Standing::Accepted {
            return false;
        }
        node.here = true;
        node.due.get_or_insert(now.at);
        self.here += 1;
        self.changed = true;
        true
    }

    /// Records that a node replies in a collective: requests are sent in the first such collective of the settings.
    pub fn answers_in(&mut self, id: &str, collective: usize) {
        if let Some(node) = self.all.get_mut(id)
            && (!node.here || collective < node.collective)
        {
            node.collective = collective;
        }
    }

    /// Marks a node as disconnected because it did not reply, until a message from it is received.
    pub fn leave(&mut self, id: &str) {
        if let Some(node) = self.all.get_mut(id) {
            node.misses = node.misses.max(1);
            if node.here {
                node.here = false;
                self.here -= 1;
                self.changed = true;
            }
        }
    }

    /// Ends a round of discovery that started at `begun`. Returns the nodes that are now gone, because they missed too many.
    pub fn end_round(&mut self, begun: Instant) -> Vec<MinionId> {
        let mut gone = Vec::new();
        for node in self.all.values_mut() {
            if node.seen.is_some_and(|seen| seen >= begun) {
                continue;
            }
            node.misses = node.misses.saturating_add(1);
            if node.here && node.misses >= MISSES {
                gone.push(node.id.clone());
            }
        }
        for id in &gone {
            self.leave(id.as_str());
        }
        gone
    }

    /// Nodes whose inventory is due, at most `most`; marks them as requested.
    pub fn take_due(&mut self, most: usize, now: Clock) -> Vec<MinionId> {
        let due = |node: &&mut Node| {
            node.here && !node.asked && node.due.is_some_and(|due| due <= now.at)
        };
        let due = self.all.values_mut().filter(due).take(most);
        due.map(|node| {
            node.asked = true;
            node.id.clone()
        })
        .collect()
    }

    /// Records the inventory of a node; the next one is due at `next`.
    pub fn set_inventory(
        &mut self,
        id: &str,
        agents: Vec<String>,
        address: Option<IpAddr>,
        next: Instant,
    ) {
        if let Some(node) = self.all.get_mut(id) {
            node.asked = false;
            node.due = Some(next);
            node.agents = Some(agents);
            self.changed |= node.address != address;
            node.address = address;
        }
    }

    /// Records that a node did not send its inventory; it is asked again later.
    pub fn retry_inventory(&mut self, id: &str, now: Clock) {
        if let Some(node) = self.all.get_mut(id) {
            node.asked = false;
            node.due = Some(now.at + AGAIN);
        }
    }

    /// The connected nodes. The address of a node is known only from its facts; without them it is `0.0.0.0`.
    pub fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        let here = self.all.values().filter(|node| node.here);
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        here.map(|node| (node.id.clone(), node.address.unwrap_or(unknown)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ids: &[&str]) -> Nodes {
        let mut nodes = Nodes::default();
        for id in ids {
            assert!(nodes.learn(&id.parse().unwrap(), id.parse().unwrap(), 0));
        }
        nodes
    }

    #[test]
    fn who_lives_and_is_accepted_is_here() {
        let (mut nodes, now) = (nodes(&["a", "b"]), Clock::now());
        assert!(!nodes.mark_seen("a", now));
        assert!(nodes.set_standing("a", Standing::Accepted, now));
        assert!(!nodes.set_standing("a", Standing::Accepted, now));
        assert!(!nodes.set_standing("b", Standing::Accepted, now));
        assert!(nodes.mark_seen("b", now));
        assert_eq!(nodes.counts(), (2, 2));
        assert!(!nodes.set_standing("b", Standing::Rejected, now));
        nodes.forget("a");
        assert_eq!(nodes.counts(), (1, 0));
    }

    #[test]
    fn one_silence_is_forgiven() {
        let (mut nodes, now) = (nodes(&["a"]), Clock::now());
        nodes.set_standing("a", Standing::Accepted, now);
        nodes.mark_seen("a", now);
        let round = now.after(Duration::from_secs(60)).at;
        assert!(nodes.end_round(round).is_empty());
        nodes.mark_seen("a", now);
        assert!(nodes.end_round(round).is_empty());
        assert_eq!(nodes.end_round(round).len(), 1);
        assert_eq!(nodes.counts(), (1, 0));
        assert!(nodes.mark_seen("a", now));
    }

    #[test]
    fn inventories_are_asked_for_once() {
        let (mut nodes, now) = (nodes(&["a", "b", "c"]), Clock::now());
        for id in ["a", "b"] {
            nodes.set_standing(id, Standing::Accepted, now);
            nodes.mark_seen(id, now);
        }
        let first = nodes.take_due(1, now);
        let second = nodes.take_due(9, now);
        assert_eq!((first.len(), second.len()), (1, 1));
        assert_ne!(first, second);
        let later = now.after(Duration::from_secs(3600));
        nodes.set_inventory("a", Vec::new(), Some("10.0.0.1".parse().unwrap()), later.at);
        nodes.retry_inventory("b", now);
        assert!(nodes.take_due(9, now).is_empty());
        assert_eq!(nodes.take_due(9, now.after(AGAIN)), ["b"]);
        assert_eq!(nodes.take_due(9, later), ["a"]);
        let addresses: Vec<_> = nodes.connected().into_values().collect();
        assert_eq!(
            addresses,
            ["10.0.0.1", "0.0.0.0"].map(|a| a.parse::<IpAddr>().unwrap())
        );
    }
}
