//! The minion's own event bus, from outside of the daemon: where its sockets are, and firing on it.

use halite_config::paths::minion::event_socket;
use halite_crypto::HashType;
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

/// Path of the socket `pub` or `pull` (reference `salt-local.md` 1.1).
pub fn socket(sock_dir: &Path, hash_type: &str, id: &str, kind: &str) -> PathBuf {
    let hash: HashType = hash_type.parse().unwrap_or_default();
    let hash = hash.hex(id.as_bytes());
    event_socket(sock_dir, &hash, kind)
}

/// Fires an event on the bus of the minion with these options, as
/// [`MinionConfig::as_map`](halite_config::MinionConfig::as_map) gives them.
///
/// # Errors
/// No minion serves the bus, or the tag cannot be one.
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

/// How `_stamp` is written for the tools of this host's Salt release.
pub fn stamp_style(opts: &Map) -> StampStyle {
    match opts.get("salt_series") {
        Some(v) if v.is_str("3006") || v.is_str("3007") => StampStyle::Naive,
        Some(Value::Int(3006 | 3007)) => StampStyle::Naive,
        _ => StampStyle::Offset,
    }
}
