//! Reading and writing keys, and refusing bad ones.

use super::*;
use ::rsa::pkcs8::EncodePublicKey;
use ::rsa::{BigUint, RsaPublicKey};

on_each_backend!(
    writes_what_salt_writes,
    reads_every_form,
    names_what_is_wrong,
    refuses_sizes_and_exponents,
    refuses_inconsistent_keys,
    survives_mutation,
);

fn writes_what_salt_writes<B: Backend>() {
    let keys = vectors("keys");
    for who in ["master", "minion"] {
        let (private, public) = pair::<B>(who);
        assert_eq!(
            *private.to_pem(),
            text(&keys[who]["private_pem"]).trim().to_owned() + "\n"
        );
        assert_eq!(
            clean_key(&public.to_pem()),
            clean_key(text(&keys[who]["public_pem"]))
        );
        assert_eq!(private.public(), public);
        assert_eq!((public.bits(), public.size()), (2048, 256));
    }
}

fn reads_every_form<B: Backend>() {
    let (private, public) = small::<B>();
    let pkcs8 = RsaPrivate::<B>::from_pem(include_str!("pem/small-pkcs8.pem")).unwrap();
    assert_eq!(pkcs8.to_pem(), private.to_pem());
    let pkcs1 = RsaPublic::<B>::from_pem(include_str!("pem/small-pub-pkcs1.pem")).unwrap();
    assert_eq!(pkcs1, public);
    for odd in [
        clean_key(SMALL_PUB),
        SMALL_PUB.replace('\n', "\r\n"),
        SMALL_PUB.replace('\n', " \n\n"),
        format!("a note\n{SMALL_PUB}another\n"),
    ] {
        assert_eq!(RsaPublic::<B>::from_pem(&odd).unwrap(), public);
    }
    let threads = |x: &(dyn std::any::Any + Send + Sync)| x.is::<RsaPrivate<B>>();
    assert!(threads(&private.clone()));
}

fn public_error<B: Backend>(pem: &str) -> CryptoError {
    RsaPublic::<B>::from_pem(pem).unwrap_err()
}

fn private_error<B: Backend>(pem: &str) -> CryptoError {
    RsaPrivate::<B>::from_pem(pem).unwrap_err()
}

fn names_what_is_wrong<B: Backend>() {
    let says = |error: CryptoError, words: &str| {
        assert!(error.to_string().contains(words), "{error}");
    };
    for locked in [
        include_str!("pem/locked.pem"),
        include_str!("pem/locked-pkcs8.pem"),
    ] {
        assert_eq!(private_error::<B>(locked), CryptoError::Encrypted);
    }
    says(private_error::<B>(SMALL_PUB), "this is a public key");
    says(public_error::<B>(SMALL), "this is a private key");
    says(
        public_error::<B>(include_str!("pem/ec-pub.pem")),
        "neither an RSA nor",
    );
    says(
        private_error::<B>(include_str!("pem/ec-pkcs8.pem")),
        "neither an RSA nor",
    );
    says(public_error::<B>(""), "no BEGIN line");
    says(
        public_error::<B>("-----BEGIN PUBLIC KEY-----\nAAAA"),
        "no END line",
    );
    says(
        public_error::<B>(&SMALL_PUB.replace("MI", "M!")),
        "not base64",
    );
    says(
        public_error::<B>(&SMALL_PUB.replace("PUBLIC KEY", "THING")),
        "not an RSA public key",
    );
    says(
        public_error::<B>(&"x".repeat(40_000)),
        "longer than any RSA key",
    );
    says(
        private_error::<B>(&SMALL.replacen("MI", "AA", 1)),
        "damaged",
    );
    assert_eq!(
        private_error::<B>(include_str!("pem/tiny.pem")),
        CryptoError::KeySize(512)
    );
}

/// A public key with modulus `2^bits - 1` and some exponent.
fn odd_key(bits: usize, e: u64) -> String {
    let n = (BigUint::from(1u8) << bits) - 1u8;
    let key = RsaPublicKey::new_unchecked(n, e.into());
    pem::encode("PUBLIC KEY", key.to_public_key_der().unwrap().as_bytes()).to_string()
}

fn refuses_sizes_and_exponents<B: Backend>() {
    for bits in [1, 512, 1016, 1023, 1025, 8200, 16384] {
        assert_eq!(
            public_error::<B>(&odd_key(bits, 65537)),
            CryptoError::KeySize(bits)
        );
    }
    for e in [0, 1, 2, 65536, u64::from(u32::MAX) + 2] {
        assert_eq!(
            public_error::<B>(&odd_key(2048, e)),
            CryptoError::Exponent,
            "{e}"
        );
    }
    for (bits, e) in [
        (1024, 65537),
        (8192, 65537),
        (2048, 3),
        (2048, u32::MAX.into()),
    ] {
        assert_eq!(
            RsaPublic::<B>::from_pem(&odd_key(bits, e)).unwrap().bits(),
            bits
        );
    }
    let n = (BigUint::from(1u8) << 2048) - 2u8;
    let even = RsaPublicKey::new_unchecked(n, 65537u32.into())
        .to_public_key_der()
        .unwrap();
    let even = pem::encode("PUBLIC KEY", even.as_bytes());
    assert!(matches!(public_error::<B>(&even), CryptoError::BadKey(_)));
}

fn refuses_inconsistent_keys<B: Backend>() {
    let der = pem::decode(SMALL).unwrap().der;
    // Inside the modulus, the private exponent, a prime.
    for at in [40, 200, 300, 350] {
        let mut bad = der.clone();
        bad[at] ^= 2;
        let error = private_error::<B>(&pem::encode("RSA PRIVATE KEY", &bad));
        assert!(matches!(error, CryptoError::BadKey(_)), "{at}: {error}");
    }
}

/// Damaged documents cause no panic.
fn survives_mutation<B: Backend>() {
    let der = pem::decode(SMALL_PUB).unwrap().der;
    for at in 0..der.len() {
        for bit in [1, 0x80] {
            let mut bad = der.clone();
            bad[at] ^= bit;
            let _ = RsaPublic::<B>::from_pem(&pem::encode("PUBLIC KEY", &bad));
        }
        assert!(RsaPublic::<B>::from_pem(&pem::encode("PUBLIC KEY", &der[..at])).is_err());
    }
}

#[test]
fn secrets_do_not_print() {
    let (private, public) = small::<rsa_portable::Portable>();
    assert_eq!(
        format!("{private:?} {public:?}"),
        "RsaPrivate(***) RsaPublic(1024 bits)"
    );
    let key = KeyString::generate();
    assert_eq!(
        format!("{key:?} {:?}", Crypticle::new(&key)),
        "*** Crypticle(***)"
    );
}
