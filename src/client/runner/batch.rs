//! `batch.*`: batches of stock clients of 3008 (`salt/runners/batch.py`), which the role `batch` records.

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::call::fire;
use crate::local::Job;
use halite_store::local;
use halite_sys::time::unix_now_f64;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "batch.status",
        args: &["jid"],
        doc: "How far a batch is; nothing if the job is no batch.",
        run: |context, args| {
            let record = record(context, &jid(args)?);
            Ok(Value::from(record.as_ref().map(summary)).into())
        },
    },
    Function {
        name: "batch.list_active",
        args: &[],
        doc: "The batches that are not over.",
        run: |context, _| {
            let jids = local::active_batches(&context.config).read();
            let records = jids.iter().filter_map(|jid| record(context, jid));
            let list: Vec<Value> = records.map(|r| summary(&r).into()).collect();
            Ok(Value::from(list).into())
        },
    },
    Function {
        name: "batch.stop",
        args: &["jid", "?kill"],
        doc: "Sends a batch to no more minions; with kill=True, also ends the job where it runs. False if there is no such batch.",
        run: stop,
    },
];

fn jid(args: &Args) -> Result<Jid, RunError> {
    let text = args.text(0, "jid").unwrap_or_default();
    text.parse()
        .map_err(|_| RunError::Unknown(format!("{text:?} is no jid")))
}

fn record(context: &RunContext, jid: &Jid) -> Option<Map> {
    local::stock_jobs(&context.config).batch(jid)
}

fn stop(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let jid = jid(args)?;
    let Some(record) = record(context, &jid).filter(|r| !is_halted(r)) else {
        return Ok(Value::Bool(false).into());
    };
    if args.flag(1, "kill") {
        kill(context, &jid, &record)?;
    }
    let data = halite_wire::map! {"jid" => jid.as_str(), "reason" => "stop"};
    fire(&context.config, format!("salt/batch/{jid}/stop"), data)?;
    Ok(Value::Bool(true).into())
}

/// Ends the job on the minions that have it.
fn kill(context: &mut RunContext, jid: &Jid, record: &Map) -> Result<(), RunError> {
    let active = record.get("active").and_then(Value::as_map);
    let ids = active.into_iter().flat_map(Map::iter);
    let ids: Vec<Value> = ids.map(|(id, _)| id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let job = Job {
        fun: "saltutil.kill_job".into(),
        arg: vec![jid.as_str().into()],
        tgt: ids.into(),
        tgt_type: "list".into(),
        ..Job::default()
    };
    let published = context.client().publish(&job);
    published.map_err(|e| RunError::Unknown(e.to_string()))?;
    Ok(())
}

fn is_halted(record: &Map) -> bool {
    record.get("halted").is_some_and(Value::truthy)
}

/// What users see of a record.
fn summary(record: &Map) -> Map {
    let field = |key: &str| record.get(key).cloned().unwrap_or_default();
    let count = |key: &str| match record.get(key) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Map(map)) => map.len(),
        _ => 0,
    };
    let age = match record.get("last_progress") {
        Some(Value::Float(at)) => Some(unix_now_f64() - at),
        Some(Value::Int(at)) => Some(unix_now_f64() - *at as f64),
        _ => None,
    };
    halite_wire::map! {
        "jid" => field("jid"), "fun" => field("fun"), "tgt" => field("tgt"), "tgt_type" => field("tgt_type"),
        "total" => count("all_minions"), "completed" => count("done"), "active" => count("active"),
        "pending" => count("pending"), "failed" => count("failed"), "batch_size" => field("batch_size"),
        "halted" => is_halted(record), "halted_reason" => field("halted_reason"),
        "driver" => field("driver"), "user" => field("user"), "created" => field("created"),
        "last_progress" => field("last_progress"), "age_seconds" => age,
    }
}
