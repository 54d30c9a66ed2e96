//! The minion's event bus for other processes: socket paths, and firing events.

use halite_config::paths::master::event_pub;
use halite_config::paths::minion::event_socket;
use halite_crypto::HashType;
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

/// Path of the `pub` or `pull` socket (reference `salt-local.md` 1.1).
pub fn socket(sock_dir: &Path, hash_type: &str, id: &str, kind: &str) -> PathBuf {
    let hash: HashType = hash_type.parse().unwrap_or_default();
    let hash = hash.hex(id.as_bytes());
    event_socket(sock_dir, &hash, kind)
}

/// The socket with the events of the bus of the minion, or the master, with these options.
pub fn events(opts: &Map) -> PathBuf {
    let text = |key: &str| opts.str(key).unwrap_or_default();
    let dir = Path::new(text("sock_dir"));
    match text("__role") {
        "master" => event_pub(dir),
        _ => socket(dir, text("hash_type"), text("id"), "pub"),
    }
}

/// Fires an event on the bus of the minion with these options (the form of
/// [`MinionConfig::as_map`](halite_config::MinionConfig::as_map)).
///
/// # Errors
/// No minion serves the bus, or the tag is invalid.
pub fn fire(opts: &Map, tag: &str, data: &Map) -> Result<(), String> {
    let text = |key: &str| opts.str(key).unwrap_or_default();
    let path = socket(
        Path::new(text("sock_dir")),
        text("hash_type"),
        text("id"),
        "pull",
    );
    let packed = msgpack::encode_map(data, Profile::Local);
    let event = Event::from_payload(tag, packed).map_err(|e| e.to_string())?;
    Publisher::connect(path, Framing::Prefixed)
        .map_err(|e| e.to_string())?
        .with_stamp(Some(stamp_style(opts)))
        .fire(&event)
        .map_err(|e| e.to_string())
}

/// The `_stamp` format for this host's Salt release.
pub fn stamp_style(opts: &Map) -> StampStyle {
    match opts.get("salt_series") {
        Some(v) if v.is_str("3006") || v.is_str("3007") => StampStyle::Naive,
        Some(Value::Int(3006 | 3007)) => StampStyle::Naive,
        _ => StampStyle::Offset,
    }
}
