//! The jobs of a minion: a child process each, started, watched and stopped. Nothing here blocks.
//!
//! Jobs beyond `process_count_max` wait in a queue, except the few functions that inspect or stop other jobs,
//! so that a busy minion can still be asked and helped. Waiting jobs from masters are also kept on disk and
//! resumed at the next start.
//!
//! Jobs from masters outlive the minion, unless it is told to stop them; the next process adopts them
//! (`orphans.rs`).

mod orphans;
mod running;

use super::job::{self, FLAG, Order};
use halite_channel::link::JobCredentials;
use halite_channel::publication::Job;
use halite_channel::queue::Queue;
use halite_config::MinionConfig;
use halite_ipc::StampStyle;
use halite_modules::execution::proc::{self, Process};
use halite_sys::daemon::REPORT_FD;
use halite_sys::process::{ROLE, program};
use halite_sys::service;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use orphans::Orphan;
use running::{Running, is_running, signal, signal_tree};

/// Functions exempt from the limit.
const EXEMPT: &[&str] = &[
    "saltutil.find_job",
    "saltutil.is_running",
    "saltutil.running",
    "saltutil.signal_job",
    "saltutil.term_job",
    "saltutil.kill_job",
    "saltutil.term_all_jobs",
    "saltutil.kill_all_jobs",
];
/// Longest queue of waiting jobs.
const MAX_WAITING: usize = 1000;

/// Where a job came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// From a master, by the index of its connection; the result goes back there.
    Master(usize),
    /// From the minion itself.
    Local(LocalJob),
}

/// A job that the minion started itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalJob {
    /// Its name in the schedule.
    pub name: String,
    /// Index of the connection whose pillar and keys it uses.
    pub line: usize,
    /// The jid under which masters get the result.
    pub return_as: ReturnAs,
    /// Other masters than that of `line` get the result as well.
    pub to_all: bool,
    /// It shows up in `saltutil.running` and `find_job`.
    pub counted: bool,
}

impl LocalJob {
    /// A job whose result all masters get and that shows up in `find_job`.
    pub fn new(name: &str, line: usize, return_as: ReturnAs) -> LocalJob {
        LocalJob {
            name: name.to_owned(),
            line,
            return_as,
            to_all: true,
            counted: true,
        }
    }
}

/// Under which jid masters get the result of a local job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnAs {
    /// They do not get it.
    Nothing,
    /// Under a fixed word that has a meaning for them.
    Jid(&'static str),
    /// Under the job's own jid.
    OwnJid,
}

impl Origin {
    fn line(&self) -> usize {
        match self {
            Origin::Master(line) => *line,
            Origin::Local(own) => own.line,
        }
    }
}

/// A finished job with its result.
pub struct Finished {
    /// Its id.
    pub jid: Jid,
    /// Where it came from.
    pub origin: Origin,
    /// The packed `_return` load ([`Profile::Local`]).
    pub load: Vec<u8>,
}

/// What jobs of one connection see of its master.
#[derive(Clone, Debug, Default)]
pub struct MasterView {
    /// The master as named in the option.
    pub master: String,
    /// The pillar from this master.
    pub pillar: Arc<Map>,
    /// Keys for requests to the master.
    pub credentials: Option<JobCredentials>,
    /// Its jobs queued by an earlier process have been resumed.
    resumed: bool,
}

/// A queued job.
struct Waiting {
    job: Job,
    origin: Origin,
    /// Its file in the queue on disk.
    file: Option<PathBuf>,
}

/// All jobs of this minion.
pub struct Jobs {
    config: Arc<MinionConfig>,
    opts: Map,
    log: (String, String, String),
    grains: Arc<Map>,
    sites: Vec<MasterView>,
    /// Variables changed by `environ.setenv`; `None` removes one.
    environ: Vec<(String, Option<String>)>,
    stamp: StampStyle,
    title: String,
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
    /// Commands of jobs that were told to stop; they may outlive the job.
    ending: Vec<Process>,
    /// Jobs of an earlier process that are still running.
    left: Vec<Orphan>,
    /// Jobs from masters outlive this process.
    outlive: bool,
}

