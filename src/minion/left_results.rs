//! Results of jobs that ended while no minion ran: `<cachedir>/left/<jid>`, until the next process of the minion takes them.

use halite_modules::execution::proc;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::Jid;
use halite_wire::msgpack;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Results beyond this are none.
const MAX_FILE: u64 = 512 << 20;

fn dir(cachedir: &Path) -> PathBuf {
    halite_config::paths::minion::cache::orphaned_results(cachedir)
}

/// Keeps the result of a job that the minion did not take. Only the minion's account can read it.
///
/// # Errors
/// The directory cannot be written.
pub fn put(cachedir: &Path, jid: &Jid, bytes: &[u8]) -> io::Result<()> {
    let dir = dir(cachedir);
    make_dir(&dir, 0o700)?;
    write_atomic(&dir.join(jid.as_str()), bytes, 0o600)
}

/// Takes the result of a job, if there is one.
pub fn take(cachedir: &Path, jid: &Jid) -> Option<Vec<u8>> {
    let path = dir(cachedir).join(jid.as_str());
    let bytes = proc::read_file(&path, MAX_FILE)?;
    if let Err(e) = fs::remove_file(&path) {
        log::warn!("{}: {e}; the result may be sent again", path.display());
    }
    // A whole one: it was renamed into its place.
    msgpack::decode(&bytes).ok()?.into_map()?;
    Some(bytes)
}

/// The jobs that have left a result.
pub fn jids(cachedir: &Path) -> Vec<Jid> {
    proc::jids(&dir(cachedir))
}
