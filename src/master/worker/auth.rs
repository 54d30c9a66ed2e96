//! `_auth`: sign-in of minions, in Salt's order of decisions
//! (reference `salt-protocol.md` 3; `salt/master.py AuthFuncs._auth_impl_sync`).

use super::admit::admit;
use super::context::Context;
use halite_crypto::{CipherKind, Encryption, IdentityPublic, PrivateKey, PublicKey, Signing};
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::time::Instant;

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
    let Some(master) = worker.master.rsa().cloned() else {
        // Stock minions ask every few seconds, for ever.
        if let Some(times) = worker.unfit.tick(Instant::now()) {
            log::warn!(
                peer:% = peer;
                "{peer} as {} signs in as Salt's minions do, which need an RSA key of the master; this one is {} (key_type; times: {times})",
                excerpt(load.str("id").unwrap_or_default(), 64), worker.master.kind()
            );
        }
        return bad("bad sig algo");
    };
    let is_rsa = |key: &IdentityPublic| match key.rsa() {
        Some(_) => Ok(()),
        None => Err("Salt's sign-in needs an RSA key"),
    };
    let reply = match admit(worker, load, peer, is_rsa)? {
        Ok((id, IdentityPublic::Rsa(key))) => {
            match accepted(worker, &id, load, (&master, &key), sig_algo, nonce)? {
                Some(reply) => reply,
                None => return bad("bad enc algo"),
            }
        }
        // Refused above.
        Ok((_, IdentityPublic::Ed25519(_))) => return bad("bad sig algo"),
        Err(ret) => halite_wire::map! {"ret" => ret, "nonce" => nonce},
    };
    Ok(signed(&master, &reply, sig_algo))
}

/// The reply to a minion that may sign in; `None` if we do not have its `enc_algo`.
fn accepted(
    worker: &mut Context,
    id: &MinionId,
    load: &Map,
    (master, key): (&PrivateKey, &PublicKey),
    sig_algo: Signing,
    nonce: &str,
) -> Result<Option<Map>, ExitError> {
    let Ok(enc_algo) = load
        .str("enc_algo")
        .unwrap_or("OAEP-SHA1")
        .parse::<Encryption>()
    else {
        return Ok(None);
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
        if let Ok(token) = master.decrypt(enc_algo, token) {
            reply.set("token", key.encrypt(enc_algo, &token).map_err(crypto)?);
        }
    }
    let aes = worker.aes_key()?;
    let session = worker
        .stores
        .sessions
        .get_or_create(CipherKind::Salt, id, "")?;
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
    Ok(Some(reply))
}

fn clear_reply(ret: &str) -> Value {
    Value::Map(halite_wire::map! {"enc" => "clear", "load" => halite_wire::map! {"ret" => ret}})
}

/// The signed wrapper of every reply (`_clear_signed`).
fn signed(master: &PrivateKey, inner: &Map, algorithm: Signing) -> Value {
    let load = msgpack::encode_map(inner, Profile::Wire);
    let sig = master.sign(algorithm, &load);
    Value::Map(halite_wire::map! {"enc" => "clear", "load" => load, "sig" => sig})
}
