//! Files of the master, fetched with the identity of a minion on the same host.

use super::limit::{read, too_large};
use halite_channel::channel::Channel;
use halite_channel::interrupt::Stop;
use halite_channel::link::Link;
use halite_channel::session::{Session, lock};
use halite_config::{MinionConfig, load_minion};
use halite_modules::execution::Context;
use halite_modules::files::{FileClient, GetFile};
use halite_modules::grains::all_grains;
use halite_modules::masters::resolve_master_func;
use halite_transport::sockets;
use halite_wire::{Map, Value};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The index of the size in Python's `os.stat` result.
const SIZE: usize = 6;

/// The master's file server. It signs in when the first file is requested; files are fetched one after the other.
pub(in crate::runtime) struct Salt {
    config_dir: PathBuf,
    cachedir: PathBuf,
    saltenv: String,
    stop: Stop,
    patience: Duration,
    client: Mutex<Option<FileClient>>,
}

impl Salt {
    /// Uses the identity of the minion with this configuration directory; copies are stored in `cachedir`. `stop` ends
    /// waits, and a fetch fails if the master is silent for `patience`.
    pub fn new(
        config_dir: PathBuf,
        cachedir: PathBuf,
        saltenv: String,
        stop: Stop,
        patience: Duration,
    ) -> Salt {
        Salt {
            config_dir,
            cachedir,
            saltenv,
            stop,
            patience,
            client: Mutex::new(None),
        }
    }

    /// Returns the content of a file of at most `most` bytes.
    ///
    /// # Errors
    /// The reason why it cannot be fetched, as readable text.
    pub(super) fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, String> {
        let mut client = lock(&self.client);
        let open = match client.take() {
            Some(open) => open,
            None => self.sign_in()?,
        };
        let got = self.get(&open, url, most);
        // After any error it signs in again.
        if got.is_ok() {
            *client = Some(open);
        }
        got
    }

    fn get(&self, client: &FileClient, url: &str, most: usize) -> Result<Vec<u8>, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{url}: {e}");
        // Ask for the size first, so that nothing large is transferred at all.
        let (hash, stat) = client
            .hash_and_stat(url, &self.saltenv)
            .map_err(|e| failed(&e))?;
        if hash.is_none() {
            return Err(format!("file not found: {url}"));
        }
        let size = stat.as_array().and_then(|numbers| numbers.get(SIZE));
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        if size
            .and_then(Value::as_int)
            .is_some_and(|size| size > limit)
        {
            return Err(failed(&too_large(most)));
        }
        let path = client
            .get_file(&GetFile::new(url, &self.saltenv))
            .map_err(|e| failed(&e))?;
        let path = path.ok_or_else(|| format!("file not found: {url}"))?;
        let file = File::open(&path).map_err(|e| failed(&e))?;
        read(file, most).map_err(|e| failed(&e))
    }

    fn sign_in(&self) -> Result<FileClient, String> {
        let mut config = load_minion(&self.config_dir).map_err(|e| e.to_string())?;
        hasten(&mut config, self.patience);
        let mut grains = all_grains(&config);
        resolve_master_func(&mut config, &mut grains).map_err(|e| e.to_string())?;
        let (id, opts) = (config.id.clone(), config.as_map());
        let master = match config.file_client.as_str() {
            "local" => Link::default(),
            _ => self.link(config, &grains)?,
        };
        let ctx = Context {
            id,
            grains: Arc::new(grains),
            opts: std::sync::Arc::new(opts),
            cachedir: self.cachedir.clone(),
            master,
            ..Context::default()
        };
        FileClient::new(&ctx).map_err(|e| e.to_string())
    }

    fn link(&self, config: MinionConfig, grains: &Map) -> Result<Link, String> {
        let context = sockets::Context::new();
        let session = Session::new(Arc::new(config), grains, &context, true);
        let session = Arc::new(session.map_err(|e| e.to_string())?);
        let known = session.renew(0, &self.stop).map_err(|e| e.to_string())?;
        if known.is_none() {
            return Err("the runtime is shutting down".to_owned());
        }
        let channel = Channel::new(&session, self.stop.clone()).map_err(|e| e.to_string())?;
        Ok(Link::over(channel))
    }
}

/// Shortens a minion's timeouts so that a silent master is given up within `patience`: half of it for the sign-in,
/// half for a request. A minion waits for minutes.
fn hasten(config: &mut MinionConfig, patience: Duration) {
    let half = (patience.as_secs() / 2).max(1);
    config.auth_timeout = config.auth_timeout.min(half);
    config.auth_tries = 1;
    config.request_channel_timeout = config.request_channel_timeout.min(half);
    config.request_channel_tries = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_master_is_given_up_in_time() {
        // It accepts connections but never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "master: 127.0.0.1\nmaster_port: {port}\nid: m\nroot_dir: {}\n",
            dir.path().display()
        );
        std::fs::write(dir.path().join("minion"), text).unwrap();
        let mut config = load_minion(dir.path()).unwrap();
        let before = config.auth_timeout;
        hasten(&mut config, Duration::from_secs(60));
        assert_eq!((config.auth_timeout, config.auth_tries), (before, 1));
        assert_eq!(
            (config.request_channel_timeout, config.request_channel_tries),
            (30, 1)
        );
        let salt = Salt::new(
            dir.path().to_owned(),
            dir.path().join("cache"),
            "base".to_owned(),
            Stop::never().unwrap(),
            Duration::from_secs(2),
        );
        let why = salt.fetch("salt://x.wasm", 100).unwrap_err();
        assert!(!why.is_empty());
    }
}
