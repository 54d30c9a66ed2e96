//! Errors of keys and of cipher texts.

use std::fmt;

/// Shorter RSA keys are refused.
pub const MIN_BITS: usize = 1024;
/// Longer RSA keys are refused: their cost grows with the cube of the length.
pub const MAX_BITS: usize = 8192;

/// Why a key cannot be used, or an operation with it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CryptoError {
    /// The text is not PEM, or PEM of an unsupported kind.
    BadPem(&'static str),
    /// The PEM holds a key that is damaged or inconsistent.
    BadKey(&'static str),
    /// The private key is protected by a passphrase.
    Encrypted,
    /// The modulus has this many bits, which is out of bounds.
    KeySize(usize),
    /// The public exponent is even, 1, or above 32 bits.
    Exponent,
    /// Not a key string: Salt's have 56 bytes in base64.
    BadKeyString,
    /// Not a static key of the handshake between halite peers: these have 32 bytes in base64.
    BadStaticKey,
    /// The plain text has `len` bytes, but this key can encrypt only `max`.
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The cipher text was not made for this key and algorithm. Deliberately gives no details.
    Decrypt,
    /// The crypto library itself failed.
    Library(String),
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            CryptoError::BadPem(why) => write!(
                f,
                "not a key in PEM form: {why}; expected a text from -----BEGIN to -----END \
                 as salt-key and openssl write it"
            ),
            CryptoError::BadKey(why) => write!(
                f,
                "the key is damaged: {why}; restore the file from a copy, or remove it so \
                 that a new key is made"
            ),
            CryptoError::Encrypted => f.write_str(
                "the private key is protected by a passphrase, which is not supported; write it \
                 out without one (openssl rsa -traditional -in OLD -out NEW)",
            ),
            CryptoError::KeySize(bits) => write!(
                f,
                "an RSA key of {bits} bits is not accepted: between {MIN_BITS} and {MAX_BITS}, a \
                 multiple of 8; make a new key with keysize 2048 or more"
            ),
            CryptoError::Exponent => f.write_str(
                "the RSA key has an unusual public exponent (odd, from 3 up to 32 bits, is \
                 accepted); make a new key, with exponent 65537",
            ),
            CryptoError::BadKeyString => f.write_str(
                "not a key string (56 bytes in base64, 76 characters); remove the file it came \
                 from so that a new one is made",
            ),
            CryptoError::BadStaticKey => f.write_str(
                "not a static key (32 bytes in base64, 44 characters); remove the file it came \
                 from so that a new one is made",
            ),
            CryptoError::TooLong { len, max } => write!(
                f,
                "{len} bytes are too many for this RSA key, which can encrypt {max}; use a longer key"
            ),
            CryptoError::Decrypt => f.write_str(
                "RSA decryption failed: the text was made for another key or another \
                 encryption_algorithm",
            ),
            CryptoError::Library(why) => write!(f, "the crypto library failed: {why}"),
        }
    }
}

impl std::error::Error for CryptoError {}
