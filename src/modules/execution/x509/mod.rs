//! `x509`: keys, certificates, requests and revocation lists (`salt/modules/x509_v2.py`).
//!
//! OpenSSL has the keys and signs; what is signed is written here (`der`), because certificates need more extensions
//! than OpenSSL's interface has.

mod cert;
pub mod compare;
mod create;
mod crl;
mod der;
mod describe;
mod extension;
mod general;
mod idna;
mod issue;
pub mod keys;
mod names;
mod pem;
mod points;
mod policies;
mod policy;
mod read;
mod request;
mod show;
pub mod source;
mod tables;
mod values;

use super::declare::{Function, Module};
use crate::args;

pub use crl::revocations;
pub(super) use der::show_time;
pub use pem::put as put_file;
pub use policy::shorten;
pub(super) use values::serial_number as serial_bytes;
pub(super) use values::{attribute_error, in_seconds, now, time_under};

pub(super) const MODULE: Module = Module {
    name: "x509",
    functions: &[
        Function::new(
            "create_certificate",
            create::certificate,
            "Makes a certificate, signed here or by another minion (ca_server); returns or writes it.",
        )
        .args(args![
            ca_server = None,
            signing_policy = None,
            encoding = "pem",
            append_certs = None,
            pkcs12_passphrase = None,
            pkcs12_encryption_compat = False,
            pkcs12_friendlyname = None,
            path = None,
            overwrite = True,
            raw = False
        ])
        .keywords(),
        Function::new(
            "encode_certificate",
            create::encode_certificate,
            "A certificate in another encoding.",
        )
        .args(args![
            certificate,
            encoding = "pem",
            append_certs = None,
            private_key = None,
            private_key_passphrase = None,
            pkcs12_passphrase = None,
            pkcs12_encryption_compat = False,
            pkcs12_friendlyname = None,
            raw = False
        ]),
        Function::new(
            "create_crl",
            create::crl,
            "Makes a revocation list; returns or writes it.",
        )
        .args(args![
            signing_private_key,
            revoked,
            signing_cert = None,
            signing_private_key_passphrase = None,
            include_expired = False,
            days_valid = None,
            digest = "sha256",
            encoding = "pem",
            extensions = None,
            path = None,
            raw = False
        ])
        .keywords(),
        Function::new(
            "encode_crl",
            create::encode_crl,
            "A revocation list in another encoding.",
        )
        .args(args![crl, encoding = "pem", raw = False]),
        Function::new(
            "create_csr",
            create::csr,
            "Makes a certificate signing request; returns or writes it.",
        )
        .args(args![
            private_key,
            private_key_passphrase = None,
            digest = "sha256",
            encoding = "pem",
            path = None,
            raw = False
        ])
        .keywords(),
        Function::new(
            "encode_csr",
            create::encode_csr,
            "A certificate signing request in another encoding.",
        )
        .args(args![csr, encoding = "pem", raw = False]),
        Function::new(
            "create_private_key",
            create::private_key,
            "Makes a private key; returns or writes it.",
        )
        .args(args![
            algo = "rsa",
            keysize = None,
            passphrase = None,
            encoding = "pem",
            pkcs12_encryption_compat = False,
            path = None,
            raw = False
        ])
        .keywords(),
        Function::new(
            "encode_private_key",
            create::encode_private_key,
            "A private key in another encoding or with another passphrase.",
        )
        .args(args![
            private_key,
            encoding = "pem",
            passphrase = None,
            private_key_passphrase = None,
            pkcs12_encryption_compat = False,
            raw = False
        ]),
        Function::new(
            "expires",
            read::expires,
            "Whether a certificate ends within a number of days.",
        )
        .args(args![certificate, days = { 0 }]),
        Function::new("expired", read::expired, "Whether a certificate has ended.")
            .args(args![certificate]),
        Function::new(
            "will_expire",
            read::will_expire,
            "Whether a certificate ends within a number of days, with its name.",
        )
        .args(args![certificate, days]),
        Function::new(
            "get_pem_entries",
            pem::get_entries,
            "The first PEM block of each file that a pattern matches.",
        )
        .args(args![glob_path]),
        Function::new(
            "get_pem_entry",
            pem::get_entry,
            "The first PEM block of a text or file, put right.",
        )
        .args(args![text, pem_type = None]),
        Function::new(
            "write_pem",
            pem::write_function,
            "Writes a PEM block, put right, to a file.",
        )
        .args(args![text, path, overwrite = True, pem_type = None]),
        Function::new(
            "get_private_key_size",
            read::private_key_size,
            "The length of a private key in bits.",
        )
        .args(args![private_key, passphrase = None]),
        Function::new(
            "get_public_key",
            read::public_key,
            "The public key of a key, certificate or request.",
        )
        .args(args![key, passphrase = None, asObj = None]),
        Function::new(
            "get_signing_policy",
            read::signing_policy,
            "A signing policy of this minion or of another one.",
        )
        .args(args![signing_policy, ca_server = None]),
        Function::new(
            "read_certificate",
            read::certificate,
            "What is in a certificate.",
        )
        .args(args![certificate]),
        Function::new(
            "read_certificates",
            read::certificates,
            "What is in the certificates that a pattern matches.",
        )
        .args(args![glob_path]),
        Function::new("read_crl", read::crl, "What is in a revocation list.").args(args![crl]),
        Function::new(
            "read_csr",
            read::csr,
            "What is in a certificate signing request.",
        )
        .args(args![csr]),
        Function::new(
            "sign_remote_certificate",
            policy::sign_remote,
            "Signs a certificate for another minion by a signing policy. Not for people.",
        )
        .args(args![
            signing_policy,
            kwargs,
            get_signing_policy_only = False
        ])
        .keywords(),
        Function::new(
            "verify_crl",
            read::verify_crl,
            "Whether a revocation list was signed by a certificate's key.",
        )
        .args(args![crl, cert]),
        Function::new(
            "verify_private_key",
            read::verify_private_key,
            "Whether a private key belongs to a public one.",
        )
        .args(args![private_key, public_key, passphrase = None]),
        Function::new(
            "verify_signature",
            read::verify_signature,
            "Whether a certificate was signed by a key; by its own if none is given.",
        )
        .args(args![
            certificate,
            signing_pub_key = None,
            signing_pub_key_passphrase = None
        ]),
    ],
};

/// Hexadecimal digits of bytes.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// `bytes.fromhex`, which skips blanks between bytes.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in text.split_ascii_whitespace() {
        if word.len() % 2 != 0 || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        for at in (0..word.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&word[at..at + 2], 16).ok()?);
        }
    }
    Some(bytes)
}

/// Bytes as certificates are shown.
pub(super) fn pretty(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
    shown.join(":")
}

/// A number in the same form.
pub(super) fn pretty_number(bytes: &[u8]) -> String {
    match der::unsigned(bytes) {
        zero if zero.is_empty() => "00".to_owned(),
        digits => pretty(&digits),
    }
}
