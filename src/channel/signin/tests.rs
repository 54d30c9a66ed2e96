use super::*;
use crate::testing::{Json, json, list, master, private, terms, text, unhex, value};
use halite_crypto::KeyType;
use std::time::Duration;

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn vector(series: &str, name: &str) -> Json {
    let file = json(&format!("auth-{series}"));
    list(&file)
        .iter()
        .find(|v| v["name"] == name)
        .unwrap()
        .clone()
}

/// The configuration that a vector was made with.
fn terms_of(v: &Json) -> SignInConfig {
    let load = &v["request"]["load"];
    let mut terms = terms();
    terms.encryption = text(&load["enc_algo"]).parse().unwrap_or_default();
    terms.signing = text(&load["sig_algo"]).parse().unwrap_or_default();
    terms
}

fn verified(terms: &SignInConfig, pinned: Option<&MasterKey>, v: &Json) -> Verdict {
    let request = Request::new(terms, pinned, NONCE);
    verify(terms, pinned, &request, &unhex(&v["reply_hex"]))
}

fn why(verdict: Verdict) -> String {
    match verdict {
        Verdict::Untrusted(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_stocks() {
    let v = vector("3006", "accepted-first-contact-no-token");
    let request = Request::new(&terms(), None, NONCE);
    assert_eq!(request.body, unhex(&v["request_hex"]));
    // The encryption of the token is randomized.
    let v = vector("3006", "accepted-with-token");
    let request = Request::new(&terms(), Some(&master()), NONCE);
    let got = msgpack::decode(&request.body).unwrap();
    let got = got
        .as_map()
        .unwrap()
        .get("load")
        .unwrap()
        .as_map()
        .unwrap()
        .clone();
    let want = value(&v["request"]["load"]).into_map().unwrap();
    let keys = |m: &Map| {
        m.iter()
            .map(|(k, _)| k.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&got), keys(&want));
    let token = private("master")
        .rsa()
        .unwrap()
        .decrypt(terms().encryption, got.bytes("token").unwrap())
        .unwrap();
    assert_eq!(token, terms().token.as_bytes());
}

#[test]
fn autosign_grains_go_before_the_token() {
    let mut terms = terms();
    terms.autosign_grains = Some(halite_wire::map! {"uuid" => "x"});
    let request = Request::new(&terms, Some(&master()), NONCE);
    let got = msgpack::decode(&request.body).unwrap();
    let load = got
        .as_map()
        .unwrap()
        .get("load")
        .unwrap()
        .as_map()
        .unwrap()
        .clone();
    let keys: Vec<_> = load.iter().map(|(k, _)| k.as_str().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "cmd",
            "id",
            "nonce",
            "enc_algo",
            "sig_algo",
            "autosign_grains",
            "token",
            "pub"
        ]
    );
}

#[test]
fn what_asks_for_the_handshake_alone_has_no_secrets() {
    let new = |terms: &SignInConfig| {
        let request = Request::new(terms, None, NONCE);
        let envelope = msgpack::decode(&request.body).unwrap().into_map().unwrap();
        envelope.get("load").unwrap().as_map().unwrap().clone()
    };
    let mut terms = terms();
    terms.autosign_grains = Some(halite_wire::map! {"uuid" => "x"});
    assert!(new(&terms).contains("autosign_grains"));
    terms.noise_only = true;
    assert!(!new(&terms).contains("autosign_grains"));
    terms.noise_only = false;
    terms.key = IdentityKey::generate(KeyType::Ed25519, 0).unwrap();
    let load = new(&terms);
    assert!(!load.contains("autosign_grains") && !load.contains("pub"));
}

#[test]
fn answers_of_all_series() {
    for series in ["3006", "3007", "3008"] {
        let file = json(&format!("auth-{series}"));
        for v in list(&file) {
            let name = text(&v["name"]);
            let terms = terms_of(v);
            let first = name.contains("no-token");
            let known = master();
            let pinned = (!first).then_some(&known);
            match (name, verified(&terms, pinned, v)) {
                ("pending-new" | "pending-again", Verdict::Pending) => {}
                ("rejected" | "denied-key-mismatch", Verdict::Rejected) => {}
                ("bad-sig-algo", Verdict::BadAlgorithm("signing_algorithm")) => {}
                ("bad-enc-algo", Verdict::BadAlgorithm("encryption_algorithm")) => {}
                (name, Verdict::Accepted(accepted)) if name.starts_with("accepted") => {
                    assert_eq!(accepted.aes.as_str(), text(&file["aes_key_string"]));
                    assert_eq!(accepted.session.as_str(), text(&file["session_key_string"]));
                    assert_eq!(accepted.publish_port, 4505);
                    assert_eq!(accepted.pin, first, "{name}");
                    assert_eq!(accepted.master, known);
                }
                (name, other) => panic!("{series} {name}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_first_contact_that_waits_needs_no_key() {
    let v = vector("3008", "pending-new");
    assert_eq!(verified(&terms(), None, &v), Verdict::Pending);
}

#[test]
fn another_master_is_not_believed() {
    let stranger = MasterKey::parse(&private("minion").public().to_pem()).unwrap();
    let v = vector("3008", "accepted-with-token");
    assert!(why(verified(&terms(), Some(&stranger), &v)).contains("key has changed"));
    for name in ["pending-new", "rejected"] {
        let v = vector("3008", name);
        assert!(
            why(verified(&terms(), Some(&stranger), &v)).contains("signature of the answer"),
            "{name}"
        );
    }
}

#[test]
fn an_answer_to_another_request_is_not_believed() {
    for name in ["pending-new", "rejected", "accepted-with-token"] {
        let v = vector("3008", name);
        let known = master();
        let request = Request::new(&terms(), Some(&known), &"f".repeat(32));
        let verdict = verify(&terms(), Some(&known), &request, &unhex(&v["reply_hex"]));
        assert!(why(verdict).contains("another request"), "{name}");
    }
}

#[test]
fn a_token_must_come_back() {
    // The reply to a request without token, given to one with a token.
    let v = vector("3008", "accepted-first-contact-no-token");
    assert!(why(verified(&terms(), Some(&master()), &v)).contains("encrypted for us"));
    let mut other = terms();
    other.token = KeyString::generate();
    let v = vector("3008", "accepted-with-token");
    assert!(why(verified(&other, Some(&master()), &v)).contains("read our token"));
}

#[test]
fn a_reply_for_another_minion_is_no_use() {
    let mut other = terms();
    other.key = private("master");
    let v = vector("3008", "accepted-with-token");
    assert!(why(verified(&other, Some(&master()), &v)).contains("encrypted for us"));
}

/// The reply of a vector with its inner map changed and signed again by the master.
fn forged(name: &str, change: impl FnOnce(&mut Map)) -> Vec<u8> {
    let v = vector("3008", name);
    let outer = msgpack::decode(&unhex(&v["reply_hex"]))
        .unwrap()
        .into_map()
        .unwrap();
    let mut inner = msgpack::decode(outer.bytes("load").unwrap())
        .unwrap()
        .into_map()
        .unwrap();
    change(&mut inner);
    let load = msgpack::encode_map(&inner, Profile::Wire);
    let sig = private("master").sign(Signing::default(), &load);
    msgpack::encode_map(
        &halite_wire::map! {"enc" => "clear", "load" => load, "sig" => sig},
        Profile::Wire,
    )
}

fn verify_answer(terms: &SignInConfig, pinned: Option<&MasterKey>, answer: &[u8]) -> Verdict {
    verify(terms, pinned, &Request::new(terms, pinned, NONCE), answer)
}

#[test]
fn every_part_of_an_acceptance_counts() {
    let known = master();
    let case = |change: &dyn Fn(&mut Map)| {
        why(verify_answer(
            &terms(),
            Some(&known),
            &forged("accepted-with-token", change),
        ))
    };
    assert!(case(&|m| m.set("pub_key", "junk")).contains("cannot be read"));
    assert!(case(&|m| m.set("sig", vec![1u8; 256])).contains("AES key"));
    assert!(case(&|m| drop(m.remove("sig"))).contains("AES key"));
    assert!(case(&|m| drop(m.remove("aes"))).contains("encrypted for us"));
    assert!(case(&|m| drop(m.remove("session"))).contains("encrypted for us"));
    assert!(case(&|m| drop(m.remove("token"))).contains("encrypted for us"));
    assert!(case(&|m| m.set("publish_port", 99999)).contains("publish port"));
    assert!(case(&|m| drop(m.remove("nonce"))).contains("another request"));
    let good = verify_answer(
        &terms(),
        Some(&known),
        &forged("accepted-with-token", |m| m.set("new", 1)),
    );
    assert!(
        matches!(good, Verdict::Accepted(_)),
        "unknown fields are no fault"
    );
}

#[test]
fn other_refusals() {
    let known = master();
    let case = |ret: Value| {
        verify_answer(
            &terms(),
            Some(&known),
            &forged("rejected", |m| m.set("ret", ret)),
        )
    };
    assert_eq!(case("full".into()), Verdict::Full);
    assert_eq!(case(true.into()), Verdict::Pending);
    assert_eq!(case(false.into()), Verdict::Rejected);
    assert_eq!(
        verify_answer(
            &terms(),
            Some(&known),
            &forged("rejected", |m| drop(m.remove("ret")))
        ),
        Verdict::Unreadable
    );
}

#[test]
fn junk_is_no_answer() {
    for junk in [
        &b""[..],
        b"\xa8bad load",
        b"\x80",
        b"\x81\xa4load\x05",
        b"\x82\xa4load\xa1x\xa3sig\xa1y",
        b"\x81\xa4load\x81\xa3ret\xa1x",
    ] {
        assert_eq!(
            verify_answer(&terms(), None, junk),
            Verdict::Unreadable,
            "{junk:?}"
        );
    }
}

#[test]
fn a_fingerprint_decides() {
    let v = vector("3008", "accepted-first-contact-no-token");
    let mut terms = terms();
    terms.master_finger = "aa:bb".into();
    let Verdict::WrongFinger(real) = verified(&terms, None, &v) else {
        panic!()
    };
    terms.master_finger = real;
    assert!(matches!(verified(&terms, None, &v), Verdict::Accepted(_)));
}

fn signed_key(m: &mut Map, signer: &IdentityKey) {
    use base64::Engine;
    let signature = signer.sign(Signing::default(), m.str("pub_key").unwrap().as_bytes());
    m.set(
        "pub_sig",
        base64::engine::general_purpose::STANDARD.encode(signature) + "\n",
    );
}

#[test]
fn signed_master_keys() {
    let signer = private("minion");
    let name = "accepted-first-contact-no-token";
    let good = forged(name, |m| signed_key(m, &signer));
    let bare = forged(name, |_| {});
    let bad = forged(name, |m| m.set("pub_sig", "AAAA\n"));
    let mut terms = terms();
    assert!(why(verify_answer(&terms, None, &good)).contains("set verify_master_pubkey_sign"));
    terms.verify_master_sign = true;
    assert!(why(verify_answer(&terms, None, &bare)).contains("set master_sign_pubkey"));
    assert!(why(verify_answer(&terms, None, &good)).contains("copy it there"));
    terms.signer = Some(signer.public());
    assert!(matches!(verify_answer(&terms, None, &good), Verdict::Accepted(a) if a.pin));
    assert!(why(verify_answer(&terms, None, &bad)).contains("does not match"));
    // A signed new key replaces a pinned one, although the token went to the old one.
    let old = MasterKey::parse(&private("minion").public().to_pem()).unwrap();
    assert!(matches!(verify_answer(&terms, Some(&old), &good), Verdict::Accepted(a) if a.pin));
    // A known key is checked again only if `always_verify_signature` is set.
    let again = forged("accepted-with-token", |m| m.set("pub_sig", "AAAA\n"));
    assert!(
        matches!(verify_answer(&terms, Some(&master()), &again), Verdict::Accepted(a) if !a.pin)
    );
    terms.always_verify = true;
    assert!(why(verify_answer(&terms, Some(&master()), &again)).contains("does not match"));
}

fn policy() -> RetryOptions {
    let secs = Duration::from_secs;
    RetryOptions {
        timeout: secs(5),
        tries: 3,
        retries: 0,
        wait: secs(10),
        wait_max: Duration::ZERO,
        rejected_retry: false,
        delay: secs(7),
        once: false,
        safemode: false,
        retry_dns: secs(30),
        retry_dns_count: None,
        master_tries: -1,
    }
}

fn again(secs: u64) -> Step {
    Step::Again(Duration::from_secs(secs))
}

fn status(step: Step) -> i32 {
    match step {
        Step::Fail(failure) => failure.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn waiting_for_acceptance() {
    let mut rounds = RetryPolicy::new(policy(), "m1");
    for _ in 0..3 {
        assert_eq!(rounds.after(Verdict::Pending), again(10));
    }
    let grow = RetryOptions {
        wait_max: Duration::from_secs(35),
        ..policy()
    };
    let mut rounds = RetryPolicy::new(grow, "m1");
    for want in [10, 20, 35, 35] {
        assert_eq!(rounds.after(Verdict::Pending), again(want));
    }
    let mut rounds = RetryPolicy::new(
        RetryOptions {
            retries: 2,
            ..policy()
        },
        "m1",
    );
    assert_eq!(rounds.after(Verdict::Pending), again(10));
    assert_eq!(status(rounds.after(Verdict::Pending)), 1);
}

#[test]
fn silence_is_waited_out() {
    let scattered = |secs| Step::Scattered(Duration::from_secs(secs));
    let patient = RetryOptions {
        tries: 6,
        ..policy()
    };
    let mut rounds = RetryPolicy::new(patient, "m1");
    for _ in 0..2 {
        // Increasing delays, up to `random_reauth_delay`.
        for want in [1, 2, 4, 7, 7] {
            assert_eq!(rounds.after(Verdict::Silence), scattered(want));
        }
        assert_eq!(rounds.after(Verdict::Silence), again(7));
    }
    // A reply in between resets the count.
    assert_eq!(rounds.after(Verdict::Silence), scattered(1));
    assert_eq!(rounds.after(Verdict::Pending), again(10));
    assert_eq!(rounds.after(Verdict::Silence), scattered(1));
}

#[test]
fn refusals_end_or_wait() {
    let one =
        |policy: RetryOptions, verdict: Verdict| RetryPolicy::new(policy, "m1").after(verdict);
    assert_eq!(status(one(policy(), Verdict::Rejected)), EXIT_REJECTED);
    let patient = RetryOptions {
        rejected_retry: true,
        ..policy()
    };
    assert_eq!(one(patient, Verdict::Rejected), again(10));
    let bad = || Verdict::BadAlgorithm("signing_algorithm");
    assert_eq!(one(policy(), bad()), again(10));
    let command = RetryOptions {
        once: true,
        ..policy()
    };
    assert_eq!(status(one(command, bad())), 1);
    assert_eq!(
        status(one(policy(), Verdict::WrongFinger("aa".into()))),
        EXIT_FINGER
    );
    assert_eq!(one(policy(), Verdict::Full), again(10));
    assert_eq!(one(policy(), Verdict::Untrusted("x".into())), again(7));
    assert_eq!(one(policy(), Verdict::Unreadable), again(7));
}

#[test]
fn a_command_does_not_wait() {
    let once = || {
        RetryPolicy::new(
            RetryOptions {
                once: true,
                rejected_retry: true,
                ..policy()
            },
            "m1",
        )
    };
    assert_eq!(status(once().after(Verdict::Pending)), 2);
    assert_eq!(status(once().after(Verdict::Rejected)), EXIT_REJECTED);
    assert_eq!(status(once().after(Verdict::Full)), 1);
    assert_eq!(status(once().after(Verdict::Untrusted("x".into()))), 1);
    let mut rounds = once();
    assert_eq!(rounds.after(Verdict::Silence), again(0));
    assert_eq!(rounds.after(Verdict::Silence), again(0));
    assert_eq!(status(rounds.after(Verdict::Silence)), 1);
}

/// Whoever answers at the master's address may send anything.
#[test]
fn hostile_answers_are_unreadable() {
    let constants = (0..6000).fold(vec![0xc0], |inner: Vec<u8>, _| {
        let length = (inner.len() as u32 + 3).to_be_bytes();
        [&[0xc9][..], &length, b"\x4f\x92\xa1n", &inner].concat()
    });
    let many = [&b"\xdd\x00\x80\x00\x00"[..], &vec![0xc0; 8 << 20]].concat();
    for shape in [constants, many] {
        let inside =
            halite_wire::map! {"sig" => "x", "load" => [&b"\x81\xa1a"[..], &shape].concat()};
        for answer in [
            shape.clone(),
            [&b"\x81\xa4load"[..], &shape].concat(),
            msgpack::encode_map(&inside, Profile::Wire),
        ] {
            assert_eq!(verify_answer(&terms(), None, &answer), Verdict::Unreadable);
        }
    }
    let twice = b"\x83\xa4load\xa1x\xa3sig\xa1x\xa3sig\xa1y";
    assert_eq!(verify_answer(&terms(), None, twice), Verdict::Unreadable);
}
