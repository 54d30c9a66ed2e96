//! Results of jobs that finished while no minion was running: `<cachedir>/left/<jid>`, until the next minion
//! process takes them.

use halite_modules::execution::proc;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::Jid;
use halite_wire::msgpack;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Larger results are ignored.
const MAX_FILE: u64 = 512 << 20;

fn dir(cachedir: &Path) -> PathBuf {
    halite_config::paths::minion::cache::orphaned_results(cachedir)
}

/// Saves the result of a job that the minion did not read. Only the minion's account can read the file.
///
/// # Errors
/// The directory is not writable.
pub fn put(cachedir: &Path, jid: &Jid, bytes: &[u8]) -> io::Result<()> {
    let dir = dir(cachedir);
    make_dir(&dir, 0o700)?;
    write_atomic(&dir.join(jid.as_str()), bytes, 0o600)
}

/// Removes and returns the result of a job, if there is one.
pub fn take(cachedir: &Path, jid: &Jid) -> Option<Vec<u8>> {
    let path = dir(cachedir).join(jid.as_str());
    let bytes = proc::read_file(&path, MAX_FILE)?;
    if let Err(e) = fs::remove_file(&path) {
        log::warn!("{}: {e}; the result may be sent again", path.display());
    }
    // It is complete: it was renamed into place.
    msgpack::decode(&bytes).ok()?.into_map()?;
    Some(bytes)
}

/// The jobs that left a result.
pub fn jids(cachedir: &Path) -> Vec<Jid> {
    proc::jids(&dir(cachedir))
}
