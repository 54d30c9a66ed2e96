//! Keys: fingerprints, types, and those on this host.

use crate::execution::declare::Result;
use crate::execution::{Call, CallError, accounts, python};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use halite_wire::{Map, Value};
use md5::Digest;
use std::path::Path;

/// Like Python's `b64decode` with `validate`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The fingerprint of a public key; `None` if invalid.
pub fn fingerprint(key: &str, hash: &Value) -> Result<Option<String>> {
    let name = if hash.truthy() {
        python::str(hash).to_lowercase()
    } else {
        "sha256".to_owned()
    };
    let digest: fn(&[u8]) -> Vec<u8> = match name.as_str() {
        "md5" => |d| md5::Md5::digest(d).to_vec(),
        "sha1" => |d| sha1::Sha1::digest(d).to_vec(),
        "sha224" => |d| sha2::Sha224::digest(d).to_vec(),
        "sha256" => |d| sha2::Sha256::digest(d).to_vec(),
        "sha384" => |d| sha2::Sha384::digest(d).to_vec(),
        "sha512" => |d| sha2::Sha512::digest(d).to_vec(),
        _ => {
            let text = format!("The fingerprint_hash_type {name} is not supported.");
            return Err(CallError::Command(text));
        }
    };
    let Ok(raw) = BASE64.decode(key) else {
        return Ok(None);
    };
    let pairs: Vec<String> = digest(&raw).iter().map(|b| format!("{b:02x}")).collect();
    Ok(Some(pairs.join(":")))
}

/// The full name of a key type.
///
/// # Errors
/// Unknown type.
pub fn kind(enc: &Value) -> Result<String> {
    const FULL_NAMES: [&str; 13] = [
        "rsa-sha2-512",
        "rsa-sha2-256",
        "rsa-sha2-512-cert-v01@openssh.com",
        "rsa-sha2-256-cert-v01@openssh.com",
        "ssh-rsa-cert-v01@openssh.com",
        "ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "ecdsa-sha2-nistp384-cert-v01@openssh.com",
        "ecdsa-sha2-nistp521-cert-v01@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
        "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "ssh-ed25519-cert-v01@openssh.com",
        "sk-ssh-ed25519@openssh.com",
        "sk-ssh-ed25519-cert-v01@openssh.com",
    ];
    let enc = python::str(enc);
    let full = match enc.as_str() {
        "r" | "rsa" | "ssh-rsa" => "ssh-rsa",
        "d" | "dsa" | "dss" | "ssh-dss" => "ssh-dss",
        "e" | "ecdsa" => "ecdsa-sha2-nistp256",
        own @ ("ecdsa-sha2-nistp521" | "ecdsa-sha2-nistp384" | "ecdsa-sha2-nistp256") => own,
        "ed25519" | "ssh-ed25519" => "ssh-ed25519",
        own if FULL_NAMES.contains(&own) => own,
        _ => {
            return Err(CallError::Command(format!(
                "Incorrect encryption key type '{enc}'."
            )));
        }
    };
    Ok(full.to_owned())
}

/// Parses names like `ssh_host_rsa_key.pub`: `rsa.pub`, and whether it is public and a certificate.
fn host_key(name: &str) -> Option<(String, bool, bool)> {
    let rest = name.strip_prefix("ssh_host_")?;
    let at = rest.rfind("_key").filter(|at| *at > 0)?;
    let (kind, end) = (&rest[..at], &rest[at + 4..]);
    let (suffix, public, cert) = if end.starts_with("-cert.pub") {
        ("-cert.pub", true, true)
    } else if end.starts_with(".pub") {
        (".pub", true, false)
    } else {
        ("", false, false)
    };
    Some((format!("{kind}{suffix}"), public, cert))
}

