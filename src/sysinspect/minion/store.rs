//! The minion's files in `pki_dir/sysinspect`: its key, the master's key, its id, pushed traits.

use crate::wire::MachineId;
use halite_crypto::{PrivateKey, PublicKey, random_uuid};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::exit::ExitError;
use halite_wire::Map;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Size limit of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The directory.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The directory's path.
    pub fn path(pki_dir: &Path) -> PathBuf {
        halite_config::paths::minion::sysinspect_keys(pki_dir)
    }

    /// Opens the directory; creates it if needed.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open(pki_dir: &Path) -> Result<Store, ExitError> {
        let dir = Store::path(pki_dir);
        make_dir(&dir, 0o700).map_err(|e| ExitError::io("pki_dir", &dir, &e))?;
        Ok(Store { dir })
    }

    /// The id of this machine: the configured one, else the system's, else one generated once.
    ///
    /// # Errors
    /// The id is invalid or cannot be stored.
    pub fn id(&self, configured: &str, system: &Path) -> Result<MachineId, ExitError> {
        let stored = self.dir.join("id");
        let (text, from) = if !configured.is_empty() {
            (configured.to_owned(), "the option sysinspect_id".to_owned())
        } else if let Some(text) = read(system)?.filter(|t| !t.trim().is_empty()) {
            (text, system.display().to_string())
        } else if let Some(text) = read(&stored)? {
            (text, stored.display().to_string())
        } else {
            let text = random_uuid().replace('-', "");
            write(&stored, &text, 0o644)?;
            (text, stored.display().to_string())
        };
        let id = text.trim().parse::<MachineId>();
        id.map_err(|e| ExitError::new(1, format!("{from}: {e}")))
    }

    /// The minion's key; generated if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or does not contain a key.
    pub fn key(&self, bits: usize) -> Result<PrivateKey, ExitError> {
        let path = self.dir.join("minion.pem");
        let wrong = |e| ExitError::new(1, format!("{}: {e}", path.display()));
        if let Some(text) = read(&path)?.map(Zeroizing::new) {
            return PrivateKey::from_pem(&text).map_err(wrong);
        }
        let key = PrivateKey::generate(bits).map_err(wrong)?;
        write(&path, &key.to_pem(), 0o400)?;
        Ok(key)
    }

    /// The file with the master's key.
    pub fn master_file(&self) -> PathBuf {
        self.dir.join("master.pub")
    }

    /// The master's key, if one was accepted.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain a key: going on would trust anybody.
    pub fn master(&self) -> Result<Option<PublicKey>, ExitError> {
        let path = self.master_file();
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let key = PublicKey::from_pem(&text);
        key.map(Some)
            .map_err(|e| ExitError::new(1, format!("{}: {e}", path.display())))
    }

    /// Stores the master's key.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn pin(&self, key: &PublicKey) -> Result<(), ExitError> {
        write(&self.master_file(), &key.to_pkcs1_pem(), 0o644)
    }

    /// Removes the master's key and pushed traits: the registration is over.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn forget(&self) -> Result<(), ExitError> {
        for path in [self.master_file(), self.traits_file()] {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(ExitError::io("file", &path, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn traits_file(&self) -> PathBuf {
        self.dir.join("traits.json")
    }

    /// Traits that the master has pushed.
    pub fn traits(&self) -> Map {
        let text = read(&self.traits_file()).unwrap_or_default();
        let parsed = text.map(|t| halite_wire::json::parse::<halite_wire::Value>(t.as_bytes()));
        match parsed {
            Some(Ok(halite_wire::Value::Map(map))) => map,
            Some(_) => {
                log::warn!(
                    "{} does not contain a JSON object; ignoring it",
                    self.traits_file().display()
                );
                Map::new()
            }
            None => Map::new(),
        }
    }

    /// Stores pushed traits.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store_traits(&self, traits: &Map) -> Result<(), ExitError> {
        let text = serde_json::to_string(traits).unwrap_or_default();
        write(&self.traits_file(), &text, 0o600)
    }
}

fn read(path: &Path) -> Result<Option<String>, ExitError> {
    let failed = |e: std::io::Error| ExitError::io("file", path, &e);
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut text = String::new();
    file.take(MAX_FILE)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), ExitError> {
    write_atomic(path, text.as_bytes(), mode).map_err(|e| ExitError::io("file", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn everything_is_kept_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = store.key(1048).unwrap();
        assert_eq!(store.key(2048).unwrap().public(), key.public());
        assert_eq!(store.master().unwrap(), None);
        store.pin(&key.public()).unwrap();
        store.store_traits(&map! {"role" => "web"}).unwrap();
        assert_eq!(store.master().unwrap(), Some(key.public()));
        assert_eq!(store.traits(), map! {"role" => "web"});
        store.forget().unwrap();
        store.forget().unwrap();
        assert_eq!(store.master().unwrap(), None);
        assert_eq!(store.traits(), Map::new());
        std::fs::write(store.master_file(), "x").unwrap();
        assert!(store.master().is_err());
    }

    #[test]
    fn the_id_is_stable() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let system = dir.path().join("machine-id");
        let made = store.id("", &system).unwrap();
        assert_eq!(made.as_str().len(), 32);
        assert_eq!(store.id("", &system).unwrap(), made);
        std::fs::write(&system, "30006546535e428aba0a0caa6712e225\n").unwrap();
        let id = store.id("", &system).unwrap();
        assert_eq!(id.as_str(), "30006546535e428aba0a0caa6712e225");
        assert_eq!(store.id("web-1", &system).unwrap().as_str(), "web-1");
        let refused = store.id("a/b", &system).unwrap_err();
        assert!(refused.message.contains("sysinspect_id"), "{refused}");
    }
}
