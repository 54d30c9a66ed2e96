//! The state that ARENA's orchestrator saves over restarts: managers, runtimes, modules; SQLite below
//! `cachedir/gateways/arena`.
//!
//! Only the gateway writes; runners read.

mod tables;
mod views;

pub use views::{json_value, state_word};

use crate::wire::{Dialect, Manager, Module, Runtime, Uuid};
use halite_sys::daemon::{make_dir, write_new};
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tables::RegistryError;

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Damaged files kept at most; a file that is damaged again and again needs attention.
const MOST_ASIDE: u32 = 100;

/// A runtime with what only this master knows about it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRuntime {
    /// As it registered.
    pub runtime: Runtime,
    /// Its minion id.
    pub id: String,
    /// When it was last heard, in seconds since 1970.
    pub heard: u64,
    /// Memory used by its modules in bytes, according to its last keepalive.
    pub memory: u64,
    /// Whether it has sent a keepalive since it registered, or is one of halite, which always sends them. One that
    /// never does is not missed (reference, section 4.3).
    pub speaks: bool,
    /// The dialect in which it registered, also used for messages to it.
    pub dialect: Dialect,
}

/// A module with what only this master knows about it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptModule {
    /// As requested and placed.
    pub module: Module,
    /// When it was requested, in seconds since 1970.
    pub created: u64,
    /// Whether it runs on a runtime without having been requested here.
    pub foreign: bool,
}

/// The whole saved state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Managers.
    pub managers: Vec<Manager>,
    /// Runtimes.
    pub runtimes: Vec<KeptRuntime>,
    /// Modules, oldest first.
    pub modules: Vec<KeptModule>,
    /// The running number of the next module.
    pub next_index: u64,
}

/// A change to save.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A manager is new or has changed.
    Manager(Manager),
    /// A runtime is new or has changed.
    Runtime(Box<KeptRuntime>),
    /// A module is new or has changed.
    Module(Box<KeptModule>),
    /// A manager was forgotten.
    NoManager(Uuid),
    /// A runtime was forgotten, with its modules.
    NoRuntime(Uuid),
    /// A module was forgotten.
    NoModule(Uuid),
}

/// The store.
pub struct ArenaStore {
    path: PathBuf,
    connection: Option<Connection>,
}

impl ArenaStore {
    /// The store below `cachedir`; no file is opened yet.
    pub fn new(cachedir: &Path) -> ArenaStore {
        ArenaStore {
            path: halite_config::paths::master::arena_registry(cachedir),
            connection: None,
        }
    }

    /// Reads the whole state as of one point in time; empty if there is no file. Changes nothing, so runners may read
    /// while the gateway writes.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by us.
    pub fn load(&self) -> io::Result<Snapshot> {
        if !self.path.exists() {
            return Ok(Snapshot::default());
        }
        self.read().map_err(|e| self.described(e))
    }

    fn read(&self) -> Result<Snapshot, RegistryError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        if tables::version(&connection)? == 0 {
            return Ok(Snapshot::default());
        }
        // One transaction sees one state, whatever is written meanwhile.
        let transaction = connection.transaction()?;
        tables::check(&transaction)?;
        tables::load(&transaction)
    }

    /// Opens the file for writing, or creates it; for the gateway. A damaged file is moved aside: runtimes are found
    /// again by their keepalives.
    ///
    /// # Errors
    /// The file can neither be opened nor moved aside, or was written by another version of halite.
    pub fn open(&mut self) -> io::Result<Snapshot> {
        if let Some(dir) = self.path.parent() {
            make_dir(dir, 0o700)?;
        }
        match self.open_and_read() {
            Ok(snapshot) => Ok(snapshot),
            Err(error) if error.is_damage() => {
                let aside = self.move_aside()?;
                log::error!(
                    "{}: {error}; it was moved to {}, and the gateway for ARENA starts without records",
                    self.path.display(),
                    aside.display()
                );
                self.open_and_read().map_err(|e| self.described(e))
            }
            Err(error) => Err(self.described(error)),
        }
    }

    fn open_and_read(&mut self) -> Result<Snapshot, RegistryError> {
        self.connection = None;
        let mut connection = self.connect()?;
        let transaction = connection.transaction()?;
        tables::make(&transaction)?;
        let snapshot = tables::load(&transaction)?;
        transaction.commit()?;
        self.connection = Some(connection);
        Ok(snapshot)
    }

    fn connect(&self) -> Result<Connection, RegistryError> {
        match write_new(&self.path, b"", 0o600) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(RegistryError::Io(e)),
            // SQLite gives the log beside it the same mode.
            _ => std::fs::set_permissions(&self.path, PermissionsExt::from_mode(0o600))?,
        }
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A power failure may lose the last moments, which keepalives restore, but never the file.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(connection)
    }

    /// Moves the file and its log, which belong together, to a name that is not in use; returns it.
    fn move_aside(&mut self) -> io::Result<PathBuf> {
        self.connection = None;
        let with = |end: String| {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        let free = (1..=MOST_ASIDE).find(|n| !with(format!(".damaged.{n}")).exists());
        let free = free.ok_or_else(|| {
            io::Error::other(format!(
                "there are {} damaged files beside {} already; move them away",
                MOST_ASIDE,
                self.path.display()
            ))
        })?;
        let aside = with(format!(".damaged.{free}"));
        // The log first: without its file it is never read, but with a new file it might be.
        for end in ["-wal", "-shm"] {
            let to = with(format!(".damaged.{free}{end}"));
            match std::fs::rename(with(end.to_owned()), to) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        std::fs::rename(&self.path, &aside)?;
        Ok(aside)
    }

    /// Saves changes: all or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&mut self, changes: &[Change]) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if self.connection.is_none() {
            self.open()?;
        }
        let Some(connection) = &mut self.connection else {
            return Err(io::Error::other("the registry is not open"));
        };
        let kept = tables::save(connection, changes);
        kept.map_err(|error| {
            // The next attempt opens the file again.
            self.connection = None;
            self.described(error)
        })
    }

    fn described(&self, error: RegistryError) -> io::Error {
        io::Error::other(format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests;
