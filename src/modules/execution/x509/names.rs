//! Distinguished names (`_get_dn`, `_get_rdn` of `salt/utils/x509.py`; RFC 4514 as `cryptography` reads and writes it).

use super::der::{self, Reader};
use super::tables::{ATTRIBUTES, RFC4514, name_of, oid_of};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// Its type.
    pub oid: String,
    /// Its value; hexadecimal with a hash mark if it is no text.
    pub value: String,
    text: bool,
}

/// A name: the attributes of each of its parts, in the order of the encoding.
#[derive(Clone, Debug)]
pub struct Name {
    /// The parts.
    pub parts: Vec<Vec<Attribute>>,
    /// Its encoding.
    pub der: Vec<u8>,
}

impl PartialEq for Name {
    /// Neither the types of strings nor the order inside of a part matter.
    fn eq(&self, other: &Name) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Name {
    /// The name of these parts.
    fn new(parts: Vec<Vec<Attribute>>) -> Name {
        let der = der::seq(parts.iter().map(|part| rdn_der(der::SET, part)));
        Name { parts, der }
    }

    /// From its encoding.
    pub fn read(der: &[u8]) -> Option<Name> {
        let parts = Reader(der::only(der, der::SEQUENCE)?).all()?;
        let parts: Option<Vec<_>> = parts
            .iter()
            .map(|part| {
                if part.tag == der::SET {
                    read_rdn(part.body)
                } else {
                    None
                }
            })
            .collect();
        Some(Name {
            parts: parts?,
            der: der.to_vec(),
        })
    }

    fn sorted(&self) -> Vec<Vec<Attribute>> {
        let mut parts = self.parts.clone();
        parts.iter_mut().for_each(|part| part.sort());
        parts
    }

    /// The first value of an attribute by Salt's name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let oid = oid_of(&ATTRIBUTES, name)?;
        let mut all = self.parts.iter().flatten();
        all.find(|a| a.oid == oid).map(|a| a.value.as_str())
    }

    /// The attributes that Salt knows, the first of each.
    pub fn known(&self) -> Map {
        let named = ATTRIBUTES.iter();
        named
            .filter_map(|(n, _)| Some((*n, self.get(n)?)))
            .collect()
    }

    /// The form of RFC 4514.
    pub fn show(&self) -> String {
        let parts: Vec<String> = self.parts.iter().rev().map(|p| show_rdn(p)).collect();
        parts.join(",")
    }
}

/// One part as text.
pub fn show_rdn(part: &[Attribute]) -> String {
    let shown: Vec<String> = part
        .iter()
        .map(|a| {
            let name = name_of(&RFC4514, &a.oid).unwrap_or(&a.oid);
            if a.text {
                format!("{name}={}", escaped(&a.value))
            } else {
                format!("{name}={}", a.value)
            }
        })
        .collect();
    shown.join("+")
}

fn escaped(value: &str) -> String {
    let mut out = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        let edge = (at == 0 && (c == '#' || (c == ' ' && last > 0))) || (at == last && c == ' ');
        match c {
            '\0' => out.push_str("\\00"),
            '\\' | '"' | '+' | ',' | ';' | '<' | '>' => out.extend(['\\', c]),
            c if edge => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// The encoding of one part.
pub fn rdn_der(tag: u8, part: &[Attribute]) -> Vec<u8> {
    let one = |a: &Attribute| {
        let tag = match a.oid.as_str() {
            "2.5.4.6" | "2.5.4.5" | "2.5.4.46" | "1.3.6.1.4.1.311.60.2.1.3" => der::PRINTABLE,
            "1.2.840.113549.1.9.1" | "0.9.2342.19200300.100.1.25" => der::IA5,
            _ => der::UTF8,
        };
        der::seq([der::oid(&a.oid), der::tlv(tag, a.value.as_bytes())])
    };
    der::set_of(tag, part.iter().map(one).collect())
}

/// One part from the content of its set.
pub fn read_rdn(body: &[u8]) -> Option<Vec<Attribute>> {
    let attributes = Reader(body).all()?.into_iter().map(|item| {
        let mut parts = Reader(item.body);
        let oid = parts.oid()?;
        let value = parts.item()?;
        let wide = |size: usize| {
            let units = value.body.chunks(size);
            units.map(|c| c.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)))
        };
        let text = match value.tag {
            // Numeric, printable, teletex, IA5, visible and UTF-8 strings.
            0x0c | 0x12 | 0x13 | 0x14 | 0x16 | 0x1a => String::from_utf8(value.body.to_vec()).ok(),
            0x1e => {
                let units: Vec<u16> = wide(2).map(|n| n as u16).collect();
                String::from_utf16(&units).ok()
            }
            0x1c => wide(4).map(char::from_u32).collect(),
            _ => None,
        };
        Some(Attribute {
            oid,
            text: text.is_some(),
            value: text.unwrap_or_else(|| format!("#{}", super::hex(value.body))),
        })
    });
    attributes.collect()
}

