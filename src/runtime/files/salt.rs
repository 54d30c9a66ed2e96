//! Files of the master, with the identity of a minion on the same host.

use super::fetch::{read, too_large};
use crate::config::load_minion;
use crate::minion::all_grains;
use crate::minion::ask::Stop;
use crate::minion::channel::Channel;
use crate::minion::files::{FileClient, Get};
use crate::minion::link::Link;
use crate::minion::masters::settle;
use crate::minion::modules::Context;
use crate::minion::session::{Session, lock};
use crate::wire::{Map, Value};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The place of the size among the numbers of Python's `os.stat`.
const SIZE: usize = 6;

/// The file server of the master. It is signed in to when the first file is asked for; one file after the other.
pub(in crate::runtime) struct Salt {
    config_dir: PathBuf,
    cachedir: PathBuf,
    saltenv: String,
    stop: Stop,
    client: Mutex<Option<FileClient>>,
}

impl Salt {
    /// Asks as the minion whose configuration directory this is; copies are kept in `cachedir`. `stop` ends waits.
    pub fn new(config_dir: PathBuf, cachedir: PathBuf, saltenv: String, stop: Stop) -> Salt {
        Salt {
            config_dir,
            cachedir,
            saltenv,
            stop,
            client: Mutex::new(None),
        }
    }

    /// The content of a file of at most `most` octets.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, String> {
        let mut client = lock(&self.client);
        let open = match client.take() {
            Some(open) => open,
            None => self.sign_in()?,
        };
        let got = self.get(&open, url, most);
        // After trouble of any sort it signs in anew.
        if got.is_ok() {
            *client = Some(open);
        }
        got
    }

    fn get(&self, client: &FileClient, url: &str, most: usize) -> Result<Vec<u8>, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{url}: {e}");
        // Asked before, so that nothing large comes here at all.
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
            .get_file(&Get::new(url, &self.saltenv))
            .map_err(|e| failed(&e))?;
        let path = path.ok_or_else(|| format!("file not found: {url}"))?;
        let file = File::open(&path).map_err(|e| failed(&e))?;
        read(file, most).map_err(|e| failed(&e))
    }

    fn sign_in(&self) -> Result<FileClient, String> {
        let mut config = load_minion(&self.config_dir).map_err(|e| e.to_string())?;
        let mut grains = all_grains(&config);
        settle(&mut config, &mut grains).map_err(|e| e.to_string())?;
        let (id, opts) = (config.id.clone(), config.as_map());
        let master = match config.file_client.as_str() {
            "local" => Link::default(),
            _ => self.link(config, &grains)?,
        };
        let ctx = Context {
            id,
            grains: Arc::new(grains),
            opts,
            cachedir: self.cachedir.clone(),
            master,
            ..Context::default()
        };
        FileClient::new(&ctx).map_err(|e| e.to_string())
    }

    fn link(&self, config: crate::config::MinionConfig, grains: &Map) -> Result<Link, String> {
        let context = zmq::Context::new();
        let session = Session::new(Arc::new(config), grains, &context, true);
        let session = Arc::new(session.map_err(|e| e.to_string())?);
        let known = session.renew(0, &self.stop).map_err(|e| e.to_string())?;
        if known.is_none() {
            return Err("the runtime ends".to_owned());
        }
        let channel = Channel::new(&session, self.stop.clone()).map_err(|e| e.to_string())?;
        Ok(Link::over(channel))
    }
}
