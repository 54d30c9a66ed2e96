//! Fetches the publication key under the session key: no sign-in, no RSA operation of the master.
//!
//! A halite master announces in its reply to a sign-in (`rekey`) that it supports the command `_aes_keys`. The reply to
//! it has the current key and, while one is offered, the next, each with the master's signature as in a sign-in
//! (reference `salt-protocol.md` 3.4). A minion sends the command after a publication `rekey` and when it cannot decrypt
//! a publication; if that fails, it signs in.

use super::channel::{Channel, Reply};
use super::credentials::PublicationKeys;
use super::interrupt::Stop;
use super::session::Session;
use super::signin::{MasterKey, signed_key};
use halite_sys::exit::ExitError;
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Verifies the reply of `master`. The error is what is wrong with it.
pub fn verify(master: &MasterKey, answer: &Map) -> Result<PublicationKeys, &'static str> {
    let key = |name, sig| {
        let text = answer.bytes(name).ok_or("the answer has no key")?;
        signed_key(master, text, answer.bytes(sig))
    };
    Ok(PublicationKeys {
        aes: key("aes", "sig")?,
        next: match answer.contains("next") {
            true => Some(key("next", "next_sig")?),
            false => None,
        },
    })
}

/// Gets keys that are newer than those of generation `seen`: with `_aes_keys`, or else by a sign-in.
///
/// # Errors
/// The master refuses permanently.
pub fn renew(session: &Arc<Session>, seen: u64, stop: &Stop) -> Result<(), ExitError> {
    if !fetch(session, seen, stop)? {
        session.renew(seen, stop)?;
    }
    Ok(())
}

/// Requests the keys with `_aes_keys`; returns whether the session now has newer ones than those of generation `seen`.
///
/// # Errors
/// The master no longer has the session key, and permanently refuses a sign-in.
pub fn fetch(session: &Arc<Session>, seen: u64, stop: &Stop) -> Result<bool, ExitError> {
    let newer = || session.present().is_some_and(|c| c.generation > seen);
    if newer() {
        return Ok(true);
    }
    if !session.present().is_some_and(|c| c.rekeys) {
        return Ok(false);
    }
    let load = halite_wire::map! {"cmd" => "_aes_keys"};
    let timeout = Duration::from_secs(session.config().auth_timeout.max(1));
    let answer = Channel::new(session, stop.clone())?.call(&load, timeout, 1)?;
    // The channel may have signed in: then there are newer keys, whatever the reply was.
    let Some(present) = session.present() else {
        return Ok(false);
    };
    let adopted = match answer {
        Reply::Value(Value::Map(answer)) => match verify(&present.master, &answer) {
            Ok(keys) => {
                if keys.next.is_some() {
                    log::debug!("received the next publication key");
                }
                session.adopt(&present, keys)
            }
            Err(why) => {
                log::warn!("no publication key from the master: {why}");
                false
            }
        },
        Reply::Stopped => true,
        Reply::Value(_) | Reply::Silence | Reply::Refused(_) => false,
    };
    Ok(adopted || newer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{master, private};
    use halite_crypto::{HashType, KeyString};

    fn signed(key: &KeyString) -> Vec<u8> {
        let digest = HashType::Sha256.hex(key.as_bytes());
        private("master").sign_digest(&digest)
    }

    #[test]
    fn keys_have_to_be_the_masters() {
        let (aes, next) = (KeyString::generate(), KeyString::generate());
        let mut answer = halite_wire::map! {"aes" => aes.as_str(), "sig" => signed(&aes)};
        let alone = PublicationKeys {
            aes: aes.clone(),
            next: None,
        };
        assert_eq!(verify(&master(), &answer), Ok(alone));
        answer.set("next", next.as_str());
        assert!(verify(&master(), &answer).is_err(), "it is not signed");
        answer.set("next_sig", signed(&aes));
        assert!(verify(&master(), &answer).is_err(), "that is another key's");
        answer.set("next_sig", signed(&next));
        let both = PublicationKeys {
            aes,
            next: Some(next.clone()),
        };
        assert_eq!(verify(&master(), &answer), Ok(both));
        answer.set("aes", next.as_str());
        assert!(verify(&master(), &answer).is_err());
        assert!(verify(&master(), &Map::new()).is_err());
        let stranger = MasterKey {
            pem: String::new(),
            key: private("minion").public(),
        };
        answer.set("sig", signed(&next));
        assert!(verify(&master(), &answer).is_ok());
        assert!(verify(&stranger, &answer).is_err());
    }
}
