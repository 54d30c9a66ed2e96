//! Private and public keys, by OpenSSL.

use super::der::{self, Reader};
use super::source::{self, LoadError, Loaded};
use super::tables;
use crate::context::CallError;
use crate::execution::declare::Result;
use halite_wire::Value;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::nid::Nid;
use openssl::pkcs12::{ParsedPkcs12_2, Pkcs12};
use openssl::pkey::{HasPublic, Id, PKey, PKeyRef, Private, Public};
use openssl::rsa::Rsa;
use openssl::sign::Signer;
use openssl::stack::Stack;
use openssl::symm::Cipher;
use openssl::x509::X509;

/// Rounds of key derivation in PKCS#12, as `cryptography` does them.
const ROUNDS: u32 = 20_000;
const COMPATIBLE_ROUNDS: u32 = 50_000;
const MAC_ROUNDS: u32 = 2048;

/// An error of OpenSSL where none is expected.
pub fn failed(fault: ErrorStack) -> CallError {
    CallError::raised("cryptography.exceptions.InternalError", fault.to_string())
}

/// A private key that was loaded.
pub struct LoadedKey {
    /// The key.
    pub key: PKey<Private>,
    /// The encoding it had.
    pub encoding: &'static str,
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    /// Its encoding (`SubjectPublicKeyInfo`).
    pub spki: Vec<u8>,
    /// The key.
    pub key: PKey<Public>,
}

impl PublicKey {
    /// From its encoding.
    pub fn read(spki: &[u8]) -> Option<PublicKey> {
        let key = PKey::public_key_from_der(spki).ok()?;
        Some(PublicKey {
            spki: spki.to_vec(),
            key,
        })
    }

    /// Of a private key.
    ///
    /// # Errors
    /// OpenSSL's.
    pub fn of(key: &PKeyRef<Private>) -> Result<PublicKey> {
        let spki = key.public_key_to_der().map_err(failed)?;
        PublicKey::read(&spki).ok_or_else(|| failed(ErrorStack::get()))
    }

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        kind(&self.key)
    }

    /// Its length, for kinds that come in several.
    pub fn size(&self) -> Option<u32> {
        size(&self.key)
    }

    /// Whether it is the same key.
    pub fn is(&self, other: &PublicKey) -> bool {
        self.key.public_eq(&other.key)
    }

    /// Whether it belongs to a private key.
    pub fn is_of(&self, key: &PKeyRef<Private>) -> bool {
        self.key.public_eq(key)
    }

    /// The identifier that extensions name it by.
    pub fn identifier(&self) -> Vec<u8> {
        let bits = Reader(&self.spki)
            .inside(der::SEQUENCE)
            .and_then(|mut parts| {
                parts.item()?;
                parts.take(der::BITS)
            });
        let bits = bits.and_then(|b| b.get(1..)).unwrap_or_default();
        digest(MessageDigest::sha1(), bits)
    }

    /// Its PEM.
    pub fn pem(&self) -> String {
        source::to_pem("PUBLIC KEY", &self.spki)
    }
}

/// The digest of bytes; empty if the system's OpenSSL does not allow the algorithm.
pub fn digest(algorithm: MessageDigest, bytes: &[u8]) -> Vec<u8> {
    hash(algorithm, bytes)
        .map(|d| d.to_vec())
        .unwrap_or_default()
}

/// The kind of a key; empty for those that certificates of Salt do not have.
pub fn kind<T: HasPublic>(key: &PKeyRef<T>) -> &'static str {
    match key.id() {
        Id::RSA => "rsa",
        Id::EC => "ec",
        Id::ED25519 => "ed25519",
        Id::ED448 => "ed448",
        _ => "",
    }
}

/// The length of a key, for kinds that come in several.
pub fn size<T: HasPublic>(key: &PKeyRef<T>) -> Option<u32> {
    matches!(key.id(), Id::RSA | Id::EC).then(|| key.bits())
}

