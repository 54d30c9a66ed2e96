//! The minion daemon's main loop.
//!
//! It waits for publications, signals, results of jobs, scheduled jobs, beacons, the local bus and events of
//! threads all at once, and handles each without blocking. Each master has a `MasterConnection`; requests to
//! a master's request port are made by [`return_sender`](super::return_sender). Jobs and local requests are
//! handled in `handlers`.

mod beacons;
mod engines;
mod handlers;

use super::background::{LoopEvent, Shared};
use super::beacon_runner::BeaconRunner;
use super::jobs::{Jobs, Origin};
use super::master_connection::{MasterConnection, ReceivedJobs};
use super::setup::{prepare, serve_bus};
use super::timetable::{self, Timetable};
use super::watch::Input;
use crossbeam_channel::{Receiver, unbounded};
use halite_channel::FatalError;
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::master_search::Reason;
use halite_channel::publication::RecentJids;
use halite_channel::session::chance;
use halite_config::MinionConfig;
use halite_modules::grains::all_grains_until;
use halite_modules::local::DaemonRequest;
use halite_modules::masters::resolve_master_func;
use halite_sys::daemon::{PidFile, Report};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::logging::{Field, set_process_fields};
use halite_sys::memory::trim_memory;
use halite_sys::service::Service;
use halite_sys::signals::{SignalPipe, quit_flag};
use halite_transport::bus::BusHandle;
use halite_transport::poll::{Polled, Poller, Source};
use halite_transport::sockets::Context;
use halite_wire::Map;
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Idle time after which the minion frees memory.
const REST: Duration = Duration::from_secs(3);
/// How long jobs may take to exit when the minion is stopped.
const GRACE: Duration = Duration::from_millis(1000);

/// Parameters from the command line.
pub struct Start {
    /// Prefix of job names in the process list.
    pub title: String,
    /// Log levels of console and file, and the log file, as in [`Order::log`](super::job::Order::log).
    pub log: (String, String, String),
}

/// Runs the minion until SIGTERM.
///
/// # Errors
/// Why it cannot run; the error's status is the exit status.
pub fn run(config: MinionConfig, start: Start, report: &mut Report) -> Result<(), ExitError> {
    let mut config = config;
    prepare(&config)?;
    let signals = SignalPipe::install()?;
    let leaving = quit_flag()?;
    let stop = Stop::of(&signals.stop)?;
    let wake = Waker::new()?;
    let (teller, news) = unbounded();
    let (orders, woken) = (teller.clone(), wake.clone());
    let tap = move |body: &[u8]| {
        if let Some(order) = DaemonRequest::read(body)
            && orders.send(LoopEvent::Order(order)).is_ok()
        {
            woken.wake();
        }
    };
    let bus = serve_bus(&config, Box::new(tap))?;
    let _pid = PidFile::write(&config.pidfile)
        .map_err(|e| ExitError::io("pid file", &config.pidfile, &e))?;
    let mut grains = all_grains_until(&config, &signals.stop);
    resolve_master_func(&mut config, &mut grains)?;
    let (config, grains) = (Arc::new(config), Arc::new(grains));
    let shared = Shared {
        context: Context::new(),
        alarm: FatalError::new(&wake),
        stop: stop.clone(),
        wake,
        teller,
    };
    let mut minion = Minion::new(config, start, shared, news, grains, bus)?;
    // From here on, the minion only waits for the master, which may take days.
    report.ready();
    set_process_fields(&[(Field::Minion, &minion.config.id)]);
    minion.service.ready("signing in at the master");
    log::info!("minion {} starting", minion.config.id);
    if let Some(warning) = crate::check::present_key(&minion.config) {
        log::warn!("{warning}");
    }
    let delay = Duration::from_secs(minion.config.random_startup_delay).mul_f64(chance());
    let sleep = |time: Duration| {
        debug_report::write_if_asked("halite-minion", String::new);
        stop.sleep(time.min(Duration::from_secs(1)))
    };
    if !minion.service.sleep(delay, sleep) {
        minion.service.stopping();
        return Ok(());
    }
    minion.begin();
    minion.run(&signals, &leaving)
}

pub(super) struct Minion {
    /// Something has run since memory was last trimmed.
    warm: Cell<bool>,
    pub(super) config: Arc<MinionConfig>,
    pub(super) shared: Shared,
    news: Receiver<LoopEvent>,
    pub(super) lines: Vec<MasterConnection>,
    pub(super) grains: Arc<Map>,
    pub(super) jobs: Jobs,
    pub(super) bus: BusHandle,
    pub(super) timetable: Timetable,
    pub(super) beacon_runner: BeaconRunner,
    pub(super) jids: halite_wire::ids::JidClock,
    /// Number of pending pillar refreshes with a waiting requester.
    pub(super) pillars: usize,
    /// Whether there has been a connection yet.
    pub(super) met: bool,
    service: Service,
}

