//! Keys, requests and certificates.

use super::files::{
    Files, authority, base, ca, digest, directory, failed, io_error, leaf, write_public,
};
use super::revoke::add_to_index;
use crate::execution::command_helpers::{read_file, write_private};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use jiff::Timestamp;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{HasPublic, PKey, PKeyRef, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, KeyUsage, SubjectKeyIdentifier,
};
use openssl::x509::{X509, X509Builder, X509Name, X509NameRef, X509Req};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

const SUBJECT: [&str; 7] = ["C", "ST", "L", "O", "OU", "CN", "emailAddress"];

/// The subject that the arguments name.
fn subject(call: &Call<'_>) -> Result<X509Name> {
    let build = || {
        let mut name = X509Name::builder()?;
        for field in SUBJECT {
            if let Some(value) = call.text(field).filter(|value| !value.is_empty()) {
                name.append_entry_by_text(field, &value)?;
            }
        }
        Ok(name.build())
    };
    build().map_err(failed)
}

fn new_key(call: &Call<'_>) -> Result<PKey<Private>> {
    let bits = call.arg("bits").as_int();
    let bits = bits.and_then(|bits| u32::try_from(bits).ok());
    let bits = bits.filter(|bits| (2048..=8192).contains(bits));
    let bits = bits.ok_or_else(|| {
        CallError::Invocation("bits must be a number from 2048 to 8192".to_owned())
    })?;
    let key = Rsa::generate(bits).map_err(failed)?;
    PKey::from_rsa(key).map_err(failed)
}

fn write_key(files: &Files, key: &PKey<Private>) -> Result<String> {
    let path = files.file("key");
    let pem = key.private_key_to_pem_pkcs8().map_err(failed)?;
    write_private(&path, &pem).map_err(io_error(&path))?;
    Ok(format!("Created Private Key: \"{path}\""))
}

/// A certificate that its key signs.
fn self_signed(
    call: &Call<'_>,
    key: &PKey<Private>,
    digest: MessageDigest,
    is_ca: bool,
) -> Result<X509> {
    let name = subject(call)?;
    let days = days(call)?;
    let build = || {
        let mut builder = new_certificate(&name, &name, key, days)?;
        if is_ca {
            let basic = BasicConstraints::new().critical().ca().pathlen(0).build()?;
            builder.append_extension(basic)?;
            let usage = KeyUsage::new()
                .critical()
                .key_cert_sign()
                .crl_sign()
                .build()?;
            builder.append_extension(usage)?;
            let own = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
            builder.append_extension(own)?;
            let issuer = AuthorityKeyIdentifier::new()
                .keyid(true)
                .issuer(true)
                .build(&builder.x509v3_context(None, None))?;
            builder.append_extension(issuer)?;
        }
        builder.sign(key, digest)?;
        Ok(builder.build())
    };
    build().map_err(failed)
}

fn days(call: &Call<'_>) -> Result<u32> {
    let days = call.arg("days").as_int();
    let days = days.and_then(|days| u32::try_from(days).ok());
    days.ok_or_else(|| CallError::Invocation("days must be a number".to_owned()))
}

/// A certificate without extensions, not signed yet.
fn new_certificate<T: HasPublic>(
    subject: &X509NameRef,
    issuer: &X509NameRef,
    key: &PKeyRef<T>,
    days: u32,
) -> Result<X509Builder, ErrorStack> {
    let mut serial = [0; 19];
    openssl::rand::rand_bytes(&mut serial)?;
    // Positive, and never shorter.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = BigNum::from_slice(&serial)?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    let start = Asn1Time::days_from_now(0)?;
    builder.set_not_before(&start)?;
    let end = Asn1Time::days_from_now(days)?;
    builder.set_not_after(&end)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    Ok(builder)
}

pub fn create_ca(call: &mut Call<'_>) -> Result {
    for (name, wanted) in [("onlyif", true), ("unless", false)] {
        let commands = match call.arg(name) {
            Value::Nil => continue,
            Value::Array(all) => all.clone(),
            one => vec![one.clone()],
        };
        for command in commands {
            let kwargs = map! {"python_shell" => true, "ignore_retcode" => true};
            let status = call.salt("cmd.retcode", vec![command], kwargs)?;
            if (status.as_int() == Some(0)) != wanted {
                return Ok(Value::Nil);
            }
        }
    }
    let digest = digest(call)?;
    let name = call.text("ca_name").unwrap_or_default();
    let ca = ca(call)?;
    let ca = Files::new(ca.dir, ca.stem)?;
    if ca.exists() && !call.flag("replace") {
        return Ok(format!("Certificate for CA named \"{name}\" already exists").into());
    }
    make_dir(&ca.dir)?;
    let key = new_key(call)?;
    let cert = self_signed(call, &key, digest, true)?;
    let old = ca.file("key");
    if Path::new(&old).exists() {
        let kept = format!("{old}.{}", Timestamp::now().strftime("%Y%m%d%H%M%S"));
        std::fs::rename(&old, &kept).map_err(io_error(&old))?;
    }
    let key = write_key(&ca, &key)?;
    let path = ca.file("crt");
    write_public(&path, &cert.to_pem().map_err(failed)?)?;
    add_to_index(&ca.dir, &cert)?;
    Ok(format!("{key} Created CA \"{name}\": \"{path}\"").into())
}

