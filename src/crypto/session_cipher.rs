//! The two forms of requests and replies under a session key: Salt's, and that of halite peers.

use super::crypticle::{HEAD, PREFIX, as_text};
use super::{Crypticle, CrypticleError, Gcm, KeyString};
use halite_wire::Value;
use halite_wire::msgpack;

/// How requests and replies are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CipherKind {
    /// Salt's AES-192-CBC with HMAC-SHA256 ([`Crypticle`]), after Salt's sign-in.
    #[default]
    Salt,
    /// AES-256-GCM ([`Gcm`]), after the handshake between halite peers ([`super::noise`]).
    Gcm,
}

impl CipherKind {
    /// Both.
    pub const ALL: [CipherKind; 2] = [CipherKind::Salt, CipherKind::Gcm];

    /// `enc` of an envelope.
    pub fn enc(self) -> &'static str {
        match self {
            CipherKind::Salt => "aes",
            CipherKind::Gcm => "gcm",
        }
    }

    /// The kind of an encrypted envelope. As in Salt, everything unknown counts as `aes`.
    pub fn of(enc: &str) -> CipherKind {
        match enc {
            "gcm" => CipherKind::Gcm,
            _ => CipherKind::Salt,
        }
    }

    /// Length of the authentication code at the end of a message, in bytes.
    pub fn tag(self) -> usize {
        match self {
            CipherKind::Salt => 32,
            CipherKind::Gcm => 16,
        }
    }
}

/// A session key, prepared for requests and replies.
///
/// Requests are `msgpack`; with GCM, the id of the minion is authenticated with them, and with replies the nonce of the
/// request.
#[derive(Clone, Debug)]
pub enum SessionCipher {
    /// See [`CipherKind::Salt`].
    Salt(Box<Crypticle>),
    /// See [`CipherKind::Gcm`].
    Gcm {
        /// For requests.
        requests: Gcm,
        /// For replies.
        replies: Gcm,
    },
}

impl SessionCipher {
    /// Prepares a key.
    pub fn new(kind: CipherKind, session: &KeyString) -> SessionCipher {
        match kind {
            CipherKind::Salt => SessionCipher::Salt(Box::new(Crypticle::new(session))),
            CipherKind::Gcm => SessionCipher::Gcm {
                requests: Gcm::derive(session, "halite request"),
                replies: Gcm::derive(session, "halite reply"),
            },
        }
    }

    /// Which one it is.
    pub fn kind(&self) -> CipherKind {
        match self {
            SessionCipher::Salt(_) => CipherKind::Salt,
            SessionCipher::Gcm { .. } => CipherKind::Gcm,
        }
    }

    /// Seals a request, msgpack of a map, of the minion `id`.
    pub fn seal_request(&self, id: &str, document: &[u8]) -> Vec<u8> {
        match self {
            SessionCipher::Salt(crypticle) => crypticle.dumps_raw(document, None),
            SessionCipher::Gcm { requests, .. } => requests.seal(id.as_bytes(), document),
        }
    }

    /// Opens a request of the minion `id`; `None` if it was made with another key.
    pub fn open_request(&self, id: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        match self {
            SessionCipher::Salt(crypticle) => crypticle.decrypt(sealed).ok(),
            SessionCipher::Gcm { requests, .. } => requests.open(id.as_bytes(), sealed).ok(),
        }
    }

    /// The document of an opened request; `None` if it has none.
    pub fn document<'a>(&self, plain: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            SessionCipher::Salt(_) => plain.strip_prefix(PREFIX),
            SessionCipher::Gcm { .. } => Some(plain),
        }
    }

    /// The first `n` bytes of a request, **not** authenticated: a hint for choosing a queue.
    pub fn peek_request(&self, sealed: &[u8], n: usize) -> Option<Vec<u8>> {
        match self {
            SessionCipher::Salt(crypticle) => crypticle.peek(sealed, n),
            SessionCipher::Gcm { requests, .. } => requests.peek(sealed, n),
        }
    }

    /// Seals a reply of about `len` bytes that `write` appends, to the request with this nonce, and returns it as msgpack text,
    /// ready to send. Everything happens in the buffer that the reply is written to.
    ///
    /// # Errors
    /// Any error of `write`.
    pub fn reply_with<E>(
        &self,
        len: usize,
        nonce: &str,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let replies = match self {
            SessionCipher::Salt(crypticle) => return crypticle.text_with(len, Some(nonce), write),
            SessionCipher::Gcm { replies, .. } => replies,
        };
        let mut out = Vec::with_capacity(HEAD + len + 64);
        out.resize(HEAD, 0);
        replies.begin(&mut out);
        write(&mut out)?;
        replies.finish(&mut out, HEAD, nonce.as_bytes());
        Ok(as_text(out))
    }

    /// Opens a reply to the request with this nonce.
    ///
    /// # Errors
    /// See [`Crypticle::loads`].
    pub fn open_reply(&self, sealed: &[u8], nonce: &str) -> Result<Value, CrypticleError> {
        match self {
            SessionCipher::Salt(crypticle) => crypticle.loads(sealed, Some(nonce)),
            SessionCipher::Gcm { replies, .. } => {
                let plain = replies.open(nonce.as_bytes(), sealed)?;
                msgpack::decode(&plain).map_err(CrypticleError::Decode)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::msgpack::Profile;
    use std::convert::Infallible;

    #[test]
    fn requests_and_replies_of_both_kinds() {
        let session = KeyString::generate();
        for kind in CipherKind::ALL {
            let cipher = SessionCipher::new(kind, &session);
            assert_eq!(CipherKind::of(kind.enc()), kind);
            let document = b"\x81\xa3cmd\xa4ping";
            let sealed = cipher.seal_request("m1", document);
            let plain = cipher.open_request("m1", &sealed).unwrap();
            assert_eq!(cipher.document(&plain), Some(&document[..]));
            let peeked = cipher.peek_request(&sealed, 320).unwrap();
            assert!(cipher.document(&peeked).unwrap().starts_with(document));
            assert!(cipher.open_request("m1", &sealed[1..]).is_none());
            let nonce = super::super::nonce();
            for length in [0, 3, 40, 300, 70_000] {
                let value = Value::from("x".repeat(length));
                let text = cipher
                    .reply_with(length, &nonce, |out| {
                        msgpack::encode_into(out, &value, Profile::Wire);
                        Ok::<(), Infallible>(())
                    })
                    .unwrap();
                let text = msgpack::decode(&text).unwrap();
                let sealed = text.as_bytes().unwrap();
                assert_eq!(cipher.open_reply(sealed, &nonce).unwrap(), value);
                assert!(cipher.open_reply(sealed, &super::super::nonce()).is_err());
                assert!(cipher.open_request("m1", sealed).is_none() || kind == CipherKind::Salt);
            }
        }
        let gcm = SessionCipher::new(CipherKind::Gcm, &session);
        let sealed = gcm.seal_request("m1", b"\x80");
        assert!(gcm.open_request("m2", &sealed).is_none());
    }
}
