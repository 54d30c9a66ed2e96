//! Records of gateways: `cachedir/gateways/<name>`, with a file per agent in `minions`, and in `uuids` if
//! it has an alias, and `connected`.

use super::connected::{read_list, write_list};
use super::{found, version};
use crate::gateways::{GatewayStore, GatewayStores};
use crate::keys::Version;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The records of all gateways below one `cachedir`.
#[derive(Clone, Debug)]
pub struct LocalGateways {
    dir: PathBuf,
}

impl LocalGateways {
    /// Records below `cachedir`. Nothing is read or created yet.
    pub fn new(cachedir: &Path) -> LocalGateways {
        let dir = cachedir.join("gateways");
        LocalGateways { dir }
    }
}

impl GatewayStores for LocalGateways {
    fn of(&self, name: &str) -> Arc<dyn GatewayStore> {
        let dir = self.dir.join(name);
        Arc::new(LocalGateway { dir })
    }

    fn all(&self) -> Vec<Arc<dyn GatewayStore>> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        names.map(|name| self.of(&name)).collect()
    }
}

#[derive(Debug)]
struct LocalGateway {
    dir: PathBuf,
}

impl LocalGateway {
    fn path(&self, id: &MinionId) -> PathBuf {
        self.dir.join("minions").join(id.as_str())
    }

    /// Named for the gateway that has them.
    fn alias_path(&self, id: &MinionId) -> PathBuf {
        self.dir.join("uuids").join(id.as_str())
    }

    fn list(&self) -> PathBuf {
        self.dir.join("connected")
    }
}

impl GatewayStore for LocalGateway {
    /// Creates missing directories.
    fn prepare(&self) -> io::Result<()> {
        make_dir(&self.dir, 0o700)?;
        make_dir(&self.dir.join("minions"), 0o700)
    }

    fn fingerprint(&self, id: &MinionId) -> io::Result<Option<String>> {
        let text = found(std::fs::read_to_string(self.path(id)))?;
        Ok(text.map(|text| text.trim().to_owned()))
    }

    fn version(&self, id: &MinionId) -> Option<Version> {
        let meta = std::fs::symlink_metadata(self.path(id)).ok()?;
        Some(version(&meta))
    }

    fn put(&self, id: &MinionId, fingerprint: &str) -> io::Result<()> {
        write_atomic(&self.path(id), fingerprint.as_bytes(), 0o600)
    }

    fn alias(&self, id: &MinionId) -> Option<String> {
        let text = std::fs::read_to_string(self.alias_path(id)).ok()?;
        Some(text.trim().to_owned())
    }

    fn put_alias(&self, id: &MinionId, alias: &str) -> io::Result<()> {
        make_dir(&self.dir.join("uuids"), 0o700)?;
        write_atomic(&self.alias_path(id), alias.as_bytes(), 0o600)
    }

    fn remove(&self, id: &MinionId) -> io::Result<()> {
        found(std::fs::remove_file(self.path(id))).map(drop)
    }

    fn ids(&self) -> io::Result<Vec<MinionId>> {
        let Some(entries) = found(std::fs::read_dir(self.dir.join("minions")))? else {
            return Ok(Vec::new());
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    fn put_connected(&self, connected: &BTreeMap<MinionId, IpAddr>) -> io::Result<()> {
        write_list(&self.list(), connected, 0o644)
    }

    fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        read_list(&self.list())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateways::STALE;

    #[test]
    fn a_stale_list_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let all = LocalGateways::new(dir.path());
        let store = all.of("sysinspect");
        store.prepare().unwrap();
        let who = BTreeMap::from([("a1".parse().unwrap(), "10.0.0.1".parse().unwrap())]);
        store.put_connected(&who).unwrap();
        assert_eq!(store.connected(), who);
        assert_eq!(all.all().len(), 1);
        let file = std::fs::File::open(dir.path().join("gateways/sysinspect/connected")).unwrap();
        let old = std::time::SystemTime::now() - 2 * STALE;
        file.set_modified(old).unwrap();
        assert!(store.connected().is_empty());
    }
}
