//! Expands path patterns like Python's `glob.glob`: `*`, `?` and `[...]` within one component; hidden names match only
//! if the pattern has the dot.

use halite_wire::fnmatch::Glob;
use std::fs;
use std::path::{Path, PathBuf};

/// The existing paths that match, sorted.
pub fn glob(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str();
        match name.to_str().filter(|p| has_magic(p)) {
            Some(pattern) => {
                found = found
                    .iter()
                    .flat_map(|dir| matches_in(dir, pattern))
                    .collect()
            }
            None => found.iter_mut().for_each(|dir| dir.push(name)),
        }
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found.sort();
    found
}

/// A directory of `file_roots`: the directory itself, or the matches of its pattern.
pub fn expand_dir(dir: &str) -> Vec<String> {
    if !has_magic(dir) {
        return vec![dir.to_owned()];
    }
    let found = glob(Path::new(dir));
    found
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect()
}

/// Whether the text is a glob pattern.
pub fn has_magic(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn matches_in(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let place = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let Ok(entries) = fs::read_dir(place) else {
        return Vec::new();
    };
    let glob = Glob::new(pattern);
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| pattern.starts_with('.') || !name.starts_with('.'))
        .filter(|name| glob.matches(name))
        .map(|name| dir.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_files_sorted_and_leaves_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "d.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = glob(&dir.path().join("*.conf"));
        assert_eq!(
            found,
            [dir.path().join("a.conf"), dir.path().join("b.conf")]
        );
        assert!(glob(&dir.path().join("none")).is_empty());
    }
}
