//! Configuration: every option is defined once, with its name, type, default and one line of help.
//!
//! [`load_master`] and [`load_minion`] read a configuration directory as Salt does (`salt/config/__init__.py`), into a
//! struct with one public field per option. Unknown options end up in `extra`.

mod api;
mod carry;
mod cluster;
mod derived;
mod doc;
mod error;
mod federation;
mod file;
mod finish;
pub mod gateways;
pub mod glob;
mod id;
mod inspect;
mod installed;
mod kinds;
mod load;
mod logs;
mod master;
mod minion;
pub mod paths;
mod pools;
mod proxies;
mod returners;
mod runtime;
mod source;
mod subset;
mod table;
mod tls;
mod transport;
mod value;

#[cfg(test)]
mod tests;

pub use api::{ApiConfig, ApiTls};
pub use carry::{MigratedFile, migrate_file};
pub use cluster::{Acknowledge, ClusterConfig};
pub use doc::{default_text, option_groups, options_markdown, sample_config};
pub use error::ConfigError;
pub use federation::{FEDERATION_OPTIONS, FederationConfig};
pub use finish::Standing;
pub use gateways::{
    ArenaGateway, Broker, CollectiveGateway, Plugin, SysinspectGateway, THROUGH_BROKERS,
};
pub use inspect::{Given, Inspection, inspect};
pub use kinds::{
    BusFraming, Entries, ExtPillars, Items, JobCacheCompat, LogFormat, Networks, PeerRules,
    Reactions, Roots, SaltSeries, TokenOverride, Transports, kept_key,
};
pub use logs::log_options_of;
pub use master::{MASTER_OPTIONS, MasterConfig};
pub use minion::{MINION_OPTIONS, MinionConfig};
pub use paths::{Flavour, MAX_SOCKET_PATH, default_dir};
pub use pools::WorkerPool;
pub use returners::{Returner, Settings};
pub use runtime::{ModuleLimits, OfferedRuntime, RUNTIME_OPTIONS, RuntimeConfig};
pub use subset::{FileServerOptions, JinjaOptions, RenderOptions};
pub use table::{OptionGroup, OptionInfo, Role};
pub use tls::Ssl;
pub use transport::Ports;
pub use value::{Converted, OptionValue};

use std::path::Path;

/// Reads `dir/master` and what it includes; the name of the directory decides the [`Flavour`].
///
/// # Errors
/// See [`ConfigError`]. A missing file is not an error: the defaults apply, and `warnings` says so.
pub fn load_master(dir: &Path) -> Result<MasterConfig, ConfigError> {
    MasterConfig::load(dir, Flavour::of(dir))
}

/// Reads `dir/minion` and what it includes; the name of the directory decides the [`Flavour`].
///
/// # Errors
/// See [`ConfigError`]. A missing file is not an error: the defaults apply, and `warnings` says so.
pub fn load_minion(dir: &Path) -> Result<MinionConfig, ConfigError> {
    MinionConfig::load(dir, Flavour::of(dir))
}

/// Reads `dir/federation-broker` and what it includes.
///
/// # Errors
/// See [`ConfigError`]. A missing file is not an error: `warnings` says so, and [`FederationConfig::incomplete`] says
/// what to set.
pub fn load_federation_broker(dir: &Path) -> Result<FederationConfig, ConfigError> {
    FederationConfig::load(dir, Flavour::of(dir))
}

/// Reads `dir/runtime` and what it includes.
///
/// # Errors
/// See [`ConfigError`]. A missing file is not an error: `warnings` says so, and [`RuntimeConfig::incomplete`] says what
/// to set.
pub fn load_runtime(dir: &Path) -> Result<RuntimeConfig, ConfigError> {
    RuntimeConfig::load(dir, Flavour::of(dir))
}
