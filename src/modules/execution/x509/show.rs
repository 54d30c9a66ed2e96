//! Extensions as `read_certificate` shows them (`render_extension`). Two extensions that look the same here are the same.

use super::der::{self, Reader};
use super::extension::Extension;
use super::general::{self, GeneralName};
use super::names;
use super::tables::{
    self, ACCESS, ENTRY_EXTENSIONS, EXTENSIONS, KEY_BITS, REASON_BITS, REASONS, SHOWN_USAGES,
    USAGES, name_of,
};
use halite_wire::{Map, Value, map};

/// The extensions that Salt knows, by its names.
pub fn extensions(all: &[Extension]) -> Map {
    let known = EXTENSIONS.iter().map(|e| (e.0, e.1));
    named(all, known)
}

/// Those of an entry of a revocation list.
pub fn entry_extensions(all: &[Extension]) -> Map {
    named(all, ENTRY_EXTENSIONS.into_iter())
}

fn named(all: &[Extension], known: impl Iterator<Item = (&'static str, &'static str)>) -> Map {
    let found = known.filter_map(|(name, oid)| {
        let one = all.iter().find(|e| e.oid == oid)?;
        Some((name, extension(name, one)))
    });
    found.collect()
}

/// One extension.
pub fn extension(name: &str, one: &Extension) -> Value {
    let mut shown = map! {"critical" => one.critical};
    match fields(name, &one.value) {
        Some(fields) => shown.0.extend(fields.0),
        None => shown.set("value", super::hex(&one.value)),
    }
    shown.into()
}

/// Whether two extensions of the same kind say the same.
pub fn same(one: &Extension, other: &Extension) -> bool {
    if one.critical != other.critical {
        return false;
    }
    let kind = EXTENSIONS.iter().find(|e| e.1 == one.oid).map(|e| e.0);
    let kind = kind.or_else(|| name_of(&ENTRY_EXTENSIONS, &one.oid));
    let shown = |e: &Extension| kind.and_then(|kind| fields(kind, &e.value));
    match (shown(one), shown(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.value == other.value,
    }
}

fn fields(name: &str, value: &[u8]) -> Option<Map> {
    let sequence = || der::only(value, der::SEQUENCE).map(Reader);
    let value = match name {
        "basicConstraints" => {
            let mut parts = sequence()?;
            let ca = parts.take(der::BOOLEAN).is_some_and(|b| b != [0]);
            let length = parts.take(der::INTEGER).and_then(number);
            return Some(map! {"ca" => ca, "pathlen" => length});
        }
        "keyUsage" => return Some(key_usage(der::only(value, der::BITS)?)),
        "extendedKeyUsage" => {
            let mut usages = Vec::new();
            for item in sequence()?.all()? {
                let oid = der::oid_text(item.body)?;
                let known = name_of(&USAGES[..SHOWN_USAGES], &oid);
                usages.push(Value::from(known.map_or(oid, str::to_owned)));
            }
            usages.into()
        }
        "subjectKeyIdentifier" => super::pretty(der::only(value, der::OCTETS)?).into(),
        "authorityKeyIdentifier" => {
            let mut parts = sequence()?;
            let id = parts.take(der::FIELD).filter(|id| !id.is_empty());
            let issuer = parts.take(der::PARTS | 1).map(shown_names);
            let serial = parts.take(der::FIELD | 2);
            return Some(map! {
                "keyid" => id.map(super::pretty),
                "issuer" => issuer.filter(|list| !list.is_empty()),
                "issuer_sn" => serial.map(shown_serial),
            });
        }
        "issuerAltName" | "subjectAltName" | "certificateIssuer" => {
            shown_names(der::only(value, der::SEQUENCE)?).into()
        }
        "authorityInfoAccess" => {
            let mut all = Vec::new();
            for item in sequence()?.all()? {
                let mut parts = Reader(item.body);
                let oid = parts.oid()?;
                let place = GeneralName::read(parts.item()?)?;
                // `caRepository` belongs to another extension, but has a name here, too.
                let method = name_of(&ACCESS, &oid).map_or(oid, str::to_owned);
                all.push(Value::from(map! {method => access_place(&place)}));
            }
            all.into()
        }
        "crlDistributionPoints" | "freshestCRL" => {
            let points = sequence()?.all()?;
            let points: Option<Vec<Value>> = points.iter().map(|p| point(Reader(p.body))).collect();
            points?.into()
        }
        "issuingDistributionPoint" => return issuing(sequence()?),
        "certificatePolicies" => {
            let items = sequence()?.all()?;
            let all: Option<Vec<Value>> = items.iter().map(|p| policy(Reader(p.body))).collect();
            all?.into()
        }
        "policyConstraints" => {
            let mut parts = sequence()?;
            let explicit = parts.take(der::FIELD).and_then(number);
            let mapping = parts.take(der::FIELD | 1).and_then(number);
            return Some(map! {
                "inhibitPolicyMapping" => mapping, "requireExplicitPolicy" => explicit,
            });
        }
        "inhibitAnyPolicy" | "cRLNumber" | "deltaCRLIndicator" => {
            number(der::only(value, der::INTEGER)?)?
        }
        "nameConstraints" => {
            let mut parts = sequence()?;
            let permitted = subtrees(parts.take(der::PARTS).unwrap_or_default())?;
            let excluded = subtrees(parts.take(der::PARTS | 1).unwrap_or_default())?;
            return Some(map! {"excluded" => excluded, "permitted" => permitted});
        }
        "noCheck" => true.into(),
        "tlsfeature" => {
            let features = sequence()?.all()?;
            let name = |item: &der::Tlv<'_>| match item.body {
                [5] => Some(Value::from("status_request")),
                [17] => Some(Value::from("status_request_v2")),
                _ => None,
            };
            let features: Option<Vec<Value>> = features.iter().map(name).collect();
            features?.into()
        }
        "CRLReason" => {
            let code = der::only(value, der::ENUMERATED)?;
            let known = REASONS.iter().find(|r| code == [r.1])?;
            known.0.into()
        }
        "invalidityDate" => der::show_time(Reader(value).time()?).into(),
        _ => return None,
    };
    Some(map! {"value" => value})
}

