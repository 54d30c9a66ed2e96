//! Certificates: reading and encoding them.

use super::der::{self, Reader};
use super::extension::{self, Extension};
use super::keys::{self, Contents, PublicKey};
use super::names::Name;
use super::source::{self, LoadError, Loaded};
use crate::context::CallError;
use crate::execution::declare::Result;
use halite_wire::Value;
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;

/// A certificate.
#[derive(Clone)]
pub struct Cert {
    /// Its encoding.
    pub der: Vec<u8>,
    /// 3, nearly always.
    pub version: u8,
    /// Its number, without a sign.
    pub serial: Vec<u8>,
    /// The algorithm of its signature.
    pub signature: String,
    /// Who has signed it.
    pub issuer: Name,
    /// Whom it is for.
    pub subject: Name,
    /// From when on it is valid, in seconds.
    pub not_before: i64,
    /// Until when.
    pub not_after: i64,
    /// The key that it is for.
    pub key: PublicKey,
    /// Its extensions.
    pub extensions: Vec<Extension>,
}

/// A certificate as it was loaded.
pub struct LoadedCert {
    /// The certificate.
    pub cert: Cert,
    /// The encoding it had; none if it was given as such.
    pub encoding: &'static str,
    /// What came with it.
    pub chain: Vec<Cert>,
    /// Its name in PKCS#12.
    pub friendly_name: Option<Vec<u8>>,
}

impl Cert {
    /// From its encoding.
    pub fn read(der: &[u8]) -> Option<Cert> {
        let mut outer = Reader(der::only(der, der::SEQUENCE)?);
        let mut tbs = outer.inside(der::SEQUENCE)?;
        let signature = outer.inside(der::SEQUENCE)?.oid()?;
        outer.take(der::BITS)?;
        let version = match tbs.inside(der::PARTS) {
            Some(mut explicit) => explicit.take(der::INTEGER)?.last()? + 1,
            None => 1,
        };
        let serial = der::unsigned(tbs.take(der::INTEGER)?);
        tbs.take(der::SEQUENCE)?;
        let issuer = Name::read(tbs.item()?.whole)?;
        let mut validity = tbs.inside(der::SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = Name::read(tbs.item()?.whole)?;
        let key = PublicKey::read(tbs.item()?.whole)?;
        // Unique identifiers, which nobody uses.
        tbs.take(der::FIELD | 1);
        tbs.take(der::FIELD | 2);
        let extensions = match tbs.inside(der::PARTS | 3) {
            Some(explicit) => extension::read_list(explicit.0)?,
            None => Vec::new(),
        };
        Some(Cert {
            der: der.to_vec(),
            version,
            serial,
            signature,
            issuer,
            subject,
            not_before,
            not_after,
            key,
            extensions,
        })
    }

    /// The identifier of its key, which it names itself or which is made from the key.
    pub fn key_identifier(&self) -> Vec<u8> {
        let own = extension::find(&self.extensions, "subjectKeyIdentifier");
        let own = own.and_then(|e| der::only(&e.value, der::OCTETS));
        own.map_or_else(|| self.key.identifier(), <[u8]>::to_vec)
    }

    /// Whether a key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        X509::from_der(&self.der).is_ok_and(|cert| cert.verify(&key.key).unwrap_or(false))
    }

    /// Its PEM.
    pub fn pem(&self) -> String {
        source::to_pem("CERTIFICATE", &self.der)
    }
}

