//! The last steps for every return, whatever its origin.

use super::events::Bus;
use halite_store::jobs::JobStore;
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::io;

/// Stores a return if `store` is set, then fires its event: listeners can look it up.
///
/// # Errors
/// The job cache is not writable; then no event is fired. If the return cannot be stored because of its
/// content, the event is fired all the same.
pub fn store_and_fire(
    jobs: &dyn JobStore,
    bus: &mut Bus,
    store: bool,
    jid: &Jid,
    id: &MinionId,
    load: Map,
) -> io::Result<()> {
    if store {
        kept(id, jobs.save_return(jid, id, &load))?;
    }
    bus.fire(&tag(jid, id), load);
    Ok(())
}

/// Handles the result of storing a return: if it could not be stored because of its content, that is logged and
/// counts as success, since trying again would not help.
///
/// # Errors
/// The job cache is not writable.
pub(crate) fn kept(id: &MinionId, outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            log::warn!(minion:% = id; "{id}: {e}; not stored");
            Ok(())
        }
        other => other,
    }
}

/// The event tag of a return.
pub(crate) fn tag(jid: &Jid, id: &MinionId) -> String {
    format!("salt/job/{jid}/ret/{id}")
}
