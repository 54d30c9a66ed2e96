//! Backups of files that functions changed, in `cachedir/file_backup`.

use super::super::command_helpers::take_after;
use super::super::declare::Result;
use super::super::{Call, python};
use super::os;
use super::paths::{self, expanduser};
use halite_sys::safe_open::open_finite;
use halite_sys::time::since_epoch;
use halite_wire::map;
use halite_wire::{Map, Value};
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};

/// A backup of a file.
struct Backup {
    size: u64,
    location: String,
}

fn root(call: &Call<'_>) -> String {
    halite_config::paths::minion::cache::file_backup(&call.ctx.cachedir)
        .to_string_lossy()
        .into_owned()
}

/// The time in a backup's name; `None` for other names.
fn backup_time(name: &str, base: &str) -> Option<DateTime> {
    let stamp = name.strip_prefix(base)?.strip_prefix('_')?;
    let mut words: Vec<&str> = stamp.split('_').collect();
    let [_, _, _, _, micros, _] = words[..] else {
        return None;
    };
    let micros: i32 = micros.parse().ok().filter(|_| micros.len() <= 6)?;
    words.remove(4);
    let parsed = BrokenDownTime::parse("%a_%b_%d_%H:%M:%S_%Y", words.join("_")).ok()?;
    let moment = parsed.to_datetime().ok()?;
    moment.with().subsec_nanosecond(micros * 1000).build().ok()
}

/// Backups of one file in a directory, by time.
fn copies(dir: &str, base: &str) -> Result<BTreeMap<DateTime, Backup>> {
    let mut found = BTreeMap::new();
    for name in os::list_dir(dir)? {
        let location = paths::join(dir, &name);
        let Some(moment) = backup_time(&name, base).filter(|_| paths::is_file(&location)) else {
            continue;
        };
        let size = fs::metadata(&location).map_or(0, |m| m.size());
        found.insert(moment, Backup { size, location });
    }
    Ok(found)
}

/// The latest backups, numbered.
fn numbered(found: BTreeMap<DateTime, Backup>, limit: Option<i64>) -> Map {
    let count = match limit {
        None => found.len(),
        Some(n) => match usize::try_from(n) {
            Ok(n) => n,
            Err(_) => found
                .len()
                .saturating_sub(usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX)),
        },
    };
    let latest = found.into_iter().rev().take(count);
    let pairs = latest.enumerate().map(|(i, (moment, backup))| {
        let shown = moment.strftime("%a %b %d %Y %H:%M:%S.%6f").to_string();
        let entry = map! {
            "Backup Time" => shown,
            "Size" => i64::try_from(backup.size).unwrap_or(i64::MAX),
            "Location" => backup.location,
        };
        (Value::from(i), Value::from(entry))
    });
    Map(pairs.collect())
}

/// Non-numbers are ignored.
fn limit(call: &Call<'_>) -> Option<i64> {
    python::int(call.arg("limit")).ok()
}

/// The backups of a file, numbered from the latest (`file.list_backups`).
///
/// # Errors
/// The backup directory cannot be read.
pub fn list_backups(call: &Call<'_>, path: &str, limit: Option<i64>) -> Result<Map> {
    let path = expanduser(path);
    let (parent, base) = paths::split(&path);
    let dir = paths::join(&root(call), parent.get(1..).unwrap_or_default());
    if paths::is_dir(&dir) {
        Ok(numbered(copies(&dir, base)?, limit))
    } else {
        Ok(Map::new())
    }
}

fn path(call: &Call<'_>) -> String {
    expanduser(&call.text("path").unwrap_or_default())
}

pub fn list_backups_function(call: &mut Call<'_>) -> Result {
    Ok(list_backups(call, &path(call), limit(call))?.into())
}

pub fn list_backups_dir_function(call: &mut Call<'_>) -> Result {
    let path = path(call);
    let parent = paths::dirname(&path);
    let dir = paths::join(&root(call), parent.get(1..).unwrap_or_default());
    if !paths::is_dir(&dir) {
        return Ok(Map::new().into());
    }
    let names = os::list_dir(&dir)?;
    let bases: BTreeSet<&str> = names.iter().filter_map(|n| n.split('_').next()).collect();
    let mut out = Map::new();
    for base in bases {
        out.set(base, numbered(copies(&dir, base)?, limit(call)));
    }
    Ok(out.into())
}

/// The backup an argument selects, or the result that explains why there is none.
fn chosen(call: &Call<'_>) -> Result<Result<Map, Map>> {
    let id = call.arg("backup_id");
    let shown = python::str(id);
    let refuse = |comment: String| Ok(Err(map! {"result" => false, "comment" => comment}));
    let number = match python::int(id) {
        Ok(n) if n.to_string().len() == shown.len() => n,
        Ok(_) | Err(super::CallError::Raised(..)) => {
            return refuse(format!("Invalid backup_id '{shown}'"));
        }
        Err(e) => return Err(e),
    };
    let path = path(call);
    let found = list_backups(call, &path, None)?;
    let entry = found.iter().find(|(k, _)| k.as_int() == Some(number));
    match entry.and_then(|(_, v)| v.as_map()) {
        Some(entry) => Ok(Ok(entry.clone())),
        None => refuse(format!("backup_id '{shown}' does not exist for {path}")),
    }
}

