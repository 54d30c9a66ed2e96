//! `_pillar`: compiles the pillar of a minion, stores its grains for targeting, and encrypts the reply under a
//! new key (`salt/master.py AESFuncs._pillar`, reference `salt-protocol.md` 6.4).

use super::context::Context;
use super::sealed::{Opened, Sealed};
use super::{HANDLER_FAILED, RequestAnswer};
use halite_crypto::{CipherKind, Crypticle, Encryption, KeyString, Signing};
use halite_render::pillar::PillarRequest;
use halite_store::minions::DataPart;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Seconds of `request_timeout` reserved for the steps after compilation.
const RESERVE: u64 = 5;

/// The form of the reply.
enum Reply {
    /// As a pillar reply, readable only with the minion's private key.
    Private(Value),
    /// As an ordinary reply, for halite's minions and with `pillar_version: 1`.
    Plain(Value),
}

/// Answers `_pillar`. Failures are reported in the clear, as in Salt.
pub(crate) fn answer(
    worker: &mut Context,
    mut opened: Opened,
    sealed: &Sealed<'_>,
) -> RequestAnswer {
    let load = std::mem::take(&mut opened.load);
    match request(worker, &opened.id, load, sealed, &opened.nonce) {
        Ok(Reply::Private(value)) => RequestAnswer::proven(msgpack::encode(&value, Profile::Wire)),
        Ok(Reply::Plain(value)) => opened.reply(&value),
        Err(e) => {
            let id = &opened.id;
            if sealed.kind == CipherKind::Gcm {
                return opened.failed("_pillar", &e);
            }
            log::error!(minion:% = id; "_pillar of {id} failed: {e}");
            RequestAnswer::clear(&HANDLER_FAILED.into())
        }
    }
}

fn request(
    worker: &mut Context,
    id: &MinionId,
    load: Map,
    sealed: &Sealed,
    nonce: &str,
) -> Result<Reply, ExitError> {
    // A reply under AES-256-GCM is only for the minion, and is from the master: it needs no key of its own.
    let plain = sealed.kind == CipherKind::Gcm
        || worker.config.pillar_version == 1 && load.str("ver") != Some("2");
    let pillar = match read(id, load) {
        Some(request) => Value::Map(compile(worker, &request)?),
        None => false.into(),
    };
    match plain {
        true => Ok(Reply::Plain(pillar)),
        false => seal(worker, id, pillar, sealed, nonce).map(Reply::Private),
    }
}

/// Reads a load; `None` if it has no grains, which Salt answers with `False`. Fields of the wrong type are
/// ignored.
fn read(id: &MinionId, mut load: Map) -> Option<PillarRequest> {
    let mut grains = load.remove("grains")?.into_map()?;
    grains.set("id", id.as_str());
    let text = |value: Option<Value>| match value {
        Some(Value::Str(text)) => Some(text),
        _ => None,
    };
    let map = |value: Option<Value>| value.and_then(Value::into_map).unwrap_or_default();
    let env = load.remove("env");
    Some(PillarRequest {
        id: id.clone(),
        grains: Arc::new(grains),
        saltenv: text(load.remove("saltenv").or(env)),
        pillarenv: text(load.remove("pillarenv")),
        ext: load.remove("ext").filter(Value::truthy),
        pillar_override: map(load.remove("pillar_override")),
        extra_minion_data: map(load.remove("extra_minion_data")),
        clean_cache: load.get("clean_cache").is_some_and(Value::truthy),
    })
}

fn compile(worker: &mut Context, request: &PillarRequest) -> Result<Map, ExitError> {
    let limit = worker.config.request_timeout.saturating_sub(RESERVE).max(1);
    let pillar = worker
        .pillar()
        .pillar(request, Duration::from_secs(limit))
        .map_err(|e| ExitError::new(1, e.to_string()))?;
    if worker.config.minion_data_cache {
        let (id, cache) = (&request.id, &worker.stores.minions);
        let before = worker.cluster.as_ref().map(|_| cache.version(id));
        match cache.store(id, &request.grains, &pillar) {
            // It gets its pillar, but no target by grains finds it.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => {
                log::warn!(minion:% = id; "the data of {id} are not cached: {e}");
                cache.clear(id, DataPart::Grains)?;
                return Ok(pillar);
            }
            stored => stored?,
        }
        if before.is_some_and(|before| before != cache.version(id)) {
            worker.stored("minion", id);
        }
        if worker.config.minion_data_cache_events {
            let data = halite_wire::map! {"Minion data cache refresh" => request.id.as_str()};
            worker
                .bus
                .fire(&format!("minion/refresh/{}", request.id), data);
        }
    }
    Ok(pillar)
}

/// Encrypts the reply with a new key, which only the minion can read, and signs it.
fn seal(
    worker: &mut Context,
    id: &MinionId,
    pillar: Value,
    sealed: &Sealed,
    nonce: &str,
) -> Result<Value, ExitError> {
    let failed = |e: &dyn std::fmt::Display| ExitError::new(1, e.to_string());
    let enc: Encryption = sealed
        .enc_algo
        .unwrap_or("OAEP-SHA1")
        .parse()
        .map_err(|e| failed(&e))?;
    let sig: Signing = sealed
        .sig_algo
        .unwrap_or("PKCS1v15-SHA1")
        .parse()
        .map_err(|e| failed(&e))?;
    let key = worker
        .accepted_key(id)
        .ok_or_else(|| ExitError::new(1, "its key is no longer accepted"))?;
    let once = KeyString::generate();
    let key = key
        .rsa()
        .ok_or_else(|| ExitError::new(1, "its key is no RSA key"))?;
    let wrapped = key.encrypt(enc, once.as_bytes()).map_err(|e| failed(&e))?;
    let data = msgpack::encode_map(
        &halite_wire::map! {"key" => wrapped.clone(), "pillar" => pillar, "nonce" => nonce},
        Profile::Wire,
    );
    let signature = worker.master.sign(sig, &data);
    let inner = Value::Map(halite_wire::map! {"data" => data, "sig" => signature});
    let sealed = Crypticle::new(&once).dumps(&inner, None);
    Ok(Value::Map(
        halite_wire::map! {"key" => wrapped, "pillar" => sealed},
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_all_series() {
        let id: MinionId = "m1".parse().unwrap();
        assert!(read(&id, halite_wire::map! {"cmd" => "_pillar"}).is_none());
        let load = halite_wire::map! {
            "cmd" => "_pillar", "ver" => "2", "id" => "m1",
            "grains" => halite_wire::map! {"os" => "x", "id" => "other"},
            "saltenv" => "dev", "pillarenv" => Value::Nil,
            "pillar_override" => Value::Nil, "extra_minion_data" => Map::new(),
        };
        let request = read(&id, load).unwrap();
        assert_eq!(request.grains.str("id"), Some("m1"));
        assert_eq!(
            (request.saltenv.as_deref(), request.pillarenv.as_deref()),
            (Some("dev"), None)
        );
        assert!(request.pillar_override.is_empty() && !request.clean_cache);
        let old = halite_wire::map! {"grains" => Map::new(), "env" => "qa", "clean_cache" => true};
        let request = read(&id, old).unwrap();
        assert_eq!(
            (request.saltenv.as_deref(), request.clean_cache),
            (Some("qa"), true)
        );
    }
}
