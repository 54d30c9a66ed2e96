//! Whether systemd runs the host, and its version (`salt/utils/systemd.py`).

use super::cmd::which;
use super::{Call, program};
use halite_wire::{Map, Value};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Whether systemd booted this host.
pub fn booted() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The path of `systemctl` if it exists but systemd does not run.
pub fn offline() -> Option<String> {
    if booted() { None } else { which("systemctl") }
}

/// The version of a `systemctl`: its path, when it was changed, the version.
static VERSION: Mutex<Option<(String, SystemTime, u32)>> = Mutex::new(None);

/// The version of systemd. Each program is asked once.
pub fn version() -> Option<u32> {
    let path = which("systemctl")?;
    let changed = std::fs::metadata(&path)
        .and_then(|meta| meta.modified())
        .ok()?;
    let mut last = VERSION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, when, version)) = &*last
        && *known == path
        && *when == changed
    {
        return Some(*version);
    }
    let text = program::run(["systemctl", "--version"]).ok()?.stdout;
    let mut words = text.lines().next()?.split_whitespace();
    let version = words.find_map(|w| w.parse().ok())?;
    *last = Some((path, changed, version));
    Some(version)
}

/// Whether commands can run in their own scope, to survive the end of the minion's service, unless disabled by
/// `systemd.scope`.
pub fn scope(call: &mut Call<'_>) -> bool {
    if !booted() || version().is_none_or(|v| v < 205) {
        return false;
    }
    let dead = "Failed to get D-Bus connection: No such file or directory";
    if !program::run(["systemctl", "status"]).is_ok_and(|ran| !ran.stderr.contains(dead)) {
        return false;
    }
    let args = vec!["systemd.scope".into(), Value::Bool(true)];
    call.salt("config.get", args, Map::new())
        .is_ok_and(|v| v.truthy())
}
