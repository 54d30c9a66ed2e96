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

/// The job that an event is about (`salt/job/<jid>/new`, `salt/job/<jid>/ret/<id>`, `salt/run/<jid>/ret`,
/// `salt/wheel/<jid>/ret`), and whether it may not be in the log yet.
pub fn news_of(tag: &str) -> Option<(Jid, bool)> {
    let (kind, rest) = tag.strip_prefix("salt/")?.split_once('/')?;
    let (jid, what) = rest.split_once('/')?;
    let late = match kind {
        "job" if what == "new" || what.starts_with("ret/") => false,
        "run" | "wheel" if what == "ret" => true,
        _ => return None,
    };
    Some((jid.parse().ok()?, late))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_returns_are_news() {
        let late = |tag: &str| news_of(tag).map(|(_, late)| late);
        assert_eq!(late("salt/job/20261121092637195592/new"), Some(false));
        assert_eq!(late("salt/job/20261121092637195592/ret/m"), Some(false));
        assert_eq!(late("salt/run/20261121092637195592/ret"), Some(true));
        for other in [
            "salt/job/20261121092637195592/prog/m/1",
            "salt/job/x/new",
            "minion_start",
        ] {
            assert!(late(other).is_none(), "{other}");
        }
    }
}
