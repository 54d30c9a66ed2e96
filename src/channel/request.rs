//! Requests under the session key and their answers. No IO
//! (`salt/channel/client.py AsyncReqChannel._package_load`, `_crypted_transfer`,
//! `crypted_transfer_decode_dictentry`; reference `salt-protocol.md` 1.5, 4.2, 6).

use super::session::Credentials;
use super::signin::SignInConfig;
use halite_crypto::{Crypticle, KeyString, constant_time_eq};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Makes the message of one request. `sign` is `minion_sign_messages`; `ts` in Unix seconds.
pub fn seal(
    terms: &SignInConfig,
    credentials: &Credentials,
    load: &Map,
    nonce: &str,
    ts: i64,
    sign: bool,
) -> Vec<u8> {
    let mut load = load.clone();
    load.set("nonce", nonce);
    load.set("ts", ts);
    load.set("tok", terms.tok());
    load.set("id", terms.id.as_str());
    if sign {
        let signed: Map = Map(load
            .iter()
            .filter(|(k, _)| !k.is_str("nonce") && !k.is_str("tok"))
            .cloned()
            .collect());
        let bytes = msgpack::encode_map(&signed, Profile::Local);
        load.set("sig", terms.key.sign(terms.signing, &bytes));
    }
    let document = msgpack::encode_map(&load, Profile::Wire);
    let envelope = halite_wire::map! {
        "enc" => "aes",
        "load" => credentials.crypticle.dumps_raw(&document, None),
        "version" => 3,
        "id" => terms.id.as_str(),
        "enc_algo" => terms.encryption.to_string(),
        "sig_algo" => terms.signing.to_string(),
    };
    msgpack::encode_map(&envelope, Profile::Wire)
}

/// Reads an answer. An error means that the master does not share our session key (any more), and
/// gives its words.
pub fn open(credentials: &Credentials, answer: &[u8], nonce: &str) -> Result<Value, String> {
    let value = msgpack::decode(answer).map_err(|e| e.to_string())?;
    let Some(sealed) = value.as_bytes() else {
        return Err("an answer in the clear".into());
    };
    credentials
        .crypticle
        .loads(sealed, Some(nonce))
        .map_err(|e| match &value {
            Value::Str(words) => format!("{:.100}", words.escape_debug().to_string()),
            _ => e.to_string(),
        })
}

/// Reads the answer to `_pillar`. An error means that it is not from the master that we know.
pub fn open_pillar(
    terms: &SignInConfig,
    credentials: &Credentials,
    answer: &[u8],
    nonce: &str,
) -> Result<Map, String> {
    let Ok(Value::Map(outer)) = msgpack::decode(answer) else {
        return Err("no pillar in the answer".into());
    };
    let (Some(wrapped), Some(sealed)) = (outer.bytes("key"), outer.bytes("pillar")) else {
        return Err("no key in the answer".into());
    };
    let key = terms
        .key
        .decrypt(terms.encryption, wrapped)
        .map_err(|_| "its key was not encrypted for us".to_owned())?;
    let key = std::str::from_utf8(&key)
        .ok()
        .and_then(|text| KeyString::from_text(text).ok())
        .ok_or("its key is no key")?;
    let inner = Crypticle::new(&key)
        .loads(sealed, None)
        .map_err(|e| e.to_string())?;
    let inner = inner.as_map().ok_or("it is no map")?;
    let (Some(data), Some(sig)) = (inner.bytes("data"), inner.bytes("sig")) else {
        return Err("it is not signed".into());
    };
    if !credentials.master.key.verify(terms.signing, data, sig) {
        return Err("its signature does not fit the master's key".into());
    }
    let Ok(Value::Map(mut data)) = msgpack::decode(data) else {
        return Err("what was signed is no map".into());
    };
    if data.bytes("key") != Some(wrapped) {
        return Err("it was signed with another key".into());
    }
    let fresh = data
        .bytes("nonce")
        .is_some_and(|n| constant_time_eq(n, nonce.as_bytes()));
    if !fresh {
        return Err("it answers another request".into());
    }
    match data.remove("pillar") {
        Some(Value::Map(pillar)) => Ok(pillar),
        // A master without a pillar for us answers false.
        Some(other) if !other.truthy() => Ok(Map::new()),
        _ => Err("the pillar is no map".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{credentials, json, list, terms, text, unhex, value};

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
            let body = seal(&terms, &credentials, &load, nonce, 1_700_000_000, false);
            let got = msgpack::decode(&body).unwrap().into_map().unwrap();
            let want = msgpack::decode(&unhex(&v["request_hex"]))
                .unwrap()
                .into_map()
                .unwrap();
            // Both have an initialisation vector of their own; everything else is equal.
            let open = |m: &Map| {
                credentials
                    .crypticle
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
            credentials
                .crypticle
                .loads(m.bytes("load").unwrap(), None)
                .unwrap()
        };
        let nonce = open(&want)
            .as_map()
            .unwrap()
            .str("nonce")
            .unwrap()
            .to_owned();
        let body = seal(&terms, &credentials, &load, &nonce, 1_700_000_000, true);
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
                open_pillar(&terms, &credentials, reply, nonce).unwrap_err()
            };
            assert!(refuse(&reply, &"1".repeat(32)).contains("another request"));
            assert!(refuse(b"\xa8bad load", nonce).contains("no pillar"));
            assert!(refuse(b"\x81\xa5error\xa3foo", nonce).contains("no key"));
            let mut stranger = super::super::testing::credentials();
            stranger.master.key = terms.key.public();
            let why = open_pillar(&terms, &stranger, &reply, nonce).unwrap_err();
            assert!(why.contains("signature"), "{why}");
        }
    }

    #[test]
    fn words_of_refusal_are_passed_on() {
        let why = open(&credentials(), b"\xa8bad load", "x").unwrap_err();
        assert_eq!(why, "bad load");
    }
}