impl Minion {
    fn new(
        config: Arc<MinionConfig>,
        start: Start,
        shared: Shared,
        news: Receiver<LoopEvent>,
        grains: Arc<Map>,
        bus: BusHandle,
    ) -> Result<Minion, ExitError> {
        let mut jobs = Jobs::new(&config, start.log, start.title, grains.clone());
        jobs.let_outlive();
        let jids = RecentJids::new(config.minion_jid_queue_hwm as usize);
        let configs = line_configs(&config);
        let alone = configs.len() == 1;
        let mut lines = Vec::new();
        for (index, own) in configs.into_iter().enumerate() {
            let line = MasterConnection::new(index, own, &grains, &shared, &jids, alone)?;
            jobs.view_mut(index).master = line.master();
            lines.push(line);
        }
        Ok(Minion {
            warm: Cell::new(true),
            timetable: Timetable::new(&config),
            beacon_runner: BeaconRunner::new(&config),
            config,
            shared,
            news,
            lines,
            grains,
            jobs,
            bus,
            jids: Default::default(),
            pillars: 0,
            met: false,
            service: Service::inherited(),
        })
    }

    fn begin(&mut self) {
        for finished in self.jobs.adopt_orphans() {
            self.deliver(finished);
        }
        for line in &mut self.lines {
            line.open(Reason::First);
        }
        if self.lines.is_empty() {
            log::warn!("master_type is disable: this minion has no master");
        }
        if self.config.scheduler_before_connect {
            self.timetable.start();
        }
        if self.config.beacons_before_connect {
            self.beacon_runner.beacons.start(Instant::now(), true);
        }
        if self.lines.is_empty() {
            self.compile_local_pillar();
        }
    }

    fn run(mut self, signals: &SignalPipe, leaving: &AtomicBool) -> Result<(), ExitError> {
        let outcome = loop {
            if signals.stop.is_set() {
                break Ok(());
            }
            if let Some(error) = self.shared.alarm.take() {
                break Err(error);
            }
            if let Err(e) = self.turn(signals) {
                break Err(e);
            }
        };
        // When told to leave the jobs alone, or after a fatal error, jobs keep running.
        let leave = leaving.load(Ordering::Relaxed) || !signals.stop.is_set();
        self.end(signals, leave);
        outcome
    }

    /// Waits for events and handles them.
    fn turn(&mut self, signals: &SignalPipe) -> Result<(), ExitError> {
        let heard = self.wait(signals)?;
        // Empties the pipe; SIGCHLD needs no other handling.
        signals.wait(&[], 0)?;
        self.shared.wake.take();
        while let Ok(news) = self.news.try_recv() {
            self.handle(news)?;
        }
        for finished in self.jobs.poll() {
            self.deliver(finished);
        }
        for at in 0..self.lines.len() {
            let mut found = ReceivedJobs { jobs: Vec::new() };
            if self.lines[at].rekey(&mut found)? {
                self.jobs.view_mut(at).credentials = self.lines[at].credentials();
                self.jobs.view_mut(at).master = self.lines[at].master();
            }
            if heard.get(at).copied().unwrap_or_default() {
                found.jobs.extend(self.lines[at].read_publications()?.jobs);
            }
            for job in found.jobs {
                self.take(job, at);
            }
            self.lines[at].tick();
        }
        for due in self.timetable.due(timetable::now()) {
            self.launch(due);
        }
        self.poll_beacons();
        if signals.take_reload() {
            // The log reopens its file by itself.
            self.service.reloaded();
        }
        debug_report::write_if_asked("halite-minion", || self.report());
        self.service.beat(true);
        Ok(())
    }

    /// What SIGUSR1 asks for.
    fn report(&self) -> String {
        let mut out = format!("  id: {}\n", self.config.id);
        for line in &self.lines {
            let state = if line.subscriber().is_some() {
                "connected"
            } else {
                "not connected"
            };
            out += &format!("  master {}: {state}\n", line.master());
        }
        for job in self.jobs.running() {
            out += &format!("  job: {job}\n");
        }
        out + &format!("  events waiting: {}\n", self.news.len())
    }

    /// Waits for events; returns which connections have something to read.
    fn wait(&self, signals: &SignalPipe) -> Result<Vec<bool>, ExitError> {
        let mut poller = Poller::new();
        poller.add(Source::fd(signals.as_raw_fd()));
        poller.add(self.shared.wake.source());
        let places: Vec<_> = self
            .lines
            .iter()
            .map(|line| Some(poller.add(line.subscriber()?.source()?)))
            .collect();
        for fd in self.jobs.descriptors() {
            poller.add(Source::fd(fd));
        }
        let due = self.patience();
        let rests = self.warm.get() && due.is_none_or(|due| due > REST);
        let patience = if rests { Some(REST) } else { due };
        let mut polled = poller.wait(patience)?;
        if rests && matches!(polled, Polled::TimedOut) {
            // The work just done paged in memory that idling does not need. Wait on at once: a turn would page in
            // its code again.
            trim_memory();
            self.warm.set(false);
            polled = poller.wait(due.map(|due| due.saturating_sub(REST)))?;
        }
        if !matches!(polled, Polled::Interrupted) {
            // Something arrived or is due.
            self.warm.set(true);
        }
        let ready = |place: Option<usize>| place.is_some_and(|place| poller.is_ready(place));
        let lines = places.into_iter().zip(&self.lines);
        Ok(lines
            .map(|(place, line)| ready(place) || line.has_publications())
            .collect())
    }

