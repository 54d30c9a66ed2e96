//! Beacon `inotify`: file changes (`salt/beacons/inotify.py`, which uses pyinotify).

use crate::execution::python;
use halite_target::{PyRegex, fnmatch};
use halite_wire::{Map, Value};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Mask names and their kernel flags.
const MASKS: &[(&str, AddWatchFlags)] = &[
    ("access", AddWatchFlags::IN_ACCESS),
    ("attrib", AddWatchFlags::IN_ATTRIB),
    ("close_nowrite", AddWatchFlags::IN_CLOSE_NOWRITE),
    ("close_write", AddWatchFlags::IN_CLOSE_WRITE),
    ("create", AddWatchFlags::IN_CREATE),
    ("delete", AddWatchFlags::IN_DELETE),
    ("delete_self", AddWatchFlags::IN_DELETE_SELF),
    ("excl_unlink", AddWatchFlags::from_bits_retain(0x0400_0000)),
    ("ignored", AddWatchFlags::IN_IGNORED),
    ("modify", AddWatchFlags::IN_MODIFY),
    ("moved_from", AddWatchFlags::IN_MOVED_FROM),
    ("moved_to", AddWatchFlags::IN_MOVED_TO),
    ("move_self", AddWatchFlags::IN_MOVE_SELF),
    ("oneshot", AddWatchFlags::IN_ONESHOT),
    ("onlydir", AddWatchFlags::IN_ONLYDIR),
    ("open", AddWatchFlags::IN_OPEN),
    ("unmount", AddWatchFlags::IN_UNMOUNT),
];
/// Maximum number of watched directories per beacon.
const MAX_WATCHES: usize = 100_000;

pub(super) fn validate(config: &Map) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("Configuration for inotify beacon {what}"));
    let Some(files) = config.get("files") else {
        return wrong("must include files.");
    };
    let Some(files) = files.as_map() else {
        return wrong("invalid, files must be a dict.");
    };
    for (_, wanted) in files.iter() {
        let Some(wanted) = wanted.as_map() else {
            return wrong("must be a list of dictionaries.");
        };
        if !["mask", "recurse", "auto_add"]
            .iter()
            .any(|key| wanted.contains(key))
        {
            return wrong("must contain mask, recurse or auto_add items.");
        }
        for key in ["auto_add", "recurse"] {
            if wanted
                .get(key)
                .is_some_and(|value| value.as_bool().is_none())
            {
                return wrong(&format!("{key} must be boolean."));
            }
        }
        let Some(mask) = wanted.get("mask") else {
            continue;
        };
        let Some(mask) = mask.as_array() else {
            return wrong("mask must be list.");
        };
        let known = |name: &Value| MASKS.iter().any(|(known, _)| name.is_str(known));
        if let Some(unknown) = mask.iter().find(|name| !known(name)) {
            return wrong(&format!("invalid mask option {}.", python::str(unknown)));
        }
    }
    Ok(())
}

/// The kernel watches of one beacon.
pub(super) struct Watches {
    inotify: Inotify,
    watched: HashMap<WatchDescriptor, Watched>,
}

#[derive(Clone)]
struct Watched {
    path: PathBuf,
    mask: AddWatchFlags,
    auto_add: bool,
}

/// One configured path.
struct WatchSpec {
    path: String,
    mask: AddWatchFlags,
    recurse: bool,
    auto_add: bool,
    exclude: Vec<Exclude>,
}

enum Exclude {
    Regex(String),
    Glob(String),
    Prefix(String),
}

impl Exclude {
    fn from_value(value: &Value) -> Exclude {
        if let Some((name, how)) = value.as_map().and_then(|map| map.iter().next()) {
            let regex = how.as_map().and_then(|how| how.get("regex"));
            let name = python::str(name);
            return if regex.is_some_and(Value::truthy) {
                Exclude::Regex(name)
            } else {
                // Stock ignores such an entry when events arrive.
                Exclude::Glob(name)
            };
        }
        let text = python::str(value);
        if text.contains('*') {
            Exclude::Glob(text)
        } else {
            Exclude::Prefix(text)
        }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Exclude::Regex(pattern) => match PyRegex::new(&format!("(?s:.*?)(?:{pattern})")) {
                Ok(regex) => regex.matches(path) == Ok(true),
                Err(_) => {
                    log::warn!("Failed to compile regex: {pattern}");
                    false
                }
            },
            Exclude::Glob(pattern) => fnmatch(path, pattern),
            Exclude::Prefix(prefix) => path.starts_with(prefix.as_str()),
        }
    }

    /// Whether a directory is not watched at all (`pyinotify.ExcludeFilter` treats all entries as regular
    /// expressions).
    fn is_excluded(&self, path: &str) -> bool {
        let (Exclude::Regex(pattern) | Exclude::Glob(pattern) | Exclude::Prefix(pattern)) = self;
        PyRegex::new(pattern).is_ok_and(|regex| regex.matches(path) == Ok(true))
    }
}

