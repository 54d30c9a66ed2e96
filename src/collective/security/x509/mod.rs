//! Certificates: whether a chain leads to the CA at a given time, whom it names, and what key is in it.
//!
//! Lists of revoked certificates are not supported: a certificate is good until it expires, or until its
//! name is taken out of the lists of callers.

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
/// Names that are taken of one certificate.
const MAX_NAMES: usize = 64;

/// The certificates that others have to lead to.
#[derive(Clone)]
pub struct Authority(Vec<X509>);

impl Authority {
    /// Reads the file of a CA: one or several certificates in PEM form, each of which is trusted.
    ///
    /// # Errors
    /// What is wrong with it, in words.
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
    /// It is no RSA key, or one out of bounds.
    pub fn key(&self) -> Result<PublicKey, String> {
        self.0.first().map_or(Err("it is empty".to_owned()), key_of)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Authority({} certificates)", self.0.len())
    }
}

/// A certificate, and those between it and the CA, as somebody sent them: nothing in it is trusted yet.
#[derive(Clone)]
pub struct Chain {
    leaf: X509,
    between: Vec<X509>,
}

/// A certificate that leads to the CA.
#[derive(Clone, Debug)]
pub struct Verified {
    /// DNS names of the certificate, and its common name, if each consists of what caller ids may hold.
    pub names: Vec<String>,
    /// Its public key.
    pub key: PublicKey,
    /// Seconds since 1970 from which on all of the chain is good.
    pub not_before: i64,
    /// Seconds since 1970 at which something of the chain is good no longer.
    pub not_after: i64,
}

/// What OpenSSL found on the way from a leaf to the CA.
struct Walk {
    good: bool,
    /// Its words if not.
    why: String,
    not_before: i64,
    not_after: i64,
}

impl Chain {
    /// Reads certificates in PEM form, the leaf first.
    ///
    /// # Errors
    /// It is too long, holds too many, or none.
    pub fn from_pem(text: &str) -> Result<Chain, Refused> {
        if text.len() > MAX_PEM {
            return Err(Refused::TooLarge("octets of certificates"));
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

    /// The names of the leaf, of which nothing is proven yet.
    pub fn names(&self) -> Vec<String> {
        names_of(&self.leaf)
    }

    /// The common name of the leaf, of which nothing is proven yet.
    pub fn common_name(&self) -> Option<String> {
        common_names(&self.leaf).next()
    }

    /// The key of the leaf, of which nothing is proven yet.
    ///
    /// # Errors
    /// It is no RSA key, or one out of bounds.
    pub fn key(&self) -> Result<PublicKey, String> {
        key_of(&self.leaf)
    }

    /// Whether it leads to the CA at `now` (seconds since 1970) and may be used by clients of TLS, where it says for
    /// what it may be used.
    ///
    /// # Errors
    /// [`Refused::Certificate`], in words.
    pub fn verify(&self, authority: &Authority, now: i64) -> Result<Verified, Refused> {
        // The cost of a signature grows with the key that made it: before anything is checked with one.
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
        // Each certificate of the CA's file is trusted, also one that another CA signed.
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

    /// Says in words that the leaf is not good yet or no longer.
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

/// The RSA key of a text in PEM form that holds a public key or a certificate, as the keys of SSL and AES may be. Of a
/// certificate nothing else is looked at.
///
/// # Errors
/// It holds none, or one out of bounds.
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
        return Err("its key is of another kind than RSA".to_owned());
    }
    let pem = key.public_key_to_pem().map_err(unread)?;
    PublicKey::from_pem(&String::from_utf8_lossy(&pem)).map_err(|error| error.to_string())
}

/// Names in the form that caller ids have; others can be nobody's.
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
