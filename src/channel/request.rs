//! Requests under the session key and their replies. No IO
//! (`salt/channel/client.py AsyncReqChannel._package_load`, `_crypted_transfer`,
//! `crypted_transfer_decode_dictentry`; reference `salt-protocol.md` 1.5, 4.2, 6).

use super::credentials::Credentials;
use super::reply::{self, ReplyError};
use super::signin::SignInConfig;
use halite_crypto::{CipherKind, Crypticle};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// The first message on a publish port whose subscribers say who they are: the id, under the publication key
/// (`salt/transport/tcp.py TCPPubClient`, reference `salt-transports.md` 1.2).
pub fn claim(id: &str, tok: &[u8], publications: &Crypticle) -> Vec<u8> {
    let load = halite_wire::map! {"id" => id, "tok" => tok};
    let document = msgpack::encode_map(&load, Profile::Wire);
    let envelope = halite_wire::map! {
        "enc" => "aes",
        "load" => publications.dumps_raw(&document, None),
        "version" => 3,
    };
    msgpack::encode_map(&envelope, Profile::Wire)
}

/// Decrypts the reply to a request.
///
/// # Errors
/// The master does not have our session key (any more).
pub fn open(credentials: &Credentials, answer: &[u8], nonce: &str) -> Result<Value, ReplyError> {
    reply::open(&credentials.cipher, answer, nonce)
}

/// Decrypts the reply to `_pillar`.
///
/// # Errors
/// It is not from the master that we trust.
pub fn open_pillar(
    terms: &SignInConfig,
    credentials: &Credentials,
    answer: &[u8],
    nonce: &str,
) -> Result<Map, ReplyError> {
    if credentials.cipher.kind() == CipherKind::Gcm {
        return reply::pillar_of(open(credentials, answer, nonce)?);
    }
    reply::open_pillar(
        &terms.key,
        terms.encryption,
        terms.signing,
        &credentials.master.key,
        answer,
        nonce,
    )
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::*;
    use crate::testing::{credentials, json, list, terms, text, unhex, value};
    use halite_crypto::SessionCipher;

    #[test]
    fn requests_of_stock_are_ours() {
        let file = json("request");
        let (terms, credentials) = (terms(), credentials());
        let mut seen = 0;
        for v in list(&file) {
            let Some(load) = value(&v["load"]).into_map() else {
                continue;
            };
            let nonce = text(&file["nonce"]);
            let body = terms.seal(
                &credentials.cipher,
                &Load::from(&load),
                nonce,
                1_700_000_000,
                false,
            );
            let got = msgpack::decode(&body).unwrap().into_map().unwrap();
            let want = msgpack::decode(&unhex(&v["request_hex"]))
                .unwrap()
                .into_map()
                .unwrap();
            // Only the initialization vectors differ.
            let open = |m: &Map| {
                salt(&credentials)
                    .loads(m.bytes("load").unwrap(), None)
                    .unwrap()
            };
            assert_eq!(open(&got), open(&want), "{}", v["name"]);
            let outer = |m: &Map| {
                Map(m
                    .iter()
                    .filter(|(k, _)| !k.is_str("load"))
                    .cloned()
                    .collect())
            };
            assert_eq!(outer(&got), outer(&want));
            let reply = unhex(&v["reply_hex"]);
            assert!(open_reply(&credentials, &reply, nonce), "{}", v["name"]);
            assert!(!open_reply(&credentials, &reply, &"0".repeat(32)));
            seen += 1;
        }
        assert!(seen >= 2);
    }

    fn salt(credentials: &Credentials) -> &Crypticle {
        match &credentials.cipher {
            SessionCipher::Salt(crypticle) => crypticle,
            SessionCipher::Gcm { .. } => panic!(),
        }
    }

    fn open_reply(credentials: &Credentials, reply: &[u8], nonce: &str) -> bool {
        super::open(credentials, reply, nonce).is_ok()
    }

    #[test]
    fn signed_returns_of_stock_are_ours() {
        let v = json("minion-signed-return");
        let (terms, credentials) = (terms(), credentials());
        let load = value(&v["load"]).into_map().unwrap();
        let want = msgpack::decode(&unhex(&v["request_hex"]))
            .unwrap()
            .into_map()
            .unwrap();
        let open = |m: &Map| {
            salt(&credentials)
                .loads(m.bytes("load").unwrap(), None)
                .unwrap()
        };
        let nonce = open(&want)
            .as_map()
            .unwrap()
            .str("nonce")
            .unwrap()
            .to_owned();
        let body = terms.seal(
            &credentials.cipher,
            &Load::from(&load),
            &nonce,
            1_700_000_000,
            true,
        );
        let got = msgpack::decode(&body).unwrap().into_map().unwrap();
        assert_eq!(open(&got), open(&want));
    }

    #[test]
    fn a_pillar_has_to_be_proven() {
        let (terms, credentials) = (terms(), credentials());
        for v in list(&json("pillar")) {
            let reply = unhex(&v["reply_hex"]);
            let nonce = text(&v["nonce"]);
            let pillar = open_pillar(&terms, &credentials, &reply, nonce).unwrap();
            assert!(!pillar.is_empty(), "{pillar:?}");
            let refuse = |reply: &[u8], nonce: &str| {
                open_pillar(&terms, &credentials, reply, nonce)
                    .unwrap_err()
                    .to_string()
            };
            assert!(refuse(&reply, &"1".repeat(32)).contains("another request"));
            assert!(refuse(b"\xa8bad load", nonce).contains("no pillar"));
            assert!(refuse(b"\x81\xa5error\xa3foo", nonce).contains("no key"));
            let mut stranger = super::super::testing::credentials();
            stranger.master.key = terms.key.public();
            let why = open_pillar(&terms, &stranger, &reply, nonce)
                .unwrap_err()
                .to_string();
            assert!(why.contains("signature"), "{why}");
        }
    }

    #[test]
    fn words_of_refusal_are_passed_on() {
        let why = open(&credentials(), b"\xa8bad load", "x").unwrap_err();
        assert_eq!(why.to_string(), "bad load");
        assert!(why.wants_sign_in());
    }
}
