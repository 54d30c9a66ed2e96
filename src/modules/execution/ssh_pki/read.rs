//! Functions that tell what is in a key or certificate.

use super::cert::{Cert, Fields};
use super::identity::{load_cert, load_public};
use super::keys::PublicKey;
use super::{policy, private, values};
use crate::execution::declare::Result;
use crate::execution::x509::keys::{digest, kind, size};
use crate::execution::x509::source::to_base64;
use crate::execution::x509::{in_seconds, pretty, pretty_number, show_time};
use crate::execution::{Call, CallError};
use halite_wire::{Map, Value, map};
use openssl::hash::MessageDigest;

/// The public key of whatever has one.
///
/// # Errors
/// It has none, or the passphrase is wrong.
pub fn public_of(from: &Value, passphrase: Option<&str>) -> Result<PublicKey> {
    if let Ok(key) = load_public(from) {
        return Ok(key);
    }
    match private::load(from, passphrase) {
        Ok(key) => PublicKey::of(&key),
        Err(_) => Err(CallError::Command(
            "Could not load key as certificate, public key or private key".to_owned(),
        )),
    }
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn shown_fields(fields: &Fields) -> Map {
    let value = |value: &Vec<u8>| match value.is_empty() {
        true => Value::from(true),
        false => text(value),
    };
    let pairs = fields.iter().map(|(name, v)| (text(name), value(v)));
    Map(pairs.collect())
}

/// When a certificate begins or ends to be valid. (Stock cannot read one that never ends.)
fn time(when: u64) -> String {
    i64::try_from(when).map_or_else(|_| "forever".to_owned(), show_time)
}

fn fingerprints(key: &PublicKey) -> Result<Map> {
    let blob = key.blob()?;
    let md5 = pretty(&digest(MessageDigest::md5(), &blob)).to_lowercase();
    let sha256 = to_base64(&digest(MessageDigest::sha256(), &blob));
    Ok(map! {"sha256" => sha256, "md5" => md5})
}

fn shown(cert: &Cert) -> Result<Map> {
    let names: Vec<Value> = cert.principals.iter().map(|name| text(name)).collect();
    let principals = match names.is_empty() {
        true => Value::from("all"),
        false => names.into(),
    };
    Ok(map! {
        "cert_type" => cert.cert_type.name(),
        "valid_principals" => principals,
        "key_id" => text(&cert.key_id),
        "key_size" => size(&cert.key.key).map(i64::from),
        "key_type" => kind(&cert.key.key),
        "serial_number" => pretty_number(&cert.serial.to_be_bytes()),
        "issuer_public_key" => cert.signer.text()?,
        "not_before" => time(cert.valid_after),
        "not_after" => time(cert.valid_before),
        "public_key" => cert.key.text()?,
        "critical_options" => shown_fields(&cert.critical),
        "extensions" => shown_fields(&cert.extensions),
        "issuer_public_key_fingerprints" => fingerprints(&cert.signer)?,
        "public_key_fingerprints" => fingerprints(&cert.key)?,
    })
}

/// `read_certificate`.
pub fn certificate(call: &mut Call<'_>) -> Result {
    Ok(shown(&load_cert(call.arg("certificate"))?)?.into())
}

/// Whether a certificate ends within a number of seconds.
///
/// # Errors
/// There are too many of them.
pub fn ends_within(cert: &Cert, seconds: f64) -> Result<bool> {
    let when = in_seconds(seconds)?;
    Ok(u64::try_from(when).is_ok_and(|when| cert.valid_before < when))
}

/// `expires`.
pub fn expires(call: &mut Call<'_>) -> Result {
    let cert = load_cert(call.arg("certificate"))?;
    if call.arg("ttl").is_nil() {
        let text = "unsupported type for timedelta seconds component: NoneType";
        return Err(CallError::Type(text.to_owned()));
    }
    let ttl = values::seconds(call.arg("ttl"))?;
    Ok(ends_within(&cert, ttl)?.into())
}

/// `get_private_key_size`.
pub fn private_key_size(call: &mut Call<'_>) -> Result {
    let key = private::load(call.arg("private_key"), call.text("passphrase").as_deref())?;
    Ok(size(&key).map(i64::from).into())
}

/// `get_public_key`.
pub fn public_key(call: &mut Call<'_>) -> Result {
    let pass = call.text("passphrase");
    let key = public_of(call.arg("key"), pass.as_deref())?;
    Ok(key.text()?.into())
}

/// `get_signing_policy`.
pub fn signing_policy(call: &mut Call<'_>) -> Result {
    let name = call.arg("signing_policy").clone();
    let server = call.arg("ca_server").clone();
    let server = Some(&server).filter(|v| !v.is_nil());
    Ok(policy::shown(call, &name, server)?.into())
}

/// `verify_private_key`.
pub fn verify_private_key(call: &mut Call<'_>) -> Result {
    let key = private::load(call.arg("private_key"), call.text("passphrase").as_deref())?;
    let public = public_of(call.arg("public_key"), None)?;
    Ok(PublicKey::of(&key)?.is(&public).into())
}

/// `verify_signature`.
pub fn verify_signature(call: &mut Call<'_>) -> Result {
    let cert = load_cert(call.arg("certificate"))?;
    let pass = call.text("signing_pub_key_passphrase");
    let signer = public_of(call.arg("signing_pub_key"), pass.as_deref())?;
    Ok(cert.is_signed_by(&signer).into())
}
