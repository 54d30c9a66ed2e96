//! Throw-away keys and certificates for tests.

use halite_crypto::{PrivateKey, PublicKey};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, ExtendedKeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};
use std::sync::atomic::{AtomicU32, Ordering};

/// The current time of the tests, in seconds since 1970.
pub(crate) const NOW: i64 = 1_795_254_000;
pub(crate) const DAY: i64 = 86_400;

/// A certificate with its key.
pub(crate) struct Pair {
    pub certificate: X509,
    pub key: PKey<Private>,
}

/// Contents of a certificate.
pub(crate) struct CertificateSpec<'a> {
    pub name: &'a str,
    pub dns: &'a [&'a str],
    pub from: i64,
    pub until: i64,
    pub ca: bool,
    /// `None`: it does not restrict its use.
    pub client: Option<bool>,
    pub bits: u32,
}

impl Default for CertificateSpec<'_> {
    fn default() -> Self {
        CertificateSpec {
            name: "rip.mcollective",
            dns: &[],
            from: NOW - DAY,
            until: NOW + DAY,
            ca: false,
            client: None,
            bits: 1024,
        }
    }
}

impl Pair {
    /// A new CA.
    pub fn ca(name: &str) -> Pair {
        let ca = true;
        CertificateSpec {
            name,
            ca,
            ..CertificateSpec::default()
        }
        .by(None)
    }

    pub fn pem(&self) -> String {
        String::from_utf8(self.certificate.to_pem().unwrap()).unwrap()
    }

    pub fn key_pem(&self) -> String {
        String::from_utf8(self.key.private_key_to_pem_pkcs8().unwrap()).unwrap()
    }

    pub fn private(&self) -> PrivateKey {
        PrivateKey::from_pem(&self.key_pem()).unwrap()
    }

    pub fn public(&self) -> PublicKey {
        self.private().public()
    }

    pub fn sign(&self, name: &str) -> Pair {
        CertificateSpec {
            name,
            ..CertificateSpec::default()
        }
        .by(Some(self))
    }
}

impl CertificateSpec<'_> {
    /// The certificate with a new key, signed by another or by itself.
    pub fn by(&self, issuer: Option<&Pair>) -> Pair {
        let key = PKey::from_rsa(Rsa::generate(self.bits).unwrap()).unwrap();
        self.with(key, issuer)
    }

    /// The certificate with that key.
    pub fn with(&self, key: PKey<Private>, issuer: Option<&Pair>) -> Pair {
        static SERIAL: AtomicU32 = AtomicU32::new(1);
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_text("CN", self.name).unwrap();
        let subject = subject.build();
        let mut built = X509::builder().unwrap();
        built.set_version(2).unwrap();
        let serial = BigNum::from_u32(SERIAL.fetch_add(1, Ordering::Relaxed)).unwrap();
        let serial = serial.to_asn1_integer().unwrap();
        built.set_serial_number(&serial).unwrap();
        built.set_subject_name(&subject).unwrap();
        let by = issuer.map_or(&*subject, |issuer| issuer.certificate.subject_name());
        built.set_issuer_name(by).unwrap();
        built.set_pubkey(&key).unwrap();
        let time = |seconds| Asn1Time::from_unix(seconds).unwrap();
        built.set_not_before(&time(self.from)).unwrap();
        built.set_not_after(&time(self.until)).unwrap();
        if self.ca {
            let rule = BasicConstraints::new().critical().ca().build().unwrap();
            built.append_extension(rule).unwrap();
        }
        if let Some(client) = self.client {
            let mut usage = ExtendedKeyUsage::new();
            let usage = if client {
                usage.server_auth().client_auth()
            } else {
                usage.server_auth()
            };
            built.append_extension(usage.build().unwrap()).unwrap();
        }
        if !self.dns.is_empty() {
            let mut names = SubjectAlternativeName::new();
            for name in self.dns {
                names.dns(name);
            }
            let context = built.x509v3_context(None, None);
            let names = names.build(&context).unwrap();
            built.append_extension(names).unwrap();
        }
        let signer = issuer.map_or(&key, |issuer| &issuer.key);
        built.sign(signer, MessageDigest::sha256()).unwrap();
        Pair {
            certificate: built.build(),
            key,
        }
    }
}
