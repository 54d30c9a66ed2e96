//! The identity of a runtime: uuids that are generated once and stored, and facts about its host.

use crate::wire::{Json, Object, Uuid};
use halite_crypto::random_uuid;
use halite_sys::daemon::make_dir;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file below `cachedir`.
const FILE: &str = "uuids";

/// Generated uuids, by the name of their owner. One per line: uuid, space, name.
#[derive(Debug)]
pub(super) struct Identities {
    path: PathBuf,
    known: Vec<(Uuid, String)>,
}

impl Identities {
    /// Reads the file in a directory, which is created if needed.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn open(cachedir: &Path) -> io::Result<Identities> {
        make_dir(cachedir, 0o700)?;
        let path = cachedir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut known = Vec::new();
        for line in text.lines() {
            let pair = line.split_once(' ');
            let Some((Ok(uuid), name)) = pair.map(|(uuid, name)| (uuid.parse(), name)) else {
                let why = format!("{}: expected lines of uuid and name", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            };
            known.push((uuid, name.to_owned()));
        }
        Ok(Identities { path, known })
    }

    /// The uuid of `name`; generated if it has none.
    ///
    /// # Errors
    /// The uuid cannot be stored.
    pub fn of(&mut self, name: &str) -> io::Result<Uuid> {
        if let Some((uuid, _)) = self.known.iter().find(|(_, known)| known == name) {
            return Ok(uuid.clone());
        }
        let uuid: Uuid = random_uuid().parse().map_err(io::Error::other)?;
        self.known.push((uuid.clone(), name.to_owned()));
        self.write()?;
        Ok(uuid)
    }

    /// Writes the whole file or nothing.
    fn write(&self) -> io::Result<()> {
        let part = self.path.with_extension("part");
        let mut open = std::fs::OpenOptions::new();
        let open = open.write(true).create(true).truncate(true).mode(0o600);
        let mut file = open.open(&part)?;
        for (uuid, name) in &self.known {
            writeln!(file, "{uuid} {name}")?;
        }
        file.sync_all()?;
        std::fs::rename(&part, &self.path)
    }
}

/// The platform manifest, as sent by ARENA's runtime managers (reference, T1).
pub(super) fn platform() -> Json {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut platform = Object::new();
    let cpu = serde_json::json!({"arch": std::env::consts::ARCH, "cores": cores});
    platform.insert("cpu".to_owned(), cpu);
    if let Some(total) = halite_sys::host::memory() {
        platform.insert("mem".to_owned(), serde_json::json!({"total": total}));
    }
    platform.insert("os".to_owned(), std::env::consts::OS.into());
    Json::Object(platform)
}

/// The metadata of each of our runtimes: which program it is, so that its gateway knows that it answers requests, and
/// its host.
pub(super) fn host() -> Object {
    let mut metadata = Object::new();
    let name = nix::unistd::gethostname().unwrap_or_default();
    metadata.insert("host".to_owned(), name.to_string_lossy().into());
    metadata.insert("halite".to_owned(), env!("CARGO_PKG_VERSION").into());
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_stays() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("cache/runtime");
        let mut first = Identities::open(&dir).unwrap();
        let (a, b) = (first.of("rt 1").unwrap(), first.of("b").unwrap());
        assert_ne!(a, b);
        assert_eq!(first.of("rt 1").unwrap(), a);
        let mut second = Identities::open(&dir).unwrap();
        assert_eq!(
            (second.of("rt 1").unwrap(), second.of("b").unwrap()),
            (a, b)
        );
        std::fs::write(dir.join(FILE), "noise\n").unwrap();
        let why = Identities::open(&dir).unwrap_err().to_string();
        assert!(why.contains("uuids"), "{why}");
    }

    #[test]
    fn the_platform_is_told() {
        let platform = platform();
        assert!(platform["cpu"]["cores"].as_u64().unwrap() > 0);
        assert!(platform["mem"]["total"].as_u64().unwrap() > 1 << 20);
    }
}
