//! `ssh_pki`: keys and certificates of OpenSSH (`salt/modules/ssh_pki.py`).
//!
//! OpenSSL has the keys and signs; the encoding of OpenSSH, which is simple, is here (`wire`).

mod cert;
pub mod compare;
mod create;
mod identity;
mod issue;
mod keys;
pub mod policy;
pub mod private;
mod read;
pub mod source;
mod values;
mod wire;

use super::declare::{Arg, Function, Module};
use crate::args;

pub use identity::load_public;

const CREATE: &[Arg] = args![
    ca_server = None,
    signing_policy = None,
    path = None,
    overwrite = False,
    raw = False
];

pub(super) const MODULE: Module = Module {
    name: "ssh_pki",
    functions: &[
        Function::new(
            "create_certificate",
            create::certificate,
            "Makes a certificate, signed here or by another minion (ca_server); returns or writes it.",
        )
        .args(CREATE)
        .keywords(),
        Function::new(
            "create_certificate_ssh",
            create::certificate,
            "The same as create_certificate.",
        )
        .args(CREATE)
        .keywords(),
        Function::new(
            "create_private_key",
            create::private_key,
            "Makes a private key; returns it with its public key, or writes both.",
        )
        .args(args![
            algo = "rsa",
            keysize = None,
            passphrase = None,
            path = None,
            pubkey_suffix = ".pub",
            overwrite = False,
            raw = False
        ]),
        Function::new(
            "encode_private_key",
            create::encode_private_key,
            "A private key without or with another passphrase.",
        )
        .args(args![
            private_key,
            private_key_passphrase = None,
            passphrase = None,
            raw = False
        ]),
        Function::new(
            "expires",
            read::expires,
            "Whether a certificate ends within a time.",
        )
        .args(args![certificate, ttl = { 0 }]),
        Function::new(
            "get_private_key_size",
            read::private_key_size,
            "The length of a private key in bits.",
        )
        .args(args![private_key, passphrase = None]),
        Function::new(
            "get_public_key",
            read::public_key,
            "The public key of a key or certificate.",
        )
        .args(args![key, passphrase = None]),
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
            "verify_private_key",
            read::verify_private_key,
            "Whether a private key belongs to a public one.",
        )
        .args(args![private_key, public_key, passphrase = None]),
        Function::new(
            "verify_signature",
            read::verify_signature,
            "Whether a certificate was signed by a key.",
        )
        .args(args![
            certificate,
            signing_pub_key,
            signing_pub_key_passphrase = None
        ]),
    ],
};
