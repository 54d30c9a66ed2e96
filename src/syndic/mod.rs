//! The syndic: joins an upper master as a minion, publishes its jobs to the minions of the master on
//! this host, and brings their returns and events up (`salt/minion.py Syndic`, `SyndicManager`).
//!
//! Four threads: the main one hears the upper master's publications; one publishes them down; one
//! hears the event bus of the master on this host; the carrier speaks to the upper master's request
//! port. What the upper master has is written down (the ledger), and what it lacks is taken
//! from the job cache, so that a restart on either side loses nothing and repeats nothing.

mod basket;
mod carrier;
mod down;
mod ledger;

use crate::config::{MasterConfig, MinionConfig};
use crate::minion::ask::{Stop, Wake};
use crate::minion::channel::Channel;
use crate::minion::publication::{Job, Received, Receiver};
use crate::minion::session::{Credentials, Session, lock};
use crate::minion::setup::{STACK, subscribe};
use crate::minion::{Alarm, MinionError};
use crate::store::open;
use crate::sys::daemon::{PidFile, Report, make_dir};
use crate::sys::signals::SignalPipe;
use crate::wire::ids::Jid;
use crate::wire::{Map, Value, msgpack};
use basket::Basket;
use carrier::Carrier;
use crossbeam_channel::{Sender, TrySendError, bounded};
use halite_ipc::Subscriber;
use ledger::Ledger;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Jobs that may wait to be published down.
const MOST_JOBS: usize = 1000;
/// Publications that wait for new keys.
const MOST_HELD: usize = 1000;

/// What the threads share.
struct Shared {
    basket: Mutex<Basket>,
    /// Jobs of which returns may come, and what the upper master has of them.
    ledger: Mutex<Ledger>,
    /// The job cache may have returns that the bus did not bring.
    behind: AtomicBool,
}

impl Shared {
    /// Notes a job on disk, so that a later process looks for its returns too.
    fn begin(&self, jid: &Jid) {
        if let Err(e) = lock(&self.ledger).begin(jid) {
            log::error!("job {jid} would not be looked for after a restart: {e}");
        }
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
    upper.master = master.syndic_master.clone();
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
    if let Err(e) = upper.id.parse::<crate::wire::ids::MinionId>() {
        return Err(MinionError::new(1, format!("the option `id`: {e}")));
    }
    let pause = forward_pause(&master)?;
    make_dir(&upper.pki_dir, 0o700).map_err(|e| MinionError::io("pki_dir", &upper.pki_dir, &e))?;
    if nix::unistd::geteuid().is_root() {
        crate::sys::process::drop_privileges(&upper.user)?;
    }
    let upper = Arc::new(upper);
    let signals = SignalPipe::install()?;
    let stop = Stop::of(&signals.stop)?;
    let _pid = PidFile::write(&upper.pidfile)
        .map_err(|e| MinionError::io("pid file", &upper.pidfile, &e))?;
    let ledger = Ledger::open(&master.cachedir)
        .map_err(|e| MinionError::io("cachedir", &master.cachedir, &e))?;
    let context = zmq::Context::new();
    let file = upper.pki_dir.join("syndic_master.pub");
    let session = Session::pinned_in(file, upper.clone(), &Map::new(), &context, false)?;
    let session = Arc::new(session);
    report.ready();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    log::info!("syndic {} begins", upper.id);
    let Some(credentials) = session.renew(0, &stop)? else {
        return Ok(());
    };
    let subscriber = subscribe(&upper, &context, &credentials.publish_url, true)?;
    let shared = Arc::new(Shared {
        basket: Mutex::default(),
        ledger: Mutex::new(ledger),
        behind: AtomicBool::new(true),
    });
    let wake = Wake::new()?;
    session.announce_to(&wake);
    let alarm = Alarm::new(&wake);
    let carrier = Carrier {
        shared: shared.clone(),
        channel: Channel::new(&session, stop.clone())?,
        jobs: open::job_store(&master),
        id: upper.id.clone(),
        pause,
        keep: Duration::from_secs(master.keep_jobs_seconds.max(3600)),
        loads: VecDeque::new(),
        most_loads: (master.syndic_jid_forward_cache_hwm as usize).max(1),
    };
    let raised = alarm.clone();
    spawn("carrier", move || {
        if let Err(e) = carrier.run() {
            raised.raise(e);
        }
    })?;
    listen(&master, shared.clone(), stop.clone())?;
    let (jobs, below) = bounded(MOST_JOBS);
    spawn("down", move || down::run(master, &below))?;
    let mut syndic = Syndic {
        receiver: Receiver::new(
            &upper.id,
            &credentials.aes,
            verifier(&upper, &credentials),
            upper.minion_jid_queue_hwm as usize,
        )
        .as_syndic(),
        generation: credentials.generation,
        publish_url: credentials.publish_url.clone(),
        upper,
        session,
        subscriber,
        jobs,
        shared,
        alarm,
        stop,
        wake,
        renewing: Arc::default(),
        held: Vec::new(),
    };
    syndic.announce()?;
    syndic.run(&signals)
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
    let path = master.sock_dir.join("master_event_pub.ipc");
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
            shared.behind.store(true, Ordering::Relaxed);
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
        return shared.behind.store(true, Ordering::Relaxed);
    }
    let Some((jid, id)) = basket::return_of(&event.tag) else {
        return lock(&shared.basket).add_event(&event.tag, data);
    };
    shared.begin(&jid);
    let trimmed = data
        .get("return")
        .is_some_and(|r| r.is_str("VALUE_TRIMMED"));
    if trimmed {
        // The job cache has it whole.
        return shared.behind.store(true, Ordering::Relaxed);
    }
    if data.contains("return") {
        lock(&shared.basket).add_return(&jid, id, &data);
    }
}

