//! Functions that make and encode: `create_*` and `encode_*`.

use super::cert::{self, Cert, Encoding, NO_KEY};
use super::crl::{self, Crl};
use super::issue::{copy, local};
use super::request::{self, Csr};
use super::{keys, pem, policy, source};
use crate::execution::command_helpers::{rewrite, write_private};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value};
use std::path::Path;

const CERT_ENCODINGS: &[&str] = &["der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12"];
const KEY_ENCODINGS: &[&str] = &["der", "pem", "pkcs12"];
const ENCODINGS: &[&str] = &["der", "pem"];
const DIGESTS: &[&str] = &[
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
];

fn check(what: &str, value: &str, valid: &[&str]) -> Result<()> {
    let low = value.to_lowercase();
    // The case matters for encodings only.
    let known = if what == "digest" {
        low.as_str()
    } else {
        value
    };
    if valid.contains(&known) {
        return Ok(());
    }
    Err(CallError::Command(format!(
        "Invalid value '{value}' for {what}. Valid: {}",
        valid.join(", ")
    )))
}

/// The arguments of a call by name, without what says who calls.
fn arguments(call: &Call<'_>, named: &[&str]) -> Map {
    let mut args = keywords(call);
    for name in named {
        args.set(*name, call.arg(name).clone());
    }
    args
}

fn keywords(call: &Call<'_>) -> Map {
    let own = call.bound.kwargs.iter();
    let own = own.map(|(k, v)| (python::str(k), v.clone()));
    own.filter(|(key, _)| !key.starts_with('_')).collect()
}

fn unrecognized(args: &Map) -> Result<()> {
    let names: Vec<Value> = args.iter().map(|(k, _)| k.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let shown = python::repr(&names.into());
    Err(CallError::Invocation(format!(
        "Unrecognized keyword arguments: {shown}"
    )))
}

fn ignore(args: &mut Map, names: &[&str]) {
    for name in names {
        if args.remove(name).is_some() {
            log::warn!("x509: the argument {name} is ignored");
        }
    }
}

/// Bytes in the form that a function returns.
fn returned(bytes: Vec<u8>, encoding: &str, raw: bool) -> Value {
    if raw {
        return Value::Bytes(bytes);
    }
    if matches!(encoding, "pem" | "pkcs7_pem") {
        return String::from_utf8_lossy(&bytes).into_owned().into();
    }
    source::to_base64(&bytes).into()
}

/// A nameless list argument: nothing, one or several.
fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        one if one.truthy() => vec![one.clone()],
        _ => Vec::new(),
    }
}

fn chain(given: &Value) -> Result<Vec<Cert>> {
    let mut certs = Vec::new();
    for from in list(given) {
        certs.push(cert::load(&from, None)?.cert);
    }
    Ok(certs)
}