fn access_place(place: &GeneralName) -> String {
    // Stock shows the value only, which it does not recognize as a name.
    match place {
        GeneralName::Mail(text) | GeneralName::Dns(text) | GeneralName::Uri(text) => text.clone(),
        GeneralName::Directory(name) => format!("<Name({})>", name.show()),
        GeneralName::Registered(oid) => {
            format!("<ObjectIdentifier(oid={oid}, name={})>", tables::UNKNOWN)
        }
        GeneralName::Ip(bytes) => general::show_ip(bytes, false),
        GeneralName::Other(_) => place.show(),
    }
}

/// A number, which may be a large one.
fn number(body: &[u8]) -> Option<Value> {
    let zeros = body.iter().take_while(|b| **b == 0).count();
    let digits = &body[zeros..];
    if digits.len() <= 8 && body.first().is_some_and(|b| b & 0x80 == 0) {
        let number = digits.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
        return Some(number.into());
    }
    // No number of our values: its digits as text.
    (!body.is_empty()).then(|| format!("0x{}", super::hex(body)).into())
}

fn shown_serial(body: &[u8]) -> String {
    super::pretty_number(body)
}

fn shown_names(body: &[u8]) -> Vec<Value> {
    let names = general::read_all(body).unwrap_or_default();
    names.iter().map(|n| n.show().into()).collect()
}

fn key_usage(body: &[u8]) -> Map {
    let bits = der::read_bits(body);
    let set = |name: &str| {
        let at = KEY_BITS.iter().position(|b| *b == name);
        at.and_then(|at| bits.get(at)).copied().unwrap_or_default()
    };
    let agrees = set("keyAgreement");
    map! {
        "cRLSign" => set("cRLSign"),
        "dataEncipherment" => set("dataEncipherment"),
        "decipherOnly" => agrees && set("decipherOnly"),
        "digitalSignature" => set("digitalSignature"),
        "encipherOnly" => agrees && set("encipherOnly"),
        "keyAgreement" => agrees,
        "keyCertSign" => set("keyCertSign"),
        "keyEncipherment" => set("keyEncipherment"),
        "nonRepudiation" => set("nonRepudiation"),
    }
}

