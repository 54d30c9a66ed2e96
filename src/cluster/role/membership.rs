//! Whether this master takes part: what the bucket is, and whether it is the one that this master knows.

use super::seen::PURPOSE;
use super::{Cluster, Membership, RETRY};
use crate::link::{Entry, LinkEvent};
use crate::memory::Memory;
use crate::pieces::Voice;
use crate::record::{LARGEST, META, Meta, PAIR, PUBLICATION};
use crate::sync::{Joins, Put};
use halite_crypto::{IdentityKey, random_hex};
use halite_master::master_key;
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now;
use std::time::{Duration, Instant};

/// How long another entry that says what the bucket is may take to be heard of.
const SETTLE: Duration = Duration::from_secs(2);

/// How long another master may take to tell all its keys before the log says what to do.
const FILLING: Duration = Duration::from_secs(60);

/// Silence after which the servers are taken to have no majority. The leader's entry is written every 2 seconds; after the end of
/// a leader it takes 6 until another one writes it.
const SILENCE: Duration = Duration::from_secs(15);

/// Silence in which the other servers may have elected a leader among them: they wait this long at least.
const ELECTION: Duration = Duration::from_secs(4);

/// How long what the others have told meanwhile may take to be here: unlike what is fetched, it is announced on the bus.
const SETTLING: Duration = Duration::from_secs(30);

/// Whether a majority of the servers took part in this, now or before the present connection.
pub(super) fn is_sign_of_majority(event: &LinkEvent) -> bool {
    matches!(
        event,
        LinkEvent::Entry(_)
            | LinkEvent::AllTold
            | LinkEvent::Told { .. }
            | LinkEvent::PutEnded(_, _, Put::Done(_))
            | LinkEvent::Appended(_, _, true)
    )
}

