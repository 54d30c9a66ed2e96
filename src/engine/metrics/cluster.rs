//! Metrics of the role `cluster`.

use super::record::all;
use super::text::{MetricKind::*, Text};
use halite_wire::Map;

/// Renders all of them from the role's record.
pub(super) fn render(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_cluster_member", Gauge, "Whether this master takes part in its cluster now.", "member"),
        ("halite_cluster_keys", Gauge, "Minions with keys in the cluster.", "keys"),
        ("halite_cluster_connections_total", Counter, "Connections to NATS servers established.", "connections"),
        ("halite_cluster_conflicts_total", Counter, "Changes for which another master was faster.", "conflicts"),
        ("halite_cluster_refused_total", Counter, "Entries that no master of the cluster wrote, or that were put back.", "refused"),
        ("halite_cluster_leader", Gauge, "Whether this master runs the schedule.", "leader"),
        ("halite_cluster_waiting", Gauge, "Jobs with news that the other masters have not been told yet.", "waiting"),
        ("halite_cluster_told_total", Counter, "Messages about jobs that NATS has acknowledged.", "told"),
        ("halite_cluster_returns_total", Counter, "Returns of other masters' minions that were stored.", "returns"),
        ("halite_cluster_published_total", Counter, "Jobs of other masters that were published.", "published"),
        ("halite_cluster_data_total", Counter, "Grains, pillars and mines of other masters that were stored.", "data"),
        ("halite_cluster_events_dropped_total", Counter, "Events that the other masters do not hear of, since there were too many.", "events_dropped"),
    ];
    all(text, r, &fields);
}
