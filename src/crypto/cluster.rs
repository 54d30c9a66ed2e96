//! Keys that the masters of a cluster derive from their common secret, so that none of them has to be sent or stored.

use super::key_string::LEN;
use super::{CryptoError, Gcm, KeyString};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// Fewest characters of a secret (option `cluster_secret`).
pub const SHORTEST: usize = 32;
/// The salt of HKDF-Extract.
const SALT: &[u8] = b"halite cluster 1";

/// The common secret of a cluster. Prints as `***`.
#[derive(Clone)]
pub struct ClusterSecret(Zeroizing<[u8; 32]>);

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}

impl ClusterSecret {
    /// From the text that all masters have, for the cluster with this id: HKDF-Extract with SHA-256 (RFC 5869, 2.2). Clusters with
    /// the same text have nothing in common.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyString`] if it has fewer than [`SHORTEST`] characters.
    pub fn new(text: &str, cluster: &str) -> Result<ClusterSecret, CryptoError> {
        let text = text.trim();
        if text.chars().count() < SHORTEST {
            return Err(CryptoError::BadKeyString);
        }
        let salt = [SALT, &[0], cluster.as_bytes()].concat();
        Ok(ClusterSecret(Zeroizing::new(mac(
            &salt,
            &[text.as_bytes()],
        ))))
    }

    /// The key for a purpose and its parts, which may be any bytes: HKDF-Expand (RFC 5869, 2.3) of 56 bytes. Different parts
    /// give independent keys; each is preceded by its length, so that no two lists of parts are the same bytes.
    pub fn key(&self, purpose: &str, parts: &[&[u8]]) -> KeyString {
        let mut info = Vec::new();
        for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
            info.extend_from_slice(&(part.len() as u64).to_be_bytes());
            info.extend_from_slice(part);
        }
        let first = Zeroizing::new(mac(self.0.as_slice(), &[&info, &[1]]));
        let second = Zeroizing::new(mac(self.0.as_slice(), &[first.as_slice(), &info, &[2]]));
        let mut raw = Zeroizing::new([0; 64]);
        raw[..32].copy_from_slice(first.as_slice());
        raw[32..].copy_from_slice(second.as_slice());
        let text = Zeroizing::new(STANDARD.encode(&raw[..LEN]));
        // It has the right length.
        KeyString::from_text(&text).unwrap_or_else(|_| unreachable!())
    }

    /// The key that seals what the masters tell each other.
    pub fn seal(&self, purpose: &str) -> Gcm {
        Gcm::derive(&self.key("seal", &[purpose.as_bytes()]), purpose)
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mac = <Hmac<Sha256> as Mac>::new_from_slice(key);
    // HMAC takes keys of any length.
    let mut mac = mac.unwrap_or_else(|_| unreachable!());
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: &str =
        "FOjvDheYRiaAycdQ2qetqUiQ1h+doeI6+00N/0WyFU+O+A/+MChuIUPte5wF3SZszDFANv+DBP4=";
    const TEXT: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn keys_depend_on_everything() {
        let secret = ClusterSecret::new(TEXT, "c").unwrap();
        let key = |purpose: &str, parts: &[&[u8]]| secret.key(purpose, parts);
        let one = key("session", &[b"m1", b"f"]);
        // All masters get the same.
        let other = ClusterSecret::new(&format!(" {TEXT}\n"), "c").unwrap();
        assert!(one == other.key("session", &[b"m1", b"f"]));
        for different in [
            key("publication", &[b"m1", b"f"]),
            key("session", &[b"m2", b"f"]),
            key("session", &[b"m1", b"g"]),
            key("session", &[b"m1f"]),
            key("session", &[b"m1f", b""]),
            key("sessionm1", &[b"f"]),
            ClusterSecret::new(&TEXT.replace('0', "1"), "c")
                .unwrap()
                .key("session", &[b"m1", b"f"]),
            ClusterSecret::new(TEXT, "d")
                .unwrap()
                .key("session", &[b"m1", b"f"]),
        ] {
            assert!(one != different);
        }
        let sealed = secret.seal("state").seal(b"aad", b"text");
        assert_eq!(other.seal("state").open(b"aad", &sealed).unwrap(), b"text");
        assert!(other.seal("log").open(b"aad", &sealed).is_err());
    }

    /// Made with Python's `hmac`.
    #[test]
    fn a_vector() {
        let key = ClusterSecret::new(TEXT, "c")
            .unwrap()
            .key("session", &[b"m1"]);
        assert_eq!(key.as_str(), VECTOR);
    }

    #[test]
    fn secrets_are_long() {
        assert!(ClusterSecret::new(&TEXT[1..], "c").is_err());
        assert_eq!(
            format!("{:?}", ClusterSecret::new(TEXT, "c").unwrap()),
            "***"
        );
    }
}
