//! Core grains: facts about this host, with the names and values of stock Salt (`salt/grains/core.py` and related
//! modules). They are read from files only. There are no child processes and no name service queries, so collection takes
//! a few milliseconds and cannot hang.
//!
//! Differences from `salt-call --local grains.items` of 3008.3, and the reasons:
//!
//! * `id`, `master` and `server_id` are added by the caller ([`server_id`] computes the last).
//! * `package` and `ca_truststore` are missing: there is no Python and no Salt installation. `saltpath` is where this program is,
//!   `pythonversion`, `pythonexecutable` and `pythonpath` are those of the host's `python3`, by names of files.
//! * `halite_version` is this program's version; `saltversion` is the Salt release it follows.
//! * `fqdn`, `fqdn_ip4` and `fqdn_ip6` come from the hostname and `/etc/hosts`, and `fqdns` from the entries of
//!   `/etc/hosts` for the host's addresses. DNS queries can take a minute if no server is reachable, the best-known
//!   reason for grains to hang.
//! * `systemd`: the version comes from the name of its library; `features` is empty because only `systemctl` prints them.
//! * `virtual` is determined from `/proc`, `/sys` and the marker files of container managers, in the order of
//!   `systemd-detect-virt`, without running it or `virt-what`.
//! * `osarch` is dpkg's own list or this program's architecture on Debian, and the machine's architecture on the RedHat
//!   and SUSE families, without running `dpkg` or `rpm`.
//! * `lvm` is missing, and so is `biosversion` if sysfs does not have it: both need a program. `selinux` is read from its
//!   file system.
//! * `disks` and `ssds` are sorted; stock keeps the order of the directory.
//! * Releases are read from `os-release` and `lsb-release` only, not from the older files that stock also supports
//!   (`SuSE-release`, `centos-release`, Synology's).

mod all;
pub mod external;
mod gpu;
mod hardware;
mod host;
mod lvm;
mod network;
mod os;
mod os_names;
mod process;
mod python;
mod virt;

use halite_crypto::HashType;
use halite_render::merge::{MergeStrategy, Merger};
use halite_wire::{Map, Value};
use std::collections::HashMap;

pub use all::{all_grains, all_grains_until};
pub use process::default_shell;

/// The Salt release whose behaviour the minion follows; reported as `saltversion`.
pub const COMPAT_VERSION: &str = "3008.3";

/// Adds grains to others, in whose place they come: maps within maps, with `grains_deep_merge`.
fn add(all: &mut Map, more: &Map, opts: &Map) {
    let strategy = match opts.get("grains_deep_merge") {
        Some(Value::Bool(true)) => MergeStrategy::Recurse,
        _ => MergeStrategy::Overwrite,
    };
    let lists = false;
    *all = Merger { strategy, lists }.merge(std::mem::take(all), more);
}

/// Names of grains are text.
fn with_text_keys(grains: Map) -> Map {
    let text = |(key, value)| (halite_wire::pytext::str(&key).as_ref().into(), value);
    Map(grains.0.into_iter().map(text).collect())
}

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
    let own = std::env::current_exe().ok();
    let own = own.and_then(|path| Some(path.parent()?.to_string_lossy().into_owned()));
    put(grains, "saltpath", own);
    python(grains);
    grains.set("zmqversion", halite_transport::sockets::version());
    grains.set("halite_version", env!("CARGO_PKG_VERSION"));
}

/// The host's `python3`, for templates that tell Python 2 from 3 or call it: `sys.version_info` (its last part is not known),
/// `sys.executable`, `sys.path`. It is not run: the link names the version.
fn python(grains: &mut Map) {
    const PROGRAM: &str = "/usr/bin/python3";
    let link = std::fs::read_link(PROGRAM).unwrap_or_default();
    let minor = link
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix("python3.")?.parse::<i64>().ok())
        .unwrap_or(0);
    let version: Vec<Value> = vec![3.into(), minor.into(), 0.into(), "final".into(), 0.into()];
    grains.set("pythonversion", version);
    let is_there = |path: &str| std::path::Path::new(path).exists();
    let places = [
        format!("/usr/lib/python3.{minor}"),
        format!("/usr/lib/python3.{minor}/lib-dynload"),
        format!("/usr/local/lib/python3.{minor}/dist-packages"),
        "/usr/lib/python3/dist-packages".to_owned(),
        format!("/usr/lib/python3.{minor}/site-packages"),
    ];
    let places: Vec<String> = places.into_iter().filter(|p| is_there(p)).collect();
    grains.set("pythonpath", places);
    put(
        grains,
        "pythonexecutable",
        is_there(PROGRAM).then_some(PROGRAM),
    );
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
