//! Returner: copies jobs and events to databases and files.
//!
//! Owns nothing: it listens on `master_event_pub.ipc`, reads the job log and writes to the destinations of
//! `master_job_cache`, `ext_job_cache` and `event_return`, and to the files that stock's `salt-run jobs.*` reads
//! (`job_cache_compat: full`). Each destination has a thread, so that a slow
//! database delays only itself.
//!
//! Jobs are copied from the job log; events only tell that there is new data. So nothing that was acknowledged
//! is ever lost: after an outage a database gets everything it missed. Data that is twice in the log is written
//! once. Events that a destination does not accept in time are dropped and counted.
//!
//! On failure: its successor continues from the checkpoint in `cachedir/returner`. Events in between are lost.

mod events;
mod jobs;
pub(super) mod python_events;
mod sink;
mod stock_files;

use events::EventQueue;
use halite_client::listen::listen;
use halite_config::{JobCacheCompat, MasterConfig};
use halite_ipc::{DROPPED, Event};
use halite_master::job_news::news_of;
use halite_master::roles::Roles;
use halite_master::score::Score;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use jobs::JobQueue;
use sink::Sink;
pub(super) use sink::interruptible_sleep;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stopping role keeps writing.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let mut writers = Writers::default();
    let mut threads = Vec::new();
    for (returner, returns) in config.job_returners() {
        let sink = Sink::new(config, returner);
        let (queue, thread) = jobs::start(config, sink, returns, false, stop);
        writers.jobs.push(queue);
        threads.push(thread);
    }
    if config.job_cache_compat == JobCacheCompat::Full {
        let (queue, thread) = jobs::start(config, stock_files::sink(config), true, true, stop);
        writers.jobs.push(queue);
        threads.push(thread);
    }
    for returner in config.event_returners() {
        let sink = Sink::new(config, returner);
        let (queue, thread) = events::start(config, sink, stop);
        writers.events.push(queue);
        threads.push(thread);
    }
    for sink in python_events::sinks(config) {
        let (queue, thread) = events::start(config, sink, stop);
        writers.events.push(queue);
        threads.push(thread);
    }
    let writers = Arc::new(writers);
    publish_counters(writers.clone());
    roles.ready();
    listen(
        config.event_pub(),
        stop,
        // What was missed while not listening is found in the log.
        &mut || writers.look_again(),
        &mut |event| writers.add(event),
    );
    end(threads);
    Ok(())
}

fn publish_counters(writers: Arc<Writers>) {
    let mut score = Score::inherited("returner");
    std::thread::spawn(move || {
        loop {
            score.tick(|| writers.counters());
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

/// The queues of all destinations.
#[derive(Default)]
struct Writers {
    jobs: Vec<Arc<JobQueue>>,
    events: Vec<Arc<EventQueue>>,
}

impl Writers {
    /// Call when events may have been missed.
    fn look_again(&self) {
        self.jobs.iter().for_each(|queue| queue.look_again());
    }

    /// Passes on an event.
    fn add(&self, event: Event) {
        if event.tag == DROPPED {
            self.look_again();
        }
        if let Some((jid, late)) = news_of(&event.tag) {
            self.jobs.iter().for_each(|queue| queue.add(&jid, late));
        }
        let event = Arc::new(event);
        self.events.iter().for_each(|queue| queue.add(&event));
    }

    fn counters(&self) -> Map {
        let jobs: usize = self.jobs.iter().map(|queue| queue.len()).sum();
        let (mut waiting, mut dropped) = (0, 0);
        for queue in &self.events {
            let (now, lost) = queue.state();
            waiting += now;
            dropped += lost;
        }
        halite_wire::map! {"jobs" => jobs, "events" => waiting, "dropped" => dropped}
    }
}

/// Waits briefly for pending writes.
fn end(threads: Vec<JoinHandle<()>>) {
    let end = Instant::now() + LAST_WORDS;
    for thread in threads {
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        if !thread.is_finished() {
            log::warn!(
                "a database is too slow for a clean stop; remaining jobs are copied after the next start"
            );
            return;
        }
    }
}

/// Names a returner, for messages.
fn named(returner: &str, what: &str) -> String {
    format!("returner {returner} ({what})")
}
