//! `publish`: a job from a local client
//! (`salt/master.py ClearFuncs.publish`, `_prep_pub`; reference `salt-protocol.md` 5.2, 7.2).

use super::context::Context;
use crate::access::additions::Additions;
use crate::access::rules::{Call, Reach};
use crate::access::{Caller, names, scope};
use halite_config::SaltSeries;
use halite_crypto::CipherKind;
use halite_store::audit::Decision;
use halite_store::keys::KeyState;
use halite_store::minions::MinionInventory;
use halite_store::presence::{self, ConnectedHere};
use halite_sys::exit::ExitError;
use halite_sys::time::{unix_now, unix_now_i64};
use halite_target::{Target, TargetError, TargetType};
use halite_transport::sockets;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::msgpack::{self, Profile};
use halite_wire::topics::{self, BROADCAST, PRIVATE, SYNDIC};
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

/// Fields of a request that a job consists of, beside its additions; all others are dropped, credentials among them.
const FIELDS: [&str; 10] = [
    "cmd", "tgt", "fun", "arg", "tgt_type", "ret", "jid", "kwargs", "user", "to",
];
/// How far the time in a jid of others may be from now, in seconds: clients and stock masters may use local time.
pub(super) const FAR: i64 = 24 * 3600;

/// Largest job in a cluster, in bytes: a message to the other masters has its arguments twice.
const MOST_TOLD: usize = 7 << 20;
/// Why a job is refused that the other masters of the cluster cannot get.
const ALONE: &str = "Not published: this master has no connection to its cluster. `halite --here` reaches the minions that are connected to this master.";
/// Why a job for the minions of this master reaches none.
const ELSEWHERE: &str = "those that match are connected to other masters of the cluster";

/// Handles one publish request.
pub(crate) fn request(worker: &mut Context, mut load: Map, peer: &str) -> Result<Value, ExitError> {
    let kwargs = load
        .get("kwargs")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let fun = load.get("fun").cloned().unwrap_or_default();
    let claimed = names::claimed(&load, "user").to_owned();
    if worker.access.blacklisted(&claimed, &fun) {
        let who = (claimed.as_str(), "");
        audit(worker, &load, who, peer, Err("publisher_acl_blacklist"));
        return Ok(Value::Map(
            halite_wire::map! {"error" => error("AuthorizationError")},
        ));
    }
    let caller = match worker.access.authenticate(&load, &kwargs, peer) {
        Ok(caller) => caller,
        Err(unproven) => {
            let who = (unproven.user.as_str(), unproven.method.word());
            audit(worker, &load, who, peer, Err(&unproven.why));
            return Ok(refused(worker, load, "AuthenticationError"));
        }
    };
    load.set("user", caller.user());
    let additions = Additions::of(&load, &kwargs, &worker.config.ext_job_cache);
    close(&mut load, &kwargs, &additions);
    let target = match parse_target(&load, &kwargs) {
        Ok(target) => target,
        Err(why) => return Ok(no_match(&load, &why)),
    };
    let meant = resolve(worker, target)?;
    let reach = authorize(worker, &caller, &load, &additions, &meant.minions)?;
    let who = (caller.user(), caller.proof());
    if reach == Reach::Nobody {
        let why = match additions.restricted.as_slice() {
            [] => "no permission".to_owned(),
            added => format!("no permission, or none for {}", added.join(", ")),
        };
        audit(worker, &load, who, peer, Err(&why));
        return Ok(refused(worker, load, "AuthorizationError"));
    }
    if caller.is_limited()
        && let Some(why) = unusable_jid(worker, &load)?
    {
        audit(worker, &load, who, peer, Err(why));
        return Ok(Value::Map(
            halite_wire::map! {"error" => format!("Failed to allocate a jid. {why}")},
        ));
    }
    let job = Order {
        is_here: kwargs.get("here").is_some_and(Value::truthy),
        additions: additions.fields,
        delimiter: kwargs.str("delimiter").map(str::to_owned),
        asker: None,
    };
    let permission = Permission {
        reach,
        auth_list: worker.config.order_masters.then(|| caller.auth_list()),
    };
    let reply = send_out(worker, &mut load, &job, meant, permission)?;
    if load.str("jid").is_some_and(|jid| !jid.is_empty()) {
        audit(worker, &load, who, peer, Ok(()));
    }
    Ok(reply)
}

