//! Jobs and runners that minions start (`salt/daemons/masterapi.py RemoteFuncs.minion_pub`,
//! `minion_publish`, `minion_runner`, `pub_ret`; options `peer` and `peer_run`).
//!
//! The id that rules are looked up for, that the job carries and that may fetch its returns is
//! the channel's.

use super::context::Context;
use super::rules::{self, Wanted};
use super::{peer_run, publish};
use crate::master::roles::RoleError;
use crate::store::jobs::StoredReturn;
use crate::store::keys::KeyState;
use crate::store::minions::Known;
use crate::sys::daemon::{make_dir, write_atomic};
use crate::target::{Inventory, MinionId, Target, expand_compound, expand_nodegroup};
use crate::wire::ids::Jid;
use crate::wire::yaml::wire_input;
use crate::wire::{Map, Value};
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the job log is looked at while somebody waits for returns.
const LOOK: Duration = Duration::from_millis(50);

fn nothing() -> Value {
    Map::new().into()
}

/// What a minion asks to be run.
struct Request {
    /// Text, or a list for several functions.
    fun: Value,
    arg: Vec<Value>,
    tgt: Value,
    tgt_type: String,
    ret: String,
}

/// `minion_pub`: the jid, and who is expected to return; `{}` if it may not.
pub(super) fn publish(worker: &mut Context, id: &MinionId, load: &Map) -> Result<Value, RoleError> {
    let Some(request) = admitted(worker, id, load)? else {
        return Ok(nothing());
    };
    let started = start(worker, id, request)?;
    // Stock's client has 0 for a job that nobody is meant by.
    let jid = started.jid.map_or(Value::Int(0), |jid| jid.as_str().into());
    Ok(crate::map! {"jid" => jid, "minions" => started.minions}.into())
}

/// `minion_publish`: as [`publish`], and waits for the returns, for `tmo` or `timeout` seconds.
pub(super) fn publish_and_wait(
    worker: &mut Context,
    id: &MinionId,
    load: &Map,
) -> Result<Value, RoleError> {
    let Some(patience) = patience(worker, load) else {
        log::warn!("{id} asked for a job with a timeout that is no number; refused");
        return Ok(nothing());
    };
    let Some(request) = admitted(worker, id, load)? else {
        return Ok(nothing());
    };
    let started = start(worker, id, request)?;
    let Some(jid) = started.jid else {
        return Ok(nothing());
    };
    let end = Instant::now() + patience;
    let returns = loop {
        let returns = returns(worker, &jid)?;
        if returns.len() >= started.minions.len() || Instant::now() >= end {
            break returns;
        }
        std::thread::sleep(LOOK);
    };
    let full = load.str("form") == Some("full");
    let mut answer = Map::new();
    for StoredReturn { id, load: mut data } in returns {
        let value = data.remove("return").unwrap_or_default();
        if full {
            data.set("ret", value);
            answer.set(id, data);
        } else {
            answer.set(id, value);
        }
    }
    if full {
        answer.set("__jid__", jid.as_str());
    }
    Ok(answer.into())
}

/// A worker is not held longer than a request may take.
fn patience(worker: &Context, load: &Map) -> Option<Duration> {
    let mut seconds = i64::try_from(worker.config.timeout).unwrap_or(i64::MAX);
    for key in ["tmo", "timeout"] {
        seconds = match load.get(key) {
            None => seconds,
            Some(Value::Int(n)) => *n,
            Some(Value::Float(f)) => *f as i64,
            Some(Value::Str(text)) => text.trim().parse().ok()?,
            Some(_) => return None,
        };
    }
    let most = worker.config.request_timeout.saturating_sub(5).max(1);
    let seconds = u64::try_from(seconds).unwrap_or(0).min(most);
    Some(Duration::from_secs(seconds))
}

