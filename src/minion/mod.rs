//! halite's own small minion.
//!
//! Two threads, one more for each master, and a child process per job. The main thread ([`daemon`])
//! hears publications and looks after the jobs, and never waits for anything; the [`courier`] speaks to
//! a master's request port. A third thread serves the local event bus; what else has to wait (opening a
//! line, a pillar) has a thread for as long as it takes. The decisions ([`signin`], [`course`],
//! [`watch`], [`request`], [`publication`], [`timetable`]) do no IO. What jobs do is in [`modules`] and
//! [`grains`], which run in the job's process or in `halite-call`.

mod aside;
pub mod ask;
pub mod beacons;
pub mod bus;
pub mod channel;
pub mod courier;
pub mod course;
pub mod daemon;
mod duties;
mod error;
pub mod files;
pub mod grains;
pub mod job;
pub mod jobs;
pub mod keys;
mod line;
pub mod link;
pub mod local;
mod lookout;
pub mod masters;
pub mod modules;
mod net;
pub mod pillar;
pub mod publication;
pub mod queue;
pub mod rekey;
pub mod render;
pub mod request;
pub mod returners;
pub mod session;
pub(crate) mod setup;
pub mod signin;
pub mod spool;
pub mod sysinspect;
pub mod timetable;
pub mod versions;
pub mod watch;

#[cfg(test)]
mod testing;

pub use error::MinionError;

use crate::config::MinionConfig;
use crate::target::Subject;
use crate::wire::Map;
use ask::Wake;
use session::lock;
use std::sync::{Arc, Mutex};

/// The Salt release whose behaviour the minion follows, and reports as `saltversion`.
pub const COMPAT_VERSION: &str = "3008.3";

/// The shell that commands run in: `SHELL`, else `/bin/sh` (`salt/grains/extra.py shell`).
pub fn default_shell() -> String {
    std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())
}

/// What the minion knows of itself, for targets.
#[derive(Clone, Debug, Default)]
pub struct Me {
    /// The id.
    pub id: String,
    /// The grains.
    pub grains: Arc<Map>,
    /// The pillar.
    pub pillar: Arc<Map>,
}

impl Subject for Me {
    fn id(&self) -> &str {
        &self.id
    }

    fn grains(&self) -> &Map {
        &self.grains
    }

    fn pillar(&self) -> &Map {
        &self.pillar
    }
}

/// All grains of a minion: core ones, over them those of executables, over them those of the file `grains` beside the
/// configuration (`salt/grains/extra.py config`), over them the option `grains`.
pub fn all_grains(config: &MinionConfig) -> Map {
    let mut own = grains_file(&config.conf_file.with_file_name("grains"));
    for (key, value) in config.grains.iter() {
        match key.as_str() {
            Some(key) => own.set(key, value.clone()),
            None => own.0.push((key.clone(), value.clone())),
        }
    }
    let mut collected = grains::collect(&Map::new());
    for (key, value) in grains::external::collect(&config.as_map())
        .0
        .into_iter()
        .chain(own.0.clone())
    {
        match collected.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, slot)) => *slot = value,
            None => collected.0.push((key, value)),
        }
    }
    for (key, value) in crate::map! {
        "id" => config.id.as_str(),
        "server_id" => grains::server_id(&config.id),
        "master" => config.master.first().map_or("", String::as_str),
    }
    .0
    {
        if !own.iter().any(|(k, _)| *k == key) {
            collected.0.retain(|(k, _)| *k != key);
            collected.0.push((key, value));
        }
    }
    collected
}

/// A grains file; one that is missing or cannot be read gives nothing.
fn grains_file(path: &std::path::Path) -> Map {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            if e.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{}: {e}; its grains are left out", path.display());
            }
            return Map::new();
        }
    };
    match crate::wire::yaml::parse(&text) {
        Ok(crate::wire::Value::Map(map)) => map,
        Ok(other) if other.is_nil() => Map::new(),
        Ok(_) => {
            log::warn!("{}: no map of grains; they are left out", path.display());
            Map::new()
        }
        Err(e) => {
            log::warn!("{}: {e}; its grains are left out", path.display());
            Map::new()
        }
    }
}

/// Carries a fatal error from a thread to the main loop.
#[derive(Clone, Debug)]
pub struct Alarm {
    error: Arc<Mutex<Option<MinionError>>>,
    wake: Wake,
}

impl Alarm {
    /// An alarm that wakes `wake`.
    pub fn new(wake: &Wake) -> Alarm {
        Alarm {
            error: Arc::default(),
            wake: wake.clone(),
        }
    }

    /// Raises it; the first error counts.
    pub fn raise(&self, error: MinionError) {
        lock(&self.error).get_or_insert(error);
        self.wake.wake();
    }

    /// The error, if there is one.
    pub fn take(&self) -> Option<MinionError> {
        lock(&self.error).take()
    }
}