/// The minions of a job.
pub(super) struct Resolved {
    pub target: Target,
    /// Ids expected to return.
    pub minions: Vec<String>,
    /// Listed ids without an accepted key.
    pub missing: Vec<String>,
    /// Why no minion can match, if so.
    pub error: Option<TargetError>,
}

/// What a job has beside the fields of its load.
#[derive(Default)]
pub(super) struct Order {
    /// Whether it is for the minions of this master alone, and not for those of the others of its cluster (`halite --here`).
    pub is_here: bool,
    /// Its additions.
    pub additions: Map,
    /// The delimiter of the target, if it was given.
    pub delimiter: Option<String>,
    /// The minion that asked for the job.
    pub asker: Option<MinionId>,
}

/// Permissions of the job's owner.
pub(super) struct Permission {
    pub reach: Reach,
    /// For lower masters, which decide about their minions themselves.
    pub auth_list: Option<Value>,
}

/// Publishes an authorised job; the reply is meant for a client. The jid is added to the load.
pub(super) fn send_out(
    worker: &mut Context,
    load: &mut Map,
    order: &Order,
    meant: Resolved,
    permission: Permission,
) -> Result<Value, ExitError> {
    let Resolved {
        mut target,
        mut minions,
        missing,
        error,
    } = meant;
    let has_matched = !minions.is_empty();
    if order.is_here {
        remove_elsewhere(worker, &mut minions)?;
    }
    if has_matched && minions.is_empty() {
        return Ok(no_match(load, ELSEWHERE));
    }
    // Lower masters may know minions that match; a target that cannot be evaluated is no target for them either.
    let unusable = matches!(
        error,
        Some(TargetError::RegexLimit | TargetError::Address(_))
    );
    if minions.is_empty() && (!worker.config.order_masters || unusable) {
        let why = error.map(|e| e.to_string()).unwrap_or_default();
        return Ok(no_match(load, &why));
    }
    // Each minion decides for itself whether a target matches, by its own grains and with its own engine for regular
    // expressions. If the permission is for certain minions, the job is for exactly these.
    if permission.reach == Reach::TheseMinions {
        target = Target::list(
            &minions
                .iter()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<_>>(),
        );
        load.set("tgt", minions.clone());
        load.set("tgt_type", target.kind().name());
    }
    let jid = match load.str("jid").unwrap_or_default() {
        "" => worker.new_jid(),
        text => match text.parse::<Jid>() {
            Ok(jid) => jid,
            Err(e) => {
                return Ok(Value::Map(
                    halite_wire::map! {"error" => format!("Failed to allocate a jid. {e}")},
                ));
            }
        },
    };
    let mut job = job_load(load, order, &jid);
    if let Some(list) = permission.auth_list {
        job.set("auth_list", list);
    }
    let bytes = msgpack::encode_map(&job, Profile::Wire);
    if let Some(why) = too_large(bytes.len(), worker.config.max_request_size) {
        worker.stats.unpublished += 1;
        log::warn!(jid:% = jid; "the job {jid} is refused: {why}");
        return Ok(Value::Map(halite_wire::map! {"error" => why}));
    }
    let is_for_all = worker.cluster.is_some() && !order.is_here;
    if is_for_all && !worker.is_member() {
        worker.stats.unpublished += 1;
        log::warn!(jid:% = jid; "the job {jid} is refused: {ALONE}");
        return Ok(Value::Map(halite_wire::map! {"error" => ALONE}));
    }
    if is_for_all && bytes.len() > MOST_TOLD {
        worker.stats.unpublished += 1;
        let why = format!(
            "The job has {} bytes, of which masters of a cluster tell each other {MOST_TOLD}: have the minions fetch large contents from the file server (salt://)",
            bytes.len()
        );
        log::warn!(jid:% = jid; "the job {jid} is refused: {why}");
        return Ok(Value::Map(halite_wire::map! {"error" => why}));
    }
    // Store it before anybody hears of it: a gateway may deliver the first return at once.
    if !order.additions.contains("nocache") {
        let mut kept = load.clone();
        kept.set("jid", jid.as_str());
        worker
            .stores
            .jobs
            .save_load(&jid, &kept, &minions, &missing)?;
    }
    announce(worker, load, &job, &jid, &minions, &missing);
    if let Err(e) = send(worker, &target, bytes, &minions, is_for_all) {
        let why =
            format!("the publisher does not accept the job ({e}); see `halite-master --topology`");
        worker.stats.unpublished += 1;
        log::error!(jid:% = jid; "the job {jid} is lost: {why}");
        return Ok(Value::Map(halite_wire::map! {"error" => why}));
    }
    load.set("jid", jid.as_str());
    log::info!(
        jid:% = jid, fun:% = shown(&job);
        "user {} published {} to {} minions, jid {jid}",
        load.str("user").unwrap_or_default(),
        shown(&job),
        minions.len()
    );
    Ok(Value::Map(halite_wire::map! {
        "enc" => "clear",
        "load" => halite_wire::map! {"jid" => jid.as_str(), "minions" => minions, "missing" => missing},
    }))
}

