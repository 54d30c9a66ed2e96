//! Path patterns as Python's `glob.glob` expands them: `*`, `?` and `[...]` within one component, hidden names
//! only where the pattern says so.

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

/// A directory of `file_roots`: itself, or what its pattern matches.
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

/// Whether the text is a pattern.
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
    let pattern: Vec<char> = pattern.chars().collect();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| pattern.first() == Some(&'.') || !name.starts_with('.'))
        .filter(|name| matches(&pattern, &name.chars().collect::<Vec<_>>()))
        .map(|name| dir.join(name))
        .collect()
}

/// Shell pattern against a whole name; on a mismatch the last `*` takes one character more.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(next) = one(pattern, p, name[n]) {
            (p, n) = (next, n + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Matches one character; gives the place in the pattern after it.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match *pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => match class(&pattern[p + 1..], c) {
            Some((len, true)) => Some(p + 1 + len),
            Some((_, false)) => None,
            None => (c == '[').then_some(p + 1),
        },
        other => (other == c).then_some(p + 1),
    }
}

/// A class behind its `[`: its length with the `]`, and whether it holds `c`. `None` without `]`.
fn class(rest: &[char], c: char) -> Option<(usize, bool)> {
    let negated = rest.first() == Some(&'!');
    let start = usize::from(negated);
    // A ']' in the first place is a member.
    let end = start + 1 + rest.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let members = &rest[start..end];
    let mut held = false;
    let mut i = 0;
    while i < members.len() {
        if i + 2 < members.len() && members[i + 1] == '-' {
            held |= (members[i]..=members[i + 2]).contains(&c);
            i += 3;
        } else {
            held |= members[i] == c;
            i += 1;
        }
    }
    Some((end + 1, held != negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_shell() {
        let is = |p: &str, n: &str| {
            matches(
                &p.chars().collect::<Vec<_>>(),
                &n.chars().collect::<Vec<_>>(),
            )
        };
        assert!(is("*.conf", "a.conf"));
        assert!(!is("*.conf", "a.conf.bak"));
        assert!(is("a?c*", "abcd"));
        assert!(is("[a-c]x", "bx"));
        assert!(!is("[!a-c]x", "bx"));
        assert!(is("[]]", "]"));
        assert!(is("[x", "[x"));
        assert!(is("*a*b", "xaxxab"));
        assert!(!is("*a*b", "xaxxabc"));
    }

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