/// A new key (`_generate_pk`).
///
/// # Errors
/// The kind or the length is not allowed.
pub fn generate(kind: &str, size: Option<i64>) -> Result<PKey<Private>> {
    let made = match kind {
        "rsa" => match size.unwrap_or(2048) {
            bits @ (2048 | 3072 | 4096) => Rsa::generate(bits as u32).and_then(PKey::from_rsa),
            _ => {
                let text = "RSA key size must be either 2048, 3072 or 4096 bits.";
                return Err(CallError::Invocation(text.to_owned()));
            }
        },
        "ec" => match size.unwrap_or(256) {
            256 => on_curve(Nid::X9_62_PRIME256V1),
            384 => on_curve(Nid::SECP384R1),
            521 => on_curve(Nid::SECP521R1),
            _ => {
                let text = "EC key size must be either 256, 384, 521 bits.";
                return Err(CallError::Invocation(text.to_owned()));
            }
        },
        "ed25519" => PKey::generate_ed25519(),
        "ed448" => PKey::generate_ed448(),
        other => {
            return Err(CallError::Invocation(format!(
                "Invalid algorithm specified for generating private key: {other}. Valid: rsa, ec, ed25519, ed448"
            )));
        }
    };
    made.map_err(failed)
}

fn on_curve(curve: Nid) -> Result<PKey<Private>, ErrorStack> {
    let key = EcKey::generate(&*EcGroup::from_curve_name(curve)?)?;
    PKey::from_ec_key(key)
}

/// Loads a private key (`load_privkey`).
///
/// # Errors
/// It is none, or the passphrase does not fit.
pub fn load(from: &Value, passphrase: Option<&str>) -> Loaded<LoadedKey> {
    let bytes = source::bytes(from)?;
    let usable = |key: PKey<Private>, encoding| Ok(LoadedKey { key, encoding });
    if source::is_pem(&bytes) {
        const NOT_PEM: LoadError = LoadError::Format("Could not load PEM-encoded private key");
        let pems = source::pems(&bytes);
        let pem = pems
            .iter()
            .find(|p| p.label.ends_with("PRIVATE KEY"))
            .ok_or(NOT_PEM)?;
        let encrypted = pem.encrypted || pem.label == "ENCRYPTED PRIVATE KEY";
        fits(encrypted, passphrase)?;
        let pass = passphrase.unwrap_or_default();
        return match PKey::private_key_from_pem_passphrase(pem.text.as_bytes(), pass.as_bytes()) {
            Ok(key) => usable(key, "pem"),
            Err(_) if encrypted && pem.der.is_some() => Err(LoadError::WrongPassphrase),
            Err(_) => Err(NOT_PEM),
        };
    }
    if let Some(archive) = archive(&bytes, passphrase)? {
        let key = archive.pkey.ok_or_else(|| {
            CallError::Command("PKCS12-encoded blob does not contain a private key.".to_owned())
        })?;
        return usable(key, "pkcs12");
    }
    const NEITHER: LoadError =
        LoadError::Format("Could not deserialize binary data, neither as DER nor PKCS#12.");
    let mut parts = der::only(&bytes, der::SEQUENCE)
        .map(Reader)
        .ok_or(NEITHER)?;
    let encrypted = parts.peek() == Some(der::SEQUENCE);
    if encrypted {
        fits(true, passphrase)?;
        let pass = passphrase.unwrap_or_default();
        return match PKey::private_key_from_pkcs8_passphrase(&bytes, pass.as_bytes()) {
            Ok(key) => usable(key, "der"),
            Err(_) => Err(LoadError::WrongPassphrase),
        };
    }
    // A certificate has no number first.
    parts.take(der::INTEGER).ok_or(NEITHER)?;
    let key = PKey::private_key_from_der(&bytes).map_err(|_| NEITHER)?;
    fits(false, passphrase)?;
    usable(key, "der")
}