/// Leaves out minions that are connected to other masters: nobody waits for them. Those that are connected nowhere stay.
fn remove_elsewhere(worker: &Context, minions: &mut Vec<String>) -> Result<(), ExitError> {
    let (config, stores) = (&worker.config, &worker.stores);
    let ids: BTreeSet<MinionId> = minions.iter().filter_map(|id| id.parse().ok()).collect();
    let mut elsewhere = presence::elsewhere(config, stores);
    elsewhere.retain(|id, _| ids.contains(id));
    let both: Vec<MinionId> = elsewhere.keys().cloned().collect();
    for id in ConnectedHere::default()
        .look(config, stores, Some(&both))?
        .keys()
    {
        elsewhere.remove(id);
    }
    let is_elsewhere = |id: MinionId| elsewhere.contains_key(&id);
    minions.retain(|id| !id.parse().is_ok_and(is_elsewhere));
    Ok(())
}

fn shown(job: &Map) -> String {
    match job.get("fun") {
        Some(Value::Str(fun)) => fun.clone(),
        Some(other) => other.str_list().join(","),
        None => String::new(),
    }
}

fn by_id(target: &Target) -> bool {
    matches!(
        target.kind(),
        TargetType::Glob | TargetType::Pcre | TargetType::List
    )
}

/// Reduces a request to what a job consists of: nothing else, and no credential, may reach a job cache, a listener or
/// a minion.
fn close(load: &mut Map, kwargs: &Map, additions: &Additions) {
    let known = |key: &Value| FIELDS.iter().any(|field| key.is_str(field));
    load.0.retain(|(key, _)| known(key));
    let of_job = |key: &Value| {
        let name = key.as_str().unwrap_or_default();
        name == "delimiter" || (name != "ret" && additions.fields.contains(name))
    };
    let kwargs: Map = kwargs.iter().filter(|(k, _)| of_job(k)).cloned().collect();
    load.set("kwargs", kwargs);
}

/// Why a user may not choose the jid in a load; `None` if they may, or chose none.
///
/// A jid names the record of a job and the tags of its events, so it must not be that of another one.
fn unusable_jid(worker: &Context, load: &Map) -> Result<Option<&'static str>, ExitError> {
    let Some(Ok(jid)) = load.str("jid").map(str::parse::<Jid>) else {
        return Ok(None);
    };
    let now = unix_now_i64();
    Ok(if !jid.is_near(now, FAR) {
        Some("the jid is too far from the present time")
    } else {
        // The batches of stock 3008's `salt -b` are parts of one job.
        let known = worker.stores.jobs.load(&jid)?;
        let is_other = |known: Map| {
            ["user", "fun", "arg"]
                .iter()
                .any(|key| known.get(key) != load.get(key))
        };
        known
            .is_some_and(is_other)
            .then_some("there is a job with this jid")
    })
}

