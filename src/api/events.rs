//! The event bus for clients that listen (reference `salt-api.md` 7): one reader, and a ring of the latest events for all.
//!
//! A listener is a place in the ring, so it costs little and holds up nobody. One that comes back tells the last event that it
//! has heard (`Last-Event-ID`), and goes on from there as long as the ring has it.

use bytes::{Bytes, BytesMut};
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_crypto::random_hex;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::fnmatch::Glob;
use halite_wire::pyjson;
use halite_wire::{Value, msgpack};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;

/// Most events of the ring.
const EVENTS: usize = 8192;
/// Most bytes of them.
const BYTES: usize = 8 << 20;
/// Largest event, in bytes.
const LARGEST: usize = 256 << 10;
/// Bytes that a listener is sent at a time; it may go over that by one event.
const CHUNK: usize = 64 << 10;
/// Events that a listener looks at before others have their turn.
const TURN: usize = 32;

/// An event of the ring.
struct Entry {
    number: u64,
    tag: String,
    payload: Vec<u8>,
    /// As it is sent: written when the first listener wants it.
    frame: OnceLock<Bytes>,
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
}

struct Shared {
    /// Numbers count from the start of this process, which this names.
    start: String,
    ring: Mutex<Ring>,
    /// The number of the next event.
    news: watch::Sender<u64>,
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tag: String, payload: Vec<u8>) {
        let mut ring = self.ring();
        let number = ring.next;
        ring.next += 1;
        ring.bytes += tag.len() + payload.len();
        let frame = OnceLock::new();
        ring.entries.push_back(Arc::new(Entry {
            number,
            tag,
            payload,
            frame,
        }));
        while ring.entries.len() > EVENTS || ring.bytes > BYTES {
            let Some(oldest) = ring.entries.pop_front() else {
                break;
            };
            ring.bytes -= oldest.tag.len() + oldest.payload.len();
        }
        drop(ring);
        self.news.send_replace(number + 1);
    }
}

/// The latest events, and those to come.
#[derive(Clone)]
pub struct Bus(Arc<Shared>);

impl Default for Bus {
    fn default() -> Bus {
        Bus(Arc::new(Shared {
            start: random_hex(4),
            ring: Mutex::default(),
            news: watch::channel(0).0,
        }))
    }
}

impl Bus {
    /// Starts the thread that reads the bus; it ends with the process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: &MasterConfig, stop: &StopFlag) -> Result<Bus, ExitError> {
        let bus = Bus::default();
        let (shared, path, stop) = (bus.0.clone(), config.event_pub(), stop.clone());
        let read = move || {
            let mut missed = || {};
            listen(path, &stop, &mut missed, &mut |event| {
                if event.payload.len() <= LARGEST {
                    shared.add(event.tag, event.payload);
                }
            });
        };
        let builder = std::thread::Builder::new().name("bus".into());
        builder.spawn(read)?;
        Ok(bus)
    }

    /// A listener to events with tags that match one of these globs, or to all if there are none: from now on, or after the event
    /// with this id.
    pub fn listener(&self, wanted: &[String], last: Option<&str>) -> Listener {
        let next = self.0.ring().next;
        let mut missed = false;
        let from = last.and_then(|last| {
            let (start, number) = last.split_once('-')?;
            let number = number.parse::<u64>().ok().filter(|n| *n < next);
            let from = number.filter(|_| start == self.0.start)?.checked_add(1);
            // It is of an earlier process.
            missed = from.is_none();
            from
        });
        missed |= last.is_some() && from.is_none();
        Listener {
            shared: self.0.clone(),
            news: self.0.news.subscribe(),
            next: from.unwrap_or(next),
            missed,
            wanted: wanted.iter().map(|glob| Glob::new(glob)).collect(),
        }
    }
}

/// What a listener hears next.
pub struct Next {
    /// How many events it has missed; `u64::MAX` if nobody knows.
    pub missed: u64,
    /// The events as they are sent to clients of server-sent events.
    pub frames: Vec<Bytes>,
}

/// A place in the ring.
pub struct Listener {
    shared: Arc<Shared>,
    news: watch::Receiver<u64>,
    /// The number of the next event that it has not looked at.
    next: u64,
    /// Whether it is to be told that it has missed some, of a number that nobody knows.
    missed: bool,
    wanted: Vec<Glob>,
}

impl Listener {
    /// What comes next as a client of server-sent events takes it.
    pub async fn frames(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let next = self.events().await;
        match next.missed {
            0 => {}
            u64::MAX => out.extend_from_slice(b": events were missed\n\n"),
            missed => {
                out.extend_from_slice(format!(": {missed} events were missed\n\n").as_bytes())
            }
        }
        for frame in next.frames {
            out.extend_from_slice(&frame);
        }
        out.freeze()
    }

