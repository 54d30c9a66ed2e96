//! `_auth`: sign-in of minions, in Salt's order of decisions
//! (reference `salt-protocol.md` 3; `salt/master.py AuthFuncs._auth_impl_sync`).

use super::context::Context;
use crate::admission::{Candidate, Verdict};
use halite_crypto::{CipherKind, Encryption, PublicKey, Signing, clean_key};
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// A 2048-bit public key has 450 bytes; no reasonable one comes near this size.
const MAX_PUB: usize = 16 * 1024;

/// Handles one sign-in request: that of a halite peer if it has the field `noise`, which stock peers do not know.
pub(crate) fn request(worker: &mut Context, load: &Map, peer: &str) -> Result<Value, ExitError> {
    match load.bytes("noise") {
        Some(message) => super::noise::request(worker, load, message, peer),
        None => salt(worker, load, peer),
    }
}

fn salt(worker: &mut Context, load: &Map, peer: &str) -> Result<Value, ExitError> {
    let bad = |what: &str| Ok(clear_reply(what));
    let Some(nonce) = load.str("nonce") else {
        return Err(ExitError::new(1, "the request has no nonce"));
    };
    let Ok(sig_algo) = load
        .str("sig_algo")
        .unwrap_or("PKCS1v15-SHA1")
        .parse::<Signing>()
    else {
        return bad("bad sig algo");
    };
    match admit(worker, load, peer)? {
        Ok((id, key)) => accepted(worker, &id, load, &key, sig_algo, nonce),
        Err(ret) => Ok(signed(
            worker,
            &halite_wire::map! {"ret" => ret, "nonce" => nonce},
            sig_algo,
        )),
    }
}

/// Decides about a peer by `id` and `pub` of `load`, stores its key and fires the event. The inner error is the `ret` of the
/// reply to a peer that is not signed in.
///
/// # Errors
/// The key store cannot be used.
pub(super) fn admit(
    worker: &mut Context,
    load: &Map,
    peer: &str,
) -> Result<Result<(MinionId, PublicKey), Value>, ExitError> {
    let text = load.str("id").unwrap_or_default();
    let Ok(id) = text.parse::<MinionId>() else {
        log::warn!(peer:% = peer; "{peer} tried to sign in with an invalid id: {text:.64?}");
        return Ok(Err(false.into()));
    };
    let Some(presented) = load
        .str("pub")
        .filter(|p| p.len() <= MAX_PUB)
        .map(clean_key)
    else {
        return Ok(Err(false.into()));
    };
    let Ok(key) = PublicKey::from_pem(&presented) else {
        log::warn!(minion:% = id, peer:% = peer; "{peer} tried to sign in as {id} with an invalid RSA public key");
        return Ok(Err(false.into()));
    };
    let candidate = Candidate {
        id: &id,
        presented: &presented,
        grains: load.get("autosign_grains").and_then(Value::as_map),
        vouched: false,
    };
    if is_full(worker, &id) {
        log::warn!(
            minion:% = id, peer:% = peer;
            "{id} may not sign in: max_minions ({}) are connected",
            worker.config.max_minions
        );
        let event = candidate.event(&worker.config, false, Some("full"));
        fire_auth_event(worker, event);
        return Ok(Err("full".into()));
    }
    let decision = candidate.decide(&worker.config, &*worker.stores.keys)?;
    let verdict = decision.verdict;
    match verdict {
        Verdict::Pending { store: true } => {
            log::info!(minion:% = id, peer:% = peer; "new key of {id} from {peer}, waiting for `halite-key -a {id}`");
        }
        Verdict::Rejected { .. } => {
            log::info!(minion:% = id, peer:% = peer; "{id} from {peer} is rejected")
        }
        Verdict::Denied => log::error!(
            minion:% = id, peer:% = peer;
            "{peer} presented another key for {id} than the stored one; if the minion was reinstalled, \
             `halite-key -d {id}` and accept the new key"
        ),
        Verdict::Accepted { .. } => {
            log::debug!(minion:% = id, peer:% = peer; "{id} signs in from {peer}")
        }
        Verdict::Pending { store: false } => {}
    }
    candidate.keep(&*worker.stores.keys, verdict)?;
    drop(decision);
    let (result, act) = verdict.event_fields();
    let event = candidate.event(&worker.config, result, act);
    fire_auth_event(worker, event);
    Ok(match verdict {
        Verdict::Accepted { .. } => Ok((id, key)),
        Verdict::Pending { .. } => Err(true.into()),
        Verdict::Rejected { .. } | Verdict::Denied => Err(false.into()),
    })
}

fn fire_auth_event(worker: &mut Context, event: Map) {
    if worker.config.auth_events {
        worker.bus.fire("salt/auth", event);
    }
}

fn accepted(
    worker: &mut Context,
    id: &MinionId,
    load: &Map,
    key: &PublicKey,
    sig_algo: Signing,
    nonce: &str,
) -> Result<Value, ExitError> {
    let Ok(enc_algo) = load
        .str("enc_algo")
        .unwrap_or("OAEP-SHA1")
        .parse::<Encryption>()
    else {
        return Ok(clear_reply("bad enc algo"));
    };
    let crypto = |e: halite_crypto::CryptoError| ExitError::new(1, e.to_string());
    let mut reply = halite_wire::map! {
        "enc" => "pub",
        "pub_key" => worker.master_pub.as_str(),
        "publish_port" => worker.publish_port(),
    };
    if let Some(signing) = &worker.signing {
        reply.set(
            "pub_sig",
            signing.for_algorithm(sig_algo, &worker.master_pub),
        );
    }
    if let Some(token) = load.bytes("token") {
        // A token that does not decrypt is left out of the reply; a minion that has pinned our key then refuses
        // the reply, as it should.
        if let Ok(token) = worker.master.decrypt(enc_algo, token) {
            reply.set("token", key.encrypt(enc_algo, &token).map_err(crypto)?);
        }
    }
    let aes = worker.aes_key()?;
    let session = worker.stores.sessions.get_or_create(CipherKind::Salt, id)?;
    reply.set(
        "aes",
        key.encrypt(enc_algo, aes.text.as_bytes()).map_err(crypto)?,
    );
    reply.set(
        "session",
        key.encrypt(enc_algo, session.as_bytes()).map_err(crypto)?,
    );
    reply.set("sig", aes.digest_signature);
    // Tells halite's minions that `_aes_keys` is supported. Stock only reads the names it knows.
    reply.set("rekey", true);
    reply.set("nonce", nonce);
    Ok(signed(worker, &reply, sig_algo))
}

fn clear_reply(ret: &str) -> Value {
    Value::Map(halite_wire::map! {"enc" => "clear", "load" => halite_wire::map! {"ret" => ret}})
}

/// The signed wrapper of every reply (`_clear_signed`).
fn signed(worker: &Context, inner: &Map, algorithm: Signing) -> Value {
    let load = msgpack::encode_map(inner, Profile::Wire);
    let sig = worker.master.sign(algorithm, &load);
    Value::Map(halite_wire::map! {"enc" => "clear", "load" => load, "sig" => sig})
}

/// Whether `max_minions` is reached without this one. A minion has one connection to a publish port, so the
/// established connections there are counted.
fn is_full(worker: &Context, id: &MinionId) -> bool {
    let max = worker.config.max_minions as usize;
    if max == 0 {
        return false;
    }
    let connected = halite_sys::net::established(&worker.config.publish_ports());
    let has_session = [CipherKind::Salt, CipherKind::Gcm]
        .into_iter()
        .any(|kind| matches!(worker.stores.sessions.get(kind, id), Ok(Some(_))));
    connected >= max && !has_session
}
