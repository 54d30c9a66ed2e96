//! What certificates say.

use super::files::{digest, failed};
use crate::execution::command_helpers::read;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError};
use halite_wire::{Map, Value, map};
use jiff::Timestamp;
use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::error::ErrorStack;
use openssl::x509::{X509, X509NameRef};

/// A certificate given as a path or as PEM.
pub fn loaded(call: &Call<'_>) -> Result<X509> {
    let given = call.text("cert").unwrap_or_default();
    let pem = if given.contains("-----BEGIN") {
        given
    } else {
        read(&given)?
    };
    X509::from_pem(pem.as_bytes()).map_err(failed)
}

/// Seconds since 1970.
pub fn seconds(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let past = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(past.days) * 86400 + i64::from(past.secs))
}

pub fn name(name: &X509NameRef) -> Map {
    let mut map = Map::new();
    for entry in name.entries() {
        let key = entry.object().nid().short_name().unwrap_or("UNDEF");
        let value = entry.data().to_string().unwrap_or_default();
        map.set(key, value);
    }
    map
}

fn hex(bytes: &[u8], between: &str) -> String {
    let all: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    all.join(between)
}

/// The serial number as hexadecimal digits.
pub fn serial(cert: &X509) -> Result<String, ErrorStack> {
    let number = cert.serial_number().to_bn()?;
    Ok(hex(&number.to_vec(), ""))
}

/// Short names and texts of the extensions, from OpenSSL's text of a certificate.
fn extension_texts(text: &str) -> Map {
    let mut map = Map::new();
    let mut key = None;
    let after = text
        .split("X509v3 extensions:\n")
        .nth(1)
        .unwrap_or_default();
    for line in after.lines() {
        let indent = line.len() - line.trim_start().len();
        match indent {
            12 => {
                let title = line.trim().trim_end_matches("critical").trim_end();
                key = Some(short_name(title.trim_end_matches(':')));
            }
            16.. => {
                let Some(key) = &key else { continue };
                let line = line.trim();
                let value = match map.str(key) {
                    Some(known) => format!("{known}\n{line}"),
                    None => line.to_owned(),
                };
                map.set(key.as_str(), value);
            }
            _ => break,
        }
    }
    map
}

/// `Basic Constraints` is `basicConstraints` to OpenSSL.
fn short_name(title: &str) -> String {
    let title = title.trim_start_matches("X509v3 ");
    match title {
        "Subject Alternative Name" => "subjectAltName".to_owned(),
        "Issuer Alternative Name" => "issuerAltName".to_owned(),
        "CRL Distribution Points" => "crlDistributionPoints".to_owned(),
        "Authority Information Access" => "authorityInfoAccess".to_owned(),
        title => {
            let mut words = title.split(' ');
            let first = words.next().unwrap_or_default().to_lowercase();
            words.fold(first, |all, word| all + word)
        }
    }
}

pub fn cert_info(call: &mut Call<'_>) -> Result {
    let cert = loaded(call)?;
    let digest = digest(call)?;
    let info = || {
        let text = String::from_utf8_lossy(&cert.to_text()?).into_owned();
        let extensions = extension_texts(&text);
        let number = cert.serial_number().to_bn()?.to_dec_str()?.to_string();
        let number = number
            .parse::<i64>()
            .map_or(Value::from(number), Value::Int);
        let mut info = map! {
            "fingerprint" => hex(&cert.digest(digest)?, ":"), "subject" => name(cert.subject_name()),
            "issuer" => name(cert.issuer_name()), "serial_number" => number,
            "not_before" => seconds(cert.not_before())?, "not_after" => seconds(cert.not_after())?,
        };
        if !extensions.is_empty() {
            if let Some(names) = extensions.str("subjectAltName") {
                let names = names
                    .split(", ")
                    .filter_map(|name| Some(name.split_once(':')?.1));
                let mut names: Vec<String> = names.map(str::to_owned).collect();
                names.sort();
                names.dedup();
                info.set("subject_alt_names", names);
            }
            info.set("extensions", extensions);
        }
        let algorithm = cert.signature_algorithm().object().nid();
        info.set("signature_algorithm", algorithm.long_name()?);
        Ok(info)
    };
    Ok(info().map_err(failed)?.into())
}

pub fn get_expiration_date(call: &mut Call<'_>) -> Result {
    let end = loaded(call)?;
    let end = seconds(end.not_after()).map_err(failed)?;
    let end = Timestamp::from_second(end)
        .map_err(|e| CallError::raised("ValueError", e.to_string()))?
        .to_zoned(jiff::tz::TimeZone::UTC);
    let format = call.text("date_format").unwrap_or_default();
    jiff::fmt::strtime::format(&format, &end)
        .map(Value::from)
        .map_err(|e| CallError::raised("ValueError", e.to_string()))
}
