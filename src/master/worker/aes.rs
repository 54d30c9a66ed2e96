//! AESFuncs: what minions ask under their session key
//! (`salt/master.py AESFuncs`, reference `salt-protocol.md` 6 and 8).
//!
//! The channel fixes who asks: the id whose session key opened the request, whose accepted
//! key made its token. Ids inside loads are compared with it, never believed.

use super::batch::Keep;
use super::context::Context;
use super::files;
use super::pillar::{self, Reply};
use super::{Answer, HANDLER_FAILED, batch, mine, peer, syndic, tops};
use crate::roles::RoleError;
use halite_crypto::{Crypticle, Signing};
use halite_sys::time::unix_now_i64;
use halite_wire::envelope::{Refusal, check_id};
use halite_wire::ids::{Jid, MinionId, Tag};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::convert::Infallible;

/// A sealed request as it came in.
pub(super) struct Sealed<'a> {
    pub id: Option<&'a str>,
    pub load: &'a [u8],
    pub enc_algo: Option<&'a str>,
    pub sig_algo: Option<&'a str>,
}

/// Commands of a minion with an accepted key. Unknown ones answer `{}`, as Salt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    AesKeys,
    File(files::Command),
    MasterOpts,
    MasterTops,
    Mine,
    MineDelete,
    MineFlush,
    MineGet,
    MinionEvent,
    MinionPub,
    MinionPublish,
    MinionRunner,
    Pillar,
    PubRet,
    RegisterResources,
    Return,
    RevokeAuth,
    ServeFile,
    SyndicReturn,
}

impl Command {
    fn parse(cmd: &str) -> Option<Command> {
        if let Some(command) = files::Command::parse(cmd) {
            return Some(Command::File(command));
        }
        Some(match cmd {
            "_aes_keys" => Command::AesKeys,
            "_master_opts" => Command::MasterOpts,
            "_master_tops" => Command::MasterTops,
            "_mine" => Command::Mine,
            "_mine_delete" => Command::MineDelete,
            "_mine_flush" => Command::MineFlush,
            "_mine_get" => Command::MineGet,
            "_minion_event" => Command::MinionEvent,
            "minion_pub" => Command::MinionPub,
            "minion_publish" => Command::MinionPublish,
            "minion_runner" => Command::MinionRunner,
            "pub_ret" => Command::PubRet,
            "_pillar" => Command::Pillar,
            "_register_resources" => Command::RegisterResources,
            "_return" => Command::Return,
            "revoke_auth" => Command::RevokeAuth,
            "_serve_file" => Command::ServeFile,
            "_syndic_return" => Command::SyndicReturn,
            _ => return None,
        })
    }
}

/// Handles one sealed request.
pub(super) fn request(worker: &mut Context, sealed: &Sealed, peer: &str) -> Answer {
    let opened = match open(worker, sealed) {
        Ok(opened) => opened,
        Err(refusal) => {
            log::debug!("{peer} as {:?}: request refused", sealed.id);
            return Answer::clear(&refusal.reply());
        }
    };
    let Opened {
        id,
        crypticle,
        mut load,
        nonce,
    } = opened;
    let cmd = load.str("cmd").unwrap_or_default().to_owned();
    let Some(command) = Command::parse(&cmd) else {
        worker.count_unknown(&cmd, id.as_str());
        return reply(&crypticle, &Value::Map(Map::new()), &nonce);
    };
    match command {
        Command::Pillar => worker.stats.pillars += 1,
        Command::Return => worker.stats.returns += 1,
        Command::MinionEvent => worker.stats.events += 1,
        _ => {}
    }
    if !matches!(command, Command::Return | Command::MinionEvent) {
        batch::settle(worker);
    }
    let result = match command {
        Command::ServeFile => {
            return match files::serve(worker, &load, &crypticle, &nonce) {
                Ok(bytes) => proven(bytes),
                Err(e) => handler_failed(&cmd, &id, &e, &crypticle, &nonce),
            };
        }
        Command::Pillar => {
            return match pillar::request(worker, &id, load, sealed, &nonce) {
                Ok(Reply::Private(value)) => proven(msgpack::encode(&value, Profile::Wire)),
                Ok(Reply::Plain(value)) => reply(&crypticle, &value, &nonce),
                Err(e) => failed(&cmd, &id, &e),
            };
        }
        Command::Return => {
            returned(worker, id.clone(), load);
            Ok(Value::Nil)
        }
        Command::SyndicReturn => syndic::returns(worker, &id, load),
        Command::MinionEvent => minion_event(worker, &id, load),
        Command::AesKeys => aes_keys(worker),
        Command::File(command) => files::request(worker, &id, command, &load),
        Command::MasterOpts => Ok(master_opts(worker, &load)),
        Command::MasterTops => Ok(tops::request(worker, &id)),
        Command::Mine => mine::put(worker, &id, load),
        Command::MineDelete => mine::delete(worker, &id, &load),
        Command::MineFlush => mine::flush(worker, &id),
        Command::MineGet => mine::get(worker, &id, &load),
        Command::MinionPub => peer::publish(worker, &id, &load),
        Command::MinionPublish => peer::publish_and_wait(worker, &id, &load),
        Command::MinionRunner => peer::runner(worker, &id, &load),
        Command::PubRet => peer::fetch(worker, &id, &load),
        Command::RegisterResources => Ok(true.into()),
        Command::RevokeAuth => {
            load.remove("cmd");
            revoke_auth(worker, &id, load)
        }
    };
    match result {
        Ok(value) => reply(&crypticle, &value, &nonce),
        Err(e) if command == Command::SyndicReturn => {
            log::error!(
                minion:% = id;
                "a return of {id} could not be kept ({e}); it is not acknowledged, so that it comes again"
            );
            Answer::none()
        }
        Err(e) => handler_failed(&cmd, &id, &e, &crypticle, &nonce),
    }
}

