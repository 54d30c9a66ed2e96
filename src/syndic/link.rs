//! The link to one upper master: signs in and receives its publications, for as long as the process runs.

use super::forwarder::Forwarder;
use super::{MOST_HELD, MOST_JOBS, Shared, TURN, spawn};
use crossbeam_channel::{Sender, TrySendError};
use halite_channel::FatalError;
use halite_channel::channel::Channel;
use halite_channel::credentials::Credentials;
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::master_search::Reason;
use halite_channel::publication::{Job, MAX_RENEWALS, Received, Receiver};
use halite_channel::session::{Session, jittered};
use halite_channel::subscriber::{Subscriber, subscribe};
use halite_config::MinionConfig;
use halite_sys::exit::ExitError;
use halite_transport::poll::Poller;
use halite_wire::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is needed to start and restart a link.
#[derive(Clone)]
pub(super) struct Plan {
    /// Index in `syndic_master`.
    pub master: usize,
    pub upper: Arc<MinionConfig>,
    pub session: Arc<Session>,
    pub jobs: Sender<Job>,
    pub shared: Arc<Shared>,
    pub make_forwarder: MakeForwarder,
    pub stop: Stop,
}

/// Creates the forwarder of a link.
pub(super) type MakeForwarder =
    Arc<dyn Fn(&Plan, Channel, Arc<AtomicBool>) -> Forwarder + Send + Sync>;

/// Serves one upper master until the process stops.
///
/// # Errors
/// The upper master refuses permanently, or the sockets fail.
pub(super) fn run(plan: &Plan) -> Result<(), ExitError> {
    let Plan { upper, session, .. } = plan;
    let Some(credentials) = session.renew(0, &plan.stop)? else {
        return Ok(());
    };
    let stop = Some(&plan.stop);
    let subscriber = subscribe(session, session.context(), &credentials, true, stop)?;
    let wake = Waker::new()?;
    session.wake_on_new_keys(&wake);
    let alarm = FatalError::new(&wake);
    let over = Arc::new(AtomicBool::new(false));
    let channel = Channel::new(session, plan.stop.clone())?;
    let forwarder = (plan.make_forwarder)(plan, channel, over.clone());
    let raised = alarm.clone();
    spawn("forwarder", move || {
        if let Err(e) = forwarder.run() {
            raised.raise(e);
        }
    })?;
    let mut link = Link {
        receiver: Receiver::new(
            &upper.id,
            &credentials.aes,
            verifier(upper, &credentials),
            upper.minion_jid_queue_hwm as usize,
        )
        .as_syndic(),
        generation: credentials.generation,
        publish_url: credentials.publish_url.clone(),
        plan,
        subscriber,
        alarm,
        wake,
        renewing: Arc::default(),
        held: Vec::new(),
    };
    let mine = &plan.shared.uppers[plan.master];
    let ended = link.announce().and_then(|()| {
        mine.up.store(true, Ordering::Relaxed);
        mine.reach(true);
        link.run()
    });
    mine.up.store(false, Ordering::Relaxed);
    mine.reach(false);
    over.store(true, Ordering::Relaxed);
    ended
}

fn verifier(
    upper: &MinionConfig,
    credentials: &Credentials,
) -> Option<halite_crypto::IdentityPublic> {
    upper
        .sign_pub_messages
        .then(|| credentials.master.key.clone())
}

struct Link<'a> {
    plan: &'a Plan,
    subscriber: Subscriber,
    publish_url: String,
    receiver: Receiver,
    generation: u64,
    alarm: FatalError,
    wake: Waker,
    renewing: Arc<AtomicBool>,
    /// Publications that wait for new keys, and how often those did not decrypt them.
    held: Vec<(Vec<Vec<u8>>, u8)>,
}

