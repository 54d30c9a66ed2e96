//! MWorker, named `ReqServer MWorker-N` in the process list.
//!
//! Owns ClearFuncs and AESFuncs: it decrypts, decides, stores, answers. Connects to
//! `workers.ipc` (DEALER), `publish_pull.ipc` (PUSH) and `master_event_pull.ipc`. Holds the
//! master's RSA key, session keys and the AES key. One request after the other; returns come several
//! at once and are kept and told together.
//!
//! When it fails: its requests go to another worker once. A handler that panics is
//! answered with Salt's error text and the process starts afresh (status 70); a handler that
//! outlives the request deadline by a few seconds is ended by a watchdog (status 75).
//! On SIGTERM the request at hand is finished.

pub(super) mod aes;
pub(super) mod auth;
mod batch;
pub(super) mod caller;
pub(super) mod context;
pub(super) mod files;
pub(super) mod functions;
pub(super) mod mine;
pub(super) mod peer;
mod peer_run;
pub(super) mod pillar;
pub(super) mod publish;
pub(super) mod syndic;
pub(super) mod tops;

use super::commands::{Command, Handler};
use super::functions::WheelHook;
use super::roles::{RoleError, Roles};
use super::score::Score;
use context::Context;
use halite_config::MasterConfig;
use halite_sys::memory::keep_freed;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_transport::poll::{Polled, Poller};
use halite_transport::sockets::{self, Dealer};
use halite_wire::envelope::{Body, Envelope, Refusal, clear_load};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Salt's answer when a handler raised (`salt/channel/server.py`).
pub const HANDLER_FAILED: &str = "Some exception handling minion payload";

const EXIT_PANIC: i32 = 70;
const EXIT_STUCK: i32 = 75;
/// How often an idle worker reports, so that a restarted request server learns of it.
const REPORT: Duration = Duration::from_millis(500);
/// Longest wait for requests.
const TURN: Duration = Duration::from_millis(250);
/// Bytes of answers after which further requests of the same turn wait for the next.
const ENOUGH: usize = 256 << 10;

/// A reply, and whether the sender proved who it is. Without bytes nothing is sent, so that
/// the sender asks again after its timeout.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    proven: bool,
}

impl Answer {
    /// None is sent.
    fn none() -> Answer {
        Answer {
            bytes: Vec::new(),
            proven: false,
        }
    }

    /// For a sender that has proven who it is.
    fn proven(bytes: Vec<u8>) -> Answer {
        Answer {
            bytes,
            proven: true,
        }
    }

    fn clear(value: &Value) -> Answer {
        Answer {
            bytes: msgpack::encode(value, Profile::Wire),
            proven: false,
        }
    }
}

/// Runs the role `name` (`MWorker-0`, ...) until it is told to stop.
pub fn run(
    config: Arc<MasterConfig>,
    name: &str,
    lent: WheelHook,
    roles: &Roles,
    stop: &StopFlag,
) -> Result<(), RoleError> {
    keep_freed();
    let context = sockets::Context::new();
    let socket = Dealer::connect(&context, &config.workers(), name)?;
    let watchdog = Watchdog::start(Duration::from_secs(config.request_timeout + 5));
    let mut worker = Context::new(config, lent, &context)?;
    roles.ready();
    let pid = std::process::id().to_be_bytes();
    let report = || socket.try_send(&[b"R".as_slice(), &pid]);
    let mut reported: Option<Instant> = None;
    let mut score = Score::inherited(name);
    while !stop.is_set() {
        score.tick(|| worker.counters());
        if reported.is_none_or(|at| at.elapsed() > REPORT) {
            // A full queue means that the request server is away; the next report tries again.
            let _ = report();
            reported = Some(Instant::now());
            worker.runners.reap();
            worker.stores.minions.poll_changes();
        }
        let mut poller = Poller::new();
        poller.add(socket.source());
        if poller.wait(Some(TURN))? != Polled::Ready {
            continue;
        }
        let Some(parts) = socket.receive()? else {
            continue;
        };
        let Some((seq, requests)) = parts.split_first().filter(|(_, r)| !r.is_empty()) else {
            continue;
        };
        let began = Instant::now();
        let done = handle_all(&mut worker, &watchdog, requests);
        worker.stats.requests += done.answers.len() as u64;
        worker.stats.busy += began.elapsed();
        reply(&socket, seq, done.answers)?;
        if let Some(peer) = done.panicked {
            return Err(RoleError::new(
                EXIT_PANIC,
                format!("a handler panicked on a request of {peer}"),
            ));
        }
    }
    Ok(())
}

