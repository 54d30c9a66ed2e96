//! `publish`: a job from a local client
//! (`salt/master.py ClearFuncs.publish`, `_prep_pub`; reference `salt-protocol.md` 5.2, 7.2).

use super::context::Context;
use super::local;
use crate::config::SaltSeries;
use crate::master::roles::RoleError;
use crate::store::keys::KeyState;
use crate::store::minions::Known;
use crate::target::{Kind, Target};
use crate::wire::ids::{Jid, MinionId};
use crate::wire::msgpack::{self, Profile};
use crate::wire::{Map, Value};

/// Keys of `kwargs` that go to the minions as they are.
const EXTRAS: [&str; 5] = [
    "metadata",
    "ret_config",
    "ret_kwargs",
    "module_executors",
    "executor_opts",
];

/// Handles one publish request.
pub(super) fn request(worker: &mut Context, load: Map) -> Result<Value, RoleError> {
    let kwargs = load
        .get("kwargs")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let user = load.str("user").unwrap_or_default();
    let key = load.str("key").unwrap_or_default();
    let foreign = ["token", "eauth"].into_iter().find(|k| kwargs.contains(k));
    if foreign.is_some() || !local::authenticate(&worker.config, user, key) {
        log::warn!("a publish request of user {user:?} was refused: authentication failed");
        return Ok(refused(
            worker,
            load,
            "AuthenticationError",
            "Authentication error occurred.",
        ));
    }
    let target = match parse_target(&load, &kwargs) {
        Ok(target) => target,
        Err(why) => return Ok(no_match(&load, &why)),
    };
    let (minions, missing) = resolve(worker, &target)?;
    if minions.is_empty() && !worker.config.order_masters {
        return Ok(no_match(&load, ""));
    }
    let jid = match load.str("jid").unwrap_or_default() {
        "" => worker.new_jid(),
        text => match text.parse::<Jid>() {
            Ok(jid) => jid,
            Err(e) => {
                return Ok(Value::Map(
                    crate::map! {"error" => format!("Failed to allocate a jid. {e}")},
                ));
            }
        },
    };
    let job = job_load(&load, &kwargs, &jid);
    announce(worker, &load, &job, &jid, &minions, &missing);
    if !kwargs.get("nocache").is_some_and(Value::truthy) {
        let mut kept = load.clone();
        kept.set("jid", jid.as_str());
        worker.jobs.save_load(&jid, &kept, &minions, &missing)?;
    }
    send(worker, &target, &job, &minions)?;
    log::info!(
        "user {user} published {} to {} minions, jid {jid}",
        shown(&job),
        minions.len()
    );
    Ok(Value::Map(crate::map! {
        "enc" => "clear",
        "load" => crate::map! {"jid" => jid.as_str(), "minions" => minions, "missing" => missing},
    }))
}

fn shown(job: &Map) -> String {
    match job.get("fun") {
        Some(Value::Str(fun)) => fun.clone(),
        Some(other) => other.str_list().join(","),
        None => String::new(),
    }
}

fn parse_target(load: &Map, kwargs: &Map) -> Result<Target, String> {
    let tgt = load.get("tgt").ok_or("the request has no target")?;
    let kind = load.str("tgt_type").unwrap_or("glob");
    Target::parse(tgt, kind, kwargs.str("delimiter")).map_err(|e| e.to_string())
}

/// Ids expected to answer, and listed ids without an accepted key.
fn resolve(worker: &Context, target: &Target) -> Result<(Vec<String>, Vec<String>), RoleError> {
    let fleet = Known {
        ids: worker.keys.list(KeyState::Accepted)?,
        cache: &worker.minions,
        caches_data: worker.config.minion_data_cache,
    };
    let expected = target.expected(&fleet, &worker.config.nodegroups);
    if let Some(why) = expected.error {
        log::warn!("a target matches nothing: {why}");
    }
    let minions = expected.minions.iter().map(MinionId::to_string).collect();
    Ok((minions, expected.missing))
}