impl Link<'_> {
    /// The start events (`Syndic.fire_master_syndic_start`).
    fn announce(&self) -> Result<(), ExitError> {
        let id = &self.plan.upper.id;
        let now = jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y");
        let text = format!("Syndic {id} started at {now}");
        let legacy = self
            .plan
            .upper
            .enable_legacy_startup_events
            .then(|| "syndic_start".to_owned());
        let mut channel = Channel::new(&self.plan.session, self.plan.stop.clone())?;
        for tag in legacy.into_iter().chain([format!("syndic/{id}/start")]) {
            let load = halite_wire::map! {
                "id" => id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Nil,
                "data" => text.as_str(), "tag" => tag,
            };
            let (timeout, _) = channel.usual();
            channel.call(&load, timeout, 1)?;
        }
        log::info!("syndic {id} is ready at {}", self.publish_url);
        Ok(())
    }

    fn run(&mut self) -> Result<(), ExitError> {
        while !self.plan.stop.is_set() {
            if let Some(error) = self.alarm.take() {
                return Err(error);
            }
            let mut poller = Poller::new();
            poller.add(self.wake.source());
            if let Some(source) = self.subscriber.source() {
                poller.add(source);
            }
            let wait = if self.subscriber.has_waiting() {
                Duration::ZERO
            } else {
                TURN
            };
            poller.wait(Some(wait))?;
            self.wake.take();
            self.rekey()?;
            while let Some(frames) = self.subscriber.receive()? {
                self.receive(frames, 0);
            }
            if let Some(why) = self.subscriber.lost() {
                log::info!("the connection to {} has ended: {why}", self.publish_url);
                self.reconnect()?;
            }
        }
        Ok(())
    }

    /// Signs in again and subscribes; nothing else is to be done without a connection.
    fn reconnect(&mut self) -> Result<(), ExitError> {
        let Plan {
            upper,
            session,
            stop,
            ..
        } = self.plan;
        let wait = Duration::from_secs(upper.tcp_reconnect_backoff);
        if !stop.sleep(jittered(wait)) {
            return Ok(());
        }
        if let Some(credentials) = session.search(self.generation, Reason::Lost, stop)? {
            self.subscriber =
                subscribe(session, session.context(), &credentials, true, Some(stop))?;
            self.publish_url = credentials.publish_url.clone();
            self.rekey()?;
        }
        Ok(())
    }

    fn receive(&mut self, frames: Vec<Vec<u8>>, renewals: u8) {
        match self.receiver.receive_any(&frames) {
            Received::Job(job) => self.forward(job),
            Received::Ignored(why) => log::debug!("ignoring a publication: {why}"),
            // A syndic notices a new key soon enough by itself; unlike thousands of minions, it need not spread
            // its request.
            Received::Rekey(_) => {}
            Received::Unknown if renewals < MAX_RENEWALS && self.held.len() < MOST_HELD => {
                self.held.push((frames, renewals));
                self.renew();
            }
            Received::Unknown => {
                log::warn!("a publication cannot be decrypted even with the newest keys; ignored")
            }
        }
    }

    fn forward(&mut self, job: Job) {
        // Record it before anybody can return.
        if !self.plan.shared.record_job(self.plan.master, &job.jid) {
            log::debug!(
                "job {} was already published for another upper master",
                job.jid
            );
            return;
        }
        match self.plan.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => {
                log::error!(
                    "dropping job {}: {MOST_JOBS} jobs are waiting for the local master",
                    job.jid
                )
            }
            Err(TrySendError::Disconnected(job)) => {
                log::error!(
                    "dropping job {}: the publishing thread has stopped",
                    job.jid
                )
            }
        }
    }

    /// Signs in in a thread; when done, the loop is woken.
    fn renew(&mut self) {
        if self.renewing.swap(true, Ordering::SeqCst) {
            return;
        }
        let (session, stop) = (self.plan.session.clone(), self.plan.stop.clone());
        // What another thread got before now does not count.
        let seen = session.present().map_or(0, |present| present.generation);
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
            log::error!("sign-in failed: {e}");
            self.renewing.store(false, Ordering::SeqCst);
        }
    }

    /// Applies new keys, and retries the publications that waited for them.
    fn rekey(&mut self) -> Result<(), ExitError> {
        let Some(present) = self
            .plan
            .session
            .present()
            .filter(|c| c.generation > self.generation)
        else {
            if !self.held.is_empty() {
                self.renew();
            }
            return Ok(());
        };
        self.generation = present.generation;
        self.receiver
            .rekey(&present.aes, verifier(&self.plan.upper, &present));
        if present.publish_url != self.publish_url {
            let session = &self.plan.session;
            self.subscriber = subscribe(session, session.context(), &present, true, None)?;
            self.publish_url = present.publish_url.clone();
        }
        for (frames, renewals) in std::mem::take(&mut self.held) {
            self.receive(frames, renewals + 1);
        }
        Ok(())
    }
}
