//! Keys of minions, each in one of four states.

use halite_config::SaltSeries;
use halite_crypto::clean_key;
use halite_wire::ids::MinionId;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// State of a minion's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyState {
    /// Trusted.
    Accepted,
    /// A key that differs from the stored one was presented.
    Denied,
    /// Waiting for the operator.
    Pending,
    /// Refused by the operator.
    Rejected,
}

impl KeyState {
    /// All states, in the order in which `salt-key` prints them.
    pub const ALL: [KeyState; 4] = [
        KeyState::Accepted,
        KeyState::Denied,
        KeyState::Pending,
        KeyState::Rejected,
    ];

    /// Directory below `pki_dir`.
    pub fn dir(self) -> &'static str {
        match self {
            KeyState::Accepted => "minions",
            KeyState::Denied => "minions_denied",
            KeyState::Pending => "minions_pre",
            KeyState::Rejected => "minions_rejected",
        }
    }

    /// Name of the state as Salt 3008's events carry it (`salt/key.py Key.change_state`).
    pub fn name(self) -> &'static str {
        match self {
            KeyState::Accepted => "accepted",
            KeyState::Denied => "denied",
            KeyState::Pending => "pending",
            KeyState::Rejected => "rejected",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an event `salt/key` says has happened, for 3008's word `act`: older series say what was done, not what the key is.
pub fn event_act(series: SaltSeries, act: &str) -> &str {
    match (series, act) {
        (SaltSeries::S3006 | SaltSeries::S3007, "accepted") => "accept",
        (SaltSeries::S3006 | SaltSeries::S3007, "rejected") => "reject",
        (_, act) => act,
    }
}

/// Sorted ids of one state.
pub type IdList = Arc<Vec<MinionId>>;

/// Version of a stored item, which differs after every change. Only useful for comparing.
pub type Version = (i64, i64, u64);

/// A lock that is held until it is dropped.
pub type KeyLock = Box<dyn std::any::Any + Send>;

/// Where keys are stored.
pub trait KeyStore: Send + Sync {
    /// Prepares the store for its first write.
    ///
    /// # Errors
    /// The store cannot be prepared; for files, the directories cannot be created.
    fn prepare(&self) -> io::Result<()>;

    /// The key of `id` in `state` as it was stored, with LF line endings; `None` if there is none.
    fn text(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>>;

    /// The key of `id` in `state` in the form used for comparing; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not UTF-8 (`InvalidData`).
    fn get(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>>;

    /// Version of the key of `id` in `state`; `None` if there is no key.
    fn version(&self, state: KeyState, id: &MinionId) -> Option<Version>;

    /// Stores `text` for `id` in `state` exactly as it is. Other states are left alone.
    fn put_text(&self, state: KeyState, id: &MinionId, text: &str) -> io::Result<()>;

    /// Moves the key of `id` from one state to another. `false` if there was none.
    fn change(&self, id: &MinionId, from: KeyState, to: KeyState) -> io::Result<bool>;

    /// Removes the key of `id` in `state`. `false` if there was none.
    fn delete(&self, state: KeyState, id: &MinionId) -> io::Result<bool>;

    /// Ids in `state`, sorted. Cheap if nothing has changed since the last call.
    fn list(&self, state: KeyState) -> io::Result<IdList>;

    /// Locks the key of `id` for a decision and the changes that follow from it. The methods that change keys do not
    /// take this lock themselves. Whoever holds it must not wait for another one.
    ///
    /// # Errors
    /// The lock cannot be taken.
    fn lock(&self, id: &MinionId) -> io::Result<KeyLock>;

    /// Removes the one-time approval of `id` (`minions_autosign/<id>`). `true` if there was one that is not older than
    /// `max_age`.
    fn consume_autosign(&self, id: &MinionId, max_age: Duration) -> io::Result<bool>;

    /// Stores `key` for `id` in `state`, in the form used for comparing.
    fn put(&self, state: KeyState, id: &MinionId, key: &str) -> io::Result<()> {
        self.put_text(state, id, &clean_key(key))
    }

    /// The effective state of `id` and its key: rejected before pending before accepted
    /// (`salt/cache/localfs_key.py`). Denied keys are ignored: they exist in addition to these.
    fn state(&self, id: &MinionId) -> io::Result<Option<(KeyState, String)>> {
        for state in [KeyState::Rejected, KeyState::Pending, KeyState::Accepted] {
            if let Some(key) = self.get(state, id)? {
                return Ok(Some((state, key)));
            }
        }
        Ok(None)
    }
}

/// Text as Python's text mode reads it; bytes that are not UTF-8 are replaced.
pub fn universal_newlines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text.into_owned()
    }
}
