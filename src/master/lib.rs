//! The master: supervisor and role processes.
//!
//! `halite-master` reads its configuration and becomes the supervisor ([`supervise`]), from which all other
//! roles are forked ([`roles::TOPOLOGY`]).

pub mod access;
pub mod admission;
pub mod args;
mod auth_limit;
mod capacity;
pub mod check;
pub mod commands;
pub mod dispatch;
mod eventpublisher;
pub mod events;
mod fileserver_update;
pub mod functions;
pub mod job_news;
pub mod latency;
mod maintenance;
pub mod presence_events;
mod privileges;
mod publisher;
mod registration;
mod rekey_notice;
mod reqserver;
pub mod returns;
pub mod roles;
mod rotation;
pub mod score;
mod supervisor;
mod worker;

pub use reqserver::EXIT_BIND;
pub use supervisor::{CONFIG_DIR, LOG_LEVEL, chown_logs, hand_over, supervise};

use halite_config::MasterConfig;
use halite_crypto::noise::StaticKey;
use halite_crypto::{IdentityKey, IdentityPublic, KeyType, PrivateKey, clean_key, finger};
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_sys::daemon::{read_or_make, write_atomic, write_new};
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use roles::Roles;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The master's key pair, created by the supervisor (`master.pem`; a symlink in a 3008 directory).
pub fn master_key(config: &MasterConfig) -> Result<IdentityKey, ExitError> {
    read_key(&config.master_key())
}

/// As [`master_key`], for `user`, whose protocol knows RSA keys alone.
///
/// # Errors
/// As [`read_key`], or it is of another type.
pub fn rsa_master_key(config: &MasterConfig, user: &str) -> Result<PrivateKey, ExitError> {
    let key = master_key(config)?;
    key.rsa().cloned().ok_or_else(|| {
        let path = config.master_key();
        let why = format!(
            "{user} needs an RSA key of the master, and {} is {} (key_type)",
            path.display(),
            key.kind()
        );
        ExitError::new(64, why)
    })
}

/// Reads a private key.
///
/// # Errors
/// The file cannot be read, or is no key.
pub fn read_key(path: &Path) -> Result<IdentityKey, ExitError> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|e| ExitError::new(1, format!("{}: {e}", path.display())))?;
    IdentityKey::from_pem(&text).map_err(|e| ExitError::new(1, format!("{}: {e}", path.display())))
}

/// Reads a private key, or creates a pair of this kind if there is none, an RSA key of `keysize` bits.
pub(crate) fn load_or_create_key(
    path: &Path,
    kind: KeyType,
    config: &MasterConfig,
) -> Result<IdentityKey, ExitError> {
    if !path.exists() {
        let key = IdentityKey::generate(kind, config.keysize as usize)
            .map_err(|e| ExitError::new(1, e.to_string()))?;
        match write_new(path, key.to_pem().as_bytes(), 0o400) {
            // Another process was faster.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            other => other.map_err(|e| ExitError::io("key", path, &e))?,
        }
    }
    let key = read_key(path)?;
    store_public(path, &key)?;
    Ok(key)
}

/// Stores the public key beside the private one, unless it is there.
fn store_public(path: &Path, key: &IdentityKey) -> Result<(), ExitError> {
    let public = clean_key(&key.public().to_pem());
    let path = path.with_extension("pub");
    match std::fs::read_to_string(&path) {
        Ok(text) if clean_key(&text) == public => return Ok(()),
        Ok(_) => log::warn!(
            "{} did not belong to the private key beside it; it is written anew",
            path.display()
        ),
        Err(_) => {}
    }
    write_atomic(&path, public.as_bytes(), 0o644).map_err(|e| ExitError::io("key", &path, &e))
}

/// Stores a private key, and the public one beside it.
///
/// # Errors
/// A file cannot be written.
pub fn store_pair(path: &Path, key: &IdentityKey) -> Result<(), ExitError> {
    write_atomic(path, key.to_pem().as_bytes(), 0o400)
        .map_err(|e| ExitError::io("key", path, &e))?;
    store_public(path, key)
}

/// Creates the master's own keys where they are missing, and checks the key pair.
pub(crate) fn create_own_keys(config: &MasterConfig) -> Result<(), ExitError> {
    let (key, own) = (config.master_key(), config.own_key());
    if key != own && !key.exists() && own.exists() {
        // The first master of a cluster: minions that know it go on.
        store_pair(&key, &read_key(&own)?)?;
    }
    let is_new = !key.exists();
    let public = load_or_create_key(&key, config.key_type, config)?.public();
    if is_new {
        let accepted = Stores::open(config).keys.list(KeyState::Accepted);
        tell_of_new_key(config, &public, accepted.map_or(0, |ids| ids.len()));
    }
    noise_key(config).map(drop)
}

/// Warns if minions are accepted that know another key.
fn tell_of_new_key(config: &MasterConfig, public: &IdentityPublic, accepted: usize) {
    if accepted > 0 {
        let hash = config.hash_type.parse().unwrap_or_default();
        log::warn!(
            "a new key was made in {}, with the fingerprint {}. {accepted} accepted minions know another one and will refuse this \
             master: if that is not wanted, stop it and put the old key back",
            config.master_key().display(),
            finger(&public.to_pem(), hash)
        );
    }
}

/// The master's static key for the handshake of halite's minions. It only has to be certified, which is done at each start, so
/// that a missing or damaged one is made anew.
pub(crate) fn noise_key(config: &MasterConfig) -> Result<StaticKey, ExitError> {
    let path = config.noise_key();
    let parse = |text: &str| StaticKey::from_text(text).ok();
    read_or_make(&path, 0o400, parse, || StaticKey::generate().to_text())
        .map_err(|e| ExitError::io("key", &path, &e))
}

/// Runs one role other than the supervisor, by the name in its environment.
pub fn run_role(
    role: &str,
    config: &Arc<MasterConfig>,
    lent: functions::FunctionHooks,
) -> Result<(), ExitError> {
    let stop = StopFlag::install()?;
    let inherited = Roles::inherited();
    match role {
        "event" => eventpublisher::run(config, &inherited, &stop),
        "publish" => publisher::run(config, &inherited, &stop),
        "maintenance" => maintenance::run(config, &inherited, &stop),
        "request" => reqserver::run(config, &inherited, &stop),
        worker if worker.starts_with("MWorker-") => {
            worker::run(config.clone(), worker, lent, &inherited, &stop)
        }
        other => Err(ExitError::new(64, format!("unknown role {other:?}"))),
    }
}
