//! Paths as Python's `os.path` treats them.

use halite_store::files::names;
use nix::unistd::{Uid, User};
use std::path::Path;

pub use names::join;

/// `os.path.expanduser`.
pub fn expanduser(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else {
        return path.to_owned();
    };
    let (name, tail) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let home = if name.is_empty() {
        std::env::var("HOME").ok().or_else(|| {
            let user = User::from_uid(Uid::current()).ok().flatten()?;
            Some(user.dir.to_string_lossy().into_owned())
        })
    } else {
        let user = User::from_name(name).ok().flatten();
        user.map(|u| u.dir.to_string_lossy().into_owned())
    };
    match home {
        None => path.to_owned(),
        Some(home) => match format!("{}{tail}", home.trim_end_matches('/')) {
            empty if empty.is_empty() => "/".to_owned(),
            full => full,
        },
    }
}

/// `os.path.expandvars`.
pub fn expandvars(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let braced = behind.strip_prefix('{').and_then(|b| b.split_once('}'));
        let plain = behind
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(behind.len());
        let (name, after) = match braced {
            Some((name, after)) => (name, after),
            None => behind.split_at(plain),
        };
        match std::env::var(name) {
            Ok(value) if !name.is_empty() => out.push_str(&value),
            _ => out.push_str(&rest[at..rest.len() - after.len()]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// `os.path.isabs`.
pub fn is_abs(path: &str) -> bool {
    path.starts_with('/')
}

/// `os.path.normpath`; two leading slashes are kept.
pub fn normpath(path: &str) -> String {
    let normal = names::normpath(path);
    let two = path.starts_with("//") && !path.starts_with("///");
    if two { format!("/{normal}") } else { normal }
}

/// `os.path.abspath`.
pub fn abspath(path: &str) -> String {
    if is_abs(path) {
        return normpath(path);
    }
    let here = std::env::current_dir().unwrap_or_default();
    normpath(&join(&here.to_string_lossy(), path))
}

/// `os.path.realpath`.
pub fn realpath(path: &str) -> String {
    let real = names::realpath(Path::new(&abspath(path)));
    real.to_string_lossy().into_owned()
}

/// `os.path.split`.
pub fn split(path: &str) -> (&str, &str) {
    let at = path.rfind('/').map_or(0, |at| at + 1);
    let (head, tail) = path.split_at(at);
    match head.trim_end_matches('/') {
        "" => (head, tail),
        short => (short, tail),
    }
}

/// `os.path.dirname`.
pub fn dirname(path: &str) -> &str {
    split(path).0
}

/// `os.path.basename`.
pub fn basename(path: &str) -> &str {
    split(path).1
}

/// `os.path.exists`.
pub fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// `os.path.lexists`.
pub fn lexists(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}

/// `os.path.isfile`.
pub fn is_file(path: &str) -> bool {
    Path::new(path).is_file()
}

/// `os.path.isdir`.
pub fn is_dir(path: &str) -> bool {
    Path::new(path).is_dir()
}

/// `os.path.islink`.
pub fn is_link(path: &str) -> bool {
    Path::new(path).is_symlink()
}

/// `os.readlink`.
///
/// # Errors
/// It is not a link.
pub fn readlink(path: &str) -> std::io::Result<String> {
    std::fs::read_link(path).map(|p| p.to_string_lossy().into_owned())
}

/// `glob.glob`, sorted.
pub fn glob(pattern: &str) -> Vec<String> {
    let found = halite_config::glob::glob(Path::new(pattern));
    found
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_os_path() {
        assert_eq!(split("/a/b"), ("/a", "b"));
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(split("a"), ("", "a"));
        assert_eq!(split("/a//b/"), ("/a//b", ""));
        assert_eq!(split("//"), ("//", ""));
        assert_eq!(normpath("//a/../b"), "//b");
        assert_eq!(normpath("///a/."), "/a");
        assert_eq!(normpath(""), ".");
        assert_eq!(expandvars("a$b"), "a$b");
        assert_eq!(
            expandvars("$NO_SUCH_VARIABLE/${ALSO_NONE}x$"),
            "$NO_SUCH_VARIABLE/${ALSO_NONE}x$"
        );
    }
}