pub fn create_self_signed_cert(call: &mut Call<'_>) -> Result {
    let digest = digest(call)?;
    let cn = call.text("CN").unwrap_or_default();
    let dir = directory(call, "tls_dir")?;
    let top = format!("{}/{dir}", base(call));
    let files = Files::new(
        format!("{top}/certs"),
        call.text("cert_filename").unwrap_or_else(|| cn.clone()),
    )?;
    if files.exists() && !call.flag("replace") {
        return Ok(format!("Certificate \"{}\" already exists", files.stem).into());
    }
    make_dir(&files.dir)?;
    let key = new_key(call)?;
    let cert = self_signed(call, &key, digest, false)?;
    let key = write_key(&files, &key)?;
    let path = files.file("crt");
    write_public(&path, &cert.to_pem().map_err(failed)?)?;
    add_to_index(&top, &cert)?;
    Ok(format!("{key} Created Certificate: \"{path}\"").into())
}

/// The extensions of requests and certificates of a type.
pub fn extensions(call: &mut Call<'_>, kind: &str) -> Result<Map> {
    let mut csr = Map::new();
    let mut cert = Map::new();
    for of in ["common", kind] {
        let key = format!("tls.extensions:{of}");
        let found = call.salt("pillar.get", vec![key.into()], Map::new())?;
        let found = found.into_map().unwrap_or_default();
        for (name, into) in [("csr", &mut csr), ("cert", &mut cert)] {
            if let Some(Value::Map(all)) = found.get(name) {
                for (extension, value) in &all.0 {
                    into.set(python::str(extension), value.clone());
                }
            }
        }
    }
    if csr.is_empty() && cert.is_empty() {
        csr = match kind {
            "server" => map! {
                "basicConstraints" => "CA:FALSE", "extendedKeyUsage" => "serverAuth",
                "keyUsage" => "digitalSignature, keyEncipherment",
            },
            "client" => map! {
                "basicConstraints" => "CA:FALSE", "extendedKeyUsage" => "clientAuth",
                "keyUsage" => "nonRepudiation, digitalSignature, keyEncipherment",
            },
            other => {
                return Err(CallError::Invocation(format!(
                    "cert_type '{other}' is neither server nor client, and the pillar has no tls.extensions:{other}"
                )));
            }
        };
        cert = map! {"authorityKeyIdentifier" => "keyid,issuer:always", "subjectKeyIdentifier" => "hash"};
    }
    Ok(map! {"csr" => csr, "cert" => cert})
}

pub fn create_csr(call: &mut Call<'_>) -> Result {
    let name = call.text("ca_name").unwrap_or_default();
    if !ca(call)?.exists() {
        return Ok(format!(
            "Certificate for CA named \"{name}\" does not exist, please create it first."
        )
        .into());
    }
    let digest = digest(call)?;
    let files = leaf(call, "csr_path", "csr_filename")?;
    let path = files.file("csr");
    if Path::new(&path).exists() && !call.flag("replace") {
        return Ok(format!("Certificate Request \"{path}\" already exists").into());
    }
    let kind = call.text("cert_type").unwrap_or_default();
    let wanted = extensions(call, &kind)?;
    let key = new_key(call)?;
    let key_pem = key.private_key_to_pem_pkcs8().map_err(failed)?;
    let key_pem = String::from_utf8_lossy(&key_pem).into_owned();
    let mut kwargs = map! {"private_key" => key_pem, "CN" => "extensions"};
    if let Some(Value::Map(csr)) = wanted.get("csr") {
        for (extension, value) in &csr.0 {
            kwargs.set(python::str(extension), value.clone());
        }
    }
    match call.arg("subjectAltName") {
        Value::Nil => {}
        Value::Array(names) => {
            let names: Vec<String> = names.iter().map(python::str).collect();
            kwargs.set("subjectAltName", names.join(", "));
        }
        name => kwargs.set("subjectAltName", python::str(name)),
    }
    // `x509` reads extensions as openssl.cnf has them, but puts subjects into an order of its own.
    let like = call.salt("x509.create_csr", Vec::new(), kwargs)?;
    let name = subject(call)?;
    let build = || {
        let like = X509Req::from_pem(python::str(&like).as_bytes())?;
        let mut builder = X509Req::builder()?;
        builder.set_version(0)?;
        builder.set_subject_name(&name)?;
        builder.set_pubkey(&key)?;
        let extensions = like.extensions()?;
        builder.add_extensions(&extensions)?;
        builder.sign(&key, digest)?;
        builder.build().to_pem()
    };
    let csr = build().map_err(failed)?;
    make_dir(&files.dir)?;
    let key = write_key(&files, &key)?;
    write_public(&path, &csr)?;
    let cn = call.text("CN").unwrap_or_default();
    Ok(format!("{key} Created CSR for \"{cn}\": \"{path}\"").into())
}

