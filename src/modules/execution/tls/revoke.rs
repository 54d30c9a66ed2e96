//! The index of an authority as of `openssl ca`, and its revocation list.

use super::files::{Files, authority, ca, digest, failed, io_error, leaf, write_public};
use super::read::{loaded, name, seconds, serial};
use crate::execution::command_helpers::{read, read_file, rewrite, write_file};
use crate::execution::declare::Result;
use crate::execution::{Call, python};
use halite_wire::{Value, map};
use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};
use openssl::error::ErrorStack;
use openssl::x509::{CrlStatus, X509, X509Crl};
use std::fs::File;
use std::path::Path;

/// Revocation lists are valid for a century.
const CRL_DAYS: i64 = 36500;

/// A time as in the index of `openssl ca`.
fn index_time(time: i64) -> String {
    let time = Timestamp::from_second(time).unwrap_or_default();
    time.strftime("%y%m%d%H%M%SZ").to_string()
}

/// A line of the index of `openssl ca`: state, end, revocation, serial number, file, subject.
fn index_line(cert: &X509, revoked: Option<i64>) -> Result<String, ErrorStack> {
    let end = index_time(seconds(cert.not_after())?);
    let serial = serial(cert)?;
    let subject = name(cert.subject_name());
    let parts = subject.0.iter();
    let parts = parts.map(|(key, value)| format!("/{}={}", python::str(key), python::str(value)));
    let subject: String = parts.collect::<String>().replace(['\t', '\n'], " ");
    let state = if revoked.is_some() { "R" } else { "V" };
    let revoked = revoked.map(index_time).unwrap_or_default();
    Ok(format!(
        "{state}\t{end}\t{revoked}\t{serial}\tunknown\t{subject}"
    ))
}

fn index(dir: &str) -> Result<String> {
    let path = format!("{dir}/index.txt");
    if !Path::new(&path).exists() {
        return Ok(String::new());
    }
    // A list of revocations made of an index that could not be read would revoke nothing any more.
    read(&path)
}

/// Holds off others who change the index, until it is dropped.
fn lock(dir: &str) -> Result<Flock<File>> {
    let file = File::open(dir).map_err(io_error(dir))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| io_error(dir)(e.into()))
}

fn write_index(dir: &str, text: &str) -> Result<()> {
    let path = format!("{dir}/index.txt");
    let written = if Path::new(&path).exists() {
        rewrite(Path::new(&path), text.as_bytes())
    } else {
        write_file(&path, text)
    };
    written.map_err(io_error(&path))
}

pub fn add_to_index(dir: &str, cert: &X509) -> Result<()> {
    let line = index_line(cert, None).map_err(failed)?;
    let _lock = lock(dir)?;
    write_index(dir, &format!("{}{line}\n", index(dir)?))
}

/// The field of a line of the index.
fn field(line: &str, n: usize) -> &str {
    line.split('\t').nth(n).unwrap_or_default()
}

fn crl_file(call: &Call<'_>, ca: &Files) -> String {
    let given = call.text("crl_file").filter(|path| !path.is_empty());
    given.unwrap_or_else(|| format!("{}/crl.pem", ca.dir))
}

/// Writes the revocation list of an authority, of what its index says.
fn write_crl(call: &mut Call<'_>, ca: &Files, path: &str, index: &str) -> Result<()> {
    let revoked = index.lines().filter(|line| field(line, 0) == "R");
    let revoked = revoked.map(|line| {
        let at = jiff::civil::DateTime::strptime("%y%m%d%H%M%SZ", field(line, 2));
        let at = at.map(|at| at.strftime("%Y-%m-%d %H:%M:%S").to_string());
        Value::from(map! {
            "serial_number" => field(line, 3), "revocation_date" => at.map_or(Value::Nil, Value::from),
        })
    });
    let kwargs = map! {
        "signing_private_key" => ca.file("key"), "signing_cert" => ca.file("crt"), "days_valid" => CRL_DAYS,
        "digest" => call.text("digest").unwrap_or_default(), "revoked" => revoked.collect::<Vec<Value>>(),
    };
    let crl = call.salt("x509.create_crl", Vec::new(), kwargs)?;
    write_public(path, python::str(&crl).as_bytes())
}

pub fn create_empty_crl(call: &mut Call<'_>) -> Result {
    let ca = ca(call)?;
    if !ca.exists() {
        let name = call.text("ca_name").unwrap_or_default();
        return Ok(format!("There is no CA named \"{name}\"").into());
    }
    let path = crl_file(call, &ca);
    if Path::new(&path).exists() {
        return Ok(format!("CRL \"{path}\" already exists").into());
    }
    digest(call)?;
    write_crl(call, &ca, &path, "")?;
    Ok(format!("Created an empty CRL: \"{path}\"").into())
}

pub fn revoke_cert(call: &mut Call<'_>) -> Result {
    let ca = ca(call)?;
    if !ca.exists() {
        let name = call.text("ca_name").unwrap_or_default();
        return Ok(format!("There is no CA named \"{name}\"").into());
    }
    let path = leaf(call, "cert_path", "cert_filename")?.file("crt");
    let Ok(pem) = read_file(&path) else {
        let cn = call.text("CN").unwrap_or_default();
        return Ok(format!("There is no client certificate named \"{cn}\"").into());
    };
    digest(call)?;
    let cert = X509::from_pem(pem.as_bytes()).map_err(failed)?;
    let serial = serial(&cert).map_err(failed)?;
    let now = Timestamp::now().as_second();
    let line = index_line(&cert, Some(now)).map_err(failed)?;
    let _lock = lock(&ca.dir)?;
    let old = index(&ca.dir)?;
    let is_it = |known: &&str| field(known, 3) == serial;
    if old
        .lines()
        .filter(is_it)
        .any(|known| field(known, 0) == "R")
    {
        return Ok(format!("\"{path}\" was already revoked, serial number: {serial}").into());
    }
    let others: String = old
        .lines()
        .filter(|known| !is_it(known))
        .map(|known| format!("{known}\n"))
        .collect();
    let new = format!("{others}{line}\n");
    // The list first: an index that says more than the list would hide that the list is old.
    let crl = crl_file(call, &ca);
    write_crl(call, &ca, &crl, &new)?;
    write_index(&ca.dir, &new)?;
    Ok(format!("Revoked Certificate: \"{path}\", serial number: {serial}").into())
}

pub fn validate(call: &mut Call<'_>) -> Result {
    let cert = loaded(call)?;
    let ca = ca(call)?;
    let (issuer, _) = authority(&ca)?;
    let key = issuer.public_key().map_err(failed)?;
    let invalid = |why: &str| Ok(map! {"valid" => false, "error" => why}.into());
    if !cert.verify(&key).map_err(failed)? {
        return invalid("the certificate was not signed by this authority");
    }
    let now = Timestamp::now().as_second();
    if seconds(cert.not_before()).map_err(failed)? > now {
        return invalid("certificate is not yet valid");
    }
    if seconds(cert.not_after()).map_err(failed)? < now {
        return invalid("certificate has expired");
    }
    let crl = call.text("crl_file").unwrap_or_default();
    let crl = X509Crl::from_pem(read(&crl)?.as_bytes()).map_err(failed)?;
    if !crl.verify(&key).map_err(failed)? {
        return invalid("the revocation list was not signed by this authority");
    }
    match crl.get_by_cert(&cert) {
        CrlStatus::NotRevoked => Ok(map! {"valid" => true}.into()),
        _ => invalid("certificate revoked"),
    }
}
