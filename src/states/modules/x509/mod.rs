//! `x509`: keys, certificates, requests and revocation lists in files (`salt/states/x509_v2.py`).
//!
//! The files are `made_file`s.

mod certificate;
mod crl;
mod csr;
mod key;

use super::made_file::{Found, file_managed, split};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::x509::compare;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

/// What stock calls this module where it shows its name.
const MODULE_NAME: &str = "x509_v2";

pub(super) const MODULE: StateModule = StateModule {
    name: "x509",
    functions: &[
        StateFunction::new(
            "certificate_managed",
            certificate::managed,
            "Ensures that a file has a certificate as it is described and that is valid for a while.",
        )
        .args(args![
            days_remaining = None,
            ca_server = None,
            signing_policy = None,
            encoding = "pem",
            append_certs = None,
            digest = "sha256",
            signing_private_key = None,
            signing_private_key_passphrase = None,
            signing_cert = None,
            public_key = None,
            private_key = None,
            private_key_passphrase = None,
            csr = None,
            subject = None,
            serial_number = None,
            not_before = None,
            not_after = None,
            days_valid = None,
            pkcs12_passphrase = None,
            pkcs12_encryption_compat = False,
            pkcs12_friendlyname = None
        ])
        .keywords(),
        StateFunction::new(
            "crl_managed",
            crl::managed,
            "Ensures that a file has a list of these revoked certificates and that is valid for a while.",
        )
        .args(args![
            signing_private_key,
            revoked,
            days_remaining = None,
            signing_cert = None,
            signing_private_key_passphrase = None,
            include_expired = False,
            days_valid = None,
            digest = "sha256",
            encoding = "pem",
            extensions = None
        ])
        .keywords(),
        StateFunction::new(
            "csr_managed",
            csr::managed,
            "Ensures that a file has a certificate signing request as it is described.",
        )
        .args(args![
            private_key,
            private_key_passphrase = None,
            digest = "sha256",
            encoding = "pem",
            subject = None
        ])
        .keywords(),
        StateFunction::new(
            "pem_managed",
            pem_managed,
            "Ensures that a file has this PEM block, put right.",
        )
        .args(args![text])
        .keywords(),
        StateFunction::new(
            "private_key_managed",
            key::managed,
            "Ensures that a file has a private key of this kind, length and encoding.",
        )
        .args(args![
            algo = "rsa",
            keysize = None,
            passphrase = None,
            encoding = "pem",
            new = False,
            overwrite = False,
            pkcs12_encryption_compat = False
        ])
        .keywords(),
    ],
};

fn unrecognized(others: &Map) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let names: Vec<Value> = others.iter().map(|(key, _)| key.clone()).collect();
    Err(CallError::Invocation(format!(
        "Unrecognized keyword arguments: {}",
        python::repr(&names.into())
    )))
}

/// What is found where no file is.
fn created(s: &State<'_, '_>) -> Found<compare::Found> {
    Found {
        changes: map! {"created" => s.name()},
        ..Found::default()
    }
}

/// What a comparison has found.
fn found(s: &State<'_, '_>, looked: compare::Found) -> Found<compare::Found> {
    let mut changes = looked.changes.clone();
    if looked.replace {
        changes.set("replaced", s.name());
    }
    let is_valid = looked.current.is_some() && !looked.is_empty;
    Found {
        is_valid,
        is_there: is_valid,
        changes,
        more: looked,
    }
}

fn pem_managed(s: &mut State<'_, '_>) -> Result {
    let (mut file, others) = split(s);
    unrecognized(&others)?;
    let text = s.arg("text").clone();
    match s.salt("x509.get_pem_entry", vec![text]) {
        Ok(content) => file.set("contents", content),
        Err(CallError::Command(text) | CallError::Invocation(text)) => {
            return Ok(StateOutcome::bad(text));
        }
        Err(fault) => return Err(fault),
    }
    let mut ran = file_managed(s, MODULE_NAME, &file)?;
    let mut outcome = StateOutcome::new(
        ran.remove("result").and_then(|r| r.as_bool()),
        ran.remove("comment")
            .map(|c| python::str(&c))
            .unwrap_or_default(),
    );
    outcome.changes = ran.remove("changes").unwrap_or_default();
    for (key, value) in ran.0 {
        let key = python::str(&key);
        // What the engine sets for each state.
        if !key.starts_with("__") && !["name", "duration", "start_time"].contains(&key.as_str()) {
            outcome.more.set(key, value);
        }
    }
    Ok(outcome)
}
