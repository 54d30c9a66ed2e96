//! The stores of one master, as files below its `cachedir` and `pki_dir`.
//!
//! Any number of processes can use them at once. Where stock tools read the same data, the layout is that of stock
//! (reference `salt-local.md` 5).

mod banks;
mod cluster_sessions;
mod connected;
mod gateways;
pub mod jobs;
mod keys;
mod mine;
mod minions;
mod records;
mod sessions;
mod tokens;
pub mod transfer;

pub use banks::Bank;
pub use cluster_sessions::{ClusterSessions, epoch};
pub use connected::{LocalElsewhere, LocalLastSeen};
pub use gateways::LocalGateways;
pub use jobs::{BatchIndex, JobLog, StockLayout};
pub use keys::LocalKeys;
pub use mine::LocalMines;
pub use minions::{Layout, LocalMinions};
pub use records::{LocalOwners, LocalRotation, LocalSyndics};
pub use sessions::LocalSessions;
pub use tokens::LocalTokens;

use crate::keys::Version;
use crate::sessions::SessionStore;
use crate::{Stores, hash_type};
use halite_config::{ClusterConfig, JobCacheCompat, MasterConfig, SaltSeries};
use halite_crypto::{ClusterSecret, SHORTEST_SECRET};
use halite_sys::safe_open::read_regular;
use halite_wire::{Map, Value, msgpack};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// All stores of the master that `config` describes. Nothing is read or created yet.
pub(crate) fn open(config: &MasterConfig) -> Stores {
    let lifetime = config.publish_session;
    let sessions: Arc<dyn SessionStore> = match config.cluster() {
        Some(cluster) => {
            let secret = cluster_secret(&cluster);
            let keys = key_files(config);
            Arc::new(ClusterSessions::new(
                secret,
                keys,
                config.cluster_epochs(),
                lifetime,
            ))
        }
        None => Arc::new(LocalSessions::new(
            &config.cachedir,
            Duration::from_secs(lifetime),
        )),
    };
    Stores {
        keys: Arc::new(key_files(config)),
        sessions,
        jobs: Arc::new(job_log(config)),
        minions: Arc::new(LocalMinions::new(&config.cachedir, layout(config))),
        mine: Arc::new(LocalMines::new(&config.cachedir, layout(config))),
        tokens: Arc::new(LocalTokens::new(&config.cachedir, hash_type(config))),
        owners: Arc::new(LocalOwners::new(config)),
        syndics: Arc::new(LocalSyndics::new(config)),
        gateways: Arc::new(LocalGateways::new(&config.cachedir)),
        rotation: Arc::new(LocalRotation::new(config)),
        last_seen: Arc::new(LocalLastSeen::new(config.last_seen())),
        elsewhere: Arc::new(LocalElsewhere::new(&config.cluster_dir())),
    }
}

/// The secret of a cluster, or what is wrong with it.
///
/// # Errors
/// Its file cannot be read, or it is too short.
pub fn cluster_secret(cluster: &ClusterConfig) -> Result<ClusterSecret, String> {
    let text = cluster.secret().map_err(|e| format!("cluster_secret: {e}"));
    let text = Zeroizing::new(text?);
    ClusterSecret::new(&text, &cluster.id)
        .map_err(|_| format!("cluster_secret has fewer than {SHORTEST_SECRET} characters"))
}

/// The key files of a configuration.
pub fn key_files(config: &MasterConfig) -> LocalKeys {
    LocalKeys::new(&config.pki_dir)
}

/// The job log of a configuration.
pub fn job_log(config: &MasterConfig) -> JobLog {
    let legacy = stock_jobs(config);
    let stock = (config.job_cache_compat != JobCacheCompat::None).then(|| legacy.clone());
    JobLog::new(&config.cachedir, config.keep_jobs_seconds, stock).with_legacy(legacy)
}

/// The job cache of a stock master, including returns, at the path of a configuration.
pub fn stock_jobs(config: &MasterConfig) -> StockLayout {
    StockLayout::new(&config.cachedir, hash_type(config))
}

/// The batches of a master that are not over.
pub fn active_batches(config: &MasterConfig) -> BatchIndex {
    BatchIndex::new(config.active_batches())
}

/// How the stock tools of `salt_series` lay out grains, pillar and mine.
pub fn layout(config: &MasterConfig) -> Layout {
    match config.salt_series {
        SaltSeries::S3006 | SaltSeries::S3007 => Layout::Combined,
        SaltSeries::S3008 => Layout::Split,
    }
}

/// Modification time and inode: they change when a file is replaced or written.
fn version(meta: &Metadata) -> Version {
    (meta.mtime(), meta.mtime_nsec(), meta.ino())
}

/// Largest file of a job, or of a minion's data, in bytes.
const LARGEST: u64 = 1 << 30;

/// The document in a regular file; `None` if there is none.
fn read_value(path: &Path) -> Option<Value> {
    msgpack::decode(&read_regular(path, LARGEST).ok()?).ok()
}

/// [`read_value`], if it is a map.
fn read_map(path: &Path) -> Option<Map> {
    read_value(path)?.into_map()
}

/// `None` for `NotFound`.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