/// On which of these minions the caller may run this job.
fn authorize(
    worker: &Context,
    caller: &Caller,
    load: &Map,
    additions: &Additions,
    minions: &[String],
) -> Result<Reach, ExitError> {
    let fleet = fleet(worker)?;
    // With lower masters, nobody here knows which minions an empty list stands for (CVE-2022-22941).
    let unknown = minions.is_empty() && worker.config.order_masters;
    let mut covers =
        |scope: &str| !unknown && scope::covers(scope, minions, &fleet, &worker.config.nodegroups);
    let part = |key: &str| load.get(key).cloned().unwrap_or_default();
    let added = &additions.restricted;
    Ok(caller.may_publish(&part("fun"), &part("arg"), added, &mut covers))
}

pub(super) fn audit(
    worker: &Context,
    load: &Map,
    (user, method): (&str, &str),
    from: &str,
    verdict: Result<(), &str>,
) {
    if let Err(why) = verdict {
        log::warn!("a publish request of user {user:?} from {from} was refused: {why}");
    }
    worker.access.audit_decision(&Decision {
        what: "publish",
        user,
        method,
        from,
        target: load.get("tgt"),
        function: load.get("fun"),
        arguments: shape(load),
        jid: load.str("jid").unwrap_or_default(),
        allowed: verdict.is_ok(),
        reason: verdict.err().unwrap_or_default(),
    });
}

/// Arguments for the audit log: their number, never their values.
fn shape(load: &Map) -> Option<String> {
    let calls = Call::of_publication(load.get("fun")?, load.get("arg")?)?;
    let shapes: Vec<String> = calls.iter().map(Call::shape).collect();
    Some(shapes.join("; "))
}

fn parse_target(load: &Map, kwargs: &Map) -> Result<Target, String> {
    let tgt = load.get("tgt").ok_or("the request has no target")?;
    let kind = load.str("tgt_type").unwrap_or("glob");
    Target::parse(tgt, kind, kwargs.str("delimiter")).map_err(|e| e.to_string())
}

pub(super) fn fleet(worker: &Context) -> Result<MinionInventory<'_>, ExitError> {
    Ok(MinionInventory {
        ids: worker.stores.keys.list(KeyState::Accepted)?,
        cache: &*worker.stores.minions,
        caches_data: worker.config.minion_data_cache,
    })
}

/// Resolves a target to minions.
pub(super) fn resolve(worker: &Context, target: Target) -> Result<Resolved, ExitError> {
    let expected = target.expected(&fleet(worker)?, &*worker.config);
    if let Some(why) = &expected.error {
        log::warn!("a target matches nothing: {why}");
    }
    Ok(Resolved {
        target,
        minions: expected.minions.iter().map(MinionId::to_string).collect(),
        missing: expected.missing,
        error: expected.error,
    })
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
    Value::Map(halite_wire::map! {
        "enc" => "clear",
        "load" => halite_wire::map! {"jid" => Value::Nil, "minions" => Vec::<Value>::new(), "error" => error},
    })
}

/// Salt's errors of this command.
fn error(name: &str) -> Map {
    let message = match name {
        "AuthenticationError" => "Authentication error occurred.",
        _ => "Authorization error occurred.",
    };
    halite_wire::map! {"name" => name, "message" => message}
}

fn refused(worker: &mut Context, mut load: Map, name: &str) -> Value {
    // Only a client that chose its jid listens for that tag. An event about another job would be a lie.
    let is_new = |worker: &Context, jid: &Jid| {
        jid.is_near(unix_now_i64(), FAR) && matches!(worker.stores.jobs.load(jid), Ok(None))
    };
    if let Some(Ok(jid)) = load.str("jid").map(str::parse::<Jid>)
        && is_new(worker, &jid)
    {
        close(&mut load, &Map::new(), &Additions::default());
        load.remove("kwargs");
        load.set("error", error(name));
        worker.bus.fire(&format!("salt/job/{jid}/error"), load);
    }
    Value::Map(halite_wire::map! {"error" => error(name)})
}

