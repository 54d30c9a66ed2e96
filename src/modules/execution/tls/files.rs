//! Where authorities and their certificates lie.

use crate::execution::command_helpers::{read, write_file};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::x509::X509;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What `set_ca_path` said.
static CA_PATH: Mutex<Option<String>> = Mutex::new(None);

pub fn failed(fault: ErrorStack) -> CallError {
    CallError::raised("OpenSSL.crypto.Error", fault.to_string())
}

pub fn base(call: &Call<'_>) -> String {
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

pub fn set_ca_path(call: &mut Call<'_>) -> Result {
    let path = call.text("cacert_path").filter(|path| !path.is_empty());
    if path.is_some() {
        *CA_PATH.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }
    Ok(base(call).into())
}

/// Files of an authority or of a certificate: a path without its extension.
pub struct Files {
    pub dir: String,
    pub stem: String,
}

impl Files {
    pub fn file(&self, extension: &str) -> String {
        format!("{}/{}.{extension}", self.dir, self.stem)
    }

    pub fn exists(&self) -> bool {
        Path::new(&self.file("crt")).exists()
    }

    /// # Errors
    /// The name is no file name.
    pub fn new(dir: String, stem: String) -> Result<Files> {
        if stem.is_empty() || stem.contains(['/', '\0', '\n']) || stem.starts_with('.') {
            return Err(CallError::Command(format!(
                "{stem:?} cannot be part of a file name; give another name (cert_filename, csr_filename, ca_filename)"
            )));
        }
        Ok(Files { dir, stem })
    }
}

/// An argument that names a directory below the base.
///
/// # Errors
/// It leads out of it.
pub fn directory(call: &Call<'_>, name: &str) -> Result<String> {
    let dir = call.text(name).unwrap_or_default();
    let leaves = dir.is_empty() || dir.starts_with('/') || dir.split('/').any(|part| part == "..");
    if leaves || dir.contains(['\0', '\n']) {
        return Err(CallError::Command(format!(
            "{name} {dir:?} is no directory below {}",
            base(call)
        )));
    }
    Ok(dir)
}

/// The files of an authority.
pub fn ca(call: &Call<'_>) -> Result<Files> {
    let name = directory(call, "ca_name")?;
    Ok(Files {
        stem: call
            .text("ca_filename")
            .unwrap_or_else(|| format!("{name}_ca_cert")),
        dir: format!("{}/{name}", base(call)),
    })
}

/// The files of a certificate: of a name given with an argument, or of the CN.
pub fn leaf(call: &Call<'_>, dir: &str, filename: &str) -> Result<Files> {
    let cn = call.text("CN").unwrap_or_default();
    let dir_given = call.text(dir).filter(|path| !path.is_empty());
    let suffix = match call.text("cert_type") {
        Some(kind) if call.flag("type_ext") => format!("_{kind}"),
        _ => String::new(),
    };
    Files::new(
        match dir_given {
            Some(dir) => dir,
            None => format!("{}/certs", ca(call)?.dir),
        },
        call.text(filename)
            .unwrap_or_else(|| format!("{cn}{suffix}")),
    )
}

pub fn get_ca(call: &mut Call<'_>) -> Result {
    let ca = ca(call)?;
    if !ca.exists() {
        let name = call.text("ca_name").unwrap_or_default();
        return Err(CallError::raised(
            "ValueError",
            format!("Certificate does not exist for {name}"),
        ));
    }
    path_or_text(call, ca.file("crt"))
}

pub fn path_or_text(call: &Call<'_>, path: String) -> Result {
    Ok(if call.flag("as_text") {
        read(&path)?.into()
    } else {
        path.into()
    })
}

pub fn signed(call: &mut Call<'_>, filename: &str, extension: &str) -> Result {
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

pub fn digest(call: &Call<'_>) -> Result<MessageDigest> {
    let name = call.text("digest").unwrap_or_default();
    MessageDigest::from_name(&name)
        .ok_or_else(|| CallError::raised("ValueError", "No such digest method"))
}

pub fn io_error(path: &str) -> impl Fn(std::io::Error) -> CallError {
    move |e| python::os_error(&e, path)
}

pub fn authority(ca: &Files) -> Result<(X509, PKey<Private>)> {
    let cert = X509::from_pem(read(&ca.file("crt"))?.as_bytes()).map_err(failed)?;
    let key = PKey::private_key_from_pem(read(&ca.file("key"))?.as_bytes()).map_err(failed)?;
    Ok((cert, key))
}

pub fn write_public(path: &str, pem: &[u8]) -> Result<()> {
    write_file(path, &String::from_utf8_lossy(pem)).map_err(io_error(path))
}
