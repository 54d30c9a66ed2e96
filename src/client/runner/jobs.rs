//! `jobs.*`: what runs, what ran, what came back (`salt/runners/jobs.py`).

use super::{Args, Function, Ran, RunContext, RunError};
use crate::client::gather::{Gather, Outcome, Patience};
use crate::client::local::Job;
use crate::store::jobs::{JobStore, StoredJob, stored_part};
use crate::target::fnmatch;
use crate::wire::ids::Jid;
use crate::wire::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "jobs.active",
        args: &[],
        doc: "Jobs that minions run right now, with the process id on each minion.",
        run: active,
    },
    Function {
        name: "jobs.list_jobs",
        args: &["?search_function", "?search_target"],
        doc: "All jobs that are kept; the arguments are globs on function and target.",
        run: list_jobs,
    },
    Function {
        name: "jobs.lookup_jid",
        args: &["jid", "?missing"],
        doc: "The returns of a job; with missing=True also who has not returned.",
        run: lookup_jid,
    },
    Function {
        name: "jobs.list_job",
        args: &["jid"],
        doc: "Everything that is known of a job.",
        run: list_job,
    },
    Function {
        name: "jobs.print_job",
        args: &["jid"],
        doc: "As jobs.list_job, under its jid.",
        run: print_job,
    },
    Function {
        name: "jobs.exit_success",
        args: &["jid"],
        doc: "For each minion of a job whether it succeeded.",
        run: exit_success,
    },
    Function {
        name: "jobs.last_run",
        args: &["?function", "?target"],
        doc: "The newest job, optionally of a function and a target (globs).",
        run: last_run,
    },
];

/// The fields by which Salt describes a job (`jobs.py _format_job_instance`).
fn describe(jid: &Jid, load: &Map) -> Map {
    let pick = |key: &str, other: &str| load.get(key).cloned().unwrap_or_else(|| other.into());
    let mut out = crate::map! {
        "Function" => pick("fun", "unknown-function"),
        "Arguments" => load.get("arg").cloned().unwrap_or(Value::Array(Vec::new())),
        "Target" => pick("tgt", "unknown-target"),
        "Target-type" => pick("tgt_type", "list"),
        "User" => pick("user", "root"),
    };
    let metadata = load.get("metadata").or_else(|| {
        load.get("kwargs")
            .and_then(Value::as_map)
            .and_then(|k| k.get("metadata"))
    });
    if let Some(metadata) = metadata {
        out.set("Metadata", metadata.clone());
    }
    out.set("StartTime", jid.time_text());
    out
}

fn full(jid: &Jid, job: &StoredJob) -> Map {
    let mut out = describe(jid, &job.load);
    out.set("Minions", job.minions.clone());
    let result: Map = job
        .returns
        .iter()
        .map(|r| (r.id.as_str(), Value::Map(stored_part(&r.load))))
        .collect();
    out.set("Result", result);
    out
}

fn parse_jid(args: &Args) -> Result<Jid, RunError> {
    let text = args.text(0, "jid").unwrap_or_default();
    text.parse().map_err(|e| RunError::Unknown(format!("{e}")))
}

fn job(context: &RunContext, args: &Args) -> Result<(Jid, StoredJob), RunError> {
    let jid = parse_jid(args)?;
    match context.jobs.get(&jid)? {
        Some(job) => Ok((jid, job)),
        None => Err(RunError::Unknown(format!(
            "there is no job {jid}; jobs are kept for {} seconds (keep_jobs_seconds), see halite-run jobs.list_jobs",
            context.config.keep_jobs_seconds
        ))),
    }
}

fn list_job(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (jid, job) = job(context, args)?;
    let mut out = crate::map! {"jid" => &jid};
    out.0.extend(full(&jid, &job).0);
    Ok(Value::Map(out).into())
}

fn print_job(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (jid, job) = job(context, args)?;
    Ok(Value::Map(crate::map! {&jid => full(&jid, &job)}).into())
}

