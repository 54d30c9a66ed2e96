//! The handshake between halite peers and what follows it.

use halite::crypto::noise::{Initiator, Responder, StaticKey, fingerprint, prologue};
use halite::crypto::{CipherKind, KeyString, SessionCipher};
use halite::wire::Value;
use halite::wire::msgpack::{self, Profile};
use std::sync::LazyLock;

/// Keys of the test vectors.
const MASTER: &str = "wMgNvVCSjvw6jmc8awlR2k40RzGJB1uF29SHjNrbZOM=";
const MINION: &str = "5tDVGbKoxJHVxIJaAcUe1CdPfrgiLbSbWnEw8o1P7JQ=";
const NONCE: &str = "0123456789abcdef0123456789abcdef";

/// The first message of a handshake from anybody, its reply, and payloads of somebody who can make them.
pub fn noise_handshake(data: &[u8]) {
    static KEYS: LazyLock<[StaticKey; 2]> = LazyLock::new(|| {
        [MASTER, MINION].map(|text| StaticKey::from_text(text).expect("the key is right"))
    });
    let [master, minion] = &*KEYS;
    let prologue = prologue(&fingerprint("PEM"), "m1");
    // Only its sender knows the shared secret.
    assert!(Responder::read(master, &prologue, data).is_err() || data.len() >= 96);
    let Ok((waiting, first)) = Initiator::start(minion, master.public(), &prologue, data) else {
        return;
    };
    let responder = Responder::read(master, &prologue, &first).expect("it is genuine");
    assert_eq!(responder.payload, data);
    assert!(waiting.finish(data).is_err());
}

/// A request and a reply under AES-256-GCM from anybody, and documents from somebody who has the key.
pub fn session_gcm(data: &[u8]) {
    static SESSION: LazyLock<SessionCipher> = LazyLock::new(|| {
        let key = KeyString::from_text(super::KEY).expect("the key is right");
        SessionCipher::new(CipherKind::Gcm, &key)
    });
    let session = &*SESSION;
    let _ = session.open_request("m1", data);
    let _ = session.open_reply(data, NONCE);
    let peeked = session.peek_request(data, 320);
    assert!(peeked.is_none_or(|text| text.len() <= data.len().saturating_sub(28).min(320)));
    let sealed = session.seal_request("m1", data);
    assert_eq!(session.open_request("m1", &sealed).as_deref(), Some(data));
    assert!(session.open_request("m2", &sealed).is_none());
    let start = &data[..data.len().min(320)];
    assert_eq!(session.peek_request(&sealed, 320).as_deref(), Some(start));
    let reply = session.reply_with(data.len(), NONCE, |out| {
        out.extend_from_slice(data);
        Ok::<(), ()>(())
    });
    let reply = msgpack::decode(&reply.expect("nothing fails")).expect("it is a text");
    let read = session.open_reply(reply.as_bytes().expect("it is a text"), NONCE);
    // As bytes: NaN is not equal to itself.
    let bytes = |value: Option<Value>| value.map(|value| msgpack::encode(&value, Profile::Local));
    assert_eq!(bytes(read.ok()), bytes(msgpack::decode(data).ok()));
}
