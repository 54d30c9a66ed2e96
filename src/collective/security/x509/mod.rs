//! Certificates: verification of a chain at a given time, names and key.
//!
//! Revocation lists are not supported: a certificate is valid until it expires, or until its
//! name is removed from the lists of callers.

use super::{MAX_CERTIFICATES, MAX_PEM};
use crate::wire::Refused;
use halite_crypto::{MAX_BITS, PublicKey};
use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::Id;
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::verify::{X509VerifyFlags, X509VerifyParam};
use openssl::x509::{X509, X509PurposeId, X509Ref, X509StoreContext};
use std::fmt;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Most names used of one certificate.
const MAX_NAMES: usize = 64;

/// The trusted CA certificates.
#[derive(Clone)]
pub struct Authority(Vec<X509>);

impl Authority {
    /// Parses the file of a CA: one or more certificates in PEM form, each of which is trusted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_pem(text: &str) -> Result<Authority, String> {
        let parsed =
            parse(text).map_err(|why| format!("its certificates cannot be read: {why}"))?;
        if parsed.is_empty() {
            Err("there is no certificate in it (BEGIN CERTIFICATE)".to_owned())
        } else {
            Ok(Authority(parsed))
        }
    }

    /// The public key of the first certificate.
    ///
    /// # Errors
    /// It is not an RSA key, or its size is out of bounds.
    pub fn key(&self) -> Result<PublicKey, String> {
        self.0.first().map_or(Err("it is empty".to_owned()), key_of)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Authority({} certificates)", self.0.len())
    }
}

/// A certificate with its intermediates, as received: not verified yet.
#[derive(Clone)]
pub struct Chain {
    leaf: X509,
    between: Vec<X509>,
}

/// A verified certificate.
#[derive(Clone, Debug)]
pub struct Verified {
    /// DNS names and common name of the certificate, as far as they are valid in caller ids.
    pub names: Vec<String>,
    /// Its public key.
    pub key: PublicKey,
    /// Start of the validity of the whole chain, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity of the whole chain, in seconds since 1970.
    pub not_after: i64,
}

/// OpenSSL's result of verifying a chain.
struct Walk {
    good: bool,
    /// OpenSSL's reason if it failed.
    why: String,
    not_before: i64,
    not_after: i64,
}

impl Chain {
    /// Parses certificates in PEM form, the leaf first.
    ///
    /// # Errors
    /// It is too long, or has too many certificates or none.
    pub fn from_pem(text: &str) -> Result<Chain, Refused> {
        if text.len() > MAX_PEM {
            return Err(Refused::TooLarge("bytes of certificates"));
        }
        let begins = text.matches("-----BEGIN ").count();
        if begins > MAX_CERTIFICATES {
            return Err(Refused::TooLarge("certificates of a chain"));
        }
        let unread = |why: String| Refused::Certificate(format!("it cannot be read: {why}"));
        let mut all = parse(text).map_err(unread)?.into_iter();
        let leaf = all.next();
        let leaf = leaf.ok_or_else(|| unread("there is no BEGIN CERTIFICATE".to_owned()))?;
        let between = all.collect();
        Ok(Chain { leaf, between })
    }

    /// The names of the leaf, not verified.
    pub fn names(&self) -> Vec<String> {
        names_of(&self.leaf)
    }

    /// The common name of the leaf, not verified.
    pub fn common_name(&self) -> Option<String> {
        common_names(&self.leaf).next()
    }

    /// The key of the leaf, not verified.
    ///
    /// # Errors
    /// It is not an RSA key, or its size is out of bounds.
    pub fn key(&self) -> Result<PublicKey, String> {
        key_of(&self.leaf)
    }

    /// Verifies that it was issued by the CA and is valid at `now` (seconds since 1970), and allows use by TLS clients, if
    /// it restricts its use.
    ///
    /// # Errors
    /// [`Refused::Certificate`], with the reason.
    pub fn verify(&self, authority: &Authority, now: i64) -> Result<Verified, Refused> {
        // The cost of checking a signature grows with the size of the key, so check sizes first.
        for certificate in &self.between {
            bounded(certificate).map_err(Refused::Certificate)?;
        }
        let key = key_of(&self.leaf).map_err(Refused::Certificate)?;
        let failed = |error| format!("OpenSSL could not check it: {error}");
        let walk = self.walk(authority, now).map_err(failed);
        let walk = walk.map_err(Refused::Certificate)?;
        if !walk.good {
            let why = self.untimely(now).unwrap_or(walk.why);
            return Err(Refused::Certificate(why));
        }
        Ok(Verified {
            names: self.names(),
            key,
            not_before: walk.not_before,
            not_after: walk.not_after,
        })
    }

