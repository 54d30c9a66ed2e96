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
    product: &'static str,
}

impl Home {
    /// Creates the directory; `role` is `master` or `minion`.
    pub fn create(dir: PathBuf, role: &'static str) -> Home {
        let home = Home {
            dir,
            role,
            product: "salt",
        };
        std::fs::create_dir_all(home.config_dir()).expect("a directory can be made");
        home
    }

    /// The same root with directories of another name, as for halite installed next to stock Salt.
    pub fn beside(&self, product: &'static str) -> Home {
        let dir = self.dir.clone();
        let role = self.role;
        Home { dir, role, product }
    }

    /// The value of `root_dir`.
    pub fn root(&self) -> &Path {
        &self.dir
    }

    /// The value of the option `-c`.
    pub fn config_dir(&self) -> PathBuf {
        self.dir.join("etc").join(self.product)
    }

    /// The file with the output of the daemon.
    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.role))
    }

    /// Directory of the keys of the daemon (and, for a master, of the minions).
    pub fn pki(&self) -> PathBuf {
        self.config_dir().join("pki").join(self.role)
    }

    /// Its cache directory.
    pub fn cache(&self) -> PathBuf {
        self.dir
            .join("var/cache")
            .join(self.product)
            .join(self.role)
    }

    /// Directory of its local sockets.
    pub fn sockets(&self) -> PathBuf {
        self.dir.join("var/run").join(self.product).join(self.role)
    }

    /// Writes the configuration file.
    pub fn write(&self, yaml: &str) {
        std::fs::write(self.config_dir().join(self.role), yaml).expect("a file can be written");
    }
}
