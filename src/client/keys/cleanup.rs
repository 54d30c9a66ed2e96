//! Cleanup after a deletion or rejection: removes caches and sessions of the minions, and requests a new AES
//! key.

use super::{KeyChanges, Keys};
use halite_config::SaltSeries;
use halite_store::keys::KeyState;
use halite_store::minions::{Layout, MinionCache};
use halite_store::sessions::SessionStore;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

impl Keys<'_> {
    /// Removes grains, pillar and mine of all minions without any key, except those in `preserved`
    /// (`salt/key.py check_minion_cache`), and the session keys of the changed minions that are not accepted
    /// any more. Failures are logged only: the keys have been changed already.
    pub fn forget_vanished(&self, changed: &KeyChanges, preserved: &[MinionId]) -> io::Result<()> {
        let accepted = self.store.list(KeyState::Accepted)?;
        let sessions = SessionStore::new(&self.config.cachedir, Duration::ZERO);
        for id in changed
            .done
            .iter()
            .filter(|id| accepted.binary_search(id).is_err())
        {
            report(id.as_str(), sessions.remove(id));
        }
        if self.config.preserve_minion_cache {
            return Ok(());
        }
        let known = self.listings()?;
        let preserved: BTreeSet<&MinionId> = preserved.iter().collect();
        let stays = |id: &MinionId| {
            preserved.contains(id) || known.iter().any(|(_, ids)| ids.binary_search(id).is_ok())
        };
        let cache = MinionCache::new(&self.config.cachedir, self.layout());
        for id in cached_ids(self.config)? {
            if !stays(&id) {
                report(id.as_str(), cache.remove(&id));
            }
        }
        self.forget_pillars(&stays)
    }

    /// Pillars of environments: `pillar/<id>:<pillarenv>.p`.
    fn forget_pillars(&self, stays: &dyn Fn(&MinionId) -> bool) -> io::Result<()> {
        let dir = self.config.pillar_bank();
        for name in names(&dir)? {
            let Some((id, _)) = name
                .strip_suffix(".p")
                .and_then(|stem| stem.split_once(':'))
            else {
                continue;
            };
            if id.parse().is_ok_and(|id| !stays(&id)) {
                report(&name, std::fs::remove_file(dir.join(&name)));
            }
        }
        Ok(())
    }

    fn layout(&self) -> Layout {
        match self.config.salt_series {
            SaltSeries::S3006 | SaltSeries::S3007 => Layout::Combined,
            SaltSeries::S3008 => Layout::Split,
        }
    }

    /// Requests a new AES key from Maintenance, so that minions without a key can no longer decrypt
    /// publications: `cachedir/.dfn`, mode 0400, with the master's id (3006: empty) (`salt/crypt.py dropfile`;
    /// reference `salt-protocol.md` 4.4).
    pub fn request_rotation(&self) -> io::Result<()> {
        let content = match self.config.salt_series {
            SaltSeries::S3006 => "",
            SaltSeries::S3007 | SaltSeries::S3008 => &self.config.id,
        };
        log::info!("Rotating AES key");
        make_dir(&self.config.cachedir, 0o750)?;
        // An existing request is overwritten: if it were damaged, it would never be handled.
        write_atomic(&self.config.rotation_request(), content.as_bytes(), 0o400)
    }
}

/// Minions with cached data, in either series' layout.
fn cached_ids(config: &halite_config::MasterConfig) -> io::Result<BTreeSet<MinionId>> {
    let mut out = BTreeSet::new();
    out.extend(
        names(&config.minions_cache())?
            .iter()
            .filter_map(|n| n.parse().ok()),
    );
    for bank in [config.grains_cache(), config.pillar_bank()] {
        let files = names(&bank)?;
        let ids = files
            .iter()
            .filter_map(|n| n.strip_suffix(".p")?.parse().ok());
        out.extend(ids);
    }
    // The banks of 3008 store pillars of environments as `<id>:<pillarenv>`.
    out.retain(|id: &MinionId| !id.as_str().contains(':'));
    Ok(out)
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
        Ok(entries) => entries
            .filter_map(|entry| entry.map(|e| e.file_name().into_string().ok()).transpose())
            .collect(),
    }
}

fn report(what: &str, result: io::Result<()>) {
    if let Err(e) = result {
        log::warn!("the cache of {what} could not be removed: {e}");
    }
}
