//! The connection to one master, or to one of a list: its keys, publications, results and pillar, and the
//! threads that open and check it. Decisions are made by [`watch`](super::watch) and
//! [`master_search`](halite_channel::master_search).
//!
//! Nothing here blocks; blocking work runs in a thread that reports by [`LoopEvent`].

use super::background::{LoopEvent, Opened, Shared, answers, open};
use super::return_sender::{Outbox, ReturnSender};
use super::spool::Spool;
use super::watch::{Action, Input, Rules, Watch};
use halite_channel::Identity;
use halite_channel::STACK;
use halite_channel::channel::Channel;
use halite_channel::credentials::Credentials;
use halite_channel::interrupt::Stop;
use halite_channel::link::{JobCredentials, export};
use halite_channel::master_search::Reason;
use halite_channel::publication::{Job, MAX_RENEWALS, Received, Receiver, RecentJids};
use halite_channel::rekey;
use halite_channel::session::{Session, random_share};
use halite_channel::subscriber::{Subscriber, subscribe};
use halite_config::MinionConfig;
use halite_config::paths::minion::cache;
use halite_crypto::IdentityPublic;
use halite_modules::execution::template_functions;
use halite_modules::pillar::fetch_or_compile;
use halite_sys::exit::ExitError;
use halite_wire::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A publication that waits longer than this for new keys is dropped: a job must not run when everybody has
/// forgotten it.
const HOLD: Duration = Duration::from_secs(60);
/// Number of publications that may wait for new keys.
const MAX_HELD: usize = 1000;
/// Publications handled per turn, so that results get their turn as well.
const TURN: usize = 64;
/// A sign-in that brought no new keys is not repeated sooner than this.
const FRUITLESS: Duration = Duration::from_secs(5);
/// The longest time over which new keys are fetched, whatever the master announces.
const LONGEST: Duration = Duration::from_secs(3600);

/// The connection to a master.
pub struct MasterConnection {
    index: usize,
    config: Arc<MinionConfig>,
    session: Arc<Session>,
    shared: Shared,
    subscriber: Option<Subscriber>,
    publish_url: String,
    receiver: Option<Receiver>,
    jids: RecentJids,
    /// What the master knows about us, for matching targets.
    pub me: Identity,
    outbox: Outbox,
    watch: Watch,
    held: VecDeque<Held>,
    /// Generation of the keys in use.
    generation: u64,
    /// A sign-in is in progress.
    renewing: bool,
    /// When a sign-in last brought the same keys as before.
    fruitless: Option<Instant>,
    next_ping: Option<Instant>,
    /// When to fetch the new key announced by the master.
    fetch: Option<Instant>,
    /// It cannot be opened and is given up.
    dead: bool,
}

/// A publication that waits for keys.
struct Held {
    since: Instant,
    frames: Vec<Vec<u8>>,
    /// How often new keys did not decrypt it.
    renewals: u8,
}

impl Held {
    fn new(frames: Vec<Vec<u8>>) -> Held {
        Held {
            since: Instant::now(),
            frames,
            renewals: 0,
        }
    }
}

/// What was received on a connection.
pub struct ReceivedJobs {
    /// Jobs for this minion.
    pub jobs: Vec<Job>,
}

impl MasterConnection {
    /// A connection that is not open yet; `alone` if it is the only one.
    ///
    /// # Errors
    /// Keys or options are unusable.
    pub fn new(
        index: usize,
        config: Arc<MinionConfig>,
        grains: &Arc<Map>,
        shared: &Shared,
        jids: &RecentJids,
        alone: bool,
    ) -> Result<MasterConnection, ExitError> {
        let session = Session::new(config.clone(), grains, &shared.context, false)?;
        let session = Arc::new(session);
        let spool = spool(&config, alone, index);
        let (sender, outbox) =
            ReturnSender::new(&session, spool, shared.stop.clone(), &shared.wake)?;
        session.wake_on_new_keys(&shared.wake);
        let raised = shared.clone();
        std::thread::Builder::new()
            .name("return_sender".into())
            .stack_size(STACK * 2)
            .spawn(move || match sender.run() {
                Ok(()) => {}
                Err(e) if alone => raised.alarm.raise(e),
                Err(e) => raised.send(LoopEvent::Failed(index, e)),
            })?;
        let ping = Duration::from_secs(config.ping_interval.saturating_mul(60));
        let rules = Rules::of(&config, config.master.len() > 1);
        if rules.list && rules.alive.is_none() {
            log::warn!(
                "master_alive_interval is 0: once connected to a master, this minion waits for it when it is gone, and asks no other \
                 one of the list; 30 makes it look every 30 seconds"
            );
        }
        Ok(MasterConnection {
            index,
            session,
            shared: shared.clone(),
            subscriber: None,
            publish_url: String::new(),
            receiver: None,
            jids: jids.clone(),
            me: Identity {
                id: config.id.clone(),
                grains: grains.clone(),
                pillar: Arc::default(),
            },
            outbox,
            watch: Watch::new(rules),
            held: VecDeque::new(),
            generation: 0,
            renewing: false,
            fruitless: None,
            next_ping: (!ping.is_zero()).then(|| Instant::now() + ping),
            fetch: None,
            dead: false,
            config,
        })
    }

