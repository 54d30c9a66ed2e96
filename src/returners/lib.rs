//! Returners: places in databases and files that keep jobs and events as the modules in
//! `salt/returners` do. The master copies its job log there, a minion its own returns.
//!
//! What a returner is stands here, with those that need no database. The clients of databases are in `halite-databases`, which
//! the master has within; a minion starts `halite-returner` for them ([`helper`]). Who writes, when, and what about trouble, is
//! not decided here.

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

/// Why something could not be written or read.
#[derive(Debug)]
pub enum StoreError {
    /// The database is away or not set up; all of it may go well later.
    Away(String),
    /// Something in what was given is refused, and will be the next time.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            StoreError::Away(why) | StoreError::Refused(why) => f.write_str(why),
        }
    }
}

/// What a database can be asked; the functions of Salt's modules by which the module `ret` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// `get_jid`: the returns of a job, by minion.
    Jid(&'a str),
    /// `get_fun`: the last return of a function, by minion.
    Fun(&'a str),
    /// `get_jids`: all jobs whose loads are there.
    Jids,
    /// `get_minions`: the minions that have returned something.
    Minions,
}

/// A place that keeps jobs, events or both. Each call writes all or nothing.
pub trait Store: Send {
    /// Keeps loads and returns; a database writes nothing twice.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn jobs(&mut self, news: &[JobUpdate]) -> Result<(), StoreError>;

    /// Keeps events.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn events(&mut self, _events: &[Arc<Event>]) -> Result<(), StoreError> {
        Err(StoreError::Refused("it keeps jobs only".into()))
    }

    /// Removes what is older than so many seconds, where Salt's own module does.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn expire(&mut self, _keep: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reads what was kept, in the form of Salt's module.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn read(&mut self, _question: Question<'_>) -> Result<Value, StoreError> {
        Err(StoreError::Refused("it cannot be read".into()))
    }
}

/// What a place needs to know of the one who opens it.
#[derive(Clone, Debug)]
pub struct Opener<'a> {
    /// Which returner, and its settings.
    pub settings: Settings<'a>,
    /// The id beside events.
    pub id: &'a str,
    /// Seconds for which Redis keeps jobs; 0 is for ever.
    pub keep: u64,
    /// `halite` or `salt`: the directory of logs that applies without a setting.
    pub product: &'a str,
    /// The program, as the database and the system log show it.
    pub program: &'static str,
}

/// A returner whose client is a library of its own.
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

/// Opens a place; nothing is connected yet. What is a database is opened by `database`.
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

/// The function of a return or load as text: that of a compound command is a list.
pub fn function(load: &Map) -> String {
    match load.get("fun") {
        Some(Value::Str(fun)) => fun.clone(),
        Some(other) => other.str_list().join(","),
        None => String::new(),
    }
}

/// What the function gave, nil if it says nothing.
pub fn result(ret: &StoredReturn) -> Value {
    ret.load.get("return").cloned().unwrap_or_default()
}

/// A value that was kept as JSON.
///
/// # Errors
/// It is no JSON.
pub fn read_json(text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text)
        .map_err(|e| StoreError::Refused(format!("what it holds is no JSON: {e}")))
}

/// A job of `get_jids` (`salt/utils/jid.py format_jid_instance`).
pub fn described(jid: &str, load: &Value) -> Value {
    const NONE: &Map = &Map(Vec::new());
    let mut out = description(load.as_map().unwrap_or(NONE));
    let start = jid.parse::<Jid>().map(|jid| jid.time_text());
    out.set("StartTime", start.unwrap_or_default());
    out.into()
}
