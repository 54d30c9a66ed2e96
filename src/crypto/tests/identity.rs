//! Keys of masters and minions of both kinds.

use super::*;

/// The examples of RFC 8410, 10.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";
const WITH_PUBLIC: &str = "-----BEGIN PRIVATE KEY-----\n\
    MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\n\
    Z9w7lshQhqowtrbLDFw4rXAxZuE=\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
    -----END PUBLIC KEY-----\n";

fn both() -> [IdentityKey; 2] {
    [
        IdentityKey::from_pem(SMALL).unwrap(),
        IdentityKey::generate(KeyType::Ed25519, 0).unwrap(),
    ]
}

/// The documents of a public key of 32 bytes.
fn public_pem(bytes: [u8; 32]) -> String {
    let der = [&unhex(&"302a300506032b6570032100".into())[..], &bytes].concat();
    pem::encode("PUBLIC KEY", &der).to_string()
}

#[test]
fn files_are_those_of_the_specification() {
    let key = IdentityKey::from_pem(PRIVATE).unwrap();
    assert_eq!(key.kind(), KeyType::Ed25519);
    assert_eq!(*key.to_pem(), PRIVATE);
    assert_eq!(key.public().to_pem(), PUBLIC);
    assert_eq!(IdentityPublic::from_pem(PUBLIC).unwrap(), key.public());
    let other_form = IdentityKey::from_pem(WITH_PUBLIC).unwrap();
    assert_eq!(other_form.public(), key.public());
}

/// RFC 8032, 7.1, test 2.
#[test]
fn the_signature_of_the_specification() {
    let seed = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
    let der = format!("302e020100300506032b657004220420{seed}");
    let key = IdentityKey::from_pem(&pem::encode("PRIVATE KEY", &unhex(&der.into()))).unwrap();
    let signature = key.sign(Signing::default(), &[0x72]);
    let want = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
    assert_eq!(signature, unhex(&want.into()));
}

#[test]
fn each_signature_is_for_one_purpose_and_key() {
    let algorithm = Signing::default();
    let keys = both();
    for (n, key) in keys.iter().enumerate() {
        let other = keys[1 - n].public();
        let again = IdentityKey::from_pem(&key.to_pem()).unwrap();
        let public = IdentityPublic::from_pem(&again.public().to_pem()).unwrap();
        let made = [key.sign(algorithm, b"d"), key.tok(), key.sign_digest("d")];
        for (purpose, signature) in made.iter().enumerate() {
            let verify = |key: &IdentityPublic, signature: &[u8]| {
                [
                    key.verify(algorithm, b"d", signature),
                    key.made_tok(signature),
                    key.signed_digest("d", signature),
                ]
            };
            assert_eq!(verify(&public, signature), [0, 1, 2].map(|p| p == purpose));
            assert_eq!(verify(&other, signature), [false; 3]);
            let mut damaged = signature.clone();
            damaged[9] ^= 1;
            assert_eq!(verify(&public, &damaged), [false; 3]);
            assert_eq!(verify(&public, &signature[1..]), [false; 3]);
            assert_eq!(verify(&public, b""), [false; 3]);
        }
        assert!(!public.verify(algorithm, b"e", &made[0]));
        assert!(!public.signed_digest("e", &made[2]));
        assert!(format!("{key:?}").contains("***"));
    }
}

#[test]
fn keys_for_which_anybody_can_sign_are_refused() {
    let mut one = [0; 32];
    one[0] = 1;
    // The neutral element, a point of order two, one of order four, and no point.
    let mut two = [0xff; 32];
    (two[0], two[31]) = (0xec, 0x7f);
    let mut none = [0; 32];
    none[0] = 2;
    for bytes in [one, two, [0; 32], none] {
        let error = IdentityPublic::from_pem(&public_pem(bytes)).unwrap_err();
        assert!(matches!(error, CryptoError::BadKey(_)), "{error}");
    }
}

#[test]
fn presented_keys_have_no_other_text() {
    let rsa = clean_key(SMALL_PUB);
    let pkcs1 = both()[0].public().rsa().unwrap().to_pkcs1_pem();
    for good in [&rsa, &clean_key(PUBLIC), &clean_key(&pkcs1)] {
        assert!(IdentityPublic::from_bare_pem(good).is_ok(), "{good}");
        let second = clean_key(PUBLIC);
        let other_end = good.replace("END ", "END RSA ");
        for bad in [
            format!("x\n{good}"),
            format!("{good}\nx"),
            format!("{good}\n{second}"),
            good.replacen('\n', "\n\x1b[2J", 1),
            good.replacen('\n', "\nProc-Type: 4\n", 1),
            good.replacen("BEGIN", "BEGIN \x1b]0;", 1),
            other_end,
        ] {
            assert!(IdentityPublic::from_bare_pem(&bad).is_err(), "{bad:?}");
        }
    }
    let broken = clean_key(PUBLIC).replace("AyEA", "AyEA\n");
    assert!(IdentityPublic::from_pem(&broken).is_ok());
    assert!(IdentityPublic::from_bare_pem(&broken).is_err());
    // Parameters, which RFC 8410 does not allow: the same key in another text.
    let der = [&unhex(&"302c300706032b65700500032100".into())[..], &[9; 32]].concat();
    let pem = pem::encode("PUBLIC KEY", &der);
    assert!(IdentityPublic::from_pem(&pem).is_err());
}

#[test]
fn other_documents_are_no_keys() {
    let x25519 = PUBLIC.replace("K2VwAyEA", "K2VuAyEA");
    for text in ["", "x", PRIVATE, &x25519, &PUBLIC.replace("ZuE=", "Zg==")] {
        assert!(IdentityPublic::from_pem(text).is_err(), "{text}");
    }
    let short = PRIVATE.replace("dVhC", "dVg=");
    for text in ["", "x", PUBLIC, SMALL_PUB, &short] {
        assert!(IdentityKey::from_pem(text).is_err(), "{text}");
    }
}

#[test]
fn kinds_have_names() {
    let kinds = ["rsa", "ed25519", "dsa"].map(KeyType::of_name);
    assert_eq!(kinds, [Some(KeyType::Rsa), Some(KeyType::Ed25519), None]);
}
