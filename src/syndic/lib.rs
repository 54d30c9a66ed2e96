//! The syndic: joins upper masters as a minion, publishes their jobs to the minions of the master on this host,
//! and forwards returns and events to them (`salt/minion.py Syndic`, `SyndicManager`).
//!
//! There are two threads per upper master: the link receives its publications, the forwarder sends requests to
//! its request port. One more thread publishes to the local master, and one listens to its event bus. What an
//! upper master has acknowledged is recorded on disk, and what it lacks is read from the job cache, so that a
//! restart on either side neither loses nor repeats anything.

mod down;
mod forward_queue;
mod forwarded;
mod forwarder;
mod link;
mod routes;

use crossbeam_channel::bounded;
use forward_queue::ForwardQueue;
use forwarder::Forwarder;
use halite_channel::FatalError;
use halite_channel::STACK;
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::session::{Session, lock};
use halite_config::{MasterConfig, MinionConfig};
use halite_ipc::Subscriber;
use halite_master::events::is_trimmed;
use halite_store::Stores;
use halite_sys::daemon::{PidFile, Report, make_dir};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::sandbox::Sandbox;
use halite_sys::service::Service;
use halite_sys::signals::SignalPipe;
use halite_transport::poll::{Poller, Source};
use halite_transport::sockets::Context;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, msgpack};
use link::{MakeForwarder, Plan};
use routes::{Routes, Rules};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most jobs waiting to be published below.
const MOST_JOBS: usize = 1000;
/// Most publications waiting for new keys.
const MOST_HELD: usize = 1000;

/// When to retry an upper master that refuses, if there are others to serve.
const AGAIN: Duration = Duration::from_secs(30);
/// Longest wait of the main loop.
const TURN: Duration = Duration::from_secs(1);

/// State of one upper master.
#[derive(Default)]
struct Upper {
    queue: Mutex<ForwardQueue>,
    /// The job cache may have returns that did not arrive over the bus.
    behind: AtomicBool,
    /// The syndic has announced itself there.
    up: AtomicBool,
    /// It has answered recently.
    reached: AtomicBool,
}

impl Upper {
    fn reach(&self, reached: bool) {
        self.reached.store(reached, Ordering::Relaxed);
    }
}

/// State shared by the threads. No thread holds two of these locks, unless it takes `routes` first.
struct Shared {
    uppers: Vec<Upper>,
    /// Jobs that may return, and which returns the upper masters have.
    routes: Mutex<Routes>,
    /// `master_id` of the master on this host.
    own: Option<Value>,
}

impl Shared {
    fn new(routes: Routes, count: usize, own: Option<Value>) -> Shared {
        let uppers: Vec<Upper> = (0..count).map(|_| Upper::default()).collect();
        let shared = Shared {
            uppers,
            routes: Mutex::new(routes),
            own,
        };
        shared.fall_behind();
        shared
    }

    /// Records a job on disk, so that a later process looks for its returns too. Returns whether to publish it
    /// below.
    fn record_job(&self, master: usize, jid: &Jid) -> bool {
        lock(&self.routes)
            .record_job(master, jid)
            .unwrap_or_else(|e| {
                log::error!(
                    "cannot record job {jid}, whose returns would be missed after a restart: {e}"
                );
                true
            })
    }

    /// Which upper masters answer.
    fn reached(&self) -> Vec<bool> {
        let each = self.uppers.iter();
        each.map(|u| u.reached.load(Ordering::Relaxed)).collect()
    }

    /// The upper masters that get a job's returns.
    fn owners(&self, jid: &Jid) -> Vec<usize> {
        let reached = self.reached();
        let mut routes = lock(&self.routes);
        let owners = routes.owners(jid, &reached).or_else(|e| {
            log::error!(
                "cannot record job {jid}, whose returns would be missed after a restart: {e}"
            );
            // It is known now, even if not recorded.
            routes.owners(jid, &reached)
        });
        owners.unwrap_or_default()
    }

    /// Queues an event for each upper master with which the syndic has connected.
    fn add_event(&self, tag: &str, data: &Map) {
        for upper in &self.uppers {
            if upper.up.load(Ordering::Relaxed) {
                lock(&upper.queue).add_event(tag, data.clone());
            }
        }
    }