impl Cluster<'_> {
    /// Whether this master reaches the others. A server that is cut off from the other servers keeps its connections, and even
    /// sends heartbeats.
    pub(super) fn reaches_others(&self) -> bool {
        self.membership == Membership::Member
            && self.streams.is_open()
            && self.heard.elapsed() < SILENCE
    }

    /// The servers have shown that they can write.
    pub(super) fn majority_is_heard(&mut self) {
        let silence = self.heard.elapsed();
        self.heard = Instant::now();
        if silence >= ELECTION {
            let since = unix_now().saturating_sub(silence.as_secs());
            let (earlier, _) = self.silence.unwrap_or((since, self.heard));
            self.silence = Some((earlier.min(since), self.heard));
        }
    }

    /// Compares jobs with those of the others after a time in which this master may have been cut off with its server: NATS 2.9
    /// then tells what the server had from this master, in the place of what the majority has.
    pub(super) fn compare_after_silence(&mut self) {
        let is_settled = |(_, heard): &(u64, Instant)| heard.elapsed() >= SETTLING;
        if self.reaches_others()
            && let Some((since, _)) = self.silence.take_if(|silence| is_settled(silence))
        {
            self.resync_from(since);
        }
    }

    /// Logs when the servers do nothing any more, although they are connected.
    pub(super) fn tell_of_silence(&mut self) {
        if self.membership != Membership::Member {
            return;
        }
        let is_silent = self.heard.elapsed() >= SILENCE;
        if std::mem::replace(&mut self.said_silent, is_silent) == is_silent {
            return;
        }
        match is_silent {
            true => log::warn!(
                "cluster: the NATS servers have no majority; the master goes on with the keys that it has"
            ),
            false => log::info!("cluster: the NATS servers answer again"),
        }
    }

    /// All entries are known now.
    pub(super) fn join(&mut self) -> Result<(), ExitError> {
        let found = self.early.iter().rfind(|entry| entry.name == META);
        let revision = found.map_or(0, |entry| entry.revision);
        let is_there = found.is_some_and(|entry| !entry.value.is_empty());
        let meta = found.and_then(|entry| self.sealer.open_meta(&entry.value));
        let known = Some(self.memory.bucket.clone()).filter(|bucket| !bucket.is_empty());
        let own_key = master_key(self.config)?;
        let is_old = |meta: &Meta| self.memory.before.contains(&meta.mark);
        let is_lost = match &meta {
            Some(meta) => is_old(meta),
            None if known.is_some() => self.memory.cluster == self.id,
            None => !is_there,
        };
        if is_lost && !self.refill.is_alone() {
            self.wait_for_others(revision);
            return Ok(());
        }
        let is_known =
            |meta: &Meta, known: &String| meta.mark == *known || meta.before.contains(known);
        let mut joins = match (&meta, known.as_ref()) {
            // Before anything is said about the key: what is there may be of a master that began anew by mistake.
            (Some(meta), Some(known)) if !is_known(meta, known) => {
                let file = self.memory_file.display();
                return self.refuse(format!(
                    "the bucket of {} is not the one that this master was a member of; to join it as a new master, remove {file} and \
                     start this master again",
                    self.id
                ));
            }
            (Some(meta), _) if !meta.has_key(&own_key) => {
                let file = self.config.master_key();
                return self.refuse(format!(
                    "{} is not the key of the masters of {}: remove it, and start this master again, so that it takes over theirs; minions that trusted this one alone have to be told (`minion_master.pub`)",
                    file.display(),
                    self.id
                ));
            }
            (Some(_), Some(_)) => Joins::Again,
            (Some(_), None) => Joins::New,
            (None, Some(_)) if self.memory.cluster != self.id => {
                let file = self.memory_file.display();
                return self.refuse(format!(
                    "this master was a member of {}, but cluster_id is {}; set it back or, to begin a new cluster, remove {file} and \
                     start this master again",
                    self.memory.cluster, self.id
                ));
            }
            (None, Some(_)) => {
                let file = self.memory_file.display();
                return self.refuse(format!(
                    "the bucket of {} does not say what it is, but this master was a member: the data of the NATS servers is lost. Keys \
                     that were deleted while this master was away would come back. Stop all masters; remove {file} on the one whose \
                     keys are right, and start it first. With `cluster_peers`, masters that are all there need no help",
                    self.id
                ));
            }
            (None, None) if is_there => {
                return self.refuse(format!(
                    "what is in the bucket of {} cannot be read: its masters have another cluster_secret. Start this master again with \
                     theirs",
                    self.id
                ));
            }
            (None, None) => {
                self.found(
                    Meta::new(random_hex(16), &self.config.id, &own_key),
                    revision,
                );
                return Ok(());
            }
        };
        let is_member = meta.as_ref().map(|meta| &meta.mark) == known.as_ref();
        match meta.as_ref().and_then(|meta| meta.filled_by.as_deref()) {
            // It was interrupted.
            Some(id) if id == self.config.id => joins = Joins::Again,
            _ if is_member => {}
            // Minions that are not there yet would lose their keys.
            Some(id) => {
                log::info!("cluster: waits until {id} has told all its keys");
                self.filler = Some((id.to_owned(), Instant::now()));
                return Ok(());
            }
            None => {}
        }
        self.meta = meta.map(|meta| (meta, revision));
        self.become_member(joins)
    }

    /// Makes the bucket this master's own, if no other master is faster.
    pub(super) fn found(&mut self, meta: Meta, revision: u64) {
        self.membership = Membership::Founding;
        let sealed = self.sealer.seal_meta(&meta);
        if !self.link.put(META.to_owned(), sealed, revision) {
            // It is tried again.
            self.membership = Membership::Unknown;
        }
        self.meta = Some((meta, revision));
    }

    /// An entry that is told before this master is a member.
    pub(super) fn keep_early(&mut self, mut entry: Entry) {
        // Larger ones are of no master.
        if entry.value.len() > LARGEST {
            entry.value = Vec::new();
        }
        // While it waits for long, others may write much.
        if self.all_told {
            self.early.retain(|early| early.name != entry.name);
        }
        self.early.push(entry);
    }

    /// The entry that was to say what the bucket is may not have been taken.
    pub(super) fn join_again(&mut self) -> Result<(), ExitError> {
        let is_lost = self.all_told
            && self.membership == Membership::Unknown
            && !self.refill.is_waiting()
            && self.early.iter().all(|entry| entry.name != META);
        if let Some((id, _)) = self.filler.take_if(|(_, since)| since.elapsed() >= FILLING) {
            log::warn!(
                "cluster: {id} has still not told all its keys; this master waits for it. If it is gone for good, take it from \
                 cluster_peers, and remove all streams of {} from NATS",
                self.id
            );
        }
        match is_lost {
            true => self.join(),
            false => Ok(()),
        }
    }

    /// After another master was faster: joins it as soon as its entry is here.
    pub(super) fn join_late(&mut self) -> Result<(), ExitError> {
        let is_late = self.all_told && self.membership == Membership::Unknown;
        match is_late && self.early.iter().any(|entry| entry.name == META) {
            true => self.join(),
            false => Ok(()),
        }
    }

    fn refuse(&mut self, why: String) -> Result<(), ExitError> {
        self.membership = Membership::Refused;
        self.early.clear();
        log::error!("cluster: {why}. Until then it takes no part");
        Ok(())
    }

    fn become_member(&mut self, joins: Joins) -> Result<(), ExitError> {
        let Some((meta, _)) = &self.meta else {
            return Ok(());
        };
        self.sealer.set_mark(&meta.mark);
        if self.memory.bucket != meta.mark {
            let is_refilled = meta.before.contains(&self.memory.bucket);
            self.memory = Memory {
                cluster: self.id.to_owned(),
                bucket: meta.mark.clone(),
                ..match is_refilled {
                    true => self.begin_anew(),
                    false => Memory::default(),
                }
            };
            if !is_refilled {
                self.sync.drop_base();
                self.publication = None;
            }
            self.memory.write(&self.memory_file)?;
        }
        self.membership = Membership::Member;
        self.filler = None;
        self.refill.end();
        let mut names = self.early.iter().map(|entry| entry.name.as_str());
        let has_publication = names.any(|name| name == PUBLICATION);
        for entry in std::mem::take(&mut self.early) {
            self.entry(entry)?;
        }
        let acts = self.sync.all_told(joins);
        // Before the keys, which may be too many for the connection to take at once.
        self.offer_missing_pair();
        if let Some((_, revision)) = self.publication.as_mut().filter(|_| !has_publication) {
            // Somebody has removed it.
            *revision = 0;
        }
        if !has_publication {
            self.replace_publication();
        }
        self.act(acts)?;
        let mark = self.memory.bucket.clone();
        let (id, origin) = (&self.config.id, &self.origin);
        if let Some((meta, _)) = &self.meta {
            self.streams.join(&self.secret, id, meta, origin);
        }
        self.peers.join(&self.secret, &mark, origin);
        self.connected.join(&self.secret, &mark, origin);
        let seen = || Voice::new(&self.secret, &mark, PURPOSE, origin);
        self.seen.get_or_insert_with(seen);
        if let Some(since) = self.streams.resync() {
            self.peers.resync.want(since);
        }
        self.follow();
        self.tell_tokens();
        log::info!("cluster: member of {}", self.id);
        Ok(())
    }

    /// How the attempt to be the first master of a bucket has ended.
    pub(super) fn founded(&mut self, how: Put) -> Result<(), ExitError> {
        if self.membership != Membership::Founding {
            return Ok(());
        }
        match how {
            Put::Done(revision) => {
                if let Some((_, known)) = &mut self.meta {
                    *known = revision;
                }
                self.founded = Some(Instant::now());
                Ok(())
            }
            // The entry of the one that was faster is here, or will be: as if it had been found.
            Put::Conflict | Put::Unknown => {
                self.meta = None;
                self.membership = Membership::Unknown;
                self.join_late()
            }
        }
    }

    /// Begins to take part in the bucket that this master has made its own, unless another one has as well: old servers take
    /// both entries (nats-server #4320).
    pub(super) fn settle_founding(&mut self) -> Result<(), ExitError> {
        if self.founded.take_if(|at| at.elapsed() >= SETTLE).is_none() {
            return Ok(());
        }
        let last = self.early.iter().rfind(|entry| entry.name == META);
        let last = last.and_then(|entry| self.sealer.open_meta(&entry.value));
        let own = self.meta.as_ref().map(|(meta, _)| meta);
        if last.as_ref().is_none_or(|last| Some(last) == own) {
            return self.become_member(Joins::Again);
        }
        self.meta = None;
        self.membership = Membership::Unknown;
        self.join()
    }

    /// As the first master: says when all that this master has is in the bucket.
    pub(super) fn end_filling(&mut self) {
        let is_told = self.membership == Membership::Member
            && self.sync.is_settled()
            && self.pair > 0
            && self.has_publication();
        let Some((meta, revision)) = self
            .meta
            .as_ref()
            .filter(|(meta, _)| meta.filled_by.is_some())
        else {
            return;
        };
        if !is_told || self.filled.is_some_and(|at| at.elapsed() < RETRY) {
            return;
        }
        self.filled = Some(Instant::now());
        let filled = Meta {
            filled_by: None,
            ..meta.clone()
        };
        let sealed = self.sealer.seal_meta(&filled);
        self.link.put(META.to_owned(), sealed, *revision);
    }

    /// Something in the bucket is not from a master of this cluster, or was put back by someone.
    pub(super) fn stranger(&mut self, name: &str) {
        self.refused += 1;
        if let Some(times) = self.strangers.tick(Instant::now()) {
            log::error!(
                "cluster: {} in the bucket was not written by a master of this cluster, or is an old value (times: \
                 {times}); it is ignored. Do all masters have the same cluster_secret, and who else can write to NATS?",
                excerpt(name, 100)
            );
        }
    }

    /// Offers the key that all masters have if nobody has.
    pub(super) fn offer_missing_pair(&self) {
        if self.membership == Membership::Member && self.pair == 0 {
            self.offer_pair();
        }
    }

    /// Offers that key to those who have none.
    fn offer_pair(&self) {
        let meta = self.meta.as_ref().map(|(meta, _)| meta);
        let is_right = |key: &IdentityKey| meta.is_some_and(|meta| meta.has_key(key));
        match master_key(self.config).ok().filter(is_right) {
            Some(key) => {
                let sealed = self.sealer.seal_pair(&key);
                self.link.put(PAIR.to_owned(), sealed, self.pair);
            }
            None => log::error!(
                "cluster: {} is not the key of the masters of {} any more; new masters do not get it",
                self.config.master_key().display(),
                self.id
            ),
        }
    }

    /// The entry with that key must not change: it is written again.
    pub(super) fn check_pair(&mut self, value: &[u8], revision: u64) {
        if revision <= self.pair {
            return;
        }
        self.pair = revision;
        let meta = self.meta.as_ref().map(|(meta, _)| meta);
        if meta.is_none_or(|meta| self.sealer.open_pair(value, meta).is_none()) {
            self.stranger(PAIR);
            self.offer_pair();
        }
    }

    /// The entry that says what the bucket is must not change: it is written again.
    pub(super) fn check_meta(&mut self, value: &[u8], revision: u64) {
        let Some((meta, known)) = &mut self.meta else {
            return;
        };
        if revision <= *known {
            return;
        }
        *known = revision;
        let found = self.sealer.open_meta(value);
        match &found {
            // The bucket that this master is a member of was lost, and somebody has put its entry back.
            Some(found) if found.before.contains(&meta.mark) => {
                self.link.reconnect();
                return;
            }
            // This is the first master, and that was its word.
            Some(found) if found.filled_by.is_none() && found.mark == meta.mark => {
                meta.filled_by = None;
            }
            _ => {}
        }
        if found.as_ref() != Some(meta) {
            let sealed = self.sealer.seal_meta(meta);
            self.link.put(META.to_owned(), sealed, revision);
            self.stranger(META);
        }
    }
}
