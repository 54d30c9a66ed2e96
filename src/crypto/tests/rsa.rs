//! Signatures, OAEP and X9.31: vectors, tampering, round trips, back end against back end.

use super::*;
use proptest::prelude::*;

on_each_backend!(
    signatures,
    oaep,
    x931,
    tampered_signatures,
    numbers_above_the_modulus,
    foreign_cipher_texts,
    limits,
    round_trips,
    generates,
);

const SIGNING: [Signing; 2] = [Signing::Pkcs1v15Sha1, Signing::Pkcs1v15Sha224];
const ENCRYPTION: [Encryption; 2] = [Encryption::OaepSha1, Encryption::OaepSha224];

fn signatures<B: Backend>() {
    let mut seen = 0;
    for v in list(&vectors("rsa-sign"))
        .iter()
        .filter(|v| v["op"] == "sign")
    {
        let (private, public) = pair::<B>(text(&v["key"]));
        let algorithm = text(&v["algorithm"]).parse().unwrap();
        let (message, signature) = (unhex(&v["message_hex"]), unhex(&v["signature_hex"]));
        assert_eq!(private.sign(algorithm, &message), signature);
        assert!(public.verify(algorithm, &message, &signature));
        assert!(!public.verify(other(algorithm), &message, &signature));
        seen += 1;
    }
    assert_eq!(seen, 6);
}

fn other(algorithm: Signing) -> Signing {
    SIGNING.into_iter().find(|a| *a != algorithm).unwrap()
}

fn oaep<B: Backend>() {
    let (private, _) = pair::<B>("minion");
    let file = vectors("rsa-oaep");
    for v in list(&file) {
        let algorithm: Encryption = text(&v["algorithm"]).parse().unwrap();
        let data = unhex(&v["ciphertext_hex"]);
        assert_eq!(
            private.decrypt(algorithm, &data),
            Ok(unhex(&v["plaintext_hex"]))
        );
    }
    assert_eq!(list(&file).len(), 18);
    let data = unhex(&list(&file)[0]["ciphertext_hex"]);
    assert_eq!(
        private.decrypt(Encryption::OaepSha224, &data),
        Err(CryptoError::Decrypt)
    );
}

fn x931<B: Backend>() {
    let mut seen = 0;
    for v in list(&vectors("rsa-sign"))
        .iter()
        .filter(|v| v["op"] == "private_encrypt_x931")
    {
        let (private, public) = pair::<B>(text(&v["key"]));
        let (message, result) = (unhex(&v["message_hex"]), unhex(&v["result_hex"]));
        assert_eq!(private.x931_sign(&message), result);
        assert_eq!(public.x931_recover(&result), Some(message));
        seen += 1;
    }
    assert_eq!(seen, 2);

    let (private, public) = small::<B>();
    let k = public.size();
    for len in [0, 1, 4, 64, k - 4, k - 3, k - 2] {
        let message = vec![0xba; len];
        let sealed = private.x931_sign(&message);
        assert_eq!(sealed.len(), k);
        assert_eq!(public.x931_recover(&sealed), Some(message), "{len} bytes");
    }
    assert!(private.x931_sign(&vec![0; k - 1]).is_empty());
}

fn tampered_signatures<B: Backend>() {
    let (private, public) = small::<B>();
    let k = public.size();
    let signature = private.sign(Signing::default(), b"salt");
    let tok = private.x931_sign(b"salt");
    let refuse = |bad: &[u8]| {
        assert!(!public.verify(Signing::default(), b"salt", bad));
        assert_ne!(public.x931_recover(bad).as_deref(), Some(&b"salt"[..]));
    };
    for at in [0, 1, k / 2, k - 1] {
        for mut bad in [signature.clone(), tok.clone()] {
            bad[at] ^= 1;
            refuse(&bad);
        }
    }
    for good in [&signature, &tok] {
        refuse(&good[1..]);
        refuse(&[&[0], &good[..]].concat());
        refuse(&[&good[..], &[0]].concat());
    }
    for bad in [vec![], vec![0; k], vec![0xff; k], vec![1; k + 1]] {
        refuse(&bad);
    }
    assert!(!public.verify(Signing::default(), b"Salt", &signature));
    let (_, stranger) = pair::<B>("master");
    assert!(!stranger.verify(Signing::default(), b"salt", &signature));
}

/// Adding the modulus changes nothing in the arithmetic, but gives another text.
fn numbers_above_the_modulus<B: Backend>() {
    use ::rsa::{BigUint, RsaPublicKey, pkcs8::DecodePublicKey, traits::PublicKeyParts};
    let (private, public) = small::<B>();
    let n = RsaPublicKey::from_public_key_pem(SMALL_PUB)
        .unwrap()
        .n()
        .clone();
    let above = |x: &[u8]| {
        Some((BigUint::from_bytes_be(x) + &n).to_bytes_be()).filter(|y| y.len() == x.len())
    };
    let (message, twin) = (0..100u8)
        .find_map(|i| Some((i, above(&private.sign(Signing::default(), &[i]))?)))
        .unwrap();
    assert!(!public.verify(Signing::default(), &[message], &twin));
    let twin = (0..100).find_map(|_| above(&public.encrypt(Encryption::default(), b"x").unwrap()));
    let refused = private.decrypt(Encryption::default(), &twin.unwrap());
    assert_eq!(refused, Err(CryptoError::Decrypt));
    let twin = (0..100u8)
        .find_map(|i| above(&private.x931_sign(&[i])))
        .unwrap();
    assert_eq!(public.x931_recover(&twin), None);
}

