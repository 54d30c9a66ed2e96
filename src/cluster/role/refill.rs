//! An empty bucket, with `cluster_peers`: it is filled as soon as all of these are there.
//!
//! The master that has read most of the old bucket writes what it had, with its numbers, deleted keys among them. By these, the
//! others tell what they have changed meanwhile, and what they know that it did not. Without one of the masters, a key that was
//! deleted there last could be valid for some time.

use super::leading::Leases;
use super::{Cluster, Membership};
use crate::link::Channel;
use crate::lost::{Knew, MOST_MARKS, Next, Waiting};
use crate::memory::Memory;
use crate::pieces::Voice;
use crate::record::Meta;
use halite_config::ClusterConfig;
use halite_crypto::{ClusterSecret, random_hex};
use halite_master::master_key;
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now;
use std::time::Instant;

/// What masters that wait tell each other about.
const PURPOSE: &str = "lost";

/// What the role has about it.
pub(super) struct Refill {
    waiting: Waiting,
    voice: Voice,
    /// The revision of the entry that says what the bucket is, which is to be replaced.
    revision: u64,
    /// Those that the log has said to be missing.
    said: Option<Vec<String>>,
}

impl Refill {
    pub(super) fn new(
        cluster: &ClusterConfig,
        secret: &ClusterSecret,
        own: &str,
        origin: &str,
    ) -> Refill {
        Refill {
            waiting: Waiting::new(own, cluster.others(own)),
            // Whatever bucket they were members of.
            voice: Voice::new(secret, "", PURPOSE, origin),
            revision: 0,
            said: None,
        }
    }

    /// Whether there are no others to wait for.
    pub(super) fn is_alone(&self) -> bool {
        self.waiting.is_alone()
    }

    /// Whether this master waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_waiting()
    }

    /// This master waits no more.
    pub(super) fn end(&mut self) {
        self.waiting.end();
        self.said = None;
    }
}

impl Cluster<'_> {
    /// The bucket is empty, or an old one; the entry that should say what it is has this revision.
    pub(super) fn wait_for_others(&mut self, revision: u64) {
        self.refill.revision = revision;
        if self.refill.waiting.begin(Instant::now()) && !self.memory.bucket.is_empty() {
            log::error!(
                "cluster: the data of the NATS servers is lost: the bucket of {} is empty, or an old one. It is filled again from what \
                 the masters have when all of cluster_peers are there",
                self.id
            );
        }
    }

    fn knew(&self) -> Knew {
        let marks = std::iter::once(&self.memory.bucket).chain(&self.memory.before);
        Knew {
            marks: marks.filter(|mark| !mark.is_empty()).cloned().collect(),
            newest: self.sync.newest(),
        }
    }

    /// While this master waits: tells it, and fills the bucket if it is the one to do it.
    pub(super) fn tend_refill(&mut self) -> Result<(), ExitError> {
        let now = Instant::now();
        if self.membership != Membership::Unknown || !self.refill.waiting.is_due(now) {
            return Ok(());
        }
        let knew = self.knew();
        let teller = &mut self.refill.voice.teller;
        for piece in teller.seal(&knew.encode(unix_now())).unwrap_or_default() {
            self.link.tell(Channel::Lost, teller.origin.clone(), piece);
        }
        match self.refill.waiting.next(&knew, now) {
            Next::Fill(before) => {
                if !before.is_empty() {
                    log::warn!("cluster: this master fills the bucket of {} again", self.id);
                }
                let meta = Meta::new(random_hex(16), &self.config.id, &master_key(self.config)?);
                self.found(Meta { before, ..meta }, self.refill.revision);
            }
            Next::Wait(missing) => {
                if !knew.marks.is_empty() && self.refill.said.as_ref() != Some(&missing) {
                    match missing.is_empty() {
                        true => log::info!("cluster: another master fills the bucket"),
                        false => {
                            log::warn!("cluster: waits for {} (cluster_peers)", missing.join(", "))
                        }
                    }
                    self.refill.said = Some(missing);
                }
            }
        }
        Ok(())
    }

    /// Another master waits.
    pub(super) fn heard_waiting(&mut self, origin: &str, bytes: &[u8]) {
        let Refill { voice, waiting, .. } = &mut self.refill;
        if voice.is_own(origin) {
            return;
        }
        // What is opened counts once, whether or not this master waits.
        let Ok((peer, opened)) = voice.open(origin, bytes) else {
            self.stranger(&format!("a message of lost.{origin:.100}"));
            return;
        };
        if let Some((at, knew)) = opened.and_then(|bytes| Knew::decode(&bytes)) {
            let unix = unix_now();
            if !waiting.heard(&peer, at, knew, Instant::now(), unix)
                && self.strangers.due(Instant::now()).is_some()
            {
                log::warn!(
                    "cluster: {peer} waits for this master, but its clock differs from ours by {} s; 30 are too many",
                    at.abs_diff(unix)
                );
            }
        }
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
        let before = std::iter::once(&self.memory.bucket).chain(&self.memory.before);
        Memory {
            publication: self.memory.publication,
            base: self.sync.take_base().cloned().unwrap_or_default(),
            before: before.take(MOST_MARKS).cloned().collect(),
            ..Memory::default()
        }
    }
}
