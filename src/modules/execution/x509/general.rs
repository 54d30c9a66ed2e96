//! General names: of hosts, mail addresses, URLs and whatever else an extension names.

use super::der::{self, Reader, Tlv};
use super::names::{self, Name};
use super::{idna, tables};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::network::ipaddress::{Network, address, show};
use crate::execution::python;
use halite_wire::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One name.
#[derive(Clone, Debug)]
pub enum GeneralName {
    /// A mail address, or a domain of constraints.
    Mail(String),
    /// A host.
    Dns(String),
    /// A directory.
    Directory(Name),
    /// A URL.
    Uri(String),
    /// An address, or one with a mask.
    Ip(Vec<u8>),
    /// An object identifier.
    Registered(String),
    /// Another kind, with its encoding.
    Other(Vec<u8>),
}

impl GeneralName {
    /// Its encoding.
    pub fn der(&self) -> Vec<u8> {
        match self {
            GeneralName::Mail(text) => der::tlv(der::FIELD | 1, text.as_bytes()),
            GeneralName::Dns(text) => der::tlv(der::FIELD | 2, text.as_bytes()),
            GeneralName::Directory(name) => der::tlv(der::PARTS | 4, &name.der),
            GeneralName::Uri(text) => der::tlv(der::FIELD | 6, text.as_bytes()),
            GeneralName::Ip(bytes) => der::tlv(der::FIELD | 7, bytes),
            GeneralName::Registered(oid) => {
                der::tlv(der::FIELD | 8, &der::oid_body(oid).unwrap_or_default())
            }
            GeneralName::Other(der) => der.clone(),
        }
    }

    /// From its encoding.
    pub fn read(item: Tlv<'_>) -> Option<GeneralName> {
        let text = || String::from_utf8(item.body.to_vec()).ok();
        Some(match item.tag {
            0x81 => GeneralName::Mail(text()?),
            0x82 => GeneralName::Dns(text()?),
            0x86 => GeneralName::Uri(text()?),
            0x87 => GeneralName::Ip(item.body.to_vec()),
            0x88 => GeneralName::Registered(der::oid_text(item.body)?),
            0xa4 => GeneralName::Directory(Name::read(item.body)?),
            _ => GeneralName::Other(item.whole.to_vec()),
        })
    }

    /// As OpenSSL's configuration has it.
    pub fn show(&self) -> String {
        match self {
            GeneralName::Mail(text) => format!("mail:{text}"),
            GeneralName::Dns(text) => format!("DNS:{text}"),
            GeneralName::Directory(name) => format!("dirName:{}", name.show()),
            GeneralName::Uri(text) => format!("URI:{text}"),
            GeneralName::Ip(bytes) => format!("IP:{}", show_ip(bytes, true)),
            GeneralName::Registered(oid) => format!("RID:{oid}"),
            GeneralName::Other(der) => show_other(der).unwrap_or_else(|| super::hex(der)),
        }
    }
}

/// An address or a network; with all its digits if it is `exploded`.
pub fn show_ip(bytes: &[u8], exploded: bool) -> String {
    let v6 = |bytes: [u8; 16]| {
        if !exploded {
            return show(Ipv6Addr::from(bytes).into());
        }
        let words = Ipv6Addr::from(bytes).segments();
        let words: Vec<String> = words.iter().map(|w| format!("{w:04x}")).collect();
        words.join(":")
    };
    let one = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Ipv4Addr::from(v4).to_string(),
        Err(_) => <[u8; 16]>::try_from(bytes).map_or_else(|_| super::hex(bytes), v6),
    };
    if bytes.len() == 8 || bytes.len() == 32 {
        let (first, mask) = bytes.split_at(bytes.len() / 2);
        let prefix: u32 = mask.iter().map(|b| b.count_ones()).sum();
        format!("{}/{prefix}", one(first))
    } else {
        one(bytes)
    }
}

fn show_other(der: &[u8]) -> Option<String> {
    let mut parts = Reader(der::only(der, der::PARTS)?);
    let oid = parts.oid()?;
    let value = parts.take(der::PARTS)?;
    Some(format!(
        "<OtherName(type_id=<ObjectIdentifier(oid={oid}, name={})>, value={})>",
        tables::UNKNOWN,
        python::repr(&Value::Bytes(value.to_vec()))
    ))
}

/// Names one after the other.
pub fn encode(tag: u8, names: &[GeneralName]) -> Vec<u8> {
    der::parts(tag, names.iter().map(GeneralName::der))
}

/// Names from the content of a value.
pub fn read_all(body: &[u8]) -> Option<Vec<GeneralName>> {
    Reader(body)
        .all()?
        .into_iter()
        .map(GeneralName::read)
        .collect()
}

/// Names from pairs of kind and value (`_parse_general_names`).
///
/// # Errors
/// A kind is unknown, or a value is wrong.
pub fn parse(pairs: &[(String, Value)]) -> Result<Vec<GeneralName>> {
    pairs.iter().map(|(kind, value)| one(kind, value)).collect()
}

