//! What differs between a certificate and what it is to be.

use super::cert::{CertType, Fields};
use super::identity::load_cert;
use super::source::LoadError;
use super::{issue, policy, values};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// How long certificates of hosts and users have to be valid if nobody says so.
const HOST_REMAINING: f64 = 7.0 * 86400.0;
const USER_REMAINING: f64 = 3600.0;

/// What was found of a certificate.
#[derive(Default)]
pub struct Found {
    /// Whether it is one.
    pub is_valid: bool,
    /// What is to change.
    pub changes: Map,
}

/// Compares a certificate with the arguments of `certificate_managed` under a policy.
///
/// # Errors
/// The arguments are wrong.
pub fn certificate(
    path: &str,
    args: &Map,
    policy: Map,
    remaining: &Value,
    signs: bool,
) -> Result<Found> {
    let mut found = Found::default();
    let current = match load_cert(&path.into()) {
        Ok(current) => current,
        Err(LoadError::Format(_)) => return Ok(found),
        Err(fault) => return Err(fault.into()),
    };
    found.is_valid = true;
    let changes = &mut found.changes;
    let mut merged = args.clone();
    policy::merge(policy, &mut merged)?;
    let remaining = match remaining {
        Value::Nil if current.cert_type == CertType::Host => HOST_REMAINING,
        Value::Nil => USER_REMAINING,
        given => values::seconds(given)?,
    };
    if super::read::ends_within(&current, remaining)? {
        changes.set("expiration", true);
    }
    let draft = issue::draft(&merged, signs)?;
    let wanted = &draft.content;
    let given = |key: &str| merged.get(key).filter(|v| !v.is_nil()).cloned();
    if let Some(serial) = given("serial_number")
        && wanted.serial != current.serial
    {
        changes.set("serial_number", serial);
    }
    if !wanted.key.is(&current.key) {
        changes.set("private_key", true);
    }
    if draft
        .signer
        .is_some_and(|signer| !current.is_signed_by(&signer))
    {
        changes.set("signing_private_key", true);
    }
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    if given("key_id").is_some() && wanted.key_id != current.key_id {
        let change = map! {"old" => text(&current.key_id), "new" => text(&wanted.key_id)};
        changes.set("key_id", change);
    }
    if wanted.cert_type != current.cert_type {
        changes.set("cert_type", wanted.cert_type.name());
    }
    for (name, old, new) in [
        ("extensions", &current.extensions, &wanted.extensions),
        ("critical_options", &current.critical, &wanted.critical),
    ] {
        if let Some(change) = fields(old, new) {
            changes.set(name, change);
        }
    }
    if let Some(change) = principals(&current.principals, &wanted.principals) {
        changes.set("principals", change);
    }
    Ok(found)
}

fn fields(old: &Fields, new: &Fields) -> Option<Map> {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for (name, value) in new {
        match old.iter().find(|(known, _)| known == name) {
            None => added.push(text(name)),
            Some((_, known)) if known != value => changed.push(text(name)),
            Some(_) => {}
        }
    }
    let is_gone = |name: &Vec<u8>| new.iter().all(|(known, _)| known != name);
    let removed = old.iter().filter(|(name, _)| is_gone(name));
    let removed: Vec<Value> = removed.map(|(name, _)| text(name)).collect();
    if added.is_empty() && changed.is_empty() && removed.is_empty() {
        return None;
    }
    Some(map! {"added" => added, "changed" => changed, "removed" => removed})
}

fn principals(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<Map> {
    // Nobody means everybody.
    let shown = |these: &[Vec<u8>], but: &[Vec<u8>]| match these.is_empty() {
        true if but.is_empty() => Value::Array(Vec::new()),
        true => "*ALL*".into(),
        false => {
            let names = these.iter().filter(|name| !but.contains(name));
            let names = names.map(|name| String::from_utf8_lossy(name).into_owned().into());
            Value::Array(names.collect())
        }
    };
    let (added, removed) = match (old.is_empty(), new.is_empty()) {
        // All of these are allowed already, or are still.
        (false, true) => (shown(new, old), Value::Array(Vec::new())),
        _ => (shown(new, old), shown(old, new)),
    };
    let changes = added.truthy() || removed.truthy();
    changes.then(|| map! {"added" => added, "removed" => removed})
}
