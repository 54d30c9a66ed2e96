//! Paths of every file and socket of a master: below `sock_dir`, `pki_dir` and `cachedir`.

use crate::MasterConfig;
use std::path::{Path, PathBuf};

/// The socket on which a master's event bus publishes.
pub fn event_pub(sock_dir: &Path) -> PathBuf {
    sock_dir.join("master_event_pub.ipc")
}

/// The key file of an account (`salt/daemons/masterapi.py access_keys`).
pub fn client_key(cachedir: &Path, user: &str) -> PathBuf {
    cachedir.join(format!(".{user}_key"))
}

/// Where the digest of such a key is, for a master that cannot read the file.
pub fn key_digest(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".sha256");
    name.into()
}

/// The registry of the ARENA gateway, an SQLite database.
pub fn arena_registry(cachedir: &Path) -> PathBuf {
    cachedir.join("gateways/arena/registry.sqlite3")
}

/// Sockets, and files that exist only while a master runs.
impl MasterConfig {
    /// Socket on which the event bus publishes.
    pub fn event_pub(&self) -> PathBuf {
        event_pub(&self.sock_dir)
    }

    /// Socket on which the event bus accepts events.
    pub fn event_pull(&self) -> PathBuf {
        self.sock_dir.join("master_event_pull.ipc")
    }

    /// Socket on which the publisher accepts jobs.
    pub fn publish_pull(&self) -> PathBuf {
        self.sock_dir.join("publish_pull.ipc")
    }

    /// Socket on which the role `cluster` hears of jobs that are published.
    pub fn cluster_pull(&self) -> PathBuf {
        self.sock_dir.join("cluster.ipc")
    }

    /// Socket on which the request server passes requests to workers.
    pub fn workers(&self) -> PathBuf {
        self.sock_dir.join("workers.ipc")
    }

    /// Socket on which the metrics role answers `fleet.status`.
    pub fn master_status(&self) -> PathBuf {
        self.sock_dir.join("master_status.ipc")
    }

    /// Who is connected through load balancers (`proxy_protocol`).
    pub fn relayed(&self) -> PathBuf {
        self.sock_dir.join(".relayed")
    }

    /// Lock file of the running master.
    pub fn instance_lock(&self) -> PathBuf {
        self.sock_dir.join(".halite-master.lock")
    }

    /// Slots of runners that were started, including those that wait.
    pub fn started_runners(&self) -> PathBuf {
        self.sock_dir.join(".runner-tickets")
    }

    /// Slots of runners that are executing.
    pub fn running_runners(&self) -> PathBuf {
        self.sock_dir.join(".runners")
    }

    /// Recent failed logins.
    pub fn failed_logins(&self) -> PathBuf {
        self.sock_dir.join(".failed-logins")
    }
}

/// Key files.
impl MasterConfig {
    /// The private key that minions know the master by: its own, or that of its cluster.
    pub fn master_key(&self) -> PathBuf {
        let own = || self.pki_dir.join("cluster.pem");
        match (self.cluster_dir_of_key(), self.cluster().is_some()) {
            (Some(dir), _) => dir.join("cluster.pem"),
            // What a stock cluster without `cluster_pki_dir` has left.
            (None, true) if own().exists() => own(),
            _ => self.own_key(),
        }
    }

    /// The private key of this master alone.
    pub fn own_key(&self) -> PathBuf {
        self.pki_dir.join("master.pem")
    }

    /// `cluster_pki_dir`, of a master in a cluster.
    pub fn cluster_dir_of_key(&self) -> Option<&Path> {
        let dir = self.cluster_pki_dir.as_deref();
        dir.filter(|dir| !dir.as_os_str().is_empty() && self.cluster().is_some())
    }

    /// The master's static key for the handshake between halite peers.
    pub fn noise_key(&self) -> PathBuf {
        self.pki_dir.join("master.noise")
    }

    /// The public key that belongs to [`MasterConfig::master_key`].
    pub fn master_pub(&self) -> PathBuf {
        self.master_key().with_extension("pub")
    }

    /// The private key that signs the public one (`master_sign_key_name`).
    pub fn sign_key(&self) -> PathBuf {
        self.pki_dir
            .join(format!("{}.pem", self.master_sign_key_name))
    }

    /// The signature of the public key (`master_pubkey_signature`).
    pub fn pubkey_signature(&self) -> PathBuf {
        self.pki_dir.join(self.signature_name())
    }

    /// The directory with minions' keys of one state: `minions`, `minions_pre`, ...
    pub fn minion_keys(&self, state: &str) -> PathBuf {
        self.pki_dir.join(state)
    }

    /// The key file of an account.
    pub fn client_key(&self, user: &str) -> PathBuf {
        client_key(&self.cachedir, user)
    }

