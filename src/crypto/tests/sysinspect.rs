//! PKCS#1 documents and encrypted ids, checked against a captured key and against the libraries.

use super::*;
use ::rsa::pkcs1::DecodeRsaPrivateKey;
use ::rsa::{Pkcs1v15Encrypt, RsaPrivateKey};

on_each_backend!(captured_key, enciphered_ids, crafted_blocks, sizes);

const ID: &[u8] = b"30006546535e428aba0a0caa6712e225";

/// The master's key in the first captured frame.
fn captured_pem() -> String {
    let transcripts = vectors("sysinspect/transcripts");
    let body = text(&transcripts[0]["frames"][2]["body"]);
    let frame: Json = serde_json::from_str(body).unwrap();
    text(&frame["d"]).to_owned()
}

fn captured_key<B: Backend>() {
    let pem = captured_pem();
    let key = RsaPublic::<B>::from_pem(&pem).unwrap();
    assert_eq!(key.bits(), 1048);
    assert_eq!(key.to_pkcs1_pem(), pem);
    assert_eq!(
        key.pkcs1_fingerprint(),
        "209e2fd14f96c3033927f3e3099731c49efa4249a92b72cc4bd78dcdec776c71"
    );
    for other in [pem.replace("\r\n", "\n"), key.to_pem()] {
        assert_eq!(RsaPublic::<B>::from_pem(&other).unwrap(), key);
    }
}

fn enciphered_ids<B: Backend>() {
    let (private, public) = pair::<B>("master");
    let (other, _) = pair::<B>("minion");
    let cipher = public.encrypt_pkcs1v15(ID).unwrap();
    assert_ne!(cipher, public.encrypt_pkcs1v15(ID).unwrap());
    assert!(private.holds_pkcs1v15(&cipher, ID));
    assert!(!other.holds_pkcs1v15(&cipher, ID));
    for wrong in [&ID[1..], b"", b"30006546535e428aba0a0caa6712e226"] {
        assert!(!private.holds_pkcs1v15(&cipher, wrong));
    }
    let mut bad = cipher.clone();
    bad[9] ^= 1;
    for bad in [&bad[..], &cipher[1..], &[], &[0xff; 256], &[0; 256]] {
        assert!(!private.holds_pkcs1v15(bad, ID));
    }
    // The other direction, as a library does it.
    let library = RsaPrivateKey::from_pkcs1_pem(&private.to_pem()).unwrap();
    assert_eq!(library.decrypt(Pkcs1v15Encrypt, &cipher).unwrap(), ID);
    let cipher = library
        .to_public_key()
        .encrypt(&mut crate::rng::rng(), Pkcs1v15Encrypt, ID)
        .unwrap();
    assert!(private.holds_pkcs1v15(&cipher, ID));
}

/// Nearly valid blocks, made with the inverse of the private operation.
fn crafted_blocks<B: Backend>() {
    let (private, public) = pair::<B>("master");
    let block = |change: fn(&mut [u8])| {
        let mut block = vec![7; 256];
        block[..2].copy_from_slice(&[0, 2]);
        block[223] = 0;
        block[224..].copy_from_slice(ID);
        change(&mut block);
        private.holds_pkcs1v15(&public.public_op(&block).unwrap(), ID)
    };
    assert!(block(|_| {}));
    assert!(!block(|b| b[0] = 1));
    assert!(!block(|b| b[1] = 1));
    assert!(!block(|b| b[2] = 0));
    assert!(!block(|b| b[222] = 0));
    assert!(!block(|b| b[223] = 1));
    assert!(!block(|b| b[255] = 0));
}

fn sizes<B: Backend>() {
    let (private, public) = small::<B>();
    let most = vec![b'a'; public.size() - 11];
    let cipher = public.encrypt_pkcs1v15(&most).unwrap();
    assert!(private.holds_pkcs1v15(&cipher, &most));
    let more = vec![b'a'; public.size() - 10];
    assert!(matches!(
        public.encrypt_pkcs1v15(&more),
        Err(CryptoError::TooLong { .. })
    ));
    assert!(!private.holds_pkcs1v15(&cipher, &more));
    assert!(!private.holds_pkcs1v15(&cipher, &vec![b'a'; 9000]));
    assert!(private.holds_pkcs1v15(&public.encrypt_pkcs1v15(b"").unwrap(), b""));
}