    fn walk(&self, authority: &Authority, now: i64) -> Result<Walk, ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in &authority.0 {
            store.add_cert(certificate.clone())?;
        }
        let mut rules = X509VerifyParam::new()?;
        // Each certificate in the CA's file is trusted, even if another CA signed it.
        rules.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
        rules.set_purpose(X509PurposeId::SSL_CLIENT)?;
        rules.set_depth(MAX_CERTIFICATES as i32);
        rules.set_time(now as nix::libc::time_t);
        store.set_param(&rules)?;
        let store = store.build();
        let mut between = Stack::new()?;
        for certificate in &self.between {
            between.push(certificate.clone())?;
        }
        let mut context = X509StoreContext::new()?;
        context.init(&store, &self.leaf, &between, |context| {
            let mut walk = Walk {
                good: context.verify_cert()?,
                why: context.error().error_string().to_owned(),
                not_before: i64::MIN,
                not_after: i64::MAX,
            };
            for certificate in context.chain().into_iter().flatten() {
                walk.not_before = walk.not_before.max(seconds(certificate.not_before())?);
                walk.not_after = walk.not_after.min(seconds(certificate.not_after())?);
            }
            Ok(walk)
        })
    }

    /// The reason if the leaf is not valid yet or has expired.
    fn untimely(&self, now: i64) -> Option<String> {
        let not_before = self.leaf.not_before();
        let not_after = self.leaf.not_after();
        if seconds(not_after).ok()? <= now {
            return Some(format!("it expired on {not_after}"));
        }
        if seconds(not_before).ok()? > now {
            return Some(format!(
                "it is not good before {not_before}; see whether the clock is right"
            ));
        }
        None
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = self.names();
        write!(f, "Chain({names:?}, {} between)", self.between.len())
    }
}

/// The RSA key of a public key or certificate in PEM form, as used by SSL and AES. Nothing else of a certificate is
/// checked.
///
/// # Errors
/// It has no key, or its size is out of bounds.
pub(super) fn key_or_certificate(text: &str) -> Result<PublicKey, String> {
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Chain::from_pem(text).map_err(|why| why.to_string())?.key()
    } else {
        PublicKey::from_pem(text).map_err(|why| why.to_string())
    }
}

fn parse(text: &str) -> Result<Vec<X509>, String> {
    X509::stack_from_pem(text.as_bytes()).map_err(|error| {
        let first = error.errors().first().and_then(|e| e.reason());
        first.unwrap_or("OpenSSL gives no reason").to_owned()
    })
}

/// Seconds since 1970.
fn seconds(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let since = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(since.days) * DAY + i64::from(since.secs))
}

fn bounded(certificate: &X509) -> Result<(), String> {
    let key = certificate.public_key();
    let key = key.map_err(|_| "its public key cannot be read".to_owned())?;
    match key.bits() as usize {
        bits if bits > MAX_BITS => Err(format!("its key of {bits} bits is above {MAX_BITS}")),
        _ => Ok(()),
    }
}

fn key_of(certificate: &X509) -> Result<PublicKey, String> {
    let unread = |_| "its public key cannot be read".to_owned();
    let key = certificate.public_key().map_err(unread)?;
    if key.id() != Id::RSA {
        return Err("its key is not an RSA key".to_owned());
    }
    let pem = key.public_key_to_pem().map_err(unread)?;
    PublicKey::from_pem(&String::from_utf8_lossy(&pem)).map_err(|error| error.to_string())
}

/// Names that are valid in caller ids.
fn names_of(certificate: &X509Ref) -> Vec<String> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    let mut names: Vec<String> = Vec::new();
    let alternatives = certificate.subject_alt_names();
    let dns = alternatives
        .iter()
        .flatten()
        .filter_map(|name| name.dnsname());
    let dns = dns.map(str::to_owned);
    for name in dns.chain(common_names(certificate)) {
        let good = !name.is_empty() && name.bytes().all(plain);
        if good && !names.contains(&name) && names.len() < MAX_NAMES {
            names.push(name);
        }
    }
    names
}

fn common_names(certificate: &X509Ref) -> impl Iterator<Item = String> {
    let entries = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    entries.filter_map(|entry| entry.data().to_string().ok())
}

#[cfg(test)]
mod tests;
