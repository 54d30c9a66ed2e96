//! Stores in the memory of one process: for tests of code that uses stores, and to show that the traits do not depend
//! on files.
//!
//! Session keys and records do not expire by age.

use crate::Stores;
use crate::gateways::{GatewayStore, GatewayStores};
use crate::jobs::{JobReader, JobStore, JobUpdate, Returned, StoredJob, StoredReturn, unite};
use crate::keys::{IdList, KeyLock, KeyState, KeyStore, Version, universal_newlines};
use crate::mine::{MineStore, merge};
use crate::minions::{DataPart, DataVersion, MinionCache, MinionData, check_size};
use crate::presence::{Addresses, Elsewhere, LastSeen};
use crate::records::{JobOwners, RotationRequests, Syndics};
use crate::sessions::SessionStore;
use crate::tokens::{Token, TokenDigest, TokenStore};
use halite_crypto::{CipherKind, KeyString, clean_key, random_hex};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::msgpack::{self, Profile};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Empty stores.
pub fn stores() -> Stores {
    Stores {
        keys: Arc::new(MemoryKeys::default()),
        sessions: Arc::new(MemorySessions::default()),
        jobs: Arc::new(MemoryJobs::default()),
        minions: Arc::new(MemoryMinions::default()),
        mine: Arc::new(MemoryMines::default()),
        tokens: Arc::new(MemoryTokens::default()),
        owners: Arc::new(MemoryOwners::default()),
        syndics: Arc::new(MemorySyndics::default()),
        gateways: Arc::new(MemoryGateways::default()),
        rotation: Arc::new(MemoryRotation::default()),
        last_seen: Arc::new(MemoryLastSeen::default()),
        elsewhere: Arc::new(MemoryElsewhere::default()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values with the version of each.
struct Table<K, V>(Mutex<BTreeMap<K, (Version, V)>>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table(Mutex::default())
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        lock(&self.0).get(key).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V) {
        static CHANGES: AtomicI64 = AtomicI64::new(1);
        let version = (0, CHANGES.fetch_add(1, Ordering::Relaxed), 0);
        lock(&self.0).insert(key, (version, value));
    }

    fn remove(&self, key: &K) -> Option<V> {
        lock(&self.0).remove(key).map(|(_, value)| value)
    }

    fn version(&self, key: &K) -> Option<Version> {
        lock(&self.0).get(key).map(|(version, _)| *version)
    }

    fn keys(&self) -> Vec<K> {
        lock(&self.0).keys().cloned().collect()
    }
}

#[derive(Default)]
struct MemoryKeys {
    keys: Table<(KeyState, MinionId), String>,
}

impl KeyStore for MemoryKeys {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn text(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        let text = self.keys.get(&(state, id.clone()));
        Ok(text.map(|text| universal_newlines(text.as_bytes())))
    }

    fn get(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        let text = self.keys.get(&(state, id.clone()));
        Ok(text.map(|text| clean_key(&text)))
    }

    fn version(&self, state: KeyState, id: &MinionId) -> Option<Version> {
        self.keys.version(&(state, id.clone()))
    }

    fn put_text(&self, state: KeyState, id: &MinionId, text: &str) -> io::Result<()> {
        self.keys.put((state, id.clone()), text.to_owned());
        Ok(())
    }

    fn change(&self, id: &MinionId, from: KeyState, to: KeyState) -> io::Result<bool> {
        let moved = self.keys.remove(&(from, id.clone()));
        let found = moved.is_some();
        if let Some(text) = moved {
            self.keys.put((to, id.clone()), text);
        }
        Ok(found)
    }

    fn delete(&self, state: KeyState, id: &MinionId) -> io::Result<bool> {
        Ok(self.keys.remove(&(state, id.clone())).is_some())
    }

    fn list(&self, state: KeyState) -> io::Result<IdList> {
        let all = self.keys.keys().into_iter();
        let ids = all.filter(|(s, _)| *s == state).map(|(_, id)| id);
        Ok(Arc::new(ids.collect()))
    }

    /// A test has one thread.
    fn lock(&self, _id: &MinionId) -> io::Result<KeyLock> {
        Ok(Box::new(()))
    }

    /// There is no way to approve a minion here.
    fn consume_autosign(&self, _id: &MinionId, _max_age: Duration) -> io::Result<bool> {
        Ok(false)
    }
}

#[derive(Default)]
struct MemorySessions(Table<(MinionId, CipherKind), (KeyString, String)>);

impl SessionStore for MemorySessions {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn get(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<KeyString>> {
        Ok(self.0.get(&(id.clone(), kind)).map(|(key, _)| key))
    }

    fn version(&self, kind: CipherKind, id: &MinionId) -> Option<Version> {
        self.0.version(&(id.clone(), kind))
    }

    fn get_or_create(&self, kind: CipherKind, id: &MinionId, owner: &str) -> io::Result<KeyString> {
        let at = (id.clone(), kind);
        match self.0.get(&at) {
            Some((key, of)) if kind == CipherKind::Salt || of == owner => Ok(key),
            _ => {
                let key = KeyString::generate();
                self.0.put(at, (key.clone(), owner.to_owned()));
                Ok(key)
            }
        }
    }

    fn end(&self, kind: CipherKind, id: &MinionId) -> io::Result<()> {
        self.0.remove(&(id.clone(), kind));
        Ok(())
    }
}

/// One call of [`MemoryJobs`], in order.
#[derive(Clone)]
enum Record {
    Load(StoredJob),
    Return {
        id: MinionId,
        load: Map,
        starts_job: bool,
    },
}

#[derive(Default)]
struct MemoryJobs {
    jobs: Mutex<BTreeMap<Jid, Vec<(SystemTime, Record)>>>,
}

impl MemoryJobs {
    fn add(&self, jid: &Jid, record: Record) {
        let mut jobs = lock(&self.jobs);
        let records = jobs.entry(jid.clone()).or_default();
        records.push((SystemTime::now(), record));
    }
}

fn assemble(records: &[(SystemTime, Record)]) -> StoredJob {
    let mut job = StoredJob::default();
    for (_, record) in records {
        match record {
            Record::Load(head) => {
                job.load = head.load.clone();
                job.minions.extend_from_slice(&head.minions);
                job.missing.extend_from_slice(&head.missing);
                unite(&mut job.minions);
                unite(&mut job.missing);
            }
            Record::Return {
                id,
                load,
                starts_job,
            } => {
                let id = id.to_string();
                if *starts_job {
                    job.minions = vec![id.clone()];
                    job.load = load.clone();
                }
                if !job.returns.iter().any(|known| known.id == id) {
                    let load = load.clone();
                    job.returns.push(StoredReturn { id, load });
                }
            }
        }
    }
    job
}

impl JobReader for MemoryJobs {
    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        Ok(lock(&self.jobs).get(jid).map(|records| assemble(records)))
    }
}

impl JobStore for MemoryJobs {
    fn save_load(
        &self,
        jid: &Jid,
        load: &Map,
        minions: &[String],
        missing: &[String],
    ) -> io::Result<()> {
        let mut load = load.clone();
        load.remove("key");
        let job = StoredJob {
            load,
            minions: minions.to_vec(),
            missing: missing.to_vec(),
            returns: Vec::new(),
        };
        self.add(jid, Record::Load(job));
        Ok(())
    }

    fn save_returns(&self, returns: &[Returned<'_>]) -> Vec<io::Result<()>> {
        let save = |one: &Returned<'_>| {
            let record = Record::Return {
                id: one.id.clone(),
                load: one.load.clone(),
                starts_job: one.starts_job,
            };
            self.add(one.jid, record);
            Ok(())
        };
        returns.iter().map(save).collect()
    }

    fn list(&self) -> io::Result<Vec<(Jid, StoredJob)>> {
        let jobs = lock(&self.jobs);
        let all = jobs.iter().map(|(jid, records)| {
            let first = &records[..records.len().min(1)];
            (jid.clone(), assemble(first))
        });
        Ok(all.collect())
    }

    fn expire(&self, now: i64, keep: u64) -> io::Result<u64> {
        let oldest = now.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX));
        let limit = Jid::from_time(oldest.max(0), 0);
        let mut jobs = lock(&self.jobs);
        let before = jobs.len();
        jobs.retain(|jid, _| *jid >= limit);
        Ok((before - jobs.len()) as u64)
    }

    fn changed_since(&self, since: SystemTime) -> io::Result<Vec<Jid>> {
        let jobs = lock(&self.jobs);
        let changed = jobs
            .iter()
            .filter(|(_, records)| records.iter().any(|(at, _)| *at >= since));
        Ok(changed.map(|(jid, _)| jid.clone()).collect())
    }

    fn started_since(&self, since: i64) -> io::Result<Vec<Jid>> {
        let first = Jid::from_time(since.max(0), 0);
        let jobs = lock(&self.jobs);
        Ok(jobs.range(first..).map(|(jid, _)| jid.clone()).collect())
    }

    /// The cursor is a number of records.
    fn updates(&self, jid: &Jid, cursor: u64) -> io::Result<Option<JobUpdate>> {
        let jobs = lock(&self.jobs);
        let Some(records) = jobs.get(jid) else {
            return Ok(None);
        };
        let from = usize::try_from(cursor).unwrap_or(usize::MAX);
        let job = assemble(records.get(from..).unwrap_or_default());
        let load = match (job.load.is_empty(), job.returns.first()) {
            (false, _) => Some(job.load),
            (true, Some(first)) if cursor == 0 => Some(first.load.clone()),
            _ => None,
        };
        Ok(Some(JobUpdate {
            is_started_by_minion: false,
            jid: jid.clone(),
            load,
            returns: job.returns,
            end: records.len() as u64,
        }))
    }
}

