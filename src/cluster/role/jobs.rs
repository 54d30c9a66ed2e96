//! Jobs: passes on what this master's log has, and takes what others tell.

use super::{Cluster, Membership};
use crate::jobs::record::{Foreign, Listener, Message, Teller, sender};
use crate::jobs::{Inbox, News, Outbox};
use crate::link::{Cursor, Found};
use crate::memory::JobsMemory;
use halite_config::MasterConfig;
use halite_crypto::ClusterSecret;
use halite_store::Stores;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::time::unix_now;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// How far the clocks of an earlier and this start may differ, in seconds.
const SKEW: u64 = 5;

/// What the role has about jobs.
pub(super) struct Jobs {
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    /// As a member: how it tells, and how it understands.
    voice: Option<(Teller, Listener)>,
    is_following: bool,
    /// The last message that was taken.
    taken: u64,
    memory: JobsMemory,
    file: PathBuf,
    /// When this process started, in Unix seconds.
    started: u64,
    twins: LogLimiter,
}

impl Jobs {
    pub(super) fn new(config: &MasterConfig, stores: &Stores) -> Result<Jobs, ExitError> {
        let file = JobsMemory::path(&config.cluster_dir());
        let memory = JobsMemory::read(&file)?.unwrap_or_default();
        let reached = SystemTime::UNIX_EPOCH + Duration::from_secs(memory.told);
        Ok(Jobs {
            inbox: Inbox::new(config, stores.jobs.clone())?,
            outbox: Outbox::new(stores.jobs.clone(), reached.min(SystemTime::now())),
            voice: None,
            is_following: false,
            taken: 0,
            memory,
            file,
            started: unix_now(),
            twins: LogLimiter::default(),
        })
    }

    /// This master is a member of the bucket with this mark; the result is where it was in the stream.
    pub(super) fn join(&mut self, secret: &ClusterSecret, id: &str, mark: &str) -> Cursor {
        if self.memory.bucket != mark {
            self.memory = JobsMemory {
                bucket: mark.to_owned(),
                ..JobsMemory::default()
            };
            self.outbox.forget();
            self.voice = None;
        }
        if self.voice.is_none() {
            self.voice = Some((Teller::new(secret, id, mark), Listener::new(secret, mark)));
        }
        self.memory.cursor.clone()
    }

    pub(super) fn down(&mut self) {
        self.is_following = false;
        self.outbox.down();
    }

    pub(super) fn remember(&mut self) -> Result<(), ExitError> {
        let told = self.outbox.reached();
        let is_between = self
            .voice
            .as_ref()
            .is_some_and(|(_, l)| l.is_between_pieces());
        let mut memory = self.memory.clone();
        memory.told = told.max(memory.told);
        if !is_between {
            memory.cursor.sequence = memory.cursor.sequence.max(self.taken);
        }
        if memory.bucket.is_empty() || memory == self.memory {
            return Ok(());
        }
        self.memory = memory;
        Ok(self.memory.write(&self.file)?)
    }
}

impl Cluster<'_> {
    pub(super) fn news(&mut self, news: News) {
        let outbox = &mut self.jobs.outbox;
        match news {
            News::Job { jid, is_late } => outbox.news(jid, is_late),
            News::Published(parts) => outbox.published(parts),
            News::Missed => outbox.look_again(),
        }
    }

    pub(super) fn following(&mut self, found: Found) {
        if found.is_another {
            log::warn!(
                "cluster: the stream of jobs was made anew; what masters have told each other before is read again where it is left"
            );
            self.jobs.outbox.forget();
        }
        if found.missed > 0 {
            log::error!(
                "cluster: {} messages about jobs of other masters are no longer there (`keep`, `keep_bytes` of option cluster): this \
                 master's job cache lacks what they told",
                found.missed
            );
        }
        self.jobs.taken = found.cursor.sequence;
        self.jobs.memory.cursor = found.cursor;
        self.jobs.is_following = true;
    }

    /// A message of the stream.
    pub(super) fn told(
        &mut self,
        origin: &str,
        bytes: &[u8],
        sequence: u64,
    ) -> Result<(), ExitError> {
        let Some((teller, listener)) = &mut self.jobs.voice else {
            return Ok(());
        };
        if sequence <= self.jobs.taken {
            return Ok(());
        }
        if origin != teller.origin {
            let opened = match sender(origin) {
                Some(peer) => listener.open(origin, bytes).map(|message| (peer, message)),
                None => Err(Foreign),
            };
            match opened {
                Ok((peer, Some(message))) if peer == self.config.id => self.twin(&message),
                Ok((peer, Some(message))) if !self.is_past(message.at) => {
                    self.jobs.inbox.take(&peer, message, &mut self.bus)?;
                }
                Ok(_) => {}
                Err(Foreign) => self.stranger(&format!("the message {sequence} of {origin:.100}")),
            }
        }
        self.jobs.taken = sequence;
        Ok(())
    }

    /// A message of another start with this master's id: an earlier one, or a master that has the same id.
    fn twin(&mut self, message: &Message) {
        if message.at <= self.jobs.started + SKEW {
            return;
        }
        if self.jobs.twins.tick(Instant::now()).is_some() {
            log::error!(
                "cluster: another master has the id {} as well, so that neither takes what the other tells about jobs: set a different \
                 `id` on each master",
                self.config.id
            );
        }
    }

    /// Whether what was told then is no longer kept.
    fn is_past(&self, at: u64) -> bool {
        let keep = self.config.keep_jobs_seconds;
        keep > 0 && at.saturating_add(keep) < unix_now()
    }

    /// Tells the others what is new.
    pub(super) fn tell(&mut self) -> Result<(), ExitError> {
        let jobs = &mut self.jobs;
        let Some((teller, _)) = &jobs.voice else {
            return Ok(());
        };
        if self.membership != Membership::Member || !jobs.is_following {
            return Ok(());
        }
        for (ticket, message) in jobs.outbox.next(&mut jobs.inbox)? {
            match teller.seal(&message) {
                Ok(pieces) => {
                    if !self.link.append(&teller.origin, pieces, ticket) {
                        jobs.outbox.ended(ticket, false);
                    }
                }
                Err(size) => {
                    let jids = message.records.iter().map(|r| r.jid.as_str());
                    let jids: Vec<&str> = jids.collect();
                    log::error!(
                        "cluster: a return of job {} is not told to the other masters: {size} bytes are too many",
                        jids.join(", ")
                    );
                    jobs.outbox.ended(ticket, true);
                }
            }
        }
        Ok(())
    }
}