/// Salt answers an exception in a handler with an empty text under the session key.
fn handler_failed(
    cmd: &str,
    id: &MinionId,
    e: &RoleError,
    crypticle: &Crypticle,
    nonce: &str,
) -> Answer {
    log::error!(minion:% = id; "{cmd} of {id} failed: {e}");
    reply(crypticle, &"".into(), nonce)
}

fn reply(crypticle: &Crypticle, value: &Value, nonce: &str) -> Answer {
    let written = crypticle.text_with(msgpack::size_hint(value), Some(nonce), |out| {
        msgpack::encode_into(out, value, Profile::Wire);
        Ok::<(), Infallible>(())
    });
    match written {
        Ok(bytes) => proven(bytes),
        Err(never) => match never {},
    }
}

fn proven(bytes: Vec<u8>) -> Answer {
    Answer {
        bytes,
        proven: true,
    }
}

fn failed(cmd: &str, id: &MinionId, e: &RoleError) -> Answer {
    log::error!(minion:% = id; "{cmd} of {id} failed: {e}");
    Answer::clear(&HANDLER_FAILED.into())
}

struct Opened {
    id: MinionId,
    crypticle: Crypticle,
    load: Map,
    nonce: String,
}

/// Decrypts and checks a request: accepted key, session key, age, id, token
/// (`ReqServerChannel.handle_message`, `validate_token`).
fn open(worker: &mut Context, sealed: &Sealed) -> Result<Opened, Refusal> {
    let id: MinionId = sealed
        .id
        .and_then(|id| id.parse().ok())
        .ok_or(Refusal::BadLoad)?;
    let (crypticle, plain) = worker.open(&id, sealed.load).ok_or(Refusal::BadLoad)?;
    let document = plain.strip_prefix(b"pickle::").ok_or(Refusal::NotAMap)?;
    let Ok(Value::Map(mut load)) = msgpack::decode(document) else {
        return Err(Refusal::NotAMap);
    };
    check_id(&load)?;
    let ttl = worker.config.request_server_ttl;
    if ttl > 0 {
        let age = load.int("ts").map(|ts| unix_now_i64() - ts);
        if age.is_none_or(|age| age > ttl as i64) {
            return Err(Refusal::BadLoad);
        }
    }
    if load.str("id") != Some(id.as_str()) {
        return Err(Refusal::BadLoad);
    }
    let token = load.remove("tok").ok_or(Refusal::BadLoad)?;
    if !token.as_bytes().is_some_and(|t| worker.token_valid(&id, t)) {
        return Err(Refusal::BadLoad);
    }
    let nonce = match load.remove("nonce") {
        // It stands in front of the reply, where the receiver expects 32 characters.
        Some(Value::Str(nonce)) if nonce.len() == 32 => nonce,
        _ => return Err(Refusal::BadLoad),
    };
    Ok(Opened {
        id,
        crypticle,
        load,
        nonce,
    })
}

/// `_aes_keys`, of halite only: the key of publications and the one on offer, each with the master's signature
/// that a sign-in would give (reference 3.4). Without any RSA, so that a whole fleet can ask at once.
fn aes_keys(worker: &mut Context) -> Result<Value, RoleError> {
    let present = worker.aes_key()?;
    let mut keys =
        halite_wire::map! {"aes" => present.text.as_str(), "sig" => present.digest_signature};
    if let Some(next) = worker.next_aes_key()? {
        keys.set("next", next.text.as_str());
        keys.set("next_sig", next.digest_signature);
    }
    Ok(Value::Map(keys))
}

