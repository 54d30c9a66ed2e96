//! Fetches the file of a module.

use super::limit::read;
use super::salt::Salt;
use super::{Address, web};
use crate::wire::ModulePath;
use halite_store::files::confined::{ConfinedPath, Links};
use std::path::PathBuf;
use std::time::Duration;

/// Fetches files of modules.
pub(in crate::runtime) struct Fetcher {
    /// The directory of modules.
    pub module_dir: PathBuf,
    /// The master's files, if a master is configured.
    pub salt: Option<Salt>,
    /// How long fetching a file may take.
    pub patience: Duration,
}

impl Fetcher {
    /// Returns the content of a file of at most `most` bytes; stops if `wanted` returns false.
    ///
    /// # Errors
    /// The reason why it cannot be fetched, as readable text.
    pub fn fetch(
        &self,
        address: &Address,
        most: usize,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, String> {
        match address {
            Address::Local(path) => self.local(path, most),
            Address::Web(url, digest) => web::fetch(url, digest, most, self.patience, wanted),
            Address::Salt(url) => match &self.salt {
                Some(salt) => salt.fetch(url, most),
                None => Err("no master is configured".to_owned()),
            },
        }
    }

    fn local(&self, path: &ModulePath, most: usize) -> Result<Vec<u8>, String> {
        let place = ConfinedPath {
            root: self.module_dir.clone(),
            rel: path.to_string(),
            // The operator may use symbolic links there, but not to files elsewhere.
            links: Links::Within,
        };
        let file = place
            .open()
            .map_err(|e| format!("file not found: {path} in {}: {e}", place.root.display()))?;
        read(file, most).map_err(|e| format!("{path}: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_opened_below_the_directory_of_modules() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("modules");
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/a.wasm"), "content").unwrap();
        std::fs::write(top.path().join("secret"), "s").unwrap();
        symlink("../secret", dir.join("out.wasm")).unwrap();
        symlink("sub/a.wasm", dir.join("in.wasm")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        let fetcher = Fetcher {
            module_dir: dir,
            salt: None,
            patience: Duration::from_secs(10),
        };
        let fetch = |path: &str, most| {
            let address = Address::Local(path.parse().unwrap());
            fetcher.fetch(&address, most, &|| true)
        };
        assert_eq!(fetch("sub/a.wasm", 7).unwrap(), b"content");
        assert_eq!(fetch("in.wasm", 7).unwrap(), b"content");
        assert!(fetch("sub/a.wasm", 6).unwrap_err().contains("module_size"));
        for bad in ["out.wasm", "up/secret", "sub", "none.wasm"] {
            let why = fetch(bad, 100).unwrap_err();
            assert!(why.starts_with("file not found"), "{why}");
        }
    }
}