    /// Queue for results and events.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Whether the connection is up, as far as we know.
    pub fn is_up(&self) -> bool {
        self.watch.is_up()
    }

    /// Whether it is given up.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// The master in use, or else the first one, as named in the option.
    pub fn master(&self) -> String {
        match self.session.present() {
            Some(present) => present.name.clone(),
            None => self.config.master.first().cloned().unwrap_or_default(),
        }
    }

    /// The subscription, while there is one.
    pub fn subscriber(&self) -> Option<&Subscriber> {
        self.subscriber.as_ref()
    }

    /// Whether there is something to read although no descriptor is ready: publications, or the end of the connection.
    pub fn has_publications(&self) -> bool {
        let subscriber = self.subscriber.as_ref();
        subscriber.is_some_and(|s| s.has_waiting() || s.lost().is_some())
    }

    /// The keys for jobs.
    pub fn credentials(&self) -> Option<JobCredentials> {
        let present = self.session.present()?;
        Some(export(&present, self.session.sign_in_config()))
    }

    /// Searches for a master and connects to it, in a thread.
    pub fn open(&mut self, reason: Reason) {
        let (index, session, shared) = (self.index, self.session.clone(), self.shared.clone());
        let (grains, seen) = (self.me.grains.clone(), self.generation);
        let list = self.config.master.len() > 1;
        self.renewing = true;
        let run = move || match open(&session, &shared, &grains, seen, reason, list) {
            Ok(Some(opened)) => Some(LoopEvent::Opened(index, Box::new(opened))),
            Ok(None) => None,
            Err(e) => Some(LoopEvent::Failed(index, e)),
        };
        self.renewing = self.shared.run_aside("opening", run);
    }

    /// Applies the result of opening the connection.
    pub fn opened(&mut self, opened: Opened) {
        let Opened {
            credentials,
            subscriber,
            pillar,
        } = opened;
        self.renewing = false;
        self.fruitless = None;
        self.generation = credentials.generation;
        self.publish_url = credentials.publish_url.clone();
        self.subscriber = Some(subscriber);
        let verifier = verifier(&self.config, &credentials);
        match &mut self.receiver {
            Some(receiver) => {
                receiver.rekey(&credentials.aes, verifier);
                receiver.set_next_keys(&credentials.next);
            }
            None => {
                let receiver =
                    Receiver::sharing(&self.config.id, &credentials.aes, verifier, &self.jids);
                self.receiver = Some(receiver);
            }
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.set_session(&credentials);
        }
        self.me.pillar = Arc::new(pillar);
        let first = self.session.preferred() == Some(credentials.name.clone());
        self.input(Input::Opened { first });
    }

    /// The connection could not be opened.
    pub fn failed(&mut self, why: &ExitError) {
        log::error!("giving up on master {}: {why}", self.master());
        self.dead = true;
        self.renewing = false;
    }

    /// Passes an input to the watch and performs the resulting actions.
    pub fn input(&mut self, input: Input) {
        let mut act = self.watch.next(input, Instant::now());
        while let Some(what) = act {
            self.act(what);
            act = self.watch.next(Input::Tick, Instant::now());
        }
    }

    fn act(&mut self, act: Action) {
        let index = self.index;
        match act {
            Action::Move(reason) => self.open(reason),
            Action::Check => {
                let url = self.publish_url.clone();
                self.shared.run_aside("looking", move || {
                    Some(LoopEvent::Alive(
                        index,
                        halite_modules::net::is_connected(&url),
                    ))
                });
            }
            Action::AskFirst => {
                let (shared, config) = (self.shared.clone(), self.config.clone());
                let Some(url) = self.session.preferred_url() else {
                    return;
                };
                self.shared.run_aside("asking", move || {
                    Some(LoopEvent::First(index, answers(&shared, &config, &url)))
                });
            }
        }
    }

