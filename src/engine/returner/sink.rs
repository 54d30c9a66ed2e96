//! Destinations of rows, with retries.

use super::named;
use halite_config::{MasterConfig, Returner};
use halite_returners::{Opener, Store, StoreError};
use halite_sys::signals::StopFlag;
use std::time::{Duration, Instant};

/// Longest pause between attempts; pauses double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Time between messages about the same problem.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// A store to which writes are retried.
pub struct Sink {
    /// The returner, for messages and file names.
    pub name: &'static str,
    store: Box<dyn Store>,
    refused: u64,
    said: Option<Instant>,
}

impl Sink {
    /// A sink that is not connected yet.
    pub fn new(config: &MasterConfig, returner: Returner) -> Sink {
        let store = crate::open_returner(&Opener {
            settings: config.returner(returner),
            id: &config.id,
            keep: config.keep_jobs_seconds,
            product: config.flavour.name(),
            program: "halite-master",
        });
        Sink::with_store(returner.name(), store)
    }

    /// A sink over a given store.
    pub fn with_store(name: &'static str, store: Box<dyn Store>) -> Sink {
        Sink {
            name,
            store,
            refused: 0,
            said: None,
        }
    }

    /// Retries until everything is written or `stop` is set; returns whether it is written. Rows that the
    /// database refuses are skipped and counted.
    pub fn write<T>(
        &mut self,
        rows: &[T],
        stop: &StopFlag,
        store: fn(&mut dyn Store, &[T]) -> Result<(), StoreError>,
    ) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(rows, store) {
                Ok(()) => return true,
                Err(e) => self.warn(&format!("{e}; trying again")),
            }
            // One more attempt is made after a stop was requested.
            if stop.is_set() {
                return false;
            }
            interruptible_sleep(pause, stop);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Writes all rows at once or, if one of them is refused, one by one.
    fn attempt<T>(
        &mut self,
        rows: &[T],
        store: fn(&mut dyn Store, &[T]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match store(self.store.as_mut(), rows) {
            Err(StoreError::Refused(why)) if rows.len() <= 1 => {
                self.refused += 1;
                let all = self.refused;
                self.warn(&format!("skipping a refused row, {all} so far: {why}"));
                Ok(())
            }
            Err(StoreError::Refused(_)) => {
                let (left, right) = rows.split_at(rows.len() / 2);
                self.attempt(left, store)?;
                self.attempt(right, store)
            }
            other => other,
        }
    }

    /// Removes rows older than `keep` seconds; a failure is logged, and the next run tries again.
    pub fn expire(&mut self, keep: u64) {
        if let Err(e) = self.store.expire(keep) {
            self.warn(&format!("old rows could not be removed: {e}"));
        }
    }

    /// Logs a problem, at most once a minute.
    pub fn warn(&mut self, what: &str) {
        if self.said.is_some_and(|at| at.elapsed() < SAY_AGAIN) {
            return;
        }
        self.said = Some(Instant::now());
        log::error!("{}", named(self.name, what));
    }
}

/// Sleeps in short steps, so that a stop takes effect at once.
pub fn interruptible_sleep(pause: Duration, stop: &StopFlag) {
    let end = Instant::now() + pause;
    while Instant::now() < end && !stop.is_set() {
        std::thread::sleep(Duration::from_millis(50).min(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_ipc::Event;
    use halite_store::jobs::JobUpdate;
    use halite_wire::Map;
    use std::sync::{Arc, Mutex};

    /// Refuses rows with the tag `bad`; is unavailable for the first calls.
    struct Fake {
        away: u32,
        got: Arc<Mutex<Vec<String>>>,
    }

    impl Store for Fake {
        fn jobs(&mut self, _: &[JobUpdate]) -> Result<(), StoreError> {
            Ok(())
        }

        fn events(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
            if self.away > 0 {
                self.away -= 1;
                return Err(StoreError::Away("it sleeps".into()));
            }
            if events.iter().any(|e| e.tag == "bad") {
                return Err(StoreError::Refused("bad".into()));
            }
            self.got
                .lock()
                .unwrap()
                .extend(events.iter().map(|e| e.tag.clone()));
            Ok(())
        }
    }

    #[test]
    fn a_bad_row_costs_itself_only() {
        let got = Arc::default();
        let store = Fake {
            away: 1,
            got: Arc::clone(&got),
        };
        let mut sink = Sink::with_store("pgjsonb", Box::new(store));
        let rows: Vec<_> = ["a", "b", "bad", "c", "bad", "d", "e"]
            .iter()
            .map(|tag| Arc::new(Event::new(*tag, &Map::new()).unwrap()))
            .collect();
        let stop = StopFlag::default();
        assert!(sink.write(&rows, &stop, |store, rows| store.events(rows)));
        assert_eq!(*got.lock().unwrap(), ["a", "b", "c", "d", "e"]);
        assert_eq!(sink.refused, 2);
    }

    #[test]
    fn the_end_is_heeded() {
        let store = Fake {
            away: u32::MAX,
            got: Arc::default(),
        };
        let mut sink = Sink::with_store("pgjsonb", Box::new(store));
        let stop = StopFlag::default();
        stop.set();
        let rows = [Arc::new(Event::new("a", &Map::new()).unwrap())];
        assert!(!sink.write(&rows, &stop, |store, rows| store.events(rows)));
    }
}