fn foreign_cipher_texts<B: Backend>() {
    let (private, public) = small::<B>();
    let (_, stranger) = pair::<B>("master");
    for algorithm in ENCRYPTION {
        let good = public.encrypt(algorithm, b"salt").unwrap();
        assert_eq!(
            private.decrypt(algorithm, &good).as_deref(),
            Ok(&b"salt"[..])
        );
        let mut flipped = good.clone();
        flipped[100] ^= 1;
        let foreign = stranger.encrypt(algorithm, b"salt").unwrap();
        let k = public.size();
        for bad in [
            flipped,
            foreign,
            vec![],
            vec![0; k],
            vec![0xff; k],
            good[1..].to_vec(),
        ] {
            assert_eq!(private.decrypt(algorithm, &bad), Err(CryptoError::Decrypt));
        }
    }
}

fn limits<B: Backend>() {
    let (private, public) = small::<B>();
    for (algorithm, max) in [(Encryption::OaepSha1, 86), (Encryption::OaepSha224, 70)] {
        for len in [0, 1, max] {
            let plain = vec![7; len];
            let sealed = public.encrypt(algorithm, &plain).unwrap();
            assert_eq!(private.decrypt(algorithm, &sealed), Ok(plain));
        }
        let refused = public.encrypt(algorithm, &vec![7; max + 1]);
        assert_eq!(refused, Err(CryptoError::TooLong { len: max + 1, max }));
    }
}

fn round_trips<B: Backend>() {
    let (private, public) = small::<B>();
    proptest!(ProptestConfig::with_cases(4), |(message: Vec<u8>)| {
        for algorithm in SIGNING {
            let signature = private.sign(algorithm, &message);
            prop_assert!(public.verify(algorithm, &message, &signature));
        }
        let short = &message[..message.len().min(70)];
        for algorithm in ENCRYPTION {
            let sealed = public.encrypt(algorithm, short).unwrap();
            prop_assert_eq!(private.decrypt(algorithm, &sealed).unwrap(), short);
        }
        prop_assert_eq!(public.x931_recover(&private.x931_sign(short)).unwrap(), short);
    });
}

fn generates<B: Backend>() {
    let key = RsaPrivate::<B>::generate(MIN_BITS).unwrap();
    assert_eq!(key.public().bits(), MIN_BITS);
    let again = RsaPrivate::<B>::from_pem(&key.to_pem()).unwrap();
    let tok = again.x931_sign(b"salt");
    assert_eq!(
        key.public().x931_recover(&tok).as_deref(),
        Some(&b"salt"[..])
    );
    for bits in [0, 512, 1023, 1028, 8200, usize::MAX] {
        let refused = RsaPrivate::<B>::generate(bits).map(|_| ());
        assert_eq!(refused, Err(CryptoError::KeySize(bits)));
    }
}

/// Both libraries give the same bytes and accept each other's.
#[cfg(feature = "openssl")]
#[test]
fn back_ends_agree() {
    use crate::rsa_openssl::OpenSsl;
    use crate::rsa_portable::Portable;
    let (private_a, public_a) = small::<Portable>();
    let (private_b, public_b) = small::<OpenSsl>();
    assert_eq!(private_a.to_pem(), private_b.to_pem());
    assert_eq!(public_a.to_pem(), public_b.to_pem());
    proptest!(ProptestConfig::with_cases(4), |(message in prop::collection::vec(any::<u8>(), 0..70))| {
        for algorithm in SIGNING {
            let signature = private_a.sign(algorithm, &message);
            prop_assert!(public_b.verify(algorithm, &message, &signature));
            prop_assert_eq!(signature, private_b.sign(algorithm, &message));
        }
        prop_assert_eq!(private_a.x931_sign(&message), private_b.x931_sign(&message));
        for algorithm in ENCRYPTION {
            let sealed = public_a.encrypt(algorithm, &message).unwrap();
            prop_assert_eq!(&private_b.decrypt(algorithm, &sealed).unwrap(), &message);
            let sealed = public_b.encrypt(algorithm, &message).unwrap();
            prop_assert_eq!(&private_a.decrypt(algorithm, &sealed).unwrap(), &message);
        }
    });
}

/// Both give the same result for any block, even one that nobody signed.
#[cfg(feature = "openssl")]
#[test]
fn back_ends_agree_on_junk() {
    use crate::rsa_openssl::OpenSsl;
    use crate::rsa_portable::Portable;
    let (private_a, public_a) = small::<Portable>();
    let (private_b, public_b) = small::<OpenSsl>();
    proptest!(ProptestConfig::with_cases(8), |(junk in prop::collection::vec(any::<u8>(), 126..130))| {
        prop_assert_eq!(public_a.x931_recover(&junk), public_b.x931_recover(&junk));
        for algorithm in ENCRYPTION {
            prop_assert_eq!(private_a.decrypt(algorithm, &junk), private_b.decrypt(algorithm, &junk));
        }
    });
}
