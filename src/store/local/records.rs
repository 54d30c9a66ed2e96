//! Records as files: `cachedir/publish_auth/<jid>`, `cachedir/syndics/<id>`, `cachedir/.dfn`.

use super::found;
use crate::records::{JobOwners, RotationRequests, Syndics};
use halite_config::{MasterConfig, SaltSeries};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::safe_open::open_no_follow;
use halite_wire::ids::{Jid, MinionId};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// A file per job, which holds the id of the minion that started it (`salt/daemons/masterapi.py minion_publish`).
#[derive(Debug)]
pub struct LocalOwners {
    dir: PathBuf,
}

impl LocalOwners {
    /// The records of one master. Nothing is read or created yet.
    pub fn new(config: &MasterConfig) -> LocalOwners {
        let dir = config.job_owners();
        LocalOwners { dir }
    }
}

impl JobOwners for LocalOwners {
    fn put(&self, jid: &Jid, id: &MinionId) -> io::Result<()> {
        make_dir(&self.dir, 0o700)?;
        let path = self.dir.join(jid.as_str());
        write_atomic(&path, id.as_str().as_bytes(), 0o600)
    }

    fn owns(&self, id: &MinionId, jid: &Jid) -> bool {
        let opened = open_no_follow(&self.dir.join(jid.as_str()));
        let mut text = String::new();
        opened.is_ok_and(|file| {
            file.metadata().is_ok_and(|m| m.is_file())
                && file.take(1024).read_to_string(&mut text).is_ok()
                && text == id.as_str()
        })
    }

    /// Goes by the age of the file (`salt/daemons/masterapi.py clean_pub_auth`).
    fn expire(&self, keep: Duration) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|m| m.modified());
            let old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > keep));
            if old && let Err(e) = std::fs::remove_file(entry.path()) {
                log::warn!("{}: {e}", entry.path().display());
            }
        }
    }
}

/// An empty file per syndic.
#[derive(Debug)]
pub struct LocalSyndics {
    dir: PathBuf,
}

impl LocalSyndics {
    /// The records of one master. Nothing is read or created yet.
    pub fn new(config: &MasterConfig) -> LocalSyndics {
        let dir = config.syndics();
        LocalSyndics { dir }
    }
}

impl Syndics for LocalSyndics {
    /// An id is a plain file name by its type: the path cannot lead elsewhere (CVE-2024-22231).
    fn put(&self, id: &MinionId) -> io::Result<()> {
        let path = self.dir.join(id.as_str());
        if found(std::fs::symlink_metadata(&path))?.is_some() {
            return Ok(());
        }
        make_dir(&self.dir, 0o755)?;
        write_atomic(&path, b"", 0o644)
    }

    fn contains(&self, id: &str) -> bool {
        MinionId::parse(id).is_ok_and(|id| self.dir.join(id.as_str()).exists())
    }
}

/// The file `cachedir/.dfn`, mode 0400, with the master's id (3006: empty), as stock tools write and read it
/// (`salt/crypt.py dropfile`; reference `salt-protocol.md` 4.4).
#[derive(Debug)]
pub struct LocalRotation {
    path: PathBuf,
    cachedir: PathBuf,
    id: String,
    series: SaltSeries,
}

impl LocalRotation {
    /// The request file of one master. Nothing is read or created yet.
    pub fn new(config: &MasterConfig) -> LocalRotation {
        LocalRotation {
            path: config.rotation_request(),
            cachedir: config.cachedir.clone(),
            id: config.id.clone(),
            series: config.salt_series,
        }
    }
}

impl RotationRequests for LocalRotation {
    fn request(&self) -> io::Result<()> {
        let content = match self.series {
            SaltSeries::S3006 => "",
            SaltSeries::S3007 | SaltSeries::S3008 => &self.id,
        };
        make_dir(&self.cachedir, 0o750)?;
        // An existing request is replaced: if it were damaged, it would be ignored.
        write_atomic(&self.path, content.as_bytes(), 0o400)
    }

    fn take(&self) -> bool {
        let path = &self.path;
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return false;
        };
        if !meta.is_file() || meta.permissions().mode() & 0o777 != 0o400 {
            return false;
        }
        let text = std::fs::read_to_string(path);
        let valid = text.is_ok_and(|text| text.is_empty() || text == self.id);
        if let Err(e) = std::fs::remove_file(path) {
            log::error!(
                "{}: {e}; the request is ignored, or the AES key would be rotated again and again",
                path.display()
            );
            return false;
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_rotation_request_needs_the_right_mode_and_content() {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {
            "id" => "m", "cachedir" => dir.path().to_string_lossy().as_ref(),
        };
        let config = MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap();
        let requests = LocalRotation::new(&config);
        let path = dir.path().join(".dfn");
        let put = |text: &str, mode| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        assert!(!requests.take());
        put("", 0o400);
        assert!(requests.take() && !path.exists());
        put("m", 0o400);
        assert!(requests.take());
        put("other", 0o400);
        assert!(!requests.take() && !path.exists());
        put("", 0o644);
        assert!(!requests.take(), "not written by a key tool");
        requests.request().unwrap();
        assert!(requests.take());
    }
}
