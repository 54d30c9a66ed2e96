//! `pillar_cache`: compiled pillars, valid for `pillar_cache_ttl` seconds, on disk or in the memory of a
//! worker (`salt/pillar/__init__.py PillarCache`, `salt/utils/cache.py CacheDisk`).

use halite_config::RenderOptions;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::time::unix_now_f64;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Keys of the file, as in stock 3006.
const DATA: &str = "CacheDisk_data";
const TIME: &str = "CacheDisk_cachetime";

type Memory = HashMap<(MinionId, Option<String>), (Instant, Map)>;

/// Compiled pillars.
pub(super) struct PillarCache {
    /// Directory of the files; `None` keeps pillars in memory.
    dir: Option<PathBuf>,
    ttl: Duration,
    memory: RefCell<Memory>,
}

impl PillarCache {
    pub(super) fn new(options: &RenderOptions) -> PillarCache {
        let on_disk = options.pillar_cache_backend != "memory";
        PillarCache {
            dir: on_disk.then(|| options.pillar_cache_dir()),
            ttl: Duration::from_secs(options.pillar_cache_ttl),
            memory: RefCell::default(),
        }
    }

    /// The pillar of a minion in an environment, unless it has expired.
    pub(super) fn get(&self, id: &MinionId, env: Option<&str>) -> Option<Map> {
        if self.dir.is_none() {
            let memory = self.memory.borrow();
            let (at, pillar) = memory.get(&(id.clone(), env.map(str::to_owned)))?;
            return (at.elapsed() < self.ttl).then(|| pillar.clone());
        }
        let envs = self.read(id)?;
        let key = Value::from(env.map(str::to_owned));
        let found = envs.0.into_iter().find(|(name, _)| *name == key);
        found.and_then(|(_, pillar)| pillar.into_map())
    }

    /// Stores a pillar. Errors are logged: the next request compiles again.
    pub(super) fn put(&self, id: &MinionId, env: Option<&str>, pillar: &Map) {
        let Some(dir) = &self.dir else {
            let key = (id.clone(), env.map(str::to_owned));
            let mut memory = self.memory.borrow_mut();
            let ttl = self.ttl;
            memory.retain(|_, (at, _)| at.elapsed() < ttl);
            memory.insert(key, (Instant::now(), pillar.clone()));
            return;
        };
        let mut envs = self.read(id).unwrap_or_default();
        let key = Value::from(env.map(str::to_owned));
        envs.0.retain(|(name, _)| *name != key);
        envs.0.push((key, pillar.clone().into()));
        let whole = halite_wire::map! {
            DATA => halite_wire::map! {id.as_str() => envs},
            TIME => halite_wire::map! {id.as_str() => unix_now_f64()},
        };
        let bytes = msgpack::encode_map(&whole, Profile::Local);
        let written =
            make_dir(dir, 0o700).and_then(|()| write_atomic(&dir.join(id.as_str()), &bytes, 0o600));
        if let Err(e) = written {
            log::warn!(
                "the pillar of {id} could not be put into {}: {e}",
                dir.display()
            );
        }
    }

    /// Removes all pillars of a minion.
    pub(super) fn remove(&self, id: &MinionId) {
        self.memory.borrow_mut().retain(|(known, _), _| known != id);
        if let Some(dir) = &self.dir {
            // It may not exist.
            let _ = std::fs::remove_file(dir.join(id.as_str()));
        }
    }

    fn read(&self, id: &MinionId) -> Option<Map> {
        let bytes = std::fs::read(self.dir.as_ref()?.join(id.as_str())).ok()?;
        let mut whole = msgpack::decode(&bytes).ok()?.into_map()?;
        let at = match whole.get(TIME)?.as_map()?.get(id.as_str())? {
            Value::Float(at) => *at,
            Value::Int(at) => *at as f64,
            _ => return None,
        };
        if unix_now_f64() - at > self.ttl.as_secs_f64() {
            return None;
        }
        whole
            .get_mut(DATA)?
            .as_map()
            .cloned()?
            .remove(id.as_str())?
            .into_map()
    }
}
