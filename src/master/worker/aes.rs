//! AESFuncs: requests of minions under their session key (`salt/master.py AESFuncs`, reference
//! `salt-protocol.md` 6 and 8).
//!
//! The sender is determined by the channel: the id whose session key decrypted the request and whose accepted
//! key made its token. Ids inside loads are compared with it, never trusted.

use super::batch::ReturnStorage;
use super::context::Context;
use super::sealed::{Sealed, open};
use super::{RequestAnswer, begin, syndic};
use crate::commands::{CallerKind, Command, Handler};
use crate::events::{PEER, REACTOR_USER};
use halite_crypto::Signing;
use halite_sys::exit::ExitError;
use halite_wire::ids::{Jid, MinionId, Tag};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Handles one encrypted request. Unknown commands are answered with `{}`, as in Salt.
pub(super) fn request(worker: &mut Context, sealed: &Sealed, peer: &str) -> RequestAnswer {
    let mut opened = match open(worker, sealed) {
        Ok(opened) => opened,
        Err(refusal) => {
            log::debug!("{peer} as {:?}: request refused", sealed.id);
            return RequestAnswer::clear(&refusal.reply());
        }
    };
    let cmd = opened.load.str("cmd").unwrap_or_default();
    let found = Command::find(cmd).map(|command| (command, command.handler));
    let (command, handler) = match found {
        None | Some((_, Handler::Clear(_))) => {
            worker.count_unknown(cmd, opened.id.as_str());
            return opened.reply(&Map::new().into());
        }
        Some((command, _)) if refuses(worker, command, &opened.id) => {
            return opened.reply(&Value::Nil);
        }
        Some((command, Handler::AesAnswer(answer))) => {
            begin(worker, command);
            return answer(worker, opened, sealed);
        }
        Some((command, Handler::Aes(handler) | Handler::AesBatched(handler))) => (command, handler),
    };
    begin(worker, command);
    let load = std::mem::take(&mut opened.load);
    match handler(worker, &opened.id, load) {
        Ok(value) => opened.reply(&value),
        Err(e) => opened.failed(command.name, &e),
    }
}

/// Whether this minion may not use the command.
fn refuses(worker: &Context, command: &Command, id: &MinionId) -> bool {
    let refused = command.who == CallerKind::Syndic && !worker.config.order_masters;
    if refused {
        log::warn!(
            minion:% = id;
            "{id} sent {}, which only a syndic may (order_masters); refused",
            command.name
        );
    }
    refused
}

/// `_aes_keys`, specific to halite: the key of publications and the one on offer, each with the master's
/// signature as in a sign-in (reference 3.4). It needs no RSA operation, so that a whole fleet can ask at once.
pub(crate) fn aes_keys(worker: &mut Context) -> Result<Value, ExitError> {
    let present = worker.aes_key()?;
    let mut keys =
        halite_wire::map! {"aes" => present.text.as_str(), "sig" => present.digest_signature};
    if let Some(next) = worker.next_aes_key()? {
        keys.set("next", next.text.as_str());
        keys.set("next_sig", next.digest_signature);
    }
    Ok(Value::Map(keys))
}

/// `_return`: stores the result, then fires its event.
pub(crate) fn returned(
    worker: &mut Context,
    id: &MinionId,
    mut load: Map,
) -> Result<Value, ExitError> {
    if !signature_good(worker, id, &mut load) {
        return Ok(Value::Nil);
    }
    load.remove(PEER);
    let (jid, keep) = match load.str("jid").unwrap_or_default() {
        "req" => (worker.jids.next(), ReturnStorage::AsJob),
        "nocache" => (worker.jids.next(), ReturnStorage::No),
        text => match text.parse::<Jid>() {
            Ok(jid) => (jid, ReturnStorage::Yes),
            Err(e) => {
                log::warn!(minion:% = id; "{id} returned for an invalid job: {e}");
                return Ok(Value::Nil);
            }
        },
    };
    if keep == ReturnStorage::AsJob {
        load.set("jid", jid.as_str());
        let args = load.get("fun_args").cloned().unwrap_or_default();
        load.set("arg", args);
        load.set("tgt_type", "glob");
        load.set("tgt", id.as_str());
    }
    if keep != ReturnStorage::Yes {
        load = unmasked(load);
    }
    let keep = match worker.config.job_cache {
        true => keep,
        false => ReturnStorage::No,
    };
    let fun = load.str("fun").unwrap_or_default();
    log::debug!(jid:% = jid, minion:% = id, fun; "return of {id} for job {jid}");
    worker.batch.returned(keep, jid, id.clone(), load);
    Ok(Value::Nil)
}

