//! Programs on this host: in `PATH`, and custom executables.

use halite_wire::{Map, Value};
use nix::unistd::{AccessFlags, access};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Maximum number of files read in one directory.
pub(crate) const MAX_FILES: usize = 1000;

/// The path of a program: as given, in `PATH`, or in the usual directories.
pub fn which(name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let program = |path: &str| Path::new(path).is_file() && access(path, AccessFlags::X_OK).is_ok();
    if program(name) {
        return Some(name.to_owned());
    }
    let path = halite_sys::environment::get("PATH").unwrap_or_default();
    let usual = [
        "/sbin",
        "/bin",
        "/usr/sbin",
        "/usr/bin",
        "/usr/local/sbin",
        "/usr/local/bin",
    ];
    path.split(':')
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

/// The directories of a type of custom files (`modules`, `grains`): synced files first, then those of the option.
pub fn module_dirs(opts: &Map, kind: &str, option: &str) -> Vec<PathBuf> {
    let synced = match opts.str("extension_modules") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => halite_config::paths::minion::cache::extmods(Path::new(
            opts.str("cachedir").unwrap_or_default(),
        )),
    };
    let further = opts.get(option).map(Value::str_list).unwrap_or_default();
    std::iter::once(synced.join(kind))
        .chain(further.into_iter().map(PathBuf::from))
        .collect()
}

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
        .filter(|(path, meta)| is_safe(path, meta))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
        .iter()
        .for_each(|(path, meta)| make_executable(path, meta));
    found
}

/// Whether it belongs to root or to this account.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    [0, nix::unistd::geteuid().as_raw()].contains(&meta.uid())
}

/// Whether only root and this account may change it; a warning says if not.
pub(crate) fn is_safe(path: &Path, meta: &Metadata) -> bool {
    let safe = is_own(meta) && meta.mode() & 0o022 == 0;
    if !safe {
        log::warn!(
            "{}: not used, because another user owns it or can write to it",
            path.display()
        );
    }
    safe
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
