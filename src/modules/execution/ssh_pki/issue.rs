//! Certificates that are signed here.

use super::cert::{Cert, CertType, Content};
use super::identity::load_public;
use super::keys::PublicKey;
use super::{private, values};
use crate::context::CallError;
use crate::execution::command_helpers::rewrite;
use crate::execution::declare::Result;
use crate::execution::python;
use crate::execution::x509::{in_seconds, now, time_under};
use halite_wire::{Map, Value};
use openssl::pkey::{PKey, Private};
use std::path::Path;

/// How long certificates of hosts and users are valid if nobody says so.
const HOST_TTL: i64 = 30 * 86400;
const USER_TTL: i64 = 86400;

/// The arguments that a certificate is made of.
const ARGUMENTS: [&str; 17] = [
    "signing_private_key",
    "cert_type",
    "signing_private_key_passphrase",
    "private_key",
    "private_key_passphrase",
    "public_key",
    "serial_number",
    "not_before",
    "not_after",
    "ttl",
    "critical_options",
    "extensions",
    "valid_principals",
    "all_principals",
    "key_id",
    "copypath",
    "signing_public_key",
];
/// The last of them, which only another minion's policy has.
const REMOTE: &str = "signing_public_key";

/// A certificate that is not signed yet.
pub struct Draft {
    /// What is in it.
    pub content: Content,
    /// The key that signs it, if it is signed here.
    pub signing_key: Option<PKey<Private>>,
    /// The public key of who signs it, if that is known.
    pub signer: Option<PublicKey>,
}

fn type_error(text: String) -> CallError {
    CallError::Type(format!("build_crt() {text}"))
}

/// Refuses arguments as Python would.
fn check(args: &Map, signs: bool) -> Result<()> {
    let names = args.iter().filter_map(|(key, _)| key.as_str());
    for name in names {
        if !ARGUMENTS.contains(&name) || (signs && name == REMOTE) {
            let text = format!("got an unexpected keyword argument '{name}'");
            return Err(type_error(text));
        }
    }
    let needed = ["signing_private_key", "cert_type"];
    let needed = needed.iter().skip(usize::from(!signs));
    let missing: Vec<String> = needed
        .filter(|name| !args.contains(name))
        .map(|name| format!("'{name}'"))
        .collect();
    match missing.len() {
        0 => Ok(()),
        1 => Err(type_error(format!(
            "missing 1 required positional argument: {}",
            missing.join("")
        ))),
        count => Err(type_error(format!(
            "missing {count} required positional arguments: {}",
            missing.join(" and ")
        ))),
    }
}

/// Makes a draft from arguments. Without `signs` it is only for a comparison with what another minion signs.
///
/// # Errors
/// Arguments are wrong or missing.
pub fn draft(args: &Map, signs: bool) -> Result<Draft> {
    check(args, signs)?;
    let get = |key: &str| args.get(key).unwrap_or(&Value::Nil);
    let given = |key: &str| args.get(key).filter(|v| v.truthy());
    let private = |key: &str, passphrase: &str| {
        let pass = Some(get(passphrase)).filter(|v| !v.is_nil());
        private::load(get(key), pass.map(python::str).as_deref())
    };
    let cert_type = python::str(get("cert_type"));
    let cert_type = CertType::named(&cert_type).ok_or_else(|| {
        let text = format!("Cert type needs to be either `user` or `host`, got '{cert_type}'");
        CallError::Invocation(text)
    })?;
    let mut signer = None;
    let mut signing_key = None;
    if signs {
        let key = private("signing_private_key", "signing_private_key_passphrase")?;
        signer = Some(PublicKey::of(&key)?);
        signing_key = Some(key);
    } else if let Some(from) = given(REMOTE) {
        signer = Some(load_public(from)?);
    }
    let serial = values::serial(get("serial_number"))?;
    let key = if given("private_key").is_some() {
        PublicKey::of(&*private("private_key", "private_key_passphrase")?)?
    } else if let Some(from) = given("public_key") {
        load_public(from)?
    } else {
        return Err(CallError::Invocation(
            "Need public_key or private_key to derive public key to sign".to_owned(),
        ));
    };
    let key_id = values::key_id(get("key_id"))?;
    let principals = match given("valid_principals") {
        Some(names) => values::principals(names)?,
        None if given("all_principals").is_some() => Vec::new(),
        None => {
            return Err(CallError::Invocation(
                "Must either set all_principals to true or specify principals to allow".to_owned(),
            ));
        }
    };
    let (valid_after, valid_before) = validity(args, cert_type)?;
    Ok(Draft {
        content: Content {
            key,
            serial,
            cert_type,
            key_id,
            principals,
            valid_after,
            valid_before,
            critical: values::fields(get("critical_options"))?,
            extensions: values::fields(get("extensions"))?,
        },
        signing_key,
        signer,
    })
}

fn validity(args: &Map, cert_type: CertType) -> Result<(u64, u64)> {
    let from = time_under(args, "not_before")?.unwrap_or_else(now);
    let until = match time_under(args, "not_after")? {
        Some(when) => when,
        None => {
            let usual = match cert_type {
                CertType::Host => HOST_TTL,
                CertType::User => USER_TTL,
            };
            match args.get("ttl").filter(|v| !v.is_nil()) {
                Some(ttl) => in_seconds(values::seconds(ttl)?)?,
                None => now() + usual,
            }
        }
    };
    let positive = |when: i64, what: &str| {
        u64::try_from(when)
            .map_err(|_| CallError::raised("ValueError", format!("valid_{what} must [0, 2**64)")))
    };
    let (after, before) = (positive(from, "after")?, positive(until, "before")?);
    if after > before {
        let text = "valid_after must be earlier than valid_before";
        return Err(CallError::raised("ValueError", text));
    }
    Ok((after, before))
}

/// Makes and signs a certificate, and leaves a copy of it where that is wanted.
///
/// # Errors
/// As [`draft`], or the copy cannot be written.
pub fn local(args: &Map) -> Result<Cert> {
    let draft = draft(args, true)?;
    let Some(key) = draft.signing_key else {
        return Err(type_error("got no signing_private_key".to_owned()));
    };
    let cert = Cert::sign(draft.content, &key)?;
    copy(&cert, args.get("copypath"))?;
    Ok(cert)
}

/// Leaves a copy of a certificate in a directory, if there is one.
///
/// # Errors
/// It cannot be written.
pub fn copy(cert: &Cert, directory: Option<&Value>) -> Result<()> {
    let Some(directory) = directory.filter(|v| v.truthy()) else {
        return Ok(());
    };
    let name = format!("{:x}.crt", cert.serial);
    let path = Path::new(&python::str(directory)).join(name);
    let written = rewrite(&path, cert.text().as_bytes());
    written.map_err(|e| python::os_error(&e, &path.to_string_lossy()))
}
