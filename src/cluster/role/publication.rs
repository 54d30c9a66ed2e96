//! The key of publications that all masters have, and its rotation.

use super::{Cluster, Membership};
use crate::record::{PUBLICATION, PublicationKey};
use halite_crypto::{KeyString, fill_random};
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now;
use std::time::{Duration, Instant};

impl Cluster<'_> {
    /// Whether the bucket has a key of publications.
    pub(super) fn has_publication(&self) -> bool {
        let known = self.publication.as_ref();
        known.is_some_and(|(_, revision)| *revision > 0)
    }

    /// Writes a key of publications if there is none in the bucket, and none is being written.
    pub(super) fn offer_missing_publication(&mut self) {
        let is_missing = !self.has_publication() && self.replacing.is_none();
        if self.membership == Membership::Member && is_missing {
            self.replace_publication();
        }
    }

    /// The key of publications in the bucket is not one of a master, or an old one: the known one is written again, or a new one.
    pub(super) fn foreign_publication(&mut self, revision: u64) {
        self.stranger(PUBLICATION);
        let known = self.publication.take().map(|(key, _)| key);
        let known = known.filter(|key| key.number >= self.memory.publication);
        self.is_publication_foreign = known.is_some();
        let key = known.unwrap_or_else(|| PublicationKey {
            number: self.memory.publication,
            random: Vec::new(),
            // It is due.
            since: 0,
        });
        self.publication = Some((key, revision));
    }

    /// The key of publications of the cluster.
    pub(super) fn take_publication(
        &mut self,
        key: PublicationKey,
        revision: u64,
    ) -> Result<(), ExitError> {
        if let Some((known, since)) = &self.publication {
            if revision <= *since {
                return Ok(());
            }
            if key == *known {
                self.publication = Some((key, revision));
                self.is_publication_foreign = false;
                return Ok(());
            }
            if key.number <= known.number {
                self.foreign_publication(revision);
                return Ok(());
            }
        }
        if key.number < self.memory.publication {
            self.foreign_publication(revision);
            return Ok(());
        }
        let parts = [&key.number.to_be_bytes()[..], &key.random];
        let text = self.secret.key("publication", &parts);
        self.publication = Some((key, revision));
        self.is_publication_foreign = false;
        self.set_publication(&text)
    }

    pub(super) fn rotate_if_due(&mut self) -> Result<(), ExitError> {
        if self.membership != Membership::Member {
            // Whoever was deleted must not read what this master publishes. The others follow when they hear of it.
            let lifetime = Duration::from_secs(self.config.publish_session.max(1));
            if std::mem::take(&mut self.is_rotation_asked) || self.rotated.elapsed() >= lifetime {
                self.set_publication(&KeyString::generate())?;
            }
            return Ok(());
        }
        self.is_rotation_asked = false;
        if self.replacing.is_some() {
            return Ok(());
        }
        if self.is_publication_foreign
            && !self.is_rotation_wanted
            && let Some((key, revision)) = self.publication.clone()
        {
            self.put_publication(key, revision);
            return Ok(());
        }
        let is_old = self.publication.as_ref().is_some_and(|(key, _)| {
            unix_now() >= key.since.saturating_add(self.config.publish_session.max(1))
        });
        if is_old || self.is_rotation_wanted {
            self.replace_publication();
        }
        Ok(())
    }

    pub(super) fn set_publication(&mut self, key: &KeyString) -> Result<(), ExitError> {
        self.rotated = Instant::now();
        if *self.shared.load_key()?.1 != key.as_str() {
            self.shared.store_key(key.as_str())?;
            let event = halite_wire::map! {"rotate_aes_key" => true};
            self.bus.fire("key", event);
        }
        Ok(())
    }

    /// Replaces the key of publications, unless another master is faster.
    pub(super) fn replace_publication(&mut self) {
        let (number, revision) = match &self.publication {
            Some((key, revision)) => (key.number + 1, *revision),
            None => (self.memory.publication + 1, 0),
        };
        let mut random = vec![0; 16];
        fill_random(&mut random);
        let key = PublicationKey {
            number,
            random,
            since: unix_now(),
        };
        self.put_publication(key, revision);
    }

    fn put_publication(&mut self, key: PublicationKey, revision: u64) {
        let sealed = self.sealer.seal_publication(&key);
        if self.link.put(PUBLICATION.to_owned(), sealed, revision) {
            self.replacing = Some(key);
        }
    }
}
