//! Every file of a minion: below `pki_dir` and `cachedir`.
//!
//! Jobs know the cache directory but not the configuration; what they use is in [`cache`].

use crate::MinionConfig;
use std::path::{Path, PathBuf};

/// A socket of the minion's event bus: `kind` is `pub` or `pull`, `hash` the minion's id hashed with
/// `hash_type` (reference `salt-local.md` 1.1).
pub fn event_socket(sock_dir: &Path, hash: &str, kind: &str) -> PathBuf {
    sock_dir.join(format!("minion_event_{hash:.10}_{kind}.ipc"))
}

/// The pinned key of the master.
pub fn pinned_master(pki_dir: &Path) -> PathBuf {
    pki_dir.join("minion_master.pub")
}

/// Keys of the minion for sysinspect masters.
pub fn sysinspect_keys(pki_dir: &Path) -> PathBuf {
    pki_dir.join("sysinspect")
}

impl MinionConfig {
    /// The minion's private key.
    pub fn minion_key(&self) -> PathBuf {
        self.pki_dir.join("minion.pem")
    }

    /// The minion's public key.
    pub fn minion_pub(&self) -> PathBuf {
        self.pki_dir.join("minion.pub")
    }

    /// The key that verifies masters' keys (`master_sign_key_name`).
    pub fn sign_pub(&self) -> PathBuf {
        self.pki_dir
            .join(format!("{}.pub", self.master_sign_key_name))
    }

    /// The syndic's pinned key of an upper master; `suffix` tells several upper masters apart.
    pub fn syndic_master(&self, suffix: Option<&str>) -> PathBuf {
        self.pki_dir.join(match suffix {
            None => "syndic_master.pub".to_owned(),
            Some(suffix) => format!("syndic_master.{suffix}.pub"),
        })
    }

    /// The cache directory of the minion for sysinspect masters.
    pub fn sysinspect_cache(&self) -> PathBuf {
        self.cachedir.join("sysinspect")
    }
}

/// What lies below the cache directory.
pub mod cache {
    use std::path::{Path, PathBuf};

    /// Jobs that run, one file for each.
    pub fn jobs(cachedir: &Path) -> PathBuf {
        cachedir.join("proc")
    }

    /// Results of jobs that ended while no minion ran.
    pub fn orphaned_results(cachedir: &Path) -> PathBuf {
        cachedir.join("left")
    }

    /// Results that no master has acknowledged.
    pub fn unsent_returns(cachedir: &Path) -> PathBuf {
        cachedir.join("returns")
    }

    /// Returns of earlier jobs (`cache_jobs`).
    pub fn minion_jobs(cachedir: &Path) -> PathBuf {
        cachedir.join("minion_jobs")
    }

    /// Queues of jobs that wait.
    pub fn queues(cachedir: &Path) -> PathBuf {
        cachedir.join("queues")
    }

    /// Copies of files of the master, by environment.
    pub fn files(cachedir: &Path) -> PathBuf {
        cachedir.join("files")
    }

    /// Copies of local files.
    pub fn local_files(cachedir: &Path) -> PathBuf {
        cachedir.join("localfiles")
    }

    /// Copies of files from other addresses, by environment.
    pub fn extern_files(cachedir: &Path) -> PathBuf {
        cachedir.join("extrn_files")
    }

    /// Synced modules.
    pub fn extmods(cachedir: &Path) -> PathBuf {
        cachedir.join("extmods")
    }

    /// The data of the module `data`.
    pub fn datastore(cachedir: &Path) -> PathBuf {
        cachedir.join("datastore")
    }

    /// Backups of files that states replaced.
    pub fn file_backup(cachedir: &Path) -> PathBuf {
        cachedir.join("file_backup")
    }

    /// Options of mounts (`mount.write_cache`).
    pub fn mounts(cachedir: &Path) -> PathBuf {
        cachedir.join("mounts")
    }

    /// Where states are paused, one file for each job.
    pub fn state_pause(cachedir: &Path) -> PathBuf {
        cachedir.join("state_pause")
    }

    /// The state run that was requested (`state.request`).
    pub fn state_request(cachedir: &Path) -> PathBuf {
        cachedir.join("req_state.p")
    }

    /// There while modules are to be loaded again.
    pub fn module_refresh(cachedir: &Path) -> PathBuf {
        cachedir.join("module_refresh")
    }

    /// There while package lists are to be fetched again.
    pub fn pkg_refresh(cachedir: &Path) -> PathBuf {
        cachedir.join("pkg_refresh")
    }

    /// What a syndic knows of its upper masters, a directory for each.
    pub fn syndic(cachedir: &Path) -> PathBuf {
        cachedir.join("syndic")
    }
}