    /// The key file of the REST service.
    pub fn api_key(&self) -> PathBuf {
        self.cachedir.join("api_key")
    }
}

/// Stored data of the master.
impl MasterConfig {
    /// Stock's job cache (`salt/returners/local_cache.py`).
    pub fn stock_job_cache(&self) -> PathBuf {
        self.cachedir.join("jobs")
    }

    /// The job log, halite's job cache.
    pub fn job_log(&self) -> PathBuf {
        self.cachedir.join("joblog")
    }

    /// Authentication codes of the latest requests, so that none counts twice.
    pub fn replays(&self) -> PathBuf {
        self.cachedir.join(".replays")
    }

    /// The jids of batches that are not over, for stock's `salt-run batch.list_active`.
    pub fn active_batches(&self) -> PathBuf {
        self.cachedir.join("batch_active.p")
    }

    /// Tokens of externally authenticated users.
    pub fn tokens(&self) -> PathBuf {
        self.cachedir.join("tokens")
    }

    /// Grains and pillar of minions in the layout of Salt 3006 and 3007, and files that minions pushed.
    pub fn minions_cache(&self) -> PathBuf {
        self.cachedir.join("minions")
    }

    /// Grains of minions in the layout of Salt 3008.
    pub fn grains_cache(&self) -> PathBuf {
        self.cachedir.join("grains")
    }

    /// Pillar of minions in the layout of Salt 3008.
    pub fn pillar_bank(&self) -> PathBuf {
        self.cachedir.join("pillar")
    }

    /// Runners that are executing, one file each.
    pub fn runner_jobs(&self) -> PathBuf {
        self.cachedir.join("proc")
    }

    /// Which minion started a job, one file per job.
    pub fn job_owners(&self) -> PathBuf {
        self.cachedir.join("publish_auth")
    }

    /// The ids of lower masters' syndics, one file each.
    pub fn syndics(&self) -> PathBuf {
        self.cachedir.join("syndics")
    }

    /// Exists when a new session key for publications was requested.
    pub fn rotation_request(&self) -> PathBuf {
        self.cachedir.join(".dfn")
    }

    /// Hashes of served files.
    pub fn file_hashes(&self) -> PathBuf {
        self.cachedir.join("file_hashes")
    }

    /// Copies of files rendered on this host.
    pub fn file_copies(&self) -> PathBuf {
        self.cachedir.join("files")
    }

    /// Mirrors of the file server's repositories.
    pub fn gitfs(&self) -> PathBuf {
        self.cachedir.join("gitfs")
    }

    /// Progress of the returner role: what it has already copied.
    pub fn returner_state(&self) -> PathBuf {
        self.cachedir.join("returner")
    }

    /// Data of a gateway about its agents.
    pub fn gateway(&self, name: &str) -> PathBuf {
        self.cachedir.join("gateways").join(name)
    }

    /// When minions were connected last.
    pub fn last_seen(&self) -> PathBuf {
        self.cachedir.join("last_seen")
    }

    /// What this master remembers of its cluster.
    pub fn cluster_dir(&self) -> PathBuf {
        self.cachedir.join("cluster")
    }

    /// How often the accepted key of a minion was taken away in a cluster, one file for each minion where it was.
    pub fn cluster_epochs(&self) -> PathBuf {
        self.cluster_dir().join("epochs")
    }

    /// Where orchestrations are paused, one file per job.
    pub fn state_pause(&self) -> PathBuf {
        self.cachedir.join("state_pause")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::Map;

    /// Stock Salt clients look for these names.
    #[test]
    fn stock_names() {
        let mut config = MasterConfig::from_map(Map::new(), Path::new("/etc/salt")).unwrap();
        config.sock_dir = "/run/m".into();
        config.pki_dir = "/pki".into();
        config.cachedir = "/c".into();
        assert_eq!(config.event_pub(), Path::new("/run/m/master_event_pub.ipc"));
        assert_eq!(
            config.event_pull(),
            Path::new("/run/m/master_event_pull.ipc")
        );
        assert_eq!(config.publish_pull(), Path::new("/run/m/publish_pull.ipc"));
        assert_eq!(config.workers(), Path::new("/run/m/workers.ipc"));
        assert_eq!(config.master_key(), Path::new("/pki/master.pem"));
        assert_eq!(config.sign_key(), Path::new("/pki/master_sign.pem"));
        assert_eq!(
            config.minion_keys("minions_pre"),
            Path::new("/pki/minions_pre")
        );
        assert_eq!(config.client_key("root"), Path::new("/c/.root_key"));
        assert_eq!(config.stock_job_cache(), Path::new("/c/jobs"));
    }
}
