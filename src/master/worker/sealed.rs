//! Encrypted requests of minions: opening and answering them.

use super::RequestAnswer;
use super::context::Context;
use halite_crypto::{CipherKind, SessionCipher};
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now_i64;
use halite_wire::budget::Budget;
use halite_wire::envelope::{Refusal, check_id};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::convert::Infallible;

/// An encrypted request as received.
pub(crate) struct Sealed<'a> {
    pub kind: CipherKind,
    pub id: Option<&'a str>,
    pub load: &'a [u8],
    pub enc_algo: Option<&'a str>,
    pub sig_algo: Option<&'a str>,
}

/// An authenticated request.
pub(crate) struct Opened {
    pub id: MinionId,
    pub cipher: SessionCipher,
    pub load: Map,
    pub nonce: String,
}

impl Opened {
    /// A reply encrypted under the session key.
    pub fn reply(&self, value: &Value) -> RequestAnswer {
        let room = msgpack::size_hint(value);
        let written = self.cipher.reply_with(room, &self.nonce, |out| {
            msgpack::encode_into(out, value, Profile::Wire);
            Ok::<(), Infallible>(())
        });
        match written {
            Ok(bytes) => RequestAnswer::proven(bytes),
            Err(never) => match never {},
        }
    }

    /// Salt answers an exception in a handler with an empty string under the session key.
    pub fn failed(&self, cmd: &str, e: &ExitError) -> RequestAnswer {
        let id = &self.id;
        log::error!(minion:% = id; "{cmd} of {id} failed: {e}");
        self.reply(&"".into())
    }
}

/// Decrypts and checks a request: accepted key, session key, age, id, token (`ReqServerChannel.handle_message`,
/// `validate_token`).
pub(super) fn open(worker: &mut Context, sealed: &Sealed) -> Result<Opened, Refusal> {
    let id: MinionId = sealed
        .id
        .and_then(|id| id.parse().ok())
        .ok_or(Refusal::BadLoad)?;
    let opened = worker.open(sealed.kind, &id, sealed.load);
    let (cipher, plain) = opened.ok_or(Refusal::BadLoad)?;
    let document = cipher.document(&plain).ok_or(Refusal::NotAMap)?;
    let Ok(mut load) = msgpack::decode_load(document, Budget::of(document.len())) else {
        return Err(Refusal::NotAMap);
    };
    check_id(&load)?;
    let ttl = worker.config.request_server_ttl;
    if ttl > 0 && !is_timely(load.int("ts"), unix_now_i64(), ttl) {
        return Err(Refusal::BadLoad);
    }
    if load.str("id") != Some(id.as_str()) {
        return Err(Refusal::BadLoad);
    }
    let token = load.remove("tok").ok_or(Refusal::BadLoad)?;
    if !token.as_bytes().is_some_and(|t| worker.token_valid(&id, t)) {
        return Err(Refusal::BadLoad);
    }
    if sealed.kind == CipherKind::Salt && worker.config.publish_private {
        // Stock's minion in place of halite's, which could not read private jobs. A sign-in alone does not prove that: anybody
        // can repeat the public key in it.
        worker.end_session(CipherKind::Gcm, &id);
    }
    let nonce = match load.remove("nonce") {
        // It precedes the reply, where the receiver expects 32 characters.
        Some(Value::Str(nonce)) if nonce.len() == 32 => nonce,
        _ => return Err(Refusal::BadLoad),
    };
    Ok(Opened {
        id,
        cipher,
        load,
        nonce,
    })
}

/// Whether a request was made within `ttl` seconds of `now`. One from the future would stay valid until then.
fn is_timely(ts: Option<i64>, now: i64, ttl: u64) -> bool {
    ts.is_some_and(|ts| ts.abs_diff(now) <= ttl)
}

#[cfg(test)]
mod tests {
    use super::is_timely;

    #[test]
    fn neither_old_requests_nor_ones_from_the_future() {
        let now = 1_700_000_000;
        for (ts, timely) in [
            (now, true),
            (now - 60, true),
            (now + 60, true),
            (now - 61, false),
            (now + 61, false),
            (i64::MAX, false),
            (i64::MIN, false),
        ] {
            assert_eq!(is_timely(Some(ts), now, 60), timely, "{ts}");
        }
        assert!(!is_timely(None, now, 60));
    }
}