fn lookup_jid(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (_, job) = job(context, args)?;
    let mut out = Map::new();
    let mut outputter = None;
    for stored in &job.returns {
        outputter = stored.load.str("out").map(str::to_owned).or(outputter);
        out.set(stored.id.as_str(), stored.load.get("return").cloned());
    }
    if args.flag(1, "missing") {
        for id in job
            .minions
            .iter()
            .filter(|id| !out.contains(id))
            .cloned()
            .collect::<Vec<_>>()
        {
            out.set(id, "Minion did not return");
        }
    }
    Ok(Ran {
        value: out.into(),
        out: outputter,
    })
}

fn exit_success(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (_, job) = job(context, args)?;
    let mut out = Map::new();
    for stored in &job.returns {
        let good = stored.load.int("retcode").unwrap_or(0) == 0
            && stored.load.get("success").is_none_or(Value::truthy);
        out.set(stored.id.as_str(), good);
    }
    for id in &job.minions {
        if !out.contains(id) {
            out.set(id.as_str(), false);
        }
    }
    Ok(Value::Map(out).into())
}

fn matches(load: &Map, function: Option<&str>, target: Option<&str>) -> bool {
    let fits = |key: &str, glob: Option<&str>| {
        glob.is_none_or(|glob| match load.get(key) {
            Some(Value::Str(text)) => fnmatch(glob, text),
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(Value::as_str)
                .any(|t| fnmatch(glob, t)),
            _ => false,
        })
    };
    fits("fun", function) && fits("tgt", target)
}

fn list_jobs(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (function, target) = (
        args.text(0, "search_function"),
        args.text(1, "search_target"),
    );
    let out: Map = context
        .jobs
        .list()?
        .iter()
        .filter(|(_, job)| matches(&job.load, function.as_deref(), target.as_deref()))
        .map(|(jid, job)| (jid, describe(jid, &job.load)))
        .collect();
    Ok(Value::Map(out).into())
}

fn last_run(context: &mut RunContext, args: &Args) -> Result<Ran, RunError> {
    let (function, target) = (args.text(0, "function"), args.text(1, "target"));
    let jobs = context.jobs.list()?;
    let newest = jobs
        .iter()
        .rev()
        .find(|(_, job)| matches(&job.load, function.as_deref(), target.as_deref()));
    let Some((jid, _)) = newest else {
        return Ok(Value::Bool(false).into());
    };
    let job = context.jobs.get(jid)?.unwrap_or_default();
    Ok(Value::Map(crate::map! {jid => full(jid, &job)}).into())
}

fn active(context: &mut RunContext, _: &Args) -> Result<Ran, RunError> {
    let mut client = context.client();
    let mut events = client.listen()?;
    let published = client.publish(&Job {
        fun: "saltutil.running".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        kwargs: crate::map! {"delimiter" => ":"},
        ..Job::default()
    })?;
    let patience = Patience {
        timeout: Duration::from_secs(context.config.timeout),
        find_job: Duration::from_secs(context.config.gather_job_timeout),
        together: true,
    };
    let mut running: BTreeMap<String, (Map, Vec<Value>)> = BTreeMap::new();
    let stop = context.stop.clone();
    let mut gather = Gather::new(&mut client, &mut events, Some(&context.jobs), patience);
    gather.watch(&published);
    gather.run(&|| stop.is_set(), &mut |id, outcome| {
        let Outcome::Returned(load) = outcome else {
            return;
        };
        let Some(jobs) = load.get("return").and_then(Value::as_array) else {
            return;
        };
        for job in jobs.iter().filter_map(Value::as_map) {
            let Some(jid) = job.str("jid") else { continue };
            let entry = running
                .entry(jid.to_owned())
                .or_insert_with(|| (job.clone(), Vec::new()));
            entry
                .1
                .push(Value::Map(crate::map! {id => job.get("pid").cloned()}));
        }
    })?;
    let mut out = Map::new();
    for (text, (load, pids)) in running {
        let Ok(jid) = text.parse::<Jid>() else {
            continue;
        };
        let mut entry = describe(&jid, &load);
        entry.set("Running", pids);
        let returned: Vec<String> = context
            .jobs
            .get(&jid)?
            .map(|job| job.returns.into_iter().map(|r| r.id).collect())
            .unwrap_or_default();
        entry.set("Returned", returned);
        out.set(text, entry);
    }
    Ok(Value::Map(out).into())
}
