//! Events with a sequence number, and what each listener must have heard of them.

use crate::swarm::session::Load;
use halite_wire::Map;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Text in every event besides its number: about as much as in a start event.
const TEXT: &str =
    "event of a simulated minion: the quick brown fox jumps over the lazy dog, twice and again";
/// Bit in an entry of `sent` for an event that was sent more than once.
const AGAIN: u64 = 1 << 63;

/// Events of one run.
#[derive(Debug)]
pub struct Events {
    prefix: String,
    origin: Instant,
    /// Nanoseconds from `origin` to the sending, plus one; 0 if not sent yet.
    sent: Vec<AtomicU64>,
    next: AtomicU64,
}

impl Events {
    /// A run of up to `count` events. `run` distinguishes it from others on the same bus.
    pub fn new(run: &str, count: u64) -> Arc<Events> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Arc::new(Events {
            prefix: format!("swarm/{run}/"),
            origin: Instant::now(),
            sent: std::iter::repeat_with(AtomicU64::default)
                .take(count)
                .collect(),
            next: AtomicU64::new(0),
        })
    }

    /// Common prefix of the tags of this run.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The next event: its number and the request (reference 8; a single event, fired with the whole load as
    /// data).
    pub fn next(&self) -> (u64, Arc<Load>) {
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        let load = halite_wire::map! {
            "cmd" => "_minion_event", "tag" => format!("{}{number}", self.prefix).as_str(),
            "pretag" => halite_wire::Value::Nil,
            "data" => halite_wire::map! {"number" => number, "text" => TEXT},
        };
        (number, Arc::new(Load::new(&load)))
    }

    /// Records that an event is being sent.
    pub fn sending(&self, number: u64, now: Instant) {
        let nanos = now.saturating_duration_since(self.origin).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(AGAIN) % AGAIN + 1;
        let slot = usize::try_from(number).ok().and_then(|n| self.sent.get(n));
        if let Some(slot) = slot {
            let first = slot.compare_exchange(0, nanos, Ordering::AcqRel, Ordering::Acquire);
            if first.is_err() {
                slot.fetch_or(AGAIN, Ordering::AcqRel);
            }
        }
    }
}

/// What one listener has heard of a run.
#[derive(Debug)]
pub struct EventTally {
    events: Arc<Events>,
    heard: Vec<bool>,
    count: Arc<AtomicU64>,
}

impl EventTally {
    /// An empty tally.
    pub fn new(events: &Arc<Events>) -> EventTally {
        EventTally {
            heard: vec![false; events.sent.len()],
            events: events.clone(),
            count: Arc::default(),
        }
    }

    /// Number of different events heard correctly, for waiting.
    pub fn count(&self) -> Arc<AtomicU64> {
        self.count.clone()
    }

    /// Checks an event of this run. Returns the time since it was sent; `None` if it was sent more than once,
    /// so that duplicates are legitimate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn hear(
        &mut self,
        tag: &str,
        data: Option<&Map>,
        now: Instant,
    ) -> Result<Option<Duration>, &'static str> {
        let number = tag.strip_prefix(self.events.prefix());
        let number = number.and_then(|n| n.parse::<usize>().ok());
        let slot = number.and_then(|n| Some((n, self.events.sent.get(n)?, self.heard.get_mut(n)?)));
        let Some((number, sent, heard)) = slot else {
            return Err("an event was heard that nobody sent");
        };
        let sent = sent.load(Ordering::Acquire);
        if sent == 0 {
            return Err("an event was heard that nobody sent");
        }
        let inner = data.and_then(|map| map.get("data")?.as_map());
        let unharmed = data.is_some_and(|map| map.str("tag") == Some(tag))
            && inner.is_some_and(|inner| {
                inner.int("number") == i64::try_from(number).ok()
                    && inner.str("text") == Some(TEXT)
                    && inner.len() == 2
            });
        if !unharmed {
            return Err("an event does not hold what was sent");
        }
        if *heard {
            return if sent & AGAIN == 0 {
                Err("an event was heard twice")
            } else {
                Ok(None)
            };
        }
        *heard = true;
        self.count.fetch_add(1, Ordering::AcqRel);
        if sent & AGAIN != 0 {
            return Ok(None);
        }
        let at = self.events.origin + Duration::from_nanos(sent - 1);
        Ok(Some(now.saturating_duration_since(at)))
    }

    /// All errors at the end, with their number: events that were sent and never heard.
    pub fn close(&self) -> BTreeMap<String, u64> {
        let sent = self.events.sent.iter().map(|s| s.load(Ordering::Acquire));
        let lost = sent
            .zip(&self.heard)
            .filter(|(sent, heard)| *sent != 0 && !**heard);
        match lost.count() {
            0 => BTreeMap::new(),
            n => BTreeMap::from([("a listener did not hear an event".to_owned(), n as u64)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(tag: &str, number: u64) -> Map {
        halite_wire::map! {
            "cmd" => "_minion_event", "id" => "sw-0", "tag" => tag,
            "data" => halite_wire::map! {"number" => number, "text" => TEXT},
        }
    }

    fn sent() -> (Arc<Events>, EventTally) {
        let events = Events::new("r", 3);
        for _ in 0..2 {
            let (number, _) = events.next();
            events.sending(number, Instant::now());
        }
        let heard = EventTally::new(&events);
        (events, heard)
    }

    #[test]
    fn each_event_is_heard_once() {
        let (_, mut heard) = sent();
        for n in 0..2 {
            let tag = format!("swarm/r/{n}");
            let took = heard.hear(&tag, Some(&data(&tag, n)), Instant::now());
            assert!(took.unwrap().is_some());
        }
        assert_eq!(heard.count().load(Ordering::Acquire), 2);
        assert!(heard.close().is_empty());
        let again = heard.hear("swarm/r/0", Some(&data("swarm/r/0", 0)), Instant::now());
        assert_eq!(again, Err("an event was heard twice"));
    }

    #[test]
    fn lost_invented_and_tampered_events_are_wrong() {
        let (_, mut heard) = sent();
        let mut hear = |tag: &str, data: Option<&Map>| heard.hear(tag, data, Instant::now());
        for tag in ["swarm/r/2", "swarm/r/3", "swarm/r/x", "swarm/q/0"] {
            assert!(hear(tag, Some(&data(tag, 2))).is_err(), "{tag}");
        }
        let tag = "swarm/r/0";
        assert!(hear(tag, None).is_err());
        assert!(hear(tag, Some(&data("swarm/r/1", 0))).is_err());
        assert!(hear(tag, Some(&data(tag, 1))).is_err());
        let mut harmed = data(tag, 0);
        harmed.set("data", halite_wire::map! {"number" => 0, "text" => "x"});
        assert!(hear(tag, Some(&harmed)).is_err());
        assert_eq!(heard.close().into_values().sum::<u64>(), 2);
    }

    #[test]
    fn an_event_that_was_repeated_may_come_twice() {
        let (events, mut heard) = sent();
        events.sending(1, Instant::now());
        for _ in 0..2 {
            let data = data("swarm/r/1", 1);
            assert_eq!(
                heard.hear("swarm/r/1", Some(&data), Instant::now()),
                Ok(None)
            );
        }
    }
}
