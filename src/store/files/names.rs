//! Paths as Python's `os.path` treats them, where Salt's replies depend on it. Only [`realpath`]
//! accesses the file system.

use std::path::{Path, PathBuf};

/// Most links that [`realpath`] follows.
const MAX_LINKS: usize = 40;

/// `os.path.normpath`.
pub fn normpath(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".into(),
        (false, false) => joined,
    }
}

/// `os.path.join` of two paths.
pub fn join(dir: &str, path: &str) -> String {
    if path.starts_with('/') || dir.is_empty() {
        return path.into();
    }
    if dir.ends_with('/') {
        format!("{dir}{path}")
    } else {
        format!("{dir}/{path}")
    }
}

/// A path that stays below the directory it is looked up in: relative, normalized, without `..` or
/// NUL. `None` for everything else, the directory itself included.
pub fn inside(path: &str) -> Option<String> {
    let normal = normpath(path);
    let leaves = normal.starts_with('/') || normal == "." || normal.split('/').any(|p| p == "..");
    (!leaves && !normal.contains('\0')).then_some(normal)
}

/// Whether `path` is `root` or is below it; both must be absolute and normalized.
pub fn is_below(root: &Path, path: &Path) -> bool {
    path.starts_with(root)
}

/// `os.path.realpath`: links are followed as far as files exist; the rest is kept as it is.
pub fn realpath(path: &Path) -> PathBuf {
    real(path, 0)
}

fn real(path: &Path, links: usize) -> PathBuf {
    if let Ok(found) = std::fs::canonicalize(path) {
        return found;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let here = real(parent, links).join(name);
    match std::fs::read_link(&here) {
        Ok(target) if links < MAX_LINKS => {
            let joined = here.parent().unwrap_or(Path::new("/")).join(target);
            real(Path::new(&normpath(&joined.to_string_lossy())), links + 1)
        }
        _ => here,
    }
}

/// The name of a cache file for an environment (`salt/utils/files.py safe_filename_leaf`).
pub fn safe_leaf(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\\' | ':' | '/' | '*' | '?' | '"' | '<' | '>' | '|' => {
                out.push_str(&format!("%{:02X}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// `salt/utils/url.py strip_proto`: what follows `scheme://`.
pub fn strip_proto(url: &str) -> &str {
    match url.split_once("://") {
        Some((scheme, rest)) if !scheme.is_empty() && !scheme.contains([':', '/']) => rest,
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_as_in_python() {
        for (path, normal) in [
            ("", "."),
            (".", "."),
            ("a//b/./c/", "a/b/c"),
            ("a/../b", "b"),
            ("a/../../b", "../b"),
            ("../a", "../a"),
            ("/a/../../b", "/b"),
            ("/", "/"),
        ] {
            assert_eq!(normpath(path), normal, "{path}");
        }
        assert_eq!(join("/srv/", "a"), "/srv/a");
        assert_eq!(join("/srv", "/a"), "/a");
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a/..",
            "x\0y",
            "//etc",
        ] {
            assert_eq!(inside(bad), None, "{bad:?}");
        }
        for good in ["a", "a/../b", "..a/b", "a/..b", ". /x", "a\\..\\b"] {
            assert!(inside(good).is_some(), "{good:?}");
        }
    }

    #[test]
    fn realpath_accepts_missing_files() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("gone/x", top.join("link")).unwrap();
        std::os::unix::fs::symlink("loop", top.join("loop")).unwrap();
        assert_eq!(realpath(&top.join("link")), top.join("gone/x"));
        assert_eq!(realpath(&top.join("no/where")), top.join("no/where"));
        assert_eq!(realpath(&top.join("loop")), top.join("loop"));
    }

    #[test]
    fn cache_files_have_safe_names() {
        assert_eq!(safe_leaf("feature/a:b"), "feature%2Fa%3Ab");
        assert_eq!(strip_proto("salt://x/y"), "x/y");
        assert_eq!(strip_proto("x/y"), "x/y");
    }
}