/// A name from its text (`kind:value`).
///
/// # Errors
/// As [`parse`].
pub fn parse_one(text: &str) -> Result<GeneralName> {
    let (kind, value) = pair(text)?;
    one(&kind, &value)
}

/// Kind and value of a text.
///
/// # Errors
/// It has no colon.
pub fn pair(text: &str) -> Result<(String, Value)> {
    match text.split_once(':') {
        Some((kind, value)) => Ok((kind.to_owned(), value.into())),
        None => Err(CallError::raised(
            "ValueError",
            "not enough values to unpack (expected 2, got 1)",
        )),
    }
}

fn one(kind: &str, value: &Value) -> Result<GeneralName> {
    let kind = kind.to_lowercase();
    match kind.as_str() {
        "dirname" => Ok(GeneralName::Directory(names::parse(value)?)),
        "rid" => Ok(GeneralName::Registered(checked_oid(value)?)),
        "ip" => Ok(GeneralName::Ip(ip(value)?)),
        "email" => mail(&text(value)?).map(GeneralName::Mail),
        "uri" => uri(&text(value)?).map(GeneralName::Uri),
        "dns" => domain(&text(value)?, true, true).map(GeneralName::Dns),
        "othername" => Err(CallError::Invocation(
            "otherName is currently not implemented".to_owned(),
        )),
        _ => Err(CallError::Command(format!(
            "GeneralName type {kind} is invalid"
        ))),
    }
}

fn text(value: &Value) -> Result<String> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        other => Err(CallError::Invocation(format!(
            "Expected string value, got {}: `{}`",
            python::type_name(other),
            python::str(other)
        ))),
    }
}

/// An object identifier that was given (`_get_oid`).
///
/// # Errors
/// It is none.
pub fn checked_oid(value: &Value) -> Result<String> {
    let text = python::str(value);
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !text.starts_with(['0', '1', '2']) || !plain {
        return Err(CallError::Command(format!("Invalid oid: {text}")));
    }
    match der::oid_body(&text) {
        Some(_) => Ok(text),
        None => Err(CallError::raised(
            "ValueError",
            format!("Invalid object identifier: {text}"),
        )),
    }
}

fn ip(value: &Value) -> Result<Vec<u8>> {
    let bytes = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    if let Ok(ip) = address(value) {
        return Ok(bytes(ip));
    }
    match Network::parse(value, true) {
        Ok(network) => Ok([bytes(network.first), bytes(network.netmask())].concat()),
        Err(_) => Err(CallError::Command(format!(
            "Provided value {} does not seem to be an IP address or network range.",
            python::str(value)
        ))),
    }
}

fn mail(text: &str) -> Result<String> {
    let whole = match text.rsplit_once('@') {
        Some((user, host)) => format!("{user}@{}", domain(host, false, false)?),
        None => domain(text, true, false)?,
    };
    if whole.is_ascii() && !whole.contains('<') && !whole.is_empty() {
        Ok(whole)
    } else {
        Err(CallError::Command("Invalid rfc822name value".to_owned()))
    }
}

fn uri(text: &str) -> Result<String> {
    let url = text.split_once("://");
    let valid = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let whole = match url {
        Some((scheme, rest)) if valid(scheme) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (host, tail) = rest.split_at(end);
            let host = if host.is_empty() {
                String::new()
            } else {
                domain(host, false, false)?
            };
            // Python drops the mark of an empty fragment and of an empty query.
            let tail = tail.strip_suffix('#').unwrap_or(tail);
            let tail = tail.strip_suffix('?').unwrap_or(tail);
            format!("{}://{host}{tail}", scheme.to_lowercase())
        }
        _ => text.to_owned(),
    };
    if whole.is_ascii() {
        Ok(whole)
    } else {
        Err(CallError::Command(
            "URI values should be passed as an A-label string. This means unicode characters should be encoded via a \
             library like idna."
                .to_owned(),
        ))
    }
}

fn domain(text: &str, may_lead: bool, may_wild: bool) -> Result<String> {
    let fail = |text: &str| Err(CallError::Command(text.to_owned()));
    let leads = text.starts_with('.');
    if leads && !may_lead {
        return fail("Leading dots are not allowed in this context");
    }
    let mut rest = if leads {
        text.trim_start_matches('.')
    } else {
        text
    };
    let wild = rest.strip_prefix("*.");
    if let Some(inner) = wild {
        if !may_wild {
            return fail("Wildcards are not allowed in this context");
        }
        if leads {
            return fail("Wildcards and leading dots cannot be present together");
        }
        if inner.starts_with('.') {
            return fail("Empty label");
        }
        rest = inner;
    }
    let encoded = idna::encode(rest)?;
    Ok(match (leads, wild) {
        (true, _) => format!(".{encoded}"),
        (false, Some(_)) => format!("*.{encoded}"),
        (false, None) => encoded,
    })
}