pub fn create_ca_signed_cert(call: &mut Call<'_>) -> Result {
    let refused = |text: String| Ok(map! {"retcode" => 1, "comment" => text}.into());
    let cn = call.text("CN").unwrap_or_default();
    let files = leaf(call, "cert_path", "cert_filename")?;
    if files.exists() && !call.flag("replace") {
        return Ok(format!("Certificate \"{}\" already exists", files.stem).into());
    }
    let ca = ca(call)?;
    if !ca.exists() {
        let name = call.text("ca_name").unwrap_or_default();
        return refused(format!("There is no CA named \"{name}\""));
    }
    let digest = digest(call)?;
    // The request has the name of the CN, whatever the certificate is called.
    let request = leaf(call, "cert_path", "")?.file("csr");
    let Ok(request) = read_file(&request) else {
        return refused(format!("There is no CSR that matches the CN \"{cn}\""));
    };
    let days = days(call)?;
    let (issuer, key) = authority(&ca)?;
    let cert = sign(&request, &issuer, &key, days, digest).map_err(failed)?;
    make_dir(&files.dir)?;
    let path = files.file("crt");
    write_public(&path, &cert.to_pem().map_err(failed)?)?;
    add_to_index(&ca.dir, &cert)?;
    Ok(format!("Created Certificate for \"{cn}\": \"{path}\"").into())
}

/// A certificate of what a request asks for.
fn sign(
    request: &str,
    issuer: &X509,
    key: &PKey<Private>,
    days: u32,
    digest: MessageDigest,
) -> Result<X509, ErrorStack> {
    let request = X509Req::from_pem(request.as_bytes())?;
    let public = request.public_key()?;
    let mut builder =
        new_certificate(request.subject_name(), issuer.subject_name(), &public, days)?;
    // A request without extensions is an error for OpenSSL.
    if let Ok(extensions) = request.extensions() {
        for extension in &extensions {
            builder.append_extension2(extension)?;
        }
    }
    builder.sign(key, digest)?;
    Ok(builder.build())
}

pub fn create_pkcs12(call: &mut Call<'_>) -> Result {
    let cn = call.text("CN").unwrap_or_default();
    let ca = ca(call)?;
    let files = leaf(call, "", "")?;
    let path = files.file("p12");
    if Path::new(&path).exists() && !call.flag("replace") {
        return Ok(format!("Certificate \"{cn}\" already exists").into());
    }
    let Ok(issuer) = read_file(&ca.file("crt")) else {
        let name = call.text("ca_name").unwrap_or_default();
        return Ok(format!("There is no CA named \"{name}\"").into());
    };
    let (Ok(cert), Ok(key)) = (read_file(&files.file("crt")), read_file(&files.file("key"))) else {
        return Ok(format!("There is no certificate that matches the CN \"{cn}\"").into());
    };
    let pack = || {
        let mut chain = openssl::stack::Stack::new()?;
        chain.push(X509::from_pem(issuer.as_bytes())?)?;
        let cert = X509::from_pem(cert.as_bytes())?;
        let key = PKey::private_key_from_pem(key.as_bytes())?;
        let mut builder = Pkcs12::builder();
        builder.ca(chain).cert(&cert).pkey(&key);
        builder
            .build2(&call.text("passphrase").unwrap_or_default())?
            .to_der()
    };
    let der = pack().map_err(failed)?;
    write_private(&path, &der).map_err(io_error(&path))?;
    Ok(format!("Created PKCS#12 Certificate for \"{cn}\": \"{path}\"").into())
}

fn make_dir(dir: &str) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(dir).map_err(io_error(dir))
}