fn fits(encrypted: bool, passphrase: Option<&str>) -> Loaded<()> {
    match (encrypted, passphrase) {
        (true, None) => Err(LoadError::NoPassphrase),
        (false, Some(_)) => Err(LoadError::NotEncrypted),
        _ => Ok(()),
    }
}

/// The content of PKCS#12; `None` if the bytes are something else.
///
/// # Errors
/// The passphrase is wrong.
pub fn archive(bytes: &[u8], passphrase: Option<&str>) -> Loaded<Option<ParsedPkcs12_2>> {
    let version = Reader(bytes)
        .inside(der::SEQUENCE)
        .and_then(|mut p| p.take(der::INTEGER));
    if version != Some(&[3]) {
        return Ok(None);
    }
    let Ok(archive) = Pkcs12::from_der(bytes) else {
        return Ok(None);
    };
    let pass = passphrase.unwrap_or_default();
    if pass.contains('\0') {
        return Err(LoadError::WrongPassphrase);
    }
    archive
        .parse2(pass)
        .map(Some)
        .map_err(|_| LoadError::WrongPassphrase)
}

/// Loads a public key (`load_pubkey`).
///
/// # Errors
/// It is none.
pub fn load_public(from: &Value) -> Loaded<PublicKey> {
    let bytes = source::bytes(from)?;
    let (der, fault) = if source::is_pem(&bytes) {
        let pem = source::pems(&bytes).into_iter().next();
        let pem = pem.filter(|p| p.label.ends_with("PUBLIC KEY"));
        let fault = LoadError::Format("Could not load PEM-encoded public key.");
        (pem.and_then(|p| p.der).ok_or(fault.clone())?, fault)
    } else {
        (
            bytes,
            LoadError::Format("Could not load DER-encoded public key."),
        )
    };
    if let Some(key) = PublicKey::read(&der) {
        return Ok(key);
    }
    let pkcs1 = Rsa::public_key_from_der_pkcs1(&der).and_then(|rsa| rsa.public_key_to_der());
    pkcs1
        .ok()
        .and_then(|spki| PublicKey::read(&spki))
        .ok_or(fault)
}

/// A private key as PKCS#8 (`pem`, `der`) or as PKCS#12.
///
/// # Errors
/// The passphrase cannot be used.
pub fn encode(
    key: &PKeyRef<Private>,
    encoding: &str,
    passphrase: Option<&str>,
    compatible: bool,
) -> Result<Vec<u8>> {
    if encoding == "pkcs12" {
        return Contents {
            key,
            certificate: None,
            others: Vec::new(),
            name: None,
        }
        .encode(passphrase, compatible);
    }
    if passphrase == Some("") {
        let text = "Password must be 1 or more bytes.";
        return Err(CallError::raised("ValueError", text));
    }
    let made = match (encoding, passphrase) {
        ("pem", None) => key.private_key_to_pem_pkcs8(),
        ("pem", Some(pass)) => {
            key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), pass.as_bytes())
        }
        (_, None) => key.private_key_to_pkcs8(),
        (_, Some(pass)) => {
            key.private_key_to_pkcs8_passphrase(Cipher::aes_256_cbc(), pass.as_bytes())
        }
    };
    made.map_err(failed)
}

/// What goes into PKCS#12.
pub struct Contents<'a> {
    /// A key.
    pub key: &'a PKeyRef<Private>,
    /// Its certificate.
    pub certificate: Option<&'a [u8]>,
    /// Other certificates.
    pub others: Vec<&'a [u8]>,
    /// What it is called.
    pub name: Option<String>,
}

