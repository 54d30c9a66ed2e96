//! Custom executables.

pub use halite_sys::programs::which;
use halite_sys::programs::{MAX_FILES, why_unsafe, why_unsafe_place};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The executables of a directory, sorted by name. Synced ones, which lack modes, are made executable. Files writable
/// by others or owned by neither root nor this user are skipped with a warning.
pub fn executables(dir: &Path) -> Vec<PathBuf> {
    with_metadata(dir)
        .into_iter()
        .map(|(path, _)| path)
        .collect()
}

/// Like [`executables`], with metadata.
pub fn with_metadata(dir: &Path) -> Vec<(PathBuf, Metadata)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .take(MAX_FILES)
        .filter_map(|entry| {
            let path = entry.path();
            let meta = std::fs::symlink_metadata(&path).ok()?;
            (meta.is_file() && is_program(&path)).then_some((path, meta))
        })
        .filter(|(path, meta)| is_told_safe(why_unsafe(path, meta)))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    if !found.is_empty() && !is_told_safe(why_unsafe_place(dir)) {
        return Vec::new();
    }
    found
        .iter()
        .for_each(|(path, meta)| make_executable(path, meta));
    found
}

/// Whether there is nothing against a path; a warning tells what.
fn is_told_safe(why: Option<String>) -> bool {
    if let Some(why) = &why {
        log::warn!("{why}");
    }
    why.is_none()
}

/// Whether a file starts like a script or a program.
pub fn is_program(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut head));
    matches!(read, Ok(2..)) && (head.starts_with(b"#!") || head == *b"\x7fELF")
}

fn make_executable(path: &Path, meta: &Metadata) {
    if meta.mode() & 0o100 == 0 {
        let mode = PermissionsExt::from_mode(meta.mode() & 0o7777 | 0o100);
        if let Err(e) = std::fs::set_permissions(path, mode) {
            log::warn!("cannot make {} executable: {e}", path.display());
        }
    }
}
