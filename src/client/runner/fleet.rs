//! `fleet.status`, master and fleet on one screen, `fleet.match` and `fleet.seen`. Not one of Salt's runners.

use super::cache::targets;
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::samples::{Samples, number};
use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_store::presence::connected_ids;
use halite_sys::time::unix_now_i64;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "fleet.match",
        args: &["tgt", "?tgt_type"],
        doc: "The ids of the accepted minions that a target means, from what the master knows of them. No minion is asked.",
        run: |context, args| {
            let found = targets(context, args)?.unwrap_or_default();
            let ids: Vec<Value> = found.iter().map(|id| id.as_str().into()).collect();
            Ok(ids.into())
        },
    },
    Function {
        name: "fleet.seen",
        args: &["?tgt", "?tgt_type"],
        doc: "When each minion with an accepted key was connected last, or nothing if it was not since the master keeps this. The master looks every loop_interval seconds. No minion is asked.",
        run: seen,
    },
    Function {
        name: "fleet.status",
        args: &[],
        doc: "Figures about the master and its fleet: connected minions, versions, queues, losses, jobs, restarts. If the master is down, only the keys.",
        run: |context, _| status(context),
    },
];

fn status(context: &mut RunContext) -> Result<RunnerOutput, RunError> {
    let config = &context.config;
    let path = config.master_status();
    let answer = match Samples::read(&path) {
        Ok(samples) => running_status(&samples),
        Err(e) => stopped_status(config, &format!("{}: {e}", path.display()))?,
    };
    Ok(Value::Map(answer).into())
}

fn seen(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let ids = match targets(context, args)? {
        Some(ids) => ids,
        None => context.stores.keys.list(KeyState::Accepted)?.to_vec(),
    };
    let now = connected_ids(&context.config, &context.stores, Some(&ids))?;
    let last = context.stores.last_seen.get();
    let time = |id: &MinionId| {
        let seconds = if now.contains_key(id) {
            Some(unix_now_i64())
        } else {
            last.get(id).copied()
        };
        let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        time.map_or(Value::Nil, |time| time.to_string().into())
    };
    let all: Map = ids.iter().map(|id| (id, time(id))).collect();
    Ok(Value::Map(all).into())
}

fn stopped_status(config: &MasterConfig, why: &str) -> io::Result<Map> {
    let store = Stores::open(config).keys;
    let mut keys = Map::new();
    for state in [
        KeyState::Accepted,
        KeyState::Pending,
        KeyState::Rejected,
        KeyState::Denied,
    ] {
        keys.set(state.name(), store.list(state)?.len());
    }
    let master = halite_wire::map! {"running" => false, "reason" => why};
    Ok(halite_wire::map! {"master" => master, "keys" => keys})
}

fn running_status(samples: &Samples) -> Map {
    let since = jiff::Timestamp::from_second(samples.one("halite_start_time_seconds") as i64);
    let queues = samples.by("halite_request_queue_depth", "class");
    let restarts: Map = samples
        .by("halite_role_restarts_total", "role")
        .0
        .into_iter()
        .filter(|(_, count)| count.truthy())
        .collect();
    let count = |name: &str| number(samples.one(name));
    halite_wire::map! {
        "master" => halite_wire::map! {
            "running" => true,
            "version" => samples.label("halite_build_info", "version").unwrap_or_default(),
            "since" => since.map(|t| t.to_string()).unwrap_or_default(),
        },
        "keys" => samples.by("halite_keys", "state"),
        "minions" => samples.by("halite_minions", "state"),
        "versions" => versions(samples),
        "gateways" => gateways(samples),
        "cluster" => samples.figures("cluster", &["member", "leader", "keys", "waiting", "refused_total"]),
        "workers" => samples.by("halite_workers", "state"),
        "queues" => queues,
        "oldest_request" => number(samples.one("halite_request_oldest_seconds")),
        "dropped" => halite_wire::map! {
            "requests_refused" => count("halite_requests_refused_total"),
            "requests_late" => count("halite_requests_late_total"),
            "requests_replayed" => count("halite_requests_replayed_total"),
            "publications" => count("halite_publications_dropped_total"),
            "events" => count("halite_events_dropped_total"),
            "returner_events" => count("halite_returner_events_dropped_total"),
        },
        "jobs_waiting" => count("halite_jobs_waiting"),
        "restarts" => restarts,
    }
}

/// Figures of the gateways that run.
fn gateways(samples: &Samples) -> Map {
    let mut out = Map::new();
    for (gateway, figures) in [
        ("arena", &["up", "managers", "jobs"][..]),
        ("collective", &["up", "nodes", "connected", "jobs"]),
        ("sysinspect", &["connections", "sessions", "jobs"]),
    ] {
        let mut own = samples.figures(gateway, figures);
        if own.is_empty() {
            continue;
        }
        for figure in ["runtimes", "modules"] {
            let by_state = samples.by(&format!("halite_{gateway}_{figure}"), "state");
            if !by_state.is_empty() {
                own.set(figure, by_state);
            }
        }
        out.set(gateway, own);
    }
    out
}

fn versions(samples: &Samples) -> Map {
    let mut map = samples.by("halite_minion_versions", "version");
    for (version, _) in &mut map.0 {
        if version.is_str("") {
            *version = "unknown".into();
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_that_run_have_figures() {
        let samples = Samples::parse(
            "halite_sysinspect_connections 3\nhalite_sysinspect_sessions 2\nhalite_sysinspect_jobs 0\n\
             halite_arena_up 1\nhalite_arena_runtimes{state=\"alive\"} 5\n",
        );
        let found = gateways(&samples);
        let expected = halite_wire::map! {
            "arena" => halite_wire::map! {"up" => 1, "runtimes" => halite_wire::map! {"alive" => 5}},
            "sysinspect" => halite_wire::map! {"connections" => 3, "sessions" => 2, "jobs" => 0},
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_master_that_is_down_has_keys() {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"root_dir" => dir.path().to_string_lossy().as_ref()};
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let status = stopped_status(&config, "nobody answers").unwrap();
        let part = |name: &str| status.get(name).and_then(Value::as_map).unwrap().clone();
        assert_eq!(part("master").get("running"), Some(&false.into()));
        assert_eq!(part("keys").len(), 4);
    }
}
