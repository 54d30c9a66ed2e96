//! The minion daemon's main loop.
//!
//! It waits for publications, signals, results of jobs and new keys at once, and handles
//! each without waiting for anything. Talking to the master's request port is the
//! [`courier`](super::courier)'s; a sign-in that a publication makes necessary runs in a
//! thread of its own while that publication is held.

use super::ask::{Stop, Wake};
use super::channel::Channel;
use super::courier::{Courier, Outbox};
use super::jobs::{Finished, Jobs};
use super::link::hand_over;
use super::mining::{Fate, Mining};
use super::modules::{Context, mine_functions};
use super::publication::{Received, Receiver};
use super::session::{Credentials, Session, chance};
use super::setup::{STACK, prepare, serve_bus, subscribe};
use super::spool::Spool;
use super::{Alarm, Me, MinionError, all_grains};
use crate::config::MinionConfig;
use crate::crypto::PublicKey;
use crate::sys::daemon::{PidFile, Report};
use crate::sys::signals::SignalPipe;
use crate::transport::bus::BusHandle;
use crate::wire::Map;
use halite_ipc::Event;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A publication that waits for new keys longer than this is dropped: a job must not run
/// when everybody has forgotten it.
const HOLD: Duration = Duration::from_secs(60);
/// Publications that may wait so.
const MAX_HELD: usize = 1000;
/// Publications taken in one turn, so that results get their turn as well.
const TURN: usize = 64;
/// How long jobs may take to end when the minion is stopped.
const GRACE: Duration = Duration::from_millis(1000);
/// A sign-in that changed nothing is not repeated sooner than this.
const FRUITLESS: Duration = Duration::from_secs(5);

/// What the command line adds to the configuration.
pub struct Start {
    /// Begins the names of jobs in the process list.
    pub title: String,
    /// Levels of console and log file, and the file, as in [`Order::log`](super::job::Order::log).
    pub log: (String, String, String),
}

/// Runs the minion until SIGTERM.
///
/// # Errors
/// What keeps it from running; the status is the exit status.
pub fn run(config: MinionConfig, start: Start, report: &mut Report) -> Result<(), MinionError> {
    let config = Arc::new(config);
    prepare(&config)?;
    let signals = SignalPipe::install()?;
    let stop = Stop::of(&signals.stop)?;
    let bus = serve_bus(&config)?;
    let _pid = PidFile::write(&config.pidfile)
        .map_err(|e| MinionError::io("pid file", &config.pidfile, &e))?;
    let grains = Arc::new(all_grains(&config));
    let context = zmq::Context::new();
    let session = Arc::new(Session::new(config.clone(), &grains, &context, false)?);
    // From here on there is only waiting for the master, which may take days.
    report.ready();
    let _ = sd_notify::notify(&[
        sd_notify::NotifyState::Ready,
        sd_notify::NotifyState::Status("signing in at the master"),
    ]);
    log::info!("minion {} begins", config.id);
    if !stop.sleep(Duration::from_secs(config.random_startup_delay).mul_f64(chance())) {
        return Ok(());
    }
    let Some(credentials) = session.renew(0, &stop)? else {
        return Ok(());
    };
    // Hear publications before anything else is asked: none is missed meanwhile.
    let subscriber = subscribe(&config, &context, &credentials.publish_url, false)?;
    let mut channel = Channel::new(&session, stop.clone())?;
    let Some(pillar) = pillar(&mut channel, &grains, &stop)? else {
        return Ok(());
    };
    drop(channel);
    let me = Me {
        id: config.id.clone(),
        grains: grains.clone(),
        pillar: Arc::new(pillar),
    };
    let minion = Minion::new(start, session, subscriber, &credentials, me, stop, bus)?;
    minion.run(&signals)
}

/// The pillar, however long the master takes; `None` if the process is to end.
fn pillar(channel: &mut Channel, grains: &Map, stop: &Stop) -> Result<Option<Map>, MinionError> {
    loop {
        match channel.pillar(grains) {
            Err(e) if e.status == 1 => {
                log::error!("{e}; the minion tries again");
                if !stop.sleep(Duration::from_secs(5)) {
                    return Ok(None);
                }
            }
            other => return other,
        }
    }
}

