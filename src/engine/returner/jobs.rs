//! Copies of jobs: events tell which jobs changed, the job log has the data.

use super::named;
use super::sink::Sink;
use halite_config::MasterConfig;
use halite_master::events::PEER;
use halite_master::job_news::{JobNews, LOOK, MARGIN};
use halite_store::Stores;
use halite_store::jobs::{JobStore, JobUpdate};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::signals::StopFlag;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Number of jobs whose position in the file is remembered; others are read from the start.
const PLACES: usize = 20_000;
/// Most returns and bytes in one write.
const BATCH: usize = 1000;
const BATCH_BYTES: u64 = 8 << 20;
/// How often old rows are removed, unless the database does that itself.
const SWEEP: Duration = Duration::from_secs(3600);
/// Longest wait for something to copy: a stop is noticed, and what is late becomes due.
const ROUND: Duration = Duration::from_millis(200);
/// Wait after the first news: what is queued meanwhile is written together.
const COLLECT: Duration = Duration::from_millis(50);
/// How often the checkpoint is saved.
const NOTE: Duration = Duration::from_secs(5);

/// Jobs with new data for one database.
#[derive(Default)]
pub struct JobQueue {
    pending: Mutex<JobNews>,
    news: Condvar,
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, JobNews> {
        // No panic can leave it half changed.
        self.pending.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues a job with new data; if `late`, with a short delay.
    pub fn add(&self, jid: &Jid, late: bool) {
        self.lock().add(jid.clone(), late);
        self.news.notify_one();
    }

    /// Waits until there is something to copy; at most for [`ROUND`].
    fn wait(&self) {
        let idle = |pending: &mut JobNews| pending.jobs.is_empty() && !pending.look;
        let waited = self.news.wait_timeout_while(self.lock(), ROUND, idle);
        if waited.is_ok_and(|(_, timeout)| !timeout.timed_out()) {
            std::thread::sleep(COLLECT);
        }
    }

    /// Number of queued jobs.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Searches the log next time, as events may have been missed.
    pub fn look_again(&self) {
        self.lock().look = true;
    }

    /// What is to be read now, and whether the log is to be searched.
    fn take(&self) -> (BTreeSet<Jid>, bool) {
        let mut pending = self.lock();
        pending.take_late();
        let jobs = std::mem::take(&mut pending.jobs);
        (jobs, std::mem::take(&mut pending.look))
    }
}

/// Starts the thread that copies to `sink`; without `returns`, only the loads. In a cluster, what is not `is_local` gets only what
/// is of this master.
pub fn start(
    config: &MasterConfig,
    sink: Sink,
    returns: bool,
    is_local: bool,
    stop: &StopFlag,
) -> (Arc<JobQueue>, JoinHandle<()>) {
    let queue = Arc::new(JobQueue::default());
    let dir = config.returner_state();
    // Rows to be archived must not be removed here.
    let archived = config.extra.get("archive_jobs").is_some_and(Value::truthy);
    let mut copier = Copier {
        queue: queue.clone(),
        log: Stores::open(config).jobs,
        reached: Checkpoint::read(dir.join(format!("{}.reached", sink.name))),
        sink,
        returns,
        is_shared: !is_local && config.cluster().is_some(),
        places: HashMap::new(),
        looked: Instant::now(),
        keep: if archived {
            0
        } else {
            config.keep_jobs_seconds
        },
        swept: None,
        stop: stop.clone(),
    };
    let thread = std::thread::spawn(move || copier.run());
    (queue, thread)
}

struct Copier {
    queue: Arc<JobQueue>,
    log: Arc<dyn JobStore>,
    sink: Sink,
    returns: bool,
    /// Whether the other masters of the cluster write to it what is theirs.
    is_shared: bool,
    /// Number of bytes of each job's file that are copied.
    places: HashMap<Jid, u64>,
    reached: Checkpoint,
    looked: Instant,
    /// Seconds for which jobs are kept; 0 means for ever.
    keep: u64,
    swept: Option<Instant>,
    stop: StopFlag,
}

impl Copier {
    fn run(&mut self) {
        loop {
            let ending = self.stop.is_set();
            let began = SystemTime::now();
            if self.looked.elapsed() >= LOOK {
                self.queue.look_again();
            }
            let (jobs, again) = self.queue.take();
            match self.round(jobs, again) {
                Ok(true) => self.reached.advance(began, ending, &mut self.sink),
                // Not everything was written; the next start finds the rest.
                Ok(false) => return,
                Err(e) => {
                    self.sink
                        .warn(&format!("the job log cannot be read: {e}; trying again"));
                    self.queue.look_again();
                }
            }
            if ending {
                return;
            }
            self.sweep();
            if !again {
                self.queue.wait();
            }
        }
    }