#[derive(Default)]
struct MemoryMinions {
    data: Table<MinionId, [Arc<Map>; 2]>,
}

impl MinionCache for MemoryMinions {
    fn store(&self, id: &MinionId, grains: &Map, pillar: &Map) -> io::Result<()> {
        check_size(&msgpack::encode_map(grains, Profile::Local))?;
        let data = [grains, pillar].map(|map| Arc::new(map.clone()));
        if self.data.get(id).is_none_or(|old| old != data) {
            self.data.put(id.clone(), data);
        }
        Ok(())
    }

    fn get(&self, id: &MinionId) -> Option<Arc<MinionData>> {
        self.peek(id).map(Arc::new)
    }

    fn peek(&self, id: &MinionId) -> Option<MinionData> {
        let [grains, pillar] = self.data.get(id)?;
        Some(MinionData { grains, pillar })
    }

    fn version(&self, id: &MinionId) -> Option<DataVersion> {
        self.data.version(id).map(|version| [version; 2])
    }

    fn ids(&self) -> io::Result<Vec<MinionId>> {
        Ok(self.data.keys())
    }

    fn retain(&self, keep: &dyn Fn(&MinionId) -> bool) -> io::Result<()> {
        lock(&self.data.0).retain(|id, _| keep(id));
        Ok(())
    }

