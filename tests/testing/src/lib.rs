//! Real daemons and real command line tools for tests: halite's and stock Salt's, in any mix.
//!
//! Stock Salt comes from virtual environments named by `HALITE_SALT_3006`, `HALITE_SALT_3007` and
//! `HALITE_SALT_3008` (`scripts/test` creates them). Everything runs in a temporary directory with a short path, on
//! its own ports, and is stopped when its guard is dropped.

pub mod arena;
pub mod arena_fleet;
pub mod arena_runtime;
pub mod authority;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod collective;
pub mod collective_nodes;
pub mod config;
pub mod git;
pub mod gpg;
pub mod harness;
pub mod machine;
pub mod master;
pub mod mcollective;
pub mod minion;
pub mod modules;
pub mod mosquitto;
pub mod nats_server;
pub mod network;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod rabbitmq;
pub mod scale;
pub mod three;

pub use check::Checks;
pub use cli::Cli;
pub use master::Master;
pub use minion::Minion;
pub use mosquitto::Mosquitto;
pub use nats_server::{NatsClient, NatsServer};
pub use rabbitmq::RabbitMq;

use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// A release of Salt, with all its programs in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// `3006`, `3007` or `3008`.
    pub series: String,
    bin: PathBuf,
}

impl Stock {
    /// The release named by `HALITE_SALT_<series>`. `None`, with a message, if that is not set.
    pub fn find(series: &str) -> Option<Stock> {
        let name = format!("HALITE_SALT_{series}");
        let Some(venv) = std::env::var_os(&name).filter(|v| !v.is_empty()) else {
            eprintln!(
                "skipped: {name} names no virtual environment with Salt; `scripts/test` makes one"
            );
            return None;
        };
        let bin = Path::new(&venv).join("bin");
        assert!(
            bin.join("salt-minion").exists(),
            "{name} is set, but there is no salt-minion in {}",
            bin.display()
        );
        Some(Stock {
            series: series.into(),
            bin,
        })
    }

    /// Path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// Path of one of halite's programs: in the directory where cargo builds them, or in `HALITE_BIN_DIR`.
///
/// # Panics
/// If it does not exist.
pub fn halite_program(name: &str) -> PathBuf {
    let dir = std::env::var_os("HALITE_BIN_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.map_or_else(
        || {
            let own = std::env::current_exe().expect("a test has a path");
            let dir = own.parent().and_then(Path::parent);
            dir.expect("tests lie in target/<profile>/deps").to_owned()
        },
        PathBuf::from,
    );
    let program = dir.join(name);
    assert!(
        program.exists(),
        "there is no {name} in {}; `cargo build --bins` makes it, HALITE_BIN_DIR names another directory",
        dir.display()
    );
    program
}

/// The top of the source tree.
pub fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Calls `ready` repeatedly until it returns a value.
///
/// # Panics
/// With `what`, after [`LONG`].
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {LONG:?}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Like [`wait_for`], with a condition.
pub fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    wait_for(what, || ready().then_some(()));
}

/// Calls `objection` repeatedly until it has none.
///
/// # Panics
/// With the last one, after [`LONG`].
pub fn wait_without(mut objection: impl FnMut() -> Option<String>) {
    let end = Instant::now() + LONG;
    while let Some(why) = objection() {
        assert!(Instant::now() < end, "{why}: still after {LONG:?}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// A temporary directory with a path so short that sockets below it do not exceed the limit.
pub fn short_dir() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("h")
        .tempdir_in("/tmp")
        .expect("a directory below /tmp can be made")
}

/// An exclusive lock between processes, held until it is dropped.
pub fn locked(path: &Path) -> Flock<File> {
    let file = File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Flock::lock(file, FlockArg::LockExclusive)
        .unwrap_or_else(|(_, e)| panic!("{}: {e}", path.display()))
}
