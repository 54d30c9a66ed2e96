//! `file.tidied`.

use super::directory::walk;
use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::remove;
use halite_modules::execution::{CallError, python};
use halite_target::PyRegex;
use halite_wire::{Value, map};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// Which files go.
struct Choice {
    matches: Vec<PyRegex>,
    exclude: Vec<PyRegex>,
    whole_path: bool,
    age: i64,
    size: u64,
    both: bool,
    only: Option<String>,
    time: String,
    links: bool,
    dirs: bool,
}

fn patterns(s: &State<'_, '_>, name: &str) -> Step<Vec<PyRegex>> {
    let compile = |text: &Value| {
        // As `re.match`, only at the start.
        PyRegex::new(&format!("(?:{})", python::str(text)))
            .map_err(|e| CallError::raised("re.error", e.to_string()))
    };
    let list = s.list(name);
    Ok(list.iter().map(compile).collect::<Result<_, _>>()?)
}

/// A size in bytes, with a unit after the number.
fn bytes(value: &Value) -> u64 {
    let text = python::str(value).to_lowercase();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim();
    let factor: u64 = match unit.chars().next() {
        Some('k') => 1 << 10,
        Some('m') => 1 << 20,
        Some('g') => 1 << 30,
        Some('t') => 1 << 40,
        Some('p') => 1 << 50,
        _ => 1,
    };
    digits
        .trim()
        .parse::<u64>()
        .unwrap_or(0)
        .saturating_mul(factor)
}

impl Choice {
    fn takes(&self, path: &str) -> bool {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return false;
        };
        if meta.is_symlink() && !self.links || meta.is_dir() && !self.dirs {
            return false;
        }
        let shown = if self.whole_path {
            path
        } else {
            paths::basename(path)
        };
        let hit = |regex: &PyRegex| regex.matches(shown) == Ok(true);
        if !self.matches.iter().any(hit) || self.exclude.iter().any(hit) {
            return false;
        }
        let seconds = match self.time.as_str() {
            "ctime" => meta.ctime(),
            "mtime" => meta.mtime(),
            _ => meta.atime(),
        };
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX));
        let old = (now - seconds) / 86_400 >= self.age;
        let large = (if meta.is_dir() { 0 } else { meta.len() }) >= self.size;
        match self.only.as_deref() {
            Some("age") => old,
            Some("size") => large,
            _ if self.both => old && large,
            _ => old || large,
        }
    }
}

pub(super) fn tidied(s: &mut State<'_, '_>) -> Step {
    let name = expanduser(&s.name());
    if !paths::is_abs(&name) {
        return fail(format!("Specified file {name} is not an absolute path"));
    }
    if !paths::is_dir(&name) {
        return fail(format!("{name} does not exist or is not a directory."));
    }
    let mut matches = patterns(s, "matches")?;
    if matches.is_empty() {
        let all = PyRegex::new(".*").map_err(|e| CallError::raised("re.error", e.to_string()))?;
        matches.push(all);
    }
    let choice = Choice {
        matches,
        exclude: patterns(s, "exclude")?,
        whole_path: s.flag("full_path_match"),
        age: python::int(s.arg("age"))?,
        size: bytes(s.arg("size")),
        both: s
            .text("age_size_logical_operator")
            .is_some_and(|o| o.eq_ignore_ascii_case("AND")),
        only: s.text("age_size_only").map(|only| only.to_lowercase()),
        time: s.text("time_comparison").unwrap_or_default(),
        links: s.flag("rmlinks"),
        dirs: s.flag("rmdirs"),
    };
    // From the bottom, so that directories follow what is in them.
    let mut found = Vec::new();
    for level in walk(&name, None).iter().rev() {
        for child in level.files.iter().chain(&level.dirs) {
            let path = paths::join(&level.path, child);
            if choice.takes(&path) && becomes_empty(&path, &found) {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        return Ok(StateOutcome::good(format!(
            "Nothing to remove from directory {name}"
        )));
    }
    let mut removed: Vec<Value> = found.iter().map(|path| path.as_str().into()).collect();
    removed.sort_by_key(python::str);
    let changes = map! {"removed" => removed};
    if s.test {
        return Ok(StateOutcome::would(format!("{name} is set for tidy")).changes(changes));
    }
    for path in &found {
        if let Err(why) = remove(path) {
            return fail(why.message());
        }
    }
    let text = format!(
        "Removed {} files or directories from directory {name}",
        found.len()
    );
    Ok(StateOutcome::good(text).changes(changes))
}

/// Whether a path is no directory, or one in which all goes.
fn becomes_empty(path: &str, found: &[String]) -> bool {
    if paths::is_link(path) || !paths::is_dir(path) {
        return true;
    }
    let all = walk(path, Some(1));
    let mut inside = all
        .iter()
        .flat_map(|level| level.files.iter().chain(&level.dirs));
    inside.all(|name| found.contains(&paths::join(path, name)))
}
