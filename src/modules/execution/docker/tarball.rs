//! The files of a build, without those that `.dockerignore` names.

use super::super::CallError;
use crate::execution::declare::Result;
use halite_sys::safe_open::{open_no_follow, read_regular};
use std::io::{self, PipeReader};
use std::path::Path;
use std::thread::JoinHandle;

/// Deepest directories that are looked at.
const MAX_DEPTH: usize = 100;
/// Largest `.dockerignore`, in bytes.
const MAX_IGNORE: u64 = 1 << 20;

/// One line of `.dockerignore`.
struct Pattern {
    matcher: regex::Regex,
    kept: bool,
}

/// A pattern of Go's `filepath.Match` with `**`, for a path or what is below it.
fn pattern(line: &str) -> Option<Pattern> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (kept, text) = match line.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, line),
    };
    let text = text.trim_start_matches("./").trim_matches('/');
    let mut expression = String::from("^");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' if letters.peek() == Some(&'*') => {
                letters.next();
                if letters.peek() == Some(&'/') {
                    letters.next();
                    expression.push_str("(?:.*/)?");
                } else {
                    expression.push_str(".*");
                }
            }
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            '[' | ']' => expression.push(letter),
            '\\' => {
                let next = letters.next().unwrap_or('\\');
                expression.push_str(&regex::escape(&next.to_string()));
            }
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push_str("(?:/.*)?$");
    let matcher = regex::Regex::new(&expression).ok()?;
    Some(Pattern { matcher, kept })
}

/// Packs a directory in a thread of its own.
///
/// # Errors
/// There can be no pipe.
pub fn pack(dir: &Path, dockerfile: &str) -> Result<(PipeReader, JoinHandle<io::Result<()>>)> {
    let failed = |e: io::Error| CallError::Command(e.to_string());
    let (reader, writer) = io::pipe().map_err(failed)?;
    let ignored = match read_regular(&dir.join(".dockerignore"), MAX_IGNORE) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(CallError::Command(format!(".dockerignore: {e}"))),
    };
    let mut patterns: Vec<Pattern> = ignored.lines().filter_map(pattern).collect();
    // The engine needs these in any case.
    let needed = [format!("!{dockerfile}"), "!.dockerignore".to_owned()];
    patterns.extend(needed.iter().filter_map(|line| pattern(line)));
    let dir = dir.to_owned();
    let thread = std::thread::spawn(move || {
        let mut archive = tar::Builder::new(writer);
        archive.follow_symlinks(false);
        add(&mut archive, &dir, Path::new(""), &patterns, 0)?;
        archive.finish()
    });
    Ok((reader, thread))
}

fn add(
    archive: &mut tar::Builder<io::PipeWriter>,
    top: &Path,
    below: &Path,
    patterns: &[Pattern],
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("directories too deep to be built from"));
    }
    let mut entries: Vec<_> = std::fs::read_dir(top.join(below))?.collect::<io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        let text = path.to_string_lossy();
        let last = patterns.iter().rev().find(|p| p.matcher.is_match(&text));
        let wanted = last.is_none_or(|p| p.kept);
        if wanted && !(kind.is_dir() || kind.is_file() || kind.is_symlink()) {
            // Sockets and devices are no part of a build.
            continue;
        }
        if wanted && kind.is_file() {
            // It may have become a link or a pipe since the directory was read.
            let mut file = open_no_follow(&top.join(&path))?;
            if !file.metadata()?.is_file() {
                continue;
            }
            archive.append_file(&path, &mut file)?;
        } else if wanted {
            archive.append_path_with_name(top.join(&path), &path)?;
        }
        // Something below may be kept nevertheless.
        if kind.is_dir() && (wanted || patterns.iter().any(|p| p.kept)) {
            add(archive, top, &path, patterns, depth + 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        for name in ["Dockerfile", "x.log", "a/x.log", "a/b/keep", "a/other"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::write(
            at(".dockerignore"),
            "# c\n*.log\na/**\n!a/b/keep\nDockerfile\n",
        )
        .unwrap();
        let (mut reader, thread) = pack(dir.path(), "Dockerfile").unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        thread.join().unwrap().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, [".dockerignore", "Dockerfile", "a", "a/b/keep"]);
    }
}