impl WatchSpec {
    fn new(path: &Value, how: &Value) -> WatchSpec {
        let how = how.as_map();
        let get = |key: &str| how.and_then(|map| map.get(key));
        let mask = match get("mask") {
            Some(Value::Array(names)) => MASKS
                .iter()
                .filter(|(name, _)| names.iter().any(|wanted| wanted.is_str(name)))
                .fold(AddWatchFlags::empty(), |all, (_, flag)| all | *flag),
            _ => AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MODIFY,
        };
        let flag = |key: &str| get(key).is_some_and(Value::truthy);
        let exclude = get("exclude").and_then(Value::as_array).unwrap_or_default();
        WatchSpec {
            path: python::str(path),
            mask: if flag("auto_add") {
                mask | AddWatchFlags::IN_CREATE
            } else {
                mask
            },
            recurse: flag("recurse"),
            auto_add: flag("auto_add"),
            exclude: exclude.iter().map(Exclude::from_value).collect(),
        }
    }
}

pub(super) fn poll(state: &mut Option<Watches>, config: &Map) -> Result<Vec<Map>, String> {
    let failed = |e: Errno| e.desc().to_owned();
    if state.is_none() {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC);
        *state = Some(Watches {
            inotify: inotify.map_err(failed)?,
            watched: HashMap::new(),
        });
    }
    let Some(watches) = state.as_mut() else {
        return Ok(Vec::new());
    };
    let files = config.get("files").and_then(Value::as_map);
    let wanted: Vec<WatchSpec> = files
        .into_iter()
        .flat_map(Map::iter)
        .map(|(path, how)| WatchSpec::new(path, how))
        .collect();
    let coalesce = config.get("coalesce") == Some(&Value::Bool(true));
    let events = watches.read(&wanted, coalesce)?;
    for one in &wanted {
        watches.watch(one);
    }
    Ok(events)
}

impl Watches {
    fn read(&mut self, wanted: &[WatchSpec], coalesce: bool) -> Result<Vec<Map>, String> {
        let mut found = Vec::new();
        loop {
            let batch = match self.inotify.read_events() {
                Ok(batch) => batch,
                Err(Errno::EAGAIN) => break,
                Err(e) => return Err(e.desc().to_owned()),
            };
            for event in batch {
                let Some(watched) = self.watched.get(&event.wd).cloned() else {
                    continue;
                };
                let full = match &event.name {
                    Some(name) => watched.path.join(name),
                    None => watched.path.clone(),
                };
                let of = matching(wanted, &watched.path);
                let made = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ISDIR;
                if watched.auto_add && event.mask.contains(made) {
                    self.add_tree(&full, &watched, true, of.map_or(&[][..], |of| &of.exclude));
                }
                if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.watched.remove(&event.wd);
                }
                let (dir, full) = (watched.path.to_string_lossy(), full.to_string_lossy());
                if of.is_some_and(|of| of.exclude.iter().any(|exclude| exclude.matches(&full))) {
                    log::info!("Excluding {full} from event for {dir}");
                    continue;
                }
                let event = halite_wire::map! {"tag" => dir.as_ref(), "path" => full.as_ref(), "change" => mask_name(event.mask)};
                if !coalesce || !found.contains(&event) {
                    found.push(event);
                }
            }
        }
        Ok(found)
    }

    /// Watches a path unless it is already watched with the same settings.
    fn watch(&mut self, wanted: &WatchSpec) {
        let path = Path::new(&wanted.path);
        let how = Watched {
            path: path.to_owned(),
            mask: wanted.mask,
            auto_add: wanted.auto_add,
        };
        let known = self.watched.values().find(|watched| watched.path == path);
        let same = known.is_some_and(|w| w.mask == how.mask && w.auto_add == how.auto_add);
        if same || !path.exists() {
            return;
        }
        self.add_tree(path, &how, wanted.recurse, &wanted.exclude);
    }

    fn add_tree(&mut self, path: &Path, how: &Watched, recurse: bool, exclude: &[Exclude]) {
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let text = path.to_string_lossy();
            if exclude.iter().any(|exclude| exclude.is_excluded(&text))
                || self.watched.len() >= MAX_WATCHES
            {
                continue;
            }
            match self.inotify.add_watch(&path, how.mask) {
                Ok(descriptor) => {
                    let how = Watched {
                        path: path.clone(),
                        ..how.clone()
                    };
                    self.watched.insert(descriptor, how);
                }
                Err(e) => log::error!("add_watch: cannot watch {text}: {}", e.desc()),
            }
            if recurse {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                let dirs = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
                waiting.extend(dirs.map(|entry| entry.path()));
            }
        }
    }
}