impl Contents<'_> {
    /// The archive; one that older programs can read has weaker encryption.
    ///
    /// # Errors
    /// The passphrase or the name cannot be used.
    pub fn encode(&self, passphrase: Option<&str>, compatible: bool) -> Result<Vec<u8>> {
        let value_error = |text: &str| CallError::raised("ValueError", text);
        let texts = [passphrase, self.name.as_deref()];
        if texts.iter().flatten().any(|t| t.contains('\0')) {
            return Err(value_error("embedded null byte"));
        }
        if passphrase == Some("") {
            return Err(value_error("Password must be 1 or more bytes."));
        }
        let mut builder = Pkcs12::builder();
        builder.pkey(self.key).mac_iter(MAC_ROUNDS);
        let (algorithm, rounds, mac) = match (passphrase, compatible) {
            // No encryption.
            (None, _) => (Nid::from_raw(-1), ROUNDS, MessageDigest::sha256()),
            (_, false) => (Nid::AES_256_CBC, ROUNDS, MessageDigest::sha256()),
            (_, true) => (
                Nid::PBE_WITHSHA1AND3_KEY_TRIPLEDES_CBC,
                COMPATIBLE_ROUNDS,
                MessageDigest::sha1(),
            ),
        };
        builder.key_algorithm(algorithm).cert_algorithm(algorithm);
        builder.key_iter(rounds).mac_md(mac);
        if let Some(name) = &self.name {
            builder.name(name);
        }
        if let Some(der) = self.certificate {
            builder.cert(&*X509::from_der(der).map_err(failed)?);
        }
        let mut others = Stack::new().map_err(failed)?;
        for der in &self.others {
            let one = X509::from_der(der).map_err(failed)?;
            others.push(one).map_err(failed)?;
        }
        builder.ca(others);
        let archive = builder
            .build2(passphrase.unwrap_or_default())
            .map_err(failed)?;
        archive.to_der().map_err(failed)
    }
}

/// The identifier of a signature algorithm with its encoding.
///
/// # Errors
/// The digest cannot be used for signatures.
pub fn algorithm(key: &PKeyRef<Private>, digest: &str) -> Result<Vec<u8>> {
    let kind = kind(key);
    let digest = digest.to_lowercase();
    let oid = match kind {
        "ed25519" => "1.3.101.112",
        "ed448" => "1.3.101.113",
        _ => {
            let row = tables::SIGNATURES
                .iter()
                .find(|s| s.1 == kind && s.2 == digest);
            // Signatures with those are forged too easily.
            let row = row.filter(|s| !["md5", "sha1"].contains(&s.2));
            row.map(|s| s.0).ok_or_else(|| {
                let shown = digest.replace('_', "-");
                let text = format!("Hash algorithm \"{shown}\" not supported for signatures");
                CallError::raised("cryptography.exceptions.UnsupportedAlgorithm", text)
            })?
        }
    };
    let mut parts = vec![der::oid(oid)];
    if kind == "rsa" {
        parts.push(der::tlv(der::NULL, &[]));
    }
    Ok(der::seq(parts))
}

/// What is signed, with its signature: the form that certificates, requests and revocation lists share.
///
/// # Errors
/// As [`algorithm`].
pub fn signed(key: &PKeyRef<Private>, digest: &str, content: Vec<u8>) -> Result<Vec<u8>> {
    let algorithm = algorithm(key, digest)?;
    let made = if matches!(kind(key), "ed25519" | "ed448") {
        Signer::new_without_digest(key).and_then(|mut s| s.sign_oneshot_to_vec(&content))
    } else {
        let name = digest.to_lowercase().replace('_', "-");
        let digest = MessageDigest::from_name(&name).ok_or_else(|| {
            let text = format!("Hash algorithm \"{name}\" not supported for signatures");
            CallError::raised("cryptography.exceptions.UnsupportedAlgorithm", text)
        })?;
        Signer::new(digest, key).and_then(|mut s| s.sign_oneshot_to_vec(&content))
    };
    let mut bits = vec![0];
    bits.extend(made.map_err(failed)?);
    Ok(der::seq([content, algorithm, der::tlv(der::BITS, &bits)]))
}
