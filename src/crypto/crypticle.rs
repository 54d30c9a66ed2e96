//! Salt's symmetric envelope: AES-192-CBC authenticated with HMAC-SHA256.

use super::cbc::{BLOCK, Cbc};
use super::key_string::AES_LEN;
use super::{KeyString, constant_time_eq, rng};
use aes::cipher::generic_array::GenericArray;
use halite_wire::Value;
use halite_wire::map;
use halite_wire::msgpack::{self, DecodeError, Profile};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

const MAC: usize = 32;
/// Precedes every document. The name is historical, nothing is pickled.
pub(super) const PREFIX: &[u8] = b"pickle::";
/// Bytes of the nonce between the prefix and a document.
const NONCE: usize = 32;
/// Maximum number of bytes before a msgpack text.
pub(super) const HEAD: usize = 5;

/// Why an envelope could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrypticleError {
    /// Made with another key, damaged, or too short: time to sign in again.
    Authentication,
    /// Authentic, but its length or padding is not valid for AES-CBC.
    Padding,
    /// Authentic, but the answer to another request.
    Nonce,
    /// Authentic, but the content is not msgpack.
    Decode(DecodeError),
}

impl fmt::Display for CrypticleError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            CrypticleError::Authentication => f.write_str(
                "message authentication failed: it was made with another key; sign in again",
            ),
            CrypticleError::Padding => {
                f.write_str("the message is authentic but wrongly padded; the sender is at fault")
            }
            CrypticleError::Nonce => f.write_str(
                "nonce verification failed: the message answers another request; send it again",
            ),
            CrypticleError::Decode(e) => {
                write!(f, "the message is authentic but cannot be read: {e}")
            }
        }
    }
}

impl std::error::Error for CrypticleError {}

/// A key prepared for sealing and opening (`salt/crypt.py Crypticle`; reference 4.2).
///
/// An envelope is `IV || AES-192-CBC || HMAC-SHA256`, the HMAC over both. Checking `serial` in publications is left to
/// the minion, which stores the last one.
#[derive(Clone)]
pub struct Crypticle {
    cbc: Cbc,
    mac: Hmac<Sha256>,
}

impl Crypticle {
    /// Prepares a key. Keep the result instead of the text.
    pub fn new(key: &KeyString) -> Self {
        let (aes, hmac) = key.raw().split_at(AES_LEN);
        Self {
            cbc: Cbc::new(aes),
            mac: KeyInit::new(GenericArray::from_slice(block_key(hmac).as_slice())),
        }
    }

    /// Seals some bytes.
    pub fn encrypt(&self, plain: &[u8]) -> Vec<u8> {
        let mut out = start(0, plain.len());
        out.extend_from_slice(plain);
        self.seal(&mut out, 0);
        out
    }

    /// Opens an envelope. Nothing is decrypted before the HMAC has been verified.
    ///
    /// # Errors
    /// [`CrypticleError::Authentication`] for anything not sealed with this key, or [`CrypticleError::Padding`].
    pub fn decrypt(&self, data: &[u8]) -> Result<Vec<u8>, CrypticleError> {
        let body = self.authenticate(data)?;
        let Some((iv, text)) = body.split_at_checked(BLOCK) else {
            return Err(CrypticleError::Padding);
        };
        if text.is_empty() || !text.len().is_multiple_of(BLOCK) {
            return Err(CrypticleError::Padding);
        }
        let mut plain = self.cbc.decrypt(iv, text);
        let pad = usize::from(plain.last().copied().unwrap_or_default());
        if pad == 0 || pad > BLOCK {
            return Err(CrypticleError::Padding);
        }
        plain.truncate(plain.len() - pad);
        Ok(plain)
    }

    /// Seals a value, encoded for transport between hosts.
    ///
    /// A `nonce` goes into replies to minions, never into requests or publications (reference 4.2). An empty one counts
    /// as missing.
    pub fn dumps(&self, value: &Value, nonce: Option<&str>) -> Vec<u8> {
        let mut out = start_document(0, msgpack::size_hint(value), nonce);
        msgpack::encode_into(&mut out, value, Profile::Wire);
        self.seal(&mut out, 0);
        out
    }

    /// Like [`Self::dumps`], for a document that is already msgpack.
    pub fn dumps_raw(&self, document: &[u8], nonce: Option<&str>) -> Vec<u8> {
        let mut out = start_document(0, document.len(), nonce);
        out.extend_from_slice(document);
        self.seal(&mut out, 0);
        out
    }

    /// Seals a document of about `len` bytes that `write` appends, and returns the envelope as msgpack text, ready to
    /// send. Everything happens in the buffer that the document is written to.
    ///
    /// # Errors
    /// Any error of `write`.
    pub fn text_with<E>(
        &self,
        len: usize,
        nonce: Option<&str>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let mut out = start_document(HEAD, len, nonce);
        write(&mut out)?;
        self.seal(&mut out, HEAD);
        Ok(as_text(out))
    }

