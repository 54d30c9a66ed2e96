//! Extensions as Salt's arguments describe them (`EXTENSION_BUILDERS` of `salt/utils/x509.py`).

use super::cert::Cert;
use super::der;
use super::extension::{self, Extension};
use super::general::{self, GeneralName, checked_oid};
use super::keys::PublicKey;
use super::points;
use super::policies;
use super::tables::{self, ACCESS, ENTRY_EXTENSIONS, EXTENSIONS, REASONS, USAGES, oid_of};
use super::values::{
    attribute_error, configuration, critical_of, has, invocation, pairs_map, parse_time,
};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};

/// Whom a certificate is for and by whom, as far as extensions need it.
#[derive(Clone, Copy, Default)]
pub struct Parties<'a> {
    /// The key that it is for.
    pub subject: Option<&'a PublicKey>,
    /// The certificate that signs.
    pub signer: Option<&'a Cert>,
    /// The key of a certificate that signs itself.
    pub own: Option<&'a PublicKey>,
}

/// Makes an extension.
///
/// # Errors
/// The description is wrong.
pub fn create(name: &str, given: &Value, parties: &Parties<'_>) -> Result<Extension> {
    let own = EXTENSIONS.iter().find(|e| e.0 == name).map(|e| e.1);
    let (critical, value) = match name {
        "basicConstraints" => basic_constraints(given)?,
        "keyUsage" => key_usage(given)?,
        "extendedKeyUsage" => extended_key_usage(given)?,
        "subjectKeyIdentifier" => (false, subject_key(given, parties)?),
        "authorityKeyIdentifier" => (false, authority_key(given, parties)?),
        "issuerAltName" | "certificateIssuer" => issuer_names(given, parties)?,
        "authorityInfoAccess" => (false, access(given)?),
        "subjectAltName" => subject_names(given)?,
        "crlDistributionPoints" => points::distribution(given)?,
        "freshestCRL" => (false, points::distribution(given)?.1),
        "issuingDistributionPoint" => points::issuing(given)?,
        "certificatePolicies" => policies::policies(given)?,
        "policyConstraints" => policies::policy_constraints(given)?,
        "inhibitAnyPolicy" => policies::inhibit_any_policy(given)?,
        "nameConstraints" => name_constraints(given)?,
        "noCheck" => {
            let critical = python::str(given).contains("critical");
            (critical, der::tlv(der::NULL, &[]))
        }
        "tlsfeature" => tls_feature(given)?,
        "nsComment" | "nsCertType" => {
            return Err(invocation(format!("{name} is currently not implemented.")));
        }
        "cRLNumber" => (false, list_number(given)?),
        "deltaCRLIndicator" => delta(given)?,
        "CRLReason" => reason(given)?,
        "invalidityDate" => invalidity(given)?,
        _ => return Err(CallError::Command(format!("Unknown extension {name}"))),
    };
    let oid = own
        .or_else(|| oid_of(&ENTRY_EXTENSIONS, name))
        .unwrap_or_default();
    Ok(Extension {
        oid: oid.to_owned(),
        critical,
        value,
    })
}

fn command(text: impl Into<String>) -> CallError {
    CallError::Command(text.into())
}

fn basic_constraints(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (map, critical) = match given {
        Value::Str(text) => {
            let (pairs, critical) = configuration(&text.to_lowercase());
            let mut map = pairs_map(pairs);
            let bad =
                |why: &str| invocation(format!("Invalid configuration for basicContraints: {why}"));
            let ca = map.get("ca").ok_or_else(|| bad("'ca'"))?.is_str("true");
            map.set("ca", ca);
            if let Some(length) = map.get("pathlen") {
                let length = python::int(length).map_err(|e| bad(e.message()))?;
                map.set("pathlen", length);
            }
            (map, critical)
        }
        Value::Map(map) => (map.clone(), critical_of(map)?),
        other => {
            return Err(invocation(format!(
                "'{}' object is not subscriptable",
                python::type_name(other)
            )));
        }
    };
    let ca = map
        .get("ca")
        .ok_or_else(|| invocation("Undefined required key for basicConstraints: 'ca'"))?;
    let ca = ca
        .as_bool()
        .ok_or_else(|| invocation("ca must be a boolean value"))?;
    let mut parts = vec![der::boolean(der::BOOLEAN, ca)];
    match map.get("pathlen") {
        None | Some(Value::Nil) => {}
        Some(_) if !ca => return Err(invocation("path_length must be None when ca is False")),
        Some(length) => {
            let length = length.as_int().and_then(|n| u64::try_from(n).ok());
            let length = length
                .ok_or_else(|| invocation("path_length must be a non-negative integer or None"))?;
            parts.push(der::int(length));
        }
    }
    Ok((critical, der::seq(parts)))
}