    fn clear(&self, id: &MinionId, part: DataPart) -> io::Result<()> {
        if let Some([grains, pillar]) = self.data.get(id) {
            let data = match part {
                DataPart::Grains => [Arc::default(), pillar],
                DataPart::Pillar => [grains, Arc::default()],
            };
            self.data.put(id.clone(), data);
        }
        Ok(())
    }

    fn remove(&self, id: &MinionId) -> io::Result<()> {
        self.data.remove(id);
        Ok(())
    }
}

#[derive(Default)]
struct MemoryMines(Mutex<BTreeMap<MinionId, Map>>);

impl MineStore for MemoryMines {
    fn get(&self, id: &MinionId) -> io::Result<Option<Map>> {
        Ok(lock(&self.0).get(id).cloned())
    }

    fn put(&self, id: &MinionId, data: Map, clear: bool) -> io::Result<()> {
        let mut mines = lock(&self.0);
        let old = mines.get(id).filter(|_| !clear);
        let mut all = old.cloned().unwrap_or_default();
        merge(&mut all, data)?;
        mines.insert(id.clone(), all);
        Ok(())
    }

    fn delete(&self, id: &MinionId, fun: &str) -> io::Result<bool> {
        let mut mines = lock(&self.0);
        let Some(mine) = mines.get_mut(id) else {
            return Ok(false);
        };
        mine.remove(fun);
        Ok(true)
    }

    fn flush(&self, id: &MinionId) -> io::Result<bool> {
        Ok(lock(&self.0).remove(id).is_some())
    }
}

#[derive(Default)]
struct MemoryTokens {
    tokens: Table<TokenDigest, Token>,
}

impl TokenStore for MemoryTokens {
    fn create(&self, token: &Token) -> io::Result<String> {
        let text = random_hex(32);
        self.tokens.put(TokenDigest::of(&text), token.clone());
        Ok(text)
    }

    fn by_digest(&self, digest: &TokenDigest, now: f64) -> io::Result<Option<Token>> {
        self.expire(now)?;
        Ok(self.tokens.get(digest))
    }

    fn put(&self, digest: &TokenDigest, token: &Token) -> io::Result<()> {
        if token.is_revoked || self.tokens.get(digest).is_none() {
            self.tokens.put(digest.clone(), token.clone());
        }
        Ok(())
    }

