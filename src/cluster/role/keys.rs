//! Keys of minions, between the files of this master and the bucket.

use super::Cluster;
use crate::record::{KeyRecord, Keys, name_of};
use crate::sync::{Act, Put};
use halite_store::keys::{KeyState, event_act};
use halite_store::local;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::exit::ExitError;
use halite_wire::Value;
use halite_wire::ids::MinionId;

impl Cluster<'_> {
    /// Does what `sync` says.
    pub(super) fn act(&mut self, acts: impl IntoIterator<Item = Act>) -> Result<(), ExitError> {
        for act in acts {
            match act {
                Act::Put {
                    id,
                    record,
                    revision,
                } => self.put(&id, &record, revision)?,
                Act::Write { id, keys } => self.write(&id, &keys)?,
            }
        }
        Ok(())
    }

    /// Tells the sessions how often the key of a minion was taken away.
    pub(super) fn set_epoch(&self, id: &MinionId, epoch: u64) -> Result<(), ExitError> {
        let dir = self.config.cluster_epochs();
        if epoch > local::epoch(&dir, id) {
            make_dir(&dir, 0o700)?;
            write_atomic(&dir.join(id.as_str()), epoch.to_string().as_bytes(), 0o600)?;
        }
        Ok(())
    }

    fn put(&mut self, id: &MinionId, record: &KeyRecord, revision: u64) -> Result<(), ExitError> {
        self.set_epoch(id, record.epoch)?;
        // Whoever is no longer accepted must not read what is published from now on.
        self.is_rotation_wanted |=
            self.sync.is_accepted(id) && !record.keys.contains_key(&KeyState::Accepted);
        let sealed = self.sealer.seal_keys(id, record);
        if !self.link.put(name_of(id), sealed, revision) {
            // Repeated soon.
            self.is_link_full = true;
            self.sync.put_ended(id, Put::Unknown);
        }
        Ok(())
    }

    fn write(&mut self, id: &MinionId, keys: &Keys) -> Result<(), ExitError> {
        let Some((before, after)) = self.files.write(id, keys)? else {
            return Ok(());
        };
        let act = match (before, after) {
            (Some(_), None) => "delete",
            (_, Some(KeyState::Accepted)) => KeyState::Accepted.name(),
            (_, Some(KeyState::Rejected)) => KeyState::Rejected.name(),
            (Some(KeyState::Accepted), _) => {
                log::warn!(minion:% = id; "key of {id}: no longer accepted, as in the rest of the cluster; `halite-key -a {id}` accepts it");
                return Ok(());
            }
            _ => return Ok(()),
        };
        let told = after.map_or("deleted", KeyState::name);
        log::info!(minion:% = id; "key of {id}: {told}, as in the rest of the cluster");
        let act = event_act(self.config.salt_series, act);
        let event = halite_wire::map! {"result" => true, "act" => act, "id" => Value::from(id)};
        self.bus.fire("salt/key", event);
        Ok(())
    }
}
