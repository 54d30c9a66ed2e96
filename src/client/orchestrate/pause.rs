//! Pausing and stopping runs from outside: the file `cachedir/state_pause/<jid>`, a map of state ids (`__all__`
//! for any) to `duration` in seconds and `kill` (`salt/state.py check_pause`, `salt/modules/state.py pause`).

use halite_config::MasterConfig;
use halite_sys::daemon::write_atomic;
use halite_sys::signals::StopFlag;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Stands for all states.
const ALL: &str = "__all__";
/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;
const NAP: Duration = Duration::from_millis(200);

fn path(config: &MasterConfig, jid: &Jid) -> PathBuf {
    config.state_pause().join(jid.to_string())
}

fn read(config: &MasterConfig, jid: &Jid) -> Option<Map> {
    let file = std::fs::File::open(path(config, jid)).ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    msgpack::decode(&bytes).ok()?.into_map()
}

fn write(config: &MasterConfig, jid: &Jid, data: &Map) -> io::Result<()> {
    let path = path(config, jid);
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    write_atomic(&path, &msgpack::encode_map(data, Profile::Local), 0o600)
}

/// Pauses the run before the state `id`, or before the next one.
///
/// # Errors
/// The file is not writable.
pub fn pause(
    config: &MasterConfig,
    jid: &Jid,
    id: Option<&str>,
    further: Option<(&str, Value)>,
) -> io::Result<()> {
    let mut data = read(config, jid).unwrap_or_default();
    let id = id.unwrap_or(ALL);
    let mut entry = data.get(id).and_then(Value::as_map).cloned();
    let entry = entry.get_or_insert_default();
    if let Some((key, value)) = further {
        entry.set(key, value);
    }
    data.set(id, entry.clone());
    write(config, jid, &data)
}

/// Resumes the run: at the state `id`, or altogether.
///
/// # Errors
/// The file is not writable.
pub fn resume(config: &MasterConfig, jid: &Jid, id: Option<&str>) -> io::Result<()> {
    let mut data = read(config, jid).unwrap_or_default();
    match id {
        Some(id) => drop(data.remove(id)),
        None => data = Map::new(),
    }
    write(config, jid, &data)
}

/// Removes the file of a run that is over.
pub(super) fn remove(config: &MasterConfig, jid: &Jid) {
    // Usually there is none.
    let _ = std::fs::remove_file(path(config, jid));
}

/// Waits while the run is paused before the state `id`. Returns `false` if the run is to stop before it.
pub(super) fn may_continue(config: &MasterConfig, jid: &Jid, id: &str, stop: &StopFlag) -> bool {
    let began = Instant::now();
    while !stop.is_set() {
        let Some(data) = read(config, jid) else {
            return true;
        };
        let entry = data.get(id).or_else(|| data.get(ALL));
        let Some(entry) = entry.and_then(Value::as_map) else {
            return true;
        };
        let over = entry.int("duration").and_then(|d| u64::try_from(d).ok());
        if over.is_some_and(|d| began.elapsed() > Duration::from_secs(d)) {
            return true;
        }
        if entry.contains("kill") {
            return false;
        }
        std::thread::sleep(NAP);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_holds_its_state_until_it_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"root_dir" => dir.path().to_string_lossy().into_owned()};
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let jid: Jid = "20261121120000000001".parse().unwrap();
        let stop = StopFlag::default();
        let go = |id| may_continue(&config, &jid, id, &stop);
        assert!(go("a"));
        pause(&config, &jid, Some("a"), None).unwrap();
        assert!(go("b"));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| go("a"));
            assert!(!waits.is_finished());
            resume(&config, &jid, None).unwrap();
            assert!(waits.join().unwrap());
        });
        pause(&config, &jid, None, Some(("kill", true.into()))).unwrap();
        assert!(!go("b"));
        pause(&config, &jid, Some("b"), Some(("duration", 0.into()))).unwrap();
        assert!(go("b"), "its own entry counts");
    }
}
