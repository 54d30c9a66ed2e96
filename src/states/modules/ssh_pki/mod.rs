//! `ssh_pki`: keys and certificates of OpenSSH in files (`salt/states/ssh_pki.py`).

mod certificate;
mod key;
mod public;

use crate::declare::{Result, StateFunction, StateModule};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::Map;

/// What stock calls this module where it shows its name.
const MODULE_NAME: &str = "ssh_pki";

pub(super) const MODULE: StateModule = StateModule {
    name: MODULE_NAME,
    functions: &[
        StateFunction::new(
            "certificate_managed",
            certificate::managed,
            "Ensures that a file has a certificate as it is described and that is valid for a while.",
        )
        .args(args![
            ttl_remaining = None,
            ca_server = None,
            backend = None,
            backend_args = None,
            signing_policy = None,
            copypath = None,
            cert_type = None,
            signing_private_key = None,
            signing_private_key_passphrase = None,
            public_key = None,
            private_key = None,
            private_key_passphrase = None,
            serial_number = None,
            not_before = None,
            not_after = None,
            ttl = None,
            critical_options = None,
            extensions = None,
            valid_principals = None,
            all_principals = False,
            key_id = None
        ])
        .keywords(),
        StateFunction::new(
            "private_key_managed",
            key::managed,
            "Ensures that a file has a private key of this kind, length and passphrase.",
        )
        .args(args![
            algo = "rsa",
            keysize = None,
            passphrase = None,
            new = False,
            overwrite = False
        ])
        .keywords(),
        StateFunction::new(
            "public_key_managed",
            public::managed,
            "Ensures that a file has the public key of another key or of a certificate.",
        )
        .args(args![public_key_source, passphrase = None])
        .keywords(),
    ],
};

/// Refuses keywords that are not for the file.
fn check(others: &Map) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = others.iter().map(|(key, _)| python::str(key)).collect();
    Err(CallError::Invocation(format!(
        "The following keyword arguments are invalid: {}",
        names.join(", ")
    )))
}
