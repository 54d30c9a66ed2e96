//! Events of the buses of all masters. As on a bus, what nobody takes in time is lost; it is counted.
//!
//! Of jobs and keys each master tells its own bus, when it has stored what it heard. Everything else is told here, at most once.

use crate::digest;
use crate::pieces::Voice;
use halite_crypto::ClusterSecret;
use halite_master::events::PEER;
use halite_master::job_news::news_of;
use halite_sys::time::unix_now;
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Most bytes of events in a message.
const FULL: usize = 256 << 10;
/// Largest event that is told: NATS takes messages of 1 MiB.
const LARGEST: usize = 700 << 10;
/// Most bytes of events that wait.
const MOST_WAITING: usize = 8 << 20;
/// How old a message may be by the clocks, in seconds: somebody may have kept it.
const RECENT: u64 = 300;
/// What it is about.
const PURPOSE: &str = "events";

/// An event: tag and encoded data.
pub type Told = (String, Vec<u8>);

/// Whether the other masters are to hear of an event of this master's bus.
pub fn is_for_others(tag: &str, payload: &[u8]) -> bool {
    let of_each = tag == "salt/key" || tag == "key" || tag.starts_with("halite/bus/");
    let is_jid = tag.len() == 20 && tag.bytes().all(|b| b.is_ascii_digit());
    let is_of_job = news_of(tag).is_some() && tag.starts_with("salt/job/");
    if of_each || is_jid || is_of_job {
        return false;
    }
    let has_name = payload.windows(PEER.len()).any(|at| at == PEER.as_bytes());
    // Minions may write that name anywhere in an event.
    !has_name || decode(payload).is_some_and(|data| !data.contains(PEER))
}

fn decode(payload: &[u8]) -> Option<Map> {
    msgpack::decode_load(payload, Budget::of(payload.len())).ok()
}

/// Events to and from other masters.
#[derive(Default)]
pub struct EventShare {
    voice: Option<Voice>,
    waiting: Vec<Told>,
    bytes: usize,
    /// Events that were not told, since there were too many, or one was too large.
    pub dropped: u64,
}

impl EventShare {
    /// This master is a member, as this start.
    pub fn join(&mut self, secret: &ClusterSecret, mark: &str, origin: &str) {
        self.voice = Some(Voice::new(secret, mark, PURPOSE, origin));
    }

    /// The connection is lost: what waits is, too.
    pub fn down(&mut self) {
        self.dropped += self.waiting.len() as u64;
        (self.waiting, self.bytes) = (Vec::new(), 0);
    }

    /// An event of this master's bus.
    pub fn add(&mut self, tag: String, payload: Vec<u8>) {
        let size = tag.len() + payload.len();
        if size > LARGEST || self.bytes + size > MOST_WAITING {
            self.dropped += 1;
            return;
        }
        self.bytes += size;
        self.waiting.push((tag, payload));
    }

    /// The pieces of the next messages.
    pub fn messages(&mut self) -> Vec<Vec<Vec<u8>>> {
        let Some(voice) = &mut self.voice else {
            return Vec::new();
        };
        self.bytes = 0;
        let mut out = Vec::new();
        let mut events = std::mem::take(&mut self.waiting).into_iter().peekable();
        while events.peek().is_some() {
            let (mut size, mut batch) = (0, Vec::new());
            while let Some((tag, payload)) =
                events.next_if(|(tag, data)| size == 0 || size + tag.len() + data.len() <= FULL)
            {
                size += tag.len() + payload.len();
                batch.push(Value::Array(vec![tag.into(), Value::Bytes(payload)]));
            }
            let map = halite_wire::map! {"events" => Value::Array(batch), "at" => unix_now()};
            let plain = msgpack::encode_map(&map, Profile::Local);
            // It is small enough.
            out.extend(voice.teller.seal(&plain).ok());
        }
        out
    }

    /// The events of a message, with the id of their master; empty if it is this one's own, was there before or is not complete yet, `None` if
    /// no master has sealed it.
    pub fn take(&mut self, origin: &str, bytes: &[u8]) -> Option<Vec<(String, Map)>> {
        let voice = self.voice.as_mut()?;
        if voice.is_own(origin) {
            return Some(Vec::new());
        }
        let (peer, opened) = voice.open(origin, bytes).ok()?;
        let Some(plain) = opened else {
            return Some(Vec::new());
        };
        let map = msgpack::decode_load(&plain, Budget::of(plain.len())).ok()?;
        // A master that has just started does not know what was told before.
        let is_old =
            |at: &Value| digest::number(at).is_none_or(|at| at.abs_diff(unix_now()) > RECENT);
        if map.get("at").is_some_and(is_old) {
            return None;
        }
        let event = |value: &Value| {
            let [tag, payload] = value.as_array()? else {
                return None;
            };
            let mut data = decode(payload.as_bytes()?)?;
            data.set(PEER, peer.as_str());
            Some((tag.as_str()?.to_owned(), data))
        };
        let events = map.get("events")?.as_array()?;
        Some(events.iter().filter_map(event).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(origin: &str) -> EventShare {
        let secret = ClusterSecret::new(&"a".repeat(32), "c").unwrap();
        let mut share = EventShare::default();
        share.join(&secret, "mark", origin);
        share
    }

    fn payload(data: &Map) -> Vec<u8> {
        msgpack::encode_map(data, Profile::Local)
    }

    #[test]
    fn events_arrive_once_and_only_from_masters() {
        let [mut one, mut two] = [share("one.a"), share("two.b")];
        let data = halite_wire::map! {"n" => 1};
        one.add("my/tag".into(), payload(&data));
        let origin = "one.a";
        let sealed = one.messages().remove(0).remove(0);
        assert_eq!(one.take(origin, &sealed), Some(Vec::new()));
        let expected = halite_wire::map! {"n" => 1, PEER => "one"};
        let events = vec![("my/tag".to_owned(), expected)];
        assert_eq!(two.take(origin, &sealed), Some(events));
        assert_eq!(two.take(origin, &sealed), Some(Vec::new()));
        assert_eq!(two.take("three.c", &sealed), None);
        assert_eq!(two.take(origin, b"garbage"), None);
    }

    #[test]
    fn messages_are_bounded() {
        let mut one = share("one.a");
        for size in [100 << 10, 200 << 10, 600 << 10, 800 << 10] {
            one.add("tag".into(), vec![0; size]);
        }
        assert_eq!((one.messages().len(), one.dropped), (3, 1));
        (0..100).for_each(|_| one.add("tag".into(), vec![0; 600 << 10]));
        assert_eq!(one.dropped, 1 + 100 - 13);
    }

    #[test]
    fn what_each_master_tells_itself_is_not_told() {
        let plain = payload(&halite_wire::map! {"text" => PEER});
        let of_peer = payload(&halite_wire::map! {PEER => "one"});
        for (tag, data, expected) in [
            ("my/tag", &plain, true),
            ("my/tag", &of_peer, false),
            ("salt/key", &plain, false),
            ("salt/auth", &plain, true),
            ("20261121092637195592", &plain, false),
            ("salt/job/20261121092637195592/new", &plain, false),
            ("salt/job/20261121092637195592/ret/m", &plain, false),
            ("salt/job/20261121092637195592/prog/m/1", &plain, true),
            ("salt/run/20261121092637195592/ret", &plain, true),
        ] {
            assert_eq!(is_for_others(tag, data), expected, "{tag}");
        }
    }
}
