//! The role `cluster`, named `Cluster` in the process list.
//!
//! Owns what this master has in common with the others of its cluster: keys of minions, the key of publications, jobs and
//! their returns, data of minions, events. Binds `cluster.ipc`, where workers tell of jobs and data. Connects to the NATS
//! servers of `cluster:servers`, to the event bus, to `publish_pull.ipc` with the jobs of others, and to `workers.ipc`, where answers to returns
//! wait for what the servers have, and which is told of requests that other masters have answered. Reads and writes the files in `pki_dir`, the job cache, grains, pillars and mines, and the memory that the roles share.
//!
//! The files of each master stay what its other roles work with; this role keeps them the same everywhere. A change of keys
//! is decided by the bucket (`sync`), and so is who leads (`lease`). What is on NATS is sealed under the cluster's secret.
//!
//! On failure: the master goes on with what it has, and publishes nothing to other masters' minions. What changed in its
//! files meanwhile is written at the next connection: keys unless another master was faster, jobs from where it left off. If all
//! data of NATS is lost, the masters of `cluster_peers` fill the new bucket when all of them are there (`refill`); without these no
//! master does, since a deleted key could come back: the log says what to do.

mod claims;
mod keys;
mod leading;
mod membership;
mod peers;
mod presence;
mod publication;
mod refill;
mod seen;
mod streams;
mod tokens;

use crate::agents;
use crate::claims::Claims;
use crate::feed::{self, News};
use crate::key_files::KeyFiles;
use crate::link::{Channel, Entry, Link, LinkEvent, StreamKind};
use crate::memory::{self, Memory};
use crate::pieces::Voice;
use crate::progress::Source;
use crate::record::{
    LEAD, META, Meta, PAIR, PUBLICATION, PublicationKey, Sealer, gateway_of, id_of, job_of,
};
use crate::seal::new_origin;
use crate::sync::{KeySync, Put};
use crossbeam_channel::Receiver;
use halite_config::{Acknowledge, ClusterConfig, MasterConfig};
use halite_crypto::ClusterSecret;
use halite_master::events::Bus;
use halite_master::roles::{CLUSTER, Roles, exit_if_oversized};
use halite_master::score::Score;
use halite_store::Stores;
use halite_store::local::cluster_secret;
use halite_store::presence::Addresses;
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_transport::sockets::{Context, Dealer};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the key files are looked at.
const WATCH: Duration = Duration::from_millis(100);
/// How often writes are repeated whose end is not known.
const RETRY: Duration = Duration::from_secs(10);
/// How often what has changed is remembered.
const STORE: Duration = Duration::from_secs(1);
/// Most news that wait.
const WAITING: usize = 1024;
/// `EX_USAGE`.
const EXIT_CONFIG: i32 = 64;

/// What the role hears.
#[derive(Debug)]
enum Input {
    /// From the connection.
    Link(LinkEvent),
    /// About jobs of this master.
    News(News),
    /// The minions that are connected to this master.
    Here(Addresses),
}

/// Runs the role until it is stopped.
///
/// # Errors
/// The secret cannot be used, or the stores cannot be read.
pub fn run(
    config: &MasterConfig,
    cluster: &ClusterConfig,
    roles: &Roles,
    stop: &StopFlag,
) -> Result<(), ExitError> {
    let secret = cluster_secret(cluster).map_err(|e| ExitError::new(EXIT_CONFIG, e))?;
    // Whoever tells waits while it is full.
    let (sender, events) = crossbeam_channel::bounded(WAITING);
    let news = sender.clone();
    let about_jobs = move |event| news.send(Input::News(event)).map_err(|_| ());
    feed::start(config, stop, about_jobs)?;
    let here = sender.clone();
    let connected = move |minions| here.send(Input::Here(minions)).map_err(|_| ());
    presence::watch(config, stop, connected)?;
    let from_link = move |event| sender.send(Input::Link(event)).map_err(|_| ());
    let mut role = Cluster::new(
        config,
        cluster,
        secret,
        Link::open(cluster, &config.id, from_link)?,
    )?;
    roles.ready();
    let served = role.serve(&events, stop);
    // The connection's thread, which ends with the role, may be waiting until somebody takes what it tells.
    drop(events);
    served
}

/// What this master and the bucket are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    /// Not connected, or not everything is known yet.
    Unknown,
    /// It takes part.
    Member,
    /// It is about to make the bucket its own.
    Founding,
    /// It does not: the log says why.
    Refused,
}

