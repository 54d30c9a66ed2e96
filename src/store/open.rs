//! Opening the stores that a master's configuration names.

use super::jobs::{StockLayout, joblog::JobLog};
use super::keys::KeyStore;
use super::mine::MineStore;
use super::minions::{Layout, MinionCache};
use super::sessions::SessionStore;
use halite_config::{JobCacheCompat, MasterConfig, SaltSeries};
use halite_crypto::HashType;
use std::time::Duration;

/// The key store that a configuration names.
pub fn key_store(config: &MasterConfig) -> KeyStore {
    KeyStore::new(&config.pki_dir)
}

/// The session keys that a configuration names.
pub fn session_store(config: &MasterConfig) -> SessionStore {
    SessionStore::new(
        &config.cachedir,
        Duration::from_secs(config.publish_session),
    )
}

/// The hash of file names and fingerprints.
pub fn hash_type(config: &MasterConfig) -> HashType {
    config.hash_type.parse().unwrap_or(HashType::Sha256)
}

/// The job cache that a configuration names.
pub fn job_store(config: &MasterConfig) -> JobLog {
    let returns = config.job_cache_compat == JobCacheCompat::Full;
    let stock = (config.job_cache_compat != JobCacheCompat::None)
        .then(|| StockLayout::new(&config.cachedir, hash_type(config), returns));
    let legacy = StockLayout::new(&config.cachedir, hash_type(config), false);
    JobLog::new(&config.cachedir, config.keep_jobs_seconds, stock).with_legacy(legacy)
}

/// The files of a stock master's job cache, returns as well, in the place that a configuration names.
pub fn stock_jobs(config: &MasterConfig) -> StockLayout {
    StockLayout::new(&config.cachedir, hash_type(config), true)
}

/// The minion data cache that a configuration names.
pub fn minion_cache(config: &MasterConfig) -> MinionCache {
    MinionCache::new(&config.cachedir, layout(config))
}

/// The mines that a configuration names.
pub fn mine_store(config: &MasterConfig) -> MineStore {
    MineStore::new(&config.cachedir, layout(config))
}

/// How the stock tools of `salt_series` lay grains, pillar and mine out.
pub fn layout(config: &MasterConfig) -> Layout {
    match config.salt_series {
        SaltSeries::S3006 | SaltSeries::S3007 => Layout::Combined,
        SaltSeries::S3008 => Layout::Split,
    }
}