/// An attribute with the checks of `cryptography`.
fn attribute(oid: &str, value: &Value) -> Result<Attribute> {
    let Some(text) = value.as_str() else {
        return Err(CallError::Type("value argument must be a str".to_owned()));
    };
    let (least, most) = match oid {
        "2.5.4.6" | "1.3.6.1.4.1.311.60.2.1.3" => (2, 2),
        "2.5.4.3" => (1, 64),
        _ => (0, usize::MAX),
    };
    if !(least..=most).contains(&text.len()) {
        let length = text.len();
        return Err(CallError::raised(
            "ValueError",
            format!("Attribute's length must be >= {least} and <= {most}, but it was {length}"),
        ));
    }
    Ok(Attribute {
        oid: oid.to_owned(),
        value: text.to_owned(),
        text: true,
    })
}

/// A name given as text, as a list of parts or as a map.
///
/// # Errors
/// It is none.
pub fn parse(value: &Value) -> Result<Name> {
    match value {
        Value::Str(text) => {
            let mut parts = rfc4514(text).ok_or_else(|| {
                CallError::Command("Failed parsing rfc4514 dirName string".to_owned())
            })?;
            parts.reverse();
            Ok(Name::new(parts))
        }
        Value::Array(list) => {
            let parts: Result<Vec<_>> = list.iter().map(parse_rdn).collect();
            Ok(Name::new(parts?))
        }
        Value::Map(map) => {
            let given = ATTRIBUTES
                .iter()
                .filter_map(|(n, oid)| Some((oid, map.get(n)?)));
            let parts: Result<Vec<_>> =
                given.map(|(oid, v)| Ok(vec![attribute(oid, v)?])).collect();
            Ok(Name::new(parts?))
        }
        _ => Err(CallError::Invocation(
            "Need string, list or dict to parse distinguished names".to_owned(),
        )),
    }
}

/// One part of a name given as text.
///
/// # Errors
/// It is none, or more than one.
pub fn parse_rdn(value: &Value) -> Result<Vec<Attribute>> {
    let text = python::str(value);
    match rfc4514(&text) {
        None => Err(CallError::Command(format!(
            "Failed parsing rdn string: {text}"
        ))),
        Some(parts) if parts.len() > 1 => Err(CallError::Invocation(
            "Specified string is not a Relative Distinguished Name, but a Distinguished Name."
                .to_owned(),
        )),
        Some(parts) => parts
            .into_iter()
            .next()
            .ok_or_else(|| CallError::raised("IndexError", "list index out of range")),
    }
}

/// The parts in the order of the text.
fn rfc4514(text: &str) -> Option<Vec<Vec<Attribute>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    if rest.is_empty() {
        return Some(parts);
    }
    let mut part = Vec::new();
    loop {
        let one;
        (one, rest) = read_attribute(rest)?;
        if part.contains(&one) {
            return None;
        }
        part.push(one);
        match rest.chars().next() {
            Some('+') => {}
            Some(',') => parts.push(std::mem::take(&mut part)),
            Some(_) => return None,
            None => {
                parts.push(part);
                return Some(parts);
            }
        }
        rest = &rest[1..];
    }
}

fn read_attribute(text: &str) -> Option<(Attribute, &str)> {
    let (kind, rest) = text.split_once('=')?;
    let number = |n: &str| {
        let digits = !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        digits && (n == "0" || !n.starts_with('0'))
    };
    let oid = if kind.contains('.') && kind.split('.').all(number) {
        der::oid_body(kind)?;
        kind
    } else {
        oid_of(&RFC4514, kind)?
    };
    let (value, rest) = if let Some(digits) = rest.strip_prefix('#') {
        let end = digits.find(|c: char| !c.is_ascii_alphanumeric());
        let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
        let bytes = super::unhex(digits).filter(|b| !b.is_empty())?;
        (String::from_utf8(bytes).ok()?, rest)
    } else {
        read_value(rest)?
    };
    let one = attribute(oid, &value.into()).ok()?;
    Some((one, rest))
}

/// A value up to the first character that ends it.
fn read_value(text: &str) -> Option<(String, &str)> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut blank = false;
    while let Some(c) = text[at..].chars().next() {
        let first = at == 0;
        match c {
            '\\' => {
                let next = text[at + 1..].chars().next()?;
                if "\\ #=\"+,;<>".contains(next) {
                    bytes.push(next as u8);
                    at += 2;
                } else {
                    bytes.extend(super::unhex(text.get(at + 1..at + 3)?)?);
                    at += 3;
                }
                blank = false;
                continue;
            }
            '"' | '+' | ',' | ';' | '<' | '>' | '\0' => break,
            ' ' | '#' if first => break,
            c => {
                bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                blank = c == ' ';
                at += c.len_utf8();
            }
        }
    }
    if blank {
        return None;
    }
    Some((String::from_utf8(bytes).ok()?, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for text in [
            "",
            "CN=a",
            "CN=example.com,O=Example\\, Inc,C=US",
            "CN=a+O=b,1.2.3.4=x",
            "O=\\#a\\ ",
            "O=\\\"\\+\\<\\>\\;\\\\",
            "O=\u{e4} b",
            "O=",
        ] {
            let name = parse(&text.into()).unwrap();
            assert_eq!(name.show(), text);
            assert_eq!(Name::read(&name.der).unwrap(), name);
        }
        assert_eq!(parse(&"O=\\c3\\a4".into()).unwrap().show(), "O=\u{e4}");
        for bad in [
            "CN",
            "X=a",
            "CN=a, O=b",
            "CN=a ",
            " CN=a",
            "CN=",
            "C=USA",
            "O=a,",
            "O=\\",
        ] {
            assert!(parse(&bad.into()).is_err(), "{bad}");
        }
    }
}
