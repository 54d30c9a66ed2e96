//! The syndic: joins upper masters as a minion, publishes their jobs to the minions of the master on
//! this host, and brings their returns and events up (`salt/minion.py Syndic`, `SyndicManager`).
//!
//! For each upper master two threads: the link hears its publications, the carrier speaks to its
//! request port. One more publishes down, and one hears the event bus of the master on this
//! host. What an upper master has is written down (the ledger), and what it lacks is taken from the
//! job cache, so that a restart on either side loses nothing and repeats nothing.

mod down;
mod forward_queue;
mod forwarded;
mod forwarder;
mod link;
mod routes;

use crossbeam_channel::bounded;
use forward_queue::Basket;
use forwarder::Carrier;
use halite_channel::FatalError;
use halite_channel::MinionError;
use halite_channel::STACK;
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::session::{Session, lock};
use halite_config::{MasterConfig, MinionConfig};
use halite_ipc::Subscriber;
use halite_store::Stores;
use halite_sys::daemon::{PidFile, Report, make_dir};
use halite_sys::service::Service;
use halite_sys::signals::SignalPipe;
use halite_transport::poll::{Poller, Source};
use halite_transport::sockets::Context;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, msgpack};
use link::{Carry, Plan};
use routes::{Routes, Rules};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Jobs that may wait to be published down.
const MOST_JOBS: usize = 1000;
/// Publications that wait for new keys.
const MOST_HELD: usize = 1000;

/// Time until an upper master that refuses is asked again, where there are others to serve.
const AGAIN: Duration = Duration::from_secs(30);
/// How long the main loop waits at most.
const TURN: Duration = Duration::from_secs(1);

/// What waits for one upper master.
#[derive(Default)]
struct Upper {
    basket: Mutex<Basket>,
    /// The job cache may have returns that the bus did not bring.
    behind: AtomicBool,
    /// The syndic has announced itself there.
    up: AtomicBool,
    /// It has answered lately.
    reached: AtomicBool,
}

impl Upper {
    fn reach(&self, reached: bool) {
        self.reached.store(reached, Ordering::Relaxed);
    }
}

/// What the threads share. No thread holds two of its locks, but for those who take `routes` first.
struct Shared {
    uppers: Vec<Upper>,
    /// Jobs of which returns may come, and what the upper masters have of them.
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

    /// Notes a job on disk, so that a later process looks for its returns too; whether it is to go
    /// down.
    fn asked(&self, master: usize, jid: &Jid) -> bool {
        lock(&self.routes).asked(master, jid).unwrap_or_else(|e| {
            log::error!("job {jid} would not be looked for after a restart: {e}");
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
            log::error!("job {jid} would not be looked for after a restart: {e}");
            // It is known by now, if not written down.
            routes.owners(jid, &reached)
        });
        owners.unwrap_or_default()
    }

    /// Events go to each upper master that the syndic has reached once.
    fn add_event(&self, tag: &str, data: &Map) {
        for upper in &self.uppers {
            if upper.up.load(Ordering::Relaxed) {
                lock(&upper.basket).add_event(tag, data.clone());
            }
        }
    }

