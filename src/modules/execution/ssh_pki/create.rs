//! Functions that make certificates and keys, and return or write them.

use super::issue::{self, local};
use super::keys::PublicKey;
use super::{policy, private};
use crate::execution::command_helpers::{rewrite, write_private};
use crate::execution::declare::Result;
use crate::execution::x509::keys::generate;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// Bits of RSA keys if nobody says how many.
pub const RSA_BITS: i64 = 3072;

fn invocation<T>(text: impl Into<String>) -> Result<T> {
    Err(CallError::Invocation(text.into()))
}

/// The keywords of a call, without what says who calls.
fn keywords(call: &Call<'_>) -> Map {
    let own = call.bound.kwargs.iter();
    let own = own.map(|(k, v)| (python::str(k), v.clone()));
    own.filter(|(key, _)| !key.starts_with('_')).collect()
}

/// A text, or its bytes.
fn returned(text: String, raw: bool) -> Value {
    match raw {
        true => Value::Bytes(text.into_bytes()),
        false => text.into(),
    }
}

/// The path to write to, if nothing is there that is to stay.
fn free_path(call: &Call<'_>) -> Result<Option<String>> {
    let path = call.text("path").filter(|path| !path.is_empty());
    if let Some(path) = &path
        && !call.flag("overwrite")
        && Path::new(path).symlink_metadata().is_ok()
    {
        let text = format!("The file at {path} exists and overwrite was set to false");
        return Err(CallError::Command(text));
    }
    Ok(path)
}

/// `create_certificate`.
pub fn certificate(call: &mut Call<'_>) -> Result {
    let mut args = keywords(call);
    let server = call.arg("ca_server").clone();
    let signs = !server.truthy();
    if signs && !args.get("signing_private_key").is_some_and(Value::truthy) {
        return invocation(
            "Creating a certificate locally at least requires a signing private key.",
        );
    }
    let path = free_path(call)?;
    let policy = call.arg("signing_policy").clone();
    let cert = if signs {
        policy::apply(call, &policy, &mut args)?;
        local(&args)?
    } else {
        if policy.is_nil() {
            return invocation(
                "signing_policy must be specified to request a certificate from a remote ca_server",
            );
        }
        let copies = args.get("copypath").cloned();
        let cert = policy::remote(call, &server, &policy, args)?;
        issue::copy(&cert, copies.as_ref())?;
        cert
    };
    let text = cert.text();
    let Some(path) = path else {
        return Ok(returned(text, call.flag("raw")));
    };
    let written = rewrite(Path::new(&path), text.as_bytes());
    written.map_err(|e| python::os_error(&e, &path))?;
    Ok(format!("Certificate written to {path}").into())
}

/// `create_private_key`.
pub fn private_key(call: &mut Call<'_>) -> Result {
    let algo = python::str(call.arg("algo"));
    if algo == "ed448" {
        return invocation(format!(
            "Invalid algorithm specified for generating private key: {algo}. Valid: rsa, ec, ed25519, ed448"
        ));
    }
    let path = free_path(call)?;
    let size = match call.arg("keysize") {
        Value::Nil if algo == "rsa" => Some(RSA_BITS),
        size if !size.truthy() => None,
        // Whatever is no number is not one of the valid sizes.
        size => Some(size.as_int().unwrap_or(-1)),
    };
    let key = generate(&algo, size)?;
    let text = private::encode(&key, call.text("passphrase").as_deref())?;
    let public = PublicKey::of(&key)?.text()?;
    let Some(path) = path else {
        return Ok(match call.flag("raw") {
            true => Value::Bytes(text.into_bytes()),
            false => map! {"private_key" => text, "public_key" => public}.into(),
        });
    };
    let write = |path: &str, text: &str| {
        write_private(path, text.as_bytes()).map_err(|e| python::os_error(&e, path))
    };
    write(&path, &text)?;
    if call.flag("pubkey_suffix") {
        let suffix = python::str(call.arg("pubkey_suffix"));
        write(&format!("{path}{suffix}"), &public)?;
    }
    Ok(format!("Private key written to {path}").into())
}

/// `encode_private_key`.
pub fn encode_private_key(call: &mut Call<'_>) -> Result {
    let own = call.text("private_key_passphrase");
    let key = private::load(call.arg("private_key"), own.as_deref())?;
    let text = private::encode(&key, call.text("passphrase").as_deref())?;
    Ok(returned(text, call.flag("raw")))
}
