//! Sign-in of halite's minions: `_auth` with the field `noise` (docs/protocol.md, "Handshake between halite peers").
//!
//! No RSA operation with the master's key, and no state between requests: any worker can handle any of them.

use super::admit::{accepted_again, admit};
use super::context::{CertifiedKey, Context};
use halite_crypto::noise::{Responder, Signer, fingerprint, prologue, statement};
use halite_crypto::{CipherKind, IdentityPublic, Signing};
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Handles `_auth` with the first message of a handshake, or with an empty one, which asks for the master's static key.
pub(super) fn request(
    worker: &mut Context,
    load: &Map,
    message: &[u8],
    peer: &str,
) -> Result<Value, ExitError> {
    let id = load.str("id").unwrap_or_default();
    if message.is_empty() {
        return Ok(introduction(worker, load));
    }
    let responder = match Responder::read(
        &worker.noise.key,
        &prologue(&worker.noise.master, id),
        message,
    ) {
        Ok(responder) => responder,
        // Made for a static key that this master had before.
        Err(e) => {
            log::debug!(peer:% = peer; "{peer} as {}: {e}", excerpt(id, 64));
            return Ok(introduction(worker, load));
        }
    };
    let reply = answer(worker, id, &responder, peer)?;
    let reply = responder.reply(&msgpack::encode_map(&reply, Profile::Wire));
    let reply = reply.map_err(|e| ExitError::new(1, e.to_string()))?;
    Ok(halite_wire::map! {"enc" => "clear", "noise" => reply}.into())
}

/// Tells the master's static key, with the signature of its own key.
fn introduction(worker: &Context, load: &Map) -> Value {
    let CertifiedKey { key, signature, .. } = &worker.noise;
    let mut about = halite_wire::map! {
        "pub_key" => worker.master_pub.as_str(), "key" => key.public().to_vec(), "sig" => signature.clone(),
    };
    if let Some(signing) = &worker.signing {
        let algorithm = load.str("sig_algo").and_then(|name| name.parse().ok());
        let algorithm: Signing = algorithm.unwrap_or_default();
        about.set(
            "pub_sig",
            signing.for_algorithm(algorithm, &worker.master_pub),
        );
    }
    halite_wire::map! {"enc" => "clear", "noise" => about}.into()
}

/// What the reply carries.
fn answer(
    worker: &mut Context,
    id: &str,
    responder: &Responder,
    peer: &str,
) -> Result<Map, ExitError> {
    let refused = |ret: Value| halite_wire::map! {"ret" => ret};
    let Ok(load) = msgpack::decode_load(&responder.payload, Budget::fixed()) else {
        return Ok(refused(false.into()));
    };
    if load.str("id") != Some(id) {
        log::warn!(peer:% = peer; "{peer} as {}: it says another id in the handshake", excerpt(id, 64));
        return Ok(refused(false.into()));
    }
    let statement = statement(Signer::Minion, &responder.minion, &worker.noise.master);
    let signature = load.bytes("sig").unwrap_or_default();
    let certifies = |key: &IdentityPublic| {
        let valid = key.verify(CertifiedKey::SIGNING, &statement, signature);
        valid
            .then_some(())
            .ok_or("its key has not signed its static key")
    };
    match admit(worker, &load, peer, certifies)? {
        Ok((id, key)) => accepted(worker, &id, &key),
        Err(ret) => Ok(refused(ret)),
    }
}

/// `_resume`: what a sign-in gives, for a minion that still has its session, such as after a restart of it. The request is
/// under the session key, which proves that it is this minion and that its key is accepted.
pub(crate) fn resume(worker: &mut Context, id: &MinionId) -> Result<Value, ExitError> {
    let Some(key) = worker.accepted_key(id) else {
        return Ok(Map::new().into());
    };
    log::debug!(minion:% = id; "{id} signs in with the session that it has");
    accepted_again(worker, id, &key);
    let aes = worker.aes_key()?;
    let publish_port = worker.publish_port();
    Ok(halite_wire::map! {"aes" => aes.text.as_str(), "publish_port" => publish_port}.into())
}

fn accepted(worker: &mut Context, id: &MinionId, key: &IdentityPublic) -> Result<Map, ExitError> {
    let aes = worker.aes_key()?;
    let owner = fingerprint(&key.to_pem());
    let sessions = &worker.stores.sessions;
    let session = sessions.get_or_create(CipherKind::Gcm, id, &owner)?;
    Ok(halite_wire::map! {
        "aes" => aes.text.as_str(), "session" => session.as_str(), "publish_port" => worker.publish_port(),
    })
}
