//! The tables: each row has a record of [`crate::wire`] as JSON, and in further columns what only this master knows.

use super::{Change, KeptModule, KeptRuntime, Snapshot};
use crate::wire::{Dialect, Json, Manager, Module, Runtime, Uuid};
use halite_sys::excerpt::excerpt;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};
use std::{fmt, io};

/// The version of these tables, stored as `user_version` of the file.
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE managers (uuid TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runtimes (
  uuid TEXT PRIMARY KEY, record TEXT NOT NULL, id TEXT NOT NULL, heard INTEGER NOT NULL,
  memory INTEGER NOT NULL, speaks INTEGER NOT NULL, older INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE modules (
  uuid TEXT PRIMARY KEY, record TEXT NOT NULL, number INTEGER NOT NULL, runtime TEXT,
  created INTEGER NOT NULL, is_foreign INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX modules_by_runtime ON modules (runtime);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// Why the file cannot be used.
#[derive(Debug)]
pub(super) enum RegistryError {
    /// It cannot be accessed.
    Io(io::Error),
    /// An error from SQLite.
    Sql(rusqlite::Error),
    /// It has tables of another version.
    Version(i64),
}

impl RegistryError {
    /// Whether the file itself is damaged, so that a new one would help.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            // A newer version of halite can use it; the operator who downgraded decides.
            RegistryError::Io(_) | RegistryError::Version(_) => false,
            RegistryError::Sql(e) => match e.sqlite_error_code() {
                Some(code) => matches!(
                    code,
                    ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
                ),
                // A column has another type than was written.
                None => true,
            },
        }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RegistryError::Io(e) => e.fmt(f),
            RegistryError::Sql(e) => e.fmt(f),
            RegistryError::Version(version) => write!(
                f,
                "its tables are of version {version}, and this halite knows version {VERSION}: use the halite that wrote it, \
                 or move the file away, and runtimes are found again by their keepalives"
            ),
        }
    }
}

impl From<rusqlite::Error> for RegistryError {
    fn from(e: rusqlite::Error) -> RegistryError {
        RegistryError::Sql(e)
    }
}

impl From<io::Error> for RegistryError {
    fn from(e: io::Error) -> RegistryError {
        RegistryError::Io(e)
    }
}

/// The version of a file's tables; 0 if there are none.
pub(super) fn version(connection: &Connection) -> Result<i64, RegistryError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Checks that the tables have the version supported here.
pub(super) fn check(connection: &Connection) -> Result<(), RegistryError> {
    match version(connection)? {
        VERSION => Ok(()),
        other => Err(RegistryError::Version(other)),
    }
}

/// Creates the tables in a new file.
pub(super) fn make(transaction: &Transaction) -> Result<(), RegistryError> {
    if version(transaction)? == 0 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    check(transaction)
}

/// Reads all tables. A row that cannot be read is left in place and logged: runtimes and their modules are found again
/// by keepalives.
pub(super) fn load(transaction: &Transaction) -> Result<Snapshot, RegistryError> {
    let mut snapshot = Snapshot::default();
    let mut unread = Unread::default();
    let mut statement = transaction.prepare("SELECT uuid, record FROM managers ORDER BY uuid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let read = record(row, 1).and_then(|json| Manager::from_json(json).ok());
        snapshot.managers.extend(unread.or(read, "manager", row));
    }
    let sql = "SELECT uuid, record, id, heard, memory, speaks, older FROM runtimes ORDER BY uuid";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        snapshot
            .runtimes
            .extend(unread.or(runtime(row), "runtime", row));
    }
    let sql = "SELECT uuid, record, created, is_foreign FROM modules ORDER BY number, uuid";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        snapshot
            .modules
            .extend(unread.or(module(row), "module", row));
    }
    unread.tell();
    let next = transaction
        .query_row(
            "SELECT value FROM counters WHERE name = 'next_index'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    snapshot.next_index = next.map_or(0, natural);
    Ok(snapshot)
}

/// Rows that could not be read: how many, and the first of them.
#[derive(Default)]
struct Unread {
    count: usize,
    first: String,
}

impl Unread {
    /// Returns what was read, or counts one more unreadable row.
    fn or<T>(&mut self, read: Option<T>, what: &str, row: &Row) -> Option<T> {
        if read.is_none() {
            self.count += 1;
            if self.count == 1 {
                let uuid: String = row.get(0).unwrap_or_default();
                self.first = format!("{what} {}", excerpt(&uuid, 80));
            }
        }
        read
    }

