//! The text that OpenSSH has public keys and certificates in.

use super::cert::{self, Cert};
use super::keys::{Kind, PublicKey};
use super::source::{self, LoadError, Loaded};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use halite_wire::Value;

/// A key, or a certificate of one.
enum Identity {
    /// A key.
    Key(PublicKey),
    /// A certificate.
    Cert(Box<Cert>),
}

/// Loads the text of a public key or a certificate.
fn identity(from: &Value, fault: &'static str) -> Loaded<Identity> {
    let fault = LoadError::Format(fault);
    let bytes = source::bytes(from)?;
    let is_blank = |b: &u8| b.is_ascii_whitespace();
    let mut words = bytes.splitn(2, |b| matches!(b, b' ' | b'\t'));
    let (Some(kind), Some(rest)) = (words.next(), words.next()) else {
        return Err(fault);
    };
    let rest = rest.trim_ascii_start();
    let encoded = rest.split(is_blank).next().unwrap_or_default();
    if kind.is_empty() || kind.iter().any(is_blank) || encoded.is_empty() {
        return Err(fault);
    }
    let (plain, is_cert) = match kind.strip_suffix(cert::SUFFIX.as_bytes()) {
        Some(plain) => (plain, true),
        None => (kind, false),
    };
    let known = Kind::named(plain).ok_or_else(|| LoadError::unsupported("key type", kind))?;
    let blob = STANDARD.decode(encoded).map_err(|_| fault.clone())?;
    let found = if is_cert {
        Cert::read(known, &blob).map(|cert| Identity::Cert(Box::new(cert)))
    } else {
        let key = PublicKey::from_blob(&blob).filter(|key| key.kind.name() == known.name());
        key.map(Identity::Key)
    };
    found.ok_or(fault)
}

/// Loads a public key, which may be that of a certificate.
///
/// # Errors
/// It is none.
pub fn load_public(from: &Value) -> Loaded<PublicKey> {
    match identity(from, "Could not load OpenSSH public key.")? {
        Identity::Key(key) => Ok(key),
        Identity::Cert(cert) => Ok(cert.content.key),
    }
}

/// Loads a certificate.
///
/// # Errors
/// It is none.
pub fn load_cert(from: &Value) -> Loaded<Cert> {
    match identity(from, "Could not load OpenSSH certificate.")? {
        Identity::Cert(cert) => Ok(*cert),
        Identity::Key(key) => Err(LoadError::NotCertificate(key.kind.class())),
    }
}
