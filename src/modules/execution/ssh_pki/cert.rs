//! Certificates: reading, signing and checking them.

use super::keys::{Kind, PublicKey, line};
use super::wire::{Reader, Writer, string};
use crate::execution::declare::Result;
use crate::execution::x509::keys::failed;
use openssl::ecdsa::EcdsaSig;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKeyRef, Private};
use openssl::sign::{Signer, Verifier};

/// What follows the kind of key in the kind of a certificate.
pub const SUFFIX: &str = "-cert-v01@openssh.com";

const RSA_SHA512: &str = "rsa-sha2-512";
const RSA_SHA256: &str = "rsa-sha2-256";

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertType {
    /// A user.
    User,
    /// A host.
    Host,
}

impl CertType {
    const ALL: [(CertType, &str, u32); 2] =
        [(CertType::User, "user", 1), (CertType::Host, "host", 2)];

    /// By its name.
    pub fn named(name: &str) -> Option<CertType> {
        let mut all = CertType::ALL.iter();
        all.find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (CertType, &'static str, u32) {
        let [user, host] = CertType::ALL;
        if self == CertType::User { user } else { host }
    }

    fn numbered(number: u32) -> Option<CertType> {
        let mut all = CertType::ALL.iter();
        all.find(|row| row.2 == number).map(|row| row.0)
    }
}

/// Critical options or extensions: names with values; the value of a mere flag is empty.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// What is in a certificate.
#[derive(Clone)]
pub struct Content {
    /// The key that it is for.
    pub key: PublicKey,
    /// Its number.
    pub serial: u64,
    /// Whether it is for a user or a host.
    pub cert_type: CertType,
    /// What logs name it by.
    pub key_id: Vec<u8>,
    /// For whom it is valid; nobody means everybody.
    pub principals: Vec<Vec<u8>>,
    /// From when on it is valid, in seconds.
    pub valid_after: u64,
    /// Until when.
    pub valid_before: u64,
    /// What must be understood.
    pub critical: Fields,
    /// What may be understood.
    pub extensions: Fields,
}

/// A certificate.
#[derive(Clone)]
pub struct Cert {
    /// What is in it.
    pub content: Content,
    /// Who has signed it.
    pub signer: PublicKey,
    /// What is signed.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

impl std::ops::Deref for Cert {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

impl Cert {
    /// From its encoding.
    pub fn read(kind: Kind, blob: &[u8]) -> Option<Cert> {
        let mut reader = Reader(blob);
        let name = reader.string()?.strip_suffix(SUFFIX.as_bytes())?;
        if name != kind.name().as_bytes() {
            return None;
        }
        // A random number.
        reader.string()?;
        let key = kind.read(&mut reader)?;
        let serial = reader.u64()?;
        let cert_type = CertType::numbered(reader.u32()?)?;
        let key_id = reader.string()?.to_vec();
        let mut names = reader.inside()?;
        let mut principals = Vec::new();
        while !names.0.is_empty() {
            principals.push(names.string()?.to_vec());
        }
        let (valid_after, valid_before) = (reader.u64()?, reader.u64()?);
        let critical = read_fields(reader.inside()?)?;
        let extensions = read_fields(reader.inside()?)?;
        // Reserved.
        reader.string()?;
        let signer = PublicKey::from_blob(reader.string()?)?;
        let signed = blob.get(..blob.len().checked_sub(reader.0.len())?)?;
        let signature = reader.string()?;
        reader.end()?;
        if !is_usual(signer.kind, Reader(signature).string()?) {
            return None;
        }
        Some(Cert {
            content: Content {
                key,
                serial,
                cert_type,
                key_id,
                principals,
                valid_after,
                valid_before,
                critical,
                extensions,
            },
            signer,
            signed: signed.to_vec(),
            signature: signature.to_vec(),
        })
    }

    /// Signs a certificate.
    ///
    /// # Errors
    /// OpenSSL's.
    pub fn sign(content: Content, key: &PKeyRef<Private>) -> Result<Cert> {
        let signer = PublicKey::of(key)?;
        let nonce: [u8; 32] = rand::random();
        let mut writer = Writer::default();
        writer.string(kind_name(&content)).string(nonce);
        writer.0.extend(content.key.body()?);
        let (_, _, number) = content.cert_type.row();
        writer.u64(content.serial).u32(number);
        let names: Vec<Vec<u8>> = content.principals.iter().map(string).collect();
        writer.string(&content.key_id).string(names.concat());
        writer.u64(content.valid_after).u64(content.valid_before);
        writer.string(fields(&content.critical));
        writer.string(fields(&content.extensions));
        writer.string("").string(signer.blob()?);
        let signature = signature(key, signer.kind, &writer.0).map_err(failed)?;
        Ok(Cert {
            content,
            signer,
            signed: writer.0,
            signature,
        })
    }

    /// Its text.
    pub fn text(&self) -> String {
        let blob = [self.signed.clone(), string(&self.signature)].concat();
        line(&kind_name(&self.content), &blob)
    }

    /// Whether a key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.signer.is(key) && self.verify().unwrap_or(false)
    }