    /// Performs what is due.
    pub fn tick(&mut self) {
        if self.outbox.ping_lost() {
            log::error!("master {} did not answer a ping", self.master());
            self.input(Input::PingLost);
        }
        self.input(Input::Tick);
        let now = Instant::now();
        if self.fetch.is_some_and(|at| at <= now) && !self.renewing {
            self.fetch = None;
            self.fetch_keys();
        }
        if self.next_ping.is_some_and(|at| at <= now) {
            let every = Duration::from_secs(self.config.ping_interval.saturating_mul(60));
            self.next_ping = Some(now + every);
            if self.is_up() {
                self.outbox
                    .ping(event(&self.config.id, "minion_ping", "ping".into()));
            }
        }
    }

    /// Time until something is due even without events.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let ping = self.next_ping.map(|at| at.saturating_duration_since(now));
        let held = (!self.held.is_empty()).then_some(Duration::from_secs(1));
        let waiting = self.has_publications().then_some(Duration::ZERO);
        let fetch = self.fetch.filter(|_| !self.renewing);
        let fetch = fetch.map(|at| at.saturating_duration_since(now));
        ping.into_iter()
            .chain(held)
            .chain(waiting)
            .chain(fetch)
            .chain(self.watch.wait(now))
            .min()
    }

    /// Reads publications.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn read_publications(&mut self) -> Result<ReceivedJobs, ExitError> {
        let mut heard = ReceivedJobs { jobs: Vec::new() };
        for _ in 0..TURN {
            let Some(subscriber) = &mut self.subscriber else {
                break;
            };
            match subscriber.receive()? {
                Some(frames) if self.held.is_empty() => self.receive(Held::new(frames), &mut heard),
                // It queues behind one that waits for new keys.
                Some(frames) => self.hold(Held::new(frames)),
                None => break,
            }
        }
        if let Some(subscriber) = &self.subscriber
            && let Some(why) = subscriber.lost()
        {
            log::info!("the connection to {} has ended: {why}", self.publish_url);
            self.subscriber = None;
            self.input(Input::Lost);
        }
        Ok(heard)
    }

    fn receive(&mut self, publication: Held, heard: &mut ReceivedJobs) {
        let Some(receiver) = &mut self.receiver else {
            return;
        };
        match receiver.receive(&publication.frames, &self.me) {
            Received::Job(job) => heard.jobs.push(job),
            Received::Ignored(why) => log::debug!("ignoring a publication: {why}"),
            Received::Rekey(within) => {
                // The last fifth is for minions whose request takes a while.
                let within = Duration::from_secs(within).min(LONGEST).mul_f64(0.8);
                log::debug!("the key of publications changes");
                self.fetch = Some(Instant::now() + random_share(within));
            }
            Received::Unknown if publication.renewals < MAX_RENEWALS => {
                log::info!("a publication was encrypted with an unknown key; getting new keys");
                self.hold(publication);
                self.renew();
            }
            Received::Unknown => {
                log::warn!("a publication cannot be decrypted even with the newest keys; ignored")
            }
        }
    }

    fn hold(&mut self, publication: Held) {
        if self.held.len() >= MAX_HELD {
            log::error!("too many publications are waiting for new keys; dropping one");
            return;
        }
        self.held.push_back(publication);
    }

    /// Gets new keys in a thread, by a sign-in if they cannot be fetched; when done, the loop is woken.
    fn renew(&mut self) {
        if self.fruitless.is_some_and(|at| at.elapsed() < FRUITLESS) || self.renewing {
            return;
        }
        self.get_keys("sign-in", |session, seen, stop| {
            rekey::renew(session, seen, stop)
        });
    }

    /// Fetches the announced key in a thread. If that fails, the first publication under it triggers a sign-in.
    fn fetch_keys(&mut self) {
        self.get_keys("key", |session, seen, stop| {
            rekey::fetch(session, seen, stop).map(drop)
        });
    }

    fn get_keys(
        &mut self,
        name: &str,
        get: impl FnOnce(&Arc<Session>, u64, &Stop) -> Result<(), ExitError> + Send + 'static,
    ) {
        let (session, shared) = (self.session.clone(), self.shared.clone());
        // What another thread got before now does not count.
        let seen = session.present().map_or(0, |present| present.generation);
        let index = self.index;
        self.renewing = self.shared.run_aside(name, move || {
            Some(match get(&session, seen, &shared.stop) {
                Ok(()) => LoopEvent::Renewed(index),
                Err(e) => LoopEvent::Failed(index, e),
            })
        });
    }

    /// A sign-in attempt is over.
    pub fn renewed(&mut self) {
        self.renewing = false;
    }

    /// Applies new keys, and retries the publications that waited for them. Returns `true` if the keys are new.
    ///
    /// # Errors
    /// The new connection cannot be made.
    pub fn rekey(&mut self, heard: &mut ReceivedJobs) -> Result<bool, ExitError> {
        let mut news = false;
        let present = self.session.present();
        if let Some(present) = present.filter(|c| c.generation > self.generation)
            && let Some(receiver) = &mut self.receiver
        {
            news = true;
            let signed_in = present.signed_in > self.generation;
            self.generation = present.generation;
            let other = signed_in && receiver.rekey(&present.aes, verifier(&self.config, &present));
            receiver.set_session(&present);
            let other = receiver.set_next_keys(present.keys()) || other;
            self.fruitless = (!other).then(Instant::now);
            if present.publish_url != self.publish_url {
                // The sign-in went to another master of the list.
                let context = self.session.context();
                self.subscriber = Some(subscribe(&self.session, context, &present, false, None)?);
                self.publish_url = present.publish_url.clone();
                let first = self.session.preferred() == Some(present.name.clone());
                self.input(Input::Opened { first });
                self.refresh_pillar(false);
            } else if signed_in && present.admitted {
                // The key was deleted meanwhile, and with it the grains that the master had.
                self.refresh_pillar(false);
            }
            let held = std::mem::take(&mut self.held);
            if held.front().is_some_and(|first| first.renewals == 0) {
                self.fruitless = None;
            }
            for mut publication in held {
                publication.renewals += 1;
                self.receive(publication, heard);
            }
        }
        if self.held.is_empty() {
            return Ok(news);
        }
        let before = self.held.len();
        self.held
            .retain(|publication| publication.since.elapsed() < HOLD);
        if self.held.len() < before {
            log::error!(
                "dropping publications: no new keys within {} s",
                HOLD.as_secs()
            );
        }
        if !self.held.is_empty() {
            self.renew();
        }
        Ok(news)
    }

    /// Fetches the pillar again in a thread.
    pub fn refresh_pillar(&mut self, clean_cache: bool) {
        let (session, stop, index) = (self.session.clone(), self.shared.stop.clone(), self.index);
        let grains = self.me.grains.clone();
        self.shared.run_aside("pillar", move || {
            let pillar = Channel::new(&session, stop)
                .map_err(ExitError::from)
                .and_then(|mut channel| {
                    fetch_or_compile(&mut channel, &grains, clean_cache, template_functions)
                });
            match pillar {
                Ok(pillar) => Some(LoopEvent::Pillar(index, pillar)),
                Err(e) => {
                    log::error!("Pillar data could not be refreshed: {e}");
                    Some(LoopEvent::Pillar(index, None))
                }
            }
        });
    }

    /// The start events (`salt/minion.py Minion._fire_master_minion_start`).
    pub fn announce(&self) {
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

    /// Fires the event that a job has started, if its load asks for it.
    pub fn start_event(&self, load: &Map) {
        if !load.get("start_event").is_some_and(|v| v.truthy()) {
            return;
        }
        let jid = load.str("jid").unwrap_or_default();
        let id = &self.config.id;
        let mut data = halite_wire::map! {"id" => id.as_str(), "jid" => jid};
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
}

fn spool(config: &MinionConfig, alone: bool, index: usize) -> Option<Spool> {
    let name = config.master.first().map_or("", String::as_str);
    let opened = match alone {
        true => Spool::open(&config.cachedir),
        false => Spool::open_for(&config.cachedir, name),
    };
    match opened {
        Ok(spool) => {
            // Find the results left by an earlier process that had another number of masters.
            match (alone, index) {
                (true, _) => spool.adopt(&Spool::dir_for(&config.cachedir, name)),
                (false, 0) => spool.adopt(&cache::unsent_returns(&config.cachedir)),
                _ => {}
            }
            Some(spool)
        }
        Err(e) => {
            log::error!(
                "results are stored in memory only: {}/returns: {e}",
                config.cachedir.display()
            );
            None
        }
    }
}

fn verifier(config: &MinionConfig, credentials: &Credentials) -> Option<IdentityPublic> {
    config
        .sign_pub_messages
        .then(|| credentials.master.key.clone())
}

/// A `_minion_event` load of one event (`salt/minion.py Minion._fire_master_prepare`).
pub fn event(id: &str, tag: &str, data: Value) -> Map {
    halite_wire::map! {
        "id" => id,
        "cmd" => "_minion_event",
        "pretag" => Value::Nil,
        "data" => data,
        "tag" => tag,
    }
}
