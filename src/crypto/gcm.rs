//! AES-256-GCM, which halite peers use for requests and replies after their [handshake](super::noise).

use super::{CrypticleError, KeyString, rng};
use aes_gcm::aead::AeadInPlace;
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::{Aes256Gcm, KeyInit};
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// The purpose of keys for jobs that are for one minion.
pub const PUBLICATION: &str = "halite publication";
const NONCE: usize = 12;
const TAG: usize = 16;
/// From this length in bytes on, OpenSSL's assembly is faster than the crate `aes-gcm`, in spite of what it costs to set up:
/// 0.26 instead of 0.72 ms for 1 MiB, but 1.0 instead of 0.34 microseconds for 400 bytes.
#[cfg(feature = "openssl")]
const LARGE: usize = 4 << 10;

/// A key of AES-256-GCM, for one direction of a session.
///
/// A message is `nonce (12 bytes) || ciphertext || tag (16 bytes)`. The nonce is random: a key must not be used for more than
/// 2^32 messages (NIST SP 800-38D, 8.3), which no session of a day comes near.
#[derive(Clone)]
pub struct Gcm {
    key: Zeroizing<[u8; 32]>,
}

impl Gcm {
    /// The key for `purpose` that belongs to a session key: HKDF-Expand with SHA-256 (RFC 5869, 2.3), where the session key
    /// is the pseudorandom key.
    pub fn derive(session: &KeyString, purpose: &str) -> Gcm {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(session.raw());
        // HMAC takes keys of any length.
        let mac = mac.unwrap_or_else(|_| unreachable!());
        let okm = mac.chain_update(purpose).chain_update([1]).finalize();
        Gcm {
            key: Zeroizing::new(okm.into_bytes().into()),
        }
    }

    /// Seals a message; `aad` is authenticated with it, and must be known to the receiver.
    pub fn seal(&self, aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(NONCE + plain.len() + TAG);
        self.begin(&mut out);
        out.extend_from_slice(plain);
        self.finish(&mut out, 0, aad);
        out
    }

    /// Appends a nonce. What is appended after it is the message, until [`Gcm::finish`].
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        let mut nonce = [0; NONCE];
        rng::fill_random(&mut nonce);
        out.extend_from_slice(&nonce);
    }

    /// Encrypts the message whose nonce is at `start` in place, and appends its tag.
    pub(super) fn finish(&self, out: &mut Vec<u8>, start: usize, aad: &[u8]) {
        let (nonce, text) = out[start..].split_at_mut(NONCE);
        let tag = self.encrypt(nonce, aad, text);
        out.extend_from_slice(&tag);
    }

    /// Opens a message. Nothing is decrypted before the tag has been verified.
    ///
    /// # Errors
    /// [`CrypticleError::Authentication`].
    pub fn open(&self, aad: &[u8], message: &[u8]) -> Result<Vec<u8>, CrypticleError> {
        let wrong = CrypticleError::Authentication;
        let length = message.len().checked_sub(NONCE + TAG).ok_or(wrong)?;
        let (nonce, rest) = message.split_at(NONCE);
        let (text, tag) = rest.split_at(length);
        self.decrypt(nonce, aad, text, tag).ok_or(wrong)
    }

    /// Decrypts the first `n` bytes **without** checking that they are authentic, as [`super::Crypticle::peek`] does.
    pub fn peek(&self, message: &[u8], n: usize) -> Option<Vec<u8>> {
        let length = message.len().checked_sub(NONCE + TAG)?;
        let (nonce, rest) = message.split_at(NONCE);
        let mut plain = rest[..length.min(n)].to_vec();
        // The first block of the text has the counter 2 (NIST SP 800-38D, 7.1).
        let mut block = [0; 16];
        block[..NONCE].copy_from_slice(nonce);
        block[15] = 2;
        let key = GenericArray::from_slice(self.key.as_slice());
        ctr::Ctr32BE::<aes::Aes256>::new(key, &block.into()).apply_keystream(&mut plain);
        Some(plain)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(GenericArray::from_slice(self.key.as_slice()))
    }

    fn encrypt(&self, nonce: &[u8], aad: &[u8], text: &mut [u8]) -> [u8; TAG] {
        #[cfg(feature = "openssl")]
        if text.len() >= LARGE
            && let Ok(tag) = openssl_encrypt(&self.key, nonce, aad, text)
        {
            return tag;
        }
        let tag =
            self.cipher()
                .encrypt_in_place_detached(GenericArray::from_slice(nonce), aad, text);
        // Fails for more than 64 GiB only.
        tag.map_or_else(|_| unreachable!(), Into::into)
    }

    fn decrypt(&self, nonce: &[u8], aad: &[u8], text: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
        #[cfg(feature = "openssl")]
        if text.len() >= LARGE {
            let cipher = openssl::symm::Cipher::aes_256_gcm();
            let key = self.key.as_slice();
            return openssl::symm::decrypt_aead(cipher, key, Some(nonce), aad, text, tag).ok();
        }
        let mut plain = text.to_vec();
        let tag = GenericArray::from_slice(tag);
        self.cipher()
            .decrypt_in_place_detached(GenericArray::from_slice(nonce), aad, &mut plain, tag)
            .ok()?;
        Some(plain)
    }
}