pub fn restore_backup(call: &mut Call<'_>) -> Result {
    let entry = match chosen(call)? {
        Ok(entry) => entry,
        Err(answer) => return Ok(answer.into()),
    };
    let (path, from) = (path(call), entry.str("Location").unwrap_or_default());
    backup_minion(&path, &root(call))?;
    if let Err(e) = os::copyfile(from, &path) {
        let comment = format!("Unable to restore {from} to {path}: {e}");
        return Ok(map! {"result" => false, "comment" => comment}.into());
    }
    let comment = format!("Successfully restored {from} to {path}");
    Ok(map! {"result" => true, "comment" => comment}.into())
}

pub fn delete_backup(call: &mut Call<'_>) -> Result {
    let entry = match chosen(call)? {
        Ok(entry) => entry,
        Err(answer) => return Ok(answer.into()),
    };
    let location = entry.str("Location").unwrap_or_default();
    let (result, comment) = match fs::remove_file(location) {
        Ok(()) => (true, format!("Successfully removed {location}")),
        Err(e) => (
            false,
            format!("Unable to remove {location}: {}", os::text(&e, location)),
        ),
    };
    Ok(map! {"result" => result, "comment" => comment}.into())
}

/// Backs up a file under a name with the time (`salt/utils/files.py backup_minion`). Owner and mode are those of the file that was
/// read, whatever is at `path` by then; nobody else can read the copy before it has them.
///
/// # Errors
/// System errors.
pub fn backup_minion(path: &str, root: &str) -> Result<()> {
    let (parent, base) = paths::split(path);
    let mut source = open_finite(path.as_ref()).map_err(|e| os::fault(&e, path))?;
    let micros = since_epoch().subsec_micros();
    let stamp = jiff::Zoned::now();
    let name = format!(
        "{base}_{}{micros:06}_{}",
        stamp.strftime("%a_%b_%d_%H:%M:%S_"),
        stamp.strftime("%Y")
    );
    let dir = paths::join(root, parent.get(1..).unwrap_or_default());
    let mut private = fs::DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(&dir);
    made.map_err(|e| os::fault(&e, &dir))?;
    let target = paths::join(&dir, &name);
    let mut options = fs::OpenOptions::new();
    let opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&target);
    let done = opened.and_then(|mut copy| {
        std::io::copy(&mut source, &mut copy)?;
        take_after(&copy, &source)
    });
    done.map_err(|e| os::fault(&e, &target))
}

/// Replaces a file, keeping its owner and mode; `mode` says whether to back up the old one (`salt/utils/files.py
/// copyfile`).
///
/// # Errors
/// System errors.
pub fn replace_file(call: &Call<'_>, source: &str, dest: &str, mode: &str) -> Result<()> {
    let missing = |path: &str| {
        Err(super::CallError::raised(
            "OSError",
            format!("[Errno 2] No such file or directory: {path}"),
        ))
    };
    if !paths::is_file(source) {
        return missing(source);
    }
    let dir = paths::dirname(dest);
    if !paths::is_dir(dir) {
        return missing(dest);
    }
    let bad = |e: &std::io::Error| os::fault(e, dest);
    let held = os::held(dest)?;
    let (mut file, temporary) =
        os::mkstemp(held.dir(), paths::basename(dest)).map_err(|e| bad(&e))?;
    let done = (|| {
        let mut content = open_finite(source.as_ref()).map_err(|e| os::fault(&e, source))?;
        std::io::copy(&mut content, &mut file).map_err(|e| bad(&e))?;
        if matches!(mode, "minion" | "both") && paths::exists(dest) {
            backup_minion(dest, &root(call))?;
        }
        if let Ok(old) = open_finite(held.path()) {
            take_after(&file, &old).map_err(|e| bad(&e))?;
        }
        fs::rename(&temporary, &held).map_err(|e| bad(&e))
    })();
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies() {
        let found = backup_time("a_b.conf_Sat_Nov_21_18:20:05_012345_2026", "a_b.conf").unwrap();
        let shown = found.strftime("%a %b %d %Y %H:%M:%S.%6f").to_string();
        assert_eq!(shown, "Sat Nov 21 2026 18:20:05.012345");
        assert!(backup_time("a.conf_Sat_Nov", "a.conf").is_none());
        assert!(backup_time("b_Sat_Nov_21_18:20:05_012345_2026", "a").is_none());
    }

    #[test]
    fn a_copy_is_kept_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        fs::write(at("f"), "one").unwrap();
        backup_minion(&at("f"), &at("bk")).unwrap();
        let place = paths::join(&at("bk"), &paths::dirname(&at("f"))[1..]);
        let found = numbered(copies(&place, "f").unwrap(), None);
        assert_eq!(found.len(), 1);
        assert_eq!(found.0[0].1.as_map().unwrap().int("Size"), Some(3));
    }
}
