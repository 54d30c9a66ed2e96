//! Removing packages.

use super::{run, split_arch, splits_arch, to_args, without_epoch};
use crate::execution::declare::Result;
use crate::execution::pkg::common::{Packages, Targets, WantedVersions, empty, targets};
use crate::execution::pkg::rpm::{changed, installed, osarch};
use crate::execution::{Call, CallError};
use halite_target::fnmatch;
use halite_wire::{Map, Value};

pub fn purge(call: &mut Call<'_>) -> Result {
    call.bound.kwargs = Map::new();
    remove(call)
}

pub fn remove(call: &mut Call<'_>) -> Result {
    let splits_arch = splits_arch(call);
    let list = remove_targets(call)?;
    let (old, own) = (installed(call)?, osarch(call));
    let list =
        list.ok_or_else(|| CallError::Type("'NoneType' object is not iterable".to_owned()))?;
    let mut argv = to_args(&["-y", "remove"]);
    let count = argv.len();
    for (name, version) in matching(list, &old) {
        let Some(versions) = old.get(&name) else {
            continue;
        };
        match version.filter(|v| !v.is_empty()) {
            None => argv.push(name),
            Some(version) if versions.contains(&version) => {
                let (name, arch) = split_arch(&name, &own, splits_arch);
                argv.push(format!("{name}-{}{arch}", without_epoch(&version)));
            }
            Some(_) => {}
        }
    }
    if argv.len() == count {
        return empty();
    }
    let ran = run(call, argv, false)?;
    let errors = if ran.ok() || ran.stderr.is_empty() {
        Vec::new()
    } else {
        vec![ran.stderr]
    };
    changed(call, &old, "Error occurred removing package(s)", errors)
}

/// The packages named by the call; keywords are ignored.
fn remove_targets(call: &mut Call<'_>) -> Result<Option<WantedVersions>> {
    let (name, pkgs) = (call.arg("name").clone(), call.arg("pkgs").clone());
    call.bound.kwargs = Map::new();
    let own = osarch(call);
    let normalize = |n: &str| super::normalized(&own, n);
    Ok(
        match targets(call, &name, &pkgs, &Value::Nil, &normalize)? {
            Targets::Repository(list) => Some(list),
            _ => None,
        },
    )
}

/// Expands globs to installed packages; of several globs only the last one counts, as in stock (`salt/utils/pkg
/// match_wildcard`).
fn matching(list: WantedVersions, old: &Packages) -> WantedVersions {
    let (globs, mut rest): (Vec<_>, Vec<_>) = list.into_iter().partition(|(n, _)| n.contains('*'));
    if let Some((glob, version)) = globs.into_iter().next_back() {
        for name in old.keys().filter(|n| fnmatch(n, &glob)) {
            match rest.iter_mut().find(|(n, _)| n == name) {
                Some(known) => known.1 = version.clone(),
                None => rest.push((name.clone(), version.clone())),
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_of_what_is_installed() {
        let old: Packages = ["ab", "ac", "b"]
            .map(|n| (n.to_owned(), Vec::new()))
            .into_iter()
            .collect();
        let ask = |names: &[&str]| -> Vec<String> {
            let list = names.iter().map(|n| ((*n).to_owned(), None)).collect();
            matching(list, &old).into_iter().map(|(n, _)| n).collect()
        };
        assert_eq!(ask(&["a*", "x"]), ["x", "ab", "ac"]);
        assert_eq!(ask(&["a*", "b*"]), ["b"]);
    }
}