struct Minion {
    config: Arc<MinionConfig>,
    session: Arc<Session>,
    subscriber: zmq::Socket,
    publish_url: String,
    receiver: Receiver,
    me: Me,
    jobs: Jobs,
    outbox: Outbox,
    bus: BusHandle,
    alarm: Alarm,
    stop: Stop,
    wake: Wake,
    held: VecDeque<(Instant, Vec<Vec<u8>>)>,
    /// Generation of the keys in use.
    generation: u64,
    /// A sign-in is under way.
    renewing: Arc<AtomicBool>,
    /// When a sign-in gave the same keys as before.
    fruitless: Option<Instant>,
    next_ping: Option<Instant>,
    mining: Mining,
}

impl Minion {
    fn new(
        start: Start,
        session: Arc<Session>,
        subscriber: zmq::Socket,
        credentials: &Credentials,
        me: Me,
        stop: Stop,
        bus: BusHandle,
    ) -> Result<Minion, MinionError> {
        let config = session.config().clone();
        let mut jobs = Jobs::new(&config, start.log, start.title, me.grains.clone());
        jobs.set_pillar(me.pillar.clone());
        jobs.set_credentials(hand_over(credentials));
        let spool = match Spool::open(&config.cachedir) {
            Ok(spool) => Some(spool),
            Err(e) => {
                log::error!(
                    "results are kept in memory only: {}/returns: {e}",
                    config.cachedir.display()
                );
                None
            }
        };
        let wake = Wake::new()?;
        let alarm = Alarm::new(&wake);
        let (courier, outbox) = Courier::new(&session, spool, stop.clone())?;
        let raised = alarm.clone();
        std::thread::Builder::new()
            .name("courier".into())
            .stack_size(STACK * 2)
            .spawn(move || courier.run(&raised))?;
        let ping = Duration::from_secs(config.ping_interval.saturating_mul(60));
        Ok(Minion {
            receiver: Receiver::new(
                &config.id,
                &credentials.aes,
                verifier(&config, credentials),
                config.minion_jid_queue_hwm as usize,
            ),
            publish_url: credentials.publish_url.clone(),
            generation: credentials.generation,
            next_ping: (!ping.is_zero()).then(|| Instant::now() + ping),
            mining: Mining::new(&config, Instant::now()),
            renewing: Arc::default(),
            fruitless: None,
            held: VecDeque::new(),
            config,
            session,
            subscriber,
            me,
            jobs,
            outbox,
            bus,
            alarm,
            stop,
            wake,
        })
    }

