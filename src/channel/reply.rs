//! Decrypts and verifies replies to requests under the session key. No IO.
//!
//! For callers that do not keep their keys in [`Credentials`](super::credentials::Credentials), such as the simulated
//! minions of `halite-swarm`; others use [`request`](super::request).

use halite_crypto::{
    Crypticle, CrypticleError, Encryption, IdentityKey, IdentityPublic, KeyString, SessionCipher,
    Signing, constant_time_eq,
};
use halite_wire::msgpack::{self, DecodeError, Profile};
use halite_wire::{Map, Value};
use std::fmt;

/// Why a reply is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// Not msgpack.
    Decode(DecodeError),
    /// Neither encrypted nor text.
    Clear,
    /// Not decrypted by the session key, or the reply to another request.
    Sealed {
        /// What is wrong with it.
        error: CrypticleError,
        /// The plaintext that the master sent instead.
        text: Option<String>,
    },
    /// The reply to `_pillar` holds no pillar.
    NoPillar(&'static str),
    /// A pillar that the master did not make for this request.
    Pillar(&'static str),
    /// A pillar that its own key does not decrypt.
    PillarSealed(CrypticleError),
}

impl ReplyError {
    /// Whether the master does not have our session key (any more), so that a new sign-in is needed.
    pub fn wants_sign_in(&self) -> bool {
        matches!(
            self,
            ReplyError::Clear
                | ReplyError::NoPillar(_)
                | ReplyError::Sealed {
                    error: CrypticleError::Authentication,
                    ..
                }
        )
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ReplyError::Decode(e) => e.fmt(f),
            ReplyError::Clear => f.write_str("the reply is not encrypted"),
            ReplyError::Sealed {
                text: Some(text), ..
            } => write!(f, "{:.100}", text.escape_debug().to_string()),
            ReplyError::Sealed { error, .. } | ReplyError::PillarSealed(error) => error.fmt(f),
            ReplyError::NoPillar(why) | ReplyError::Pillar(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Wraps an encrypted load in the envelope that the master expects.
pub fn envelope(
    session: &SessionCipher,
    id: &str,
    encryption: Encryption,
    signing: Signing,
    document: &[u8],
) -> Vec<u8> {
    let envelope = halite_wire::map! {
        "enc" => session.kind().enc(),
        "load" => session.seal_request(id, document),
        "version" => 3,
        "id" => id,
        "enc_algo" => encryption.to_string(),
        "sig_algo" => signing.to_string(),
    };
    msgpack::encode_map(&envelope, Profile::Wire)
}

/// Decrypts the reply to the request with this nonce.
///
/// # Errors
/// See [`ReplyError`].
pub fn open(session: &SessionCipher, reply: &[u8], nonce: &str) -> Result<Value, ReplyError> {
    let value = msgpack::decode(reply).map_err(ReplyError::Decode)?;
    let sealed = value.as_bytes().ok_or(ReplyError::Clear)?;
    session
        .open_reply(sealed, nonce)
        .map_err(|error| ReplyError::Sealed {
            error,
            text: match &value {
                Value::Str(text) => Some(text.clone()),
                _ => None,
            },
        })
}

/// Decrypts the reply to `_pillar`, which is encrypted with its own key and signed (reference 6.4). `key` is the minion's,
/// `master` the master key that the minion trusts.
///
/// # Errors
/// See [`ReplyError`].
pub fn open_pillar(
    key: &IdentityKey,
    encryption: Encryption,
    signing: Signing,
    master: &IdentityPublic,
    reply: &[u8],
    nonce: &str,
) -> Result<Map, ReplyError> {
    let invalid = |why| Err(ReplyError::Pillar(why));
    let Ok(Value::Map(outer)) = msgpack::decode(reply) else {
        return Err(ReplyError::NoPillar("the reply holds no pillar"));
    };
    let (Some(wrapped), Some(sealed)) = (outer.bytes("key"), outer.bytes("pillar")) else {
        return Err(ReplyError::NoPillar(
            "the reply holds no key for the pillar",
        ));
    };
    let unwrapped = key.rsa().map(|key| key.decrypt(encryption, wrapped));
    let Some(Ok(unwrapped)) = unwrapped else {
        return invalid("the key of the pillar was not encrypted for this minion");
    };
    let pillar_key = std::str::from_utf8(&unwrapped)
        .ok()
        .and_then(|text| KeyString::from_text(text).ok());
    let Some(pillar_key) = pillar_key else {
        return invalid("the key of the pillar is not a valid key");
    };
    let inner = Crypticle::new(&pillar_key)
        .loads(sealed, None)
        .map_err(ReplyError::PillarSealed)?;
    let Some(inner) = inner.as_map() else {
        return invalid("the pillar is not a map");
    };
    let (Some(data), Some(sig)) = (inner.bytes("data"), inner.bytes("sig")) else {
        return invalid("the pillar is not signed");
    };
    if !master.verify(signing, data, sig) {
        return invalid("the signature of the pillar does not match the master's key");
    }
    let Ok(Value::Map(mut data)) = msgpack::decode(data) else {
        return invalid("the signed part of the pillar is not a map");
    };
    if data.bytes("key") != Some(wrapped) {
        return invalid("the pillar was signed for another key");
    }
    let fresh = data
        .bytes("nonce")
        .is_some_and(|n| constant_time_eq(n, nonce.as_bytes()));
    if !fresh {
        return invalid("the pillar is the reply to another request");
    }
    pillar_of(data.remove("pillar").unwrap_or(true.into()))
}

/// The pillar in an authentic reply.
///
/// # Errors
/// [`ReplyError::Pillar`] if it is none.
pub fn pillar_of(reply: Value) -> Result<Map, ReplyError> {
    match reply {
        Value::Map(pillar) => Ok(pillar),
        // The master sends false if there is no pillar for this minion.
        other if !other.truthy() && !other.is_str("") => Ok(Map::new()),
        _ => Err(ReplyError::Pillar("the pillar is not a map")),
    }
}
