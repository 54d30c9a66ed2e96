//! The result of a run, as JSON and as a table.

use super::meter::RunPart;
use super::options::SwarmArgs;
use halite_client::swarm::stats::{Op, Stats};
use serde_json::json;
use std::time::Duration;

const POINTS: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

fn per_op(cpu: Option<Duration>, count: usize) -> Option<f64> {
    cpu.filter(|_| count > 0)
        .map(|c| c.as_secs_f64() * 1000.0 / count as f64)
}

/// The rows of all parts, with what each counts. What a part counts beside its subject gets a row only if it
/// occurred.
fn rows<'a>(parts: &'a [RunPart], stats: &'a Stats) -> impl Iterator<Item = (&'a RunPart, Op)> {
    parts.iter().flat_map(|part| {
        let ops = part.ops.iter().enumerate();
        ops.filter(|(n, op)| *n == 0 || stats.count(**op) > 0)
            .map(move |(_, op)| (part, *op))
    })
}

/// The result for programs. `each` is the resident memory of the swarm per minion in bytes.
pub(super) fn as_json(
    options: &SwarmArgs,
    parts: &[RunPart],
    stats: &Stats,
    each: u64,
) -> serde_json::Value {
    let parts: Vec<_> = rows(parts, stats)
        .map(|(part, op)| {
            let count = stats.count(op);
            let latency = stats.percentiles(op, &POINTS);
            let at = |n: usize| latency.get(n).copied();
            json!({
                "operation": op.name(),
                "complete": part.complete,
                "count": count,
                "wall_seconds": part.wall.as_secs_f64(),
                "per_second": count as f64 / part.wall.as_secs_f64().max(1e-9),
                "latency_ms": {"p50": at(0), "p90": at(1), "p99": at(2), "max": at(3)},
                "master_cpu_ms": part.cpu.map(|c| c.as_secs_f64() * 1000.0),
                "master_cpu_ms_per_operation": per_op(part.cpu, count),
            })
        })
        .collect();
    json!({
        "minions": options.minions,
        "memory_bytes_per_minion": each,
        "parts": parts,
        "errors": stats.errors,
        "error_count": stats.error_count(),
        "notes": stats.notes,
    })
}

/// The result for people; `each` as in [`as_json`].
pub(super) fn as_table(options: &SwarmArgs, parts: &[RunPart], stats: &Stats, each: u64) -> String {
    let mut out = format!(
        "{:<14} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>12}\n",
        format!("{} minions", options.minions),
        "count",
        "seconds",
        "per s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "CPU ms each"
    );
    for (part, op) in rows(parts, stats) {
        let count = stats.count(op);
        let wall = part.wall.as_secs_f64();
        let latency = stats.percentiles(op, &POINTS);
        let at = |n: usize| latency.get(n).map_or("-".into(), |ms| format!("{ms:.2}"));
        let cpu = per_op(part.cpu, count).map_or("-".into(), |ms| format!("{ms:.4}"));
        out.push_str(&format!(
            "{:<14} {:>9} {:>9.3} {:>10.0} {:>8} {:>8} {:>8} {:>8} {:>12}{}\n",
            op.name(),
            count,
            wall,
            count as f64 / wall.max(1e-9),
            at(0),
            at(1),
            at(2),
            at(3),
            cpu,
            if part.complete { "" } else { "  INCOMPLETE" }
        ));
    }
    if parts.first().is_some_and(|part| part.complete) {
        let kib = each as f64 / 1024.0;
        out.push_str(&format!("swarm: {kib:.1} KiB of memory for each minion\n"));
    }
    for (what, count) in &stats.notes {
        out.push_str(&format!("note: {count} {what}\n"));
    }
    for (what, count) in &stats.errors {
        out.push_str(&format!("error: {count} x {what}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn result(complete: bool) -> (SwarmArgs, Vec<RunPart>, Stats) {
        let options = SwarmArgs::parse_from(["halite-swarm", "--minions", "2"]);
        let mut stats = Stats::default();
        for ms in [10, 30] {
            stats.done(Op::SignIn, Duration::from_millis(ms));
        }
        let part = RunPart {
            ops: vec![Op::SignIn, Op::Answer],
            wall: Duration::from_secs(4),
            cpu: Some(Duration::from_millis(50)),
            complete,
        };
        (options, vec![part], stats)
    }

    #[test]
    fn programs_find_counts_times_and_errors_by_name() {
        let (options, parts, mut stats) = result(true);
        stats.error("x");
        let said = as_json(&options, &parts, &stats, 9000);
        assert_eq!(said["minions"], 2);
        assert_eq!(said["memory_bytes_per_minion"], 9000);
        assert_eq!(
            (&said["error_count"], &said["errors"]["x"]),
            (&json!(1), &json!(1))
        );
        // Answers have no row: there were none.
        assert_eq!(said["parts"].as_array().map(Vec::len), Some(1));
        let part = &said["parts"][0];
        assert_eq!(part["operation"], "sign-in");
        assert_eq!(
            (&part["count"], &part["per_second"]),
            (&json!(2), &json!(0.5))
        );
        assert_eq!(part["latency_ms"]["max"], 30.0);
        assert_eq!(part["master_cpu_ms"], 50.0);
        assert_eq!(part["master_cpu_ms_per_operation"], 25.0);
    }

    #[test]
    fn people_see_what_is_incomplete_and_wrong() {
        let (options, parts, mut stats) = result(false);
        stats.error("the reply has another nonce");
        let said = as_table(&options, &parts, &stats, 9000);
        assert!(said.contains("INCOMPLETE"), "{said}");
        assert!(
            said.contains("error: 1 x the reply has another nonce"),
            "{said}"
        );
        let (options, parts, stats) = result(true);
        let said = as_table(&options, &parts, &stats, 9216);
        assert!(said.contains("swarm: 9.0 KiB"), "{said}");
        assert!(
            !said.contains("INCOMPLETE") && !said.contains("error"),
            "{said}"
        );
    }
}
