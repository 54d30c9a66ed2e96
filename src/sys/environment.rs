//! The environment for child processes, including changes made by functions.
//!
//! The environment of this process itself is never modified, because threads and C libraries may read it at any
//! time. Changes are kept here as an overlay.

use crate::process::FAMILY;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changed variables: the new value, or `None` if removed.
static CHANGES: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());

fn changes() -> MutexGuard<'static, BTreeMap<String, Option<String>>> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All variables with their values, without those of a family of processes; those that are not UTF-8 are left out.
pub fn all() -> Vec<(String, String)> {
    let changes = changes();
    let own = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .filter(|(name, _)| !FAMILY.contains(&name.as_str()));
    let mut all: Vec<(String, String)> = own
        .filter_map(|(name, value)| match changes.get(&name) {
            None => Some((name, value)),
            Some(Some(changed)) => Some((name, changed.clone())),
            Some(None) => None,
        })
        .collect();
    for (name, value) in changes.iter() {
        let Some(value) = value else {
            continue;
        };
        if !all.iter().any(|(k, _)| k == name) {
            all.push((name.clone(), value.clone()));
        }
    }
    all
}

/// The value of one variable.
pub fn get(name: &str) -> Option<String> {
    match changes().get(name) {
        Some(changed) => changed.clone(),
        None => std::env::var(name).ok(),
    }
}

/// Sets or removes a variable. Returns false if the name or value is not allowed.
pub fn set(name: &str, value: Option<&str>) -> bool {
    let named = !name.is_empty() && !name.contains(['=', '\0']);
    let valued = value.is_none_or(|v| !v.contains('\0'));
    if named && valued {
        changes().insert(name.to_owned(), value.map(str::to_owned));
    }
    named && valued
}

/// The changed variables, for a child that inherits the rest.
pub fn changed() -> Vec<(String, Option<String>)> {
    let changes = changes();
    changes
        .iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_lie_over_what_is_inherited() {
        let name = "HALITE_TEST_OF_ENVIRONMENT";
        assert_eq!(get(name), None);
        assert!(set(name, Some("1")));
        assert_eq!(get(name).as_deref(), Some("1"));
        assert!(all().contains(&(name.to_owned(), "1".to_owned())));
        assert!(set(name, None));
        assert_eq!(get(name), None);
        assert!(!all().iter().any(|(k, _)| k == name));
        assert!(!set("a=b", Some("1")) && !set("", None) && !set("a", Some("\0")));
    }
}
