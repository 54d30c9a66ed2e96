//! Firing events on the master's bus from a role process.

use halite_config::MasterConfig;
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_sys::log_limiter::LogLimiter;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The tags of all events of the REST service's hooks begin with this (`salt/netapi/rest_cherrypy/app.py Webhook`).
pub const HOOKS: &str = "salt/netapi/hook";

/// Replacement for a value that is too large for the bus (`salt/utils/dicttrim.py`).
pub const TRIMMED: &str = "VALUE_TRIMMED";
/// Largest event that the bus accepts, in bytes of packed data.
pub const LARGEST_EVENT: usize = 16 << 20;
/// User name of the reactor; events of this user trigger no reactions, so that those cannot cause each other.
pub const REACTOR_USER: &str = "Reactor";
/// The master of the cluster from which an event or a stored job comes, if that is another one; Salt's name.
pub const PEER: &str = "__peer_id";
/// How long a role waits for an EventPublisher that is restarting.
const PATIENCE: Duration = Duration::from_secs(3);

/// The sending end of the bus.
pub struct Bus {
    path: PathBuf,
    publisher: Option<Publisher>,
    stamp: StampStyle,
    largest: usize,
    lost: u64,
    said: LogLimiter,
}

impl Bus {
    /// The bus below the `sock_dir` of `config`; connects on first use.
    pub fn new(config: &MasterConfig) -> Bus {
        Bus {
            path: config.event_pull(),
            publisher: None,
            stamp: config.salt_series.stamp_style(),
            largest: usize::try_from(config.max_event_size).unwrap_or(usize::MAX),
            lost: 0,
            said: LogLimiter::default(),
        }
    }

    /// Fires `data` under `tag`, with a time stamp. An event that cannot be delivered is counted and logged:
    /// the caller's own work must not fail because of it.
    pub fn fire(&mut self, tag: &str, data: Map) {
        self.fire_all(vec![(tag.to_owned(), data)]);
    }

    /// Fires several events in order, with one write.
    pub fn fire_all(&mut self, events: Vec<(String, Map)>) {
        let stamp = halite_ipc::stamp_now(self.stamp);
        let stamped = events.into_iter().map(|(tag, mut data)| {
            data.set("_stamp", stamp.as_str());
            Event {
                tag,
                payload: trimmed(data, self.largest),
            }
        });
        let events: Vec<Event> = stamped.collect();
        let Some(last) = events.last() else { return };
        if let Err(e) = self.push(&events) {
            self.lost += events.len() as u64;
            self.said.add(events.len() as u64);
            if let Some(n) = self.said.due(Instant::now()) {
                log::error!(
                    "{n} events, the last of them {}, could not be fired ({e}); {} lost so far",
                    last.tag,
                    self.lost
                );
            }
        }
    }

    /// Number of events that could not be delivered.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn push(&mut self, events: &[Event]) -> Result<(), halite_ipc::Error> {
        let end = Instant::now() + PATIENCE;
        loop {
            let tried = self.try_push(events);
            if tried.is_ok() || Instant::now() > end {
                return tried;
            }
            self.publisher = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_push(&mut self, events: &[Event]) -> Result<(), halite_ipc::Error> {
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            // The events have time stamps already.
            slot => {
                slot.insert(Publisher::connect(&self.path, Framing::Prefixed)?.with_stamp(None))
            }
        };
        publisher.fire_all(events)
    }
}

/// Encodes an event. If it is larger than `limit` bytes, values that take a large part of it become `VALUE_TRIMMED`,
/// also in maps inside of maps: first those over half of `limit`, down to a tenth. An event of many small values stays
/// whole (`salt/utils/dicttrim.py trim_dict`) up to [`LARGEST_EVENT`].
pub fn trimmed(mut data: Map, limit: usize) -> Vec<u8> {
    let mut payload = msgpack::encode_map(&data, Profile::Local);
    for percent in [50, 40, 30, 20, 10] {
        if payload.len() <= limit {
            return payload;
        }
        if trim(&mut data, limit / 100 * percent) {
            payload = msgpack::encode_map(&data, Profile::Local);
        }
    }
    while payload.len() > LARGEST_EVENT {
        let size = |v: &Value| msgpack::encode(v, Profile::Local).len();
        let largest = data.0.iter_mut().max_by_key(|(_, v)| size(v));
        match largest {
            Some((_, value)) if !value.is_str(TRIMMED) => *value = TRIMMED.into(),
            // Nothing is left to trim; the bus will refuse it with an error.
            _ => break,
        }
        payload = msgpack::encode_map(&data, Profile::Local);
    }
    payload
}

/// Replaces values for which Python would need more than `most` bytes; maps are looked into instead. Returns whether there
/// was one.
fn trim(data: &mut Map, most: usize) -> bool {
    let mut found = false;
    for (_, value) in &mut data.0 {
        // `sys.getsizeof`, which does not count the items of a list.
        let size = match value {
            Value::Map(inner) => {
                found |= trim(inner, most);
                continue;
            }
            Value::Str(text) => 49 + text.len(),
            Value::Bytes(bytes) => 33 + bytes.len(),
            Value::Array(items) => 56 + 8 * items.len(),
            _ => 28,
        };
        if size > most {
            *value = TRIMMED.into();
            found = true;
        }
    }
    found
}

/// Whether a value of an event, or in maps inside of it, was trimmed. The job cache has returns complete.
pub fn is_trimmed(data: &Map) -> bool {
    data.iter().any(|(_, value)| match value {
        Value::Map(inner) => is_trimmed(inner),
        value => value.is_str(TRIMMED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_gives_way() {
        let data = halite_wire::map! {"id" => "m", "return" => "x".repeat(5000), "jid" => "1"};
        let small = trimmed(data.clone(), 1000);
        let got = msgpack::decode(&small).unwrap().into_map().unwrap();
        assert_eq!(
            (got.str("return"), got.str("id")),
            (Some(TRIMMED), Some("m"))
        );
        assert!(is_trimmed(&got) && !is_trimmed(&data));
        assert_eq!(
            trimmed(data.clone(), 10_000),
            msgpack::encode_map(&data, Profile::Local)
        );
    }

    #[test]
    fn large_values_inside_give_way_and_many_small_ones_stay() {
        let inner = halite_wire::map! {"big" => "x".repeat(5000), "small" => 1};
        let data = halite_wire::map! {"return" => halite_wire::map! {"a" => inner}};
        let got = msgpack::decode(&trimmed(data, 1000))
            .unwrap()
            .into_map()
            .unwrap();
        let a = got
            .get("return")
            .and_then(|r| r.as_map()?.get("a")?.as_map())
            .unwrap();
        assert_eq!((a.str("big"), a.int("small")), (Some(TRIMMED), Some(1)));
        assert!(is_trimmed(&got));

        let entries: Map = (0..1000).map(|n| (n.to_string(), "y".repeat(10))).collect();
        let data = halite_wire::map! {"return" => entries};
        assert_eq!(
            trimmed(data.clone(), 5000),
            msgpack::encode_map(&data, Profile::Local)
        );
        let items: Vec<String> = (0..20).map(|_| "z".repeat(LARGEST_EVENT / 19)).collect();
        let huge = halite_wire::map! {"return" => items, "id" => "m"};
        let got = msgpack::decode(&trimmed(huge, 5000))
            .unwrap()
            .into_map()
            .unwrap();
        assert_eq!(
            (got.str("return"), got.str("id")),
            (Some(TRIMMED), Some("m"))
        );
    }
}