/// Loads a certificate (`load_cert`).
///
/// # Errors
/// It is none.
pub fn load(from: &Value, passphrase: Option<&str>) -> Loaded<LoadedCert> {
    let bytes = source::bytes(from)?;
    let made = |mut certs: Vec<Cert>, encoding| {
        let cert = if certs.is_empty() {
            None
        } else {
            Some(certs.remove(0))
        };
        cert.map(|cert| LoadedCert {
            cert,
            encoding,
            chain: certs,
            friendly_name: None,
        })
    };
    if source::is_pem(&bytes) {
        const NOT_PEM: LoadError = LoadError::Format("Could not load PEM-encoded certificate.");
        let pems = source::pems(&bytes);
        let first = pems.first().ok_or(NOT_PEM)?;
        if first.label.starts_with("PKCS7") {
            const NOT_PKCS7: LoadError =
                LoadError::Format("Could not load PEM-encoded PKCS#7 blob");
            let certs = first.der.as_deref().and_then(read_pkcs7).ok_or(NOT_PKCS7)?;
            return made(certs, "pkcs7_pem").ok_or(NOT_PKCS7);
        }
        let mut certs = pems.iter().map(|pem| {
            let is = pem.label == "CERTIFICATE" || pem.label == "X509 CERTIFICATE";
            pem.der.as_deref().filter(|_| is).and_then(Cert::read)
        });
        let mut all = vec![certs.next().flatten().ok_or(NOT_PEM)?];
        // Whatever else is in the file does not matter.
        all.extend(certs.flatten());
        return made(all, "pem").ok_or(NOT_PEM);
    }
    const NEITHER: LoadError =
        LoadError::Format("Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12.");
    if let Some(cert) = Cert::read(&bytes) {
        return made(vec![cert], "der").ok_or(NEITHER);
    }
    if let Some(archive) = keys::archive(&bytes, passphrase)? {
        let cert = archive.cert.ok_or(NEITHER)?;
        let read = |cert: &openssl::x509::X509Ref| cert.to_der().ok().and_then(|d| Cert::read(&d));
        let mut certs = vec![read(&cert).ok_or(NEITHER)?];
        certs.extend(archive.ca.iter().flatten().filter_map(read));
        let mut loaded = made(certs, "pkcs12").ok_or(NEITHER)?;
        loaded.friendly_name = cert.alias().map(<[u8]>::to_vec);
        return Ok(loaded);
    }
    let certs = read_pkcs7(&bytes).ok_or(NEITHER)?;
    made(certs, "pkcs7_der").ok_or(NEITHER)
}

const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
const DATA: &str = "1.2.840.113549.1.7.1";

fn read_pkcs7(der: &[u8]) -> Option<Vec<Cert>> {
    let mut info = Reader(der::only(der, der::SEQUENCE)?);
    if info.oid()? != SIGNED_DATA {
        return None;
    }
    let mut signed = info.inside(der::PARTS)?.inside(der::SEQUENCE)?;
    signed.take(der::INTEGER)?;
    signed.take(der::SET)?;
    signed.take(der::SEQUENCE)?;
    let certs = signed.inside(der::PARTS)?.all()?;
    certs.iter().map(|item| Cert::read(item.whole)).collect()
}

fn to_pkcs7(certs: &[&Cert]) -> Vec<u8> {
    let all = certs.iter().map(|c| c.der.clone()).collect();
    let signed = der::seq([
        der::int(1),
        der::tlv(der::SET, &[]),
        der::seq([der::oid(DATA)]),
        der::set_of(der::PARTS, all),
        der::tlv(der::SET, &[]),
    ]);
    der::seq([der::oid(SIGNED_DATA), der::tlv(der::PARTS, &signed)])
}

/// How a certificate is to be encoded.
pub struct Encoding<'a> {
    /// Its name.
    pub name: &'a str,
    /// What comes with it.
    pub chain: &'a [Cert],
    /// Its key, for PKCS#12.
    pub key: Option<&'a PKey<Private>>,
    /// The passphrase of PKCS#12.
    pub passphrase: Option<String>,
    /// Whether PKCS#12 is for older programs.
    pub compatible: bool,
    /// Its name in PKCS#12.
    pub friendly_name: Option<String>,
}

/// Encodes a certificate.
///
/// # Errors
/// PKCS#12 cannot be made.
pub fn encode(cert: &Cert, how: &Encoding<'_>) -> Result<Vec<u8>> {
    let all: Vec<&Cert> = std::iter::once(cert).chain(how.chain).collect();
    match how.name {
        "der" => Ok(cert.der.clone()),
        "pem" => {
            let pems: Vec<String> = all.iter().map(|c| c.pem()).collect();
            Ok(pems.join("\n").into_bytes())
        }
        "pkcs7_der" => Ok(to_pkcs7(&all)),
        "pkcs7_pem" => Ok(source::to_pem("PKCS7", &to_pkcs7(&all)).into_bytes()),
        _ => {
            let key = how
                .key
                .ok_or_else(|| CallError::Invocation(NO_KEY.to_owned()))?;
            Contents {
                key,
                certificate: Some(&cert.der),
                others: how.chain.iter().map(|c| c.der.as_slice()).collect(),
                name: how.friendly_name.clone(),
            }
            .encode(how.passphrase.as_deref(), how.compatible)
        }
    }
}

/// What PKCS#12 without a key ends with.
pub const NO_KEY: &str =
    "Creating a PKCS12-encoded certificate without embedded private key is unsupported";

/// What a draft ends with whose keys do not fit.
pub const KEY_MISMATCH: &str = "Signing private key does not match the certificate's public key";