struct Cluster<'a> {
    config: &'a MasterConfig,
    /// `cluster_id`.
    id: &'a str,
    secret: ClusterSecret,
    sealer: Sealer,
    link: Link,
    stores: Stores,
    files: KeyFiles,
    shared: SharedSecret,
    bus: Bus,
    sync: KeySync,
    streams: streams::Streams,
    peers: peers::Peers,
    connected: presence::Connected,
    /// Tells and hears which requests were answered.
    seen: Option<Voice>,
    /// The name of this start.
    origin: String,
    leases: leading::Leases,
    claims: Claims,
    /// To the request server, whose answers to returns wait.
    requests: Dealer,
    acknowledges: Acknowledge,
    membership: Membership,
    memory: Memory,
    memory_file: PathBuf,
    /// Entries that were told before everything was.
    early: Vec<Entry>,
    all_told: bool,
    /// The key of publications in the bucket and its revision.
    publication: Option<(PublicationKey, u64)>,
    /// A new key of publications that waits for its answer.
    replacing: Option<PublicationKey>,
    /// Whether what the bucket has in its place is none.
    is_publication_foreign: bool,
    /// Whether a deletion asks for a new key of publications: here, and in the bucket.
    is_rotation_asked: bool,
    is_rotation_wanted: bool,
    refill: refill::Refill,
    /// The master that is to tell its keys first, and since when that is known.
    filler: Option<(String, Instant)>,
    /// When this master made the bucket its own, until that is settled.
    founded: Option<Instant>,
    /// When it was last written that all that this master has is there.
    filled: Option<Instant>,
    /// What the bucket is, and the revision of the entry that says so.
    meta: Option<(Meta, u64)>,
    /// The revision of the entry with the key that all masters have; 0: there is none.
    pair: u64,
    /// When the key of publications was last replaced by this process.
    rotated: Instant,
    /// When the servers have last shown that they can write.
    heard: Instant,
    /// They were silent for so long that jobs are to be compared: since when, in Unix seconds, and until when.
    silence: Option<(u64, Instant)>,
    /// Whether the log has said that they do not.
    said_silent: bool,
    /// Whether the log has said that this master leads.
    said_leader: bool,
    /// Whether the log has said that there is no connection.
    said_down: bool,
    /// When the memory was last stored.
    stored: Instant,
    looked: Option<Instant>,
    retried: Instant,
    /// Whether more is to be written than the connection could take.
    is_link_full: bool,
    strangers: LogLimiter,
    connections: u64,
    conflicts: u64,
    refused: u64,
}

