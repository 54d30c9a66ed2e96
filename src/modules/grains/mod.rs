//! Core grains: facts about this host, under the names and with the values of stock Salt
//! (`salt/grains/core.py` and its neighbours), read from files only. No child process, no
//! name service: collecting takes a few milliseconds and cannot hang.
//!
//! Compared key by key with `salt-call --local grains.items` of 3008.3; what differs, and why:
//!
//! * `id`, `master`, `server_id` are the caller's to add ([`server_id`] computes the last).
//! * `pythonversion`, `pythonpath`, `pythonexecutable`, `saltpath`, `package`,
//!   `ca_truststore`: there is no Python here, and no Salt installation.
//! * `halite_version`: this program; `saltversion` names the Salt release it follows.
//! * `fqdn`, `fqdn_ip4`, `fqdn_ip6` come from the host's name and `/etc/hosts`, `fqdns` is
//!   what `/etc/hosts` knows of the host's addresses: asking DNS can take a minute where it
//!   is not reachable, which is the best-known way for grains to hang.
//! * `systemd`: the version from the name of its library; `features` is empty, they are only
//!   printed by `systemctl`.
//! * `virtual`: decided from `/proc`, `/sys` and the marks that container managers leave,
//!   in the order of `systemd-detect-virt`, instead of running it or `virt-what`.
//! * `osarch` on Debian is dpkg's own list or this program's architecture, not the answer of
//!   `dpkg`; on the RedHat and SUSE families the machine's, not the answer of `rpm`.
//! * `lvm`, `biosversion` by `dmidecode` where sysfs has none: each would
//!   need a program. `selinux` comes from its file system.
//! * `disks` and `ssds` are sorted; stock keeps the order of the directory.
//! * Releases are read from `os-release` and `lsb-release`; the old files that stock also
//!   knows (`SuSE-release`, `centos-release`, Synology's) are not.

mod all;
pub mod external;
mod gpu;
mod hardware;
mod host;
mod network;
mod os;
mod os_names;
mod process;
mod virt;

use halite_crypto::HashType;
use halite_wire::{Map, Value};
use std::collections::HashMap;

pub use all::all_grains;
pub use process::default_shell;

/// The Salt release whose behaviour the minion follows; reported as `saltversion`.
pub const COMPAT_VERSION: &str = "3008.3";

/// Collects the core grains, overridden by the configured ones (`grains` of the configuration and the grains file).
pub fn collect(config_grains: &Map) -> Map {
    let mut grains = Map::new();
    network::add(&mut grains);
    host::add(&mut grains);
    os::add(&mut grains);
    hardware::add(&mut grains);
    gpu::add(&mut grains);
    virt::add(&mut grains);
    process::add(&mut grains);
    versions(&mut grains);
    for (key, value) in config_grains.iter() {
        match key.as_str() {
            Some(key) => grains.set(key, value.clone()),
            None => grains.0.push((key.clone(), value.clone())),
        }
    }
    grains
}

/// The `server_id` grain: a number derived from the minion id (`salt/grains/core.py get_server_id`).
pub fn server_id(id: &str) -> i64 {
    let digest = HashType::Sha256.hex(id.as_bytes());
    // Modulo a power of two only the last digits matter.
    let tail = digest.get(digest.len() - 8..).unwrap_or_default();
    i64::from_str_radix(tail, 16).unwrap_or(0) % (1 << 31)
}

/// The fields of `os-release`; empty if missing.
pub fn os_release() -> HashMap<String, String> {
    let text = os::os_release_text();
    let pairs = os::pairs(&text).into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn versions(grains: &mut Map) {
    let info: Vec<Value> = COMPAT_VERSION
        .split('.')
        .filter_map(|part| part.parse::<i64>().ok())
        .map(Value::Int)
        .collect();
    grains.set("saltversion", COMPAT_VERSION);
    grains.set("saltversioninfo", info);
    grains.set("zmqversion", halite_transport::sockets::version());
    grains.set("halite_version", env!("CARGO_PKG_VERSION"));
}

/// The trimmed text of a small file; `None` if it cannot be read.
fn read(path: &str) -> Option<String> {
    let raw = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&raw).trim().to_owned())
}

/// Sets a grain if there is a value.
fn put<T: Into<Value>>(grains: &mut Map, key: &str, value: Option<T>) {
    if let Some(value) = value {
        grains.set(key, value);
    }
}

#[cfg(test)]
mod tests;
