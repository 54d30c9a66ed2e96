//! Ed25519 keys (RFC 8032) in the files of RFC 8410, as OpenSSL writes them: `BEGIN PRIVATE KEY` and `BEGIN PUBLIC KEY`.

use super::{CryptoError, pem, rng};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rsa::pkcs8::{ObjectIdentifier, PrivateKeyInfo, SubjectPublicKeyInfoRef};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// id-Ed25519 (RFC 8410, 3).
pub(super) const OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// What precedes the 32 bytes of a private key in its document (RFC 8410, 7).
const PRIVATE: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// What precedes the 32 bytes of a public key in its document (RFC 8410, 4).
const PUBLIC: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// An Ed25519 private key. Cheap to clone, wiped when dropped, prints as `***`.
#[derive(Clone)]
pub struct Ed25519Private(Arc<SigningKey>);

/// An Ed25519 public key. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ed25519Public(Arc<VerifyingKey>);

impl Ed25519Private {
    /// Generates a key.
    pub fn generate() -> Ed25519Private {
        let mut seed = Zeroizing::new([0; 32]);
        rng::fill_random(seed.as_mut_slice());
        Ed25519Private(Arc::new(SigningKey::from_bytes(&seed)))
    }

    /// Reads a PKCS#8 document.
    pub(super) fn from_pkcs8(der: &[u8]) -> Result<Ed25519Private, CryptoError> {
        let bad = CryptoError::BadPem("the document inside is not an Ed25519 private key");
        let Ok(info) = PrivateKeyInfo::try_from(der) else {
            return Err(bad);
        };
        // An OCTET STRING of 32 bytes.
        let seed = info.private_key.strip_prefix(b"\x04\x20");
        let seed = seed.and_then(|seed| seed.try_into().ok());
        seed.map(|seed| Ed25519Private(Arc::new(SigningKey::from_bytes(seed))))
            .ok_or(bad)
    }

    /// The key as `BEGIN PRIVATE KEY`. Wiped when dropped.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let der = Zeroizing::new([PRIVATE.as_slice(), self.0.as_bytes()].concat());
        pem::encode("PRIVATE KEY", &der)
    }

    /// The public half.
    pub fn public(&self) -> Ed25519Public {
        Ed25519Public(Arc::new(self.0.verifying_key()))
    }

    /// Signs a message: 64 bytes, the same for the same message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).to_bytes().to_vec()
    }
}

impl Ed25519Public {
    /// Reads a SubjectPublicKeyInfo.
    pub(super) fn from_spki(der: &[u8]) -> Result<Ed25519Public, CryptoError> {
        let bad = CryptoError::BadPem("the document inside is not an Ed25519 public key");
        let Ok(spki) = SubjectPublicKeyInfoRef::try_from(der) else {
            return Err(bad);
        };
        // RFC 8410, 3.
        let has_parameters = spki.algorithm.parameters.is_some();
        let bytes = spki.subject_public_key.as_bytes();
        let bytes = bytes.filter(|_| !has_parameters);
        let Some(bytes) = bytes.and_then(|bytes| bytes.try_into().ok()) else {
            return Err(bad);
        };
        let key = VerifyingKey::from_bytes(bytes)
            .map_err(|_| CryptoError::BadKey("it is no point of the curve"))?;
        // Anybody can sign for such a key.
        if key.is_weak() {
            return Err(CryptoError::BadKey("it is of small order"));
        }
        Ok(Ed25519Public(Arc::new(key)))
    }

    /// The key as `BEGIN PUBLIC KEY`, with a newline at the end.
    pub fn to_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.to_spki()).to_string()
    }

    /// The document in that.
    pub(super) fn to_spki(&self) -> Vec<u8> {
        [PUBLIC.as_slice(), self.0.as_bytes()].concat()
    }

    /// Whether this is a signature of the message by the private key. There is one at the most: other encodings of it are
    /// refused.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}

impl fmt::Debug for Ed25519Private {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}