/// The configuration entry for a watched path: its own, or that of the nearest parent.
fn matching<'a>(wanted: &'a [WatchSpec], path: &Path) -> Option<&'a WatchSpec> {
    path.ancestors()
        .find_map(|dir| wanted.iter().find(|one| Path::new(&one.path) == dir))
}

/// The event name in pyinotify's terms.
fn mask_name(mask: AddWatchFlags) -> String {
    const NAMES: &[(u32, &str)] = &[
        (0x1, "IN_ACCESS"),
        (0x2, "IN_MODIFY"),
        (0x4, "IN_ATTRIB"),
        (0x8, "IN_CLOSE_WRITE"),
        (0x10, "IN_CLOSE_NOWRITE"),
        (0x20, "IN_OPEN"),
        (0x40, "IN_MOVED_FROM"),
        (0x80, "IN_MOVED_TO"),
        (0x100, "IN_CREATE"),
        (0x200, "IN_DELETE"),
        (0x400, "IN_DELETE_SELF"),
        (0x800, "IN_MOVE_SELF"),
        (0x2000, "IN_UNMOUNT"),
        (0x4000, "IN_Q_OVERFLOW"),
        (0x8000, "IN_IGNORED"),
    ];
    let bits = mask.bits();
    let found = NAMES.iter().find(|(bit, _)| bits & bit != 0);
    let name = found.map_or("IN_UNKNOWN", |(_, name)| name);
    if mask.contains(AddWatchFlags::IN_ISDIR) {
        format!("{name}|IN_ISDIR")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn changes_become_events() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap().to_owned();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let text = format!(
            "files: {{'{root}': {{mask: [create, close_write, delete], recurse: true, auto_add: true, exclude: ['{root}/no', {{'{root}/r[0-9]$': {{regex: true}}}}]}}}}"
        );
        let config = halite_wire::yaml::parse(&text).unwrap().into_map().unwrap();
        validate(&config).unwrap();
        let mut state = None;
        assert!(poll(&mut state, &config).unwrap().is_empty());
        fs::write(dir.path().join("a"), "x").unwrap();
        fs::write(dir.path().join("sub/b"), "x").unwrap();
        fs::write(dir.path().join("no1"), "x").unwrap();
        fs::write(dir.path().join("r1"), "x").unwrap();
        fs::create_dir(dir.path().join("new")).unwrap();
        let events_of = |state: &mut Option<Watches>| -> Vec<String> {
            let events = poll(state, &config).unwrap();
            events
                .iter()
                .map(|e| {
                    let get = |key: &str| e.str(key).unwrap_or_default().replace(&root, "");
                    format!("{} {} {}", get("tag"), get("path"), get("change"))
                })
                .collect()
        };
        assert_eq!(
            events_of(&mut state),
            [
                " /a IN_CREATE",
                " /a IN_CLOSE_WRITE",
                "/sub /sub/b IN_CREATE",
                "/sub /sub/b IN_CLOSE_WRITE",
                " /new IN_CREATE|IN_ISDIR",
            ]
        );
        fs::write(dir.path().join("new/c"), "x").unwrap();
        fs::remove_file(dir.path().join("a")).unwrap();
        assert_eq!(
            events_of(&mut state),
            [
                "/new /new/c IN_CREATE",
                "/new /new/c IN_CLOSE_WRITE",
                " /a IN_DELETE"
            ]
        );
    }

    #[test]
    fn configurations() {
        let check = |text: &str| {
            let config = halite_wire::yaml::parse(text).unwrap().into_map().unwrap();
            validate(&config)
        };
        assert!(check("files: {/x: {mask: [open]}}").is_ok());
        let why = check("files: {/x: {mask: [opened]}}").unwrap_err();
        assert_eq!(
            why,
            "Configuration for inotify beacon invalid mask option opened."
        );
        assert!(check("files: {/x: {}}").is_err());
        assert!(check("{}").is_err());
    }
}
