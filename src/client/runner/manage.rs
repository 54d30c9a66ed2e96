//! `manage.*`: which minions answer, which are connected, which release they run (`salt/runners/manage.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_store::keys::KeyState;
use halite_store::presence::connected_ids;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cmp::Ordering;

const PING: &[&str] = &["?tgt", "?tgt_type", "?timeout", "?gather_job_timeout"];
const PRESENCE: &[&str] = &["?subset", "?show_ip"];

/// Functions of Salt that all list connected minions: ZeroMQ knows no other state.
macro_rules! presence {
    ($(($is:literal, $is_not:literal),)*) => {&[
        $(
            Function {
                name: concat!("manage.", $is),
                args: PRESENCE,
                doc: "Minions that hold a connection; nothing is sent. With show_ip, with the address of each.",
                run: present,
            },
            Function {
                name: concat!("manage.", $is_not),
                args: PRESENCE,
                doc: "Minions with an accepted key that hold no connection; nothing is sent.",
                run: not_present,
            },
        )*
        Function {
            name: "manage.up",
            args: PING,
            doc: "Minions that answer a ping.",
            run: |context, args| Ok(ping(context, args, 0)?.0.into()),
        },
        Function {
            name: "manage.down",
            args: &["?removekeys", "?tgt", "?tgt_type", "?timeout", "?gather_job_timeout"],
            doc: "Minions with an accepted key that do not answer a ping. removekeys=True deletes their keys.",
            run: down,
        },
        Function {
            name: "manage.status",
            args: &["?output", "?tgt", "?tgt_type", "?timeout", "?gather_job_timeout"],
            doc: "Minions that answer a ping, and those that do not.",
            run: |context, args| {
                let (up, down) = ping(context, args, 1)?;
                Ok(Value::Map(halite_wire::map! {"up" => up, "down" => down}).into())
            },
        },
        Function {
            name: "manage.versions",
            args: &[],
            doc: "Releases of the minions that answer, compared with the series of this master.",
            run: versions,
        },
    ]};
}

pub(super) const FUNCTIONS: &[Function] = presence! {
    ("present", "not_present"),
    ("joined", "not_joined"),
    ("allowed", "not_allowed"),
    ("alived", "not_alived"),
    ("reaped", "not_reaped"),
    ("list_state", "list_not_state"),
};

impl From<Vec<String>> for RunnerOutput {
    fn from(ids: Vec<String>) -> RunnerOutput {
        Value::from(ids).into()
    }
}

impl From<Vec<Value>> for RunnerOutput {
    fn from(values: Vec<Value>) -> RunnerOutput {
        Value::from(values).into()
    }
}

/// Minions that answer a ping, and those that do not; `at` is the position of `tgt`.
fn ping(
    context: &mut RunContext,
    args: &Args,
    at: usize,
) -> Result<(Vec<String>, Vec<String>), RunError> {
    let seconds = |at, name| {
        let given = args.int(at, name).and_then(|n| u64::try_from(n).ok());
        given.filter(|n| *n > 0)
    };
    let times = QueryTimeouts {
        timeout: seconds(at + 2, "timeout"),
        gather_job_timeout: seconds(at + 3, "gather_job_timeout"),
    };
    let job = Job {
        fun: "test.ping".into(),
        tgt: args.get(at, "tgt").cloned().unwrap_or_else(|| "*".into()),
        tgt_type: args
            .text(at + 1, "tgt_type")
            .unwrap_or_else(|| "glob".into()),
        ..Job::default()
    };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (id, outcome) in query(context, job, times)? {
        match outcome {
            // Gateways answer for agents that they cannot reach.
            MinionOutcome::Returned(load) if load.int("retcode").unwrap_or(0) == 0 => up.push(id),
            MinionOutcome::NoKey => {}
            _ => down.push(id),
        }
    }
    Ok((up, down))
}

fn down(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (_, down) = ping(context, args, 1)?;
    if args.flag(0, "removekeys") && !down.is_empty() {
        let chosen = halite_wire::map! {KeyState::Accepted.dir() => down.clone()};
        let args = Args {
            positional: vec![chosen.into()],
            ..Args::default()
        };
        crate::wheel::run(&context.config, "key.delete_dict", &args)?;
    }
    Ok(down.into())
}

fn subset(args: &Args) -> Option<Vec<MinionId>> {
    let ids = args.list(0, "subset")?;
    Some(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

fn present(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let connected = connected_ids(&context.config, &context.stores, subset(args).as_deref())?;
    if args.flag(1, "show_ip") {
        let out: Map = connected
            .iter()
            .map(|(id, ip)| (id, Value::from(ip.to_string())))
            .collect();
        return Ok(Value::Map(out).into());
    }
    Ok(connected.keys().map(Value::from).collect::<Vec<_>>().into())
}

fn not_present(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let connected = connected_ids(&context.config, &context.stores, None)?;
    let subset = subset(args);
    let accepted = crate::keys::Keys::new(&context.config).list(KeyState::Accepted)?;
    let out: Vec<Value> = accepted
        .iter()
        .filter(|id| !connected.contains_key(*id))
        .filter(|id| subset.as_ref().is_none_or(|subset| subset.contains(id)))
        .map(Value::from)
        .collect();
    Ok(out.into())
}

/// Salt's groups, in its order.
const LABELS: [&str; 5] = [
    "Minion offline",
    "Minion requires update",
    "Up to date",
    "Minion newer than master",
    // Ours: agents of gateways, which have no release of Salt.
    "Not a Salt minion",
];

fn versions(context: &mut RunContext, _: &Args) -> Result<RunnerOutput, RunError> {
    let job = Job {
        fun: "test.version".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    let answers = query(context, job, QueryTimeouts::default())?;
    let own = halite_config::OptionValue::to_value(&context.config.salt_series);
    let own = own.as_str().unwrap_or_default().to_owned();
    let mut groups: [Map; LABELS.len()] = Default::default();
    for (id, outcome) in answers {
        let version = match &outcome {
            MinionOutcome::Returned(load) if load.int("retcode").unwrap_or(0) == 0 => {
                load.str("return")
            }
            _ => None,
        };
        let group = match version.map(|v| compare(v, &own)) {
            None if matches!(outcome, MinionOutcome::Returned(_)) => 4,
            None => 0,
            Some(Ordering::Less) => 1,
            Some(Ordering::Equal) => 2,
            Some(Ordering::Greater) => 3,
        };
        let shown = version.map_or(Value::Bool(false), Value::from);
        groups[group].set(id, shown);
    }
    let mut out = halite_wire::map! {
        "Master" => format!("{own} (halite {})", env!("CARGO_PKG_VERSION")),
    };
    for (label, group) in LABELS.iter().zip(groups) {
        if !group.is_empty() {
            out.set(*label, group);
        }
    }
    Ok(Value::Map(out).into())
}

/// Compares a release with the configured series: only the first number counts, since halite has no point
/// releases of Salt.
fn compare(version: &str, series: &str) -> Ordering {
    let first = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    first(version).cmp(&first(series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_decides() {
        assert_eq!(compare("3006.28", "3008"), Ordering::Less);
        assert_eq!(compare("3008.3+12.g1", "3008"), Ordering::Equal);
        assert_eq!(compare("3008.3", "3007"), Ordering::Greater);
    }
}