impl Jobs {
    /// An empty set of jobs. `log` is as in [`Order::log`], `title` is the prefix of names in the process list.
    pub fn new(
        config: &Arc<MinionConfig>,
        log: (String, String, String),
        title: String,
        grains: Arc<Map>,
    ) -> Jobs {
        let opts = config.as_map();
        Jobs {
            config: config.clone(),
            stamp: halite_modules::bus::stamp_style(&opts),
            opts,
            log,
            grains,
            sites: Vec::new(),
            environ: Vec::new(),
            title,
            running: Vec::new(),
            waiting: VecDeque::new(),
            ending: Vec::new(),
            left: Vec::new(),
            outlive: false,
        }
    }

    /// Lets jobs from masters outlive this process, whose successor [adopts](Jobs::adopt_orphans) them.
    pub fn let_outlive(&mut self) {
        self.outlive = true;
    }

    /// The view of the master for later jobs of a connection.
    pub fn view_mut(&mut self, line: usize) -> &mut MasterView {
        if self.sites.len() <= line {
            self.sites.resize_with(line + 1, MasterView::default);
        }
        &mut self.sites[line]
    }

    /// Sets the grains for later jobs.
    pub fn set_grains(&mut self, grains: Arc<Map>) {
        self.grains = grains;
    }

    /// Sets or removes an environment variable for later jobs.
    pub fn set_environ(&mut self, name: &str, value: Option<String>) {
        self.environ.retain(|(n, _)| n != name);
        self.environ.push((name.to_owned(), value));
    }

    /// Number of running or queued jobs with this schedule name.
    pub fn count(&self, name: &str) -> usize {
        let is = |origin: &Origin| matches!(origin, Origin::Local(own) if own.name == name);
        self.running.iter().filter(|r| is(&r.origin)).count()
            + self.waiting.iter().filter(|w| is(&w.origin)).count()
    }