/// `_return`: keep the result, then tell the bus.
fn returned(worker: &mut Context, id: MinionId, mut load: Map) {
    if !signature_good(worker, &id, &mut load) {
        return;
    }
    let (jid, keep) = match load.str("jid").unwrap_or_default() {
        "req" => (worker.jids.next(), Keep::AsJob),
        "nocache" => (worker.jids.next(), Keep::No),
        text => match text.parse::<Jid>() {
            Ok(jid) => (jid, Keep::Yes),
            Err(e) => {
                log::warn!(minion:% = id; "{id} returned for a job that cannot be: {e}");
                return;
            }
        },
    };
    if keep == Keep::AsJob {
        load.set("jid", jid.as_str());
        let args = load.get("fun_args").cloned().unwrap_or_default();
        load.set("arg", args);
        load.set("tgt_type", "glob");
        load.set("tgt", id.as_str());
    }
    let keep = match worker.config.job_cache {
        true => keep,
        false => Keep::No,
    };
    let fun = load.str("fun").unwrap_or_default();
    log::debug!(jid:% = jid, minion:% = id, fun; "return of {id} for job {jid}");
    worker.batch.returned(keep, jid, id, load);
}

/// Checks `sig` of a return (`minion_sign_messages`, reference 6.3). `false` drops it.
fn signature_good(worker: &mut Context, id: &MinionId, load: &mut Map) -> bool {
    let Some(sig) = load.remove("sig") else {
        if worker.config.require_minion_sign_messages {
            log::error!(
                minion:% = id;
                "{id} returned without a signature, which require_minion_sign_messages demands; dropped"
            );
            return false;
        }
        return true;
    };
    let algorithm: Signing = worker.config.signing_algorithm.parse().unwrap_or_default();
    let signed = msgpack::encode_map(load, Profile::Local);
    let good = worker.accepted_key(id).is_some_and(|key| {
        sig.as_bytes()
            .is_some_and(|s| key.verify(algorithm, &signed, s))
    });
    load.set("sig", sig);
    if good {
        return true;
    }
    log::error!(minion:% = id; "the signature of a return of {id} does not fit");
    !worker.config.drop_messages_signature_fail
}

/// `_minion_event`: one event, or a list of them.
fn minion_event(worker: &mut Context, id: &MinionId, load: Map) -> Result<Value, RoleError> {
    let pretag = load.str("pretag").map(str::to_owned);
    let below = worker.config.order_masters && pretag == Some(format!("syndic/{id}"));
    if let Some(events) = load.get("events").and_then(Value::as_array) {
        for event in events.iter().filter_map(Value::as_map) {
            let Some(tag) = event.str("tag") else {
                continue;
            };
            let data = match event.get("data") {
                Some(Value::Map(data)) => data.clone(),
                Some(other) => halite_wire::map! {"data" => other.clone()},
                None => Map::new(),
            };
            if below {
                syndic::event(worker, id, tag, data.clone())?;
                // Under its own name only what every minion may say; the rest would speak for others.
                if may_fire(id, tag) {
                    fire(worker, id, tag, data);
                }
                continue;
            }
            fire(worker, id, tag, data.clone());
            if let Some(pretag) = &pretag {
                fire(worker, id, &format!("{pretag}/{tag}"), data);
            }
        }
        return Ok(Value::Nil);
    }
    if let Some(tag) = load.str("tag").map(str::to_owned) {
        if worker.config.order_masters && tag == format!("syndic/{id}/start") {
            syndic::register(worker, id)?;
            worker.batch.fire(&tag, load);
            return Ok(Value::Nil);
        }
        fire(worker, id, &tag, load);
    }
    Ok(Value::Nil)
}

fn fire(worker: &mut Context, id: &MinionId, tag: &str, data: Map) {
    match tag.parse::<Tag>() {
        Ok(tag) if may_fire(id, tag.as_str()) => worker.batch.fire(tag.as_str(), data),
        Ok(tag) => {
            log::warn!(minion:% = id, tag:% = tag; "{id} may not fire events tagged {tag}; dropped")
        }
        Err(e) => log::warn!(minion:% = id; "{id}: {e}"),
    }
}

