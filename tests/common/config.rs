//! Directories of a daemon: configuration, root, log.

use std::path::{Path, PathBuf};

/// The directory of one master or minion.
///
/// The configuration directory is called `salt`, so that stock and halite's programs take the
/// same default paths below the same root.
#[derive(Clone, Debug)]
pub struct Home {
    dir: PathBuf,
    role: &'static str,
}

impl Home {
    /// Makes the directory; `role` is `master` or `minion`.
    pub fn create(dir: PathBuf, role: &'static str) -> Home {
        let home = Home { dir, role };
        std::fs::create_dir_all(home.config_dir()).expect("a directory can be made");
        home
    }

    /// What `root_dir` says.
    pub fn root(&self) -> &Path {
        &self.dir
    }

    /// What the option `-c` says.
    pub fn config_dir(&self) -> PathBuf {
        self.dir.join("etc/salt")
    }

    /// Where the output of the daemon goes.
    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.role))
    }

    /// Keys of the daemon (and of the minions, at a master).
    pub fn pki(&self) -> PathBuf {
        self.dir.join("etc/salt/pki").join(self.role)
    }

    /// Its cache.
    pub fn cache(&self) -> PathBuf {
        self.dir.join("var/cache/salt").join(self.role)
    }

    /// Its local sockets.
    pub fn sockets(&self) -> PathBuf {
        self.dir.join("var/run/salt").join(self.role)
    }

    /// Writes the configuration file.
    pub fn write(&self, yaml: &str) {
        std::fs::write(self.config_dir().join(self.role), yaml).expect("a file can be written");
    }
}