/// Checks a request against `peer` (`AESFuncs.__verify_minion_publish`).
fn admitted(worker: &Context, id: &MinionId, load: &Map) -> Result<Option<Request>, RoleError> {
    let rules = rules::of_id(&worker.config.peer, id.as_str());
    let Some(request) = read(load).filter(|_| !rules.is_empty()) else {
        return Ok(None);
    };
    let Some(request) = grouped(worker, request) else {
        return Ok(None);
    };
    let ids = worker.keys.list(KeyState::Accepted)?;
    let fleet = Known {
        ids,
        cache: &worker.minions,
        caches_data: worker.config.minion_data_cache,
    };
    let Some(meant) = meant(worker, &fleet, &request) else {
        log::warn!("{id} may not choose minions by patterns of their pillar; refused");
        return Ok(None);
    };
    let mut within = |whom: &str| {
        let Ok(target) = Target::parse(&whom.into(), "compound", None) else {
            return false;
        };
        let all = target.expected(&fleet, &worker.config.nodegroups).minions;
        let all: HashSet<_> = all.into_iter().collect();
        meant.iter().all(|id| all.contains(id))
    };
    let mut may = |fun: &str, args: &[Value]| {
        // A job that starts jobs could go round in circles.
        !fun.starts_with("publish.") && rules::allow(&rules, Wanted { fun, args }, &mut within)
    };
    // Stock is content when one of several functions is allowed.
    let good = match &request.fun {
        Value::Str(fun) => may(fun, &request.arg),
        list => list.str_list().iter().enumerate().all(|(at, fun)| {
            let args = request.arg.get(at).and_then(Value::as_array);
            may(fun, args.unwrap_or_default())
        }),
    };
    if !good {
        log::warn!(
            "{id} may not run {} there (option peer); refused",
            crate::target::python_str(&request.fun)
        );
    }
    Ok(good.then_some(request))
}

/// The fields of a load; several functions come with commas between them and an argument text each.
fn read(load: &Map) -> Option<Request> {
    let fun = load.str("fun").filter(|fun| !fun.is_empty())?;
    let arg = load.get("arg")?.as_array()?;
    let tgt_type = match load.get("tgt_type") {
        None => "glob",
        Some(kind) => kind.as_str()?,
    };
    let no_parse = load
        .get("no_parse")
        .map(Value::str_list)
        .unwrap_or_default();
    let (fun, arg) = if fun.contains(',') {
        let funs: Vec<String> = fun.split(',').map(str::to_owned).collect();
        let words = |arg: &Value| -> Option<Value> {
            let words = arg.as_str()?.split_whitespace();
            Some(Value::Array(words.map(Value::from).collect()))
        };
        (funs.into(), arg.iter().map(words).collect::<Option<_>>()?)
    } else {
        (Value::from(fun), wire_input(arg, &no_parse))
    };
    Some(Request {
        fun,
        arg,
        tgt: load.get("tgt")?.clone(),
        tgt_type: tgt_type.to_owned(),
        ret: load.get("ret")?.as_str()?.to_owned(),
    })
}

/// Nodegroups are published as what they stand for: minions do not know them.
fn grouped(worker: &Context, mut request: Request) -> Option<Request> {
    let groups = &worker.config.nodegroups;
    let words = match (request.tgt_type.as_str(), request.tgt.as_str()) {
        ("compound", Some(text)) => expand_compound(text, groups).ok()?,
        ("compound", None) => return Some(request),
        (kind, text) if kind.starts_with("node") => expand_nodegroup(text?, groups).ok()?,
        _ => return Some(request),
    };
    request.tgt = words.into();
    request.tgt_type = "compound".to_owned();
    Some(request)
}

/// Who would run it; `None` if patterns on pillar find more than equality does: whoever may
/// guess learns the pillar of others bit by bit.
fn meant(worker: &Context, fleet: &dyn Inventory, request: &Request) -> Option<Vec<MinionId>> {
    let exact = match request.tgt_type.as_str() {
        "pillar" | "pillar_pcre" => "pillar_exact",
        "compound" => "compound_pillar_exact",
        other => other,
    };
    let find = |kind: &str| -> Vec<MinionId> {
        Target::parse(&request.tgt, kind, None)
            .map(|target| target.expected(fleet, &worker.config.nodegroups).minions)
            .unwrap_or_default()
    };
    let found = find(&request.tgt_type);
    if exact != request.tgt_type {
        let exactly: HashSet<_> = find(exact).into_iter().collect();
        if !found.iter().all(|id| exactly.contains(id)) {
            return None;
        }
    }
    Some(found)
}