    /// What comes next: events that are there, up to 64 KiB, or the next one.
    pub async fn events(&mut self) -> Next {
        loop {
            self.news.borrow_and_update();
            let (entries, lost) = self.ahead();
            let missed = match std::mem::take(&mut self.missed) {
                true => u64::MAX,
                false => lost,
            };
            let (mut frames, mut size) = (Vec::new(), 0);
            for entry in &entries {
                self.next = entry.number + 1;
                let is_wanted = self.wanted.iter().any(|glob| glob.matches(&entry.tag));
                if is_wanted || self.wanted.is_empty() {
                    let frame = || frame(&self.shared.start, entry);
                    let frame = entry.frame.get_or_init(frame).clone();
                    size += frame.len();
                    frames.push(frame);
                }
                if size >= CHUNK {
                    break;
                }
            }
            if missed > 0 || !frames.is_empty() {
                return Next { missed, frames };
            }
            match entries.is_empty() {
                // An error: the process ends.
                true if self.news.changed().await.is_err() => std::future::pending().await,
                true => {}
                // None of these was wanted: others have their turn.
                false => tokio::task::yield_now().await,
            }
        }
    }

    /// Some of what it has not looked at, and how much of that is gone.
    fn ahead(&mut self) -> (Vec<Arc<Entry>>, u64) {
        let ring = self.shared.ring();
        let first = ring.entries.front().map_or(ring.next, |one| one.number);
        let lost = first.saturating_sub(self.next);
        self.next = self.next.max(first);
        let skip = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        let entries = ring.entries.iter().skip(skip).take(TURN);
        (entries.cloned().collect(), lost)
    }
}

/// An event as stock sends it: `tag` is for people, `data` has both. The id is ours.
fn frame(start: &str, entry: &Entry) -> Bytes {
    let data = msgpack::decode(&entry.payload).ok();
    let data = data.and_then(Value::into_map).unwrap_or_default();
    let map = halite_wire::map! {"data" => data, "tag" => entry.tag.as_str()};
    // A tag of one line: whoever fires an event must not make others of it.
    let line: String = entry.tag.chars().filter(|c| !c.is_control()).collect();
    let data = pyjson::dumps(&map.into());
    let number = entry.number;
    Bytes::from(format!(
        "tag: {line}\ndata: {data}\nid: {start}-{number}\n\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::msgpack::Profile;

    fn add(bus: &Bus, tag: &str) {
        let data = halite_wire::map! {"x" => "a\n\nb", "n" => 1};
        let packed = msgpack::encode_map(&data, Profile::Wire);
        bus.0.add(tag.to_owned(), packed);
    }

    async fn hear(listener: &mut Listener) -> String {
        String::from_utf8(listener.frames().await.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_event_is_one_frame() {
        let bus = Bus::default();
        let mut listener = bus.listener(&[], None);
        add(&bus, "salt/a\n\ndata: forged");
        let start = &bus.0.start;
        assert_eq!(
            hear(&mut listener).await,
            format!(
                "tag: salt/adata: forged\n\
                 data: {{\"data\": {{\"x\": \"a\\n\\nb\", \"n\": 1}}, \"tag\": \"salt/a\\n\\ndata: forged\"}}\n\
                 id: {start}-0\n\n"
            )
        );
    }

    #[tokio::test]
    async fn a_listener_hears_what_it_wants_and_goes_on_where_it_was() {
        let bus = Bus::default();
        let mut some = bus.listener(&["job/*".to_owned()], None);
        for tag in ["a", "job/1", "b", "job/2"] {
            add(&bus, tag);
        }
        let heard = hear(&mut some).await;
        assert_eq!(heard.matches("tag: ").count(), 2, "{heard}");
        assert!(heard.contains("tag: job/1\n") && heard.contains("tag: job/2\n"));
        let tags = |heard: &str| -> Vec<String> {
            let lines = heard.lines().filter_map(|line| line.strip_prefix("tag: "));
            lines.map(str::to_owned).collect()
        };
        let id = format!("{}-1", bus.0.start);
        let heard = hear(&mut bus.listener(&[], Some(&id))).await;
        assert_eq!(tags(&heard), ["b", "job/2"]);
        // Of another process, of the future, or nonsense: it is told, and goes on from now.
        for last in ["00000000-1", &format!("{}-9", bus.0.start), "x"] {
            let mut listener = bus.listener(&[], Some(last));
            let heard = hear(&mut listener).await;
            assert_eq!(heard, ": events were missed\n\n", "{last}");
            add(&bus, "c");
            assert_eq!(tags(&hear(&mut listener).await), ["c"]);
        }
    }

    #[tokio::test]
    async fn the_ring_is_bounded() {
        let bus = Bus::default();
        let mut slow = bus.listener(&[], None);
        for _ in 0..EVENTS + 10 {
            add(&bus, "a");
        }
        assert!(hear(&mut slow).await.starts_with(": 10 events were missed"));
        let large = vec![0xc0; LARGEST];
        for _ in 0..100 {
            bus.0.add("large".into(), large.clone());
        }
        assert!(bus.0.ring().bytes <= BYTES);
    }
}
