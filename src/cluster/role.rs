//! The role `cluster`, named `Cluster` in the process list.
//!
//! Owns what this master has in common with the others of its cluster: keys of minions, and the key of publications. Binds
//! nothing. Connects to the NATS servers of `cluster:servers` and to `master_event_pull.ipc`. Reads and writes the
//! files in `pki_dir`, and the memory that the roles share.
//!
//! The files of each master stay what its other roles work with; this role keeps them the same everywhere. A change is decided
//! by the bucket (`sync`). What is in it is sealed under the cluster's secret (`record`).
//!
//! On failure: the master goes on with the keys that it has; what changed meanwhile is told at the next connection, where
//! the bucket counts. If all data of NATS is lost, no master fills the new bucket by itself, since a deleted key could
//! come back: the log says what to do.

use crate::key_files::KeyFiles;
use crate::link::{self, Link, LinkEvent};
use crate::record::{KeyRecord, Keys, PUBLICATION, PublicationKey, Sealer, id_of, name_of};
use crate::sync::{Act, KeySync, Put};
use crossbeam_channel::Receiver;
use halite_config::{ClusterConfig, MasterConfig, SaltSeries};
use halite_crypto::noise::fingerprint;
use halite_crypto::{ClusterSecret, fill_random};
use halite_master::events::Bus;
use halite_master::roles::{Roles, exit_if_oversized};
use halite_master::score::Score;
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_store::local::cluster_secret;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// Its name in the process table.
pub const ROLE: &str = "cluster";
/// How often the key files are looked at.
const WATCH: Duration = Duration::from_millis(100);
/// How often writes are repeated whose end is not known.
const RETRY: Duration = Duration::from_secs(10);
/// The entry with the fingerprint of the RSA key that all masters have.
const MASTER_KEY: &str = "pki";
/// The entry that tells that the bucket was filled.
const FILLED: &str = "meta";
/// `EX_USAGE`.
const EXIT_CONFIG: i32 = 64;

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
    let (sender, events) = link::queue();
    let name = format!("halite-{}", config.id);
    let mut role = Cluster::new(
        config,
        &cluster.id,
        secret,
        Link::open(cluster, &name, sender)?,
    )?;
    let mut score = Score::inherited(ROLE);
    roles.ready();
    while !stop.is_set() {
        role.turn(&events)?;
        exit_if_oversized()?;
        score.tick(|| role.counters());
    }
    Ok(())
}

/// What this master and the bucket are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    /// Not connected, or not everything is known yet.
    Unknown,
    /// It takes part.
    Member,
    /// It does not: the log says why.
    Refused,
}

/// What was in the bucket when this master connected.
#[derive(Default)]
struct Found {
    master_key: Option<Vec<u8>>,
    filled: Option<Vec<u8>>,
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
    membership: Membership,
    found: Found,
    /// The key of publications in the bucket and its revision.
    publication: Option<(PublicationKey, u64)>,
    /// A new key of publications that waits for its answer.
    replacing: Option<PublicationKey>,
    is_rotation_wanted: bool,
    /// Whether this master fills the bucket, and has not said so yet.
    fills: bool,
    looked: Option<Instant>,
    retried: Instant,
    strangers: LogLimiter,
    connections: u64,
    conflicts: u64,
    refused: u64,
}