fn key_usage(given: &Value) -> Result<(bool, Vec<u8>)> {
    let mut bits = [false; 9];
    for (bit, name) in bits.iter_mut().zip(tables::KEY_BITS) {
        *bit = has(given, name)?;
    }
    // The last two say how a key that agrees is used.
    if (bits[7] || bits[8]) && !bits[4] {
        let text = "encipher_only and decipher_only can only be true when key_agreement is true";
        return Err(invocation(text));
    }
    Ok((has(given, "critical")?, der::named_bits(der::BITS, &bits)))
}

fn extended_key_usage(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (words, critical) = match given {
        Value::Str(text) => {
            let (pairs, critical) = configuration(text);
            let words = pairs_map(pairs).0.into_iter().map(|(word, _)| word);
            (words.collect(), critical)
        }
        Value::Array(list) => (list.clone(), has(given, "critical")?),
        other => (vec![other.clone()], has(given, "critical")?),
    };
    let mut usages = Vec::new();
    for word in words.iter().filter(|w| !w.is_str("critical")) {
        let known = word.as_str().and_then(|w| oid_of(&USAGES, w));
        match known {
            Some(oid) => usages.push(der::oid(oid)),
            None => usages.push(der::oid(&checked_oid(&python::str(word).into())?)),
        }
    }
    Ok((critical, der::seq(usages)))
}

fn subject_key(given: &Value, parties: &Parties<'_>) -> Result<Vec<u8>> {
    if has(given, "critical")? {
        return Err(invocation(
            "subjectKeyIdentifier must be marked as non-critical",
        ));
    }
    let Value::Str(text) = given else {
        return Err(invocation("Value must be a (hex-)digest or pubkey"));
    };
    if text == "hash" {
        let key = parties.subject.ok_or_else(|| {
            let text = "Cannot calculate digest for subjectKeyIdentifier: missing pubkey";
            CallError::raised("RuntimeError", text)
        })?;
        return Ok(der::tlv(der::OCTETS, &key.identifier()));
    }
    let bytes = super::unhex(&text.replace(':', ""));
    let bytes = bytes.ok_or_else(|| invocation("Value must be precomputed hash"))?;
    Ok(der::tlv(der::OCTETS, &bytes))
}

fn authority_key(given: &Value, parties: &Parties<'_>) -> Result<Vec<u8>> {
    if has(given, "critical")? {
        return Err(invocation(
            "authorityKeyIdentifier must be marked as non-critical",
        ));
    }
    if parties.signer.is_none() && parties.own.is_none() {
        let text = "Need CA certificate or CA pubkey to calculate authorityKeyIdentifier";
        return Err(CallError::raised("RuntimeError", text));
    }
    let map = match given {
        Value::Str(text) => pairs_map(configuration(text).0),
        Value::Map(map) => map.clone(),
        other => return Err(attribute_error(other, "get")),
    };
    let always = |key: &str| map.get(key).is_some_and(|v| v.is_str("always"));
    let mut parts = Vec::new();
    let wants_key = map.contains("keyid");
    if wants_key {
        let id = match (parties.signer, parties.own) {
            (Some(cert), _) => cert.key_identifier(),
            (None, Some(key)) => key.identifier(),
            (None, None) => Vec::new(),
        };
        parts.push(der::tlv(der::FIELD, &id));
    }
    if always("issuer") || (map.contains("issuer") && !wants_key) {
        match parties.signer {
            Some(cert) => {
                let issuer = GeneralName::Directory(cert.issuer.clone());
                parts.push(general::encode(der::PARTS | 1, &[issuer]));
                parts.push(der::tlv(der::FIELD | 2, &der::magnitude(&cert.serial)));
            }
            None if always("issuer") => {
                return Err(command(
                    "Could not add authority_cert_issuer and authority_cert_serial_number, but was set to always.",
                ));
            }
            None => {}
        }
    }
    Ok(der::seq(parts))
}

/// Pairs of kind and value from the forms in which names are given.
fn name_pairs(given: &Value) -> Result<(Vec<(String, Value)>, bool)> {
    match given {
        Value::Str(text) => Ok(configuration(text)),
        Value::Array(list) => {
            let mut pairs = Vec::new();
            for item in list {
                match item {
                    Value::Str(text) => {
                        if let Some((kind, value)) = text.split_once(':') {
                            pairs.push((kind.trim().to_owned(), value.trim().into()));
                        }
                    }
                    Value::Map(map) => {
                        let items = map.iter().map(|(k, v)| (python::str(k), v.clone()));
                        pairs.extend(items);
                    }
                    _ => {}
                }
            }
            Ok((pairs, has(given, "critical")?))
        }
        other => {
            has(other, "critical")?;
            Err(CallError::raised(
                "ValueError",
                "too many values to unpack (expected 2)",
            ))
        }
    }
}

