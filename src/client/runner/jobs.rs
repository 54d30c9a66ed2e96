//! `jobs.*`: running jobs, past jobs and their returns (`salt/runners/jobs.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_store::jobs::{StoredJob, StoredReturn, description, metadata, stored_part};
use halite_target::fnmatch;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, msgpack};
use std::collections::BTreeMap;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "jobs.active",
        args: &["?display_progress"],
        doc: "Jobs running on minions now, with the process id on each minion.",
        run: active,
    },
    Function {
        name: "jobs.master",
        args: &[],
        doc: "Runners running on this master now.",
        run: master,
    },
    Function {
        name: "jobs.list_jobs",
        args: &[
            "?ext_source",
            "?outputter",
            "?search_metadata",
            "?search_function",
            "?search_target",
            "?start_time",
            "?end_time",
            "?display_progress",
        ],
        doc: "All stored jobs. Function and target are globs or lists of globs, metadata a map of which one pair must match; times are such as '2026, Mar 16 19:00' or 2026-03-16, in UTC.",
        run: list_jobs,
    },
    Function {
        name: "jobs.list_jobs_filter",
        args: &[
            "count",
            "?filter_find_job",
            "?ext_source",
            "?outputter",
            "?display_progress",
        ],
        doc: "The newest jobs, as many as count; without saltutil.find_job unless filter_find_job=False.",
        run: list_jobs_filter,
    },
    Function {
        name: "jobs.lookup_jid",
        args: &[
            "jid",
            "?ext_source",
            "?returned",
            "?missing",
            "?display_progress",
        ],
        doc: "The returns of a job; with missing=True also the minions that have not returned.",
        run: lookup_jid,
    },
    Function {
        name: "jobs.list_job",
        args: &["jid", "?ext_source", "?display_progress"],
        doc: "Everything known about a job.",
        run: list_job,
    },
    Function {
        name: "jobs.print_job",
        args: &["jid", "?ext_source"],
        doc: "As jobs.list_job, under its jid.",
        run: print_job,
    },
    Function {
        name: "jobs.exit_success",
        args: &["jid", "?ext_source"],
        doc: "For each minion of a job whether it succeeded.",
        run: exit_success,
    },
    Function {
        name: "jobs.last_run",
        args: &[
            "?ext_source",
            "?outputter",
            "?metadata",
            "?function",
            "?target",
            "?display_progress",
        ],
        doc: "The newest job, optionally of a function and a target (globs) and metadata.",
        run: last_run,
    },
];

/// Stock's message about an unknown jid.
const NO_JOB: &str = "Cannot contact returner or no job with this jid";

/// A job in Salt's form.
fn describe(jid: &Jid, load: &Map) -> Map {
    let mut out = description(load);
    out.set("StartTime", jid.time_text());
    out
}

/// `Minions`, sorted as in stock.
fn minions(job: &StoredJob) -> Option<Value> {
    let mut ids = job.minions.clone();
    ids.sort_unstable();
    ids.dedup();
    (!ids.is_empty()).then(|| ids.into())
}

/// A job with its `Minions` and `Result`, with stock's order of keys.
fn full(jid: &Jid, job: &StoredJob) -> Map {
    let mut out = describe(jid, &job.load);
    let start = out.remove("StartTime");
    if let Some(minions) = minions(job) {
        out.set("Minions", minions);
    }
    out.set("StartTime", start);
    let result: Map = job
        .returns
        .iter()
        .map(|r| (r.id.as_str(), Value::Map(result_of(r))))
        .collect();
    out.set("Result", result);
    out
}

fn result_of(stored: &StoredReturn) -> Map {
    let mut out = stored_part(&stored.load);
    if let Some(name) = stored.load.get("out").filter(|o| !o.is_nil()) {
        out.set("out", name.clone());
    }
    out
}

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

fn jid_of(args: &Args) -> Result<Jid, RunError> {
    let text = args.text(0, "jid").unwrap_or_default();
    text.parse().map_err(|e| invalid(format!("{e}")))
}

/// Jobs are read from the master's own cache; external ones have their own tools.
fn check_ext_source(args: &Args, at: usize) -> Result<(), RunError> {
    match args.text(at, "ext_source") {
        Some(source) if source != "local_cache" => Err(invalid(format!(
            "jobs are read from the master's job cache only, not from {source:?}"
        ))),
        _ => Ok(()),
    }
}