/// Names and the relative name of a field `distributionPoint`.
fn place(field: Option<&[u8]>) -> Option<(Vec<Value>, Value)> {
    let Some(item) = field.map(|body| Reader(body).item()) else {
        return Some((Vec::new(), Value::Nil));
    };
    let item = item?;
    if item.tag == der::PARTS {
        Some((shown_names(item.body), Value::Nil))
    } else {
        let part = names::read_rdn(item.body)?;
        Some((Vec::new(), names::show_rdn(&part).into()))
    }
}

fn reasons(field: Option<&[u8]>) -> Vec<Value> {
    let bits = der::read_bits(field.unwrap_or_default());
    let named = REASON_BITS.iter().zip(bits.iter().skip(1));
    let mut names: Vec<&str> = named
        .filter(|(_, set)| **set)
        .map(|(name, _)| *name)
        .collect();
    names.sort_unstable();
    names.into_iter().map(Value::from).collect()
}

fn point(mut parts: Reader<'_>) -> Option<Value> {
    let (full, relative) = place(parts.take(der::PARTS))?;
    let why = reasons(parts.take(der::FIELD | 1));
    let issuer = shown_names(parts.take(der::PARTS | 2).unwrap_or_default());
    let shown = map! {
        "crlissuer" => issuer, "fullname" => full, "reasons" => why, "relativename" => relative,
    };
    Some(shown.into())
}

fn issuing(mut parts: Reader<'_>) -> Option<Map> {
    let (full, relative) = place(parts.take(der::PARTS))?;
    let set = |number: u8, parts: &mut Reader<'_>| {
        parts.take(der::FIELD | number).is_some_and(|b| b != [0])
    };
    let user = set(1, &mut parts);
    let ca = set(2, &mut parts);
    let why = reasons(parts.take(der::FIELD | 3));
    let indirect = set(4, &mut parts);
    let attribute = set(5, &mut parts);
    Some(map! {
        "fullname" => full, "onysomereasons" => why, "relativename" => relative, "onlyuser" => user, "onlyCA" => ca,
        "onlyAA" => attribute, "indirectCRL" => indirect,
    })
}

fn policy(mut parts: Reader<'_>) -> Option<Value> {
    let oid = parts.oid()?;
    let mut shown = Vec::new();
    let items = parts.inside(der::SEQUENCE).map(Reader::all);
    for item in items.unwrap_or(Some(Vec::new()))? {
        let mut parts = Reader(item.body);
        parts.oid()?;
        let value = parts.item()?;
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        if value.tag != der::SEQUENCE {
            shown.push(map! {"practice_statement" => text(value.body)}.into());
            continue;
        }
        let mut notice = Reader(value.body);
        let (mut organization, mut numbers) = (Value::Nil, Value::Nil);
        if let Some(mut reference) = notice.inside(der::SEQUENCE) {
            organization = text(reference.item()?.body).into();
            let list = reference.inside(der::SEQUENCE)?.all()?;
            let list: Option<Vec<Value>> = list.iter().map(|n| number(n.body)).collect();
            numbers = list?.into();
        }
        let explicit = notice.item().map(|item| text(item.body));
        // The misspelled key is stock's.
        shown.push(Value::from(map! {
            "organizataion" => organization, "notice_numbers" => numbers, "explicit_text" => explicit,
        }));
    }
    Some(map! {oid => shown}.into())
}

fn subtrees(body: &[u8]) -> Option<Vec<Value>> {
    let mut names = Vec::new();
    for item in Reader(body).all()? {
        let name = GeneralName::read(Reader(item.body).item()?)?;
        names.push(name.show().into());
    }
    Some(names)
}