/// `create_certificate`.
pub fn certificate(call: &mut Call<'_>) -> Result {
    let mut args = keywords(call);
    if let Some(digest) = args.remove("algorithm") {
        args.set("digest", digest);
    }
    ignore(&mut args, &["text", "version", "serial_bits"]);
    policy::shorten(&mut args);
    if !args.contains("days_valid") && !args.contains("not_after") {
        args.set("days_valid", 365);
    }
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, CERT_ENCODINGS)?;
    if let Some(digest) = args.get("digest") {
        check("digest", &python::str(digest), DIGESTS)?;
    }
    let added = call.arg("append_certs").clone();
    if encoding == "der" && added.truthy() {
        let text = "Cannot encode a certificate chain in DER";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let server = call.arg("ca_server").clone();
    if !args.contains("signing_private_key") && !server.truthy() {
        let text = "Creating a certificate locally at least requires a signing private key.";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let path = call.text("path");
    if let Some(path) = kept(call, path.as_deref()) {
        return Ok(path);
    }
    let policy = call.arg("signing_policy").clone();
    let (cert, key) = if server.truthy() {
        if policy.is_nil() {
            let text =
                "signing_policy must be specified to request a certificate from a remote ca_server";
            return Err(CallError::Invocation(text.to_owned()));
        }
        let copies = ["copypath", "prepend_cn"];
        let copies = copies.map(|name| (name, args.remove(name).unwrap_or_default()));
        let made = policy::remote(call, &server, &policy, args)?;
        copy(&made.0, &copies.into_iter().collect())?;
        made
    } else {
        policy::apply(call, &policy, &mut args)?;
        if encoding == "pkcs12" && !args.contains("private_key") && args.contains("signing_cert") {
            return Err(CallError::Invocation(NO_KEY.to_owned()));
        }
        local(&args)?
    };
    let chain = chain(&added)?;
    let how = Encoding {
        name: &encoding,
        chain: &chain,
        key: key.as_ref(),
        passphrase: call.text("pkcs12_passphrase"),
        compatible: call.flag("pkcs12_encryption_compat"),
        friendly_name: call.text("pkcs12_friendlyname").filter(|n| !n.is_empty()),
    };
    let bytes = cert::encode(&cert, &how)?;
    finish(call, bytes, &encoding, path, "Certificate", "CERTIFICATE")
}

/// What a function ends with that finds a file which is to stay.
fn kept(call: &Call<'_>, path: Option<&str>) -> Option<Value> {
    let path =
        path.filter(|p| !p.is_empty() && !call.flag("overwrite") && Path::new(p).is_file())?;
    Some(format!("The file at {path} exists and overwrite was set to false").into())
}

/// Returns what was made, or writes it to a file.
fn finish(
    call: &Call<'_>,
    bytes: Vec<u8>,
    encoding: &str,
    path: Option<String>,
    what: &str,
    label: &str,
) -> Result {
    let Some(path) = path else {
        return Ok(returned(bytes, encoding, call.flag("raw")));
    };
    if encoding == "pem" {
        let overwrite = what != "Certificate" || call.flag("overwrite");
        return Ok(pem::write(&Value::Bytes(bytes), &path, overwrite, Some(label))?.into());
    }
    // PKCS#12 has the key in it.
    if label.contains("PRIVATE") || encoding == "pkcs12" {
        write_private(&path, &bytes).map_err(|e| python::os_error(&e, &path))?;
    } else {
        let written = rewrite(Path::new(&path), &bytes);
        written.map_err(|e| python::os_error(&e, &path))?;
    }
    Ok(format!("{what} written to {path}").into())
}

/// `encode_certificate`.
pub fn encode_certificate(call: &mut Call<'_>) -> Result {
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, CERT_ENCODINGS)?;
    let invocation = |text: &str| Err(CallError::Invocation(text.to_owned()));
    let has_key = call.flag("private_key");
    if encoding == "der" && call.flag("append_certs") {
        return invocation("Cannot encode a certificate chain in DER");
    }
    if encoding != "pkcs12" && has_key {
        return invocation("Embedding private keys is only supported for pkcs12 encoding");
    }
    if encoding == "pkcs12" && !has_key {
        return invocation(NO_KEY);
    }
    let cert = cert::load(call.arg("certificate"), None)?.cert;
    let chain = chain(call.arg("append_certs"))?;
    let key = if has_key {
        let pass = call.text("private_key_passphrase");
        Some(keys::load(call.arg("private_key"), pass.as_deref())?.key)
    } else {
        None
    };
    let how = Encoding {
        name: &encoding,
        chain: &chain,
        key: key.as_ref(),
        passphrase: call.text("pkcs12_passphrase"),
        compatible: call.flag("pkcs12_encryption_compat"),
        friendly_name: call.text("pkcs12_friendlyname").filter(|n| !n.is_empty()),
    };
    let bytes = cert::encode(&cert, &how)?;
    Ok(returned(bytes, &encoding, call.flag("raw")))
}

