//! The backend `gitfs`: branches and tags of git repositories as environments
//! (`salt/fileserver/gitfs.py`, `salt/utils/gitfs.py GitFS`). Runs the command `git`.
//!
//! Maintenance fetches into bare mirrors below `cachedir/gitfs`. Workers list the trees of these, and extract
//! the files that they serve: one file per content.

mod mirror;
mod remote;

use super::Found;
use super::lists::Lists;
use crate::git::{is_hex, redact_url};
use halite_config::FileServerOptions;
use halite_sys::signals::StopFlag;
use halite_target::fnmatch;
use mirror::Mirror;
use remote::Remote;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Extracted content that was not used for so long is removed.
const MAX_UNUSED: Duration = Duration::from_secs(7 * 86_400);

/// All remotes of a configuration.
pub struct GitFs {
    mirrors: Vec<Mirror>,
    top: PathBuf,
}

impl GitFs {
    /// Reads the remotes of a configuration. Does not run git.
    pub fn new(options: &FileServerOptions) -> GitFs {
        let top = options.cachedir.join("gitfs");
        let remotes = Remote::all(options).into_iter();
        GitFs {
            mirrors: remotes.map(|remote| Mirror::new(remote, &top)).collect(),
            top,
        }
    }

    /// Environments, sorted.
    pub fn envs(&mut self) -> Vec<String> {
        let mut envs = BTreeSet::new();
        for mirror in &mut self.mirrors {
            let refs = mirror.refs();
            envs.extend(mirror.remote.envs(refs.keys().map(String::as_str)));
        }
        envs.into_iter().collect()
    }

    /// The mirrors that are searched for an environment.
    fn offering(&mut self, env: &str) -> Vec<&mut Mirror> {
        let known = is_hex(env) || self.envs().iter().any(|e| e == env);
        let mirrors = self.mirrors.iter_mut();
        mirrors
            .filter(|m| known || !m.remote.fallback.is_empty())
            .collect()
    }

    /// The first file at that path.
    pub fn find(&mut self, path: &str, env: &str) -> Option<Found> {
        self.offering(env).into_iter().find_map(|mirror| {
            let blob = mirror.find(path, env)?;
            let place = mirror
                .extract(&blob)
                .inspect_err(|e| log::error!("gitfs: {path}: {e}"))
                .ok()?;
            Some(Found {
                path: place.display_path(),
                rel: path.to_owned(),
                stat: vec![i64::from(blob.mode)],
                back: "gitfs",
                place,
            })
        })
    }

    /// The files of an environment in all remotes.
    pub fn lists(&mut self, env: &str) -> Lists {
        let mut lists = Lists::default();
        for mirror in self.offering(env) {
            mirror.add_to(&mut lists, env);
        }
        for list in [&mut lists.files, &mut lists.dirs] {
            list.sort_unstable();
            list.dedup();
        }
        lists
    }

    /// Seconds between fetches, per remote.
    pub fn intervals(&self) -> Vec<u64> {
        self.mirrors
            .iter()
            .map(|m| m.remote.update_interval)
            .collect()
    }

    /// Fetches the remotes at these indexes; returns whether anything changed.
    pub fn update(&mut self, which: &[usize], stop: Option<&StopFlag>) -> bool {
        let mut changed = false;
        for at in which {
            let Some(mirror) = self.mirrors.get_mut(*at) else {
                continue;
            };
            match mirror.fetch(stop) {
                Ok(moved) => changed |= moved,
                Err(e) => log::error!(
                    "gitfs: {} was not updated: {e}",
                    redact_url(&mirror.remote.url)
                ),
            }
        }
        changed
    }

    /// Indexes of the remotes whose URL or name is in `wanted`; of all remotes if it is empty.
    pub fn select(&self, wanted: &[String]) -> Vec<usize> {
        let all = self.mirrors.iter().enumerate();
        let is = |m: &Mirror| {
            wanted
                .iter()
                .any(|w| *w == m.remote.url || *w == m.remote.name)
        };
        all.filter(|(_, m)| wanted.is_empty() || is(m))
            .map(|(at, _)| at)
            .collect()
    }

    /// Removes mirrors of remotes that are no longer configured, and old content. Returns whether a
    /// mirror was removed.
    pub fn prune(&self) -> bool {
        let names: BTreeSet<&str> = self
            .mirrors
            .iter()
            .map(|m| m.remote.name.as_str())
            .collect();
        let mut gone = false;
        for path in entries(&self.top.join("mirrors")) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && !names.contains(name.as_str()) {
                match std::fs::remove_dir_all(&path) {
                    Ok(()) => gone = true,
                    Err(e) => log::error!("{}: {e}", path.display()),
                }
            }
        }
        for path in entries(&self.top.join("blobs"))
            .iter()
            .flat_map(|dir| entries(dir))
        {
            let used = path
                .metadata()
                .and_then(|m| Ok(m.accessed()?.max(m.modified()?)));
            let old = used.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAX_UNUSED));
            if old && let Err(e) = std::fs::remove_file(&path) {
                log::debug!("{}: {e}", path.display());
            }
        }
        gone
    }

    /// Sets or clears the lock files that keep remotes from being fetched (`GitBase.lock`, `clear_lock`).
    /// Returns messages about what was done, and errors.
    pub fn set_locks(&self, pattern: Option<&str>, set: bool) -> (Vec<String>, Vec<String>) {
        let (mut done, mut errors) = (Vec::new(), Vec::new());
        for mirror in &self.mirrors {
            let url = &mirror.remote.url;
            if pattern.is_some_and(|p| !fnmatch(url, p)) {
                continue;
            }
            let path = mirror.lock_file();
            let result = if set {
                make_lock(&path)
                    .map(|()| format!("Set update lock for gitfs remote '{}'", redact_url(url)))
            } else if path.exists() {
                std::fs::remove_file(&path)
                    .map(|()| format!("Removed update lock for gitfs remote '{}'", redact_url(url)))
            } else {
                continue;
            };
            match result {
                Ok(text) => done.push(text),
                Err(e) => errors.push(format!("{}: {e}", path.display())),
            }
        }
        (done, errors)
    }
}

fn make_lock(path: &Path) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        halite_sys::daemon::make_dir(dir, 0o700)?;
    }
    let mut options = std::fs::File::options();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(())
}

/// Removes mirrors and content (`GitBase.clear_cache`); returns error messages.
pub fn clear_cache(cachedir: &Path) -> Vec<String> {
    let dir = cachedir.join("gitfs");
    match std::fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            vec![format!("Unable to delete {}: {e}", dir.display())]
        }
        _ => Vec::new(),
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.path()).collect()
}

#[cfg(test)]
mod tests;
