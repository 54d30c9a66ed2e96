//! Metrics of the role `cluster`.

use super::record::{all, each};
use super::text::{MetricKind::*, Text};
use halite_wire::{Map, Value};

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
        ("halite_cluster_minions_elsewhere", Gauge, "Minions that are connected to other masters.", "minions_elsewhere"),
        ("halite_cluster_draining", Gauge, "Whether this master sends its minions away.", "draining"),
        ("halite_cluster_comparing", Gauge, "Whether this master compares its jobs with those of the others.", "comparing"),
        ("halite_cluster_fetched_total", Counter, "Records of jobs that this master lacked and fetched from others.", "fetched"),
    ];
    all(text, r, &fields);
    members(text, r);
}

/// What this master knows of all masters.
fn members(text: &mut Text, r: &Map) {
    let members = r
        .get("members")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let named = |member| Some((Map::str(member, "id")?, member));
    let mut members: Vec<(&str, &Map)> = members
        .iter()
        .filter_map(Value::as_map)
        .filter_map(named)
        .collect();
    let help = "The masters of the cluster, with their state: up, draining, stopped, silent, missing; of this one connecting or apart.";
    text.family("halite_cluster_member_info", Gauge, help);
    for (id, member) in &members {
        let label = |name| (name, member.str(name).unwrap_or_default());
        text.sample(&[("master", id), label("state"), label("version")], 1.0);
    }
    // Of those that were never heard there is nothing more to say.
    members.retain(|(_, member)| member.contains("silent"));
    #[rustfmt::skip]
    let figures = [
        ("halite_cluster_member_leader", "Whether a master says that it runs the schedule.", "leader"),
        ("halite_cluster_member_connections", "Connections to the publish ports of a master.", "connections"),
        ("halite_cluster_member_waiting", "Jobs with news that a master has not told yet.", "waiting"),
        ("halite_cluster_member_silent_seconds", "Time since a master was heard.", "silent"),
        ("halite_cluster_member_skew_seconds", "Clock of a master less that of this one.", "skew"),
    ];
    each(text, Gauge, "master", &members, &figures);
}