/// In place. If it fails, `text` is as before.
#[cfg(feature = "openssl")]
fn openssl_encrypt(
    key: &[u8; 32],
    nonce: &[u8],
    aad: &[u8],
    text: &mut [u8],
) -> Result<[u8; TAG], openssl::error::ErrorStack> {
    use openssl::cipher::Cipher;
    use openssl::cipher_ctx::CipherCtx;

    let mut context = CipherCtx::new()?;
    context.encrypt_init(Some(Cipher::aes_256_gcm()), Some(key), Some(nonce))?;
    context.cipher_update(aad, None)?;
    let length = text.len();
    context.cipher_update_inplace(text, length)?;
    let mut tag = [0; TAG];
    context.cipher_final(&mut [0; TAG])?;
    context.tag(&mut tag)?;
    Ok(tag)
}

impl fmt::Debug for Gcm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Gcm(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gcm() -> Gcm {
        Gcm::derive(&KeyString::generate(), "test")
    }

    #[test]
    fn messages_of_all_lengths_come_back() {
        let gcm = gcm();
        for length in [0, 1, 15, 16, 17, 4095, 4096, 4097, 100_000] {
            let plain: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let sealed = gcm.seal(b"aad", &plain);
            assert_eq!(sealed.len(), NONCE + length + TAG);
            assert_eq!(gcm.open(b"aad", &sealed).unwrap(), plain);
            for n in [0, 1, 16, 100, length, length + 1] {
                assert_eq!(gcm.peek(&sealed, n).unwrap(), plain[..n.min(length)]);
            }
            let wrong = Err(CrypticleError::Authentication);
            assert_eq!(gcm.open(b"other", &sealed), wrong);
            for at in [0, NONCE, sealed.len() - TAG, sealed.len() - 1] {
                let mut damaged = sealed.clone();
                damaged[at] ^= 1;
                assert_eq!(gcm.open(b"aad", &damaged), wrong);
            }
            assert_eq!(gcm.open(b"aad", &sealed[1..]), wrong);
            assert_ne!(gcm.seal(b"aad", &plain), sealed, "nonces differ");
        }
        assert!(gcm.open(b"", &[0; NONCE + TAG - 1]).is_err());
        assert!(gcm.peek(&[0; NONCE + TAG - 1], 1).is_none());
    }

    /// Both libraries make the same bytes.
    #[cfg(feature = "openssl")]
    #[test]
    fn large_messages_are_those_of_the_crate() {
        let gcm = gcm();
        let nonce = [7; NONCE];
        let mut one = vec![1; LARGE];
        let mut other = one.clone();
        let tag = openssl_encrypt(&gcm.key, &nonce, b"aad", &mut one).unwrap();
        let expected = gcm
            .cipher()
            .encrypt_in_place_detached(&nonce.into(), b"aad", &mut other)
            .unwrap();
        assert_eq!((one, &tag[..]), (other, &expected[..]));
    }

    #[test]
    fn keys_of_two_purposes_differ() {
        let session = KeyString::generate();
        let [one, other] = ["one", "other"].map(|purpose| Gcm::derive(&session, purpose));
        assert!(other.open(b"", &one.seal(b"", b"x")).is_err());
    }
}
