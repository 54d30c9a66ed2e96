//! Certificate revocation lists.

use super::cert::{self, Cert};
use super::der::{self, Reader, unsigned};
use super::describe::{self, Parties};
use super::extension::{self, Extension};
use super::keys::{self, PublicKey};
use super::names::Name;
use super::source::{self, LoadError, Loaded};
use super::tables::{CRL_EXTENSIONS, ENTRY_EXTENSIONS, oid_of};
use super::values::{in_days, now, serial_number, time_under};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};
use openssl::pkey::{PKey, Private};
use openssl::x509::X509Crl;

/// A revoked certificate.
#[derive(Clone)]
pub struct Entry {
    /// Its number.
    pub serial: Vec<u8>,
    /// Since when it is not valid, in seconds.
    pub date: i64,
    /// Why, and what else is known.
    pub extensions: Vec<Extension>,
}

/// A list.
#[derive(Clone)]
pub struct Crl {
    /// Its encoding.
    pub der: Vec<u8>,
    /// The algorithm of its signature.
    pub signature: String,
    /// Who has made it.
    pub issuer: Name,
    /// When it was made.
    pub last_update: i64,
    /// When there will be a new one.
    pub next_update: i64,
    /// What is revoked.
    pub entries: Vec<Entry>,
    /// Its extensions.
    pub extensions: Vec<Extension>,
}

impl Crl {
    fn read(der: &[u8]) -> Option<Crl> {
        let mut outer = Reader(der::only(der, der::SEQUENCE)?);
        let mut tbs = outer.inside(der::SEQUENCE)?;
        let signature = outer.inside(der::SEQUENCE)?.oid()?;
        outer.take(der::BITS)?;
        tbs.take(der::INTEGER);
        tbs.take(der::SEQUENCE)?;
        let issuer = Name::read(tbs.item()?.whole)?;
        let last_update = tbs.time()?;
        let next_update = match tbs.peek() {
            Some(der::UTC_TIME | der::GENERAL_TIME) => tbs.time()?,
            _ => i64::MAX,
        };
        let mut entries = Vec::new();
        for item in tbs
            .inside(der::SEQUENCE)
            .map_or(Some(Vec::new()), Reader::all)?
        {
            let mut parts = Reader(item.body);
            entries.push(Entry {
                serial: unsigned(parts.take(der::INTEGER)?),
                date: parts.time()?,
                extensions: if parts.0.is_empty() {
                    Vec::new()
                } else {
                    extension::read_list(parts.0)?
                },
            });
        }
        let extensions = match tbs.inside(der::PARTS) {
            Some(explicit) => extension::read_list(explicit.0)?,
            None => Vec::new(),
        };
        Some(Crl {
            der: der.to_vec(),
            signature,
            issuer,
            last_update,
            next_update,
            entries,
            extensions,
        })
    }

    /// Loads a list (`load_crl`), with the encoding it had.
    ///
    /// # Errors
    /// It is none.
    pub fn load(from: &Value) -> Loaded<(Crl, &'static str)> {
        let bytes = source::bytes(from)?;
        let (der, encoding, fault) = if source::is_pem(&bytes) {
            let fault =
                LoadError::Format("Could not load PEM-encoded certificate revocation list.");
            let pem = source::pems(&bytes)
                .into_iter()
                .find(|p| p.label == "X509 CRL");
            (pem.and_then(|p| p.der), "pem", fault)
        } else {
            let fault =
                LoadError::Format("Could not load DER-encoded certificate revocation list.");
            (Some(bytes), "der", fault)
        };
        let crl = der.as_deref().and_then(Crl::read).ok_or(fault)?;
        Ok((crl, encoding))
    }

    /// Encodes it.
    pub fn encode(&self, encoding: &str) -> Vec<u8> {
        if encoding == "pem" {
            source::to_pem("X509 CRL", &self.der).into_bytes()
        } else {
            self.der.clone()
        }
    }

    /// Whether a key has signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        X509Crl::from_der(&self.der).is_ok_and(|crl| crl.verify(&key.key).unwrap_or(false))
    }
}

/// A list that is not signed yet.
pub struct Draft {
    /// Who makes it; nobody if there is no certificate.
    pub issuer: Option<Name>,
    /// When there will be a new one.
    pub next_update: i64,
    /// What is revoked.
    pub entries: Vec<Entry>,
    /// Its extensions.
    pub extensions: Vec<Extension>,
    /// The key that signs it.
    pub key: PKey<Private>,
}

/// `revoked` in its present form; older ones are accepted (`create_crl`, `crl_managed`).
pub fn revocations(given: &Value) -> Vec<Map> {
    let mut all = Vec::new();
    for one in given.as_array().unwrap_or_default() {
        let Value::Map(map) = one else { continue };
        let mut parsed = match map.0.as_slice() {
            [(_, Value::Array(list))] => {
                let parts = list.iter().filter_map(Value::as_map);
                let mut parsed = Map::new();
                for (key, value) in parts.flat_map(Map::iter) {
                    parsed.set(python::str(key), value.clone());
                }
                parsed
            }
            _ => map.clone(),
        };
        if let Some(reason) = parsed.remove("reason") {
            let mut extensions = parsed
                .remove("extensions")
                .and_then(Value::into_map)
                .unwrap_or_default();
            extensions.set("CRLReason", reason);
            parsed.set("extensions", extensions);
        }
        all.push(parsed);
    }
    all
}

