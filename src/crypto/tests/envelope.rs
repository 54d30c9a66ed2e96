//! Key strings and the Crypticle envelope.

use super::*;
use halite_wire::map;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use proptest::prelude::*;

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn crypticle(json: &Json) -> Crypticle {
    Crypticle::new(&KeyString::from_text(text(json)).unwrap())
}

#[test]
fn vectors_of_the_envelope() {
    let file = vectors("crypticle");
    let c = crypticle(&file["key_string"]);
    for v in list(&file) {
        let sealed = unhex(&v["ciphertext_hex"]);
        let plain = unhex(&v["plaintext_hex"]);
        assert_eq!(c.decrypt(&sealed), Ok(plain.clone()), "{}", v["name"]);
        let iv = unhex(&v["iv_hex"]);
        let mut own = [b"head".to_vec(), iv, plain].concat();
        c.seal(&mut own, 4);
        assert_eq!(own[4..], sealed, "{}", v["name"]);
    }
    assert_eq!(list(&file).len(), 8);
}

/// Both back ends give the bytes of the vectors, and agree on long texts.
#[cfg(feature = "openssl")]
#[test]
fn back_ends_of_aes_agree() {
    use crate::cbc::Cbc;
    let file = vectors("crypticle");
    let key = KeyString::from_text(text(&file["key_string"])).unwrap();
    let cbc = Cbc::new(&key.raw()[..24]);
    let check = |mut one: Vec<u8>, expected: Option<&[u8]>| {
        one.resize(one.len().next_multiple_of(16), 0);
        let mut other = [b"head".to_vec(), one.clone()].concat();
        cbc.encrypt_portable(&mut one);
        cbc.encrypt_openssl(&mut other, 4).unwrap();
        assert_eq!(one, other[4..]);
        assert_eq!(b"head", &other[..4]);
        assert!(expected.is_none_or(|e| e == one));
    };
    for v in list(&file) {
        let (iv, mut plain) = (unhex(&v["iv_hex"]), unhex(&v["plaintext_hex"]));
        let pad = 16 - plain.len() % 16;
        plain.resize(plain.len() + pad, pad as u8);
        let sealed = unhex(&v["ciphertext_hex"]);
        check([iv, plain].concat(), Some(&sealed[..sealed.len() - 32]));
    }
    for len in [0, 16, 2032, 2048, 100_000, 1 << 20] {
        check((0..16 + len).map(|n| (n * 7 % 251) as u8).collect(), None);
    }
}

#[test]
fn an_envelope_written_in_place_is_text_of_msgpack() {
    let c = Crypticle::new(&KeyString::generate());
    for len in [
        0, 10, 100, 1000, 65_300, 65_420, 65_440, 65_460, 65_500, 200_000,
    ] {
        let value = Value::Bytes(vec![7; len]);
        for hint in [0, len + 5] {
            let write = |out: &mut Vec<u8>| {
                msgpack::encode_into(out, &value, Profile::Wire);
                Ok::<(), ()>(())
            };
            let text = c.text_with(hint, Some(NONCE), write).unwrap();
            let sealed = msgpack::decode(&text).unwrap();
            let sealed = sealed.as_bytes().unwrap();
            let mut again = Vec::new();
            msgpack::put_str(&mut again, sealed, Profile::Wire);
            assert!(again == text, "{len}");
            let opened = c.loads(sealed, Some(NONCE)).unwrap();
            assert_eq!(opened.as_bytes(), value.as_bytes(), "{len}");
        }
    }
    assert_eq!(c.text_with(0, None, |_| Err("no")), Err("no"));
}

#[test]
fn vectors_of_requests_and_publications() {
    let file = vectors("request");
    let c = crypticle(&file["session_key_string"]);
    for v in list(&file) {
        let request = unhex(&v["request"]["load"]["hex"]);
        assert_eq!(c.decrypt(&request), Ok(unhex(&v["request_plaintext_hex"])));
        let load = c.loads(&request, None).unwrap().into_map().unwrap();
        assert_eq!(load.str("cmd"), v["load"]["cmd"].as_str());
        assert_eq!(load.str("nonce"), Some(NONCE));

        let wire = msgpack::decode(&unhex(&v["reply_hex"])).unwrap();
        let reply = wire.as_bytes().unwrap();
        assert_eq!(c.decrypt(reply), Ok(unhex(&v["reply_plaintext_hex"])));
        assert!(c.loads(reply, Some(NONCE)).is_ok());
        assert_eq!(
            c.loads(reply, Some(&"0".repeat(32))),
            Err(CrypticleError::Nonce)
        );
        assert_eq!(c.loads(reply, Some("short")), Err(CrypticleError::Nonce));
    }
    let file = vectors("publication");
    let c = crypticle(&file["aes_key_string"]);
    for v in list(&file) {
        let load = unhex(&v["frame"]["load"]["hex"]);
        let job = c.loads(&load, None).unwrap().into_map().unwrap();
        assert_eq!(job.str("jid"), v["load"]["jid"].as_str());
        let plain = unhex(&v["decrypted_plaintext_hex"]);
        assert_eq!(c.peek(&load, 20).unwrap(), plain[..32]);
    }
}

fn fixed() -> Crypticle {
    crypticle(&vectors("crypticle")["key_string"])
}

