//! A sign-in with one master, message by message: the handshake between halite peers if the master is halite's
//! (docs/protocol.md), else Salt's sign-in.
//!
//! Salt's request asks for the handshake by an empty field `noise`, which stock masters pass over. A halite master answers with
//! its static key and its own key's signature of it; the handshake follows. A minion that has seen the static key starts with
//! the handshake, and takes nothing else from this master: who could remove the field on the way would gain nothing.
//!
//! A minion that still has its session key, after a restart or in another process, needs no handshake: it asks for the publication
//! key under that key (`_resume`). If the master no longer has the session, the handshake follows.

use super::{
    Accepted, KeptSessions, MasterKey, NOISE_SIGNING, Request, SeenMasters, SignInConfig, Verdict,
    clear, key_string, refusal, trusted_master, verify, wrong_finger,
};
use crate::load::Load;
use crate::reply;
use halite_crypto::noise::{Initiator, Signer, StaticPublic, fingerprint, prologue, statement};
use halite_crypto::{CipherKind, KeyString, SessionCipher};
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

const LOST: &str = "the master no longer supports the handshake that it had before; if it was replaced by one of stock Salt, \
    remove minion_master.noise from pki_dir";

/// What a minion knows of masters.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The pinned key.
    pub pinned: Option<&'a MasterKey>,
    /// The static keys of masters that have the handshake.
    pub seen: &'a SeenMasters,
    /// The sessions that masters may still have.
    pub sessions: &'a KeptSessions,
}

/// What comes after a reply.
pub enum NextStep {
    /// Send this and wait for the reply.
    Send(Exchange, Vec<u8>),
    /// The sign-in is over.
    Done(Verdict),
}

/// A master that has proven its static key, or has it pinned.
struct Introduced {
    master: MasterKey,
    pin: bool,
    key: StaticPublic,
}

/// A sign-in that waits for a reply.
pub struct Exchange(State);

enum State {
    Salt(Box<Request>),
    Resume {
        session: KeyString,
        cipher: SessionCipher,
        nonce: String,
        with: Box<Introduced>,
    },
    Noise {
        initiator: Initiator,
        with: Box<Introduced>,
        /// Whether the master may still say that it has another static key.
        first: bool,
    },
}

impl Exchange {
    /// Starts a sign-in; also returns the message to send. `now` is in Unix seconds.
    pub fn begin(
        terms: &SignInConfig,
        known: Known<'_>,
        nonce: &str,
        now: i64,
    ) -> (Exchange, Vec<u8>) {
        // With these options, what the master says about its key is to be looked at.
        let wary = terms.always_verify || terms.verify_master_sign;
        if let Some(master) = known.pinned.filter(|_| !wary)
            && let Some(key) = known.seen.of(master)
            && wrong_finger(terms, master).is_none()
        {
            let with = Introduced {
                master: master.clone(),
                pin: false,
                key: *key,
            };
            if let Some(session) = known.sessions.of(master) {
                return Exchange::resume(terms, session.clone(), with, nonce, now);
            }
            if let Some(begun) = Exchange::noise(terms, with, true) {
                return begun;
            }
        }
        let mut request = Request::new(terms, known.pinned, nonce);
        let body = std::mem::take(&mut request.body);
        (Exchange(State::Salt(Box::new(request))), body)
    }

    fn resume(
        terms: &SignInConfig,
        session: KeyString,
        with: Introduced,
        nonce: &str,
        now: i64,
    ) -> (Exchange, Vec<u8>) {
        let cipher = SessionCipher::new(CipherKind::Gcm, &session);
        let load = halite_wire::map! {"cmd" => "_resume"};
        let body = terms.seal(&cipher, &Load::from(&load), nonce, now, false);
        let state = State::Resume {
            session,
            cipher,
            nonce: nonce.to_owned(),
            with: Box::new(with),
        };
        (Exchange(state), body)
    }

    fn noise(terms: &SignInConfig, with: Introduced, first: bool) -> Option<(Exchange, Vec<u8>)> {
        let identity = terms.noise.as_ref()?;
        let mut payload = halite_wire::map! {
            "id" => terms.id.as_str(), "pub" => terms.public.as_str(),
            "sig" => terms.certificate(identity, &with.master),
        };
        if let Some(grains) = &terms.autosign_grains {
            payload.set("autosign_grains", grains.clone());
        }
        let payload = msgpack::encode_map(&payload, Profile::Wire);
        let prologue = prologue(&fingerprint(&with.master.pem), &terms.id);
        let (initiator, message) = Initiator::start(&identity.key, &with.key, &prologue, &payload)
            .inspect_err(|e| log::error!("{e}"))
            .ok()?;
        let load =
            halite_wire::map! {"cmd" => "_auth", "id" => terms.id.as_str(), "noise" => message};
        let state = State::Noise {
            initiator,
            with: Box::new(with),
            first,
        };
        Some((Exchange(state), clear(load)))
    }