fn issuer_names(given: &Value, parties: &Parties<'_>) -> Result<(bool, Vec<u8>)> {
    let (mut pairs, critical) = name_pairs(given)?;
    let copies = |(kind, value): &(String, Value)| kind == "issuer" && value.is_str("copy");
    let mut names = Vec::new();
    if pairs.iter().any(copies) {
        let cert = parties.signer.ok_or_else(|| {
            CallError::raised(
                "RuntimeError",
                "Need CA certificate to copy to issuerAltName",
            )
        })?;
        let own = extension::find(&cert.extensions, "subjectAltName").ok_or_else(|| {
            command(
                "No <class 'cryptography.x509.extensions.SubjectAlternativeName'> extension was found",
            )
        })?;
        let body = der::only(&own.value, der::SEQUENCE).unwrap_or_default();
        names = general::read_all(body).unwrap_or_default();
        pairs.retain(|(kind, _)| kind != "issuer");
    }
    names.extend(general::parse(&pairs)?);
    Ok((critical, general::encode(der::SEQUENCE, &names)))
}

fn subject_names(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (pairs, critical) = name_pairs(given)?;
    let names = general::parse(&pairs)?;
    Ok((critical, general::encode(der::SEQUENCE, &names)))
}

fn access(given: &Value) -> Result<Vec<u8>> {
    let unpacked = |m: &Map| -> Vec<(String, Value)> {
        m.iter().map(|(k, v)| (python::str(k), v.clone())).collect()
    };
    let pairs: Vec<(String, Value)> = match given {
        Value::Str(text) => {
            let items = text.split(',').map(str::trim).filter(|i| *i != "critical");
            let pair = |item: &str| match item.split_once(';') {
                Some((kind, value)) if !value.contains(';') => Ok((kind.to_owned(), value.into())),
                Some(_) => Err("too many values to unpack (expected 2)"),
                None => Err("not enough values to unpack (expected 2, got 1)"),
            };
            let pairs: Result<Vec<_>, &str> = items.map(pair).collect();
            pairs.map_err(|text| CallError::raised("ValueError", text))?
        }
        Value::Map(map) => {
            let mut pairs = unpacked(map);
            pairs.retain(|(key, _)| key != "critical");
            pairs
        }
        Value::Array(list) => {
            let maps: Result<Vec<_>> = list
                .iter()
                .map(|item| {
                    item.as_map()
                        .map(unpacked)
                        .ok_or_else(|| attribute_error(item, "items"))
                })
                .collect();
            maps?.concat()
        }
        other => {
            let kind = python::type_name(other);
            let text = format!("'{kind}' object is not iterable");
            return Err(CallError::Type(text));
        }
    };
    let mut descriptions = Vec::new();
    for (kind, name) in pairs {
        let oid = match oid_of(&ACCESS, &kind) {
            Some(oid) => oid.to_owned(),
            None => checked_oid(&kind.as_str().into())
                .map_err(|_| command(format!("Unknown access OID: {kind}")))?,
        };
        let Value::Str(name) = name else {
            return Err(attribute_error(&name, "split"));
        };
        let name = general::parse_one(&name)?;
        descriptions.push(der::seq([der::oid(&oid), name.der()]));
    }
    Ok(der::seq(descriptions))
}

