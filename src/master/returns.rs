//! The last steps of every return, whoever brings it.

use super::events::Bus;
use crate::store::jobs::JobStore;
use crate::wire::Map;
use crate::wire::ids::{Jid, MinionId};
use std::io;

/// Keeps a return, if `store` says so, then tells the bus: whoever hears of it can look it up.
///
/// # Errors
/// The job cache cannot be written; then nothing is told. A return that cannot be kept because of what is in
/// it is told all the same.
pub(crate) fn hand_in(
    jobs: &dyn JobStore,
    bus: &mut Bus,
    store: bool,
    jid: &Jid,
    id: &MinionId,
    load: Map,
) -> io::Result<()> {
    if store {
        match jobs.save_return(jid, id, &load) {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                log::warn!("{id}: {e}; not kept")
            }
            other => other?,
        }
    }
    bus.fire(&format!("salt/job/{jid}/ret/{id}"), load);
    Ok(())
}
