//! Programs on this host, and whether files are safe to run.

use nix::unistd::{AccessFlags, access};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of a directory that are read at most.
pub const MAX_FILES: usize = 1000;

/// The path of a program: as given, in `PATH`, or in the usual directories.
pub fn which(name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let program = |path: &str| Path::new(path).is_file() && access(path, AccessFlags::X_OK).is_ok();
    // Never in the working directory, which may be anybody's.
    if name.contains('/') {
        return program(name).then(|| name.to_owned());
    }
    let path = crate::environment::get("PATH").unwrap_or_default();
    let usual = [
        "/sbin",
        "/bin",
        "/usr/sbin",
        "/usr/bin",
        "/usr/local/sbin",
        "/usr/local/bin",
    ];
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .chain(usual)
        .map(|dir| {
            format!(
                "{}/{}",
                dir.trim_end_matches('/'),
                name.trim_start_matches('/')
            )
        })
        .find(|path| program(path))
}

/// Whether it belongs to root or to this account.
pub fn is_own(meta: &Metadata) -> bool {
    [0, nix::unistd::geteuid().as_raw()].contains(&meta.uid())
}

/// Why it is not to be used: others than root and this account may change it.
pub fn why_unsafe(path: &Path, meta: &Metadata) -> Option<String> {
    let safe = is_own(meta) && meta.mode() & 0o022 == 0;
    let path = path.display();
    (!safe).then(|| format!("{path}: not used, because another user owns it or can write to it"))
}

/// Links in a path that are followed.
const MAX_LINKS: usize = 40;

/// Why a directory is not to be used: others than root and this account may put another one in its place. They may not where each
/// directory and link on the way to it is theirs; where others may write, it has to be sticky like /tmp.
pub fn why_unsafe_place(dir: &Path) -> Option<String> {
    let told = dir.display();
    (!is_safe_way(dir)).then(|| {
        format!("{told}: not used, because another user can put another directory in its place")
    })
}

/// Whether nobody else can change where a path leads: all that the kernel passes is looked at.
fn is_safe_way(path: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else {
        return false;
    };
    let parts = |path: &Path| {
        path.components()
            .rev()
            .map(|part| part.as_os_str().to_owned())
            .collect()
    };
    let (mut here, mut links) = (PathBuf::new(), 0);
    let mut left: Vec<OsString> = parts(&path);
    while let Some(part) = left.pop() {
        if part == ".." {
            here.pop();
        } else {
            here.push(part);
        }
        let Ok(found) = std::fs::symlink_metadata(&here) else {
            return false;
        };
        let is_open = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
        if !is_own(&found) || is_open && !found.is_symlink() {
            return false;
        }
        if found.is_symlink() {
            links += 1;
            let Ok(target) = std::fs::read_link(&here) else {
                return false;
            };
            if links > MAX_LINKS {
                return false;
            }
            // An absolute target takes the place of all before it.
            here.pop();
            left.extend::<Vec<OsString>>(parts(&target));
        }
    }
    true
}