    /// Every upper master's returns are looked for in the job cache.
    fn fall_behind(&self) {
        for upper in &self.uppers {
            upper.behind.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an event that is no return goes up: all of them, or in a cluster those that name a job's minions.
    fn wanted(&self, tag: &str, data: &Map) -> bool {
        if !lock(&self.routes).rules().cluster {
            return true;
        }
        let mut parts = tag.split('/').skip(1);
        let job = parts.next() == Some("job")
            && parts.next().is_some_and(|jid| jid.parse::<Jid>().is_ok())
            && parts.next().is_some();
        job && data.contains("minions")
    }

    /// Whether a return is of the own master's job in a cluster, where it stays.
    fn stays(&self, data: &Map) -> bool {
        let own = self.own.is_some() && data.get("master_id") == self.own.as_ref();
        own && lock(&self.routes).rules().cluster
    }
}

/// The minion's configuration as the syndic needs it: who it is and which master it joins
/// (`salt/config/__init__.py syndic_config`).
///
/// # Errors
/// No upper master is named.
pub fn upper(master: &MasterConfig, minion: &MinionConfig) -> Result<MinionConfig, MinionError> {
    if master.syndic_master.iter().all(String::is_empty) {
        let text = format!(
            "no upper master is configured: write `syndic_master: HOST` into {}, and `order_masters: true` into the configuration of the master on that host",
            master.conf_file.display()
        );
        return Err(MinionError::new(1, text));
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
/// What keeps it from running; the status is the exit status.
pub fn run(
    master: MasterConfig,
    upper: MinionConfig,
    report: &mut Report,
) -> Result<(), MinionError> {
    if let Err(e) = upper.id.parse::<halite_wire::ids::MinionId>() {
        return Err(MinionError::new(1, format!("the option `id`: {e}")));
    }
    let pause = forward_pause(&master)?;
    let rules = Rules::of(&master)?;
    make_dir(&upper.pki_dir, 0o700).map_err(|e| MinionError::io("pki_dir", &upper.pki_dir, &e))?;
    if nix::unistd::geteuid().is_root() {
        halite_sys::process::drop_privileges(&upper.user)?;
    }
    let signals = SignalPipe::install()?;
    let stop = Stop::of(&signals.stop)?;
    let _pid = PidFile::write(&upper.pidfile)
        .map_err(|e| MinionError::io("pid file", &upper.pidfile, &e))?;
    let masters = upper.master.clone();
    let routes = Routes::open(&master.cachedir, &masters, rules)
        .map_err(|e| MinionError::io("cachedir", &master.cachedir, &e))?;
    let own = master.extra.get("master_id").cloned();
    let shared = Arc::new(Shared::new(routes, masters.len(), own));
    let context = Context::new();
    let sessions: Result<Vec<_>, MinionError> = (0..masters.len())
        .map(|at| session(&upper, at, &context))
        .collect();
    let sessions = sessions?;
    report.ready();
    let mut service = Service::inherited();
    service.ready(&format!("serves {}", masters.join(", ")));
    log::info!("syndic {} begins", upper.id);
    listen(&master, shared.clone(), stop.clone())?;
    let wake = Waker::new()?;
    let alarm = FatalError::new(&wake);
    let (jobs, below) = bounded(MOST_JOBS);
    let carry = carry(&master, pause);
    spawn("down", move || down::run(master, &below))?;
    for (at, (session, upper)) in sessions.into_iter().enumerate() {
        let plan = Plan {
            master: at,
            upper,
            session,
            jobs: jobs.clone(),
            shared: shared.clone(),
            carry: carry.clone(),
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
            // The log opens its file anew by itself.
            service.reloaded();
        }
        service.beat(true);
    }
    service.stopping();
    log::info!("syndic {} ends", upper.id);
    Ok(())
}

/// The standing with one upper master. The first keeps its key in the file that a syndic of Salt uses,
/// which knows one key only.
fn session(
    upper: &MinionConfig,
    at: usize,
    context: &Context,
) -> Result<(Arc<Session>, Arc<MinionConfig>), MinionError> {
    let mut one = upper.clone();
    one.master = vec![upper.master[at].clone()];
    let suffix = (at > 0).then(|| routes::place(&upper.master[at]));
    let (file, one) = (upper.syndic_master(suffix.as_deref()), Arc::new(one));
    let session = Session::pinned_in(file, one.clone(), &Map::new(), context, false)?;
    Ok((Arc::new(session), one))
}

/// Serves one upper master. What one of several refuses ends nothing but its own link.
fn serve(plan: &Plan, name: &str, alarm: Option<&FatalError>) {
    loop {
        let Err(error) = link::run(plan) else {
            return;
        };
        if let Some(alarm) = alarm {
            return alarm.raise(error);
        }
        log::error!("the upper master {name}: {error}; asked again later");
        if !plan.stop.sleep(AGAIN) {
            return;
        }
    }
}

fn carry(master: &MasterConfig, pause: Duration) -> Carry {
    let master = master.clone();
    let most_loads = (master.syndic_jid_forward_cache_hwm as usize).max(1);
    let keep = Duration::from_secs(master.keep_jobs_seconds.max(3600));
    Arc::new(move |plan, channel, over| Carrier {
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

fn forward_pause(master: &MasterConfig) -> Result<Duration, MinionError> {
    let text = &master.syndic_event_forward_timeout;
    let seconds: f64 = text.trim().parse().unwrap_or(-1.0);
    if !(0.01..=3600.0).contains(&seconds) {
        let why = format!(
            "the option `syndic_event_forward_timeout` is {text:?}; it must be seconds from 0.01 to 3600"
        );
        return Err(MinionError::new(1, why));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), MinionError> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK * 2)
        .spawn(run)?;
    Ok(())
}

/// Hears the bus of the master on this host.
fn listen(master: &MasterConfig, shared: Arc<Shared>, stop: Stop) -> Result<(), MinionError> {
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
            // What happened while nobody listened stands in the job cache.
            shared.fall_behind();
            while !stop.is_set() {
                match bus.next(Some(Duration::from_millis(500))) {
                    Ok(Some(event)) => heard(&shared, &event),
                    Ok(None) | Err(halite_ipc::Error::Event(_)) => {}
                    Err(e) => {
                        log::warn!("the event bus went away: {e}");
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
    if event.tag == "halite/bus/dropped" {
        return shared.fall_behind();
    }
    let Some((jid, id)) = forward_queue::return_of(&event.tag) else {
        if shared.wanted(&event.tag, &data) {
            shared.add_event(&event.tag, &data);
        }
        return;
    };
    if shared.stays(&data) {
        return;
    }
    let trimmed = data
        .get("return")
        .is_some_and(|r| r.is_str("VALUE_TRIMMED"));
    for owner in shared.owners(&jid) {
        let upper = &shared.uppers[owner];
        if trimmed {
            // The job cache has it whole.
            upper.behind.store(true, Ordering::Relaxed);
        } else if data.contains("return") {
            lock(&upper.basket).add_return(&jid, id, &data);
        }
    }
}
