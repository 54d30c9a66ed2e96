//! `pkg.removed` and `pkg.purged`.

use super::install::difference;
use super::wanted::{self, Wanted, fits, normalized, sorted};
use super::{message, with_changes};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::pkg::Packages;
use halite_wire::{Map, map};

/// How packages go.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Way {
    Remove,
    /// With their configuration.
    Purge,
}

impl Way {
    fn verb(self) -> &'static str {
        match self {
            Way::Remove => "remove",
            Way::Purge => "purge",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Way::Remove => "removed",
            Way::Purge => "purged",
        }
    }
}

/// The packages of these that are there, and whether some are there only in other versions.
fn there(s: &mut State<'_, '_>, list: &[Wanted], now: &Packages) -> Result<(Vec<Wanted>, bool)> {
    let (mut found, mut other) = (Vec::new(), false);
    for one in list {
        let Some(own) = now.get(&one.name) else {
            continue;
        };
        let fits = match &one.version {
            Some(version) => fits(s, own, version, false)?,
            None => true,
        };
        if fits {
            found.push(one.clone());
        } else {
            other = true;
        }
    }
    Ok((found, other))
}

/// The packages that are there in any form that `way` takes away.
fn present(s: &mut State<'_, '_>, way: Way) -> Result<Packages> {
    let mut now = wanted::installed(s)?;
    if way == Way::Purge {
        let kwargs = map! {"versions_as_list" => true, "removed" => true};
        let removed = s.salt_with("pkg.list_pkgs", Vec::new(), kwargs)?;
        for (name, versions) in removed.as_map().map(Map::iter).into_iter().flatten() {
            let name = halite_modules::execution::python::str(name);
            now.entry(name).or_insert_with(|| versions.str_list());
        }
    }
    Ok(now)
}

/// `removed` and `purged`.
pub(super) fn removed(s: &mut State<'_, '_>, way: Way) -> Result {
    let (verb, past) = (way.verb(), way.past());
    let now = present(s, way)?;
    let mut desired = if super::nothing(s) {
        Vec::new()
    } else {
        wanted::wanted(s, true)?
    };
    if s.flag("normalize") {
        for one in &mut desired {
            one.name = normalized(s, &one.name)?;
        }
    } else {
        for one in &mut desired {
            if !now.contains_key(&one.name) {
                one.name = normalized(s, &one.name)?;
            }
        }
    }
    let (targets, other) = there(s, &desired, &now)?;
    if targets.is_empty() {
        let text = match (way, other) {
            (Way::Purge, _) => "None of the targeted packages are installed or partially installed",
            (Way::Remove, true) => {
                "All specified packages (matching specified versions) are already absent"
            }
            (Way::Remove, false) => "All specified packages are already absent",
        };
        return Ok(StateOutcome::good(text));
    }
    if s.test {
        let text = format!(
            "The following packages will be {past}: {}.",
            sorted(&targets)
        );
        let one = |w: &Wanted| (w.name.clone(), map! {"new" => past, "old" => ""});
        let changes: Map = targets.iter().map(one).collect();
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let mut kwargs = s.kwargs.clone();
    for name in ["version", "pkgs"] {
        kwargs.set(name, s.arg(name).clone());
    }
    kwargs.set("ignore_epoch", s.arg("ignore_epoch").truthy());
    let args = vec![s.name().into()];
    let changes = match s.salt_with(&format!("pkg.{verb}"), args, kwargs) {
        Ok(done) => done.into_map().unwrap_or_default(),
        Err(fault) => {
            let text = message(fault)?;
            if !text.contains("Additional info follows:") {
                return Ok(StateOutcome::bad(text));
            }
            let after = present(s, way)?;
            return Ok(with_changes(&text, difference(&now, &after)));
        }
    };
    let after = present(s, way)?;
    let failed: Vec<Wanted> = targets
        .iter()
        .filter(|w| after.contains_key(&w.name))
        .cloned()
        .collect();
    if !failed.is_empty() {
        let text = format!(
            "The following packages failed to {verb}: {}.",
            sorted(&failed)
        );
        return Ok(StateOutcome::bad(text).changes(changes));
    }
    let absent: Vec<Wanted> = desired
        .into_iter()
        .filter(|w| !targets.contains(w))
        .collect();
    let text = if absent.is_empty() {
        format!("All targeted packages were {past}.")
    } else {
        format!(
            "The following packages were not installed: {} The following packages were {past}: {}.",
            sorted(&absent),
            sorted(&targets)
        )
    };
    Ok(StateOutcome::good(text).changes(changes))
}
