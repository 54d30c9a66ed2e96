//! Settings of the minion.

use crate::wire::{Dialect, MachineId, MessageKind, MinionMessage};
use halite_wire::Value;
use std::time::Duration;

/// Settings that do not change while the minion runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The minion's id.
    pub id: MachineId,
    /// The seed's dialect or the later one.
    pub dialect: Dialect,
    /// Session id of this run, a UUID.
    pub session: String,
    /// Fingerprint of the master's key, lower case, empty if none was given.
    pub fingerprint: String,
    /// The minion's public key in sysinspect's format.
    pub own_key: String,
    /// Globs of the functions that may run.
    pub allowed: Vec<String>,
    /// First and longest pause before another attempt to connect.
    pub pauses: (Duration, Duration),
    /// Returns a random number from 0 to 1, which spreads the pauses.
    pub chance: fn() -> f64,
}

impl Settings {
    /// A message of this minion.
    pub(super) fn message(&self, kind: MessageKind, data: impl Into<Value>) -> MinionMessage {
        let mut message = MinionMessage::new(&self.id, kind, data);
        if self.dialect == Dialect::Modern && kind != MessageKind::Add {
            message.session = self.session.clone();
        }
        message
    }
}