    fn tell(&self) {
        if self.count > 0 {
            log::error!(
                "{} records of the registry for ARENA cannot be read, the first of them that of {}; they are skipped",
                self.count,
                self.first
            );
        }
    }
}

fn record(row: &Row, column: usize) -> Option<Json> {
    parsed(&row.get::<_, String>(column).ok()?)
}

fn runtime(row: &Row) -> Option<KeptRuntime> {
    Some(KeptRuntime {
        runtime: Runtime::from_json(record(row, 1)?).ok()?,
        id: row.get(2).ok()?,
        heard: natural(row.get(3).ok()?),
        memory: natural(row.get(4).ok()?),
        speaks: row.get(5).ok()?,
        dialect: if row.get(6).ok()? {
            Dialect::Older
        } else {
            Dialect::Draft
        },
    })
}

fn module(row: &Row) -> Option<KeptModule> {
    Some(KeptModule {
        module: Module::from_json(record(row, 1)?).ok()?,
        created: natural(row.get(2).ok()?),
        foreign: row.get(3).ok()?,
    })
}

/// Writes changes in one transaction.
pub(super) fn save(connection: &mut Connection, changes: &[Change]) -> Result<(), RegistryError> {
    let transaction = connection.transaction()?;
    for change in changes {
        match change {
            Change::Manager(manager) => put_manager(&transaction, manager)?,
            Change::Runtime(runtime) => put_runtime(&transaction, runtime)?,
            Change::Module(module) => put_module(&transaction, module)?,
            Change::NoManager(uuid) => {
                remove(&transaction, "DELETE FROM managers WHERE uuid = ?1", uuid)?;
            }
            Change::NoRuntime(uuid) => {
                remove(&transaction, "DELETE FROM runtimes WHERE uuid = ?1", uuid)?;
                remove(&transaction, "DELETE FROM modules WHERE runtime = ?1", uuid)?;
            }
            Change::NoModule(uuid) => {
                remove(&transaction, "DELETE FROM modules WHERE uuid = ?1", uuid)?;
            }
        }
    }
    Ok(transaction.commit()?)
}

fn put_manager(transaction: &Transaction, manager: &Manager) -> Result<(), RegistryError> {
    let sql = "INSERT OR REPLACE INTO managers (uuid, record) VALUES (?1, ?2)";
    let mut statement = transaction.prepare_cached(sql)?;
    statement.execute(params![
        manager.uuid.as_str(),
        manager.to_json().to_string()
    ])?;
    Ok(())
}

fn put_runtime(transaction: &Transaction, kept: &KeptRuntime) -> Result<(), RegistryError> {
    let sql = "INSERT OR REPLACE INTO runtimes (uuid, record, id, heard, memory, speaks, older)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut statement = transaction.prepare_cached(sql)?;
    statement.execute(params![
        kept.runtime.uuid.as_str(),
        kept.runtime.to_json().to_string(),
        kept.id,
        integer(kept.heard),
        integer(kept.memory),
        kept.speaks,
        kept.dialect == Dialect::Older,
    ])?;
    Ok(())
}

fn put_module(transaction: &Transaction, kept: &KeptModule) -> Result<(), RegistryError> {
    let module = &kept.module;
    let sql = "INSERT OR REPLACE INTO modules (uuid, record, number, runtime, created, is_foreign)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut statement = transaction.prepare_cached(sql)?;
    statement.execute(params![
        module.uuid.as_str(),
        module.to_json().to_string(),
        integer(module.index),
        module.runtime.as_ref().map(Uuid::as_str),
        integer(kept.created),
        kept.foreign,
    ])?;
    // Numbers are not reused, even if the record of the last one is gone.
    let sql = "INSERT INTO counters (name, value) VALUES ('next_index', ?1)
               ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)";
    let mut statement = transaction.prepare_cached(sql)?;
    statement.execute([integer(module.index.saturating_add(1))])?;
    Ok(())
}

fn remove(transaction: &Transaction, sql: &str, uuid: &Uuid) -> Result<(), RegistryError> {
    transaction.prepare_cached(sql)?.execute([uuid.as_str()])?;
    Ok(())
}

fn parsed(record: &str) -> Option<Json> {
    halite_wire::json::parse(record.as_bytes()).ok()
}

/// SQLite has no integers of more than 63 bits.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
