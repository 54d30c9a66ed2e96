//! `private_key_managed`.

use super::super::made_file::{Found, Managed, PRIVATE_KEY, only, split};
use super::{MODULE_NAME, unrecognized};
use crate::declare::{Result, State};
use halite_modules::execution::x509::keys::{self, LoadedKey};
use halite_modules::execution::x509::source::LoadError;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (mut file, mut others) = split(s);
    let size = others
        .remove("bits")
        .unwrap_or_else(|| s.arg("keysize").clone());
    for name in ["cipher", "verbose", "text"] {
        others.remove(name);
    }
    unrecognized(&others)?;
    if !file.get("mode").is_some_and(Value::truthy) {
        // Nobody else may read it.
        file.set("mode", "0400");
    }
    let encoding = python::str(s.arg("encoding"));
    let managed = Managed {
        what: PRIVATE_KEY,
        module: MODULE_NAME,
        file,
        binary: encoding != "pem",
    };
    let kind = python::str(s.arg("algo"));
    let fault = (size.truthy() && ["ed25519", "ed448"].contains(&kind.as_str()))
        .then(|| format!("keysize is an invalid parameter for {kind}"));
    if let Some(fault) = fault {
        return Ok(crate::declare::StateOutcome::bad(fault));
    }
    let mut wanted = s.pick(&["algo", "passphrase", "encoding", "pkcs12_encryption_compat"]);
    wanted.set("keysize", size.clone());
    managed.run(
        s,
        |s, path| look(s, path, &size),
        |s, found| {
            // The key stays if only its form changes.
            match &found.more {
                Some(key) if only(&found.changes, &["encoding", "passphrase"]) => {
                    let kwargs = s.pick(&["passphrase", "encoding"]);
                    s.salt_with("x509.encode_private_key", vec![key.clone()], kwargs)
                }
                _ => s.salt_with("x509.create_private_key", Vec::new(), wanted),
            }
        },
    )
}

/// Compares the key in a file with what is wanted.
fn look(s: &State<'_, '_>, path: Option<&str>, size: &Value) -> Result<Found<Option<Value>>> {
    let mut changes = Map::new();
    let is_there = path.is_some();
    let new = s.flag("new");
    let current = match path {
        Some(path) if !new => load(s, path, &mut changes)?,
        _ => None,
    };
    let mut found = Found {
        is_there,
        ..Found::default()
    };
    match current {
        Some(loaded) => {
            compare(s, &loaded, size, &mut changes);
            let der = loaded.key.private_key_to_pkcs8().map_err(keys::failed)?;
            found.more = Some(Value::Bytes(der));
            found.is_valid = true;
        }
        None if is_there && new => changes.set("replaced", s.name()),
        None => changes.set("created", s.name()),
    }
    found.changes = changes;
    Ok(found)
}

fn load(s: &State<'_, '_>, path: &str, changes: &mut Map) -> Result<Option<LoadedKey>> {
    let refused = |text: &str| {
        if s.flag("overwrite") {
            Ok(None)
        } else {
            Err(CallError::Command(text.to_owned()))
        }
    };
    let path = Value::from(path);
    match keys::load(&path, s.text("passphrase").as_deref()) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(LoadError::NotEncrypted) => {
            changes.set("passphrase", true);
            Ok(Some(keys::load(&path, None)?))
        }
        Err(LoadError::WrongPassphrase) => {
            changes.set("passphrase", true);
            refused(
                "The provided passphrase cannot decrypt the private key. Pass overwrite: true to force regeneration",
            )
        }
        Err(LoadError::NoPassphrase) => {
            changes.set("passphrase", true);
            refused(
                "The existing file is encrypted. Pass overwrite: true to force regeneration without passphrase",
            )
        }
        Err(LoadError::Format(_)) => refused(
            "The existing file does not seem to be a private key formatted as DER, PEM or embedded in PKCS12. Pass \
             overwrite: true to force regeneration",
        ),
        Err(fault) => Err(fault.into()),
    }
}

fn compare(s: &State<'_, '_>, loaded: &LoadedKey, size: &Value, changes: &mut Map) {
    let kind = python::str(s.arg("algo"));
    let own = keys::kind(&loaded.key);
    let size = match (kind.as_str(), size) {
        ("rsa", Value::Nil) => 2048.into(),
        ("ec", Value::Nil) => 256.into(),
        (_, size) => size.clone(),
    };
    if ["rsa", "ec", "ed25519", "ed448"].contains(&kind.as_str()) && own != kind {
        changes.set("algo", kind);
    } else if let Some(bits) = keys::size(&loaded.key)
        && size.as_int() != Some(i64::from(bits))
    {
        changes.set("keysize", size);
    }
    let encoding = python::str(s.arg("encoding"));
    if encoding != loaded.encoding {
        changes.set("encoding", encoding);
    }
}
