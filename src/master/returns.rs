//! The last steps of every return, whoever brings it.

use super::events::Bus;
use halite_store::jobs::JobStore;
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::io;

/// Keeps a return, if `store` says so, then tells the bus: whoever hears of it can look it up.
///
/// # Errors
/// The job cache cannot be written; then nothing is told. A return that cannot be kept because of what is in
/// it is told all the same.
pub fn hand_in(
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

/// What came of keeping a return: one that cannot be kept because of what is in it is logged and counts as kept, since
/// it would be no better the next time.
///
/// # Errors
/// The job cache cannot be written.
pub(crate) fn kept(id: &MinionId, outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            log::warn!(minion:% = id; "{id}: {e}; not kept");
            Ok(())
        }
        other => other,
    }
}

/// Under which the bus hears of a return.
pub(crate) fn tag(jid: &Jid, id: &MinionId) -> String {
    format!("salt/job/{jid}/ret/{id}")
}
