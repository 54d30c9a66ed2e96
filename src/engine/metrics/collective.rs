//! Metrics of the gateway for MCollective and Choria.

use super::record::{all, as_number, waits};
use super::text::{MetricKind::*, Text};
use halite_wire::{Map, Value};

/// Renders all of them from the gateway's record.
pub(super) fn render(text: &mut Text, r: &Map) {
    if waits(text, "halite_collective_waits", r) {
        return;
    }
    #[rustfmt::skip]
    let fields = [
        ("halite_collective_up", Gauge, "Whether a broker of the collective is connected.", "up"),
        ("halite_collective_nodes", Gauge, "Known nodes of the collective, accepted or not.", "nodes"),
        ("halite_collective_connected", Gauge, "Nodes with an accepted key that answer.", "connected"),
        ("halite_collective_jobs", Gauge, "Requests of jobs with pending replies.", "jobs"),
        ("halite_collective_requests_total", Counter, "Requests to nodes.", "requests"),
        ("halite_collective_replies_total", Counter, "Expected replies that arrived.", "replies"),
        ("halite_collective_timeouts_total", Counter, "Nodes that did not answer an action in time.", "timeouts"),
        ("halite_collective_unsent_total", Counter, "Messages that could not be sent.", "unsent"),
        ("halite_collective_dropped_total", Counter, "Received messages dropped because the queue was full.", "dropped"),
        ("halite_collective_inward_nodes", Gauge, "Minions that are nodes of the collective.", "inward_nodes"),
        ("halite_collective_inward_requests_total", Counter, "Valid requests to nodes that are minions.", "inward_requests"),
        ("halite_collective_inward_replies_total", Counter, "Replies of nodes that are minions.", "inward_replies"),
        ("halite_collective_inward_running", Gauge, "Jobs of the collective with missing returns.", "inward_running"),
        ("halite_collective_inward_waiting", Gauge, "Replies of nodes that are minions, waiting to be sent.", "inward_waiting"),
        ("halite_collective_inward_passed_total", Counter, "Requests that a filter passed to a minion.", "inward_passed"),
        ("halite_collective_inward_filtered_total", Counter, "Requests that a filter kept from a minion.", "inward_filtered"),
        ("halite_collective_inward_jobs_total", Counter, "Jobs requested by callers of the collective.", "inward_jobs"),
        ("halite_collective_inward_silent_total", Counter, "Minions that did not return in time.", "inward_silent"),
        ("halite_collective_inward_dropped_total", Counter, "Replies of nodes that are minions, dropped because the queue was full.", "inward_dropped"),
        ("halite_collective_inward_forgotten_total", Counter, "Requests that were forgotten while they were good still, since there were too many: they could run again.", "inward_forgotten"),
        ("halite_collective_inward_denied_total", Counter, "Functions on a minion that publisher_acl denied to a caller.", "inward_denied"),
    ];
    all(text, r, &fields);
    text.family(
        "halite_collective_refused_total",
        Counter,
        "Ignored messages by reason.",
    );
    let refused = r.get("refused").and_then(Value::as_map);
    for (reason, count) in refused.into_iter().flat_map(Map::iter) {
        let reason = reason.as_str().unwrap_or_default();
        text.sample(&[("reason", reason)], as_number(Some(count)));
    }
    text.family(
        "halite_collective_ignored_total",
        Counter,
        "Replies that were not used: to no request that is on its way (strays), of nodes that were not asked or answer twice \
         (strangers), of no known form (malformed); and nodes that may not be minions: because of their identity (bad_ids), \
         because the id is somebody else's (foreign), because too many wait (full).",
    );
    for kind in [
        "strays",
        "strangers",
        "malformed",
        "bad_ids",
        "foreign",
        "full",
    ] {
        text.sample(&[("kind", kind)], as_number(r.get(kind)));
    }
}
