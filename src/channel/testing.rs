//! Keys and vectors for the unit tests of the minion.

use super::credentials::Credentials;
use super::signin::{MasterKey, SignInConfig};
use halite_crypto::{CipherKind, HashType, IdentityKey, KeyString, SessionCipher, clean_key};
use halite_wire::{Map, Value};
pub use serde_json::Value as Json;
use std::sync::OnceLock;

/// A file of vectors.
pub fn json(name: &str) -> Json {
    let path = format!(
        "{}/../../tests/vectors/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub fn list(file: &Json) -> &[Json] {
    file["vectors"].as_array().unwrap()
}

pub fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

pub fn unhex(json: &Json) -> Vec<u8> {
    let digits = text(json);
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

/// A value of a vector file, in which `{"hex": ...}` are bytes.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => (*b).into(),
        Json::Number(n) => n
            .as_i64()
            .map_or_else(|| n.as_f64().unwrap().into(), Value::Int),
        Json::String(s) => s.as_str().into(),
        Json::Array(a) => Value::Array(a.iter().map(value).collect()),
        Json::Object(o) if o.len() == 1 && o.contains_key("hex") => unhex(&json["hex"]).into(),
        Json::Object(o) => Value::Map(
            o.iter()
                .map(|(k, v)| (k.as_str(), value(v)))
                .collect::<Map>(),
        ),
    }
}

/// The private key of `master` or `minion`.
pub fn private(who: &str) -> IdentityKey {
    IdentityKey::from_pem(text(&json("keys")[who]["private_pem"])).unwrap()
}

pub fn master() -> MasterKey {
    MasterKey::parse(text(&json("keys")["master"]["public_pem"])).unwrap()
}

/// The minion of the vectors.
pub fn terms() -> SignInConfig {
    let key = private("minion");
    SignInConfig {
        id: "vector-minion".into(),
        public: clean_key(&key.public().to_pem()),
        key,
        encryption: "OAEP-SHA1".parse().unwrap(),
        signing: "PKCS1v15-SHA1".parse().unwrap(),
        autosign_grains: None,
        verify_master_sign: false,
        always_verify: false,
        signer: None,
        master_finger: String::new(),
        hash: HashType::Sha256,
        token: KeyString::from_text(text(&json("auth-3008")["minion_token"])).unwrap(),
        tok: OnceLock::new(),
        noise: None,
        noise_only: false,
    }
}

/// Its credentials after the sign-in.
pub fn credentials() -> Credentials {
    let keys = json("auth-3008");
    let session = KeyString::from_text(text(&keys["session_key_string"])).unwrap();
    Credentials {
        generation: 1,
        signed_in: 1,
        admitted: false,
        next: None,
        rekeys: false,
        aes: KeyString::from_text(text(&keys["aes_key_string"])).unwrap(),
        cipher: SessionCipher::new(CipherKind::Salt, &session),
        session,
        master: master(),
        publish_url: "tcp://127.0.0.1:4505".into(),
        request_url: "tcp://127.0.0.1:4506".into(),
        name: "127.0.0.1".into(),
    }
}
