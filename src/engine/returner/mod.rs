//! Returner: copies of jobs and events for databases and files.
//!
//! Owns nothing: it listens on `master_event_pub.ipc`, reads the job log and writes where
//! `master_job_cache`, `ext_job_cache` and `event_return` say. One thread per place written to,
//! so that a slow database holds nobody but itself.
//!
//! Jobs are copied from the job log; events only say that there is something new. So nothing
//! that was acknowledged is ever lost: a database that was away gets all it missed. What the
//! log says twice is written once. Events that a place does not take in time are dropped and
//! counted.
//!
//! When it fails: its successor goes on where the last one was, which it finds in
//! `cachedir/returner`. Events in between are lost.

mod events;
mod jobs;
mod sink;

use events::EventQueue;
use halite_client::listen::listen;
use halite_config::{MasterConfig, Returner};
use halite_ipc::Event;
use halite_master::roles::{RoleError, Roles};
use halite_master::score::Score;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use jobs::JobQueue;
use sink::Sink;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an ending role still writes.
const LAST_WORDS: Duration = Duration::from_millis(1500);
/// What a listener gets in place of events that it was too slow for.
const DROPPED: &str = "halite/bus/dropped";

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let mut writers = Writers::default();
    let mut threads = Vec::new();
    for (returner, returns) in config.job_returners() {
        let sink = Sink::new(config, returner);
        let (queue, thread) = jobs::start(config, sink, returns, stop);
        writers.jobs.push(queue);
        threads.push(thread);
    }
    for returner in config.event_returners() {
        let sink = Sink::new(config, returner);
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
        // Whatever happened while nobody listened is found in the log.
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

/// The queues of all places.
#[derive(Default)]
struct Writers {
    jobs: Vec<Arc<JobQueue>>,
    events: Vec<Arc<EventQueue>>,
}

impl Writers {
    /// Events may have been missed.
    fn look_again(&self) {
        self.jobs.iter().for_each(|queue| queue.look_again());
    }

    /// Hands on one event.
    fn add(&self, event: Event) {
        if event.tag == DROPPED {
            self.look_again();
        }
        if let Some((jid, late)) = jobs::news_of(&event.tag) {
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

/// Waits a moment for what is still being written.
fn end(threads: Vec<JoinHandle<()>>) {
    let end = Instant::now() + LAST_WORDS;
    for thread in threads {
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        if !thread.is_finished() {
            log::warn!(
                "a database is too slow for an orderly end; jobs are copied after the next start"
            );
            return;
        }
    }
}

/// Where a returner writes, for messages.
fn named(returner: Returner, what: &str) -> String {
    format!("returner {} ({what})", returner.name())
}