fn name_constraints(given: &Value) -> Result<(bool, Vec<u8>)> {
    const SCOPES: [&str; 2] = ["permitted", "excluded"];
    let critical = has(given, "critical")?;
    let mut found: [Option<Vec<GeneralName>>; 2] = [None, None];
    match given {
        Value::Str(text) => {
            let items: Vec<(&str, Option<&str>)> = text
                .split(',')
                .map(|item| match item.trim().split_once(';') {
                    Some((scope, name)) => (scope, Some(name.split(';').next().unwrap_or(name))),
                    None => (item.trim(), None),
                })
                .collect();
            for (slot, scope) in found.iter_mut().zip(SCOPES) {
                let mut names = Vec::new();
                for (_, name) in items.iter().filter(|(s, _)| *s == scope) {
                    let name = name.ok_or_else(|| {
                        CallError::raised("IndexError", "list index out of range")
                    })?;
                    names.push(general::parse_one(name)?);
                }
                *slot = Some(names);
            }
        }
        Value::Map(map) => {
            for (slot, scope) in found.iter_mut().zip(SCOPES) {
                if let Some(names) = map.get(scope) {
                    *slot = Some(general::parse(&name_pairs(names)?.0)?);
                }
            }
        }
        _ => {}
    }
    if found.iter().flatten().all(Vec::is_empty) {
        return Err(invocation("nameConstraints needs at least one definition"));
    }
    let mut parts = Vec::new();
    for (tag, (scope, names)) in (der::PARTS..).zip(SCOPES.iter().zip(&found)) {
        let Some(names) = names else { continue };
        if names.is_empty() {
            let text = format!("{scope}_subtrees must be a non-empty list or None");
            return Err(CallError::raised("ValueError", text));
        }
        for name in names {
            match name {
                GeneralName::Ip(bytes) if bytes.len() == 4 || bytes.len() == 16 => {
                    let text =
                        "IPAddress name constraints must be an IPv4Network or IPv6Network object";
                    return Err(CallError::Type(text.to_owned()));
                }
                GeneralName::Dns(host) if host.contains('*') => {
                    let text =
                        "DNSName name constraints must not contain the '*' wildcard character";
                    return Err(CallError::raised("ValueError", text));
                }
                _ => {}
            }
        }
        parts.push(der::parts(tag, names.iter().map(|n| der::seq([n.der()]))));
    }
    Ok((critical, der::seq(parts)))
}

fn tls_feature(given: &Value) -> Result<(bool, Vec<u8>)> {
    let words: Vec<String> = match given {
        Value::Str(text) => text.split(',').map(|w| w.trim().to_owned()).collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => {
            has(other, "critical")?;
            Vec::new()
        }
    };
    let mut features = Vec::new();
    for word in words.iter().filter(|w| *w != "critical") {
        features.push(match word.as_str() {
            "status_request" => der::int(5),
            "status_request_v2" => der::int(17),
            other => {
                return Err(CallError::raised("AttributeError", other));
            }
        });
    }
    if features.is_empty() {
        let text = "features must be a list of elements from the TLSFeatureType enum";
        return Err(CallError::Type(text.to_owned()));
    }
    Ok((words.iter().any(|w| w == "critical"), der::seq(features)))
}

fn list_number(given: &Value) -> Result<Vec<u8>> {
    let bad = || invocation("cRLNumber must be an integer and must be marked as non-critical");
    match given {
        // One more than a number that was read.
        Value::Bytes(number) => Ok(der::tlv(der::INTEGER, &der::magnitude(number))),
        other => {
            let number = python::int(other).map_err(|e| match e {
                CallError::Raised(..) => bad(),
                other => other,
            })?;
            Ok(der::int(u64::try_from(number).map_err(|_| bad())?))
        }
    }
}

fn delta(given: &Value) -> Result<(bool, Vec<u8>)> {
    let text = python::str(given);
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|n| !n.is_empty());
    let bad = "deltaCRLIndicator must contain a single integer pointing to a cRLNumber";
    let number = match (numbers.next(), numbers.next()) {
        (Some(number), None) => number.parse().map_err(|_| invocation(bad))?,
        _ => return Err(invocation(bad)),
    };
    Ok((text.contains("critical"), der::int(number)))
}

fn reason(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (word, critical) = match given {
        Value::Str(text) => {
            let (pairs, critical) = configuration(text);
            (pairs.into_iter().next().map(|(word, _)| word), critical)
        }
        Value::Array(list) => {
            let mut words = list.iter().filter(|w| !w.is_str("critical"));
            (words.next().map(python::str), has(given, "critical")?)
        }
        Value::Map(map) => {
            let mut words = map.iter().map(|(k, _)| k).filter(|k| !k.is_str("critical"));
            (words.next().map(python::str), map.contains("critical"))
        }
        other => {
            has(other, "critical")?;
            (None, false)
        }
    };
    let word = word.ok_or_else(|| CallError::raised("StopIteration", ""))?;
    let number = REASONS.iter().find(|r| r.0 == word);
    let number =
        number.ok_or_else(|| invocation(format!("'{word}' is not a valid ReasonFlags")))?;
    Ok((critical, der::tlv(der::ENUMERATED, &[number.1])))
}

fn invalidity(given: &Value) -> Result<(bool, Vec<u8>)> {
    let Value::Str(text) = given else {
        return Err(invocation("invalidityDate must be a string"));
    };
    let critical = text.starts_with("critical");
    let text = if critical {
        let rest = text.split_once(' ').map(|(_, rest)| rest);
        rest.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))?
    } else {
        text
    };
    let seconds = parse_time(text).map_err(|e| invocation(e.message()))?;
    Ok((critical, der::general_time(seconds)))
}