/// Reads a job; if it is unknown, the exit status shows that.
fn job(context: &mut RunContext, jid: &Jid) -> Result<Option<StoredJob>, RunError> {
    let job = context.stores.jobs.get(jid)?;
    if job.is_none() {
        context.run.retcode = 1;
        log::warn!(
            "job {jid} does not exist; jobs are kept for {} seconds (keep_jobs_seconds)",
            context.config.keep_jobs_seconds
        );
    }
    Ok(job)
}

fn full_or_error(jid: &Jid, job: Option<&StoredJob>) -> Map {
    match job {
        Some(job) => full(jid, job),
        None => halite_wire::map! {
            "Error" => NO_JOB, "StartTime" => jid.time_text(), "Result" => Map::new(),
        },
    }
}

fn list_job(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 1)?;
    let jid = jid_of(args)?;
    if args.flag(2, "display_progress") {
        context.progress(halite_wire::map! {"message" => "Querying returner: local_cache"});
    }
    let job = job(context, &jid)?;
    let mut out = halite_wire::map! {"jid" => &jid};
    out.0.extend(full_or_error(&jid, job.as_ref()).0);
    Ok(Value::Map(out).into())
}

fn print_job(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 1)?;
    let jid = jid_of(args)?;
    let job = job(context, &jid)?;
    Ok(Value::Map(halite_wire::map! {&jid => full_or_error(&jid, job.as_ref())}).into())
}

fn lookup_jid(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 1)?;
    let job = job(context, &jid_of(args)?)?.unwrap_or_default();
    let mut out = Map::new();
    let progress = args.flag(4, "display_progress");
    if args.flag_or_true(2, "returned") {
        for stored in &job.returns {
            if progress {
                context.progress(halite_wire::map! {"message" => stored.id.as_str()});
            }
            out.set(stored.id.as_str(), stored.load.get("return").cloned());
        }
    }
    if args.flag(3, "missing") {
        let came = |id: &str| job.returns.iter().any(|r| r.id == id);
        for id in job.minions.iter().filter(|id| !came(id)) {
            out.set(id.as_str(), "Minion did not return");
        }
    }
    let first = job.returns.first();
    Ok(RunnerOutput {
        value: out.into(),
        out: first.and_then(|r| r.load.str("out")).map(str::to_owned),
    })
}

fn exit_success(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 1)?;
    let job = job(context, &jid_of(args)?)?.unwrap_or_default();
    let mut out = Map::new();
    for id in &job.minions {
        out.set(id.as_str(), false);
    }
    for stored in &job.returns {
        let good = stored.load.int("retcode").unwrap_or(0) == 0
            && stored.load.get("success").is_none_or(Value::truthy);
        out.set(stored.id.as_str(), good);
    }
    Ok(Value::Map(out).into())
}

/// Search criteria for jobs.
#[derive(Default)]
struct Search {
    metadata: Option<Map>,
    functions: Option<Vec<String>>,
    targets: Option<Vec<String>>,
    start: Option<String>,
    end: Option<String>,
}

impl Search {
    fn matches(&self, jid: &Jid, load: &Map) -> bool {
        let digits = &jid.as_str()[..20];
        any_matches(load.get("fun"), self.functions.as_deref())
            && any_matches(load.get("tgt"), self.targets.as_deref())
            && self.start.as_deref().is_none_or(|start| digits >= start)
            && self.end.as_deref().is_none_or(|end| digits <= end)
            && self.metadata.as_ref().is_none_or(|wanted| {
                let Some(has) = metadata(load).and_then(Value::as_map) else {
                    return false;
                };
                wanted
                    .iter()
                    .any(|(k, v)| k.as_str().and_then(|k| has.get(k)) == Some(v))
            })
    }
}

fn any_matches(value: Option<&Value>, globs: Option<&[String]>) -> bool {
    let Some(globs) = globs else { return true };
    let fits = |text: &str| globs.iter().any(|glob| fnmatch(text, glob));
    match value {
        Some(Value::Str(text)) => fits(text),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).any(fits),
        _ => false,
    }
}

fn map_arg(args: &Args, at: usize, name: &str) -> Result<Option<Map>, RunError> {
    match args.get(at, name) {
        None => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map.clone())),
        Some(_) => Err(invalid(format!(
            "{name} must be a map, such as '{{\"foo\": \"bar\"}}'"
        ))),
    }
}