/// Tells the request server the answers to the requests of `seq`.
fn reply(socket: &Dealer, seq: &[u8], answers: Vec<Answer>) -> sockets::Result<()> {
    let proven: Vec<u8> = answers.iter().map(|a| u8::from(a.proven)).collect();
    let bodies = answers.into_iter().map(|answer| answer.bytes);
    socket.send_moved(&[b"D", seq, &proven], bodies)
}

/// What became of requests that came together.
struct Done {
    /// Fewer than there were requests if a handler panicked, or if the answers have become large: those behind were not
    /// begun.
    answers: Vec<Answer>,
    /// Whose request that was.
    panicked: Option<String>,
}

/// Handles requests, each a peer and a body, one after the other.
fn handle_all(worker: &mut Context, watchdog: &Watchdog, requests: &[Vec<u8>]) -> Done {
    let mut done = Done {
        answers: Vec::with_capacity(requests.len() / 2),
        panicked: None,
    };
    let mut octets = 0;
    for (number, request) in requests.chunks_exact(2).enumerate() {
        let peer = String::from_utf8_lossy(&request[0]);
        watchdog.begin();
        worker.batch.begin(number);
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            handle(worker, &request[1], &peer)
        }));
        watchdog.end();
        done.answers.push(match answer {
            Ok(answer) => answer,
            Err(_) => {
                done.panicked = Some(peer.into_owned());
                Answer::clear(&HANDLER_FAILED.into())
            }
        });
        octets += done.answers.last().map_or(0, |answer| answer.bytes.len());
        if done.panicked.is_some() || octets >= ENOUGH {
            break;
        }
    }
    watchdog.begin();
    batch::flush(worker);
    watchdog.end();
    for number in worker.batch.take_unkept() {
        if let Some(answer) = done.answers.get_mut(number) {
            *answer = Answer::none();
        }
    }
    done
}

fn handle(worker: &mut Context, body: &[u8], peer: &str) -> Answer {
    let envelope = match Envelope::parse(body) {
        Ok(envelope) => envelope,
        Err(refusal) => return Answer::clear(&refusal.reply()),
    };
    if envelope.version < i64::from(worker.config.minimum_auth_version) {
        log::warn!(
            "{peer} speaks protocol version {}, below minimum_auth_version {}; refused",
            envelope.version,
            worker.config.minimum_auth_version
        );
        return Answer::clear(&Refusal::BadLoad.reply());
    }
    match envelope.body {
        Body::Clear { load } => match clear_load(load) {
            Ok(load) => clear_request(worker, load, peer),
            Err(refusal) => Answer::clear(&refusal.reply()),
        },
        Body::Sealed {
            id,
            load,
            enc_algo,
            sig_algo,
        } => {
            let sealed = aes::Sealed {
                id,
                load,
                enc_algo,
                sig_algo,
            };
            aes::request(worker, &sealed, peer)
        }
    }
}

fn clear_request(worker: &mut Context, load: Map, peer: &str) -> Answer {
    let name = load.str("cmd");
    let found = name.and_then(Command::find).map(|c| (c, c.handler));
    let Some((command, Handler::Clear(handler))) = found else {
        worker.count_unknown(name.unwrap_or("(none)"), peer);
        return Answer::clear(&Value::Map(Map::new()));
    };
    begin(worker, command);
    match handler(worker, load, peer) {
        Ok(reply) => Answer::clear(&reply),
        Err(e) => {
            log::error!("{} of {peer} failed: {e}", command.name);
            Answer::clear(&HANDLER_FAILED.into())
        }
    }
}

/// Counts a command; returns and events that wait are kept and told before any other.
fn begin(worker: &mut Context, command: &Command) {
    if let Some(stats) = command.stats {
        *stats(&mut worker.stats) += 1;
    }
    if !matches!(command.handler, Handler::AesBatched(_)) {
        batch::flush(worker);
    }
}

/// Ends the process when one request takes longer than it ever may.
struct Watchdog {
    began: Arc<AtomicU64>,
}

impl Watchdog {
    fn start(limit: Duration) -> Watchdog {
        let began = Arc::new(AtomicU64::new(0));
        let watched = began.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let at = watched.load(Ordering::Relaxed);
                if at != 0 && unix_now().saturating_sub(at) > limit.as_secs() {
                    log::error!("a request ran longer than {limit:?}; this worker starts afresh");
                    std::process::exit(EXIT_STUCK);
                }
            }
        });
        Watchdog { began }
    }

    fn begin(&self) {
        self.began.store(unix_now().max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.began.store(0, Ordering::Relaxed);
    }
}
