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
    ];
    all(text, r, &fields);
}
