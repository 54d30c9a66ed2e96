//! Metrics of the gateway for ARENA.

use super::record::{all, as_number, waits};
use super::text::{MetricKind::*, Text};
use halite_wire::Map;

/// Renders all of them from the gateway's record.
pub(super) fn render(text: &mut Text, r: &Map) {
    if waits(text, "halite_arena_waits", r) {
        return;
    }
    #[rustfmt::skip]
    let fields = [
        ("halite_arena_up", Gauge, "Whether a broker of the realm is connected.", "up"),
        ("halite_arena_managers", Gauge, "Known runtime managers.", "managers"),
        ("halite_arena_jobs", Gauge, "Jobs waiting for a module to start or exit.", "jobs"),
        ("halite_arena_messages_total", Counter, "Messages read.", "messages"),
        ("halite_arena_faults_total", Counter, "Messages that could not be acted on.", "faults"),
        ("halite_arena_muted_total", Counter, "Faults that were not reported because there were too many.", "muted"),
        ("halite_arena_ignored_total", Counter, "Messages without effect, such as output of unknown modules.", "ignored"),
        ("halite_arena_keepalives_total", Counter, "Keepalives of runtimes.", "keepalives"),
        ("halite_arena_sent_total", Counter, "Modules sent to runtimes.", "sent"),
        ("halite_arena_ended_total", Counter, "Modules that exited.", "ended"),
        ("halite_arena_lost_total", Counter, "Modules that were lost.", "lost"),
        ("halite_arena_moved_total", Counter, "Modules moved to another runtime.", "moved"),
        ("halite_arena_unsent_total", Counter, "Messages that could not be sent.", "unsent"),
        ("halite_arena_refused_total", Counter, "Messages that the broker rejected, for example because its rules forbid them.", "refused"),
        ("halite_arena_dropped_total", Counter, "Received messages dropped because the queue was full.", "dropped"),
        ("halite_arena_full_total", Counter, "Runtimes turned away because the limit was reached.", "full"),
        ("halite_arena_lines_dropped_total", Counter, "Output lines of modules that were not turned into events.", "lines_dropped"),
    ];
    all(text, r, &fields);
    for (name, help, key, states) in [
        (
            "halite_arena_runtimes",
            "Known runtimes by state.",
            "runtimes",
            &["alive", "dead", "waiting"][..],
        ),
        (
            "halite_arena_modules",
            "Known modules by state.",
            "modules",
            &["alive", "exiting", "killed", "queued", "dead"],
        ),
    ] {
        text.family(name, Gauge, help);
        for state in states {
            let count = r.get(&format!("{key}_{state}"));
            text.sample(&[("state", state)], as_number(count));
        }
    }
}