/// `create_private_key`.
pub fn private_key(call: &mut Call<'_>) -> Result {
    let mut args = keywords(call);
    let size = args
        .remove("bits")
        .unwrap_or_else(|| call.arg("keysize").clone());
    ignore(&mut args, &["cipher", "verbose", "text"]);
    unrecognized(&args)?;
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, KEY_ENCODINGS)?;
    // Whatever is no number is not one of the valid sizes.
    let size = size.truthy().then(|| size.as_int().unwrap_or(-1));
    let key = keys::generate(&python::str(call.arg("algo")), size)?;
    let pass = call.text("passphrase");
    let compatible = call.flag("pkcs12_encryption_compat");
    let bytes = keys::encode(&key, &encoding, pass.as_deref(), compatible)?;
    let path = call.text("path");
    let binary = path.is_some() && encoding != "pem";
    let done = finish(
        call,
        bytes,
        &encoding,
        path,
        "Private key",
        "(?:(RSA|ENCRYPTED) )?PRIVATE KEY",
    )?;
    // As in stock.
    Ok(if binary { Value::Nil } else { done })
}

/// `encode_private_key`.
pub fn encode_private_key(call: &mut Call<'_>) -> Result {
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, KEY_ENCODINGS)?;
    let own = call.text("private_key_passphrase");
    let key = keys::load(call.arg("private_key"), own.as_deref())?.key;
    let pass = call.text("passphrase");
    let compatible = call.flag("pkcs12_encryption_compat");
    let bytes = keys::encode(&key, &encoding, pass.as_deref(), compatible)?;
    Ok(returned(bytes, &encoding, call.flag("raw")))
}

/// `create_csr`.
pub fn csr(call: &mut Call<'_>) -> Result {
    let mut args = arguments(call, &["private_key", "private_key_passphrase", "digest"]);
    if let Some(digest) = args.remove("algorithm") {
        args.set("digest", digest);
    }
    ignore(&mut args, &["text", "version"]);
    policy::shorten(&mut args);
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, ENCODINGS)?;
    let digest = args.get("digest").map(python::str).unwrap_or_default();
    check("digest", &digest, DIGESTS)?;
    let csr = request::draft(&args)?.sign(&digest)?;
    let path = call.text("path");
    finish(
        call,
        csr.encode(&encoding),
        &encoding,
        path,
        "CSR",
        "CERTIFICATE REQUEST",
    )
}

/// `encode_csr`.
pub fn encode_csr(call: &mut Call<'_>) -> Result {
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, ENCODINGS)?;
    let (csr, _) = Csr::load(call.arg("csr"))?;
    Ok(returned(csr.encode(&encoding), &encoding, call.flag("raw")))
}

/// `create_crl`.
pub fn crl(call: &mut Call<'_>) -> Result {
    let mut unknown = keywords(call);
    ignore(&mut unknown, &["text"]);
    unrecognized(&unknown)?;
    let mut args = Map::new();
    for name in [
        "signing_private_key",
        "signing_cert",
        "signing_private_key_passphrase",
        "include_expired",
        "days_valid",
        "extensions",
    ] {
        args.set(name, call.arg(name).clone());
    }
    if call.arg("days_valid").is_nil() {
        args.set("days_valid", 100);
    }
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, ENCODINGS)?;
    let digest = python::str(call.arg("digest"));
    check("digest", &digest, DIGESTS)?;
    let revoked = crl::revocations(call.arg("revoked"));
    let crl = crl::draft(&args, &revoked)?.sign(&digest)?;
    let path = call.text("path");
    finish(
        call,
        crl.encode(&encoding),
        &encoding,
        path,
        "CRL",
        "X509 CRL",
    )
}

/// `encode_crl`.
pub fn encode_crl(call: &mut Call<'_>) -> Result {
    let encoding = python::str(call.arg("encoding"));
    check("encoding", &encoding, ENCODINGS)?;
    let (crl, _) = Crl::load(call.arg("crl"))?;
    Ok(returned(crl.encode(&encoding), &encoding, call.flag("raw")))
}