    /// Takes the reply. `known` is that of [`Exchange::begin`].
    pub fn step(self, terms: &SignInConfig, known: Known<'_>, reply: &[u8]) -> NextStep {
        let Known { pinned, seen, .. } = known;
        let outer = msgpack::decode_load(reply, Budget::fixed()).unwrap_or_default();
        let untrusted = |why: &str| NextStep::Done(Verdict::Untrusted(why.to_owned()));
        let start = |with, first| {
            Exchange::noise(terms, with, first).map_or_else(
                || untrusted("the handshake cannot be started"),
                |(exchange, body)| NextStep::Send(exchange, body),
            )
        };
        match (self.0, outer.get("noise")) {
            (
                State::Resume {
                    session,
                    cipher,
                    nonce,
                    with,
                },
                _,
            ) => match reply::open(&cipher, reply, &nonce) {
                Ok(Value::Map(mut reply)) if reply.contains("aes") => {
                    reply.set("session", session.as_str());
                    NextStep::Done(finish(&reply, *with))
                }
                // The master no longer has the session, or the command.
                _ => start(*with, true),
            },
            (State::Noise { first: false, .. }, Some(Value::Map(_))) => {
                untrusted("the master does not use the static key that it has just told")
            }
            (_, Some(Value::Map(about))) if terms.noise.is_some() => {
                match introduced(terms, pinned, about) {
                    Ok(with) => start(with, false),
                    Err(verdict) => NextStep::Done(verdict),
                }
            }
            (
                State::Noise {
                    initiator, with, ..
                },
                Some(message),
            ) => {
                let message = message.as_bytes().unwrap_or_default();
                NextStep::Done(match initiator.finish(message) {
                    Ok(payload) => match msgpack::decode_load(&payload, Budget::fixed()) {
                        Ok(reply) => finish(&reply, *with),
                        Err(_) => Verdict::Unreadable,
                    },
                    Err(e) => Verdict::Untrusted(e.to_string()),
                })
            }
            (State::Noise { .. }, None) => untrusted(LOST),
            (State::Salt(_), _) if terms.key.rsa().is_none() => untrusted(
                "the master is not halite's, and this minion's key is Ed25519: for an RSA key, remove minion.pem from pki_dir, and the option key_type",
            ),
            (State::Salt(_), _) if terms.noise_only => {
                untrusted("the master is not halite's, and `handshake` is `noise`")
            }
            (State::Salt(request), _) => {
                let verdict = verify(terms, pinned, &request, reply);
                let bound = match &verdict {
                    Verdict::Accepted(accepted) => seen.binds(&accepted.master),
                    Verdict::Pending | Verdict::Rejected | Verdict::Full => {
                        pinned.is_some_and(|master| seen.binds(master))
                    }
                    _ => false,
                };
                match bound {
                    true => untrusted(LOST),
                    false => NextStep::Done(verdict),
                }
            }
        }
    }
}

/// Verifies what a master says about its static key.
fn introduced(
    terms: &SignInConfig,
    pinned: Option<&MasterKey>,
    about: &Map,
) -> Result<Introduced, Verdict> {
    let untrusted = |why: &str| Verdict::Untrusted(why.to_owned());
    let (master, pin) = trusted_master(terms, pinned, about).map_err(Verdict::Untrusted)?;
    let key: Option<StaticPublic> = about.bytes("key").and_then(|key| key.try_into().ok());
    let key = key.ok_or_else(|| untrusted("the master's static key cannot be read"))?;
    let signature = about.bytes("sig").unwrap_or_default();
    let statement = statement(Signer::Master, &key, &fingerprint(&master.pem));
    if !master.key.verify(NOISE_SIGNING, &statement, signature) {
        return Err(untrusted(
            "the signature of the master's static key does not match its key",
        ));
    }
    match wrong_finger(terms, &master) {
        Some(wrong) => Err(wrong),
        None => Ok(Introduced { master, pin, key }),
    }
}

/// Reads a reply that only the master can have made.
fn finish(reply: &Map, with: Introduced) -> Verdict {
    if reply.contains("ret") {
        return refusal(reply);
    }
    let key = |name: &str| key_string(reply.bytes(name).unwrap_or_default()).ok();
    let port = reply
        .int("publish_port")
        .and_then(|p| u16::try_from(p).ok());
    let (Some(aes), Some(session), Some(publish_port)) = (key("aes"), key("session"), port) else {
        return Verdict::Unreadable;
    };
    Verdict::Accepted(Box::new(Accepted {
        aes,
        session,
        publish_port,
        master: with.master,
        pin: with.pin,
        rekeys: true,
        cipher: CipherKind::Gcm,
        noise: Some(with.key),
    }))
}

#[cfg(test)]
mod tests;