fn no_match(load: &Map, why: &str) -> Value {
    let tgt = match load.get("tgt") {
        Some(Value::Str(s)) => s.clone(),
        Some(other) => other.str_list().join(","),
        None => String::new(),
    };
    let mut error = format!("Master could not resolve minions for target {tgt}");
    if !why.is_empty() {
        error.push_str(": ");
        error.push_str(why);
    }
    Value::Map(crate::map! {
        "enc" => "clear",
        "load" => crate::map! {"jid" => Value::Nil, "minions" => Vec::<Value>::new(), "error" => error},
    })
}

fn refused(worker: &mut Context, mut load: Map, name: &str, message: &str) -> Value {
    let error = crate::map! {"name" => name, "message" => message};
    // Only a client that chose its jid waits under that tag.
    if let Some(Ok(jid)) = load
        .str("jid")
        .filter(|j| !j.is_empty())
        .map(str::parse::<Jid>)
    {
        load.remove("key");
        load.remove("kwargs");
        load.set("error", error.clone());
        worker.bus.fire(&format!("salt/job/{jid}/error"), load);
    }
    Value::Map(crate::map! {"error" => error})
}

/// The load that minions get, in Salt's order of keys; the publisher adds `serial`.
fn job_load(load: &Map, kwargs: &Map, jid: &Jid) -> Map {
    let take = |k: &str| load.get(k).cloned().unwrap_or_default();
    let mut job = crate::map! {
        "fun" => take("fun"), "arg" => take("arg"), "tgt" => take("tgt"),
        "jid" => jid.as_str(), "ret" => take("ret"),
    };
    if let Some(delimiter) = kwargs.str("delimiter").filter(|d| *d != ":") {
        job.set("delimiter", delimiter);
    }
    if let Some(id) = load.get("id") {
        job.set("id", id.clone());
    }
    if let Some(kind) = load.get("tgt_type") {
        job.set("tgt_type", kind.clone());
    }
    if let Some(to) = load.get("to") {
        job.set("to", to.clone());
    }
    for key in EXTRAS.into_iter().chain(["start_event"]) {
        if let Some(value) = kwargs.get(key) {
            job.set(key, value.clone());
        }
    }
    job.set("user", load.str("user").unwrap_or_default());
    job
}

fn announce(
    worker: &mut Context,
    load: &Map,
    job: &Map,
    jid: &Jid,
    minions: &[String],
    missing: &[String],
) {
    let list = |ids: &[String]| Value::from(ids.to_vec());
    if worker.config.salt_series != SaltSeries::S3008 {
        worker
            .bus
            .fire(jid.as_str(), crate::map! {"minions" => list(minions)});
    }
    let take = |k: &str| load.get(k).cloned().unwrap_or_default();
    let new = crate::map! {
        "jid" => jid.as_str(), "tgt_type" => take("tgt_type"), "tgt" => take("tgt"),
        "user" => take("user"), "fun" => take("fun"), "arg" => take("arg"),
        "minions" => list(minions), "missing" => list(missing),
    };
    worker.bus.fire(&format!("salt/job/{jid}/new"), new);
    if worker.config.salt_series != SaltSeries::S3006 {
        worker
            .bus
            .fire(&format!("salt/job/{jid}/publish"), job.clone());
    }
}

/// Hands the job to the publisher with the topics of filtering minions (reference 1.4).
fn send(worker: &Context, target: &Target, job: &Map, minions: &[String]) -> Result<(), RoleError> {
    let mut parts = vec![msgpack::encode_map(job, Profile::Wire)];
    if worker.config.zmq_filtering {
        let by_id = matches!(target.kind(), Kind::Glob | Kind::Pcre | Kind::List);
        if by_id {
            let sha1 = crate::crypto::HashType::Sha1;
            parts.extend(
                minions
                    .iter()
                    .map(|id| sha1.hex(id.as_bytes()).into_bytes()),
            );
            if worker.config.order_masters {
                parts.push(b"syndic".to_vec());
            }
        } else {
            parts.push(b"broadcast".to_vec());
        }
    }
    worker.publish.send_multipart(&parts, 0).map_err(|e| {
        RoleError::new(
            1,
            format!("the publisher takes no job ({e}); see `halite-master --topology`"),
        )
    })
}
