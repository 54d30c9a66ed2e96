//! Paths of every file of a minion: below `pki_dir` and `cachedir`.
//!
//! Jobs know the cache directory but not the configuration; the paths they use are in [`cache`].

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

    /// The minion's static key for the handshake between halite peers.
    pub fn noise_key(&self) -> PathBuf {
        self.pki_dir.join("minion.noise")
    }

    /// The minion's public key.
    pub fn minion_pub(&self) -> PathBuf {
        self.pki_dir.join("minion.pub")
    }

    /// The key that verifies the signatures of masters' keys (`master_sign_key_name`).
    pub fn sign_pub(&self) -> PathBuf {
        self.pki_dir
            .join(format!("{}.pub", self.master_sign_key_name))
    }

    /// The syndic's pinned key of an upper master; `suffix` distinguishes several upper masters.
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

/// Paths below the cache directory.
pub mod cache {
    use std::path::{Path, PathBuf};

    /// Running jobs, one file each.
    pub fn jobs(cachedir: &Path) -> PathBuf {
        cachedir.join("proc")
    }

    /// Results of jobs that finished while no minion ran.
    pub fn orphaned_results(cachedir: &Path) -> PathBuf {
        cachedir.join("left")
    }

    /// Returns that no master has acknowledged.
    pub fn unsent_returns(cachedir: &Path) -> PathBuf {
        cachedir.join("returns")
    }

    /// Returns of earlier jobs (`cache_jobs`).
    pub fn minion_jobs(cachedir: &Path) -> PathBuf {
        cachedir.join("minion_jobs")
    }

    /// Queues of waiting jobs.
    pub fn queues(cachedir: &Path) -> PathBuf {
        cachedir.join("queues")
    }

    /// Copies of the master's files, by environment.
    pub fn files(cachedir: &Path) -> PathBuf {
        cachedir.join("files")
    }

    /// Copies of local files.
    pub fn local_files(cachedir: &Path) -> PathBuf {
        cachedir.join("localfiles")
    }

    /// Copies of files from other URLs, by environment.
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

    /// Mount options (`mount.write_cache`).
    pub fn mounts(cachedir: &Path) -> PathBuf {
        cachedir.join("mounts")
    }

    /// Where states are paused, one file per job.
    pub fn state_pause(cachedir: &Path) -> PathBuf {
        cachedir.join("state_pause")
    }

    /// The requested state run (`state.request`).
    pub fn state_request(cachedir: &Path) -> PathBuf {
        cachedir.join("req_state.p")
    }

    /// Exists while modules need to be reloaded.
    pub fn module_refresh(cachedir: &Path) -> PathBuf {
        cachedir.join("module_refresh")
    }

    /// Exists while package lists need to be refreshed.
    pub fn pkg_refresh(cachedir: &Path) -> PathBuf {
        cachedir.join("pkg_refresh")
    }

    /// Data of a syndic about its upper masters, one directory each.
    pub fn syndic(cachedir: &Path) -> PathBuf {
        cachedir.join("syndic")
    }
}
