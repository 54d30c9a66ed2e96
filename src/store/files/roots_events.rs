//! Changes below `file_roots`, for the event that `fileserver_events` enables
//! (`salt/fileserver/roots.py update`).

use super::ignore::Ignore;
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The modification times of all files at the last scan.
#[derive(Default)]
pub struct RootsWatch {
    known: Option<BTreeMap<PathBuf, SystemTime>>,
}

impl RootsWatch {
    /// Scans `file_roots` and returns the data of the event. The first scan of a process reports no
    /// changes.
    pub fn scan(&mut self, config: &MasterConfig) -> Map {
        let ignore = Ignore::new(&config.file_ignore_regex, &config.file_ignore_glob);
        let mut now = BTreeMap::new();
        for dir in config.file_roots.0.iter().flat_map(|(_, dirs)| dirs) {
            walk(Path::new(dir), &ignore, &mut now);
        }
        let before = self
            .known
            .replace(now.clone())
            .unwrap_or_else(|| now.clone());
        let paths = |list: Vec<&PathBuf>| -> Value {
            let texts = list.iter().map(|p| p.to_string_lossy().into_owned());
            texts.collect::<Vec<String>>().into()
        };
        let other =
            |(path, at): &(&PathBuf, &SystemTime)| before.get(*path).is_some_and(|b| b != *at);
        let changed: Vec<_> = now.iter().filter(other).map(|(p, _)| p).collect();
        let removed: Vec<_> = before.keys().filter(|p| !now.contains_key(*p)).collect();
        let added: Vec<_> = now.keys().filter(|p| !before.contains_key(*p)).collect();
        halite_wire::map! {
            "changed" => now != before,
            "files" => halite_wire::map! {
                "changed" => paths(changed), "removed" => paths(removed), "added" => paths(added),
            },
            "backend" => "roots",
        }
    }
}

/// Links to directories are not entered.
fn walk(dir: &Path, ignore: &Ignore, found: &mut BTreeMap<PathBuf, SystemTime>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&path, ignore, found),
            Ok(_) if !ignore.ignores(&path.to_string_lossy()) => {
                let at = std::fs::metadata(&path).ok().filter(|m| !m.is_dir());
                if let Some(at) = at.and_then(|m| m.modified().ok()) {
                    found.insert(path, at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("r");
        std::fs::create_dir_all(root.join("s")).unwrap();
        for name in ["a", "s/b", "gone"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        let options = halite_wire::map! {"file_roots" => halite_wire::map! {
        "base" => vec![root.to_string_lossy().into_owned()]}, "sock_dir" => "/s"};
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let mut watch = RootsWatch::default();
        assert_eq!(watch.scan(&config).get("changed"), Some(&false.into()));
        std::fs::remove_file(root.join("gone")).unwrap();
        std::fs::write(root.join("new"), "x").unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(root.join("s/b"))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let data = watch.scan(&config);
        let files = data.get("files").unwrap().as_map().unwrap();
        let one = |key: &str| files.get(key).unwrap().str_list();
        assert!(one("changed")[0].ends_with("/s/b") && one("changed").len() == 1);
        assert!(one("added")[0].ends_with("/new") && one("removed")[0].ends_with("/gone"));
        assert_eq!(data.get("changed"), Some(&true.into()));
        assert_eq!(watch.scan(&config).get("changed"), Some(&false.into()));
    }
}