#[test]
fn refuses_everything_not_sealed_with_the_key() {
    let c = fixed();
    let sealed = c.encrypt(b"some text");
    for at in 0..sealed.len() {
        let mut bad = sealed.clone();
        bad[at] ^= 1;
        assert_eq!(c.decrypt(&bad), Err(CrypticleError::Authentication));
        assert_eq!(
            c.decrypt(&sealed[..at]),
            Err(CrypticleError::Authentication)
        );
    }
    let stranger = Crypticle::new(&KeyString::generate());
    assert_eq!(
        stranger.decrypt(&sealed),
        Err(CrypticleError::Authentication)
    );
    assert_eq!(c.decrypt(b"bad load"), Err(CrypticleError::Authentication));
}

/// Sealed with the right key, but not in the right format.
#[test]
fn refuses_authentic_nonsense() {
    let c = fixed();
    let block = c.encrypt(b"")[16..32].to_vec();
    let authentic = |body: &[u8]| {
        use hmac::Mac;
        let raw = unhex(&vectors("crypticle")["hmac_key_hex"]);
        let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&raw).unwrap();
        [body, &mac.chain_update(body).finalize().into_bytes()].concat()
    };
    for body in [
        &[][..],
        &[0; 15],
        &[0; 16],
        &[0; 17],
        &[&[0; 16][..], &block[1..]].concat(),
    ] {
        assert_eq!(c.decrypt(&authentic(body)), Err(CrypticleError::Padding));
        assert_eq!(c.peek(&authentic(body), 16), None);
    }
    // An IV that turns the last byte of the padding into 0, 17 and 255.
    let good = c.encrypt(b"");
    for pad in [0u8, 17, 255] {
        let mut body = good[..32].to_vec();
        body[15] ^= 16 ^ pad;
        assert_eq!(c.decrypt(&authentic(&body)), Err(CrypticleError::Padding));
    }
}

#[test]
fn documents() {
    let c = fixed();
    let value = Value::from(map! {"cmd" => "_return", "return" => true});
    let raw = msgpack::encode(&value, Profile::Wire);
    for nonce in [None, Some(""), Some(NONCE)] {
        let sealed = [c.dumps(&value, nonce), c.dumps_raw(&raw, nonce)];
        assert_eq!(c.decrypt(&sealed[0]), c.decrypt(&sealed[1]));
        for s in sealed {
            assert_eq!(c.loads(&s, nonce).as_ref(), Ok(&value));
        }
    }
    assert_eq!(
        c.loads(&c.encrypt(b"gherkin"), Some(NONCE)),
        Ok(Value::Map(Map::new()))
    );
    let cut = c.loads(&c.encrypt(b"pickle::"), None);
    assert!(matches!(cut, Err(CrypticleError::Decode(_))));
    let longer = c.loads(&c.encrypt(b"pickle::\xc0\xc0"), None);
    assert!(matches!(longer, Err(CrypticleError::Decode(_))));
    assert_ne!(c.encrypt(b"x"), c.encrypt(b"x"), "a fresh IV each time");
}

#[test]
fn peeks_without_the_hmac() {
    let c = fixed();
    let mut sealed = c.encrypt(&[b'a'; 40]);
    let end = sealed.len() - 1;
    sealed[end] ^= 1;
    let block = |n| vec![b'a'; n];
    assert_eq!(c.peek(&sealed, 0), Some(block(0)));
    assert_eq!(c.peek(&sealed, 1), Some(block(16)));
    assert_eq!(c.peek(&sealed, 17), Some(block(32)));
    assert_eq!(c.peek(&sealed, usize::MAX).unwrap().len(), 48);
    assert_eq!(c.peek(&sealed[1..], 1), None);
    assert_eq!(c.peek(b"bad load", 1), None);
}

#[test]
fn key_strings() {
    let keys = vectors("keys");
    let known = KeyString::from_text(&format!("{}\n", text(&keys["aes_key_string"]))).unwrap();
    assert_eq!(known.as_str(), text(&keys["aes_key_string"]));
    let made = KeyString::generate();
    assert_eq!(
        (made.as_str().len(), made.as_bytes().last()),
        (76, Some(&b'='))
    );
    assert_ne!(made, KeyString::generate());
    assert_eq!(KeyString::from_text(made.as_str()), Ok(made.clone()));
    let short = &made.as_str()[..72];
    let odd = made.as_str().replace('=', "!");
    for bad in [
        "",
        "AAAA",
        short,
        &odd,
        &format!("{short}AAAA"),
        &"A".repeat(400),
    ] {
        assert_eq!(
            KeyString::from_text(bad),
            Err(CryptoError::BadKeyString),
            "{bad}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_round_trip(plain: Vec<u8>, n in 0usize..200) {
        let c = fixed();
        let sealed = c.encrypt(&plain);
        prop_assert_eq!(sealed.len(), 16 + (plain.len() / 16 + 1) * 16 + 32);
        prop_assert_eq!(c.decrypt(&sealed).unwrap(), plain.clone());
        let peeked = c.peek(&sealed, n).unwrap();
        let both = plain.len().min(peeked.len());
        prop_assert!(both == plain.len() || peeked.len() >= n);
        prop_assert_eq!(&peeked[..both], &plain[..both]);
    }

    #[test]
    fn no_input_does_harm(junk: Vec<u8>, n: usize) {
        let c = fixed();
        prop_assert!(c.loads(&junk, Some(NONCE)).is_err());
        let _ = c.peek(&junk, n);
    }
}