    /// The running jobs, each as a line of a report.
    pub fn running(&self) -> impl Iterator<Item = String> + '_ {
        let line = |job: &Running| {
            let fun = job.load.str("fun").unwrap_or_default();
            format!("{} {fun}, process {}", job.jid, job.child.id())
        };
        self.running.iter().map(line)
    }

    /// Adds a job. Returns a result at once if the job cannot run.
    pub fn add(&mut self, job: Job, origin: Origin) -> Option<Finished> {
        if self.may_start(&job) {
            return self.start(job, origin);
        }
        if self.waiting.len() >= MAX_WAITING {
            let why = format!(
                "The minion has {MAX_WAITING} jobs waiting already (process_count_max) and did not run this one."
            );
            return Some(self.failed(&job.jid, origin, &job.load, &why, 1));
        }
        log::info!(jid:% = job.jid; "job {} waits: process_count_max jobs are running", job.jid);
        let file = self.save_queued(&job, &origin);
        self.waiting.push_back(Waiting { job, origin, file });
        None
    }

    /// Saves a job from a master in the queue on disk.
    fn save_queued(&self, job: &Job, origin: &Origin) -> Option<PathBuf> {
        let Origin::Master(line) = origin else {
            return None;
        };
        let kept = self.queue(*line).store(job);
        kept.map_err(|e| log::error!(jid:% = job.jid; "job {} waits in memory only: {e}", job.jid))
            .ok()
    }

    fn queue(&self, line: usize) -> Queue {
        let master = self.sites.get(line).map(|site| site.master.as_str());
        Queue::of(&self.config.cachedir, master.unwrap_or_default())
    }

    /// Resumes the jobs that an earlier process left in the queue of a connection, once it is up.
    pub fn resume(&mut self, line: usize) {
        if std::mem::replace(&mut self.view_mut(line).resumed, true) {
            return;
        }
        for (job, file) in self.queue(line).load() {
            log::info!(jid:% = job.jid; "job {} has waited since an earlier process", job.jid);
            self.waiting.push_back(Waiting {
                job,
                origin: Origin::Master(line),
                file: Some(file),
            });
        }
    }

    fn may_start(&self, job: &Job) -> bool {
        let exempt = job.load.str("fun").is_some_and(|fun| EXEMPT.contains(&fun));
        match usize::try_from(self.config.process_count_max) {
            Ok(limit) if limit > 0 && !exempt => self.running.len() + self.left.len() < limit,
            _ => true,
        }
    }

    fn start(&mut self, job: Job, origin: Origin) -> Option<Finished> {
        match self.spawn(&job, &origin) {
            Ok((child, out)) => {
                log::info!(jid:% = job.jid; "job {} is process {}", job.jid, child.id());
                self.write_proc_file(&job, &origin, child.id());
                self.running.push(Running {
                    jid: job.jid,
                    origin,
                    load: job.load,
                    child,
                    out,
                    result: Vec::new(),
                    closed: false,
                    delivered: false,
                });
                None
            }
            Err(e) => {
                let why = format!("The minion could not start a process for the job: {e}");
                log::error!(jid:% = job.jid; "job {}: {why}", job.jid);
                Some(self.failed(&job.jid, origin, &job.load, &why, 1))
            }
        }
    }

    /// Writes the proc file of a running job.
    fn write_proc_file(&self, job: &Job, origin: &Origin, pid: u32) {
        let mut load = job.load.clone();
        match origin {
            Origin::Local(own) if !own.counted => return,
            Origin::Master(line) => {
                let master = self.sites.get(*line).map(|site| site.master.as_str());
                load.set(proc::MASTER, master.unwrap_or_default());
            }
            Origin::Local(_) => {
                if load.contains("schedule") {
                    load = halite_modules::execution::scheduled_note(&self.config.id, &load);
                }
                load.set(proc::MASTER, Value::Nil);
            }
        }
        if let Err(e) = proc::write(&self.config.cachedir, job.jid.as_str(), &load, pid) {
            log::error!(jid:% = job.jid; "job {} will not be found by find_job: {e}", job.jid);
        }
    }

    fn spawn(&self, job: &Job, origin: &Origin) -> io::Result<(Child, UnixStream)> {
        let site = self.sites.get(origin.line()).cloned().unwrap_or_default();
        let mut opts = self.opts.clone();
        if !site.master.is_empty() {
            opts.set("master", site.master.as_str());
        }
        let order = Order {
            parent: std::process::id(),
            load: job.load.clone(),
            opts,
            grains: self.grains.clone(),
            pillar: site.pillar,
            credentials: site.credentials,
            log: self.log.clone(),
            outlives: self.outlive && matches!(origin, Origin::Master(_)),
        };
        let (out, result) = UnixStream::pair()?;
        out.set_nonblocking(true)?;
        let mut input = File::from(memfd_create(c"halite-job", MFdFlags::MFD_CLOEXEC)?);
        input.write_all(&order.encode())?;
        input.seek(SeekFrom::Start(0))?;
        let fun = match job.load.get("fun") {
            Some(Value::Str(fun)) => fun.clone(),
            Some(other) => other.str_list().join(","),
            None => String::new(),
        };
        let mut command = Command::new(program()?);
        for (name, value) in &self.environ {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // Meant for this process only, not for its children.
        for name in service::VARIABLES.into_iter().chain([ROLE, REPORT_FD]) {
            command.env_remove(name);
        }
        let child = command
            .arg0(format!("{} Job-{} {fun:.100}", self.title, job.jid))
            .arg(FLAG)
            .stdin(Stdio::from(input))
            .stdout(OwnedFd::from(result))
            .process_group(0)
            .spawn()?;
        Ok((child, out))
    }

    /// Descriptors of pending results, for polling. Those that are complete are left out.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> + '_ {
        self.running
            .iter()
            .filter(|r| !r.closed)
            .map(|r| r.out.as_raw_fd())
    }

    /// The same as borrowed descriptors.
    pub fn outputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let open = self.running.iter().filter(|r| !r.closed);
        open.map(|r| r.out.as_fd())
    }

    /// Reads pending results and starts queued jobs.
    pub fn poll(&mut self) -> Vec<Finished> {
        let mut finished = self.exited_orphans();
        let mut at = 0;
        while at < self.running.len() {
            self.running[at].read();
            let Some(status) = self.running[at].ended() else {
                if let Some(result) = self.running[at].deliver() {
                    self.forget(&result.jid);
                    finished.push(result);
                }
                at += 1;
                continue;
            };
            let mut done = self.running.swap_remove(at);
            if done.delivered {
                continue;
            }
            // Read what it wrote right before it exited.
            done.read();
            finished.push(self.finish(done, status));
        }
        while let Some(first) = self.waiting.front()
            && self.may_start(&first.job)
            && let Some(next) = self.waiting.pop_front()
        {
            if let Some(Err(e)) = next.file.map(std::fs::remove_file) {
                log::warn!(jid:% = next.job.jid; "job {} may run again after a restart: {e}", next.job.jid);
            }
            finished.extend(self.start(next.job, next.origin));
        }
        finished
    }

    /// Removes the proc file of a job: it is done, and a later process need not account for it.
    fn forget(&self, jid: &Jid) {
        if let Err(e) = proc::remove(&self.config.cachedir, jid.as_str()) {
            log::warn!(jid:% = jid; "the file of job {jid} cannot be removed: {e}");
        }
    }

    fn finish(&self, mut done: Running, status: ExitStatus) -> Finished {
        self.forget(&done.jid);
        if let Some(result) = done.deliver() {
            return result;
        }
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => match Signal::try_from(signal) {
                Ok(known) => format!("was ended by signal {signal} ({known})"),
                Err(_) => format!("was ended by signal {signal}"),
            },
            (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
        };
        let why = format!("The process of the job {how} before it returned.");
        log::warn!(jid:% = done.jid; "job {}: {why}", done.jid);
        let code = status.signal().map_or(1, |s| 128 + i64::from(s));
        self.failed(&done.jid, done.origin, &done.load, &why, code)
    }

    fn failed(&self, jid: &Jid, origin: Origin, load: &Map, why: &str, code: i64) -> Finished {
        let ret = job::failed(&self.config.id, load, why, code, self.stamp);
        Finished {
            jid: jid.clone(),
            origin,
            load: msgpack::encode_map(&ret, Profile::Local),
        }
    }

    /// Tells all jobs and everything they started to stop. The queue on disk stays.
    pub fn terminate(&mut self) -> Vec<Finished> {
        let left = self.left.iter().map(Orphan::pid);
        let running = self.running.iter().map(|running| running.child.id());
        for pid in running.chain(left) {
            self.ending.extend(signal_tree(pid, Signal::SIGTERM));
        }
        self.give_up_waiting()
    }

    /// Detaches the jobs that outlive this process, and tells the others to stop.
    pub fn leave(&mut self) -> Vec<Finished> {
        self.left.clear();
        // If the socket closes before its result was read in full, the job still has it; a job whose result was
        // read may still be writing to a database.
        self.running
            .retain(|r| matches!(r.origin, Origin::Local(_)));
        self.terminate()
    }

    /// Queued jobs that are only in memory fail.
    fn give_up_waiting(&mut self) -> Vec<Finished> {
        let waiting = std::mem::take(&mut self.waiting);
        let why = "The minion was stopped before it ran the job.";
        waiting
            .into_iter()
            .filter(|w| w.file.is_none())
            .map(|w| self.failed(&w.job.jid, w.origin, &w.job.load, why, 1))
            .collect()
    }

    /// Whether everything that was told to stop has exited.
    pub fn all_ended(&self) -> bool {
        self.running.is_empty() && self.left.is_empty() && !self.ending.iter().any(is_running)
    }

    /// Kills everything that is left.
    pub fn kill(&mut self) {
        for process in self.ending.iter().filter(|p| is_running(p)) {
            signal(process, Signal::SIGKILL);
        }
        for running in &mut self.running {
            signal_tree(running.child.id(), Signal::SIGKILL);
            let _ = running.child.wait();
        }
        for left in &self.left {
            signal_tree(left.pid(), Signal::SIGKILL);
        }
    }
}
