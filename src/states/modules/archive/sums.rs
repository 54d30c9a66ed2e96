//! Hashes of archives that were unpacked before (`source_hash_update`): a file for each archive, lines of
//! `type:hash`, where stock Salt has them too.

use super::{Result, State};
use halite_modules::execution::file::{FileHash, get_hash};
use halite_modules::execution::python;
use std::path::{Path, PathBuf};

/// The file for an archive.
fn place(s: &State<'_, '_>, archive: &str) -> PathBuf {
    let cachedir = &s.ctx().cachedir;
    let own = match Path::new(archive).strip_prefix(cachedir) {
        Ok(own) => Path::new(&format!("{}.hash", own.display())).to_owned(),
        Err(_) => Path::new("local").join(archive.trim_start_matches('/')),
    };
    cachedir.join("archive_hash").join(own)
}

fn lines(s: &State<'_, '_>, archive: &str) -> Vec<FileHash> {
    let text = std::fs::read_to_string(place(s, archive)).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(kind, sum)| FileHash::new(sum, kind)).collect()
}

fn hash_type(s: &State<'_, '_>) -> String {
    s.ctx().opts.str("hash_type").unwrap_or("sha256").to_owned()
}

/// The hash that an archive had.
pub(super) fn read(s: &State<'_, '_>, archive: &str) -> Option<FileHash> {
    let kind = hash_type(s);
    lines(s, archive)
        .into_iter()
        .find(|sum| sum.hash_type == kind)
}

/// Writes down the hash of an archive.
pub(super) fn update(s: &State<'_, '_>, archive: &str) -> Result<()> {
    let kind = hash_type(s);
    let hash = get_hash(archive, &kind)?;
    let mut all = lines(s, archive);
    all.retain(|sum| sum.hash_type != kind);
    all.push(FileHash::new(hash, kind));
    let text: String = all
        .iter()
        .map(|sum| format!("{}:{}\n", sum.hash_type, sum.hsum))
        .collect();
    let place = place(s, archive);
    let dir = place.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir).map_err(|e| python::os_error(&e, &dir.to_string_lossy()))?;
    if let Err(e) = std::fs::write(&place, text) {
        log::warn!("Failed to update checksum for {archive}: {e}");
    }
    Ok(())
}
