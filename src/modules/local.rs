//! The minion's event bus for functions: firing events and waiting for answers (`salt/modules/event.py fire`,
//! `salt/utils/event.py MinionEvent`).

use super::bus;
use crate::context::Context;
use halite_ipc::{Event, Subscriber};
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use std::path::Path;
use std::time::{Duration, Instant};

/// Tag prefixes of requests to the daemon.
pub const REQUEST_TAGS: &[&str] = &[
    "module_refresh",
    "pillar_refresh",
    "beacons_refresh",
    "matchers_refresh",
    "grains_refresh",
    "manage_schedule",
    "manage_beacons",
    "environ_setenv",
    "fire_master",
    "__schedule_return",
    "__beacons_return",
    "__master_disconnected",
    "__master_failback",
    "_salt_error",
    "_minion_mine",
];

/// `MINION_PILLAR_REFRESH_COMPLETE` (`salt/defaults/events.py`).
pub const PILLAR_REFRESHED: &str = "/salt/minion/minion_pillar_refresh_complete";
/// `MINION_MOD_REFRESH_COMPLETE`.
pub const MODULES_REFRESHED: &str = "/salt/minion/minion_mod_refresh_complete";

/// A request to the daemon: an event on the local bus.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonRequest {
    /// Its tag.
    pub tag: String,
    /// Its data.
    pub data: Map,
}

impl DaemonRequest {
    /// Parses an event's body; `None` if it is not a request.
    pub fn read(body: &[u8]) -> Option<DaemonRequest> {
        let known = REQUEST_TAGS
            .iter()
            .any(|tag| body.starts_with(tag.as_bytes()));
        if !known {
            return None;
        }
        let event = Event::from_body(body).ok()?;
        let data = msgpack::decode(&event.payload).ok()?.into_map()?;
        Some(DaemonRequest {
            tag: event.tag,
            data,
        })
    }
}

/// Fires an event on the minion's bus; `false` if the daemon does not run or rejects it.
pub fn fire(ctx: &Context, tag: &str, data: &Map) -> bool {
    match bus::fire(&ctx.opts, tag, data) {
        Ok(()) => true,
        Err(e) => {
            log::debug!("cannot fire event {tag:.100}: {e}");
            false
        }
    }
}

/// Fires an event and waits for its answer; `Err(false)` if it could not be fired, `Err(true)` if no answer came.
///
/// # Errors
/// See above.
pub fn fire_and_wait(
    ctx: &Context,
    tag: &str,
    data: &Map,
    answer: &str,
    timeout: Duration,
) -> Result<Map, bool> {
    // Subscribe first: the answer may come immediately.
    let text = |key: &str| ctx.opts.str(key).unwrap_or_default();
    let id = text("id");
    let socket = bus::socket(Path::new(text("sock_dir")), text("hash_type"), id, "pub");
    let mut bus = Subscriber::connect(socket)
        .map_err(|e| {
            log::debug!("cannot subscribe to the minion's event bus: {e}");
            false
        })?
        .with_prefix(answer);
    if !fire(ctx, tag, data) {
        return Err(false);
    }
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match bus.next(Some(left)) {
            Ok(Some(event)) => match msgpack::decode(&event.payload) {
                Ok(Value::Map(map)) => return Ok(map),
                _ => continue,
            },
            Ok(None) => return Err(true),
            Err(halite_ipc::Error::Event(_)) => {}
            Err(e) => {
                log::debug!("lost the minion's event bus: {e}");
                return Err(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn requests_are_recognized() {
        let body = |tag: &str| {
            let packed = msgpack::encode_map(&map! {"a" => 1}, msgpack::Profile::Local);
            Event::from_payload(tag, packed).unwrap().body()
        };
        assert_eq!(
            DaemonRequest::read(&body("pillar_refresh")),
            Some(DaemonRequest {
                tag: "pillar_refresh".into(),
                data: map! {"a" => 1},
            })
        );
        assert_eq!(DaemonRequest::read(&body("salt/job/1/ret/m1")), None);
        assert_eq!(DaemonRequest::read(b"pillar_refresh"), None);
    }

    #[test]
    fn nothing_is_fired_without_a_daemon() {
        let ctx = Context {
            opts: std::sync::Arc::new(map! {"sock_dir" => "/nonexistent"}),
            ..Context::default()
        };
        assert!(!fire(&ctx, "x", &Map::new()));
        let asked = fire_and_wait(&ctx, "x", &Map::new(), "y", Duration::from_secs(1));
        assert_eq!(asked, Err(false));
    }
}