impl<'a> Cluster<'a> {
    fn new(
        config: &'a MasterConfig,
        cluster: &'a ClusterConfig,
        secret: ClusterSecret,
        link: Link,
    ) -> Result<Cluster<'a>, ExitError> {
        let requests = Dealer::connect(&Context::new(), &config.workers(), CLUSTER)?;
        let stores = Stores::open(config);
        let memory_file = memory::path(&config.cluster_dir());
        let memory = Memory::read(&memory_file)?.unwrap_or_default();
        let mut files = KeyFiles::new(stores.keys.clone());
        let mut sync = KeySync::with_base(memory.base.clone());
        for (id, keys) in files.changes()? {
            sync.files_changed(&id, keys);
        }
        let origin = new_origin(&config.id);
        let refill = refill::Refill::new(cluster, &secret, &config.id, &origin);
        Ok(Cluster {
            config,
            id: &cluster.id,
            requests,
            acknowledges: cluster.acknowledge,
            sealer: Sealer::new(&secret),
            secret,
            link,
            files,
            streams: streams::Streams::new(config, &stores)?,
            peers: peers::Peers::new(cluster, &config.id, unix_now()),
            connected: presence::Connected::new(&config.id),
            seen: None,
            refill,
            filler: None,
            origin,
            leases: leading::Leases::new(config),
            claims: Claims::new(&config.schedule),
            stores,
            shared: SharedSecret::inherited()?,
            bus: Bus::new(config),
            sync,
            membership: Membership::Unknown,
            memory,
            memory_file,
            early: Vec::new(),
            all_told: false,
            publication: None,
            replacing: None,
            is_publication_foreign: false,
            is_rotation_asked: false,
            is_rotation_wanted: false,
            meta: None,
            pair: 0,
            founded: None,
            filled: None,
            rotated: Instant::now(),
            heard: Instant::now(),
            silence: None,
            said_silent: false,
            said_leader: false,
            said_down: false,
            stored: Instant::now(),
            looked: None,
            retried: Instant::now(),
            is_link_full: false,
            strangers: LogLimiter::default(),
            connections: 0,
            conflicts: 0,
            refused: 0,
        })
    }

    fn serve(&mut self, events: &Receiver<Input>, stop: &StopFlag) -> Result<(), ExitError> {
        let mut score = Score::inherited(CLUSTER);
        while !stop.is_set() {
            self.turn(events)?;
            exit_if_oversized()?;
            if self.claims.take_news() {
                score.hasten();
            }
            score.tick(|| self.counters());
        }
        self.leave();
        self.remember()
    }

    /// Waits for the bucket, at most until the files are to be looked at, and does what is due.
    fn turn(&mut self, events: &Receiver<Input>) -> Result<(), ExitError> {
        if let Ok(input) = events.recv_timeout(WATCH) {
            for input in std::iter::once(input).chain(events.try_iter().take(WAITING)) {
                match input {
                    Input::Link(event) => self.hear(event)?,
                    Input::News(news) => self.news(news),
                    Input::Here(minions) => self.connected_here(minions),
                }
            }
        }
        self.tell()?;
        self.acknowledge();
        self.settle_founding()?;
        self.end_filling();
        self.tend_peers()?;
        self.tend_presence();
        self.lead();
        self.tell_of_leading();
        self.claim();
        self.fire_presence();
        if self.looked.is_none_or(|at| at.elapsed() >= WATCH) {
            self.looked = Some(Instant::now());
            for (id, keys) in self.files.changes()? {
                if keys.is_empty() {
                    agents::forget(&self.stores, &id)?;
                }
                let act = self.sync.files_changed(&id, keys);
                self.act(act)?;
            }
            if self.stores.rotation.take() {
                (self.is_rotation_asked, self.is_rotation_wanted) = (true, true);
            }
            self.rotate_if_due()?;
        }
        if self.retried.elapsed() >= if self.is_link_full { STORE } else { RETRY } {
            (self.retried, self.is_link_full) = (Instant::now(), false);
            self.join_again()?;
            self.offer_missing_pair();
            self.offer_missing_publication();
            let acts = self.sync.retry();
            self.act(acts)?;
            self.follow();
        }
        if self.streams.is_opening_due() {
            self.follow();
        }
        if self.stored.elapsed() >= STORE {
            self.remember()?;
            self.tell_of_silence();
            self.compare_after_silence();
        }
        Ok(())
    }

    /// Stores what has changed of what is to be remembered.
    fn remember(&mut self) -> Result<(), ExitError> {
        self.stored = Instant::now();
        self.streams.remember()?;
        if self.memory.bucket.is_empty() {
            return Ok(());
        }
        let publication = self.publication.as_ref().map_or(0, |(key, _)| key.number);
        let base = self.sync.take_base();
        if base.is_none() && publication <= self.memory.publication {
            return Ok(());
        }
        if let Some(base) = base {
            self.memory.base.clone_from(base);
        }
        self.memory.publication = publication.max(self.memory.publication);
        Ok(self.memory.write(&self.memory_file)?)
    }

    fn hear(&mut self, event: LinkEvent) -> Result<(), ExitError> {
        if membership::is_sign_of_majority(&event) {
            self.majority_is_heard();
        }
        match event {
            LinkEvent::Up(server) => {
                match std::mem::take(&mut self.said_down) {
                    true => log::warn!("cluster: connected again, to {server}"),
                    false => log::info!("cluster: connected to {server}"),
                }
                self.connections += 1;
                // Others tell again what was published meanwhile.
                self.tell_standing(false);
            }
            LinkEvent::Down(why) => {
                if !why.is_empty() {
                    self.said_down = true;
                    log::warn!("cluster: {why}; the master goes on with the keys that it has");
                }
                self.lose_bucket();
                self.streams.down();
                self.peers.progress.down();
            }
            LinkEvent::BucketLost(why) => {
                log::warn!(
                    "cluster: the keys of all masters cannot be read: {why}; they are read anew"
                );
                self.lose_bucket();
                self.peers.progress.down();
            }
            LinkEvent::Entry(entry) => {
                self.peers.progress.read(Source::Bucket, entry.revision);
                match self.membership {
                    Membership::Unknown | Membership::Founding => {
                        let is_meta = entry.name == META;
                        self.keep_early(entry);
                        if is_meta {
                            self.join_late()?;
                        }
                    }
                    Membership::Member => self.entry(entry)?,
                    // What was refused may be something else now.
                    Membership::Refused if entry.name == META => self.link.reconnect(),
                    Membership::Refused => {}
                }
            }
            LinkEvent::AllTold => {
                self.all_told = true;
                self.join()?;
            }
            LinkEvent::PutEnded(name, replaced, how) => self.put_ended(&name, replaced, how)?,
            LinkEvent::Following(kind, found) => {
                self.following(kind, found)?;
                let taken = self.streams.taken(kind);
                self.peers.progress.read(kind.into(), taken);
            }
            LinkEvent::NotFollowing(kind, why) => {
                self.streams.not_following(kind);
                self.peers.progress.lost(kind.into());
                log::error!("cluster: {why}; until then other masters are not heard")
            }
            LinkEvent::Told {
                kind,
                tail,
                bytes,
                sequence,
                stored,
            } => {
                match kind {
                    StreamKind::Jobs => self.told(&tail, &bytes, sequence)?,
                    StreamKind::Data => self.told_data(&tail, &bytes, (sequence, stored))?,
                }
                let taken = self.streams.taken(kind);
                self.peers.progress.read(kind.into(), taken);
            }
            // What others tell in a bucket that is not known yet cannot be understood.
            LinkEvent::Heard(channel, ..)
                if self.refill.is_waiting() && channel != Channel::Lost => {}
            LinkEvent::Heard(channel, origin, bytes) => match channel {
                Channel::Lost => self.heard_waiting(&origin, &bytes),
                Channel::Jobs => self.heard_job(&origin, &bytes)?,
                Channel::Events => self.heard(&origin, &bytes),
                Channel::Members => self.heard_member(&origin, &bytes),
                Channel::Presence => self.heard_presence(&origin, &bytes),
                Channel::Seen => self.heard_seen(&origin, &bytes),
                Channel::Tokens => self.heard_tokens(&origin, &bytes),
                Channel::Letters => self.heard_letter(&origin, &bytes)?,
            },
            LinkEvent::Appended(kind, ticket, is_told) => {
                if !is_told {
                    self.streams.not_taken();
                }
                match kind {
                    StreamKind::Jobs => self.streams.outbox.ended(ticket, is_told),
                    StreamKind::Data => self.streams.data.ended(ticket, is_told),
                }
            }
        }
        Ok(())
    }

    /// Nothing is known about the bucket.
    fn lose_bucket(&mut self) {
        self.membership = Membership::Unknown;
        self.early.clear();
        self.all_told = false;
        self.meta = None;
        self.pair = 0;
        (self.founded, self.filled) = (None, None);
        self.refill.end();
        self.filler = None;
        self.replacing = None;
        if let Some((_, revision)) = &mut self.publication {
            // Of what is told again, numbers decide.
            *revision = 0;
        }
        self.sync.down();
        self.leases.down();
        self.claims.down();
    }

    fn entry(&mut self, entry: Entry) -> Result<(), ExitError> {
        let Entry {
            name,
            value,
            revision,
        } = &entry;
        let revision = *revision;
        log::debug!("cluster: {} has revision {revision}", excerpt(name, 100));
        match name.as_str() {
            META => self.check_meta(value, revision),
            PAIR => self.check_pair(value, revision),
            PUBLICATION => match self.sealer.open_publication(value) {
                Some(key) => self.take_publication(key, revision)?,
                None => self.foreign_publication(revision),
            },
            name if name == LEAD || gateway_of(name).is_some() => self.check_lead(&entry),
            name if job_of(name).is_some() => self.check_run(&entry),
            _ => {
                let Some(id) = id_of(name) else {
                    self.stranger(name);
                    return Ok(());
                };
                let record = self.sealer.open_keys(&id, value);
                if let Some(record) = &record {
                    self.set_epoch(&id, record.epoch)?;
                }
                let taken = record.map(|record| self.sync.entry(&id, record, revision));
                let act = match taken {
                    Some(Ok(act)) => act,
                    None | Some(Err(_)) => {
                        self.stranger(name);
                        self.sync.foreign(&id, revision)
                    }
                };
                self.act(act)?;
            }
        }
        Ok(())
    }

    /// This process ends.
    fn leave(&mut self) {
        self.resign();
        self.tell_no_presence();
        self.tell_standing(true);
    }

    fn put_ended(&mut self, name: &str, replaced: u64, how: Put) -> Result<(), ExitError> {
        log::debug!("cluster: writing {name} ended: {how:?}");
        match how {
            Put::Conflict => {
                self.conflicts += 1;
                let now = Instant::now();
                self.peers.progress.conflict(name, replaced, now);
            }
            Put::Done(_) => self.peers.progress.replaced(name),
            Put::Unknown => {}
        }
        if name == PUBLICATION {
            // The watch tells the key.
            let was_written = self.replacing.take().is_some() && matches!(how, Put::Done(_));
            self.is_rotation_wanted &= !was_written;
            return Ok(());
        }
        if self.leases.ended(name, how) && how == Put::Unknown {
            self.streams.not_taken();
        }
        if let Some(id) = id_of(name) {
            let act = self.sync.put_ended(&id, how);
            self.act(act)?;
        }
        self.claim_ended(name);
        if name == META {
            self.founded(how)?;
        }
        Ok(())
    }
}
