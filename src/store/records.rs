//! Small records: which minion started a job, which minions are syndics, whether a new publication key was asked for.

use halite_wire::ids::{Jid, MinionId};
use std::io;
use std::time::Duration;

/// Which minion started a job (`publish.publish`): only that minion may read its returns.
pub trait JobOwners: Send + Sync {
    /// Records that `id` started `jid`.
    fn put(&self, jid: &Jid, id: &MinionId) -> io::Result<()>;

    /// Whether `id` started `jid`.
    fn owns(&self, id: &MinionId, jid: &Jid) -> bool;

    /// Removes records older than `keep`. Failures to remove are logged.
    fn expire(&self, keep: Duration);
}

/// Ids of the syndics of lower masters. Clients do not wait for returns of the syndics themselves.
pub trait Syndics: Send + Sync {
    /// Records `id` as a syndic.
    fn put(&self, id: &MinionId) -> io::Result<()>;

    /// Whether `id` is a syndic.
    fn contains(&self, id: &str) -> bool;
}

/// Requests for a new publication key, so that minions without an accepted key cannot read publications any more.
pub trait RotationRequests: Send + Sync {
    /// Asks for a new key.
    fn request(&self) -> io::Result<()>;

    /// Removes the request; returns whether there was a valid one.
    fn take(&self) -> bool;
}