    fn digests(&self) -> io::Result<Vec<TokenDigest>> {
        Ok(self.tokens.keys())
    }

    fn expire(&self, now: f64) -> io::Result<usize> {
        let mut tokens = lock(&self.tokens.0);
        let before = tokens.len();
        tokens.retain(|_, (_, token)| !token.expired(now));
        Ok(before - tokens.len())
    }
}

#[derive(Default)]
struct MemoryOwners {
    owners: Table<Jid, MinionId>,
}

impl JobOwners for MemoryOwners {
    fn put(&self, jid: &Jid, id: &MinionId) -> io::Result<()> {
        self.owners.put(jid.clone(), id.clone());
        Ok(())
    }

    fn owns(&self, id: &MinionId, jid: &Jid) -> bool {
        self.owners.get(jid).is_some_and(|owner| owner == *id)
    }

    fn expire(&self, _keep: Duration) {}
}

#[derive(Default)]
struct MemorySyndics {
    ids: Table<String, ()>,
}

impl Syndics for MemorySyndics {
    fn put(&self, id: &MinionId) -> io::Result<()> {
        self.ids.put(id.to_string(), ());
        Ok(())
    }

    fn contains(&self, id: &str) -> bool {
        self.ids.get(&id.to_owned()).is_some()
    }
}

#[derive(Default)]
struct MemoryRotation {
    requested: AtomicBool,
}

impl RotationRequests for MemoryRotation {
    fn request(&self) -> io::Result<()> {
        self.requested.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn take(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }
}

#[derive(Default)]
struct MemoryGateways(Mutex<BTreeMap<String, Arc<MemoryGateway>>>);

impl GatewayStores for MemoryGateways {
    fn of(&self, name: &str) -> Arc<dyn GatewayStore> {
        lock(&self.0).entry(name.to_owned()).or_default().clone()
    }

    fn all(&self) -> Vec<Arc<dyn GatewayStore>> {
        let all = lock(&self.0);
        let all = all.values().map(|one| one.clone() as Arc<dyn GatewayStore>);
        all.collect()
    }
}

#[derive(Default)]
struct MemoryGateway {
    records: Table<MinionId, String>,
    aliases: Table<MinionId, String>,
    connected: Mutex<BTreeMap<MinionId, IpAddr>>,
}

impl GatewayStore for MemoryGateway {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn fingerprint(&self, id: &MinionId) -> io::Result<Option<String>> {
        Ok(self.records.get(id))
    }

    fn version(&self, id: &MinionId) -> Option<Version> {
        self.records.version(id)
    }

    fn put(&self, id: &MinionId, fingerprint: &str) -> io::Result<()> {
        self.records.put(id.clone(), fingerprint.to_owned());
        Ok(())
    }

    fn alias(&self, id: &MinionId) -> Option<String> {
        self.aliases.get(id)
    }

    fn put_alias(&self, id: &MinionId, alias: &str) -> io::Result<()> {
        self.aliases.put(id.clone(), alias.to_owned());
        Ok(())
    }

    fn remove(&self, id: &MinionId) -> io::Result<()> {
        self.records.remove(id);
        Ok(())
    }

    fn ids(&self) -> io::Result<Vec<MinionId>> {
        Ok(self.records.keys())
    }

    fn put_connected(&self, connected: &BTreeMap<MinionId, IpAddr>) -> io::Result<()> {
        *lock(&self.connected) = connected.clone();
        Ok(())
    }

    fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        lock(&self.connected).clone()
    }
}

#[derive(Default)]
struct MemoryElsewhere(Mutex<Addresses>);

impl Elsewhere for MemoryElsewhere {
    fn put(&self, connected: &Addresses) -> io::Result<()> {
        lock(&self.0).clone_from(connected);
        Ok(())
    }

    fn keep(&self) -> io::Result<()> {
        Ok(())
    }

    fn get(&self) -> Addresses {
        lock(&self.0).clone()
    }
}

#[derive(Default)]
struct MemoryLastSeen(Mutex<BTreeMap<MinionId, i64>>);

impl LastSeen for MemoryLastSeen {
    fn put(&self, all: &BTreeMap<MinionId, i64>) -> io::Result<()> {
        lock(&self.0).clone_from(all);
        Ok(())
    }

    fn get(&self) -> BTreeMap<MinionId, i64> {
        lock(&self.0).clone()
    }
}
