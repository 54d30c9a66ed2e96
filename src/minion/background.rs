//! Blocking work runs in threads beside the main loop, which report their results as [`LoopEvent`]s.

use crossbeam_channel::Sender;
use halite_channel::FatalError;
use halite_channel::STACK;
use halite_channel::channel::Channel;
use halite_channel::credentials::Credentials;
use halite_channel::interrupt::{Stop, Waker};
use halite_channel::master_search::Reason;
use halite_channel::requester::{RequestResult, Requester};
use halite_channel::session::{Session, jittered};
use halite_channel::subscriber::{Subscriber, subscribe};
use halite_config::MinionConfig;
use halite_modules::execution::template_functions;
use halite_modules::pillar::fetch_or_compile;
use halite_sys::exit::ExitError;
use halite_transport::sockets::Context;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Transport};
use std::sync::Arc;
use std::time::Duration;

/// State shared by all connections to masters.
#[derive(Clone)]
pub struct Shared {
    /// The ZeroMQ context.
    pub context: Context,
    /// Interrupts waits.
    pub stop: Stop,
    /// Wakes the main loop.
    pub wake: Waker,
    /// Sends events to the main loop.
    pub teller: Sender<LoopEvent>,
    /// Takes errors that end the process.
    pub alarm: FatalError,
}

impl Shared {
    /// Sends an event to the main loop and wakes it.
    pub fn send(&self, news: LoopEvent) {
        if self.teller.send(news).is_ok() {
            self.wake.wake();
        }
    }

    /// Runs blocking work in a thread; the event it returns wakes the main loop. Returns false if no thread
    /// could be started.
    pub fn run_aside(
        &self,
        name: &str,
        run: impl FnOnce() -> Option<LoopEvent> + Send + 'static,
    ) -> bool {
        let shared = self.clone();
        let spawned = std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK)
            .spawn(move || {
                if let Some(news) = run() {
                    shared.send(news);
                }
            });
        if let Err(e) = &spawned {
            log::error!("cannot start a thread for {name}: {e}");
        }
        spawned.is_ok()
    }
}

/// An event from a thread for the main loop.
pub enum LoopEvent {
    /// A connection is open, with everything it needs.
    Opened(usize, Box<Opened>),
    /// A connection could not be opened.
    Failed(usize, ExitError),
    /// A sign-in attempt is over; the session knows the result.
    Renewed(usize),
    /// A newly fetched pillar; `None` if it could not be fetched.
    Pillar(usize, Option<Map>),
    /// Whether the publish connection is alive.
    Alive(usize, bool),
    /// Whether the preferred master answers.
    First(usize, bool),
    /// Newly collected grains, and what to do with the pillar.
    Grains(Box<Map>, PillarRefresh),
    /// Beacons have been polled.
    BeaconsPolled(Box<super::beacon_runner::PollResult>),
    /// A request from the local bus.
    Order(halite_modules::local::DaemonRequest),
}

/// Whether new grains need a new pillar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PillarRefresh {
    /// If they differ from those before.
    IfChanged,
    /// In any case.
    Always,
    /// In any case, and the master is not to take it from its `pillar_cache`.
    Anew,
}

/// Everything that opening a connection yields.
pub struct Opened {
    /// The keys.
    pub credentials: Arc<Credentials>,
    /// Receives publications.
    pub subscriber: Subscriber,
    /// The pillar.
    pub pillar: Map,
}

/// Signs in, subscribes, and fetches the pillar, however long that takes; `None` if the process is stopping.
///
/// # Errors
/// The master refuses permanently.
pub fn open(
    session: &Arc<Session>,
    shared: &Shared,
    grains: &Map,
    seen: u64,
    reason: Reason,
    list: bool,
) -> Result<Option<Opened>, ExitError> {
    let (mut seen, mut reason) = (seen, reason);
    let config = session.config();
    if config.transport != Transport::ZeroMq && reason != Reason::First {
        // The connection was lost a moment ago; the master may be starting.
        let wait = Duration::from_secs(config.tcp_reconnect_backoff);
        if !shared.stop.sleep(jittered(wait)) {
            return Ok(None);
        }
    }
    loop {
        let Some(credentials) = session.search(seen, reason, &shared.stop)? else {
            return Ok(None);
        };
        // Subscribe before requesting anything else, so that no publication is missed meanwhile.
        let stop = Some(&shared.stop);
        let subscriber = subscribe(session, &shared.context, &credentials, false, stop)?;
        let mut channel = Channel::new(session, shared.stop.clone())?;
        loop {
            match fetch_or_compile(&mut channel, grains, false, template_functions) {
                Ok(Some(pillar)) => {
                    return Ok(Some(Opened {
                        credentials,
                        subscriber,
                        pillar,
                    }));
                }
                Ok(None) => return Ok(None),
                Err(e) if e.status != 1 => return Err(e),
                Err(e) => log::error!("{e}; the minion tries again"),
            }
            if !shared.stop.sleep(Duration::from_secs(5)) {
                return Ok(None);
            }
            if list {
                break;
            }
        }
        (seen, reason) = (credentials.generation, Reason::Lost);
    }
}

/// Whether a master answers a ping in the clear (`salt/modules/status.py ping_master`).
pub fn answers(shared: &Shared, config: &MinionConfig, url: &str) -> bool {
    let load = halite_wire::map! {"enc" => "clear", "load" => halite_wire::map! {"cmd" => "ping"}};
    let body = msgpack::encode_map(&load, Profile::Wire);
    let timeout = Duration::from_secs(config.auth_timeout.max(1));
    let mut requester = Requester::new(config, url);
    matches!(
        requester.request(&body, timeout, &shared.stop, None),
        Ok(RequestResult::Bytes(_))
    )
}
