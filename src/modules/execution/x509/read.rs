//! Functions that tell what is in a file: `read_*`, `verify_*`, `expired` and the like.

use super::cert::{self, Cert};
use super::crl::Crl;
use super::keys::{self, PublicKey, digest};
use super::names::Name;
use super::request::Csr;
use super::source::{LoadError, is_file};
use super::values::in_days;
use super::{der, policy, pretty, pretty_number, show, tables};
use crate::execution::declare::Result;
use crate::execution::file::paths;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use openssl::hash::MessageDigest;

/// The first bytes of a name's digest, by which OpenSSL finds certificates.
fn name_hash(name: &Name) -> String {
    let hash = digest(MessageDigest::sha1(), &name.der);
    let mut first = hash.get(..4).unwrap_or_default().to_vec();
    first.reverse();
    pretty(&first)
}

fn cert_of(call: &Call<'_>) -> Result<Cert> {
    Ok(cert::load(call.arg("certificate"), None)?.cert)
}

fn shown(cert: &Cert) -> Map {
    let print = |algorithm| pretty(&digest(algorithm, &cert.der));
    let prints = map! {
        "sha1" => print(MessageDigest::sha1()), "sha256" => print(MessageDigest::sha256()),
        "md5" => print(MessageDigest::md5()),
    };
    map! {
        "version" => i64::from(cert.version),
        "key_size" => cert.key.size().map(i64::from),
        "key_type" => cert.key.kind(),
        "serial_number" => pretty_number(&cert.serial),
        "fingerprints" => prints,
        "subject" => cert.subject.known(),
        "subject_hash" => name_hash(&cert.subject),
        "subject_str" => cert.subject.show(),
        "issuer" => cert.issuer.known(),
        "issuer_hash" => name_hash(&cert.issuer),
        "issuer_str" => cert.issuer.show(),
        "not_before" => der::show_time(cert.not_before),
        "not_after" => der::show_time(cert.not_after),
        "public_key" => cert.key.pem(),
        "extensions" => show::extensions(&cert.extensions),
        "signature_algorithm" => tables::signature_name(&cert.signature),
    }
}

/// `read_certificate`.
pub fn certificate(call: &mut Call<'_>) -> Result {
    Ok(shown(&cert_of(call)?).into())
}

/// `read_certificates`.
pub fn certificates(call: &mut Call<'_>) -> Result {
    let mut all = Map::new();
    for path in paths::glob(&python::str(call.arg("glob_path"))) {
        let from = Value::from(path.as_str());
        if is_file(&from) {
            all.set(path, shown(&cert::load(&from, None)?.cert));
        }
    }
    Ok(all.into())
}

/// `read_csr`.
pub fn csr(call: &mut Call<'_>) -> Result {
    let (csr, _) = Csr::load(call.arg("csr"))?;
    Ok(map! {
        "key_size" => csr.key.size().map(i64::from),
        "key_type" => csr.key.kind(),
        "subject" => csr.subject.known(),
        "subject_hash" => name_hash(&csr.subject),
        "subject_str" => csr.subject.show(),
        "public_key_hash" => pretty(&csr.key.identifier()),
        "extensions" => show::extensions(&csr.extensions),
    }
    .into())
}

/// `read_crl`.
pub fn crl(call: &mut Call<'_>) -> Result {
    let (crl, _) = Crl::load(call.arg("crl"))?;
    let mut revoked = Map::new();
    for entry in &crl.entries {
        let shown = map! {
            "revocation_date" => der::show_time(entry.date),
            "extensions" => show::entry_extensions(&entry.extensions),
        };
        // Numbers are unique; a list may be long.
        let serial = pretty_number(&entry.serial).replace(':', "");
        revoked.0.push((serial.into(), shown.into()));
    }
    Ok(map! {
        "issuer" => crl.issuer.known(),
        "last_update" => der::show_time(crl.last_update),
        "next_update" => der::show_time(crl.next_update),
        "revoked_certificates" => revoked,
        "extensions" => show::extensions(&crl.extensions),
        "signature_algorithm" => tables::signature_name(&crl.signature),
    }
    .into())
}