pub fn host_keys(call: &mut Call<'_>) -> Result {
    let dir = call.text("keydir").filter(|d| !d.is_empty());
    let dir = dir.unwrap_or_else(|| "/etc/ssh".to_owned());
    let off = |name| *call.arg(name) == Value::Bool(false);
    let (no_private, no_certs) = (off("private"), off("certs"));
    let entries =
        std::fs::read_dir(&dir).map_err(|e| crate::execution::python::os_error(&e, &dir))?;
    let mut keys = Map::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((kind, public, cert)) = host_key(&name) else {
            continue;
        };
        if (!public && no_private) || (cert && no_certs) {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        keys.set(kind, text.trim());
    }
    Ok(keys.into())
}

/// User names: one, several, or all.
pub fn users(value: &Value) -> Result<Vec<String>> {
    Ok(match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(python::str).collect(),
        one if one.truthy() => vec![python::str(one)],
        _ => {
            let mut all: Vec<String> = accounts::accounts(None)?
                .into_iter()
                .map(|a| a.name)
                .collect();
            all.sort();
            all
        }
    })
}

pub fn user_keys(call: &mut Call<'_>) -> Result {
    const PUBLIC: [&str; 4] = ["id_rsa.pub", "id_dsa.pub", "id_ecdsa.pub", "id_ed25519.pub"];
    const PRIVATE: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];
    let mut files = Vec::new();
    for (arg, usual) in [("pubfile", PUBLIC), ("prvfile", PRIVATE)] {
        match call.arg(arg) {
            given if given.truthy() => files.push(python::str(given)),
            Value::Bool(false) => {}
            _ => files.extend(usual.map(str::to_owned)),
        }
    }
    let mut ret = Map::new();
    for name in users(call.arg("user"))? {
        let Some(account) = accounts::by_name(&name, None)? else {
            continue;
        };
        let mut keys = Map::new();
        for file in &files {
            let (key, path) = if file.starts_with('/') {
                (file.rsplit('/').next().unwrap_or_default(), file.clone())
            } else {
                (file.as_str(), format!("{}/.ssh/{file}", account.home))
            };
            if let Ok(text) = std::fs::read_to_string(path) {
                keys.set(key, text.trim());
            }
        }
        if !keys.is_empty() {
            ret.set(name, keys);
        }
    }
    Ok(ret.into())
}

pub fn key_is_encrypted(call: &mut Call<'_>) -> Result {
    let path = python::str(call.arg("key"));
    let text = std::fs::read_to_string(Path::new(&path)).map_err(|e| {
        CallError::Command(match (e.kind(), e.raw_os_error()) {
            (std::io::ErrorKind::NotFound, _) => format!("{path} does not exist"),
            (std::io::ErrorKind::PermissionDenied, _) => {
                format!("Permission denied reading from {path}")
            }
            (_, Some(number)) => format!(
                "Error {number} encountered reading from {path}: {}",
                nix::errno::Errno::from_raw(number).desc()
            ),
            _ => format!("{path}: {e}"),
        })
    })?;
    let private = text.split("BEGIN ").skip(1).any(|rest| {
        rest.split_once("PRIVATE KEY").is_some_and(|(words, _)| {
            (words.is_empty() || words.ends_with(' '))
                && words
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '_' || c == ' ')
        })
    });
    if private {
        Ok(text.contains("ENCRYPTED").into())
    } else {
        Err(CallError::Command(format!("{path} is not a private key")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints() {
        let md5 = fingerprint("YWJj", &"MD5".into()).unwrap().unwrap();
        assert_eq!(md5, "90:01:50:98:3c:d2:4f:b0:d6:96:3f:7d:28:e1:7f:72");
        assert!(
            fingerprint("YWJj", &Value::Nil)
                .unwrap()
                .unwrap()
                .starts_with("ba:78:16:bf")
        );
        assert_eq!(fingerprint("YWJ", &Value::Nil).unwrap(), None);
        assert!(fingerprint("YWJj", &"rot13".into()).is_err());
    }

    #[test]
    fn host_key_names() {
        let found = |n| host_key(n).map(|(kind, ..)| kind);
        assert_eq!(found("ssh_host_rsa_key").as_deref(), Some("rsa"));
        assert_eq!(
            found("ssh_host_rsa_key-cert.pub").as_deref(),
            Some("rsa-cert.pub")
        );
        assert_eq!(found("ssh_config"), None);
    }
}