/// A time as a prefix of a jid.
fn parse_time(args: &Args, at: usize, name: &str) -> Result<Option<String>, RunError> {
    const FORMATS: &[&str] = &[
        "%Y, %b %d %H:%M:%S%.f",
        "%Y, %b %d %H:%M",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
        "%Y%m%d%H%M%S",
    ];
    const DAYS: &[&str] = &["%Y, %b %d", "%Y-%m-%d", "%Y%m%d", "%b %d %Y", "%d %b %Y"];
    let Some(text) = args.text(at, name) else {
        return Ok(None);
    };
    if text.parse::<Jid>().is_ok() {
        return Ok(Some(text));
    }
    let time = |format: &&str| jiff::civil::DateTime::strptime(format, &text).ok();
    let day = |format: &&str| jiff::civil::Date::strptime(format, &text).ok();
    let at = FORMATS
        .iter()
        .find_map(time)
        .or_else(|| DAYS.iter().find_map(day).map(|d| d.at(0, 0, 0, 0)));
    let at = at.ok_or_else(|| {
        invalid(format!(
            "{name} {text:?} is not a time; write it as '2026, Mar 16 19:00' or 2026-03-16"
        ))
    })?;
    Ok(Some(at.strftime("%Y%m%d%H%M%S%6f").to_string()))
}

fn report_query(context: &mut RunContext, args: &Args, at: usize) {
    if args.flag(at, "display_progress") {
        context
            .progress(halite_wire::map! {"message" => "Querying returner local_cache for jobs."});
    }
}

fn list_jobs(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 0)?;
    let search = Search {
        metadata: map_arg(args, 2, "search_metadata")?,
        functions: args.list(3, "search_function"),
        targets: args.list(4, "search_target"),
        start: parse_time(args, 5, "start_time")?,
        end: parse_time(args, 6, "end_time")?,
    };
    report_query(context, args, 7);
    let out: Map = context
        .stores
        .jobs
        .list()?
        .iter()
        .filter(|(jid, job)| search.matches(jid, &job.load))
        .map(|(jid, job)| (jid, describe(jid, &job.load)))
        .collect();
    Ok(RunnerOutput {
        value: out.into(),
        out: args.text(1, "outputter"),
    })
}

fn list_jobs_filter(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 2)?;
    let count = args.int(0, "count").and_then(|n| usize::try_from(n).ok());
    let count = count.ok_or_else(|| invalid("count must be a number"))?;
    let without = args.flag_or_true(1, "filter_find_job");
    report_query(context, args, 4);
    let mut newest: Vec<Value> = context
        .stores
        .jobs
        .list()?
        .iter()
        .rev()
        .filter(|(_, job)| !(without && job.load.str("fun") == Some("saltutil.find_job")))
        .take(count)
        .map(|(jid, job)| {
            let mut out = describe(jid, &job.load);
            let start = out.remove("StartTime");
            out.set("JID", jid);
            out.set("StartTime", start);
            Value::Map(out)
        })
        .collect();
    newest.reverse();
    Ok(RunnerOutput {
        value: newest.into(),
        out: args.text(3, "outputter"),
    })
}

fn last_run(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_ext_source(args, 0)?;
    let search = Search {
        metadata: map_arg(args, 2, "metadata")?,
        functions: args.list(3, "function"),
        targets: args.list(4, "target"),
        ..Search::default()
    };
    report_query(context, args, 5);
    let jobs = context.stores.jobs.list()?;
    let newest = jobs
        .iter()
        .rev()
        .find(|(jid, job)| search.matches(jid, &job.load));
    let Some((jid, _)) = newest else {
        return Ok(Value::Bool(false).into());
    };
    let job = context.stores.jobs.get(jid)?.unwrap_or_default();
    Ok(RunnerOutput {
        value: Value::Map(halite_wire::map! {jid => full(jid, &job)}),
        out: args.text(1, "outputter"),
    })
}

