//! MWorker, named `ReqServer MWorker-N` in the process list.
//!
//! Owns ClearFuncs and AESFuncs: it decrypts, decides, stores, answers. Connects to `workers.ipc` (DEALER),
//! `publish_pull.ipc` (PUSH) and `master_event_pull.ipc`. Holds the master's RSA key, session keys and the AES
//! key. Requests are handled one after the other; returns arrive in groups and are stored and fired together.
//!
//! On failure: its requests go to another worker once. If a handler panics, the request is answered with Salt's
//! error text and the process restarts (status 70); if a handler exceeds the request deadline by a few seconds,
//! a watchdog ends the process (status 75). On SIGTERM the current request is finished.

mod admit;
pub(super) mod aes;
pub(super) mod api;
pub(super) mod auth;
mod batch;
pub(super) mod caller;
pub(super) mod context;
pub(super) mod files;
pub(super) mod functions;
pub(super) mod mine;
pub(super) mod noise;
pub(super) mod peer;
mod peer_run;
pub(super) mod pillar;
mod pubkey_signature;
pub(super) mod publish;
pub(super) mod sealed;
pub(super) mod syndic;
pub(super) mod tops;

use super::commands::{Command, Handler};
use super::functions::FunctionHooks;
use super::roles::Roles;
use super::score::Score;
use context::Context;
use halite_config::MasterConfig;
use halite_crypto::CipherKind;
use halite_sys::exit::ExitError;
use halite_sys::memory::keep_freed;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_transport::poll::{Polled, Poller};
use halite_transport::sockets::{self, Dealer};
use halite_wire::envelope::{Body, ClearLoad, Envelope, Refusal, clear_load};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Salt's answer if a handler raised an exception (`salt/channel/server.py`).
pub const HANDLER_FAILED: &str = "Some exception handling minion payload";

const EXIT_PANIC: i32 = 70;
const EXIT_STUCK: i32 = 75;
/// How often an idle worker reports, so that a restarted request server learns about it.
const REPORT: Duration = Duration::from_millis(500);
/// Longest wait for requests.
const TURN: Duration = Duration::from_millis(250);
/// Size of answers in bytes after which the remaining requests of a group are returned to the request server.
const ENOUGH: usize = 256 << 10;

/// A reply, and whether the sender was authenticated. If it is empty, nothing is sent, so that the sender tries
/// again after its timeout.
pub(crate) struct RequestAnswer {
    bytes: Vec<u8>,
    proven: bool,
}

impl RequestAnswer {
    /// Sends nothing.
    fn none() -> RequestAnswer {
        RequestAnswer {
            bytes: Vec::new(),
            proven: false,
        }
    }

    /// For an authenticated sender.
    fn proven(bytes: Vec<u8>) -> RequestAnswer {
        RequestAnswer {
            bytes,
            proven: true,
        }
    }

    fn clear(value: &Value) -> RequestAnswer {
        RequestAnswer {
            bytes: msgpack::encode(value, Profile::Wire),
            proven: false,
        }
    }
}

/// Runs the role `name` (`MWorker-0`, ...) until it is stopped.
pub fn run(
    config: Arc<MasterConfig>,
    name: &str,
    lent: FunctionHooks,
    roles: &Roles,
    stop: &StopFlag,
) -> Result<(), ExitError> {
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
            // A full queue means that the request server is down; the next report tries again.
            let _ = report();
            reported = Some(Instant::now());
            worker.tell_of_runners();
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
        let stored = worker.batch.take_stored();
        let waits = worker.waits_for_cluster(&stored);
        reply(&socket, waits, seq, done.answers)?;
        if waits {
            worker.ask_cluster(seq, &stored);
        }
        if let Some(peer) = done.panicked {
            return Err(ExitError::new(
                EXIT_PANIC,
                format!("a handler panicked on a request of {peer}"),
            ));
        }
    }
    Ok(())
}

