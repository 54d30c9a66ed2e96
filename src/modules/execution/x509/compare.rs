//! What differs between a file and what it is to be (`check_cert_changes` and `_compare_*`).

use super::cert::{self, Cert};
use super::crl::{self, Crl};
use super::extension::Extension;
use super::issue;
use super::keys::PublicKey;
use super::policy;
use super::request::{self, Csr};
use super::source::LoadError;
use super::values::in_days;
use super::{show, tables};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::collections::HashMap;

/// What was found of a certificate.
#[derive(Default)]
pub struct Found {
    /// Its encoding, if it is one.
    pub current: Option<Value>,
    /// What is to change.
    pub changes: Map,
    /// Whether it is a list of nothing, which stock does not count as being there.
    pub is_empty: bool,
    /// Whether the file is something else.
    pub replace: bool,
    /// The private key for PKCS#12.
    pub private_key: Option<Value>,
}

/// Compares a certificate with the arguments of `certificate_managed`.
///
/// # Errors
/// The arguments are wrong.
pub fn certificate(call: &mut Call<'_>, path: &str, args: &Map) -> Result<Found> {
    let mut found = Found::default();
    let text = |key: &str| args.get(key).filter(|v| !v.is_nil()).map(python::str);
    let loaded = match cert::load(&path.into(), text("pkcs12_passphrase").as_deref()) {
        Ok(loaded) => loaded,
        Err(LoadError::WrongPassphrase) => {
            found.changes.set("pkcs12_passphrase", true);
            return Ok(found);
        }
        Err(LoadError::Format(_)) => {
            found.replace = true;
            return Ok(found);
        }
        Err(fault) => return Err(fault.into()),
    };
    let encoding = text("encoding").unwrap_or_default();
    let current = loaded.cert;
    let changes = &mut found.changes;
    if encoding != loaded.encoding {
        changes.set("encoding", encoding);
    } else if encoding == "pkcs12" {
        let wanted = text("pkcs12_friendlyname").filter(|n| !n.is_empty());
        if loaded.friendly_name != wanted.map(String::into_bytes) {
            changes.set(
                "pkcs12_friendlyname",
                args.get("pkcs12_friendlyname").cloned(),
            );
        }
    }
    let remaining = args.get("days_remaining").unwrap_or(&Value::Nil);
    if current.not_after < in_days(remaining)? {
        changes.set("expiration", true);
    }
    let mut chain = Vec::new();
    for from in args
        .get("append_certs")
        .and_then(Value::as_array)
        .unwrap_or_default()
    {
        chain.push(cert::load(from, None)?.cert.der);
    }
    if !loaded.chain.iter().map(|c| &c.der).eq(&chain) {
        changes.set("additional_certs", true);
    }
    let remote = args.get("ca_server").filter(|v| !v.is_nil());
    let mut merged = args.clone();
    let policy = policy::shown(call, args.get("signing_policy"), remote)?;
    policy::merge(&policy, &mut merged);
    let draft = issue::draft(&merged, remote.is_none())?;
    let digest = merged.get("digest").map(python::str).unwrap_or_default();
    if has_other_digest(&current.signature, &digest) {
        changes.set("digest", args.get("digest").cloned());
    }
    compare(&current, &draft, args, changes);
    found.current = Some(Value::Bytes(current.der));
    if let Some(key) = &draft.private_key {
        let der = key.private_key_to_pkcs8().map_err(super::keys::failed)?;
        found.private_key = Some(Value::Bytes(der));
    }
    Ok(found)
}

fn compare(current: &Cert, draft: &issue::Draft, args: &Map, changes: &mut Map) {
    let serial = args.get("serial_number").filter(|v| !v.is_nil());
    if serial.is_some() && draft.serial != current.serial {
        changes.set("serial_number", serial.cloned());
    }
    if !draft.key.is(&current.key) {
        changes.set("private_key", true);
    }
    if draft
        .signer
        .as_ref()
        .is_some_and(|s| !current.is_signed_by(&s.key))
    {
        changes.set("signing_private_key", true);
    }
    if draft.subject != current.subject {
        changes.set("subject_name", draft.subject.show());
    }
    if draft.issuer != current.issuer {
        changes.set("issuer_name", draft.issuer.show());
    }
    changes
        .0
        .extend(extensions(&current.extensions, &draft.extensions).0);
}

/// Whether a signature has another digest than is wanted.
fn has_other_digest(signature: &str, wanted: &str) -> bool {
    match tables::hash_of(signature) {
        Ok(Some(digest)) => !digest.eq_ignore_ascii_case(wanted),
        // Keys of Edwards curves have their own.
        Ok(None) => false,
        Err(()) => {
            log::warn!("the digest of the signature {signature} is not known");
            false
        }
    }
}

/// The change of extensions, if there is one.
fn extensions(current: &[Extension], wanted: &[Extension]) -> Map {
    let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    let name = |e: &Extension| Value::from(tables::extension_name(&e.oid));
    for one in wanted {
        match current.iter().find(|e| e.oid == one.oid) {
            None => added.push(name(one)),
            Some(old) if !show::same(old, one) => changed.push(name(one)),
            Some(_) => {}
        }
    }
    for old in current {
        if !wanted.iter().any(|e| e.oid == old.oid) {
            removed.push(name(old));
        }
    }
    if added.is_empty() && changed.is_empty() && removed.is_empty() {
        return Map::new();
    }
    map! {"extensions" => map! {"added" => added, "changed" => changed, "removed" => removed}}
}

