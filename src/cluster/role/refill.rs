//! After the loss of all data of NATS: the bucket is filled again from what the masters have, as soon as all of `cluster_peers` are there.
//!
//! The one that has read most of the old bucket writes what it had, with its numbers, deleted keys among them. By these, the others
//! tell what they have changed meanwhile, and what they know that it did not. Without one of the masters, a key that was deleted there
//! last could be valid for some time.

use super::leading::Leases;
use super::{Cluster, Membership};
use crate::memory::Memory;
use crate::record::Meta;
use halite_crypto::random_hex;
use halite_master::master_key;
use halite_sys::exit::ExitError;

impl Cluster<'_> {
    /// The bucket is empty, although this master was a member of the one with this mark.
    pub(super) fn wait_for_others(&mut self, mark: &str) -> Result<(), ExitError> {
        self.is_lost = true;
        self.peers.join(&self.secret, mark, &self.origin);
        log::error!(
            "cluster: the data of the NATS servers is lost: the bucket of {} is empty. It is filled again from what the masters have \
             when all of cluster_peers are there",
            self.id
        );
        Ok(())
    }

    /// Fills the bucket if all wait for that, and this master is the one to do it.
    pub(super) fn refill(&mut self) -> Result<(), ExitError> {
        if !self.is_lost || self.membership != Membership::Unknown {
            return Ok(());
        }
        let own = (self.sync.newest(), self.config.id.as_str());
        let is_newest = match self.peers.members.lost() {
            Ok(others) => others.into_iter().all(|other| other < own),
            Err(missing) => {
                log::debug!(
                    "cluster: the bucket is not filled without {}",
                    missing.join(", ")
                );
                false
            }
        };
        if is_newest {
            log::warn!("cluster: this master fills the bucket of {} again", self.id);
            let meta = Meta::new(random_hex(16), &self.config.id, &master_key(self.config)?);
            let before = Some(self.memory.bucket.clone());
            self.found(Meta { before, ..meta }, 0);
        }
        Ok(())
    }

    /// What this master remembers, for a bucket that is filled after the loss of the one before.
    pub(super) fn begin_anew(&mut self) -> Memory {
        self.sync.begin_anew();
        self.peers.leave();
        self.connected.leave();
        self.seen = None;
        self.leases = Leases::new(self.config);
        if let Some((_, revision)) = &mut self.publication {
            *revision = 0;
        }
        Memory {
            publication: self.memory.publication,
            base: self.sync.take_base().cloned().unwrap_or_default(),
            ..Memory::default()
        }
    }
}
