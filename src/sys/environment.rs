//! The environment that this process gives to its children, as far as functions change it.
//!
//! The variables of the process itself are never written: threads and C libraries read them
//! at any time. Changes lie over them here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was changed: a new value, or nothing for what was taken out.
static CHANGES: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());

fn changes() -> MutexGuard<'static, BTreeMap<String, Option<String>>> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All variables with their values; those that are not text are left out.
pub fn all() -> Vec<(String, String)> {
    let changes = changes();
    let own = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
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

/// One variable.
pub fn get(name: &str) -> Option<String> {
    match changes().get(name) {
        Some(changed) => changed.clone(),
        None => std::env::var(name).ok(),
    }
}

/// Sets a variable, or takes it out. False if it cannot have such a name or value.
pub fn set(name: &str, value: Option<&str>) -> bool {
    let named = !name.is_empty() && !name.contains(['=', '\0']);
    let valued = value.is_none_or(|v| !v.contains('\0'));
    if named && valued {
        changes().insert(name.to_owned(), value.map(str::to_owned));
    }
    named && valued
}

/// What was changed, for a child that inherits the rest.
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
