//! The backend `minionfs`: what minions have pushed with `cp.push` (`salt/fileserver/minionfs.py`).
//!
//! Minions write there, so no link is ever followed.

use super::confined::{ConfinedPath, Links};
use super::ignore::Ignore;
use super::lists::Lists;
use super::names::{self, strip_proto};
use super::{Found, exposed, stat_list};
use halite_config::FileServerOptions;
use std::path::{Path, PathBuf};

/// `minionfs` with its options.
pub struct MinionFs {
    dir: PathBuf,
    env: String,
    mountpoint: String,
    whitelist: Vec<String>,
    blacklist: Vec<String>,
}

impl MinionFs {
    /// The backend of a configuration.
    pub fn new(options: &FileServerOptions) -> MinionFs {
        MinionFs {
            dir: options.cachedir.join("minions"),
            env: options.minionfs_env.clone(),
            mountpoint: strip_proto(&options.minionfs_mountpoint).to_owned(),
            whitelist: options.minionfs_whitelist.clone(),
            blacklist: options.minionfs_blacklist.clone(),
        }
    }

    /// Its one environment.
    pub fn envs(&self) -> Vec<String> {
        vec![self.env.clone()]
    }

    fn exposes(&self, minion: &str) -> bool {
        exposed(minion, &self.whitelist, &self.blacklist)
    }

    /// The file at `<mountpoint>/<minion id>/<path>`. Salt cuts off as many characters as the
    /// mountpoint has, whatever they are; halite requires them to be the mountpoint.
    pub fn find(&self, path: &str, env: &str, ignore: &Ignore) -> Option<Found> {
        let below = path.strip_prefix(self.mountpoint.as_str())?;
        let rel = below.trim_start_matches('/');
        let (minion, pushed) = rel.split_once('/')?;
        let plain = names::inside(minion).as_deref() == Some(minion);
        if env != self.env || !plain || !self.exposes(minion) {
            return None;
        }
        let pushed = names::inside(pushed)?;
        // A minion must not assign states to other minions.
        if pushed.rsplit('/').next() == Some("top.sls") {
            return None;
        }
        let place = ConfinedPath {
            root: self.files_of(minion),
            rel: pushed,
            links: Links::Never,
        };
        let stat = place.stat()?;
        let path = place.display_path();
        (!ignore.ignores(&path)).then(|| Found {
            path,
            rel: rel.to_owned(),
            stat: stat_list(&stat),
            back: "minionfs",
            place,
        })
    }

    fn files_of(&self, minion: &str) -> PathBuf {
        self.dir.join(minion).join("files")
    }

    /// Files and directories: all, or those below a prefix that names a minion.
    pub fn lists(&self, env: &str, prefix: &str, ignore: &Ignore) -> Lists {
        let mut lists = Lists::default();
        if env != self.env {
            return lists;
        }
        let below = format!("{}/", self.mountpoint);
        let prefix = if self.mountpoint.is_empty() {
            prefix
        } else {
            prefix.strip_prefix(&below).unwrap_or(prefix)
        };
        // A prefix must name a minion and a directory of its files; otherwise nothing matches.
        let wanted = match prefix.split_once('/') {
            None if !prefix.is_empty() => return lists,
            Some((_, "")) => return lists,
            wanted => wanted,
        };
        for minion in subdirs(&self.dir) {
            if wanted.is_some_and(|(w, _)| w != minion) || !self.exposes(&minion) {
                continue;
            }
            let shown = match self.mountpoint.as_str() {
                "" => minion.clone(),
                mountpoint => names::join(mountpoint, &minion),
            };
            walk(&self.files_of(&minion), &shown, ignore, &mut lists);
            if let Some((_, dir)) = wanted {
                let dir = format!("{shown}/{dir}");
                let in_dir = |path: &String| {
                    let rest = path.strip_prefix(dir.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                lists.files.retain(in_dir);
                lists.dirs.retain(in_dir);
            }
        }
        lists.files.sort_unstable();
        lists.dirs.sort_unstable();
        lists
    }
}

fn subdirs(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let dirs = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    dirs.filter_map(|e| e.file_name().into_string().ok())
        .collect()
}

fn walk(dir: &Path, shown: &str, ignore: &Ignore, lists: &mut Lists) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let shown = format!("{shown}/{name}");
        if kind.is_dir() {
            walk(&entry.path(), &shown, ignore, lists);
            lists.dirs.push(shown);
        } else if !kind.is_symlink() && !ignore.ignores(&shown) {
            lists.files.push(shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(mountpoint: &str, dir: &Path) -> MinionFs {
        MinionFs {
            dir: dir.to_owned(),
            env: "base".into(),
            mountpoint: mountpoint.into(),
            whitelist: Vec::new(),
            blacklist: vec!["bad*".into()],
        }
    }

    #[test]
    fn only_pushed_files_are_served() {
        let top = tempfile::tempdir().unwrap();
        let files = top.path().join("m1/files");
        std::fs::create_dir_all(files.join("etc")).unwrap();
        std::fs::create_dir_all(top.path().join("bad1/files")).unwrap();
        std::fs::write(files.join("etc/x"), "x").unwrap();
        std::fs::write(files.join("top.sls"), "x").unwrap();
        std::fs::write(top.path().join("bad1/files/y"), "x").unwrap();
        std::fs::write(top.path().join("m1/data.p"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", files.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", files.join("host")).unwrap();
        let none = Ignore::new(&[], &[]);
        for mountpoint in ["", "mnt"] {
            let fs = backend(mountpoint, top.path());
            let at = |path: &str| match mountpoint {
                "" => path.to_owned(),
                mountpoint => format!("{mountpoint}/{path}"),
            };
            let found = fs.find(&at("m1/etc/x"), "base", &none).unwrap();
            assert_eq!(found.rel, "m1/etc/x");
            for bad in [
                "m1/top.sls",
                "m1/./top.sls",
                "m1/link/passwd",
                "m1/host",
                "m1/../m1/files/etc/x",
                "bad1/y",
                "m1/../../data.p",
                "../x/y",
                "./etc/x",
                "m1",
                "m1/",
                "m1/etc",
                "m2/x",
            ] {
                assert!(fs.find(&at(bad), "base", &none).is_none(), "{bad}");
            }
            assert!(fs.find(&at("m1/etc/x"), "dev", &none).is_none());
            let lists = fs.lists("base", "", &none);
            assert_eq!(lists.files, [at("m1/etc/x"), at("m1/top.sls")]);
            assert_eq!(lists.dirs, [at("m1/etc")]);
            assert_eq!(
                fs.lists("base", &at("m1/etc"), &none).files,
                [at("m1/etc/x")]
            );
            assert_eq!(fs.lists("base", &at("m1/et"), &none), Lists::default());
            assert_eq!(fs.lists("base", "m1", &none), Lists::default());
        }
    }
}
