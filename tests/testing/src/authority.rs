//! A certificate authority for tests.

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use std::path::{Path, PathBuf};

/// Files of a certificate holder.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A CA, with all files in one directory.
pub struct Authority {
    dir: PathBuf,
    key: PKey<Private>,
    certificate: X509,
}

impl Authority {
    /// Creates its key and its certificate.
    pub fn new(dir: &Path, name: &str) -> Authority {
        std::fs::create_dir_all(dir).expect("a directory can be made");
        let key = key();
        let mut builder = builder(name, &key);
        let own = builder_name(name);
        builder.set_issuer_name(&own).expect("a name");
        let basic = BasicConstraints::new()
            .critical()
            .ca()
            .build()
            .expect("an extension");
        builder.append_extension(basic).expect("an extension");
        let usage = KeyUsage::new()
            .critical()
            .key_cert_sign()
            .crl_sign()
            .build();
        builder
            .append_extension(usage.expect("an extension"))
            .expect("an extension");
        builder
            .sign(&key, MessageDigest::sha256())
            .expect("a signature");
        let certificate = builder.build();
        let authority = Authority {
            dir: dir.to_owned(),
            key,
            certificate,
        };
        let pem = authority
            .certificate
            .to_pem()
            .expect("a certificate has a form");
        std::fs::write(authority.file(), pem).expect("a file can be written");
        authority
    }

    /// The file with its certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Issues a certificate for a new key and a name, which is also a host name or an address.
    pub fn issue(&self, name: &str) -> Issued {
        let key = key();
        let mut builder = builder(name, &key);
        builder
            .set_issuer_name(self.certificate.subject_name())
            .expect("a name");
        let usage = ExtendedKeyUsage::new().server_auth().client_auth().build();
        builder
            .append_extension(usage.expect("an extension"))
            .expect("an extension");
        let mut names = SubjectAlternativeName::new();
        match name.parse::<std::net::IpAddr>() {
            Ok(_) => names.ip(name),
            Err(_) => names.dns(name),
        };
        let names = names.build(&builder.x509v3_context(Some(&self.certificate), None));
        builder
            .append_extension(names.expect("an extension"))
            .expect("an extension");
        builder
            .sign(&self.key, MessageDigest::sha256())
            .expect("a signature");
        let issued = Issued {
            certificate: self.dir.join(format!("{name}.pem")),
            key: self.dir.join(format!("{name}.key")),
        };
        let pem = builder.build().to_pem().expect("a certificate has a form");
        std::fs::write(&issued.certificate, pem).expect("a file can be written");
        let pem = key.private_key_to_pem_pkcs8().expect("a key has a form");
        std::fs::write(&issued.key, pem).expect("a file can be written");
        issued
    }
}

fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key")
}

fn builder_name(name: &str) -> openssl::x509::X509Name {
    let mut builder = X509NameBuilder::new().expect("a name");
    builder.append_entry_by_text("CN", name).expect("a name");
    builder.build()
}

fn builder(name: &str, key: &PKey<Private>) -> X509Builder {
    let mut builder = X509::builder().expect("a certificate");
    let mut serial = BigNum::new().expect("a number");
    serial
        .rand(120, MsbOption::MAYBE_ZERO, false)
        .expect("a number");
    let serial = serial.to_asn1_integer().expect("a number");
    let from = Asn1Time::days_from_now(0).expect("a time");
    let until = Asn1Time::days_from_now(3650).expect("a time");
    builder.set_version(2).expect("a version");
    builder.set_serial_number(&serial).expect("a number");
    builder
        .set_subject_name(&builder_name(name))
        .expect("a name");
    builder.set_not_before(&from).expect("a time");
    builder.set_not_after(&until).expect("a time");
    builder.set_pubkey(key).expect("a key");
    builder
}