fn verifier(upper: &MinionConfig, credentials: &Credentials) -> Option<crate::crypto::PublicKey> {
    upper
        .sign_pub_messages
        .then(|| credentials.master.key.clone())
}

struct Syndic {
    upper: Arc<MinionConfig>,
    session: Arc<Session>,
    subscriber: zmq::Socket,
    publish_url: String,
    receiver: Receiver,
    generation: u64,
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    alarm: Alarm,
    stop: Stop,
    wake: Wake,
    renewing: Arc<AtomicBool>,
    held: Vec<Vec<Vec<u8>>>,
}

impl Syndic {
    /// The start events (`Syndic.fire_master_syndic_start`).
    fn announce(&self) -> Result<(), MinionError> {
        let id = &self.upper.id;
        let now = jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y");
        let text = format!("Syndic {id} started at {now}");
        let legacy = self
            .upper
            .enable_legacy_startup_events
            .then(|| "syndic_start".to_owned());
        let mut channel = Channel::new(&self.session, self.stop.clone())?;
        for tag in legacy.into_iter().chain([format!("syndic/{id}/start")]) {
            let load = crate::map! {
                "id" => id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Nil,
                "data" => text.as_str(), "tag" => tag,
            };
            let (timeout, _) = channel.usual();
            channel.call(&load, timeout, 1)?;
        }
        log::info!("syndic {id} is ready");
        Ok(())
    }

    fn run(&mut self, signals: &SignalPipe) -> Result<(), MinionError> {
        while !signals.stop.is_set() {
            if let Some(error) = self.alarm.take() {
                return Err(error);
            }
            let mut items = [
                self.subscriber.as_poll_item(zmq::POLLIN),
                zmq::PollItem::from_fd(signals.as_raw_fd(), zmq::POLLIN),
                zmq::PollItem::from_fd(self.wake.as_raw_fd(), zmq::POLLIN),
            ];
            match zmq::poll(&mut items, 1000) {
                Ok(_) | Err(zmq::Error::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            signals.wait(&[], 0)?;
            self.wake.take();
            self.rekey()?;
            loop {
                match self.subscriber.recv_multipart(zmq::DONTWAIT) {
                    Ok(frames) => self.receive(frames, true),
                    Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => break,
                    Err(e) => return Err(e.into()),
                }
            }
        }
        log::info!("syndic {} ends", self.upper.id);
        Ok(())
    }

    fn receive(&mut self, frames: Vec<Vec<u8>>, may_renew: bool) {
        match self.receiver.receive_any(&frames) {
            Received::Job(job) => self.forward(job),
            Received::Ignored(why) => log::debug!("a publication is ignored: {why}"),
            Received::Unknown if may_renew && self.held.len() < MOST_HELD => {
                self.held.push(frames);
                self.renew();
            }
            Received::Unknown => {
                log::warn!("a publication cannot be decrypted even with the newest keys; ignored")
            }
        }
    }

    fn forward(&mut self, job: Job) {
        // Noted before anybody can return.
        self.shared.begin(&job.jid);
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => {
                log::error!(
                    "job {} is dropped: {MOST_JOBS} wait for the master below",
                    job.jid
                )
            }
            Err(TrySendError::Disconnected(job)) => {
                log::error!("job {} is dropped: nobody publishes it", job.jid)
            }
        }
    }

    /// Signs in beside the loop; its end wakes the loop.
    fn renew(&mut self) {
        if self.renewing.swap(true, Ordering::SeqCst) {
            return;
        }
        let (session, seen, stop) = (self.session.clone(), self.generation, self.stop.clone());
        let (alarm, wake, renewing) =
            (self.alarm.clone(), self.wake.clone(), self.renewing.clone());
        let spawned = spawn("sign-in", move || {
            if let Err(e) = session.renew(seen, &stop) {
                alarm.raise(e);
            }
            renewing.store(false, Ordering::SeqCst);
            wake.wake();
        });
        if let Err(e) = spawned {
            log::error!("no sign-in: {e}");
            self.renewing.store(false, Ordering::SeqCst);
        }
    }

    /// Takes new keys, and looks again at what was held for them.
    fn rekey(&mut self) -> Result<(), MinionError> {
        let Some(present) = self
            .session
            .present()
            .filter(|c| c.generation > self.generation)
        else {
            return Ok(());
        };
        self.generation = present.generation;
        self.receiver
            .rekey(&present.aes, verifier(&self.upper, &present));
        if present.publish_url != self.publish_url {
            let context = self.session.context();
            self.subscriber = subscribe(&self.upper, context, &present.publish_url, true)?;
            self.publish_url = present.publish_url.clone();
        }
        for frames in std::mem::take(&mut self.held) {
            self.receive(frames, false);
        }
        Ok(())
    }
}