    /// Removes old rows from time to time.
    fn sweep(&mut self) {
        let due = self.swept.is_none_or(|at| at.elapsed() >= SWEEP);
        if !self.returns || self.keep == 0 || !due {
            return;
        }
        self.swept = Some(Instant::now());
        self.sink.expire(self.keep);
    }

    /// Copies new data; returns whether all of it was written.
    fn round(&mut self, mut jobs: BTreeSet<Jid>, look: bool) -> io::Result<bool> {
        if look {
            self.looked = Instant::now();
            jobs.extend(self.log.changed_since(self.reached.search_from())?);
        }
        let mut batch: Vec<JobUpdate> = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        for jid in jobs {
            let from = self.places.get(&jid).copied().unwrap_or(0);
            let Some(news) = self.log.updates(&jid, from)? else {
                continue;
            };
            rows += news.returns.len() + 1;
            bytes += news.end.saturating_sub(from);
            batch.push(news);
            if rows >= BATCH || bytes >= BATCH_BYTES {
                if !self.write(std::mem::take(&mut batch)) {
                    return Ok(false);
                }
                (rows, bytes) = (0, 0);
            }
        }
        Ok(self.write(batch))
    }

    fn write(&mut self, mut batch: Vec<JobUpdate>) -> bool {
        if self.is_shared {
            let is_own = |load: &Map| !load.contains(PEER);
            for news in &mut batch {
                news.load.take_if(|load| !is_own(load));
                news.returns.retain(|one| is_own(&one.load));
            }
        }
        if !self.returns {
            batch.iter_mut().for_each(|news| news.returns.clear());
        }
        let ends: Vec<_> = batch.iter().map(|n| (n.jid.clone(), n.end)).collect();
        batch.retain(|news| news.load.is_some() || !news.returns.is_empty());
        let written = batch.is_empty()
            || self
                .sink
                .write(&batch, &self.stop, |store, rows| store.jobs(rows));
        if !written {
            return false;
        }
        if self.places.len() + ends.len() > PLACES {
            self.places.clear();
        }
        self.places.extend(ends);
        true
    }
}

/// The time up to which everything in the log is copied, saved for the next start.
struct Checkpoint {
    path: PathBuf,
    at: SystemTime,
    noted: Option<Instant>,
}

impl Checkpoint {
    fn read(path: PathBuf) -> Checkpoint {
        let seconds = std::fs::read_to_string(&path)
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or(0);
        // If the clock was ahead, what has come in since must not be missed.
        let at = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds))
            .map_or(SystemTime::UNIX_EPOCH, |at| at.min(SystemTime::now()));
        Checkpoint {
            path,
            at,
            noted: None,
        }
    }

    fn search_from(&self) -> SystemTime {
        self.at
            .checked_sub(MARGIN)
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn advance(&mut self, to: SystemTime, now: bool, sink: &mut Sink) {
        self.at = to;
        if !now && self.noted.is_some_and(|at| at.elapsed() < NOTE) {
            return;
        }
        self.noted = Some(Instant::now());
        let seconds = to
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let written = match self.path.parent() {
            Some(dir) => make_dir(dir, 0o700),
            None => Ok(()),
        }
        .and_then(|()| write_atomic(&self.path, seconds.to_string().as_bytes(), 0o600));
        if let Err(e) = written {
            let path = self.path.display();
            sink.warn(&format!(
                "{path}: {e}; after a restart, jobs are copied again"
            ));
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        log::debug!("{}", named(self.sink.name, "copying of jobs stopped"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_master::job_news::MOST_JOBS;

    #[test]
    fn the_point_survives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d/redis.reached");
        let mut point = Checkpoint::read(path.clone());
        assert_eq!(point.at, SystemTime::UNIX_EPOCH, "at first, everything");
        let now = SystemTime::now();
        struct Nowhere;
        impl halite_returners::Store for Nowhere {
            fn jobs(&mut self, _: &[JobUpdate]) -> Result<(), halite_returners::StoreError> {
                Ok(())
            }
        }
        let mut sink = Sink::with_store("redis", Box::new(Nowhere));
        point.advance(now, false, &mut sink);
        let again = Checkpoint::read(path.clone());
        assert!(now.duration_since(again.at).unwrap() <= Duration::from_secs(1));
        std::fs::write(&path, "99999999999").unwrap();
        assert!(Checkpoint::read(path).at <= SystemTime::now());
    }

    #[test]
    fn too_many_jobs_mean_a_look_at_the_log() {
        let queue = JobQueue::default();
        for n in 0..MOST_JOBS as u32 + 1 {
            queue.add(&Jid::from_time(1_800_000_000, n), false);
        }
        let (jobs, look) = queue.take();
        assert!(look && jobs.len() == 1);
    }
}
