//! Programs on this host, and whether files are safe to run.

use nix::unistd::{AccessFlags, access};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
