//! Jobs and runners started by minions (`salt/daemons/masterapi.py RemoteFuncs.minion_pub`, `minion_publish`,
//! `minion_runner`, `pub_ret`; options `peer` and `peer_run`).
//!
//! The id used to look up rules, stored with the job and allowed to fetch its returns is that of the channel.

use super::context::Context;
use super::peer_run;
use super::publish::{self, Order, Permission, Resolved};
use crate::access::additions::Additions;
use crate::access::rules::{AuthList, Call, CallApi, Reach};
use crate::access::scope;
use crate::args::Args;
use halite_store::jobs::StoredReturn;
use halite_sys::exit::ExitError;
use halite_target::{
    Inventory, MinionId, PyRegex, Target, TargetType, expand_compound, expand_nodegroup,
};
use halite_wire::ids::Jid;
use halite_wire::yaml::{load_input, wire_input};
use halite_wire::{Map, Value};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Polling interval of the job log while waiting for returns.
const LOOK: Duration = Duration::from_millis(50);

fn nothing() -> Value {
    Map::new().into()
}

/// What a minion wants to run.
struct Request {
    /// A string, or a list for several functions.
    fun: Value,
    arg: Vec<Value>,
    tgt: Value,
    tgt_type: String,
    ret: String,
}

/// `minion_pub`: returns the jid and the expected minions; `{}` if not permitted.
pub(crate) fn publish(worker: &mut Context, id: &MinionId, load: &Map) -> Result<Value, ExitError> {
    let Some(request) = admitted(worker, id, load)? else {
        return Ok(nothing());
    };
    let started = start(worker, id, request)?;
    // Stock's client returns 0 for a job that matches no minion.
    let jid = started.jid.map_or(Value::Int(0), |jid| jid.as_str().into());
    Ok(halite_wire::map! {"jid" => jid, "minions" => started.minions}.into())
}