    /// Opens an envelope and decodes the document inside. Without the `pickle::` prefix the result is an empty map, as
    /// in Salt.
    ///
    /// # Errors
    /// See [`Self::decrypt`]. [`CrypticleError::Nonce`] if a nonce is expected and missing or different;
    /// [`CrypticleError::Decode`] for a broken document.
    pub fn loads(&self, data: &[u8], nonce: Option<&str>) -> Result<Value, CrypticleError> {
        let plain = self.decrypt(data)?;
        let Some(mut document) = plain.strip_prefix(PREFIX) else {
            return Ok(Value::Map(map! {}));
        };
        if let Some(nonce) = non_empty(nonce) {
            document = check_nonce(document, nonce)?;
        }
        msgpack::decode(document).map_err(CrypticleError::Decode)
    }

    /// Decrypts the first `n` bytes of the plain text, rounded up to whole blocks, **without** checking that it is
    /// authentic: a hint for choosing a queue and nothing else. Code that acts on the content must open the whole
    /// envelope.
    ///
    /// For a short envelope the result is shorter, and then ends with the padding. `None` if the data does not have the
    /// form of an envelope.
    pub fn peek(&self, data: &[u8], n: usize) -> Option<Vec<u8>> {
        let body = &data[..data.len().checked_sub(MAC)?];
        let (iv, text) = body.split_at_checked(BLOCK)?;
        if text.is_empty() || !text.len().is_multiple_of(BLOCK) {
            return None;
        }
        let n = n.min(text.len()).next_multiple_of(BLOCK);
        Some(self.cbc.decrypt(iv, &text[..n]))
    }

    /// Pads and encrypts everything after the IV (at `iv`) in place, then appends the HMAC.
    pub(super) fn seal(&self, out: &mut Vec<u8>, iv: usize) {
        let pad = BLOCK - (out.len() - iv) % BLOCK;
        out.reserve_exact(pad + MAC);
        out.resize(out.len() + pad, pad as u8);
        self.cbc.encrypt(out, iv);
        let mac = self.mac.clone().chain_update(&out[iv..]).finalize();
        out.extend_from_slice(&mac.into_bytes());
    }

    /// Verifies the HMAC and returns the envelope without it.
    fn authenticate<'a>(&self, data: &'a [u8]) -> Result<&'a [u8], CrypticleError> {
        let wrong = CrypticleError::Authentication;
        let at = data.len().checked_sub(MAC).ok_or(wrong)?;
        let (body, mac) = data.split_at(at);
        let expected = self.mac.clone().chain_update(body);
        // Compares in constant time.
        expected.verify_slice(mac).map_err(|_| wrong)?;
        Ok(body)
    }
}

/// Starts an envelope at `at`: with its random IV and room for `len` bytes.
fn start(at: usize, len: usize) -> Vec<u8> {
    let mut iv = [0; BLOCK];
    rng::fill_random(&mut iv);
    let mut out = Vec::with_capacity(at + BLOCK + len + BLOCK + MAC);
    out.resize(at, 0);
    out.extend_from_slice(&iv);
    out
}

/// Starts an envelope at `at`, up to the start of the document.
fn start_document(at: usize, len: usize, nonce: Option<&str>) -> Vec<u8> {
    let mut out = start(at, PREFIX.len() + NONCE + len);
    out.extend_from_slice(PREFIX);
    out.extend_from_slice(non_empty(nonce).unwrap_or_default().as_bytes());
    out
}

/// Turns what comes after the first [`HEAD`] bytes into a msgpack text.
pub(super) fn as_text(mut out: Vec<u8>) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD);
    msgpack::put_str_header(&mut head, out.len() - HEAD, Profile::Wire);
    // Only short texts have a shorter head, and moving them is cheap.
    out.drain(..HEAD - head.len());
    out[..head.len()].copy_from_slice(&head);
    out
}

/// Python's `if nonce:`.
fn non_empty(nonce: Option<&str>) -> Option<&str> {
    nonce.filter(|n| !n.is_empty())
}

fn check_nonce<'a>(document: &'a [u8], nonce: &str) -> Result<&'a [u8], CrypticleError> {
    match document.split_at_checked(NONCE) {
        Some((sent, rest)) if constant_time_eq(sent, nonce.as_bytes()) => Ok(rest),
        _ => Err(CrypticleError::Nonce),
    }
}

/// An HMAC key padded with zeros to one block of the hash, as HMAC defines it.
fn block_key(key: &[u8]) -> Zeroizing<[u8; 64]> {
    let mut block = Zeroizing::new([0; 64]);
    block[..key.len()].copy_from_slice(key);
    block
}

impl fmt::Debug for Crypticle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Crypticle(***)")
    }
}
