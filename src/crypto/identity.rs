//! The keys by which masters and minions know each other: RSA, which all of Salt's programs have, or Ed25519 (RFC 8032),
//! for installations of halite alone.

use super::ed25519::{self, Ed25519Private, Ed25519Public};
use super::{CryptoError, HashType, PrivateKey, PublicKey, Signing, clean_key, pem};
use halite_wire::KeyType;
use rsa::pkcs8::{PrivateKeyInfo, SubjectPublicKeyInfoRef};
use zeroize::Zeroizing;

/// What an Ed25519 key signs as `tok` of requests. An RSA key signs `salt`.
const TOK: &[u8] = b"halite: tok\0";
/// What precedes the digest of a publication key that an Ed25519 key signs.
const DIGEST: &[u8] = b"halite: publication key\0";

/// The private key of a master or minion. Cheap to clone.
#[derive(Clone, Debug)]
pub enum IdentityKey {
    /// An RSA key.
    Rsa(PrivateKey),
    /// An Ed25519 key.
    Ed25519(Ed25519Private),
}

/// The public key of a master or minion. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityPublic {
    /// An RSA key.
    Rsa(PublicKey),
    /// An Ed25519 key.
    Ed25519(Ed25519Public),
}

impl IdentityKey {
    /// Generates a key. `bits` is the length of an RSA key; an Ed25519 key has 256.
    ///
    /// # Errors
    /// As [`super::RsaPrivate::generate`].
    pub fn generate(kind: KeyType, bits: usize) -> Result<IdentityKey, CryptoError> {
        Ok(match kind {
            KeyType::Rsa => IdentityKey::Rsa(PrivateKey::generate(bits)?),
            KeyType::Ed25519 => IdentityKey::Ed25519(Ed25519Private::generate()),
        })
    }

    /// Reads a private key: `BEGIN RSA PRIVATE KEY` or `BEGIN PRIVATE KEY`. Parse once, keep the key.
    ///
    /// # Errors
    /// As [`super::RsaPrivate::from_pem`].
    pub fn from_pem(text: &str) -> Result<IdentityKey, CryptoError> {
        let pem = pem::decode(text)?;
        let is_ed25519 = pem.label == "PRIVATE KEY"
            && PrivateKeyInfo::try_from(pem.der.as_slice())
                .is_ok_and(|info| info.algorithm.oid == ed25519::OID);
        match is_ed25519 {
            true => Ed25519Private::from_pkcs8(&pem.der).map(IdentityKey::Ed25519),
            false => PrivateKey::from_document(&pem).map(IdentityKey::Rsa),
        }
    }

    /// The text of the key's file. Wiped when dropped.
    pub fn to_pem(&self) -> Zeroizing<String> {
        match self {
            IdentityKey::Rsa(key) => key.to_pem(),
            IdentityKey::Ed25519(key) => key.to_pem(),
        }
    }

    /// The public half.
    pub fn public(&self) -> IdentityPublic {
        match self {
            IdentityKey::Rsa(key) => IdentityPublic::Rsa(key.public()),
            IdentityKey::Ed25519(key) => IdentityPublic::Ed25519(key.public()),
        }
    }

    /// What kind of key it is.
    pub fn kind(&self) -> KeyType {
        match self {
            IdentityKey::Rsa(_) => KeyType::Rsa,
            IdentityKey::Ed25519(_) => KeyType::Ed25519,
        }
    }

    /// The RSA key, if it is one: Salt's own messages need it.
    pub fn rsa(&self) -> Option<&PrivateKey> {
        match self {
            IdentityKey::Rsa(key) => Some(key),
            IdentityKey::Ed25519(_) => None,
        }
    }

    /// Signs a message; `algorithm` is that of an RSA key.
    pub fn sign(&self, algorithm: Signing, message: &[u8]) -> Vec<u8> {
        match self {
            IdentityKey::Rsa(key) => key.sign(algorithm, message),
            IdentityKey::Ed25519(key) => key.sign(message),
        }
    }

    /// The proof in every request that its sender has the key (`tok`, reference 6.2).
    pub fn tok(&self) -> Vec<u8> {
        match self {
            IdentityKey::Rsa(key) => key.x931_sign(b"salt"),
            IdentityKey::Ed25519(key) => key.sign(TOK),
        }
    }

