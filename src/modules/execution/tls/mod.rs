//! `tls`: a directory of certificate authorities, requests and certificates, below `ca.cert_base_path` (`/etc/pki`). `x509`
//! makes what is signed; this is how older trees use it.

mod make;
mod read;
mod revoke;
#[cfg(test)]
mod tests;

use super::command_helpers;
use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_wire::Value;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::x509::X509;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What `set_ca_path` said.
static CA_PATH: Mutex<Option<String>> = Mutex::new(None);

pub(super) const MODULE: Module = Module {
    name: "tls",
    functions: &[
        Function::new(
            "cert_base_path",
            |c| Ok(base(c).into()),
            "The directory of all authorities.",
        )
        .args(args![cacert_path = None]),
        Function::new(
            "set_ca_path",
            set_ca_path,
            "Sets the directory of all authorities for the rest of the run.",
        )
        .args(args![cacert_path]),
        Function::new("ca_exists", |c| Ok(ca(c).exists().into()), "Whether there is an authority.")
            .args(args![ca_name, cacert_path = None, ca_filename = None]),
        Function::new("get_ca", get_ca, "The path of an authority's certificate, or the certificate.")
            .args(args![ca_name, as_text = False, cacert_path = None]),
        Function::new(
            "get_ca_signed_cert",
            |c| signed(c, "cert_filename", "crt"),
            "The path of a certificate, or the certificate.",
        )
        .args(args![
            ca_name,
            CN = "localhost",
            as_text = False,
            cacert_path = None,
            cert_filename = None
        ]),
        Function::new(
            "get_ca_signed_key",
            |c| signed(c, "key_filename", "key"),
            "The path of a certificate's key, or the key.",
        )
        .args(args![
            ca_name,
            CN = "localhost",
            as_text = False,
            cacert_path = None,
            key_filename = None
        ]),
        Function::new("create_ca", make::create_ca, "Makes an authority, unless there is one.").args(args![
            ca_name,
            bits = {2048},
            days = {365},
            CN = "localhost",
            C = "US",
            ST = "Utah",
            L = "Salt Lake City",
            O = "SaltStack",
            OU = None,
            emailAddress = None,
            fixmode = False,
            cacert_path = None,
            ca_filename = None,
            digest = "sha256",
            onlyif = None,
            unless = None,
            replace = False
        ]),
        Function::new("create_csr", make::create_csr, "Makes a key and a request, unless there is one.").args(
            args![
                ca_name,
                bits = {2048},
                CN = "localhost",
                C = "US",
                ST = "Utah",
                L = "Salt Lake City",
                O = "SaltStack",
                OU = None,
                emailAddress = None,
                subjectAltName = None,
                cacert_path = None,
                ca_filename = None,
                csr_path = None,
                csr_filename = None,
                digest = "sha256",
                type_ext = False,
                cert_type = "server",
                replace = False
            ],
        ),
        Function::new(
            "create_ca_signed_cert",
            make::create_ca_signed_cert,
            "Signs a request, unless there is a certificate.",
        )
        .args(args![
            ca_name,
            CN,
            days = {365},
            cacert_path = None,
            ca_filename = None,
            cert_path = None,
            cert_filename = None,
            digest = "sha256",
            cert_type = None,
            type_ext = False,
            replace = False
        ]),
        Function::new(
            "create_self_signed_cert",
            make::create_self_signed_cert,
            "Makes a key and a certificate that it signs itself, unless there is one.",
        )
        .args(args![
            tls_dir = "tls",
            bits = {2048},
            days = {365},
            CN = "localhost",
            C = "US",
            ST = "Utah",
            L = "Salt Lake City",
            O = "SaltStack",
            OU = None,
            emailAddress = None,
            cacert_path = None,
            cert_filename = None,
            digest = "sha256",
            replace = False
        ]),
        Function::new("create_pkcs12", make::create_pkcs12, "Packs a certificate, its key and the authority for browsers.")
            .args(args![
                ca_name,
                CN,
                passphrase = "",
                cacert_path = None,
                replace = False
            ]),
        Function::new("cert_info", read::cert_info, "What a certificate says.")
            .args(args![cert, digest = "sha256"]),
        Function::new("get_expiration_date", read::get_expiration_date, "When a certificate expires, in UTC.")
            .args(args![cert, date_format = "%Y-%m-%d"]),
        Function::new(
            "get_extensions",
            |c| make::extensions(c, &c.text("cert_type").unwrap_or_default()).map(Value::from),
            "The extensions of a type of certificate: those of the pillar (tls.extensions), or the default.",
        )
        .args(args![cert_type]),
        Function::new("create_empty_crl", revoke::create_empty_crl, "Makes a revocation list without entries, unless there is one.")
            .args(args![
                ca_name,
                cacert_path = None,
                ca_filename = None,
                crl_file = None,
                digest = "sha256"
            ]),
        Function::new("revoke_cert", revoke::revoke_cert, "Revokes a certificate, and writes the revocation list again.")
            .args(args![
                ca_name,
                CN,
                cacert_path = None,
                ca_filename = None,
                cert_path = None,
                cert_filename = None,
                crl_file = None,
                digest = "sha256"
            ]),
        Function::new("validate", revoke::validate, "Whether a certificate is of an authority, in time, and not revoked.")
            .args(args![cert, ca_name, crl_file]),
        Function::new(
            "maybe_fix_ssl_version",
            |c| X509::from_pem(command_helpers::read(&ca(c).file("crt"))?.as_bytes()).map_err(failed).map(|_| Value::Nil),
            "Nothing: authorities made here have the right version.",
        )
        .args(args![ca_name, cacert_path = None, ca_filename = None]),
    ],
};

