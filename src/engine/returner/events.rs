//! The queue of events for one destination: filtering, bounds, and when they are written.

use super::named;
use super::sink::Sink;
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::PEER;
use halite_sys::signals::StopFlag;
use halite_target::Glob;
use halite_wire::msgpack;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most events, and bytes of their data, waiting for one destination.
const MOST_EVENTS: usize = 50_000;
const MOST_BYTES: usize = 64 << 20;
/// Most events and bytes in one write.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 8 << 20;
/// Time between messages about lost events.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Which tags are written (`salt/utils/event.py EventReturn._filter`).
struct Filter {
    white: Vec<Glob>,
    black: Vec<Glob>,
}

impl Filter {
    fn new(config: &MasterConfig) -> Filter {
        let globs = |list: &[String]| list.iter().map(|glob| Glob::new(glob)).collect();
        Filter {
            white: globs(&config.event_return_whitelist),
            black: globs(&config.event_return_blacklist),
        }
    }

    fn admits(&self, tag: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tag));
        (self.white.is_empty() || any(&self.white)) && !any(&self.black)
    }
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Since when the first of them has waited.
    since: Option<Instant>,
    lost: u64,
    reported: u64,
    said: Option<Instant>,
}

/// Events waiting for one destination.
pub struct EventQueue {
    returner: &'static str,
    filter: Filter,
    in_cluster: bool,
    /// `event_return_queue`: number of events collected before a write.
    collect: usize,
    /// `event_return_queue_max_seconds`.
    longest: Option<Duration>,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

/// Starts the thread that writes to `sink`.
pub fn start(
    config: &MasterConfig,
    mut sink: Sink,
    stop: &StopFlag,
) -> (Arc<EventQueue>, JoinHandle<()>) {
    let queue = Arc::new(EventQueue::new(config, sink.name));
    let (own, stop) = (queue.clone(), stop.clone());
    let thread = std::thread::spawn(move || {
        loop {
            // Read before the queue, so that events queued before the stop are still written.
            let ending = stop.is_set();
            let batch = own.take(ending);
            if batch.is_empty() && ending {
                return;
            }
            if !batch.is_empty() && !sink.write(&batch, &stop, |store, rows| store.events(rows)) {
                return;
            }
            own.report();
        }
    });
    (queue, thread)
}

/// Whether it comes from another master of the cluster, which writes it.
fn is_of_peer(event: &Event) -> bool {
    let data = msgpack::decode(&event.payload).ok();
    data.is_some_and(|data| data.as_map().is_some_and(|data| data.contains(PEER)))
}

impl EventQueue {
    fn new(config: &MasterConfig, returner: &'static str) -> EventQueue {
        let longest = config.event_return_queue_max_seconds;
        EventQueue {
            returner,
            filter: Filter::new(config),
            in_cluster: config.cluster().is_some(),
            collect: (config.event_return_queue as usize).min(MOST_EVENTS),
            longest: (longest > 0).then(|| Duration::from_secs(longest)),
            waiting: Mutex::default(),
            more: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No panic can leave it half changed.
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues an event if the filter admits it; drops and counts it if the queue is full.
    pub fn add(&self, event: &Arc<Event>) {
        if !self.filter.admits(&event.tag) || (self.in_cluster && is_of_peer(event)) {
            return;
        }
        let mut waiting = self.lock();
        let bytes = event.payload.len();
        let full = waiting.events.len() >= MOST_EVENTS || waiting.bytes + bytes > MOST_BYTES;
        if full && !waiting.events.is_empty() {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += bytes;
        waiting.events.push_back(event.clone());
        waiting.since.get_or_insert_with(Instant::now);
        if waiting.events.len() >= self.collect {
            self.more.notify_one();
        }
    }

    /// Numbers of waiting and of lost events.
    pub fn state(&self) -> (usize, u64) {
        let waiting = self.lock();
        (waiting.events.len(), waiting.lost)
    }

    /// Waits briefly until a write is due; returns its events, empty if none is due.
    fn take(&self, ending: bool) -> Vec<Arc<Event>> {
        let mut waiting = self.lock();
        if !ending && !self.due(&waiting) {
            let moment = Duration::from_millis(100);
            waiting = match self.more.wait_timeout(waiting, moment) {
                Ok((guard, _)) => guard,
                Err(e) => e.into_inner().0,
            };
        }
        if !ending && !self.due(&waiting) {
            return Vec::new();
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(event) = waiting.events.pop_front() else {
                break;
            };
            bytes += event.payload.len();
            batch.push(event);
        }
        waiting.bytes -= bytes;
        waiting.since = (!waiting.events.is_empty()).then(Instant::now);
        batch
    }

    fn due(&self, waiting: &Waiting) -> bool {
        let old = |at: Instant| self.longest.is_some_and(|longest| at.elapsed() >= longest);
        !waiting.events.is_empty()
            && (waiting.events.len() >= self.collect || waiting.since.is_some_and(old))
    }

    /// Logs how many were lost, at most once a minute.
    fn report(&self) {
        let mut waiting = self.lock();
        let lost = waiting.lost - waiting.reported;
        if lost == 0 || waiting.said.is_some_and(|at| at.elapsed() < SAY_AGAIN) {
            return;
        }
        waiting.reported = waiting.lost;
        waiting.said = Some(Instant::now());
        let all = waiting.lost;
        log::warn!(
            "{}",
            named(
                self.returner,
                &format!("too slow, {lost} events were dropped, {all} in all")
            )
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn queue(options: halite_wire::Map) -> EventQueue {
        let config = MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap();
        EventQueue::new(&config, "rawfile_json")
    }

    fn event(tag: &str) -> Arc<Event> {
        Arc::new(Event::new(tag, &halite_wire::map! {"n" => 1}).unwrap())
    }

    #[test]
    fn lists_decide_which_tags_pass() {
        let list = |glob: &str| vec![glob.to_owned()];
        let both = queue(halite_wire::map! {
            "event_return_whitelist" => list("salt/job/*"), "event_return_blacklist" => list("*/new"),
        });
        for (tag, passes) in [
            ("salt/job/1/ret/a", true),
            ("salt/job/1/new", false),
            ("x", false),
        ] {
            assert_eq!(both.filter.admits(tag), passes, "{tag}");
        }
        assert!(queue(halite_wire::map! {}).filter.admits("anything"));
    }

    #[test]
    fn events_are_collected() {
        let queue = queue(halite_wire::map! {"event_return_queue" => 3});
        queue.add(&event("a"));
        queue.add(&event("b"));
        assert!(queue.take(false).is_empty());
        queue.add(&event("c"));
        assert_eq!(queue.take(false).len(), 3);
        queue.add(&event("d"));
        assert_eq!(queue.take(true).len(), 1, "at the end all goes out");
    }

    #[test]
    fn old_events_do_not_wait_for_more() {
        let mut queue = queue(halite_wire::map! {"event_return_queue" => 3});
        queue.longest = Some(Duration::ZERO);
        queue.add(&event("a"));
        assert_eq!(queue.take(false).len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let queue = queue(halite_wire::map! {});
        let one = event("a");
        for _ in 0..MOST_EVENTS + 5 {
            queue.add(&one);
        }
        assert_eq!(queue.lock().lost, 5);
        assert_eq!(queue.take(false).len(), BATCH);
    }
}
