//! `file.pruned`.

use super::Step;
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths;
use halite_modules::execution::python;
use halite_wire::{Value, map};

pub(super) fn pruned(s: &mut State<'_, '_>) -> Step {
    let name = paths::expanduser(&s.name());
    if !paths::is_dir(&name) {
        return Ok(StateOutcome::good(format!(
            "Directory {name} is not present"
        )));
    }
    if s.test {
        return Ok(
            StateOutcome::would(format!("Directory {name} is set for removal"))
                .changes(map! {"deleted" => name}),
        );
    }
    let ignore_errors = s.flag("ignore_errors");
    let recurse = ignore_errors || s.flag("recurse");
    let mut with = s.pick(&["older_than"]);
    with.set("recurse", recurse);
    with.set("verbose", true);
    let done = s.salt_with("file.rmdir", vec![name.as_str().into()], with)?;
    let mut done = done.into_map().unwrap_or_default();
    let good = done.remove("result").is_some_and(|v| v.truthy());
    let mut deleted = done
        .get("deleted")
        .and_then(Value::as_array)
        .unwrap_or_default()
        .to_vec();
    if good && !recurse {
        return Ok(StateOutcome::good(format!("Removed directory {name}"))
            .changes(map! {"deleted" => name}));
    }
    if good && deleted.is_empty() {
        return Ok(StateOutcome::good(""));
    }
    if good || ignore_errors && !deleted.is_empty() {
        deleted.sort_by_key(python::str);
        let text = format!("Recursively removed empty directories under {name}");
        return Ok(StateOutcome::good(text).changes(map! {"deleted" => deleted}));
    }
    Ok(StateOutcome::bad(format!("Failed to remove directory {name}")).changes(done))
}
