//! `private_key_managed`.

use super::super::made_file::{Found, Managed, PRIVATE_KEY, only, split};
use super::{MODULE_NAME, check};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::ssh_pki::private;
use halite_modules::execution::ssh_pki::source::LoadError;
use halite_modules::execution::x509::keys;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

const ED25519: &str = "ed25519";
/// The length of RSA keys if nobody says one.
const RSA_BITS: i64 = 3072;

pub(super) fn managed(s: &mut State<'_, '_>) -> Result {
    let (mut file, others) = split(s);
    check(&others)?;
    if !file.get("mode").is_some_and(Value::truthy) {
        // Nobody else may read it.
        file.set("mode", "0400");
    }
    let kind = python::str(s.arg("algo"));
    if kind == ED25519 && s.flag("keysize") {
        let text = format!("keysize is an invalid parameter for {kind}");
        return Ok(StateOutcome::bad(text));
    }
    let managed = Managed {
        what: PRIVATE_KEY,
        module: MODULE_NAME,
        file,
        binary: false,
    };
    let outcome = managed.run(s, look, make)?;
    Ok(told(s, outcome))
}

/// A key that only got a passphrase has not been made anew.
fn told(s: &State<'_, '_>, mut outcome: StateOutcome) -> StateOutcome {
    let changes = outcome.changes.as_map();
    let kept = changes.is_some_and(|c| !c.is_empty() && only(c, &["passphrase"]));
    if kept && !s.test && outcome.result == Some(true) {
        outcome.comment = "The private key has been encrypted".to_owned();
    }
    outcome
}

fn make(s: &mut State<'_, '_>, found: &Found<Option<String>>) -> Result<Value> {
    if let Some(path) = found
        .more
        .as_ref()
        .filter(|_| only(&found.changes, &["passphrase"]))
    {
        let kwargs = s.pick(&["passphrase"]);
        return s.salt_with(
            "ssh_pki.encode_private_key",
            vec![path.as_str().into()],
            kwargs,
        );
    }
    let mut kwargs = s.pick(&["algo", "keysize", "passphrase"]);
    kwargs.set("raw", true);
    let made = s.salt_with("ssh_pki.create_private_key", Vec::new(), kwargs)?;
    match made {
        Value::Bytes(text) => Ok(String::from_utf8_lossy(&text).into_owned().into()),
        other => Ok(other),
    }
}

/// Compares the key in a file with what is wanted. What it knows besides is the path of a key that can be kept.
fn look(s: &mut State<'_, '_>, path: Option<&str>) -> Result<Found<Option<String>>> {
    let mut found = Found {
        is_there: path.is_some(),
        ..Found::default()
    };
    let Some(path) = path else {
        found.changes = map! {"created" => s.name()};
        return Ok(found);
    };
    if s.flag("new") {
        found.changes = map! {"replaced" => s.name()};
        return Ok(found);
    }
    let pass = s.text("passphrase");
    let from = Value::from(path);
    let changes = &mut found.changes;
    let key = match private::load(&from, pass.as_deref()) {
        Ok(key) => key,
        Err(LoadError::NotEncrypted) => {
            changes.set("passphrase", true);
            private::load(&from, None)?
        }
        Err(LoadError::WrongPassphrase) => {
            refuse(s, "The provided passphrase cannot decrypt the private key.")?;
            found.changes = map! {"passphrase" => true, "replaced" => s.name()};
            return Ok(found);
        }
        Err(LoadError::NoPassphrase) => {
            refuse(s, "The current key is encrypted with a passphrase.")?;
            found.changes = map! {"passphrase" => true, "replaced" => s.name()};
            return Ok(found);
        }
        Err(LoadError::Format(_)) => {
            refuse(s, "The existing file does not seem to be a private key.")?;
            found.changes = map! {"replaced" => s.name()};
            return Ok(found);
        }
        Err(fault) => return Err(fault.into()),
    };
    let kind = keys::kind(&key);
    compare(s, kind, keys::size(&key), changes);
    found.is_valid = true;
    found.more = Some(path.to_owned());
    Ok(found)
}

/// Ends the state, unless what is there may be overwritten.
fn refuse(s: &State<'_, '_>, why: &str) -> Result<()> {
    if s.flag("overwrite") {
        return Ok(());
    }
    Err(CallError::Command(format!(
        "{why} Pass overwrite: true to force regeneration"
    )))
}

fn compare(s: &State<'_, '_>, kind: &str, bits: Option<u32>, changes: &mut Map) {
    let wanted = python::str(s.arg("algo"));
    let size = match (wanted.as_str(), s.arg("keysize")) {
        ("rsa", Value::Nil) => RSA_BITS.into(),
        ("ec", Value::Nil) => 256.into(),
        (_, size) => size.clone(),
    };
    // As in stock, a kind that there is not is refused only where a key is made.
    if !["rsa", "ec", ED25519].contains(&wanted.as_str()) {
        return;
    }
    if kind != wanted {
        changes.set("algo", wanted);
    } else if let Some(bits) = bits
        && size.as_int() != Some(i64::from(bits))
    {
        changes.set("keysize", size);
    }
}
