//! File operations that the job log and its shared files have in common.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes with one call, so that `O_APPEND` keeps records of concurrent writers apart. `place` is for the error
/// message.
pub(super) fn write_whole(file: &mut File, records: &[u8], place: &Path) -> io::Result<()> {
    let written = file.write(records)?;
    if written == records.len() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "only {written} of {} bytes of a job record could be written to {}; is the disk full?",
        records.len(),
        place.display()
    )))
}

/// Names in a directory, sorted; empty if it does not exist.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut out = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            out.push(name);
        }
    }
    out.sort_unstable();
    Ok(out)
}