/// `minion_publish`: like [`publish()`], but waits for the returns, for `tmo` or `timeout` seconds.
pub(crate) fn publish_and_wait(
    worker: &mut Context,
    id: &MinionId,
    load: &Map,
) -> Result<Value, ExitError> {
    let Some(patience) = patience(worker, load) else {
        log::warn!(minion:% = id; "{id} asked for a job with an invalid timeout; refused");
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

/// Waiting time, at most that of a request, as it blocks a worker.
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

/// The permissions under all patterns that match the id.
fn rules(rules: &Map, id: &MinionId) -> AuthList {
    let mut all = AuthList::default();
    for (ids, list) in rules.iter() {
        let matches =
            |ids: &str| PyRegex::new(ids).is_ok_and(|p| p.matches(id.as_str()) == Ok(true));
        if list.as_array().is_some() && ids.as_str().is_some_and(matches) {
            all.extend(AuthList::parse(list));
        }
    }
    all
}

/// A permitted job.
struct Admitted {
    load: Map,
    order: Order,
    meant: Resolved,
    permission: Permission,
}

/// Checks a request against `peer` (`AESFuncs.__verify_minion_publish`).
fn admitted(worker: &Context, id: &MinionId, load: &Map) -> Result<Option<Admitted>, ExitError> {
    let rules = rules(&worker.config.peer.0, id);
    let request = read(load).and_then(|request| grouped(worker, request));
    let Some(request) = request.filter(|_| !rules.is_empty()) else {
        return Ok(None);
    };
    let mut job = halite_wire::map! {
        "cmd" => "publish", "tgt" => request.tgt.clone(), "fun" => request.fun.clone(),
        "arg" => request.arg.clone(), "tgt_type" => request.tgt_type.as_str(),
        "ret" => request.ret, "jid" => "", "kwargs" => halite_wire::map! {"id" => id.as_str()},
        "user" => worker.config.user.as_str(),
    };
    if worker.config.order_masters {
        job.set("to", worker.config.timeout);
    }
    let who = (id.as_str(), "peer");
    let refuse = |why: &str| publish::audit(worker, &job, who, id.as_str(), Err(why));
    let Ok(target) = Target::parse(&request.tgt, &request.tgt_type, None) else {
        return Ok(None);
    };
    let meant = publish::resolve(worker, target)?;
    let minions = &meant.minions;
    let fleet = publish::fleet(worker)?;
    if guesses(worker, &fleet, &request.tgt, &meant.target, minions) {
        refuse("patterns on the pillar of minions");
        return Ok(None);
    }
    let calls = Call::of_publication(&request.fun, &Value::Array(request.arg)).unwrap_or_default();
    // A job that starts jobs could loop.
    if calls.iter().any(|call| call.fun.starts_with("publish.")) {
        refuse("a job may not publish");
        return Ok(None);
    }
    // With lower masters, nobody here knows which minions an empty list stands for (CVE-2022-22941).
    let unknown = minions.is_empty() && worker.config.order_masters;
    let mut covers =
        |scope: &str| !unknown && scope::covers(scope, minions, &fleet, &worker.config.nodegroups);
    let additions = Additions::of(&job, &Map::new(), &worker.config.ext_job_cache);
    // All functions must be allowed; stock is satisfied with one of them.
    let reach = rules.publication(&calls, &additions.restricted, &[], &mut covers);
    if reach == Reach::Nobody {
        refuse("not permitted by the option peer");
        return Ok(None);
    }
    Ok(Some(Admitted {
        permission: Permission {
            reach,
            auth_list: worker.config.order_masters.then(|| rules.to_value()),
        },
        meant,
        load: job,
        order: Order {
            is_here: false,
            additions: additions.fields,
            delimiter: None,
            asker: Some(id.clone()),
        },
    }))
}

/// Reads the fields of a load; several functions are comma-separated, with an argument string each.
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

/// Replaces nodegroups by their definition: minions do not know them.
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

/// Whether patterns on the pillar match more minions than equality does: by guessing, a minion could learn the
/// pillar of others bit by bit (`auth_check` with `publish_validate`).
fn guesses(
    worker: &Context,
    fleet: &dyn Inventory,
    tgt: &Value,
    target: &Target,
    found: &[String],
) -> bool {
    let exact = match target.kind() {
        TargetType::Pillar | TargetType::PillarPcre => "pillar_exact",
        TargetType::Compound => "compound_pillar_exact",
        _ => return false,
    };
    let Ok(exact) = Target::parse(tgt, exact, None) else {
        return true;
    };
    let exactly = exact.expected(fleet, &worker.config.nodegroups).minions;
    let exactly: HashSet<&str> = exactly.iter().map(MinionId::as_str).collect();
    !found.iter().all(|id| exactly.contains(id.as_str()))
}

struct Started {
    jid: Option<Jid>,
    minions: Vec<String>,
}

fn start(worker: &mut Context, id: &MinionId, admitted: Admitted) -> Result<Started, ExitError> {
    let Admitted {
        mut load,
        order,
        meant,
        permission,
    } = admitted;
    let minions = meant.minions.clone();
    publish::send_out(worker, &mut load, &order, meant, permission)?;
    let jid = load.str("jid").and_then(|j| j.parse::<Jid>().ok());
    if let Some(jid) = &jid {
        worker.stores.owners.put(jid, id)?;
        publish::audit(worker, &load, (id.as_str(), "peer"), id.as_str(), Ok(()));
    }
    Ok(Started { jid, minions })
}

fn returns(worker: &Context, jid: &Jid) -> Result<Vec<StoredReturn>, ExitError> {
    Ok(worker
        .stores
        .jobs
        .get(jid)?
        .map(|job| job.returns)
        .unwrap_or_default())
}

/// `pub_ret`: the returns so far of a job that this minion has started.
pub(crate) fn fetch(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, ExitError> {
    let Some(Ok(jid)) = load.str("jid").map(str::parse::<Jid>) else {
        return Ok(nothing());
    };
    if !worker.stores.owners.owns(id, &jid) {
        log::warn!(minion:% = id, jid:% = jid; "{id} asked for the returns of job {jid}, which it has not started; refused");
        return Ok(nothing());
    }
    let answer: Map = returns(worker, &jid)?
        .into_iter()
        .map(|StoredReturn { id, mut load }| {
            let mut one = halite_wire::map! {"ret" => load.remove("return").unwrap_or_default()};
            if let Some(out) = load.remove("out") {
                one.set("out", out);
            }
            (id, one)
        })
        .collect();
    Ok(answer.into())
}

/// `minion_runner`: the result of a runner function; `{}` if not permitted.
pub(crate) fn runner(worker: &Context, id: &MinionId, load: &Map) -> Result<Value, ExitError> {
    let (Some(fun), Some(arg)) = (load.str("fun"), load.get("arg").and_then(Value::as_array))
    else {
        return Ok(nothing());
    };
    let no_parse = load
        .get("no_parse")
        .map(Value::str_list)
        .unwrap_or_default();
    let (positional, keyword) = load_input(arg, &no_parse);
    let args = Args {
        positional,
        keyword,
    };
    let declared = (worker.lent.declared)(CallApi::Runner, fun);
    let calls = [Call::of_function(fun, &args, declared)];
    let rules = rules(&worker.config.peer_run.0, id);
    // Only function patterns count here; a runner has no target.
    let good = rules.publication(&calls, &[], &[], &mut |_| false) == Reach::Everybody;
    if !good {
        log::warn!(minion:% = id; "{id} may not call the runner {fun:.80} (option peer_run); refused");
        return Ok(nothing());
    }
    peer_run::run(&worker.config, id, fun, args)
}