/// The public key of whatever has one (`get_public_key`).
///
/// # Errors
/// It has none, or the passphrase is wrong.
fn public_of(from: &Value, passphrase: Option<&str>) -> Result<PublicKey> {
    let command =
        |fault: LoadError| CallError::Command(CallError::from(fault).message().to_owned());
    let tolerable = |fault: &LoadError| match fault {
        LoadError::Call(fault) => matches!(fault, CallError::Command(_) | CallError::Invocation(_)),
        LoadError::Version(_) => false,
        _ => true,
    };
    match keys::load_public(from) {
        Ok(key) => return Ok(key),
        Err(fault) if tolerable(&fault) => {}
        Err(fault) => return Err(fault.into()),
    }
    match cert::load(from, passphrase) {
        Ok(loaded) => return Ok(loaded.cert.key),
        Err(fault @ LoadError::WrongPassphrase) => return Err(command(fault)),
        Err(_) => {}
    }
    match keys::load(from, passphrase) {
        Ok(loaded) => return PublicKey::of(&loaded.key),
        Err(LoadError::Format(_) | LoadError::Call(_) | LoadError::Version(_)) => {}
        Err(fault) => return Err(command(fault)),
    }
    match Csr::load(from) {
        Ok((csr, _)) => Ok(csr.key),
        Err(fault @ LoadError::Version(_)) => Err(fault.into()),
        Err(_) => Err(CallError::Command(
            "Could not load key as certificate, public key, private key or CSR".to_owned(),
        )),
    }
}

/// `get_public_key`.
pub fn public_key(call: &mut Call<'_>) -> Result {
    let pass = call.text("passphrase");
    Ok(public_of(call.arg("key"), pass.as_deref())?.pem().into())
}

/// `get_private_key_size`.
pub fn private_key_size(call: &mut Call<'_>) -> Result {
    let pass = call.text("passphrase");
    let key = keys::load(call.arg("private_key"), pass.as_deref())?.key;
    Ok(keys::size(&key).map(i64::from).into())
}

/// `get_signing_policy`.
pub fn signing_policy(call: &mut Call<'_>) -> Result {
    let name = call.arg("signing_policy").clone();
    let server = call.arg("ca_server").clone();
    let server = (!server.is_nil()).then_some(&server);
    Ok(policy::shown(call, Some(&name), server)?.into())
}

/// `verify_private_key`.
pub fn verify_private_key(call: &mut Call<'_>) -> Result {
    let pass = call.text("passphrase");
    let key = keys::load(call.arg("private_key"), pass.as_deref())?.key;
    Ok(public_of(call.arg("public_key"), None)?.is_of(&key).into())
}

/// `verify_crl`.
pub fn verify_crl(call: &mut Call<'_>) -> Result {
    let (crl, _) = Crl::load(call.arg("crl"))?;
    Ok(crl.is_signed_by(&public_of(call.arg("cert"), None)?).into())
}

/// `verify_signature`.
pub fn verify_signature(call: &mut Call<'_>) -> Result {
    let cert = cert_of(call)?;
    let signer = call.arg("signing_pub_key");
    let signer = if signer.truthy() {
        signer
    } else {
        call.arg("certificate")
    };
    let pass = call.text("signing_pub_key_passphrase");
    Ok(cert
        .is_signed_by(&public_of(signer, pass.as_deref())?)
        .into())
}

/// Whether a certificate ends within a number of days.
fn ends(cert: &Cert, days: &Value) -> Result<bool> {
    Ok(cert.not_after <= in_days(days)?)
}

/// `expires`.
pub fn expires(call: &mut Call<'_>) -> Result {
    Ok(ends(&cert_of(call)?, call.arg("days"))?.into())
}

/// What `expired` and `will_expire` begin with.
fn about(call: &Call<'_>, mut ret: Map) -> Result<(Map, Cert)> {
    let from = call.arg("certificate");
    if is_file(from) {
        ret.set("path", from.clone());
    }
    let cert = cert_of(call)?;
    if let Some(name) = cert.subject.get("CN") {
        ret.set("cn", name);
    }
    Ok((ret, cert))
}

/// `expired`.
pub fn expired(call: &mut Call<'_>) -> Result {
    let (mut ret, cert) = about(call, Map::new())?;
    ret.set("expired", ends(&cert, &0.into())?);
    Ok(ret.into())
}

/// `will_expire`.
pub fn will_expire(call: &mut Call<'_>) -> Result {
    let days = call.arg("days").clone();
    let (mut ret, cert) = about(call, map! {"check_days" => days.clone()})?;
    ret.set("will_expire", ends(&cert, &days)?);
    Ok(ret.into())
}