/// Checks `sig` of a return (`minion_sign_messages`, reference 6.3). `false` means to drop it.
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
    log::error!(minion:% = id; "the signature of a return of {id} is invalid");
    !worker.config.drop_messages_signature_fail
}

/// `_minion_event`: one event, or a list of them.
pub(crate) fn minion_event(
    worker: &mut Context,
    id: &MinionId,
    load: Map,
) -> Result<Value, ExitError> {
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
                // Under its own name a minion may fire only what every minion may; the rest would speak for
                // others.
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
            worker.stores.syndics.put(id)?;
            worker.batch.fire(&tag, load);
            return Ok(Value::Nil);
        }
        fire(worker, id, &tag, load);
    }
    Ok(Value::Nil)
}

fn fire(worker: &mut Context, id: &MinionId, tag: &str, data: Map) {
    match tag.parse::<Tag>() {
        Ok(tag) if may_fire(id, tag.as_str()) => worker.batch.fire(tag.as_str(), unmasked(data)),
        Ok(tag) => {
            log::warn!(minion:% = id, tag:% = tag; "{id} may not fire events tagged {tag}; dropped")
        }
        Err(e) => log::warn!(minion:% = id; "{id}: {e}"),
    }
}

/// The data of an event without the user name by which the reactor knows its own events, and without the master from which it
/// would come.
fn unmasked(mut data: Map) -> Map {
    data.remove(PEER);
    if data.str("user") == Some(REACTOR_USER) {
        data.remove("user");
    }
    data
}

/// Minions may not fire tags that speak for the master or for another minion. Stock Salt applies its list only
/// to the `events` form (`daemons/masterapi.py MINION_EVENT_BLACKLIST`); here it applies to every form, and
/// names are checked. Tags of jobs have exactly the levels that Salt's have: `*` in the globs of listeners matches
/// slashes as well, so `salt/job/*/ret/*` would match a longer one.
fn may_fire(id: &MinionId, tag: &str) -> bool {
    let mut parts = tag.split('/');
    match (parts.next(), parts.next()) {
        (Some("salt"), Some("job")) => {
            let (jid, kind, whose) = (parts.next(), parts.next(), parts.next());
            let (number, end) = (parts.next(), parts.next());
            let numbered = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
            let fits = match kind {
                Some("prog") => number.is_some_and(numbered),
                Some("start" | "sub") => number.is_none(),
                _ => false,
            };
            fits && end.is_none()
                && jid.is_some_and(|j| j.parse::<Jid>().is_ok())
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

/// `_master_opts`: what a minion's state system needs to know (reference 8.2).
pub(crate) fn master_opts(worker: &mut Context, load: &Map) -> Value {
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

/// `revoke_auth`: a minion revokes its own key (`saltutil.revoke_auth`).
pub(crate) fn revoke_auth(
    worker: &mut Context,
    id: &MinionId,
    mut load: Map,
) -> Result<Value, ExitError> {
    use halite_store::keys::KeyState;
    load.remove("cmd");
    if !worker.config.allow_minion_key_revoke {
        log::warn!(minion:% = id; "{id} asked for its key to be deleted, which allow_minion_key_revoke forbids");
        return Ok(Value::Map(load));
    }
    let lock = worker.stores.keys.lock(id)?;
    worker.stores.keys.delete(KeyState::Accepted, id)?;
    drop(lock);
    worker.stores.sessions.remove(id)?;
    if !load.get("preserve_minion_cache").is_some_and(Value::truthy) {
        worker.stores.minions.remove(id)?;
    }
    log::info!(minion:% = id; "{id} revoked its key");
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
            "salt/job/20261121092637195592/start/m1",
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
            "salt/job/20261121092637195592/prog/m1",
            "salt/job/20261121092637195592/prog/m1/0/ret/m2",
            "salt/job/20261121092637195592/prog/m1/ret",
            "salt/job/20261121092637195592/prog/m1/new",
            "salt/job/20261121092637195592/sub/m1/ret/m2",
            "salt/job/20261121092637195592/start/m1/new",
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