    fn run(mut self, signals: &SignalPipe) -> Result<(), MinionError> {
        for orphan in self.jobs.orphans() {
            log::warn!("job {} was not finished by an earlier process", orphan.jid);
            self.deliver(orphan);
        }
        self.announce();
        self.mine();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Status("ready")]);
        log::info!("minion {} is ready", self.config.id);
        let outcome = loop {
            if signals.stop.is_set() {
                break Ok(());
            }
            if let Some(error) = self.alarm.take() {
                break Err(error);
            }
            if let Err(e) = self.turn(signals) {
                break Err(e);
            }
        };
        self.end(signals);
        outcome
    }

    /// The start events (`salt/minion.py Minion._fire_master_minion_start`).
    fn announce(&self) {
        let id = &self.config.id;
        let now = jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y");
        let text = format!("Minion {id} started at {now}");
        let legacy = self
            .config
            .enable_legacy_startup_events
            .then(|| "minion_start".to_owned());
        for tag in legacy
            .into_iter()
            .chain([format!("salt/minion/{id}/start")])
        {
            let mut load = event(id, &tag, text.as_str().into());
            let wanted = &self.config.start_event_grains;
            if !wanted.is_empty() {
                let grains: Map = self
                    .me
                    .grains
                    .iter()
                    .filter(|(k, _)| k.as_str().is_some_and(|k| wanted.iter().any(|w| w == k)))
                    .cloned()
                    .collect();
                load.set("grains", grains);
            }
            self.outbox.event(load);
        }
    }

    /// Waits for something to happen and handles it.
    fn turn(&mut self, signals: &SignalPipe) -> Result<(), MinionError> {
        let mut items = vec![
            self.subscriber.as_poll_item(zmq::POLLIN),
            zmq::PollItem::from_fd(signals.as_raw_fd(), zmq::POLLIN),
            zmq::PollItem::from_fd(self.wake.as_raw_fd(), zmq::POLLIN),
        ];
        items.extend(
            self.jobs
                .descriptors()
                .map(|fd| zmq::PollItem::from_fd(fd, zmq::POLLIN)),
        );
        match zmq::poll(&mut items, self.patience()) {
            Ok(_) | Err(zmq::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let heard = items[0].is_readable();
        // Empties the pipe; SIGCHLD needs nothing else.
        signals.wait(&[], 0)?;
        self.wake.take();
        for finished in self.jobs.attend() {
            self.deliver(finished);
        }
        self.rekey()?;
        if heard {
            self.hear()?;
        }
        self.ping();
        self.mine();
        Ok(())
    }

    /// Milliseconds until something is due even if nothing happens.
    fn patience(&self) -> i64 {
        let now = Instant::now();
        let ping = self.next_ping.map(|at| at.saturating_duration_since(now));
        let held = (!self.held.is_empty()).then_some(Duration::from_secs(1));
        match ping
            .into_iter()
            .chain(held)
            .chain(self.mining.wait(now))
            .min()
        {
            Some(wait) => i64::try_from(wait.as_millis() + 1).unwrap_or(i64::MAX),
            None => -1,
        }
    }

    fn hear(&mut self) -> Result<(), MinionError> {
        for _ in 0..TURN {
            match self.subscriber.recv_multipart(zmq::DONTWAIT) {
                Ok(frames) if self.held.is_empty() => self.receive(frames, true),
                // Behind one that waits for new keys.
                Ok(frames) => self.hold(frames),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, frames: Vec<Vec<u8>>, may_renew: bool) {
        match self.receiver.receive(&frames, &self.me) {
            Received::Job(job) => {
                log::info!(
                    "user {} runs {:.200} with jid {}",
                    job.load.str("user").unwrap_or("?"),
                    job.load
                        .get("fun")
                        .map(super::modules::python::str)
                        .unwrap_or_default(),
                    job.jid
                );
                self.start_event(&job.load);
                let finished = self.jobs.add(job);
                finished.into_iter().for_each(|f| self.deliver(f));
            }
            Received::Ignored(why) => log::debug!("a publication is ignored: {why}"),
            Received::Unknown if may_renew => {
                log::info!(
                    "a publication was made with a key that is not known here; signing in again"
                );
                self.hold(frames);
                self.renew();
            }
            Received::Unknown => {
                log::warn!("a publication cannot be decrypted even with the newest keys; ignored")
            }
        }
    }

    fn hold(&mut self, frames: Vec<Vec<u8>>) {
        if self.held.len() >= MAX_HELD {
            log::error!("too many publications wait for new keys; one is dropped");
            return;
        }
        self.held.push_back((Instant::now(), frames));
    }

    /// Signs in beside the loop; its end wakes the loop.
    fn renew(&mut self) {
        if self.fruitless.is_some_and(|at| at.elapsed() < FRUITLESS)
            || self.renewing.swap(true, Ordering::SeqCst)
        {
            return;
        }
        let (session, seen) = (self.session.clone(), self.generation);
        let (alarm, wake, renewing) =
            (self.alarm.clone(), self.wake.clone(), self.renewing.clone());
        let stop = self.stop.clone();
        let spawned = std::thread::Builder::new()
            .name("sign-in".into())
            .stack_size(STACK)
            .spawn(move || {
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
        if let Some(present) = self
            .session
            .present()
            .filter(|c| c.generation > self.generation)
        {
            self.generation = present.generation;
            self.jobs.set_credentials(hand_over(&present));
            let news = self
                .receiver
                .rekey(&present.aes, verifier(&self.config, &present));
            self.fruitless = (!news).then(Instant::now);
            if present.publish_url != self.publish_url {
                self.subscriber = subscribe(
                    &self.config,
                    self.session.context(),
                    &present.publish_url,
                    false,
                )?;
                self.publish_url = present.publish_url.clone();
            }
            for (_, frames) in std::mem::take(&mut self.held) {
                self.receive(frames, false);
            }
        }
        if self.held.is_empty() {
            return Ok(());
        }
        let before = self.held.len();
        self.held.retain(|(since, _)| since.elapsed() < HOLD);
        if self.held.len() < before {
            log::error!(
                "publications are dropped: no new keys within {} s",
                HOLD.as_secs()
            );
        }
        if !self.held.is_empty() {
            self.renew();
        }
        Ok(())
    }

    fn start_event(&self, load: &Map) {
        if !load.get("start_event").is_some_and(|v| v.truthy()) {
            return;
        }
        let jid = load.str("jid").unwrap_or_default();
        let id = &self.config.id;
        let mut data = crate::map! {"id" => id.as_str(), "jid" => jid};
        for key in ["fun", "tgt", "tgt_type", "user"] {
            data.set(key, load.get(key).cloned().unwrap_or_default());
        }
        for key in ["master_id", "metadata"] {
            if let Some(value) = load.get(key).filter(|v| !v.is_nil()) {
                data.set(key, value.clone());
            }
        }
        self.outbox.event(event(
            id,
            &format!("salt/job/{jid}/start/{id}"),
            data.into(),
        ));
    }

    /// Sends a result, and shows it on the local bus.
    fn deliver(&mut self, mut finished: Finished) {
        match self.mining.finished(&finished.jid, &finished.load) {
            Fate::NotOurs => {}
            Fate::Dropped => return,
            Fate::Sent(load) => finished.load = load,
        }
        let tag = format!("salt/job/{}/ret/{}", finished.jid, self.config.id);
        match Event::from_payload(tag, finished.load.clone()) {
            Ok(event) => {
                if let Err(e) = self.bus.fire(&event) {
                    log::debug!(
                        "the result of job {} is not on the local bus: {e}",
                        finished.jid
                    );
                }
            }
            Err(e) => log::debug!("the result of job {} is no event: {e}", finished.jid),
        }
        if self.config.pub_ret {
            self.outbox.result(finished.jid.as_str(), finished.load);
        }
    }

    /// Updates the mine when it is time.
    fn mine(&mut self) {
        let (config, me) = (&self.config, &self.me);
        let wanted = || {
            let ctx = Context {
                opts: config.as_map(),
                pillar: me.pillar.clone(),
                ..Context::default()
            };
            mine_functions(&ctx).is_some()
        };
        if let Some(job) = self.mining.due(Instant::now(), &config.id, wanted) {
            let finished = self.jobs.add(job);
            finished.into_iter().for_each(|f| self.deliver(f));
        }
    }

    fn ping(&mut self) {
        if self.next_ping.is_some_and(|at| at <= Instant::now()) {
            self.next_ping =
                Some(Instant::now() + Duration::from_secs(self.config.ping_interval * 60));
            self.outbox
                .event(event(&self.config.id, "minion_ping", "ping".into()));
        }
    }

    /// Ends the jobs; their results wait in the spool for the next start.
    fn end(&mut self, signals: &SignalPipe) {
        log::info!("minion {} ends", self.config.id);
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        let mut finished = self.jobs.terminate();
        let end = Instant::now() + GRACE;
        loop {
            finished.extend(self.jobs.attend());
            if self.jobs.all_ended() || Instant::now() >= end {
                break;
            }
            let _ = signals.wait(&[], 50);
        }
        self.jobs.kill();
        finished.extend(self.jobs.attend());
        for result in finished.iter().filter(|_| self.config.pub_ret) {
            self.outbox.keep(result.jid.as_str(), &result.load);
        }
        self.bus.stop();
    }
}

fn verifier(config: &MinionConfig, credentials: &Credentials) -> Option<PublicKey> {
    config
        .sign_pub_messages
        .then(|| credentials.master.key.clone())
}

/// A `_minion_event` load of one event (`salt/minion.py Minion._fire_master_prepare`).
fn event(id: &str, tag: &str, data: crate::wire::Value) -> Map {
    crate::map! {
        "id" => id,
        "cmd" => "_minion_event",
        "pretag" => crate::wire::Value::Nil,
        "data" => data,
        "tag" => tag,
    }
}
