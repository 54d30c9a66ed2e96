//! Banks of the cache in the format of stock's `localfs` (`salt/cache/localfs.py`), for the runner `cache`, which
//! reads and writes them directly.

use super::found;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::Value;
use halite_wire::msgpack::{self, Profile};
use std::io;
use std::path::{Path, PathBuf};

/// Directories of `cachedir` that are not banks: their content is secret or must not be edited.
const PRIVATE: &[&str] = &[
    "tokens",
    "sessions",
    "jobs",
    "joblog",
    "proc",
    "publish_auth",
];

/// A directory below `cachedir`; its keys are files `<key>.p`.
#[derive(Debug)]
pub struct Bank {
    dir: PathBuf,
}

impl Bank {
    /// The bank of that name, which may contain slashes; `None` if it is hidden, private or could lead out of the cache.
    pub fn named(cachedir: &Path, name: &str) -> Option<Bank> {
        let parts = path_parts(name).filter(|parts| !PRIVATE.contains(&parts[0]))?;
        let dir = cachedir.join(parts.join("/"));
        Some(Bank { dir })
    }

    /// Whether `key` is valid. It may contain slashes.
    pub fn is_key(key: &str) -> bool {
        path_parts(key).is_some()
    }

    fn file(&self, key: &str) -> io::Result<PathBuf> {
        if Bank::is_key(key) {
            return Ok(self.dir.join(format!("{key}.p")));
        }
        let why = format!("{key:?} is not a key of a bank");
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Keys and banks in this bank, sorted.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one is empty.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
            entries => found(entries)?,
        };
        let mut out = Vec::new();
        for entry in entries.into_iter().flatten() {
            if let Ok(name) = entry?.file_name().into_string() {
                let key = name.strip_suffix(".p").unwrap_or(&name);
                out.push(key.to_owned());
            }
        }
        out.sort_unstable();
        Ok(out)
    }

    /// The value in the file of the key, or under the key in the file of the bank.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn fetch(&self, key: &str) -> io::Result<Option<Value>> {
        if let Some(value) = read(&self.file(key)?)? {
            return Ok(Some(value));
        }
        let mut file = self.dir.clone().into_os_string();
        file.push(".p");
        let whole = read(Path::new(&file))?;
        let map = whole.and_then(Value::into_map);
        Ok(map.and_then(|mut map| map.remove(key)))
    }

    /// Stores a value.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, key: &str, data: &Value) -> io::Result<()> {
        let path = self.file(key)?;
        make_dir(path.parent().unwrap_or(&self.dir), 0o755)?;
        write_atomic(&path, &msgpack::encode(data, Profile::Local), 0o600)
    }

    /// Removes a key. `false` if there was none.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn flush(&self, key: &str) -> io::Result<bool> {
        Ok(found(std::fs::remove_file(self.file(key)?))?.is_some())
    }

    /// Removes the bank. `false` if there was none.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub fn flush_all(&self) -> io::Result<bool> {
        Ok(self.dir.is_dir() && found(std::fs::remove_dir_all(&self.dir))?.is_some())
    }
}

fn read(path: &Path) -> io::Result<Option<Value>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => {}
        _ => return Ok(None),
    }
    let bytes = std::fs::read(path)?;
    let value = msgpack::decode(&bytes)
        .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
    Ok(Some(value))
}

/// The parts of a name with slashes; `None` if one could lead out of the cache or is hidden.
fn path_parts(name: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = name.split('/').collect();
    let fits = |part: &&str| !part.is_empty() && !part.starts_with('.') && part.len() < 256;
    let valid = !name.contains(['\0', '\\', '\n']) && parts.len() < 32;
    (valid && parts.iter().all(fits)).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_stay_below_the_cache() {
        for bad in [
            "",
            "..",
            "a/../b",
            "/etc",
            "a//b",
            ".root_key",
            "a/.x",
            "a\0",
            "tokens/x",
        ] {
            assert!(Bank::named(Path::new("/c"), bad).is_none(), "{bad:?}");
        }
        assert_eq!(path_parts("minions/web1"), Some(vec!["minions", "web1"]));
    }

    #[test]
    fn banks_as_localfs_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let bank = |name| Bank::named(dir.path(), name).unwrap();
        let inner = bank("a/b");
        assert!(inner.list().unwrap().is_empty());
        inner.store("k", &Value::Int(7)).unwrap();
        assert_eq!(inner.fetch("k").unwrap(), Some(Value::Int(7)));
        assert!(dir.path().join("a/b/k.p").is_file());
        let above = bank("a");
        assert_eq!(above.list().unwrap(), ["b"]);
        let whole = halite_wire::map! {"x" => 8};
        above.store("c", &Value::Map(whole)).unwrap();
        assert_eq!(bank("a/c").fetch("x").unwrap(), Some(Value::Int(8)));
        assert!(inner.fetch("../../k").is_err() && inner.flush("../k").is_err());
        assert!(inner.flush("k").unwrap() && !inner.flush("k").unwrap());
        assert!(inner.flush_all().unwrap() && !inner.flush_all().unwrap());
    }
}