    /// Time until something is due even without events.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let lines = self.lines.iter().filter_map(|line| line.wait(now));
        let schedule = self.timetable.wait(timetable::now());
        let beacons = self.beacon_runner.beacons.next_due(now);
        let left = self.jobs.patience();
        let first = lines.chain(schedule).chain(beacons).chain(left).min();
        // Not earlier than that: a wait is truncated to milliseconds.
        let wait = self.service.at_most(first)?;
        Some(wait.saturating_add(Duration::from_millis(1)))
    }

    fn handle(&mut self, news: LoopEvent) -> Result<(), ExitError> {
        match news {
            LoopEvent::Opened(at, opened) => {
                self.lines[at].opened(*opened);
                self.connected(at);
            }
            LoopEvent::Failed(at, error) => return self.failed(at, error),
            LoopEvent::Renewed(at) => self.lines[at].renewed(),
            LoopEvent::Alive(at, alive) => self.lines[at].input(Input::Alive(alive)),
            LoopEvent::First(at, answers) => self.lines[at].input(Input::FirstAnswers(answers)),
            LoopEvent::Pillar(at, pillar) => self.new_pillar(at, pillar),
            LoopEvent::Grains(grains, pillar) => self.new_grains(*grains, pillar),
            LoopEvent::Order(order) => self.order(order),
            LoopEvent::BeaconsPolled(seen) => self.beacons_polled(*seen),
        }
        Ok(())
    }

    /// A connection is open, maybe again.
    fn connected(&mut self, at: usize) {
        let line = &self.lines[at];
        let site = self.jobs.view_mut(at);
        site.master = line.master();
        site.pillar = line.me.pillar.clone();
        site.credentials = line.credentials();
        line.announce();
        self.jobs.resume(at);
        if self.leader() == at || !self.met {
            let pillar = line.me.pillar.clone();
            self.timetable.set_sources(&pillar, &self.grains);
            self.beacon_runner
                .beacons
                .set_pillar(&pillar, Instant::now());
        }
        log::info!("connected to the master {}", self.lines[at].master());
        self.ready();
    }

    /// The first connection is open, or a minion without masters has its pillar.
    pub(super) fn ready(&mut self) {
        if std::mem::replace(&mut self.met, true) {
            return;
        }
        self.timetable.start();
        self.beacon_runner.beacons.start(Instant::now(), false);
        self.startup_states();
        self.start_engines();
        self.service.status("ready");
        log::info!("minion {} is ready", self.config.id);
    }

    /// If one of several masters refuses us, the minion goes on, unless the key was rejected.
    fn failed(&mut self, at: usize, error: ExitError) -> Result<(), ExitError> {
        if error.status != 1 || self.lines.len() == 1 {
            return Err(error);
        }
        self.lines[at].failed(&error);
        match self.lines.iter().all(MasterConnection::is_dead) {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// The connection whose pillar and keys the minion itself uses: the first that is up.
    pub(super) fn leader(&self) -> usize {
        self.lines
            .iter()
            .position(MasterConnection::is_up)
            .unwrap_or(0)
    }

    /// Stops the jobs, or leaves those of masters to the next process. Results stay in the spool until the next
    /// start.
    fn end(&mut self, signals: &SignalPipe, leave: bool) {
        log::info!("minion {} stopping", self.config.id);
        self.service.stopping();
        let mut finished = self.jobs.poll();
        finished.extend(match leave {
            true => self.jobs.leave(),
            false => self.jobs.terminate(),
        });
        let end = Instant::now() + GRACE;
        loop {
            finished.extend(self.jobs.poll());
            if self.jobs.all_ended() || Instant::now() >= end {
                break;
            }
            let _ = signals.wait(&[], 50);
        }
        self.jobs.kill();
        finished.extend(self.jobs.poll());
        for result in finished.iter().filter(|_| self.config.pub_ret) {
            if let Origin::Master(at) = result.origin
                && let Some(line) = self.lines.get(at)
            {
                line.outbox().store(result.jid.as_str(), &result.load);
            }
        }
        self.bus.stop();
    }
}

/// The configuration of each connection: with `master_type: str`, one per master.
fn line_configs(config: &Arc<MinionConfig>) -> Vec<Arc<MinionConfig>> {
    match config.master_type.as_str() {
        "disable" => Vec::new(),
        "str" | "func" if config.master.len() > 1 => config
            .master
            .iter()
            .map(|master| {
                let mut own = config.as_ref().clone();
                own.master = vec![master.clone()];
                Arc::new(own)
            })
            .collect(),
        _ => vec![config.clone()],
    }
}
