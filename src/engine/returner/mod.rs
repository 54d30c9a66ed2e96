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
mod json;
mod pg;
mod rawfile;
mod redis;
mod sink;
mod sqlite;

use crate::config::{MasterConfig, Returner};
use crate::master::roles::{RoleError, Roles};
use crate::master::score::Score;
use crate::sys::signals::StopFlag;
use crate::wire::Map;
use events::EventQueue;
use halite_ipc::Subscriber;
use jobs::JobQueue;
use sink::Sink;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an ending role still writes.
const LAST_WORDS: Duration = Duration::from_millis(1500);
/// Time between attempts to reach the bus.
const PAUSE: Duration = Duration::from_millis(200);
/// What a listener gets in place of events that it was too slow for.
const DROPPED: &str = "halite/bus/dropped";

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let mut writers = Writers::default();
    for (returner, returns) in config.job_returners() {
        let sink = Sink::new(config, returner);
        let (queue, thread) = jobs::start(config, sink, returns, stop);
        writers.jobs.push(queue);
        writers.threads.push(thread);
    }
    for returner in config.event_returners() {
        let sink = Sink::new(config, returner);
        let (queue, thread) = events::start(config, sink, stop);
        writers.events.push(queue);
        writers.threads.push(thread);
    }
    roles.ready();
    let path = config.sock_dir.join("master_event_pub.ipc");
    let mut warned = false;
    let mut score = Score::inherited("returner");
    while !stop.is_set() {
        match Subscriber::connect(&path) {
            Ok(bus) => {
                warned = false;
                writers.listen(bus, &mut score, stop);
            }
            Err(e) if !warned => {
                warned = true;
                log::warn!("the event bus is away: {e}; trying again");
            }
            Err(_) => {}
        }
        if !stop.is_set() {
            std::thread::sleep(PAUSE);
        }
    }
    writers.end();
    Ok(())
}

/// The threads that write, and their queues.
#[derive(Default)]
struct Writers {
    jobs: Vec<Arc<JobQueue>>,
    events: Vec<Arc<EventQueue>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Hands on what the bus says until it goes away.
    fn listen(&self, mut bus: Subscriber, score: &mut Score, stop: &StopFlag) {
        // Whatever happened while nobody listened is found in the log.
        self.jobs.iter().for_each(|queue| queue.look_again());
        while !stop.is_set() {
            score.tick(|| self.counters());
            let event = match bus.next(Some(Duration::from_millis(250))) {
                Ok(Some(event)) => event,
                Ok(None) => continue,
                Err(halite_ipc::Error::Event(e)) => {
                    log::debug!("an event makes no sense: {e}");
                    continue;
                }
                Err(e) => {
                    log::warn!("the event bus was lost: {e}; connecting again");
                    return;
                }
            };
            if event.tag == DROPPED {
                self.jobs.iter().for_each(|queue| queue.look_again());
            }
            if let Some((jid, late)) = jobs::news_of(&event.tag) {
                self.jobs.iter().for_each(|queue| queue.add(&jid, late));
            }
            let event = Arc::new(event);
            self.events.iter().for_each(|queue| queue.add(&event));
        }
    }

    fn counters(&self) -> Map {
        let jobs: usize = self.jobs.iter().map(|queue| queue.len()).sum();
        let (mut waiting, mut dropped) = (0, 0);
        for queue in &self.events {
            let (now, lost) = queue.state();
            waiting += now;
            dropped += lost;
        }
        crate::map! {"jobs" => jobs, "events" => waiting, "dropped" => dropped}
    }

    fn end(self) {
        let end = Instant::now() + LAST_WORDS;
        for thread in self.threads {
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
}

/// Where a returner writes, for messages.
fn named(returner: Returner, what: &str) -> String {
    format!("returner {} ({what})", returner.name())
}
