//! Certificate signing requests.

use super::der::{self, Reader};
use super::describe::{self, Parties};
use super::extension::{self, Extension};
use super::keys::{self, PublicKey};
use super::names::Name;
use super::source::{self, LoadError, Loaded};
use super::tables::{CERT_EXTENSIONS, CSR_FORBIDDEN};
use super::values::subject;
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};
use openssl::pkey::{PKey, Private};

/// The attribute that has the extensions.
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";

/// A request.
#[derive(Clone)]
pub struct Csr {
    /// Its encoding.
    pub der: Vec<u8>,
    /// The algorithm of its signature.
    pub signature: String,
    /// Who asks.
    pub subject: Name,
    /// The key that the certificate is for.
    pub key: PublicKey,
    /// The extensions that it is to have.
    pub extensions: Vec<Extension>,
}

impl Csr {
    /// From its encoding, with its version.
    fn read(der: &[u8]) -> Option<(Csr, u8)> {
        let mut outer = Reader(der::only(der, der::SEQUENCE)?);
        let mut info = outer.inside(der::SEQUENCE)?;
        let signature = outer.inside(der::SEQUENCE)?.oid()?;
        outer.take(der::BITS)?;
        let version = *info.take(der::INTEGER)?.last()?;
        let subject = Name::read(info.item()?.whole)?;
        let key = PublicKey::read(info.item()?.whole)?;
        let mut extensions = Vec::new();
        let attributes = info
            .inside(der::PARTS)
            .map_or(Some(Vec::new()), Reader::all)?;
        for item in attributes {
            let mut parts = Reader(item.body);
            if parts.oid()? == EXTENSION_REQUEST {
                extensions = extension::read_list(parts.take(der::SET)?)?;
            }
        }
        let csr = Csr {
            der: der.to_vec(),
            signature,
            subject,
            key,
            extensions,
        };
        Some((csr, version))
    }

    /// Loads a request (`load_csr`), with the encoding it had.
    ///
    /// # Errors
    /// It is none.
    pub fn load(from: &Value) -> Loaded<(Csr, &'static str)> {
        let bytes = source::bytes(from)?;
        let (der, encoding, fault) = if source::is_pem(&bytes) {
            let fault =
                LoadError::Format("Could not load PEM-encoded certificate signing request.");
            let pems = source::pems(&bytes);
            let pem = pems.into_iter().find(|p| {
                ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"].contains(&p.label.as_str())
            });
            (pem.and_then(|p| p.der), "pem", fault)
        } else {
            let fault =
                LoadError::Format("Could not load DER-encoded certificate signing request.");
            (Some(bytes), "der", fault)
        };
        let (csr, version) = der.as_deref().and_then(Csr::read).ok_or(fault)?;
        if version == 0 {
            Ok((csr, encoding))
        } else {
            Err(LoadError::Version(format!(
                "{version} is not a valid CSR version"
            )))
        }
    }

    /// Encodes it.
    pub fn encode(&self, encoding: &str) -> Vec<u8> {
        if encoding == "pem" {
            source::to_pem("CERTIFICATE REQUEST", &self.der).into_bytes()
        } else {
            self.der.clone()
        }
    }
}

/// A request that is not signed yet.
pub struct Draft {
    /// Who asks.
    pub subject: Name,
    /// The extensions.
    pub extensions: Vec<Extension>,
    /// The key that signs it and that the certificate is for.
    pub key: PKey<Private>,
}

/// Makes a draft from arguments (`build_csr`).
///
/// # Errors
/// Arguments are wrong or missing.
pub fn draft(args: &Map) -> Result<Draft> {
    let pass = args
        .get("private_key_passphrase")
        .filter(|v| !v.is_nil())
        .map(python::str);
    let from = args.get("private_key").unwrap_or(&Value::Nil);
    let key = keys::load(from, pass.as_deref())?.key;
    let public = PublicKey::of(&key)?;
    let subject = subject(args)?;
    let parties = Parties {
        subject: Some(&public),
        ..Parties::default()
    };
    let mut extensions = Vec::new();
    for name in CERT_EXTENSIONS
        .iter()
        .filter(|name| !CSR_FORBIDDEN.contains(name))
    {
        if let Some(given) = args.get(name) {
            extensions.push(describe::create(name, given, &parties)?);
        }
    }
    Ok(Draft {
        subject,
        extensions,
        key,
    })
}

impl Draft {
    /// The request.
    ///
    /// # Errors
    /// The digest cannot be used.
    pub fn sign(&self, digest: &str) -> Result<Csr> {
        let mut attributes = Vec::new();
        if !self.extensions.is_empty() {
            let list = extension::field(der::SET, &self.extensions);
            attributes.push(der::seq([der::oid(EXTENSION_REQUEST), list]));
        }
        let content = der::seq([
            der::int(0),
            self.subject.der.clone(),
            PublicKey::of(&self.key)?.spki,
            der::parts(der::PARTS, attributes),
        ]);
        let der = keys::signed(&self.key, digest, content)?;
        let read = Csr::read(&der).map(|(csr, _)| csr);
        read.ok_or_else(|| CallError::raised("ValueError", "error parsing asn1 value"))
    }
}
