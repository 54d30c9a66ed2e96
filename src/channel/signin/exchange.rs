//! A sign-in with one master, message by message: the handshake between halite peers if the master is halite's
//! (docs/protocol.md), else Salt's sign-in.
//!
//! Salt's request asks for the handshake by an empty field `noise`, which stock masters pass over. A halite master answers with
//! its static key and its RSA key's signature of it; the handshake follows. A minion that has seen the static key starts with
//! the handshake, and takes nothing else from this master: who could remove the field on the way would gain nothing.

use super::{
    Accepted, MasterKey, NOISE_SIGNING, Request, SeenMasters, SignInConfig, Verdict, clear,
    key_string, refusal, trusted_master, verify, wrong_finger,
};
use halite_crypto::CipherKind;
use halite_crypto::noise::{Initiator, Signer, StaticPublic, fingerprint, prologue, statement};
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

const LOST: &str = "the master no longer supports the handshake that it had before; if it was replaced by one of stock Salt, \
    remove minion_master.noise from pki_dir";

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
    Noise {
        initiator: Initiator,
        with: Box<Introduced>,
        /// Whether the master may still say that it has another static key.
        first: bool,
    },
}

impl Exchange {
    /// Starts a sign-in; also returns the message to send.
    pub fn begin(
        terms: &SignInConfig,
        pinned: Option<&MasterKey>,
        seen: &SeenMasters,
        nonce: &str,
    ) -> (Exchange, Vec<u8>) {
        // With these options, what the master says about its key is to be looked at.
        let wary = terms.always_verify || terms.verify_master_sign;
        if let Some(master) = pinned.filter(|_| !wary)
            && let Some(key) = seen.key_of(master)
            && wrong_finger(terms, master).is_none()
        {
            let with = Introduced {
                master: master.clone(),
                pin: false,
                key: *key,
            };
            if let Some(begun) = Exchange::noise(terms, with, true) {
                return begun;
            }
        }
        let mut request = Request::new(terms, pinned, nonce);
        let body = std::mem::take(&mut request.body);
        (Exchange(State::Salt(Box::new(request))), body)
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

    /// Takes the reply. `pinned` and `seen` are those of [`Exchange::begin`].
    pub fn step(
        self,
        terms: &SignInConfig,
        pinned: Option<&MasterKey>,
        seen: &SeenMasters,
        reply: &[u8],
    ) -> NextStep {
        let outer = msgpack::decode_load(reply, Budget::fixed()).unwrap_or_default();
        let untrusted = |why: &str| NextStep::Done(Verdict::Untrusted(why.to_owned()));
        match (self.0, outer.get("noise")) {
            (State::Noise { first: false, .. }, Some(Value::Map(_))) => {
                untrusted("the master does not use the static key that it has just told")
            }
            (_, Some(Value::Map(about))) if terms.noise.is_some() => {
                match introduced(terms, pinned, about) {
                    Ok(with) => Exchange::noise(terms, with, false).map_or_else(
                        || untrusted("the handshake cannot be started"),
                        |(exchange, body)| NextStep::Send(exchange, body),
                    ),
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
                    Ok(payload) => finish(&payload, *with),
                    Err(e) => Verdict::Untrusted(e.to_string()),
                })
            }
            (State::Noise { .. }, None) => untrusted(LOST),
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
    let (master, pin) = trusted_master(terms, pinned, about).map_err(untrusted)?;
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

/// Reads the payload of the reply, which only the master can have made.
fn finish(payload: &[u8], with: Introduced) -> Verdict {
    let Ok(reply) = msgpack::decode_load(payload, Budget::fixed()) else {
        return Verdict::Unreadable;
    };
    if reply.contains("ret") {
        return refusal(&reply);
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
mod tests {
    use super::super::NoiseIdentity;
    use super::*;
    use crate::testing::{json, list, master, private, terms, unhex};
    use halite_crypto::noise::{Responder, StaticKey};
    use halite_crypto::{KeyString, PublicKey};

    const NONCE: &str = "0123456789abcdef0123456789abcdef";

    fn minion() -> SignInConfig {
        let mut terms = terms();
        terms.noise = Some(NoiseIdentity::new(StaticKey::generate()));
        terms
    }

    fn of() -> String {
        fingerprint(&master().pem)
    }

    /// A master as far as a minion sees it.
    struct Halite {
        key: StaticKey,
        reply: Map,
    }

    impl Halite {
        fn new() -> Halite {
            let [aes, session] = [0, 1].map(|_| KeyString::generate());
            Halite {
                key: StaticKey::generate(),
                reply: halite_wire::map! {
                    "aes" => aes.as_str(), "session" => session.as_str(), "publish_port" => 4505,
                },
            }
        }

        fn introduction(&self) -> Map {
            let statement = statement(Signer::Master, self.key.public(), &of());
            halite_wire::map! {
                "pub_key" => master().pem, "key" => self.key.public().to_vec(),
                "sig" => private("master").sign(NOISE_SIGNING, &statement),
            }
        }

        fn answer(&self, body: &[u8]) -> Vec<u8> {
            let load = load_of(body);
            let id = load.str("id").unwrap();
            let message = load.bytes("noise").unwrap();
            let noise: Value = match Responder::read(&self.key, &prologue(&of(), id), message) {
                Ok(responder) => {
                    let payload =
                        msgpack::decode_load(&responder.payload, Budget::fixed()).unwrap();
                    let key = PublicKey::from_pem(payload.str("pub").unwrap()).unwrap();
                    let statement = statement(Signer::Minion, &responder.minion, &of());
                    let signature = payload.bytes("sig").unwrap();
                    assert!(key.verify(NOISE_SIGNING, &statement, signature));
                    let reply = msgpack::encode_map(&self.reply, Profile::Wire);
                    responder.reply(&reply).unwrap().into()
                }
                Err(_) => self.introduction().into(),
            };
            wrapped(noise)
        }
    }

    fn wrapped(noise: Value) -> Vec<u8> {
        let reply = halite_wire::map! {"enc" => "clear", "noise" => noise};
        msgpack::encode_map(&reply, Profile::Wire)
    }

    fn load_of(body: &[u8]) -> Map {
        let mut envelope = msgpack::decode(body).unwrap().into_map().unwrap();
        envelope.remove("load").unwrap().into_map().unwrap()
    }

    /// A sign-in at whoever answers; also returns how many messages it took.
    fn sign_in(
        terms: &SignInConfig,
        pinned: Option<&MasterKey>,
        seen: Option<&StaticPublic>,
        answer: impl FnMut(&[u8]) -> Vec<u8>,
    ) -> (Verdict, usize) {
        let mut known = SeenMasters::default();
        if let Some(key) = seen {
            known.add(&master(), key);
        }
        sign_in_knowing(terms, pinned, &known, answer)
    }

    fn sign_in_knowing(
        terms: &SignInConfig,
        pinned: Option<&MasterKey>,
        seen: &SeenMasters,
        mut answer: impl FnMut(&[u8]) -> Vec<u8>,
    ) -> (Verdict, usize) {
        let (mut exchange, mut body) = Exchange::begin(terms, pinned, seen, NONCE);
        for messages in 1..5 {
            match exchange.step(terms, pinned, seen, &answer(&body)) {
                NextStep::Send(next, message) => (exchange, body) = (next, message),
                NextStep::Done(verdict) => return (verdict, messages),
            }
        }
        panic!("it does not end");
    }

    fn why(verdict: Verdict) -> String {
        match verdict {
            Verdict::Untrusted(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_master_is_met_and_then_known() {
        let (halite, terms) = (Halite::new(), minion());
        let (verdict, messages) = sign_in(&terms, None, None, |body| halite.answer(body));
        let Verdict::Accepted(accepted) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(
            (accepted.cipher, accepted.pin, messages),
            (CipherKind::Gcm, true, 2)
        );
        assert_eq!(accepted.noise.as_ref(), Some(halite.key.public()));
        assert_eq!(Some(accepted.session.as_str()), halite.reply.str("session"));
        let (verdict, messages) = sign_in(
            &terms,
            Some(&accepted.master),
            accepted.noise.as_ref(),
            |body| halite.answer(body),
        );
        let Verdict::Accepted(again) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!((again.pin, messages), (false, 1));
        // With another static key, it introduces itself again.
        let renewed = Halite::new();
        let answer = |body: &[u8]| renewed.answer(body);
        let (verdict, messages) = sign_in(&terms, Some(&master()), again.noise.as_ref(), answer);
        let Verdict::Accepted(renewed_too) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(renewed_too.noise.as_ref(), Some(renewed.key.public()));
        assert_eq!(messages, 2);
    }

    #[test]
    fn refusals_are_the_masters() {
        let terms = minion();
        for (ret, expected) in [
            (Value::from(true), Verdict::Pending),
            (false.into(), Verdict::Rejected),
            ("full".into(), Verdict::Full),
        ] {
            let mut halite = Halite::new();
            halite.reply = halite_wire::map! {"ret" => ret};
            assert_eq!(
                sign_in(&terms, None, None, |body| halite.answer(body)).0,
                expected
            );
        }
        for damaged in ["aes", "session", "publish_port"] {
            let mut halite = Halite::new();
            halite.reply.set(damaged, "x");
            let (verdict, _) = sign_in(&terms, None, None, |body| halite.answer(body));
            assert_eq!(verdict, Verdict::Unreadable);
        }
    }

    /// Whoever is between minion and master, or answers instead of it.
    #[test]
    fn nobody_gets_between() {
        let (halite, other, terms) = (Halite::new(), Halite::new(), minion());
        let (pinned, seen) = (master(), halite.key.public());
        // Salt's reply, which the minion would take from a master that it does not know.
        let file = json("auth-3008");
        let salt = unhex(&list(&file)[0]["reply_hex"]);
        let (verdict, _) = sign_in(&terms, Some(&pinned), Some(seen), |_| salt.clone());
        assert!(why(verdict).contains("no longer supports the handshake"));
        // The same where the minion asks for the signature of the master's key each time.
        let mut wary = minion();
        wary.always_verify = true;
        let (verdict, _) = sign_in(&wary, Some(&pinned), Some(seen), |_| salt.clone());
        why(verdict);
        let mut strict = minion();
        strict.noise_only = true;
        let (verdict, _) = sign_in(&strict, None, None, |_| salt.clone());
        assert!(why(verdict).contains("`handshake` is `noise`"));
        // Another static key, which the master has not signed.
        let mut forged = other.introduction();
        forged.set("sig", halite.introduction().bytes("sig").unwrap().to_vec());
        for (pinned, seen) in [(None, None), (Some(&pinned), Some(seen))] {
            let (verdict, _) = sign_in(&terms, pinned, seen, |_| wrapped(forged.clone().into()));
            assert!(why(verdict).contains("signature of the master's static key"));
        }
        // What a minion signs for itself is no statement of a master.
        let mut minions = halite.introduction();
        let statement = statement(Signer::Minion, halite.key.public(), &of());
        minions.set("sig", private("master").sign(NOISE_SIGNING, &statement));
        let (verdict, _) = sign_in(&terms, None, None, |_| wrapped(minions.clone().into()));
        assert!(why(verdict).contains("signature of the master's static key"));
        // Another master's.
        let mut stranger = halite.introduction();
        stranger.set("pub_key", terms.public.as_str());
        let (verdict, _) = sign_in(&terms, Some(&pinned), None, |_| {
            wrapped(stranger.clone().into())
        });
        assert!(why(verdict).contains("the master's key has changed"));
        // The right introduction for ever, an old reply, and no handshake at all.
        let (verdict, messages) = sign_in(&terms, Some(&pinned), Some(other.key.public()), |_| {
            wrapped(halite.introduction().into())
        });
        assert!(why(verdict).contains("static key that it has just told"));
        assert_eq!(messages, 2);
        let mut old = None;
        sign_in(&terms, Some(&pinned), Some(seen), |body| {
            old.insert(halite.answer(body)).clone()
        });
        let old = old.unwrap();
        for reply in [old, wrapped(Value::Nil), wrapped("x".into())] {
            let (verdict, _) = sign_in(&terms, Some(&pinned), Some(seen), |_| reply.clone());
            assert!(why(verdict).starts_with("handshake"));
        }
        let (verdict, _) = sign_in(&terms, Some(&pinned), Some(seen), |_| b"\xc1".to_vec());
        assert!(why(verdict).contains("no longer supports"));
    }

    /// All sequences of replies, genuine and forged: a session comes from the master alone, and ends the exchange.
    #[test]
    fn no_sequence_of_replies_leads_elsewhere() {
        let (halite, other, terms) = (Halite::new(), Halite::new(), minion());
        let (pinned, seen) = (master(), *halite.key.public());
        let mut forged = other.introduction();
        forged.set("sig", halite.introduction().bytes("sig").unwrap().to_vec());
        let mut old = Vec::new();
        sign_in(&terms, Some(&pinned), Some(&seen), |body| {
            old = halite.answer(body);
            old.clone()
        });
        let salt = unhex(&list(&json("auth-3008"))[0]["reply_hex"]);
        let fixed = [
            wrapped(halite.introduction().into()),
            wrapped(forged.into()),
            wrapped(Value::Nil),
            old,
            salt,
            b"\xa8bad load".to_vec(),
        ];
        let kinds = fixed.len() + 1;
        for (pinned, seen) in [
            (None, None),
            (Some(&pinned), None),
            (Some(&pinned), Some(&seen)),
        ] {
            for sequence in 0..kinds.pow(2) {
                let choice = |at: usize| sequence / kinds.pow(at as u32) % kinds;
                let mut at = 0;
                let (verdict, messages) = sign_in(&terms, pinned, seen, |body| {
                    at += 1;
                    match fixed.get(choice(at - 1)) {
                        Some(reply) => reply.clone(),
                        None => halite.answer(body),
                    }
                });
                assert!(messages <= 2, "{sequence}");
                if let Verdict::Accepted(accepted) = verdict {
                    let genuine = choice(messages - 1) == fixed.len();
                    let salts = choice(0) == 4 && seen.is_none();
                    match accepted.cipher {
                        CipherKind::Gcm => assert!(genuine, "{sequence}"),
                        CipherKind::Salt => assert!(salts, "{sequence}"),
                    }
                }
            }
        }
    }

    /// Options that were set after the first contact, and another RSA key of the master.
    #[test]
    fn a_known_master_is_looked_at() {
        let halite = Halite::new();
        let (pinned, seen) = (master(), halite.key.public());
        let mut terms = minion();
        terms.master_finger = "aa:bb".to_owned();
        let (verdict, _) = sign_in(&terms, Some(&pinned), Some(seen), |b| halite.answer(b));
        assert!(matches!(verdict, Verdict::WrongFinger(_)), "{verdict:?}");
        let mut terms = minion();
        terms.verify_master_sign = true;
        let (verdict, _) = sign_in(&terms, Some(&pinned), Some(seen), |b| halite.answer(b));
        assert!(why(verdict).contains("no signature of its public key"));
        let mut stolen = minion();
        stolen.noise_only = true;
        let other = MasterKey::parse(&terms.public).unwrap();
        let mut known = SeenMasters::default();
        known.add(&other, seen);
        let answer = |body: &[u8]| halite.answer(body);
        let (verdict, _) = sign_in_knowing(&stolen, Some(&other), &known, answer);
        assert!(why(verdict).contains("the master's key has changed"));
    }

    /// A damaged list of masters is no way back to Salt's sign-in, and another master in it does not bind this one.
    #[test]
    fn only_known_masters_are_bound() {
        let salt = unhex(&list(&json("auth-3008"))[0]["reply_hex"]);
        let (pinned, terms) = (master(), minion());
        let mut other = SeenMasters::default();
        other.add(&MasterKey::parse(&terms.public).unwrap(), &[1; 32]);
        for (seen, bound) in [
            (SeenMasters::default(), false),
            (other, false),
            (SeenMasters::parse(""), true),
        ] {
            for pinned in [None, Some(&pinned)] {
                let (verdict, _) = sign_in_knowing(&terms, pinned, &seen, |_| salt.clone());
                match verdict {
                    Verdict::Accepted(_) => assert!(!bound),
                    Verdict::Untrusted(why) => {
                        assert!(bound || !why.contains("no longer supports"), "{why}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn stock_masters_see_nothing_new_but_a_field() {
        let (_, body) = Exchange::begin(&minion(), None, &SeenMasters::default(), NONCE);
        let mut load = load_of(&body);
        assert_eq!(load.remove("noise"), Some("".into()));
        let (_, salt) = Exchange::begin(&terms(), None, &SeenMasters::default(), NONCE);
        assert_eq!(load_of(&salt), load);
        let file = json("auth-3008");
        let first = &list(&file)[0];
        let reply = unhex(&first["reply_hex"]);
        let (verdict, messages) = sign_in(&minion(), None, None, |_| reply.clone());
        assert_eq!(messages, 1);
        assert!(
            matches!(verdict, Verdict::Accepted(accepted) if accepted.cipher == CipherKind::Salt)
        );
    }
}
