//! Returners: stores for jobs and events, in databases and files, compatible with the modules in `salt/returners`. The
//! master copies its job log to them, a minion its own returns.
//!
//! This crate has the common traits and the returners without a database. Database clients are in `halite-databases`, which
//! is linked into the master; a minion runs `halite-returner` for them ([`helper`]). Scheduling of writes and error
//! handling are left to the callers.

pub mod helper;
pub mod json;
mod local;
pub mod rawfile;
mod syslog;

use halite_config::{Returner, Settings};
use halite_ipc::Event;
use halite_store::jobs::{JobUpdate, StoredReturn, description};
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Why a write or read failed.
#[derive(Debug)]
pub enum StoreError {
    /// The database is unreachable or not set up; a retry may succeed.
    Away(String),
    /// The data is rejected, and would be again.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            StoreError::Away(why) | StoreError::Refused(why) => f.write_str(why),
        }
    }
}

/// A query, by the functions of Salt's returners that the module `ret` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// `get_jid`: the returns of a job, by minion.
    Jid(&'a str),
    /// `get_fun`: the last return of a function, by minion.
    Fun(&'a str),
    /// `get_jids`: all jobs with a stored load.
    Jids,
    /// `get_minions`: all minions with a stored return.
    Minions,
}

/// A store for jobs, events or both. Each call writes everything or nothing.
pub trait Store: Send {
    /// Stores loads and returns; databases ignore duplicates.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError>;

    /// Stores events.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn events(&mut self, _events: &[Arc<Event>]) -> Result<(), StoreError> {
        Err(StoreError::Refused("this returner stores only jobs".into()))
    }

    /// Deletes entries older than `keep` seconds, if Salt's own module does so.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn expire(&mut self, _keep: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reads stored data, in the form of Salt's module.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn read(&mut self, _question: Question<'_>) -> Result<Value, StoreError> {
        Err(StoreError::Refused("this returner cannot be read".into()))
    }
}

/// What is needed to open a store.
#[derive(Clone, Debug)]
pub struct Opener<'a> {
    /// The returner and its settings.
    pub settings: Settings<'a>,
    /// The id stored with events.
    pub id: &'a str,
    /// How long Redis keeps jobs, in seconds; 0 is forever.
    pub keep: u64,
    /// `halite` or `salt`: determines the default log directory.
    pub product: &'a str,
    /// The program's name, as shown by the database and the system log.
    pub program: &'static str,
}

/// A returner that needs a database client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// PostgreSQL with `jsonb` columns.
    Pgjsonb,
    /// PostgreSQL with text columns.
    Postgres,
    /// Redis.
    Redis,
    /// An SQLite file.
    Sqlite3,
}

/// Opens a store without connecting; `database` opens those in databases.
pub fn open(
    opener: &Opener,
    database: impl Fn(&Opener, Database) -> Box<dyn Store>,
) -> Box<dyn Store> {
    match opener.settings.returner() {
        Returner::Pgjsonb => database(opener, Database::Pgjsonb),
        Returner::Postgres => database(opener, Database::Postgres),
        Returner::Redis => database(opener, Database::Redis),
        Returner::Sqlite3 => database(opener, Database::Sqlite3),
        Returner::RawfileJson => Box::new(rawfile::RawFile::new(opener)),
        Returner::Syslog => Box::new(syslog::Syslog::new(opener)),
        Returner::Local => Box::new(local::Local),
    }
}

/// The function of a return or load, as text; those of a compound command are joined by commas.
pub fn function(load: &Map) -> String {
    match load.get("fun") {
        Some(Value::Str(fun)) => fun.clone(),
        Some(other) => other.str_list().join(","),
        None => String::new(),
    }
}

/// The function's result; nil if the return has none.
pub fn result(ret: &StoredReturn) -> Value {
    ret.load.get("return").cloned().unwrap_or_default()
}

/// Parses a stored JSON value.
///
/// # Errors
/// Invalid JSON.
pub fn read_json(text: &str) -> Result<Value, StoreError> {
    halite_wire::json::parse(text.as_bytes())
        .map_err(|e| StoreError::Refused(format!("the stored value is not valid JSON: {e}")))
}

/// A job in the form of `get_jids` (`salt/utils/jid.py format_jid_instance`).
pub fn described(jid: &str, load: &Value) -> Value {
    const NONE: &Map = &Map(Vec::new());
    let mut out = description(load.as_map().unwrap_or(NONE));
    let start = jid.parse::<Jid>().map(|jid| jid.time_text());
    out.set("StartTime", start.unwrap_or_default());
    out.into()
}