fn active(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let job = Job {
        fun: "saltutil.running".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    let answers = query(context, job, QueryTimeouts::default())?;
    if args.flag(0, "display_progress") {
        let ids: Vec<&str> = answers.iter().map(|(id, _)| id.as_str()).collect();
        let message = format!("Attempting to contact minions: {}", ids.join(", "));
        context.progress(halite_wire::map! {"message" => message});
    }
    let mut running: BTreeMap<String, (Map, Vec<Value>)> = BTreeMap::new();
    for (id, outcome) in answers {
        let MinionOutcome::Returned(load) = outcome else {
            continue;
        };
        let jobs = load.get("return").and_then(Value::as_array);
        for job in jobs.into_iter().flatten().filter_map(Value::as_map) {
            let Some(jid) = job.str("jid") else { continue };
            let entry = running
                .entry(jid.to_owned())
                .or_insert_with(|| (job.clone(), Vec::new()));
            let pid = halite_wire::map! {id.as_str() => job.get("pid").cloned()};
            entry.1.push(Value::Map(pid));
        }
    }
    let mut out = Map::new();
    for (text, (load, pids)) in running {
        let Ok(jid) = text.parse::<Jid>() else {
            continue;
        };
        let mut entry = describe(&jid, &load);
        entry.set("Running", pids);
        let returned: Vec<String> = context
            .stores
            .jobs
            .get(&jid)?
            .map(|job| job.returns.into_iter().map(|r| r.id).collect())
            .unwrap_or_default();
        entry.set("Returned", returned);
        out.set(text, entry);
    }
    Ok(Value::Map(out).into())
}

/// Files in `cachedir/proc` of running processes (`salt/utils/master.py get_running_jobs`).
fn master(context: &mut RunContext, _: &Args) -> Result<RunnerOutput, RunError> {
    let entries = match std::fs::read_dir(context.config.runner_jobs()) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::<Value>::new().into()),
        entries => entries?,
    };
    let mut out = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|t| t.is_file()) {
            continue;
        }
        // It may be gone by now, which is fine.
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        let Some(data) = msgpack::decode(&bytes).ok().and_then(Value::into_map) else {
            continue;
        };
        let pid = data.int("pid").and_then(|pid| i32::try_from(pid).ok());
        let lives = pid.is_some_and(|pid| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
        });
        if lives {
            out.push((entry.file_name(), Value::Map(data)));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    let out: Vec<Value> = out.into_iter().map(|(_, data)| data).collect();
    Ok(Value::from(out).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jid() -> Jid {
        "20261121092637195592".parse().unwrap()
    }

    fn matches(search: Search) -> bool {
        let keywords =
            halite_wire::map! {"__kwarg__" => true, "metadata" => halite_wire::map! {"a" => 1}};
        let load = halite_wire::map! {
            "fun" => "test.ping", "tgt" => vec![Value::from("web1"), "db1".into()],
            "arg" => vec![Value::Map(keywords)],
        };
        search.matches(&jid(), &load)
    }

    fn globs(text: &str) -> Option<Vec<String>> {
        Some(text.split(',').map(str::to_owned).collect())
    }

    #[test]
    fn jobs_are_found() {
        assert!(matches(Search::default()));
        let both = |f: &str, t: &str| Search {
            functions: globs(f),
            targets: globs(t),
            ..Search::default()
        };
        assert!(matches(both("test.*", "db?")));
        assert!(matches(both("state.*,test.ping", "*")));
        assert!(!matches(both("*.pong", "*")));
        assert!(!matches(both("test.ping", "mail*")));
        let meta = |m: Map| Search {
            metadata: Some(m),
            ..Search::default()
        };
        assert!(matches(meta(halite_wire::map! {"b" => 2, "a" => 1})));
        assert!(!matches(meta(halite_wire::map! {"a" => 2})));
    }

    #[test]
    fn times_have_many_forms() {
        let parse = |text: &str| {
            let args = Args {
                positional: vec![text.into()],
                ..Args::default()
            };
            parse_time(&args, 0, "start_time").map(Option::unwrap)
        };
        let midnight = "20260316000000000000";
        for same in [
            "2026, Mar 16",
            "2026-03-16",
            "Mar 16 2026",
            "2026-03-16 00:00",
            "20260316",
        ] {
            assert_eq!(parse(same).unwrap(), midnight, "{same}");
        }
        assert_eq!(
            parse("2026, Mar 16 19:00:01.5").unwrap(),
            "20260316190001500000"
        );
        assert!(parse("yesterday").is_err());
    }

    #[test]
    fn an_unknown_job_is_described_as_stock_does() {
        let out = full_or_error(&jid(), None);
        assert_eq!(out.str("Error"), Some(NO_JOB));
    }
}
