//! What `clean` removes, and what it keeps because other states of the run manage it.

use super::directory::walk;
use super::{Step, recurse};
use crate::declare::State;
use halite_modules::execution::file::{paths, remove};
use halite_modules::execution::python;
use halite_modules::files::FileFilter;
use halite_wire::Value;
use std::collections::BTreeSet;

/// What stays below a directory.
pub(super) struct Keep {
    root: String,
    paths: BTreeSet<String>,
    filter: FileFilter,
}

impl Keep {
    /// Keeps nothing.
    pub fn nothing(root: &str) -> Keep {
        Keep {
            root: root.to_owned(),
            paths: BTreeSet::new(),
            filter: FileFilter::default(),
        }
    }

    /// Keeps these paths and the directories above them, and what a pattern excludes.
    pub fn new(root: &str, paths: impl IntoIterator<Item = String>, exclude: &Value) -> Keep {
        let mut keep = Keep {
            filter: FileFilter::new(&Value::Nil, exclude),
            ..Keep::nothing(root)
        };
        for path in paths {
            let mut at = path.as_str();
            while !at.is_empty() && at != "/" && keep.paths.insert(at.to_owned()) {
                at = paths::dirname(at);
            }
        }
        keep
    }

    /// Whether a path below the directory may go.
    pub fn may_remove(&self, path: &str) -> bool {
        if self.paths.contains(path) {
            return false;
        }
        let own = path.strip_prefix(&self.root).unwrap_or(path);
        self.filter.selects(own.trim_start_matches('/'))
    }

    /// Removes the rest; returns what it has removed.
    pub fn clean(&self) -> Step<Vec<Value>> {
        let mut removed = Vec::new();
        self.clean_below(&self.root, &mut removed)?;
        Ok(removed)
    }

    fn clean_below(&self, dir: &str, removed: &mut Vec<Value>) -> Step<()> {
        let Some(level) = walk(dir, Some(1)).pop() else {
            return Ok(());
        };
        for name in level.dirs.iter().chain(&level.files) {
            let path = paths::join(dir, name);
            if self.may_remove(&path) {
                remove(&path)?;
                removed.push(path.into());
            } else if paths::is_dir(&path) && !paths::is_link(&path) {
                self.clean_below(&path, removed)?;
            }
        }
        Ok(())
    }

    /// What would be removed.
    pub fn removable(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for level in walk(&self.root, None) {
            let names = level.dirs.iter().chain(&level.files);
            let all = names.map(|name| paths::join(&level.path, name));
            found.extend(all.filter(|path| self.may_remove(path)).map(Value::from));
        }
        found
    }
}

/// Keeps what the required file states of the run manage.
pub(super) fn keep(
    s: &mut State<'_, '_>,
    root: &str,
    require: &Value,
    exclude: &Value,
) -> Step<Keep> {
    Ok(Keep::new(root, kept(s, root, require)?, exclude))
}

/// What the required file states of the run manage below a directory.
pub(super) fn kept(s: &mut State<'_, '_>, root: &str, require: &Value) -> Step<Vec<String>> {
    let mut kept = Vec::new();
    let required = require.as_array().unwrap_or_default();
    let required = required.iter().filter_map(|one| one.as_map()?.get("file"));
    for name in required.map(python::str) {
        let run = s.run.clone();
        for low in run.low.iter() {
            let is = |key: &str| low.get(key).map(python::str).as_deref() == Some(name.as_str());
            if !is("name") && !is("__id__") {
                continue;
            }
            let path = low.get("name").map(python::str).unwrap_or_default();
            if !paths::is_dir(&path) {
                kept.push(path);
                continue;
            }
            let inside = path
                .strip_prefix(root)
                .is_some_and(|rest| rest.starts_with('/'));
            if !inside {
                continue;
            }
            if low.str("fun") == Some("recurse") {
                kept.extend(recurse::kept_by(s, low)?);
            } else {
                kept.push(path.clone());
                for level in walk(&path, None) {
                    let names = level.dirs.iter().chain(&level.files);
                    kept.extend(names.map(|name| paths::join(&level.path, name)));
                }
            }
        }
    }
    Ok(kept)
}
