//! Keys, signatures and envelopes: all cryptography of Salt's protocol, and of the [handshake](noise) between halite peers.
//!
//! No IO except for random numbers. [`PrivateKey`] and [`PublicKey`] are RSA keys of the back end chosen at build time:
//! the system's OpenSSL with the feature `openssl`, else the portable `rsa` crate. Both back ends give the same bytes.

mod algorithm;
mod cbc;
mod cluster;
mod crypticle;
mod ed25519;
mod error;
mod gcm;
pub mod hash;
mod identity;
mod key;
mod key_string;
pub mod noise;
mod padding;
mod password;
mod pem;
mod pkcs1;
mod rng;
#[cfg(feature = "openssl")]
pub mod rsa_openssl;
pub mod rsa_portable;
mod session_cipher;

pub use algorithm::{Encryption, Signing, UnsupportedAlgorithm};
pub use cluster::{ClusterSecret, SHORTEST as SHORTEST_SECRET};
pub use crypticle::{Crypticle, CrypticleError};
pub use ed25519::{Ed25519Private, Ed25519Public};
pub use error::{CryptoError, MAX_BITS, MIN_BITS};
pub use gcm::{Gcm, PUBLICATION};
pub use halite_wire::KeyType;
pub use hash::{HashType, Hasher, UnsupportedHash, finger, hex_by_name, hmac_hex, in_pairs};
pub use identity::{IdentityKey, IdentityPublic};
pub use key::{Backend, PrivateOps, PublicOps, RsaPrivate, RsaPublic};
pub use key_string::KeyString;
pub use password::Alphabet;
pub use pem::clean_key;
pub use rng::{fill_random, nonce, random_hex, random_uuid};
pub use session_cipher::{CipherKind, SessionCipher};

/// The RSA private key the program uses.
#[cfg(feature = "openssl")]
pub type PrivateKey = RsaPrivate<rsa_openssl::OpenSsl>;
/// The RSA public key the program uses.
#[cfg(feature = "openssl")]
pub type PublicKey = RsaPublic<rsa_openssl::OpenSsl>;
/// The RSA private key the program uses.
#[cfg(not(feature = "openssl"))]
pub type PrivateKey = RsaPrivate<rsa_portable::Portable>;
/// The RSA public key the program uses.
#[cfg(not(feature = "openssl"))]
pub type PublicKey = RsaPublic<rsa_portable::Portable>;

/// The library used for RSA, with its version.
pub fn rsa_library() -> &'static str {
    #[cfg(feature = "openssl")]
    return openssl::version::version();
    #[cfg(not(feature = "openssl"))]
    return "portable";
}

/// Compares secrets in constant time. Lengths are not secret.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    use subtle::ConstantTimeEq;
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests;