/// Compares a request with the arguments of `csr_managed`.
///
/// # Errors
/// The arguments are wrong.
pub fn request(path: &str, args: &Map) -> Result<Found> {
    let mut found = Found::default();
    let (current, encoding) = match Csr::load(&path.into()) {
        Ok(loaded) => loaded,
        Err(LoadError::Format(_)) => {
            found.replace = true;
            return Ok(found);
        }
        Err(LoadError::Version(_)) => {
            found.changes.set("invalid_version", true);
            found.replace = true;
            return Ok(found);
        }
        Err(fault) => return Err(fault.into()),
    };
    let changes = &mut found.changes;
    let digest = args.get("digest").map(python::str).unwrap_or_default();
    if has_other_digest(&current.signature, &digest) {
        changes.set("digest", digest);
    }
    set_encoding(changes, args, encoding);
    let draft = request::draft(args)?;
    if !current.key.is_of(&draft.key) {
        changes.set("private_key", true);
    }
    if draft.subject != current.subject {
        changes.set("subject_name", draft.subject.show());
    }
    changes
        .0
        .extend(extensions(&current.extensions, &draft.extensions).0);
    found.current = Some(Value::Bytes(current.der));
    Ok(found)
}

fn set_encoding(changes: &mut Map, args: &Map, current: &str) {
    let wanted = args.get("encoding").map(python::str).unwrap_or_default();
    if wanted != current {
        changes.set("encoding", wanted);
    }
}

/// Compares a revocation list with the arguments of `crl_managed`; with the number that the next one gets where that is
/// to be found out.
///
/// # Errors
/// The arguments are wrong.
pub fn revocations(path: &str, args: &Map, revoked: &[Map]) -> Result<(Found, Value)> {
    let mut found = Found::default();
    let mut number = Value::from(1);
    let (current, encoding) = match Crl::load(&path.into()) {
        Ok(loaded) => loaded,
        Err(LoadError::Format(_)) => {
            found.replace = true;
            return Ok((found, number));
        }
        Err(fault) => return Err(fault.into()),
    };
    let changes = &mut found.changes;
    let digest = args.get("digest").map(python::str).unwrap_or_default();
    if has_other_digest(&current.signature, &digest) {
        changes.set("digest", digest);
    }
    set_encoding(changes, args, encoding);
    let remaining = args.get("days_remaining").filter(|v| v.truthy());
    if let Some(remaining) = remaining
        && current.next_update < in_days(remaining)?
    {
        changes.set("expiration", true);
    }
    let mut args = args.clone();
    let counts = take_auto(&mut args);
    let draft = crl::draft(&args, revoked)?;
    let issuer = draft.issuer.as_ref().ok_or_else(|| {
        let text = "'NoneType' object has no attribute 'rfc4514_string'";
        CallError::raised("AttributeError", text)
    })?;
    if *issuer != current.issuer {
        changes.set("issuer_name", issuer.show());
    }
    if !current.is_signed_by(&PublicKey::of(&draft.key)?) {
        changes.set("public_key", true);
    }
    changes.0.extend(entries(&current, &draft).0);
    let mut own = current.extensions.clone();
    if counts {
        let (_, oid, _) = tables::EXTENSIONS[tables::CRL_NUMBER];
        if let Some(old) = own.iter().find(|e| e.oid == oid) {
            number = Value::Bytes(one_more(&old.value));
        }
        own.retain(|e| e.oid != oid);
    }
    changes.0.extend(extensions(&own, &draft.extensions).0);
    found.is_empty = current.entries.is_empty();
    found.current = Some(Value::Bytes(current.der));
    Ok((found, number))
}

/// Takes `cRLNumber: auto` away; whether it was there.
fn take_auto(args: &mut Map) -> bool {
    let Some(Value::Map(extensions)) = args.get_mut("extensions") else {
        return false;
    };
    let auto = extensions
        .get("cRLNumber")
        .is_some_and(|v| v.is_str("auto"));
    if auto {
        extensions.remove("cRLNumber");
    }
    auto
}

/// The number after one that is encoded.
fn one_more(der: &[u8]) -> Vec<u8> {
    let body = super::der::only(der, super::der::INTEGER).unwrap_or_default();
    let mut number = vec![0];
    number.extend(body);
    for byte in number.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    super::der::unsigned(&number)
}

/// The change of what is revoked, if there is one.
fn entries(current: &Crl, draft: &crl::Draft) -> Map {
    let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    let shown = |e: &crl::Entry| Value::from(super::pretty_number(&e.serial));
    // Lists may be long.
    let old: HashMap<&[u8], &crl::Entry> = current
        .entries
        .iter()
        .map(|e| (e.serial.as_slice(), e))
        .collect();
    let new: HashMap<&[u8], &crl::Entry> = draft
        .entries
        .iter()
        .map(|e| (e.serial.as_slice(), e))
        .collect();
    for entry in &draft.entries {
        let Some(was) = old.get(entry.serial.as_slice()) else {
            added.push(shown(entry));
            continue;
        };
        for one in &entry.extensions {
            let before = was.extensions.iter().find(|e| e.oid == one.oid);
            if !before.is_some_and(|before| show::same(before, one)) {
                changed.push(shown(entry));
            }
        }
        for before in &was.extensions {
            if !entry.extensions.iter().any(|e| e.oid == before.oid) {
                changed.push(shown(entry));
            }
        }
    }
    for entry in &current.entries {
        if !new.contains_key(entry.serial.as_slice()) {
            removed.push(shown(entry));
        }
    }
    if added.is_empty() && changed.is_empty() && removed.is_empty() {
        return Map::new();
    }
    map! {"revocations" => map! {"added" => added, "changed" => changed, "removed" => removed}}
}
