//! Listeners on a master's event bus, each in a dedicated thread.

use super::stats::{Op, Stats};
use super::tally::event_data;
use super::work::events::{EventTally, Events};
use halite_ipc::{DROPPED, Error, Event, Subscriber};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a listener checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A listener; its thread stops soon after it is dropped.
pub struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Stats>>,
}

impl Listener {
    /// Listens on `master_event_pub.ipc` in `sock_dir` and passes every event whose tag starts with one of
    /// `prefixes` to `each`, with the time when it was read. A connection that closes early and events dropped
    /// by the bus count as errors.
    ///
    /// # Errors
    /// Nobody listens on the socket.
    pub fn start(
        sock_dir: &Path,
        prefixes: &[String],
        mut each: impl FnMut(&Event, Instant, &mut Stats) + Send + 'static,
    ) -> io::Result<Listener> {
        let path = halite_config::paths::master::event_pub(sock_dir);
        let mut bus =
            Subscriber::connect(&path).map_err(|e| io::Error::other(format!("--sock-dir: {e}")))?;
        for prefix in prefixes {
            bus = bus.with_prefix(prefix);
        }
        bus = bus.with_prefix(DROPPED);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("swarm-bus".into());
        let thread = thread.spawn(move || {
            let mut stats = Stats::default();
            while !told.load(Ordering::Acquire) {
                match bus.next(Some(LOOK)) {
                    Ok(Some(event)) if event.tag == DROPPED => {
                        stats.error("the bus dropped events for a listener")
                    }
                    Ok(Some(event)) => each(&event, Instant::now(), &mut stats),
                    Ok(None) => {}
                    Err(Error::Event(e)) => stats.error(format!("an event cannot be read: {e}")),
                    Err(e) => {
                        stats.error(format!("the event bus ended: {e}"));
                        break;
                    }
                }
            }
            stats
        })?;
        Ok(Listener {
            stop,
            thread: Some(thread),
        })
    }

    /// Whether its thread has stopped already, which it does when the bus is gone.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it and returns what it counted.
    ///
    /// # Errors
    /// Its thread panicked.
    pub fn finish(mut self) -> io::Result<Stats> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(stats)) => Ok(stats),
            _ => Err(io::Error::other("a listener panicked")),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// A listener for the events of a run.
pub struct EventListener {
    listener: Listener,
    heard: Arc<Mutex<EventTally>>,
    count: Arc<AtomicU64>,
}

impl EventListener {
    /// Listens on the bus in `sock_dir`. Start it before minions sign in: a bus accepts listeners in between
    /// serving others.
    ///
    /// # Errors
    /// The bus cannot be reached.
    pub fn open(sock_dir: &Path, events: &Arc<Events>) -> io::Result<EventListener> {
        let heard = EventTally::new(events);
        let count = heard.count();
        let heard = Arc::new(Mutex::new(heard));
        let own = heard.clone();
        let prefixes = [events.prefix().to_owned()];
        let listener = Listener::start(sock_dir, &prefixes, move |event, at, stats| {
            let Ok(mut heard) = own.lock() else { return };
            match heard.hear(&event.tag, event_data(&event.payload).as_ref(), at) {
                Ok(Some(took)) => stats.done(Op::EventHeard, took),
                Ok(None) => stats.note("events sent more than once"),
                Err(why) => stats.error(why),
            }
        })?;
        Ok(EventListener {
            listener,
            heard,
            count,
        })
    }

    /// Waits until `count` events were heard; returns `false` if `stop` returns true, the listener has stopped
    /// or nothing arrived for `patience`.
    pub fn wait(&self, count: u64, patience: Duration, stop: &dyn Fn() -> bool) -> bool {
        let (mut last, mut moved) = (0, Instant::now());
        loop {
            let now = self.count.load(Ordering::Acquire);
            if now >= count {
                return true;
            }
            if now != last {
                (last, moved) = (now, Instant::now());
            }
            if stop() || moved.elapsed() > patience || self.listener.ended() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it and returns what it counted, including events it has not heard.
    ///
    /// # Errors
    /// Its thread panicked.
    pub fn finish(self) -> io::Result<Stats> {
        let mut stats = self.listener.finish()?;
        let lost = self.heard.lock().map(|h| h.close()).unwrap_or_default();
        for (what, count) in lost {
            *stats.errors.entry(what).or_default() += count;
        }
        Ok(stats)
    }
}