/// The load for minions, with Salt's order of keys; the publisher adds `serial`.
fn job_load(load: &Map, order: &Order, jid: &Jid) -> Map {
    let take = |k: &str| load.get(k).cloned().unwrap_or_default();
    let mut job = halite_wire::map! {
        "fun" => take("fun"), "arg" => take("arg"), "tgt" => take("tgt"),
        "jid" => jid.as_str(), "ret" => take("ret"),
    };
    if let Some(delimiter) = order.delimiter.as_ref().filter(|d| *d != ":") {
        job.set("delimiter", delimiter);
    }
    if let Some(id) = &order.asker {
        job.set("id", id);
    }
    if let Some(kind) = load.get("tgt_type") {
        job.set("tgt_type", kind.clone());
    }
    if let Some(to) = load.get("to") {
        job.set("to", to.clone());
    }
    let sent = |key: &Value| !key.is_str("ret") && !key.is_str("nocache");
    for (key, value) in order.additions.iter().filter(|(key, _)| sent(key)) {
        job.0.push((key.clone(), value.clone()));
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
            .fire(jid.as_str(), halite_wire::map! {"minions" => list(minions)});
    }
    let take = |k: &str| load.get(k).cloned().unwrap_or_default();
    let new = halite_wire::map! {
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

/// Why a job of this size is not published. A halite minion accepts twice the default limit, a stock one
/// anything that fits into memory.
fn too_large(bytes: usize, most: u64) -> Option<String> {
    (bytes as u64 > most).then(|| {
        format!(
            "The job has {bytes} bytes, max_request_size allows {most}: have the minions fetch large contents from the file server (salt://), or raise max_request_size"
        )
    })
}

/// Most topics of a job. With more minions it goes to all, who look at the target anyway: that costs less than finding each.
const MAX_TOPICS: usize = 500;

/// Most minions of a job that each of them gets under its own key.
const MAX_PRIVATE: usize = 100;

/// Whether each minion gets the job under its own session key: all must be halite's and connected in a way that allows it.
fn is_private(worker: &Context, target: &Target, minions: &[String]) -> bool {
    let possible = worker.publishes_privately && by_id(target) && minions.len() <= MAX_PRIVATE;
    let has_session = |id: &String| {
        let id = id.parse().ok();
        id.is_some_and(|id| {
            worker
                .stores
                .sessions
                .version(CipherKind::Gcm, &id)
                .is_some()
        })
    };
    possible && minions.iter().all(has_session)
}

/// With the time before it: nobody publishes a job that is too old.
fn timed(mut parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    parts.insert(0, unix_now().to_be_bytes().to_vec());
    parts
}

/// Sends the job to the publisher, with the topics of its minions: for those that filter (reference 1.4), and for those of
/// transports where the publisher knows who is who.
fn send(
    worker: &Context,
    target: &Target,
    job: Vec<u8>,
    minions: &[String],
    is_for_all: bool,
) -> sockets::Result<()> {
    let mut parts = vec![job];
    if is_private(worker, target, minions) {
        parts.push(PRIVATE.into());
        parts.extend(minions.iter().map(|id| id.clone().into_bytes()));
    } else if worker.config.zmq_filtering || worker.has_registration() {
        if by_id(target) && minions.len() <= MAX_TOPICS {
            parts.extend(minions.iter().map(|id| topics::of_minion(id).into_bytes()));
            if worker.config.order_masters {
                parts.push(SYNDIC.into());
            }
        } else {
            parts.push(BROADCAST.into());
        }
    }
    worker.publish.send(&parts)?;
    if let Some(cluster) = worker.cluster.as_ref().filter(|_| is_for_all)
        && let Err(e) = cluster.send(&timed(parts))
    {
        log::error!("a job does not reach the other masters of the cluster: {e}");
    }
    Ok(())
}
