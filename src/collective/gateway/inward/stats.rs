//! Counters of the whole gateway and of each node (`daemon_stats`).

use halite_wire::Map;

/// Counters of a node, as in `mcollectived` (`runnerstats.rb`).
///
/// A message to all nodes is counted once: a node's figure is its own count plus that of messages to all since
/// it appeared (see [`Stats::of`]), so that a broadcast does not update thousands of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Messages received.
    pub total: u64,
    /// Genuine ones.
    pub validated: u64,
    /// Others.
    pub unvalidated: u64,
    /// Expired ones.
    pub ttlexpired: u64,
    /// Those that matched the filter.
    pub passed: u64,
    /// Those that did not.
    pub filtered: u64,
    /// Replies.
    pub replies: u64,
}

/// Counters of the gateway.
#[derive(Debug, Default)]
pub(super) struct Stats {
    /// Messages to all nodes, as each node counts them. Wraps, since only differences are used.
    pub all: Tally,
    /// Requests received.
    pub requests: u64,
    /// Nodes that matched a filter, over all requests.
    pub passed: u64,
    /// Nodes that did not.
    pub filtered: u64,
    /// Replies sent.
    pub replies: u64,
    /// Replies dropped because the queue was full.
    pub dropped: u64,
    /// Jobs requested.
    pub jobs: u64,
    /// Nodes for which a job was refused by `publisher_acl`.
    pub denied: u64,
    /// Nodes that did not return in time.
    pub silent: u64,
}

impl Stats {
    /// Initial counters of a new node: minus the messages to all so far.
    pub fn fresh(&self) -> Tally {
        let less = |count: u64| 0u64.wrapping_sub(count);
        Tally {
            total: less(self.all.total),
            validated: less(self.all.validated),
            unvalidated: less(self.all.unvalidated),
            ttlexpired: less(self.all.ttlexpired),
            ..Tally::default()
        }
    }

    /// The figures of a node.
    pub fn of(&self, own: Tally) -> Tally {
        let shared = |own: u64, all: u64| own.wrapping_add(all);
        Tally {
            total: shared(own.total, self.all.total),
            validated: shared(own.validated, self.all.validated),
            unvalidated: shared(own.unvalidated, self.all.unvalidated),
            ttlexpired: shared(own.ttlexpired, self.all.ttlexpired),
            ..own
        }
    }

    /// For the scoreboard.
    pub fn counters(&self) -> Map {
        halite_wire::map! {
            "inward_requests" => self.requests, "inward_passed" => self.passed,
            "inward_filtered" => self.filtered, "inward_replies" => self.replies,
            "inward_dropped" => self.dropped, "inward_jobs" => self.jobs,
            "inward_denied" => self.denied, "inward_silent" => self.silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_from_when_it_came() {
        let mut stats = Stats::default();
        stats.all.total = 5;
        let mut own = stats.fresh();
        assert_eq!(stats.of(own), Tally::default());
        stats.all.total += 2;
        own.total = own.total.wrapping_add(1);
        own.replies = 4;
        let shown = stats.of(own);
        assert_eq!((shown.total, shown.replies, shown.validated), (3, 4, 0));
    }
}