fn failed(fault: ErrorStack) -> CallError {
    CallError::raised("OpenSSL.crypto.Error", fault.to_string())
}

fn base(call: &Call<'_>) -> String {
    let given = call.text("cacert_path").filter(|path| !path.is_empty());
    let set = || {
        CA_PATH
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    };
    let option = || call.ctx.opts.str("ca.cert_base_path").map(str::to_owned);
    given
        .or_else(set)
        .or_else(option)
        .unwrap_or_else(|| "/etc/pki".to_owned())
}

fn set_ca_path(call: &mut Call<'_>) -> Result {
    let path = call.text("cacert_path").filter(|path| !path.is_empty());
    if path.is_some() {
        *CA_PATH.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }
    Ok(base(call).into())
}

/// Files of an authority or of a certificate: a path without its extension.
struct Files {
    dir: String,
    stem: String,
}

impl Files {
    fn file(&self, extension: &str) -> String {
        format!("{}/{}.{extension}", self.dir, self.stem)
    }

    fn exists(&self) -> bool {
        Path::new(&self.file("crt")).exists()
    }

    /// # Errors
    /// The name is no file name.
    fn new(dir: String, stem: String) -> Result<Files> {
        if stem.is_empty() || stem.contains(['/', '\0', '\n']) || stem.starts_with('.') {
            return Err(CallError::Command(format!(
                "{stem:?} cannot be part of a file name; give another name (cert_filename, csr_filename, ca_filename)"
            )));
        }
        Ok(Files { dir, stem })
    }
}

fn ca(call: &Call<'_>) -> Files {
    let name = call.text("ca_name").unwrap_or_default();
    Files {
        stem: call
            .text("ca_filename")
            .unwrap_or_else(|| format!("{name}_ca_cert")),
        dir: format!("{}/{name}", base(call)),
    }
}

/// The files of a certificate: of a name given with an argument, or of the CN.
fn leaf(call: &Call<'_>, dir: &str, filename: &str) -> Result<Files> {
    let cn = call.text("CN").unwrap_or_default();
    let dir_given = call.text(dir).filter(|path| !path.is_empty());
    let suffix = match call.text("cert_type") {
        Some(kind) if call.flag("type_ext") => format!("_{kind}"),
        _ => String::new(),
    };
    Files::new(
        dir_given.unwrap_or_else(|| format!("{}/certs", ca(call).dir)),
        call.text(filename)
            .unwrap_or_else(|| format!("{cn}{suffix}")),
    )
}

fn get_ca(call: &mut Call<'_>) -> Result {
    let ca = ca(call);
    if !ca.exists() {
        let name = call.text("ca_name").unwrap_or_default();
        return Err(CallError::raised(
            "ValueError",
            format!("Certificate does not exist for {name}"),
        ));
    }
    path_or_text(call, ca.file("crt"))
}

fn path_or_text(call: &Call<'_>, path: String) -> Result {
    Ok(if call.flag("as_text") {
        command_helpers::read(&path)?.into()
    } else {
        path.into()
    })
}

fn signed(call: &mut Call<'_>, filename: &str, extension: &str) -> Result {
    let path = leaf(call, "", filename)?.file(extension);
    if !Path::new(&path).exists() {
        let cn = call.text("CN").unwrap_or_default();
        return Err(CallError::raised(
            "ValueError",
            format!("Certificate does not exists for {cn}"),
        ));
    }
    path_or_text(call, path)
}

fn digest(call: &Call<'_>) -> Result<MessageDigest> {
    let name = call.text("digest").unwrap_or_default();
    MessageDigest::from_name(&name)
        .ok_or_else(|| CallError::raised("ValueError", "No such digest method"))
}

fn io_error(path: &str) -> impl Fn(std::io::Error) -> CallError {
    move |e| python::os_error(&e, path)
}