    /// Marks that returns for every upper master must be looked up in the job cache.
    fn fall_behind(&self) {
        for upper in &self.uppers {
            upper.behind.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an event that is not a return is forwarded: always, or in a cluster if it lists a job's minions.
    fn is_forwarded(&self, tag: &str, data: &Map) -> bool {
        if !lock(&self.routes).rules().cluster {
            return true;
        }
        let mut parts = tag.split('/').skip(1);
        let job = parts.next() == Some("job")
            && parts.next().is_some_and(|jid| jid.parse::<Jid>().is_ok())
            && parts.next().is_some();
        job && data.contains("minions")
    }

    /// Whether a return is for a job of the local master in a cluster, and is not forwarded.
    fn stays_local(&self, data: &Map) -> bool {
        let own = self.own.is_some() && data.get("master_id") == self.own.as_ref();
        own && lock(&self.routes).rules().cluster
    }
}

/// The minion configuration as the syndic needs it: its identity and the master it joins
/// (`salt/config/__init__.py syndic_config`).
///
/// # Errors
/// No upper master is configured.
pub fn upper(master: &MasterConfig, minion: &MinionConfig) -> Result<MinionConfig, ExitError> {
    if master.syndic_master.iter().all(String::is_empty) {
        let text = format!(
            "no upper master is configured: write `syndic_master: HOST` into {}, and `order_masters: true` into the configuration of the master on that host",
            master.conf_file.display()
        );
        return Err(ExitError::new(1, text));
    }
    let mut upper = minion.clone();
    upper.master = Vec::new();
    for one in &master.syndic_master {
        if !one.is_empty() && !upper.master.contains(one) {
            upper.master.push(one.clone());
        }
    }
    if master.syndic_master_port != 0 {
        upper.master_port = master.syndic_master_port;
    }
    upper.user = master
        .syndic_user
        .clone()
        .unwrap_or_else(|| master.user.clone());
    upper.pidfile = master.syndic_pidfile.clone();
    upper.cachedir = master.cachedir.clone();
    upper.log_file = master.syndic_log_file.clone();
    Ok(upper)
}

/// Runs the syndic until SIGTERM.
///
/// # Errors
/// Why it cannot run; the error's status is the exit status.
pub fn run(
    master: MasterConfig,
    upper: MinionConfig,
    report: &mut Report,
) -> Result<(), ExitError> {
    if let Err(e) = upper.id.parse::<halite_wire::ids::MinionId>() {
        return Err(ExitError::new(1, format!("the option `id`: {e}")));
    }
    let pause = forward_pause(&master)?;
    let rules = Rules::of(&master)?;
    make_dir(&upper.pki_dir, 0o700).map_err(|e| ExitError::io("pki_dir", &upper.pki_dir, &e))?;
    if nix::unistd::geteuid().is_root() {
        halite_sys::process::drop_privileges(&upper.user)?;
    }
    Sandbox::daemon(Vec::new()).enter()?;
    let signals = SignalPipe::install()?;
    let stop = Stop::of(&signals.stop)?;
    let _pid = PidFile::write(&upper.pidfile)
        .map_err(|e| ExitError::io("pid file", &upper.pidfile, &e))?;
    let masters = upper.master.clone();
    let routes = Routes::open(&master.cachedir, &masters, rules)
        .map_err(|e| ExitError::io("cachedir", &master.cachedir, &e))?;
    let own = master.extra.get("master_id").cloned();
    let shared = Arc::new(Shared::new(routes, masters.len(), own));
    let context = Context::new();
    let sessions: Result<Vec<_>, ExitError> = (0..masters.len())
        .map(|at| session(&upper, at, &context))
        .collect();
    let sessions = sessions?;
    report.ready();
    let mut service = Service::inherited();
    service.ready(&format!("serving {}", masters.join(", ")));
    log::info!("syndic {} starting", upper.id);
    listen(&master, shared.clone(), stop.clone())?;
    let wake = Waker::new()?;
    let alarm = FatalError::new(&wake);
    let (jobs, below) = bounded(MOST_JOBS);
    let make_forwarder = forwarder_factory(&master, pause);
    spawn("down", move || down::run(master, &below))?;
    for (at, (session, upper)) in sessions.into_iter().enumerate() {
        let plan = Plan {
            master: at,
            upper,
            session,
            jobs: jobs.clone(),
            shared: shared.clone(),
            make_forwarder: make_forwarder.clone(),
            stop: stop.clone(),
        };
        let alarm = (masters.len() == 1).then(|| alarm.clone());
        let name = masters[at].clone();
        spawn("link", move || serve(&plan, &name, alarm.as_ref()))?;
    }
    while !signals.stop.is_set() {
        if let Some(error) = alarm.take() {
            return Err(error);
        }
        let mut poller = Poller::new();
        poller.add(Source::fd(signals.as_raw_fd()));
        poller.add(wake.source());
        let wait = service.at_most(Some(TURN)).unwrap_or(TURN);
        poller.wait(Some(wait + Duration::from_millis(1)))?;
        signals.wait(&[], 0)?;
        wake.take();
        if signals.take_reload() {
            // The log reopens its file by itself.
            service.reloaded();
        }
        debug_report::write_if_asked("halite-syndic", String::new);
        service.beat(true);
    }
    service.stopping();
    log::info!("syndic {} stopping", upper.id);
    Ok(())
}

/// The session with one upper master. The first uses the key file of a Salt syndic, which has only one key.
fn session(
    upper: &MinionConfig,
    at: usize,
    context: &Context,
) -> Result<(Arc<Session>, Arc<MinionConfig>), ExitError> {
    let mut one = upper.clone();
    one.master = vec![upper.master[at].clone()];
    let suffix = (at > 0).then(|| routes::dir_name(&upper.master[at]));
    let (file, one) = (upper.syndic_master(suffix.as_deref()), Arc::new(one));
    let session = Session::pinned_in(file, one.clone(), &Map::new(), context, false)?;
    Ok((Arc::new(session), one))
}

/// Serves one upper master. If one of several refuses, only its own link stops.
fn serve(plan: &Plan, name: &str, alarm: Option<&FatalError>) {
    loop {
        let Err(error) = link::run(plan) else {
            return;
        };
        if let Some(alarm) = alarm {
            return alarm.raise(error);
        }
        log::error!("the upper master {name}: {error}; trying again later");
        if !plan.stop.sleep(AGAIN) {
            return;
        }
    }
}

fn forwarder_factory(master: &MasterConfig, pause: Duration) -> MakeForwarder {
    let master = master.clone();
    let most_loads = (master.syndic_jid_forward_cache_hwm as usize).max(1);
    let keep = Duration::from_secs(master.keep_jobs_seconds.max(3600));
    Arc::new(move |plan, channel, over| Forwarder {
        master: plan.master,
        shared: plan.shared.clone(),
        channel,
        jobs: Stores::open(&master).jobs,
        upper: plan.upper.clone(),
        pause,
        keep,
        loads: VecDeque::new(),
        most_loads,
        unanswered: 0,
        over,
    })
}

fn forward_pause(master: &MasterConfig) -> Result<Duration, ExitError> {
    let text = &master.syndic_event_forward_timeout;
    let seconds: f64 = text.trim().parse().unwrap_or(-1.0);
    if !(0.01..=3600.0).contains(&seconds) {
        let why = format!(
            "the option `syndic_event_forward_timeout` is {text:?}; it must be seconds from 0.01 to 3600"
        );
        return Err(ExitError::new(1, why));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), ExitError> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK * 2)
        .spawn(run)?;
    Ok(())
}

/// Listens to the event bus of the local master.
fn listen(master: &MasterConfig, shared: Arc<Shared>, stop: Stop) -> Result<(), ExitError> {
    let path = master.event_pub();
    spawn("event bus", move || {
        while !stop.is_set() {
            let mut bus = match Subscriber::connect(&path) {
                Ok(bus) => bus,
                Err(e) => {
                    log::info!("no event bus at {}: {e}", path.display());
                    stop.sleep(Duration::from_secs(1));
                    continue;
                }
            };
            // What happened meanwhile is in the job cache.
            shared.fall_behind();
            while !stop.is_set() {
                match bus.next(Some(Duration::from_millis(500))) {
                    Ok(Some(event)) => heard(&shared, &event),
                    Ok(None) | Err(halite_ipc::Error::Event(_)) => {}
                    Err(e) => {
                        log::warn!("lost the event bus: {e}");
                        break;
                    }
                }
            }
        }
    })
}

fn heard(shared: &Shared, event: &halite_ipc::Event) {
    let Ok(Value::Map(data)) = msgpack::decode(&event.payload) else {
        return;
    };
    if event.tag == halite_ipc::DROPPED {
        return shared.fall_behind();
    }
    let Some((jid, id)) = forward_queue::return_of(&event.tag) else {
        if shared.is_forwarded(&event.tag, &data) {
            shared.add_event(&event.tag, &data);
        }
        return;
    };
    if shared.stays_local(&data) {
        return;
    }
    let trimmed = is_trimmed(&data);
    for owner in shared.owners(&jid) {
        let upper = &shared.uppers[owner];
        if trimmed {
            // The job cache has the whole return.
            upper.behind.store(true, Ordering::Relaxed);
        } else if data.contains("return") {
            lock(&upper.queue).add_return(&jid, id, &data);
        }
    }
}