    /// Whether its signature is good; nothing if that is none.
    fn verify(&self) -> Option<bool> {
        let mut reader = Reader(&self.signature);
        let (name, bytes) = (reader.string()?, reader.string()?);
        reader.end()?;
        let key = &self.signer.key;
        let (digest, bytes) = match self.signer.kind {
            Kind::Rsa if name == RSA_SHA512.as_bytes() => (MessageDigest::sha512(), bytes.to_vec()),
            Kind::Rsa if name == RSA_SHA256.as_bytes() => (MessageDigest::sha256(), bytes.to_vec()),
            // With SHA-1, which is forged too easily.
            Kind::Rsa => return None,
            kind if name != kind.name().as_bytes() => return None,
            Kind::Ed25519 => {
                let mut verifier = Verifier::new_without_digest(key).ok()?;
                return verifier.verify_oneshot(bytes, &self.signed).ok();
            }
            Kind::Ec(curve) => {
                let mut numbers = Reader(bytes);
                let (r, s) = (numbers.number()?, numbers.number()?);
                numbers.end()?;
                let pair = EcdsaSig::from_private_components(r, s).ok()?;
                ((curve.digest)(), pair.to_der().ok()?)
            }
        };
        let mut verifier = Verifier::new(digest, key).ok()?;
        verifier.verify_oneshot(&bytes, &self.signed).ok()
    }
}

/// Whether keys of a kind make signatures of this name.
fn is_usual(kind: Kind, name: &[u8]) -> bool {
    let is_new = |name: &[u8]| [RSA_SHA512.as_bytes(), RSA_SHA256.as_bytes()].contains(&name);
    name == kind.name().as_bytes() || (matches!(kind, Kind::Rsa) && is_new(name))
}

fn kind_name(content: &Content) -> String {
    format!("{}{SUFFIX}", content.key.kind.name())
}

/// Options or extensions, which are sorted.
fn read_fields(mut reader: Reader<'_>) -> Option<Fields> {
    let mut all: Fields = Vec::new();
    while !reader.0.is_empty() {
        let name = reader.string()?.to_vec();
        let mut value = reader.inside()?;
        let text = if value.0.is_empty() {
            Vec::new()
        } else {
            let text = value.string()?.to_vec();
            value.end()?;
            text
        };
        if all.last().is_some_and(|(last, _)| *last >= name) {
            return None;
        }
        all.push((name, text));
    }
    Some(all)
}

fn fields(all: &Fields) -> Vec<u8> {
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort();
    let mut writer = Writer::default();
    for (name, value) in sorted {
        let value = if value.is_empty() {
            Vec::new()
        } else {
            string(value)
        };
        writer.string(name).string(value);
    }
    writer.0
}

fn signature(key: &PKeyRef<Private>, kind: Kind, data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut writer = Writer::default();
    match kind {
        Kind::Rsa => {
            let made = Signer::new(MessageDigest::sha512(), key)?.sign_oneshot_to_vec(data)?;
            writer.string(RSA_SHA512).string(made);
        }
        Kind::Ed25519 => {
            let made = Signer::new_without_digest(key)?.sign_oneshot_to_vec(data)?;
            writer.string(kind.name()).string(made);
        }
        Kind::Ec(curve) => {
            let made = Signer::new((curve.digest)(), key)?.sign_oneshot_to_vec(data)?;
            let pair = EcdsaSig::from_der(&made)?;
            let mut numbers = Writer::default();
            numbers.number(pair.r()).number(pair.s());
            writer.string(kind.name()).string(numbers.0);
        }
    }
    Ok(writer.0)
}

#[cfg(test)]
mod tests {
    use super::super::identity::load_cert;
    use super::*;
    use crate::execution::x509::keys::generate;

    fn content(key: &PKeyRef<Private>) -> Content {
        Content {
            key: PublicKey::of(key).unwrap(),
            serial: 7,
            cert_type: CertType::Host,
            key_id: b"id".to_vec(),
            principals: vec![b"a".to_vec(), b"b".to_vec()],
            valid_after: 1,
            valid_before: u64::MAX,
            critical: vec![(b"z".to_vec(), Vec::new()), (b"a".to_vec(), b"x".to_vec())],
            extensions: Vec::new(),
        }
    }

    #[test]
    fn what_is_signed_is_read_and_verified() {
        let other = PublicKey::of(&generate("ed25519", None).unwrap()).unwrap();
        for (kind, size) in [
            ("rsa", None),
            ("ec", Some(256)),
            ("ec", Some(384)),
            ("ec", Some(521)),
            ("ed25519", None),
        ] {
            let key = generate(kind, size).unwrap();
            let text = Cert::sign(content(&key), &key).unwrap().text();
            let cert = load_cert(&text.into()).unwrap();
            assert_eq!((cert.serial, cert.cert_type), (7, CertType::Host));
            assert_eq!(cert.principals, [b"a", b"b"]);
            let names: Vec<&[u8]> = cert.critical.iter().map(|(n, _)| n.as_slice()).collect();
            assert_eq!(names, [b"a", b"z"]);
            assert!(cert.is_signed_by(&PublicKey::of(&key).unwrap()));
            assert!(!cert.is_signed_by(&other));
        }
    }

    #[test]
    fn damaged_certificates_are_refused() {
        let key = generate("ec", None).unwrap();
        let public = PublicKey::of(&key).unwrap();
        let cert = Cert::sign(content(&key), &key).unwrap();
        let blob = [cert.signed.clone(), string(&cert.signature)].concat();
        for at in 0..blob.len() {
            let mut other = blob.clone();
            other[at] ^= 1;
            let read = Cert::read(public.kind, &other);
            assert!(read.is_none_or(|c| !c.is_signed_by(&public)), "{at}");
            assert!(Cert::read(public.kind, &blob[..at]).is_none());
        }
    }
}