impl<'a> Cluster<'a> {
    fn new(
        config: &'a MasterConfig,
        id: &'a str,
        secret: ClusterSecret,
        link: Link,
    ) -> Result<Cluster<'a>, ExitError> {
        let stores = Stores::open(config);
        Ok(Cluster {
            config,
            id,
            sealer: Sealer::new(&secret),
            secret,
            link,
            files: KeyFiles::new(stores.keys.clone()),
            stores,
            shared: SharedSecret::inherited()?,
            bus: Bus::new(config),
            sync: KeySync::default(),
            membership: Membership::Unknown,
            found: Found::default(),
            publication: None,
            replacing: None,
            is_rotation_wanted: false,
            fills: false,
            looked: None,
            retried: Instant::now(),
            strangers: LogLimiter::default(),
            connections: 0,
            conflicts: 0,
            refused: 0,
        })
    }

    fn counters(&self) -> Map {
        halite_wire::map! {
            "connected" => self.membership == Membership::Member, "keys" => self.sync.count() as u64,
            "connections" => self.connections, "conflicts" => self.conflicts, "refused" => self.refused,
        }
    }

    /// Waits for the bucket, at most until the files are to be looked at, and does what is due.
    fn turn(&mut self, events: &Receiver<LinkEvent>) -> Result<(), ExitError> {
        if let Ok(event) = events.recv_timeout(WATCH) {
            self.hear(event)?;
            for event in events.try_iter().take(1000) {
                self.hear(event)?;
            }
        }
        if self.looked.is_none_or(|at| at.elapsed() >= WATCH) {
            self.looked = Some(Instant::now());
            for (id, keys) in self.files.changes()? {
                let act = self.sync.files_changed(&id, keys);
                self.act(act)?;
            }
            self.is_rotation_wanted |= self.stores.rotation.take();
            self.rotate_if_due();
        }
        if self.retried.elapsed() >= RETRY {
            self.retried = Instant::now();
            let acts = self.sync.retry();
            self.act(acts)?;
        }
        if self.fills && self.sync.is_settled() {
            self.fills = false;
            self.link.put(FILLED.to_owned(), self.mark(FILLED), 0);
        }
        Ok(())
    }

    fn hear(&mut self, event: LinkEvent) -> Result<(), ExitError> {
        match event {
            LinkEvent::Up(server) => {
                log::info!("cluster: connected to {server}");
                self.connections += 1;
                self.found = Found::default();
            }
            LinkEvent::Down(why) => {
                if !why.is_empty() {
                    log::warn!("cluster: {why}; the master goes on with the keys that it has");
                }
                self.membership = Membership::Unknown;
                self.fills = false;
                self.replacing = None;
                self.sync.down();
            }
            LinkEvent::Entry {
                name,
                value,
                revision,
            } => self.entry(&name, value, revision)?,
            LinkEvent::AllTold => self.join()?,
            LinkEvent::PutEnded(name, how) => self.put_ended(&name, how)?,
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, value: Vec<u8>, revision: u64) -> Result<(), ExitError> {
        match name {
            MASTER_KEY => self.found.master_key = Some(value),
            FILLED => self.found.filled = Some(value),
            PUBLICATION => match self.sealer.open_publication(&value) {
                Some(key) => self.take_publication(key, revision)?,
                None => self.stranger(name),
            },
            _ => {
                let opened = id_of(name).and_then(|id| {
                    let record = self.sealer.open_keys(&id, &value)?;
                    Some((id, record))
                });
                let Some((id, record)) = opened else {
                    self.stranger(name);
                    return Ok(());
                };
                match self.sync.entry(&id, record, revision) {
                    Ok(act) => self.act(act)?,
                    Err(_) => self.stranger(name),
                }
            }
        }
        Ok(())
    }

    /// Something in the bucket is not from a master of this cluster, or was put back by someone.
    fn stranger(&mut self, name: &str) {
        self.refused += 1;
        if let Some(times) = self.strangers.tick(Instant::now()) {
            log::error!(
                "cluster: {name:.100?} in the bucket was not written by a master of this cluster, or is an old value (times: \
                 {times}); it is ignored. Do all masters have the same cluster_secret, and who else can write to NATS?"
            );
        }
    }

    /// What the bucket is, is known now.
    fn join(&mut self) -> Result<(), ExitError> {
        self.membership = Membership::Refused;
        let own = self.mark(MASTER_KEY);
        match &self.found.master_key {
            None => {
                self.link.put(MASTER_KEY.to_owned(), own, 0);
            }
            Some(theirs) if !self.is_mark(MASTER_KEY, theirs) => {
                log::error!(
                    "cluster: {} is not the key of the masters of {}, or their cluster_secret is another one: copy master.pem and \
                     master.pub of one of them, and start this master again. Until then it takes no part",
                    self.config.master_pub().display(),
                    self.id
                );
                return Ok(());
            }
            Some(_) => {}
        }
        let was_member = self.member_file().exists();
        let is_filled = self.found.filled.is_some();
        if !is_filled && was_member {
            log::error!(
                "cluster: the bucket of {} is empty, but this master was a member: the data of the NATS servers is lost. Keys \
                 that were deleted while this master was away would come back, so it takes no part. Remove {} on the master \
                 whose keys are right, and start it again",
                self.id,
                self.member_file().display()
            );
            return Ok(());
        }
        self.membership = Membership::Member;
        self.fills = !is_filled;
        let acts = self.sync.all_told(!is_filled);
        self.act(acts)?;
        self.remember_membership()?;
        if self.publication.is_none() {
            self.replace_publication();
        }
        log::info!("cluster: member of {}", self.id);
        Ok(())
    }

    fn act(&mut self, acts: impl IntoIterator<Item = Act>) -> Result<(), ExitError> {
        for act in acts {
            match act {
                Act::Put {
                    id,
                    record,
                    revision,
                } => self.put(&id, &record, revision),
                Act::Write { id, keys } => self.write(&id, &keys)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, id: &MinionId, record: &KeyRecord, revision: u64) {
        let sealed = self.sealer.seal_keys(id, record);
        if !self.link.put(name_of(id), sealed, revision) {
            // Repeated later.
            self.sync.put_ended(id, Put::Unknown);
        }
    }

    fn write(&mut self, id: &MinionId, keys: &Keys) -> Result<(), ExitError> {
        let Some((before, after)) = self.files.write(id, keys)? else {
            return Ok(());
        };
        let act = match (before, after) {
            (Some(_), None) => "delete",
            (_, Some(KeyState::Accepted)) => KeyState::Accepted.name(),
            (_, Some(KeyState::Rejected)) => KeyState::Rejected.name(),
            _ => return Ok(()),
        };
        log::info!(minion:% = id; "key of {id}: {act}, by another master of the cluster");
        let act = match (self.config.salt_series, act) {
            (SaltSeries::S3006 | SaltSeries::S3007, "accepted") => "accept",
            (SaltSeries::S3006 | SaltSeries::S3007, "rejected") => "reject",
            (_, act) => act,
        };
        let event = halite_wire::map! {"result" => true, "act" => act, "id" => Value::from(id)};
        self.bus.fire("salt/key", event);
        Ok(())
    }

    fn put_ended(&mut self, name: &str, how: Put) -> Result<(), ExitError> {
        self.conflicts += u64::from(how == Put::Conflict);
        if name == PUBLICATION {
            if let (Some(key), Put::Done(revision)) = (self.replacing.take(), how) {
                self.is_rotation_wanted = false;
                self.take_publication(key, revision)?;
            }
            return Ok(());
        }
        if let Some(id) = id_of(name) {
            let act = self.sync.put_ended(&id, how);
            self.act(act)?;
        }
        Ok(())
    }

    /// The key of publications of the cluster.
    fn take_publication(&mut self, key: PublicationKey, revision: u64) -> Result<(), ExitError> {
        if let Some((known, since)) = &self.publication {
            if revision <= *since {
                return Ok(());
            }
            if key.number <= known.number {
                self.stranger(PUBLICATION);
                return Ok(());
            }
        }
        let parts = [&key.number.to_be_bytes()[..], &key.random];
        let text = self.secret.key("publication", &parts);
        self.publication = Some((key, revision));
        if *self.shared.load_key()?.1 != text.as_str() {
            self.shared.store_key(text.as_str())?;
            self.bus
                .fire("key", halite_wire::map! {"rotate_aes_key" => true});
        }
        Ok(())
    }

    fn rotate_if_due(&mut self) {
        if self.membership != Membership::Member || self.replacing.is_some() {
            return;
        }
        let is_old = self.publication.as_ref().is_some_and(|(key, _)| {
            unix_now() >= key.since.saturating_add(self.config.publish_session.max(1))
        });
        if is_old || self.is_rotation_wanted {
            self.replace_publication();
        }
    }

    /// Replaces the key of publications, unless another master is faster.
    fn replace_publication(&mut self) {
        let (number, revision) = match &self.publication {
            Some((key, revision)) => (key.number + 1, *revision),
            None => (1, 0),
        };
        let mut random = vec![0; 16];
        fill_random(&mut random);
        let key = PublicationKey {
            number,
            random,
            since: unix_now(),
        };
        let sealed = self.sealer.seal_publication(&key);
        if self.link.put(PUBLICATION.to_owned(), sealed, revision) {
            self.replacing = Some(key);
        }
    }

    /// What says that an entry is from a master with our RSA key.
    fn mark(&self, name: &str) -> Vec<u8> {
        self.sealer.seal_mark(name, &self.own_key())
    }

    fn is_mark(&self, name: &str, value: &[u8]) -> bool {
        self.sealer.open_mark(name, value).as_deref() == Some(&self.own_key())
    }

    fn own_key(&self) -> String {
        let text = std::fs::read_to_string(self.config.master_pub()).unwrap_or_default();
        fingerprint(&text)
    }

    /// Exists once this master has been a member.
    fn member_file(&self) -> std::path::PathBuf {
        self.config.cluster_dir().join("member")
    }

    fn remember_membership(&self) -> Result<(), ExitError> {
        let dir = self.config.cluster_dir();
        make_dir(&dir, 0o700)?;
        let text = format!("{}\n", self.id);
        Ok(write_atomic(&self.member_file(), text.as_bytes(), 0o600)?)
    }
}
