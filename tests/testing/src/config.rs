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
    /// Makes the directory; `role` is `master` or `minion`.
    pub fn create(dir: PathBuf, role: &'static str) -> Home {
        let home = Home {
            dir,
            role,
            product: "salt",
        };
        std::fs::create_dir_all(home.config_dir()).expect("a directory can be made");
        home
    }

    /// The same root with directories of another name, as of a halite beside a stock Salt.
    pub fn beside(&self, product: &'static str) -> Home {
        let dir = self.dir.clone();
        let role = self.role;
        Home { dir, role, product }
    }

    /// What `root_dir` says.
    pub fn root(&self) -> &Path {
        &self.dir
    }

    /// What the option `-c` says.
    pub fn config_dir(&self) -> PathBuf {
        self.dir.join("etc").join(self.product)
    }

    /// Where the output of the daemon goes.
    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.role))
    }

    /// Keys of the daemon (and of the minions, at a master).
    pub fn pki(&self) -> PathBuf {
        self.config_dir().join("pki").join(self.role)
    }

    /// Its cache.
    pub fn cache(&self) -> PathBuf {
        self.dir
            .join("var/cache")
            .join(self.product)
            .join(self.role)
    }

    /// Its local sockets.
    pub fn sockets(&self) -> PathBuf {
        self.dir.join("var/run").join(self.product).join(self.role)
    }

    /// Writes the configuration file.
    pub fn write(&self, yaml: &str) {
        std::fs::write(self.config_dir().join(self.role), yaml).expect("a file can be written");
    }
}