/// Tags that speak for the master or for another minion are not a minion's to fire. Stock
/// Salt applies its list to the `events` form only (`daemons/masterapi.py
/// MINION_EVENT_BLACKLIST`); here it holds for every form, and names are checked.
fn may_fire(id: &MinionId, tag: &str) -> bool {
    let mut parts = tag.split('/');
    match (parts.next(), parts.next()) {
        (Some("salt"), Some("job")) => {
            let (jid, kind, whose) = (parts.next(), parts.next(), parts.next());
            jid.is_some_and(|j| j.parse::<Jid>().is_ok())
                && matches!(kind, Some("prog" | "start" | "sub"))
                && whose == Some(id.as_str())
        }
        (Some("salt"), Some("minion")) => parts.next() == Some(id.as_str()),
        (Some("salt"), Some("beacon")) => parts.next() == Some(id.as_str()),
        (
            Some("salt"),
            Some(
                "auth" | "key" | "cloud" | "run" | "cluster" | "wheel" | "presence" | "stats"
                | "batch" | "netapi" | "fileserver" | "event",
            ),
        ) => false,
        (Some("minion" | "resource"), Some("refresh")) => false,
        (Some("halite" | "syndic"), _) => false,
        (Some(bare), None) => bare != "key" && bare.parse::<Jid>().is_err(),
        _ => true,
    }
}

/// `_master_opts`: what a minion's state system wants to know (reference 8.2).
fn master_opts(worker: &mut Context, load: &Map) -> Value {
    let envs = worker.files.environments();
    let c = &worker.config;
    let roots: Map = envs
        .iter()
        .map(|env| (env.as_str(), Value::Array(Vec::new())))
        .collect();
    let mut opts = halite_wire::map! {
        "file_roots" => roots,
        "top_file_merging_strategy" => c.top_file_merging_strategy.as_str(),
        "env_order" => c.env_order.clone(),
        "default_top" => c.default_top.as_str(),
    };
    if load.get("env_only").is_some_and(Value::truthy) {
        return Value::Map(opts);
    }
    opts.set("renderer", c.renderer.as_str());
    opts.set("failhard", c.failhard);
    opts.set("state_top", c.state_top.as_str());
    opts.set("state_top_saltenv", c.state_top_saltenv.clone());
    opts.set("nodegroups", c.nodegroups.clone());
    opts.set("state_auto_order", c.state_auto_order);
    opts.set("state_events", c.state_events);
    opts.set("state_aggregate", c.state_aggregate);
    opts.set("jinja_env", c.jinja_env.clone());
    opts.set("jinja_sls_env", c.jinja_sls_env.clone());
    opts.set("jinja_lstrip_blocks", c.jinja_lstrip_blocks);
    opts.set("jinja_trim_blocks", c.jinja_trim_blocks);
    Value::Map(opts)
}

/// `revoke_auth`: a minion gives up its own key (`saltutil.revoke_auth`).
fn revoke_auth(worker: &mut Context, id: &MinionId, load: Map) -> Result<Value, RoleError> {
    use halite_store::keys::KeyState;
    if !worker.config.allow_minion_key_revoke {
        log::warn!(minion:% = id; "{id} asked for its key to be deleted, which allow_minion_key_revoke forbids");
        return Ok(Value::Map(load));
    }
    worker.keys.delete(KeyState::Accepted, id)?;
    worker.sessions.remove(id)?;
    if !load.get("preserve_minion_cache").is_some_and(Value::truthy) {
        worker.minions.remove(id)?;
    }
    log::info!(minion:% = id; "{id} gave up its key");
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minion_speaks_only_for_itself() {
        let id: MinionId = "m1".parse().unwrap();
        for good in [
            "minion_start",
            "salt/minion/m1/start",
            "my/own/tag",
            "custom",
            "salt/beacon/m1/load/",
            "salt/job/20261121092637195592/prog/m1/0",
            "_salt_error",
            "minion_ping",
            "salt/state_result/x",
        ] {
            assert!(may_fire(&id, good), "{good}");
        }
        for bad in [
            "salt/job/20261121092637195592/ret/m1",
            "salt/job/20261121092637195592/ret/m2",
            "salt/job/20261121092637195592/new",
            "salt/job/20261121092637195592/prog/m2/0",
            "salt/minion/m2/start",
            "salt/auth",
            "salt/key",
            "key",
            "salt/run/20261121092637195592/ret",
            "salt/wheel/1/ret",
            "20261121092637195592",
            "minion/refresh/m2",
            "salt/presence/change",
            "halite/bus/dropped",
            "syndic/x/1",
        ] {
            assert!(!may_fire(&id, bad), "{bad}");
        }
    }
}