/// Makes a draft from arguments (`build_crl`).
///
/// # Errors
/// Arguments are wrong or missing.
pub fn draft(args: &Map, revoked: &[Map]) -> Result<Draft> {
    let signer = match args.get("signing_cert").filter(|v| v.truthy()) {
        Some(from) => Some(cert::load(from, None)?.cert),
        None => None,
    };
    let pass = args
        .get("signing_private_key_passphrase")
        .filter(|v| !v.is_nil())
        .map(python::str);
    let from = args.get("signing_private_key").unwrap_or(&Value::Nil);
    let key = keys::load(from, pass.as_deref())?.key;
    if signer.as_ref().is_some_and(|s| !s.key.is_of(&key)) {
        return Err(CallError::Invocation(cert::KEY_MISMATCH.to_owned()));
    }
    let next_update = in_days(args.get("days_valid").unwrap_or(&Value::Int(100)))?;
    if next_update < now() {
        let text = "The next update date must be after the last update date.";
        return Err(CallError::raised("ValueError", text));
    }
    let all = args.get("include_expired").is_some_and(Value::truthy);
    let mut entries = Vec::new();
    for one in revoked {
        entries.extend(entry(one, all)?);
    }
    let parties = Parties {
        signer: signer.as_ref(),
        ..Parties::default()
    };
    let mut extensions = Vec::new();
    let none = Map::new();
    let given = args
        .get("extensions")
        .and_then(Value::as_map)
        .unwrap_or(&none);
    for (name, value) in given.iter() {
        let name = python::str(name);
        if CRL_EXTENSIONS.contains(&name.as_str()) {
            extensions.push(describe::create(&name, value, &parties)?);
        } else {
            log::warn!("Ignoring invalid CRL extension: {name}");
        }
    }
    Ok(Draft {
        issuer: signer.map(|s: Cert| s.subject),
        next_update,
        entries,
        extensions,
        key,
    })
}

/// What is revoked; nothing if it has expired anyway.
fn entry(one: &Map, expired_too: bool) -> Result<Option<Entry>> {
    let mut not_after = time_under(one, "not_after")?;
    let mut serial = one.get("serial_number").filter(|v| v.truthy()).cloned();
    if let Some(from) = one.get("certificate") {
        let revoked = cert::load(from, None)?.cert;
        serial = Some(Value::Bytes(revoked.serial));
        not_after = Some(revoked.not_after);
    }
    let serial = serial
        .ok_or_else(|| CallError::Invocation("Need serial_number or certificate".to_owned()))?;
    let serial = serial_number(Some(&serial))?;
    if !expired_too && not_after.is_some_and(|end| now() > end) {
        return Ok(None);
    }
    let date = time_under(one, "revocation_date")?.unwrap_or_else(now);
    let mut extensions = Vec::new();
    let none = Map::new();
    let given = one
        .get("extensions")
        .and_then(Value::as_map)
        .unwrap_or(&none);
    for (name, value) in given.iter() {
        let name = python::str(name);
        if oid_of(&ENTRY_EXTENSIONS, &name).is_some() {
            extensions.push(describe::create(&name, value, &Parties::default())?);
        } else {
            log::warn!("Ignoring invalid CRL entry extension: {name}");
        }
    }
    Ok(Some(Entry {
        serial,
        date,
        extensions,
    }))
}

impl Draft {
    /// The list.
    ///
    /// # Errors
    /// The digest cannot be used, or nobody makes it.
    pub fn sign(&self, digest: &str) -> Result<Crl> {
        let issuer = self
            .issuer
            .as_ref()
            .ok_or_else(|| CallError::raised("ValueError", "A CRL must have an issuer name"))?;
        let entries: Vec<Vec<u8>> = self
            .entries
            .iter()
            .map(|e| {
                der::seq([
                    der::tlv(der::INTEGER, &der::magnitude(&e.serial)),
                    der::time(e.date),
                    if e.extensions.is_empty() {
                        Vec::new()
                    } else {
                        extensions_list(&e.extensions)
                    },
                ])
            })
            .collect();
        let content = der::seq([
            der::int(1),
            keys::algorithm(&self.key, digest)?,
            issuer.der.clone(),
            der::time(now()),
            der::time(self.next_update),
            if entries.is_empty() {
                Vec::new()
            } else {
                der::seq(entries)
            },
            extension::field(der::PARTS, &self.extensions),
        ]);
        let der = keys::signed(&self.key, digest, content)?;
        Crl::read(&der).ok_or_else(|| CallError::raised("ValueError", "error parsing asn1 value"))
    }
}

fn extensions_list(all: &[Extension]) -> Vec<u8> {
    der::seq(all.iter().map(Extension::der))
}
