//! Extensions of certificates, requests and lists.

use super::der::{self, Reader};
use super::tables::EXTENSIONS;

/// One extension.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// What it is.
    pub oid: String,
    /// Whether a reader has to understand it.
    pub critical: bool,
    /// The encoding of its value.
    pub value: Vec<u8>,
}

impl Extension {
    /// Its encoding.
    pub fn der(&self) -> Vec<u8> {
        der::seq([
            der::oid(&self.oid),
            der::boolean(der::BOOLEAN, self.critical),
            der::tlv(der::OCTETS, &self.value),
        ])
    }

    /// From its encoding.
    pub fn read(body: &[u8]) -> Option<Extension> {
        let mut parts = Reader(body);
        let oid = parts.oid()?;
        let critical = parts.take(der::BOOLEAN).is_some_and(|b| b != [0]);
        let value = parts.take(der::OCTETS)?.to_vec();
        Some(Extension {
            oid,
            critical,
            value,
        })
    }
}

/// The extension of a kind, by Salt's name.
pub fn find<'e>(all: &'e [Extension], name: &str) -> Option<&'e Extension> {
    let oid = EXTENSIONS.iter().find(|e| e.0 == name)?.1;
    all.iter().find(|e| e.oid == oid)
}

/// Extensions from their list.
pub fn read_list(der: &[u8]) -> Option<Vec<Extension>> {
    let items = Reader(der::only(der, der::SEQUENCE)?).all()?;
    items
        .iter()
        .map(|item| Extension::read(item.body))
        .collect()
}

/// A list of extensions under a field's tag; nothing if there is none.
pub fn field(tag: u8, all: &[Extension]) -> Vec<u8> {
    if all.is_empty() {
        return Vec::new();
    }
    der::tlv(tag, &der::seq(all.iter().map(Extension::der)))
}