/// Sends the answers to the requests of `seq` to the request server, to be given at once or when the cluster has what they acknowledge.
fn reply(
    socket: &Dealer,
    waits: bool,
    seq: &[u8],
    answers: Vec<RequestAnswer>,
) -> sockets::Result<()> {
    let kind: &[u8] = if waits { b"H" } else { b"D" };
    let proven: Vec<u8> = answers.iter().map(|a| u8::from(a.proven)).collect();
    let bodies = answers.into_iter().map(|answer| answer.bytes);
    socket.send_moved(&[kind, seq, &proven], bodies)
}

/// Results of a group of requests.
struct HandledRequests {
    /// Fewer than requests if a handler panicked, or if the answers have become large: the remaining requests
    /// were not started.
    answers: Vec<RequestAnswer>,
    /// Whose request caused a panic.
    panicked: Option<String>,
}

/// Handles requests, each an origin (see [`reqserver`](super::reqserver)) and a body, one after the other.
fn handle_all(worker: &mut Context, watchdog: &Watchdog, requests: &[Vec<u8>]) -> HandledRequests {
    let mut done = HandledRequests {
        answers: Vec::with_capacity(requests.len() / 2),
        panicked: None,
    };
    let mut octets = 0;
    for (number, request) in requests.chunks_exact(2).enumerate() {
        let (port, peer) = request[0].split_first().unwrap_or((&0, &[]));
        let peer = String::from_utf8_lossy(peer);
        worker.port = (*port).into();
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
                RequestAnswer::clear(&HANDLER_FAILED.into())
            }
        });
        octets += done.answers.last().map_or(0, |answer| answer.bytes.len());
        if done.panicked.is_some() || octets >= ENOUGH {
            break;
        }
    }
    watchdog.begin();
    worker.flush();
    watchdog.end();
    for number in worker.batch.take_unkept() {
        if let Some(answer) = done.answers.get_mut(number) {
            *answer = RequestAnswer::none();
        }
    }
    done
}

fn handle(worker: &mut Context, body: &[u8], peer: &str) -> RequestAnswer {
    let envelope = match Envelope::parse(body) {
        Ok(envelope) => envelope,
        Err(refusal) => return RequestAnswer::clear(&refusal.reply()),
    };
    if envelope.version < i64::from(worker.config.minimum_auth_version) {
        log::warn!(
            "{peer} uses protocol version {}, below minimum_auth_version {}; refused",
            envelope.version,
            worker.config.minimum_auth_version
        );
        return RequestAnswer::clear(&Refusal::BadLoad.reply());
    }
    match envelope.body {
        Body::Clear { load } => match clear_load(load) {
            Ok(load) => clear_request(worker, load, peer),
            Err(refusal) => RequestAnswer::clear(&refusal.reply()),
        },
        Body::Sealed {
            enc,
            id,
            load,
            enc_algo,
            sig_algo,
        } => {
            let sealed = sealed::Sealed {
                kind: CipherKind::of(enc),
                id,
                load,
                enc_algo,
                sig_algo,
            };
            aes::request(worker, &sealed, peer)
        }
    }
}

fn clear_request(worker: &mut Context, clear: ClearLoad, peer: &str) -> RequestAnswer {
    let ClearLoad { head, load } = clear;
    // The command by which the request was queued, and its sender's sign-ins were counted.
    let name = head.cmd;
    let found = name.and_then(Command::find).map(|c| (c, c.handler));
    let Some((command, Handler::Clear(handler))) = found else {
        worker.count_unknown(name.unwrap_or("(none)"), peer);
        return RequestAnswer::clear(&Value::Map(Map::new()));
    };
    begin(worker, command);
    match handler(worker, load, peer) {
        Ok(reply) => RequestAnswer::clear(&reply),
        Err(e) => {
            log::error!("{} of {peer} failed: {e}", command.name);
            RequestAnswer::clear(&HANDLER_FAILED.into())
        }
    }
}

/// Counts a command; before any other than returns and events, those waiting are stored and fired.
fn begin(worker: &mut Context, command: &Command) {
    if let Some(stats) = command.stats {
        *stats(&mut worker.stats) += 1;
    }
    if !matches!(command.handler, Handler::AesBatched(_)) {
        worker.flush();
    }
}

/// Ends the process if a request takes longer than the limit.
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
                    log::error!("a request ran longer than {limit:?}; restarting this worker");
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
