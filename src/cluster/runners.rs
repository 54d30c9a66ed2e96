//! `cluster.*`: who is in the cluster, and what an operator may ask of it.

use halite_client::runner::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_client::samples::{Sample, Samples, number};
use halite_config::{ClusterConfig, THROUGH_BROKERS};
use halite_transport::sockets::{Context, Push, PushOptions};
use halite_wire::{Map, Value};
use std::time::Duration;

/// The table of these functions.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "cluster.members",
        args: &[],
        doc: "The masters of the cluster: state (up, draining, stopped, silent, missing), version, who leads, connections, jobs with news to \
              tell, seconds of silence, difference between the clocks in seconds.",
        run: |context, _| members(context),
    },
    Function {
        name: "cluster.status",
        args: &[],
        doc: "What this master says about its cluster: whether it takes part, its counters, and which gateways it runs for all.",
        run: |context, _| status(context),
    },
    Function {
        name: "cluster.resync",
        args: &["?hours"],
        doc: "Compares the jobs of this master with those of the others, and fetches what it lacks: of the last `hours`, or as far back as \
              `keep_jobs_seconds`. `cluster.status` shows `comparing: 1` until it is done.",
        run: resync,
    },
    Function {
        name: "cluster.drain",
        args: &[],
        doc: "Sends the minions of this master to other masters, before it is stopped: new ones are refused, those that are connected are \
              cut off one after the other, within the seconds of `drain` (option `cluster`). It leads no more. Ends with its restart.",
        run: |context, _| drain(context),
    },
];

fn cluster(context: &RunContext) -> Result<ClusterConfig, RunError> {
    context.config.cluster().ok_or_else(|| {
        RunError::Unknown("This master is in no cluster: option cluster_id is not set".to_owned())
    })
}

fn samples(context: &RunContext) -> Result<Samples, RunError> {
    let path = context.config.master_status();
    Samples::read(&path).map_err(|e| {
        RunError::Unknown(format!(
            "The master does not answer ({}: {e}): is it running?",
            path.display()
        ))
    })
}

fn members(context: &mut RunContext) -> Result<RunnerOutput, RunError> {
    cluster(context)?;
    Ok(Value::Map(member_map(&samples(context)?)).into())
}

const MEMBER: &str = "halite_cluster_member_";

fn member_map(samples: &Samples) -> Map {
    let mut out = Map::new();
    let info = "halite_cluster_member_info";
    for sample in samples.named(info) {
        let id = sample.label("master").unwrap_or_default();
        let mut map: Map = ["state", "version"]
            .iter()
            .map(|name| (*name, Value::from(sample.label(name).unwrap_or_default())))
            .collect();
        let figures = samples
            .beginning(MEMBER)
            .filter(|s| s.name != info && s.label("master") == Some(id));
        figures.for_each(|Sample { name, value, .. }| {
            map.set(name.trim_start_matches(MEMBER), number(*value));
        });
        out.set(id, map);
    }
    out
}

fn status(context: &mut RunContext) -> Result<RunnerOutput, RunError> {
    let cluster = cluster(context)?;
    let samples = samples(context)?;
    let figures = samples
        .beginning("halite_cluster_")
        .filter(|sample| !sample.name.starts_with(MEMBER));
    let mut out = halite_wire::map! {"id" => cluster.id.as_str()};
    for sample in figures {
        let name = sample.name.trim_start_matches("halite_cluster_");
        out.set(name.trim_end_matches("_total"), number(sample.value));
    }
    let gateways = gateways(&samples);
    if !gateways.is_empty() {
        out.set("gateways", gateways);
    }
    Ok(Value::Map(out).into())
}

/// Whether this master runs the gateways of which there is one in the cluster.
fn gateways(samples: &Samples) -> Map {
    let state = |name: &&'static str| {
        let metric = format!("halite_{name}_waits");
        let sample = samples.named(&metric).next()?;
        Some((*name, if sample.value > 0.0 { "waits" } else { "runs" }))
    };
    THROUGH_BROKERS.iter().filter_map(state).collect()
}

/// Tells the role something, if this master takes part in its cluster.
fn tell(context: &RunContext, parts: &[&[u8]]) -> Result<(), RunError> {
    cluster(context)?;
    if samples(context)?.one("halite_cluster_member") == 0.0 {
        return Err(RunError::Unknown(
            "This master takes no part in its cluster now: its log says why".to_owned(),
        ));
    }
    let options = PushOptions {
        reconnect: None,
        send_timeout: Some(Duration::from_secs(5)),
    };
    let path = context.config.cluster_pull();
    let sent = Push::connect(&Context::new(), &path, options).and_then(|push| push.send(parts));
    sent.map_err(|e| RunError::Unknown(format!("{}: {e}", path.display())))
}

/// How many other masters are up.
fn others(samples: &Samples, own: &str) -> usize {
    let up = samples.named("halite_cluster_member_info").filter(|one| {
        one.label("state") == Some("up") && one.label("master").is_some_and(|id| id != own)
    });
    up.count()
}

fn resync(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let hours = match args.get(0, "hours") {
        None => 0,
        Some(_) => match args
            .int(0, "hours")
            .and_then(|hours| u64::try_from(hours).ok())
        {
            Some(hours) if hours > 0 => hours,
            _ => {
                return Err(RunError::Unknown(
                    "hours: a whole number of at least 1".to_owned(),
                ));
            }
        },
    };
    tell(context, &[b"", b"resync", &hours.to_be_bytes()])?;
    Ok(Value::from(
        "This master compares its jobs with the others. cluster.status shows when it is done.",
    )
    .into())
}

fn drain(context: &mut RunContext) -> Result<RunnerOutput, RunError> {
    let seconds = cluster(context)?.drain.as_secs();
    if others(&samples(context)?, &context.config.id) == 0 {
        return Err(RunError::Unknown(
            "No other master of the cluster is up, which could take the minions of this one"
                .to_owned(),
        ));
    }
    tell(context, &[b"", b"drain"])?;
    let text = format!(
        "This master sends its minions away within {seconds} s, until it is started again. cluster.members shows its connections."
    );
    Ok(Value::from(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_their_figures() {
        let samples = Samples::parse(
            "halite_cluster_member 1\n\
             halite_cluster_member_info{master=\"m1\",state=\"up\",version=\"1\"} 1\n\
             halite_cluster_member_info{master=\"m2\",state=\"missing\",version=\"\"} 1\n\
             halite_cluster_member_connections{master=\"m1\"} 3\n",
        );
        let expected = halite_wire::map! {
            "m1" => halite_wire::map! {"state" => "up", "version" => "1", "connections" => 3},
            "m2" => halite_wire::map! {"state" => "missing", "version" => ""},
        };
        assert_eq!(member_map(&samples), expected);
        let samples_of_gateways =
            Samples::parse("halite_collective_waits 1\nhalite_arena_waits 0\n");
        let expected = halite_wire::map! {"arena" => "runs", "collective" => "waits"};
        assert_eq!(gateways(&samples_of_gateways), expected);
        assert_eq!((others(&samples, "m1"), others(&samples, "m3")), (0, 1));
    }
}
