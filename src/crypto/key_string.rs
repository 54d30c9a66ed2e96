//! The text form of an AES key and an HMAC key.

use super::{CryptoError, constant_time_eq, rng};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

/// Length of the AES-192 key in bytes.
pub(super) const AES_LEN: usize = 24;
/// Length of the HMAC-SHA256 key, which follows it, in bytes.
const HMAC_LEN: usize = 32;
/// Length of both.
pub(super) const LEN: usize = AES_LEN + HMAC_LEN;
type RawKeys = Zeroizing<[u8; LEN]>;

/// Salt's key string: 76 characters, base64 of the AES key and the HMAC key. Peers encrypt, send and compare this text
/// (`salt/crypt.py Crypticle.generate_key_string`). Wiped when dropped, prints as `***`.
#[derive(Clone)]
pub struct KeyString {
    text: Zeroizing<String>,
    raw: RawKeys,
}

impl KeyString {
    /// Generates a random key.
    pub fn generate() -> Self {
        let mut raw = RawKeys::new([0; LEN]);
        rng::fill_random(raw.as_mut_slice());
        let text = Zeroizing::new(STANDARD.encode(raw.as_slice()));
        Self { text, raw }
    }

    /// Parses a text from a peer or a file, ignoring surrounding white space.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyString`] if it is not 56 bytes in base64.
    pub fn from_text(text: &str) -> Result<Self, CryptoError> {
        let text = Zeroizing::new(text.trim().to_owned());
        // The decoder needs room for a complete last group of four characters.
        let mut room = Zeroizing::new([0; LEN + 1]);
        let mut raw = RawKeys::new([0; LEN]);
        match STANDARD.decode_slice(text.as_bytes(), room.as_mut_slice()) {
            Ok(LEN) => raw.copy_from_slice(&room[..LEN]),
            _ => return Err(CryptoError::BadKeyString),
        }
        Ok(Self { text, raw })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text as bytes, to be encrypted or hashed.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The AES key and the HMAC key.
    pub(super) fn raw(&self) -> &[u8; LEN] {
        &self.raw
    }
}

impl PartialEq for KeyString {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(self.as_bytes(), other.as_bytes())
    }
}

impl Eq for KeyString {}

impl fmt::Debug for KeyString {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}