    /// Signs the digest of a publication key, in hexadecimal (reference 3.4).
    pub fn sign_digest(&self, digest: &str) -> Vec<u8> {
        match self {
            IdentityKey::Rsa(key) => key.x931_sign(digest.as_bytes()),
            IdentityKey::Ed25519(key) => key.sign(&[DIGEST, digest.as_bytes()].concat()),
        }
    }
}

impl IdentityPublic {
    /// Reads a public key: `BEGIN PUBLIC KEY` or `BEGIN RSA PUBLIC KEY`. Parse once, keep the key.
    ///
    /// # Errors
    /// As [`super::RsaPublic::from_pem`].
    pub fn from_pem(text: &str) -> Result<IdentityPublic, CryptoError> {
        let pem = pem::decode(text)?;
        let is_ed25519 = pem.label == "PUBLIC KEY"
            && SubjectPublicKeyInfoRef::try_from(pem.der.as_slice())
                .is_ok_and(|spki| spki.algorithm.oid == ed25519::OID);
        match is_ed25519 {
            true => Ed25519Public::from_spki(&pem.der).map(IdentityPublic::Ed25519),
            false => PublicKey::from_document(&pem).map(IdentityPublic::Rsa),
        }
    }

    /// Reads a public key that a peer presents, in clean form: one PEM block without other text. An Ed25519 key has one text;
    /// peers of Salt may break the lines of theirs as they like.
    ///
    /// # Errors
    /// As [`IdentityPublic::from_pem`], or there is other text.
    pub fn from_bare_pem(text: &str) -> Result<IdentityPublic, CryptoError> {
        let other = CryptoError::BadPem("there is other text in it");
        if !pem::is_bare(text) {
            return Err(other);
        }
        let key = IdentityPublic::from_pem(text)?;
        match key.rsa().is_some() || clean_key(&key.to_pem()) == text {
            true => Ok(key),
            false => Err(other),
        }
    }

    /// The key as `BEGIN PUBLIC KEY`, with a newline at the end.
    pub fn to_pem(&self) -> String {
        match self {
            IdentityPublic::Rsa(key) => key.to_pem(),
            IdentityPublic::Ed25519(key) => key.to_pem(),
        }
    }

    /// What kind of key it is.
    pub fn kind(&self) -> KeyType {
        match self {
            IdentityPublic::Rsa(_) => KeyType::Rsa,
            IdentityPublic::Ed25519(_) => KeyType::Ed25519,
        }
    }

    /// What gateways record of the key of an agent: [`super::RsaPublic::pkcs1_fingerprint`], or the same of the document of an
    /// Ed25519 key.
    pub fn agent_fingerprint(&self) -> String {
        match self {
            IdentityPublic::Rsa(key) => key.pkcs1_fingerprint(),
            IdentityPublic::Ed25519(key) => HashType::Sha256.hex(&key.to_spki()),
        }
    }

    /// The RSA key, if it is one: Salt's own messages need it.
    pub fn rsa(&self) -> Option<&PublicKey> {
        match self {
            IdentityPublic::Rsa(key) => Some(key),
            IdentityPublic::Ed25519(_) => None,
        }
    }

    /// Whether this is a signature of the message by the private key; `algorithm` is that of an RSA key.
    pub fn verify(&self, algorithm: Signing, message: &[u8], signature: &[u8]) -> bool {
        match self {
            IdentityPublic::Rsa(key) => key.verify(algorithm, message, signature),
            IdentityPublic::Ed25519(key) => key.verify(message, signature),
        }
    }

    /// Whether this key made the `tok` of a request (reference 6.2).
    pub fn made_tok(&self, tok: &[u8]) -> bool {
        match self {
            IdentityPublic::Rsa(key) => key.made_tok(tok),
            IdentityPublic::Ed25519(key) => key.verify(TOK, tok),
        }
    }

    /// Whether this key signed the digest of a publication key, in hexadecimal (reference 3.4).
    pub fn signed_digest(&self, digest: &str, signature: &[u8]) -> bool {
        match self {
            IdentityPublic::Rsa(key) => {
                key.x931_recover(signature).as_deref() == Some(digest.as_bytes())
            }
            IdentityPublic::Ed25519(key) => {
                key.verify(&[DIGEST, digest.as_bytes()].concat(), signature)
            }
        }
    }
}

impl From<PrivateKey> for IdentityKey {
    fn from(key: PrivateKey) -> IdentityKey {
        IdentityKey::Rsa(key)
    }
}

impl From<PublicKey> for IdentityPublic {
    fn from(key: PublicKey) -> IdentityPublic {
        IdentityPublic::Rsa(key)
    }
}
