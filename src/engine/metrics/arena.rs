//! Metrics of the gateway for ARENA.

use super::report::{all, as_number};
use super::text::{Kind::*, Text};
use halite_wire::Map;

/// All of them, from the gateway's record.
pub(super) fn render(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_arena_up", Gauge, "Whether a broker of the realm is connected.", "up"),
        ("halite_arena_managers", Gauge, "Runtime managers that are known.", "managers"),
        ("halite_arena_jobs", Gauge, "Jobs that wait for a module to start or to end.", "jobs"),
        ("halite_arena_messages_total", Counter, "Messages that were read.", "messages"),
        ("halite_arena_faults_total", Counter, "Messages that could not be followed.", "faults"),
        ("halite_arena_muted_total", Counter, "Faults that were not told anybody, since there were too many.", "muted"),
        ("halite_arena_ignored_total", Counter, "Messages from which nothing follows, such as output of modules that nobody knows.", "ignored"),
        ("halite_arena_keepalives_total", Counter, "Keepalives of runtimes.", "keepalives"),
        ("halite_arena_sent_total", Counter, "Modules that were sent to runtimes.", "sent"),
        ("halite_arena_ended_total", Counter, "Modules that ended.", "ended"),
        ("halite_arena_lost_total", Counter, "Modules that were lost.", "lost"),
        ("halite_arena_moved_total", Counter, "Modules that were moved to another runtime.", "moved"),
        ("halite_arena_unsent_total", Counter, "Messages that could not be sent.", "unsent"),
        ("halite_arena_refused_total", Counter, "Messages that the broker did not take, such as those that its rules forbid.", "refused"),
        ("halite_arena_dropped_total", Counter, "Messages that were heard and for which there was no room.", "dropped"),
        ("halite_arena_full_total", Counter, "Times that a runtime was not let in for want of room.", "full"),
        ("halite_arena_lines_dropped_total", Counter, "Lines of modules that became no events.", "lines_dropped"),
    ];
    all(text, r, &fields);
    for (name, help, key, states) in [
        (
            "halite_arena_runtimes",
            "Runtimes that are known, by state.",
            "runtimes",
            &["alive", "dead", "waiting"][..],
        ),
        (
            "halite_arena_modules",
            "Modules that are known, by state.",
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
