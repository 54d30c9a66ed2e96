//! Sign-ins at masters of all kinds, and at impostors.

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
                let payload = msgpack::decode_load(&responder.payload, Budget::fixed()).unwrap();
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
    let sessions = KeptSessions::default();
    let known = Known {
        pinned,
        seen,
        sessions: &sessions,
    };
    let (mut exchange, mut body) = Exchange::begin(terms, known, NONCE, 0);
    for messages in 1..5 {
        match exchange.step(terms, known, &answer(&body)) {
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

/// A minion that has its session from an earlier process.
#[test]
fn a_session_is_taken_up_again() {
    let (halite, terms, pinned) = (Halite::new(), minion(), master());
    let session = KeyString::generate();
    let (mut seen, mut sessions) = (SeenMasters::default(), KeptSessions::default());
    seen.add(&pinned, halite.key.public());
    sessions.add(&pinned, &session);
    let known = Known {
        pinned: Some(&pinned),
        seen: &seen,
        sessions: &sessions,
    };
    let sealed = |key: &KeyString, nonce: &str, reply: &Map| {
        let write = |out: &mut Vec<u8>| {
            msgpack::encode_into(out, &reply.clone().into(), Profile::Wire);
            Ok::<(), std::convert::Infallible>(())
        };
        SessionCipher::new(CipherKind::Gcm, key).reply_with(100, nonce, write)
    };
    let mut keys = halite.reply.clone();
    keys.remove("session");
    let (exchange, body) = Exchange::begin(&terms, known, NONCE, 7);
    let envelope = msgpack::decode(&body).unwrap().into_map().unwrap();
    assert_eq!(envelope.str("enc"), Some("gcm"));
    let reply = sealed(&session, NONCE, &keys).unwrap();
    match exchange.step(&terms, known, &reply) {
        NextStep::Done(Verdict::Accepted(accepted)) => {
            assert_eq!(accepted.session, session);
            assert_eq!(Some(accepted.aes.as_str()), keys.str("aes"));
            assert_eq!(accepted.noise.as_ref(), Some(halite.key.public()));
            assert!(!accepted.pin && accepted.rekeys);
        }
        _ => panic!("not signed in"),
    }
    // Of a master that has forgotten it, of one without the command, and whatever a stranger can make: the handshake.
    for reply in [
        b"\xa8bad load".to_vec(),
        sealed(&session, NONCE, &Map::new()).unwrap(),
        sealed(&session, &"1".repeat(32), &keys).unwrap(),
        sealed(&KeyString::generate(), NONCE, &keys).unwrap(),
        unhex(&list(&json("auth-3008"))[0]["reply_hex"]),
        wrapped(Value::Map(Halite::new().introduction())),
        Vec::new(),
    ] {
        let (exchange, _) = Exchange::begin(&terms, known, NONCE, 7);
        let NextStep::Send(exchange, body) = exchange.step(&terms, known, &reply) else {
            panic!("no handshake after {reply:?}");
        };
        let verdict = exchange.step(&terms, known, &halite.answer(&body));
        assert!(matches!(verdict, NextStep::Done(Verdict::Accepted(_))));
    }
    // Not where what the master says about its key is to be looked at, nor at one that is not pinned.
    let mut wary = minion();
    wary.always_verify = true;
    let unpinned = Known {
        pinned: None,
        ..known
    };
    for (terms, known) in [(&wary, known), (&terms, unpinned)] {
        let (_, body) = Exchange::begin(terms, known, NONCE, 7);
        assert_eq!(load_of(&body).str("noise"), Some(""));
    }
}

#[test]
fn stock_masters_see_nothing_new_but_a_field() {
    let (seen, sessions) = (SeenMasters::default(), KeptSessions::default());
    let nothing = Known {
        pinned: None,
        seen: &seen,
        sessions: &sessions,
    };
    let (_, body) = Exchange::begin(&minion(), nothing, NONCE, 0);
    let mut load = load_of(&body);
    assert_eq!(load.remove("noise"), Some("".into()));
    let (_, salt) = Exchange::begin(&terms(), nothing, NONCE, 0);
    assert_eq!(load_of(&salt), load);
    let file = json("auth-3008");
    let first = &list(&file)[0];
    let reply = unhex(&first["reply_hex"]);
    let (verdict, messages) = sign_in(&minion(), None, None, |_| reply.clone());
    assert_eq!(messages, 1);
    assert!(matches!(verdict, Verdict::Accepted(accepted) if accepted.cipher == CipherKind::Salt));
}
