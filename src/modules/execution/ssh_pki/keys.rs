//! Public keys.

use super::wire::{Reader, Writer, string};
use crate::execution::declare::Result;
use crate::execution::x509::keys::failed;
use crate::execution::x509::source::to_base64;
use openssl::bn::BigNumContext;
use openssl::ec::{EcGroup, EcKey, EcKeyRef, EcPoint, PointConversionForm};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{HasPublic, Id, PKey, PKeyRef, Private, Public};
use openssl::rsa::Rsa;

/// More bits than any RSA key has, as in OpenSSH. Greater numbers only cost time.
pub const MOST_BITS: i32 = 16384;

/// A curve for ECDSA.
pub struct Curve {
    /// Its name in OpenSSH.
    pub name: &'static str,
    /// The kind of keys on it.
    pub kind: &'static str,
    /// Its number in OpenSSL.
    pub nid: Nid,
    /// The digest of signatures.
    pub digest: fn() -> MessageDigest,
}

const CURVES: [Curve; 3] = [
    Curve {
        name: "nistp256",
        kind: "ecdsa-sha2-nistp256",
        nid: Nid::X9_62_PRIME256V1,
        digest: MessageDigest::sha256,
    },
    Curve {
        name: "nistp384",
        kind: "ecdsa-sha2-nistp384",
        nid: Nid::SECP384R1,
        digest: MessageDigest::sha384,
    },
    Curve {
        name: "nistp521",
        kind: "ecdsa-sha2-nistp521",
        nid: Nid::SECP521R1,
        digest: MessageDigest::sha512,
    },
];

/// A kind of key.
#[derive(Clone, Copy)]
pub enum Kind {
    /// RSA.
    Rsa,
    /// ECDSA.
    Ec(&'static Curve),
    /// Ed25519.
    Ed25519,
}

impl Kind {
    /// By its name in OpenSSH.
    pub fn named(name: &[u8]) -> Option<Kind> {
        match name {
            b"ssh-rsa" => Some(Kind::Rsa),
            b"ssh-ed25519" => Some(Kind::Ed25519),
            _ => {
                let mut curves = CURVES.iter();
                let curve = curves.find(|c| c.kind.as_bytes() == name);
                curve.map(Kind::Ec)
            }
        }
    }

    /// Of a key of OpenSSL.
    pub fn of<T: HasPublic>(key: &PKeyRef<T>) -> Option<Kind> {
        match key.id() {
            Id::RSA => Some(Kind::Rsa),
            Id::ED25519 => Some(Kind::Ed25519),
            Id::EC => {
                let nid = key.ec_key().ok()?.group().curve_name()?;
                CURVES.iter().find(|c| c.nid == nid).map(Kind::Ec)
            }
            _ => None,
        }
    }

    /// Its name in OpenSSH.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rsa => "ssh-rsa",
            Kind::Ec(curve) => curve.kind,
            Kind::Ed25519 => "ssh-ed25519",
        }
    }

    /// Its class in Python.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Rsa => "RSAPublicKey",
            Kind::Ec(_) => "ECPublicKey",
            Kind::Ed25519 => "Ed25519PublicKey",
        }
    }

    /// Reads a key of this kind.
    pub fn read(self, reader: &mut Reader<'_>) -> Option<PublicKey> {
        let key = match self {
            Kind::Rsa => {
                let (e, n) = (reader.number()?, reader.number()?);
                if n.num_bits() > MOST_BITS || e.num_bits() > MOST_BITS {
                    return None;
                }
                Rsa::from_public_components(n, e).and_then(PKey::from_rsa)
            }
            Kind::Ec(curve) => {
                if reader.string()? != curve.name.as_bytes() {
                    return None;
                }
                point(curve, reader.string()?).and_then(PKey::from_ec_key)
            }
            Kind::Ed25519 => PKey::public_key_from_raw_bytes(reader.string()?, Id::ED25519),
        };
        Some(PublicKey {
            kind: self,
            key: key.ok()?,
        })
    }
}

/// A public key from its point on a curve.
fn point(curve: &Curve, bytes: &[u8]) -> Result<EcKey<Public>, ErrorStack> {
    // OpenSSH has no compressed points.
    if bytes.first() != Some(&4) {
        return Err(ErrorStack::get());
    }
    let group = EcGroup::from_curve_name(curve.nid)?;
    let mut context = BigNumContext::new()?;
    let point = EcPoint::from_bytes(&group, bytes, &mut context)?;
    let key = EcKey::from_public_key(&group, &point)?;
    key.check_key()?;
    Ok(key)
}

/// The point of a key, not compressed.
///
/// # Errors
/// OpenSSL's.
pub fn point_bytes<T: HasPublic>(key: &EcKeyRef<T>) -> Result<Vec<u8>, ErrorStack> {
    let mut context = BigNumContext::new()?;
    let form = PointConversionForm::UNCOMPRESSED;
    key.public_key().to_bytes(key.group(), form, &mut context)
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    /// Its kind.
    pub kind: Kind,
    /// The key.
    pub key: PKey<Public>,
}

impl PublicKey {
    /// From its encoding.
    pub fn from_blob(blob: &[u8]) -> Option<PublicKey> {
        let mut reader = Reader(blob);
        let key = Kind::named(reader.string()?)?.read(&mut reader)?;
        reader.end()?;
        Some(key)
    }

    /// Of a private key.
    ///
    /// # Errors
    /// It is of a kind that OpenSSH does not have.
    pub fn of(key: &PKeyRef<Private>) -> Result<PublicKey> {
        let spki = key.public_key_to_der().map_err(failed)?;
        let key = PKey::public_key_from_der(&spki).map_err(failed)?;
        let kind = Kind::of(&key).ok_or_else(|| failed(ErrorStack::get()))?;
        Ok(PublicKey { kind, key })
    }

    /// Its encoding without its kind.
    ///
    /// # Errors
    /// OpenSSL's.
    pub fn body(&self) -> Result<Vec<u8>> {
        let write = || -> Result<Vec<u8>, ErrorStack> {
            let mut writer = Writer::default();
            match self.kind {
                Kind::Rsa => {
                    let rsa = self.key.rsa()?;
                    writer.number(rsa.e()).number(rsa.n());
                }
                Kind::Ec(curve) => {
                    let point = point_bytes(&*self.key.ec_key()?)?;
                    writer.string(curve.name).string(point);
                }
                Kind::Ed25519 => {
                    writer.string(self.key.raw_public_key()?);
                }
            }
            Ok(writer.0)
        };
        write().map_err(failed)
    }

    /// Its encoding.
    ///
    /// # Errors
    /// OpenSSL's.
    pub fn blob(&self) -> Result<Vec<u8>> {
        let mut blob = string(self.kind.name());
        blob.extend(self.body()?);
        Ok(blob)
    }

    /// Its text.
    ///
    /// # Errors
    /// OpenSSL's.
    pub fn text(&self) -> Result<String> {
        Ok(line(self.kind.name(), &self.blob()?))
    }

    /// Whether it is the same key.
    pub fn is(&self, other: &PublicKey) -> bool {
        self.key.public_eq(&other.key)
    }
}

/// The text of a key or certificate.
pub fn line(kind: &str, blob: &[u8]) -> String {
    format!("{kind} {}", to_base64(blob))
}
