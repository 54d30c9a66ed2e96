//! The owners of what was unpacked.

use super::{Contents, Job};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::python;
use halite_sys::ownership;
use halite_wire::map;
use std::path::Path;

/// Gives what was unpacked its owner; whether that changed something.
pub(super) fn own(s: &mut State<'_, '_>, job: &Job, contents: &Contents) -> Result<bool> {
    if job.ids == [None, None] {
        return Ok(false);
    }
    let all = match s.text("enforce_ownership_on") {
        Some(path) => below(Path::new(&path)),
        None => {
            let names = [&contents.dirs, &contents.files, &contents.links];
            let names = names.into_iter().flatten();
            names
                .map(|name| format!("{}{}", job.dir, name.trim_end_matches('/')))
                .collect()
        }
    };
    let mut changed = false;
    for path in all {
        let [user, group] = job.ids;
        // Whoever owns the directories may have put a link in place of one.
        changed |= ownership::give_to(Path::new(&path), user, group)
            .map_err(|e| python::os_error(&e, &path))?;
    }
    Ok(changed)
}

/// A path and all below it.
fn below(path: &Path) -> Vec<String> {
    let mut all = vec![path.to_string_lossy().into_owned()];
    let real = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
    if real {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            all.extend(below(&entry.path()));
        }
    }
    all
}

/// All is there: only the owners may be wrong.
pub(super) fn owned_outcome(s: &mut State<'_, '_>, job: &Job, contents: &Contents) -> Result {
    let outcome = StateOutcome::good("All files in archive are already present");
    if s.test {
        return Ok(outcome);
    }
    if own(s, job, contents)? {
        return Ok(outcome.changes(map! {"updated ownership" => true}));
    }
    Ok(outcome)
}