struct Started {
    jid: Option<Jid>,
    minions: Vec<String>,
}

fn start(worker: &mut Context, id: &MinionId, request: Request) -> Result<Started, RoleError> {
    let kwargs = crate::map! {"id" => id.as_str()};
    let mut load = crate::map! {
        "cmd" => "publish", "tgt" => request.tgt, "fun" => request.fun, "arg" => request.arg,
        "tgt_type" => request.tgt_type, "ret" => request.ret, "jid" => "",
        "kwargs" => kwargs.clone(), "user" => worker.config.user.as_str(),
    };
    if worker.config.order_masters {
        load.set("to", worker.config.timeout);
    }
    let reply = publish::admitted(worker, load, &kwargs)?;
    let load = reply
        .as_map()
        .and_then(|m| m.get("load"))
        .and_then(Value::as_map);
    let jid = load
        .and_then(|l| l.str("jid"))
        .and_then(|j| j.parse::<Jid>().ok());
    if let Some(jid) = &jid {
        let path = owner_path(worker, jid);
        if let Some(dir) = path.parent() {
            make_dir(dir, 0o700)?;
        }
        write_atomic(&path, id.as_str().as_bytes(), 0o600)?;
    }
    Ok(Started {
        jid,
        minions: load
            .and_then(|l| l.get("minions"))
            .map(Value::str_list)
            .unwrap_or_default(),
    })
}

fn owner_path(worker: &Context, jid: &Jid) -> PathBuf {
    let dir = worker.config.cachedir.join("publish_auth");
    dir.join(jid.as_str())
}

/// Whether the minion has started the job: its id stands in `publish_auth/<jid>`.
fn owns(worker: &Context, id: &MinionId, jid: &Jid) -> bool {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(owner_path(worker, jid));
    let mut text = String::new();
    opened.is_ok_and(|file| {
        file.metadata().is_ok_and(|m| m.is_file())
            && file.take(1024).read_to_string(&mut text).is_ok()
            && text == id.as_str()
    })
}

fn returns(worker: &Context, jid: &Jid) -> Result<Vec<StoredReturn>, RoleError> {
    Ok(worker
        .jobs
        .get(jid)?
        .map(|job| job.returns)
        .unwrap_or_default())
}

/// `pub_ret`: what has come back of a job that this minion has started.
pub(super) fn fetch(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, RoleError> {
    let Some(Ok(jid)) = load.str("jid").map(str::parse::<Jid>) else {
        return Ok(nothing());
    };
    if !owns(worker, id, &jid) {
        log::warn!("{id} asked for the returns of job {jid}, which it has not started; refused");
        return Ok(nothing());
    }
    let answer: Map = returns(worker, &jid)?
        .into_iter()
        .map(|StoredReturn { id, mut load }| {
            let mut one = crate::map! {"ret" => load.remove("return").unwrap_or_default()};
            if let Some(out) = load.remove("out") {
                one.set("out", out);
            }
            (id, one)
        })
        .collect();
    Ok(answer.into())
}

/// `minion_runner`: what a runner function returns; `{}` if the minion may not call it.
pub(super) fn runner(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, RoleError> {
    let (Some(fun), Some(arg)) = (load.str("fun"), load.get("arg").and_then(Value::as_array))
    else {
        return Ok(nothing());
    };
    let rules = rules::of_id(&worker.config.peer_run, id.as_str());
    let good = rules
        .iter()
        .filter_map(|rule| rule.as_str())
        .any(|pattern| rules::matches(pattern, fun));
    if !good {
        log::warn!("{id} may not call the runner {fun:.80} (option peer_run); refused");
        return Ok(nothing());
    }
    let no_parse = load
        .get("no_parse")
        .map(Value::str_list)
        .unwrap_or_default();
    peer_run::run(&worker.config, fun, wire_input(arg, &no_parse))
}
