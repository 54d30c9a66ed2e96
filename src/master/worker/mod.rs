//! MWorker, named `ReqServer MWorker-N` in the process list.
//!
//! Owns ClearFuncs and AESFuncs: it decrypts, decides, stores, answers. Connects to
//! `workers.ipc` (DEALER), `publish_pull.ipc` (PUSH) and `master_event_pull.ipc`. Holds the
//! master's RSA key, session keys and the AES key. One request at a time.
//!
//! When it fails: its request goes to another worker once. A handler that panics is
//! answered with Salt's error text and the process starts afresh (status 70); a handler that
//! outlives the request deadline by a few seconds is ended by a watchdog (status 75).
//! On SIGTERM the request at hand is finished.

mod aes;
mod auth;
mod caller;
mod clear;
mod context;
mod files;
mod functions;
mod mine;
mod peer;
mod peer_run;
mod pillar;
mod publish;
mod syndic;
mod tops;

use super::functions::Lent;
use super::roles::{RoleError, Roles};
use super::score::Score;
use crate::config::MasterConfig;
use crate::sys::signals::StopFlag;
use crate::transport::sockets::{ipc_url, recv_parts, send_parts};
use crate::wire::envelope::{Body, Envelope, Refusal, clear_load};
use crate::wire::msgpack::{self, Profile};
use crate::wire::{Map, Value};
use context::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Salt's answer when a handler raised (`salt/channel/server.py`).
pub const HANDLER_FAILED: &str = "Some exception handling minion payload";

const EXIT_PANIC: i32 = 70;
const EXIT_STUCK: i32 = 75;
/// How often an idle worker reports, so that a restarted request server learns of it.
const REPORT: Duration = Duration::from_millis(500);

/// A reply, and whether the sender proved who it is. Without octets nothing is sent, so that
/// the sender asks again after its timeout.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    proven: bool,
}

impl Answer {
    fn clear(value: &Value) -> Answer {
        Answer {
            bytes: msgpack::encode(value, Profile::Wire),
            proven: false,
        }
    }
}

/// Runs the role `name` (`MWorker-0`, ...) until it is told to stop.
pub fn run(
    config: MasterConfig,
    name: &str,
    lent: Lent,
    roles: &Roles,
    stop: &StopFlag,
) -> Result<(), RoleError> {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::DEALER)?;
    socket.set_identity(name.as_bytes())?;
    socket.set_linger(500)?;
    socket.set_reconnect_ivl(20)?;
    socket.set_reconnect_ivl_max(200)?;
    socket.connect(&ipc_url(&config.sock_dir.join("workers.ipc")))?;
    let watchdog = Watchdog::start(Duration::from_secs(config.request_timeout + 5));
    let mut worker = Context::new(config, lent, &context)?;
    roles.ready();
    let pid = std::process::id().to_be_bytes();
    let report = || send_parts(&socket, &[b"R".as_slice(), &pid], zmq::DONTWAIT);
    let mut reported: Option<Instant> = None;
    let mut score = Score::inherited(name);
    while !stop.is_set() {
        score.tick(|| worker.stats.to_map());
        if reported.is_none_or(|at| at.elapsed() > REPORT) {
            // A full queue means that the request server is away; the next report tries again.
            let _ = report();
            reported = Some(Instant::now());
            worker.runners.reap();
        }
        match socket.poll(zmq::POLLIN, 250) {
            Ok(0) | Err(zmq::Error::EINTR) => continue,
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let parts = match recv_parts(&socket, zmq::DONTWAIT) {
            Ok(parts) => parts,
            Err(zmq::Error::EAGAIN) => continue,
            Err(e) => return Err(e.into()),
        };
        let [seq, peer, body] = parts.as_slice() else {
            continue;
        };
        let peer = String::from_utf8_lossy(peer);
        watchdog.begin();
        let began = Instant::now();
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            handle(&mut worker, body, &peer)
        }));
        watchdog.end();
        worker.stats.requests += 1;
        worker.stats.busy += began.elapsed();
        let panicked = answer.is_err();
        let answer = answer.unwrap_or_else(|_| Answer::clear(&HANDLER_FAILED.into()));
        let proven = [u8::from(answer.proven)];
        send_parts(&socket, &[b"D".as_slice(), seq, &proven, &answer.bytes], 0)?;
        if panicked {
            return Err(RoleError::new(
                EXIT_PANIC,
                format!("a handler panicked on a request of {peer}"),
            ));
        }
    }
    Ok(())
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
    let Some(command) = load.str("cmd").and_then(clear::Command::parse) else {
        worker.count_unknown(load.str("cmd").unwrap_or("(none)"), peer);
        return Answer::clear(&Value::Map(Map::new()));
    };
    let reply = match command {
        clear::Command::Auth => {
            worker.stats.sign_ins += 1;
            auth::request(worker, &load, peer)
        }
        clear::Command::Ping => Ok(Value::Map(load)),
        clear::Command::Publish => {
            worker.stats.published += 1;
            publish::request(worker, load, peer)
        }
        clear::Command::MkToken => Ok(worker.access.mk_token(&load, peer)),
        clear::Command::GetToken => Ok(worker.access.get_token(&load)),
        clear::Command::Runner => functions::request(worker, caller::Kind::Runner, load, peer),
        clear::Command::Wheel => functions::request(worker, caller::Kind::Wheel, load, peer),
    };
    match reply {
        Ok(reply) => Answer::clear(&reply),
        Err(e) => {
            log::error!("{} of {peer} failed: {e}", command.name());
            Answer::clear(&HANDLER_FAILED.into())
        }
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
                if at != 0 && now().saturating_sub(at) > limit.as_secs() {
                    log::error!("a request ran longer than {limit:?}; this worker starts afresh");
                    std::process::exit(EXIT_STUCK);
                }
            }
        });
        Watchdog { began }
    }

    fn begin(&self) {
        self.began.store(now(), Ordering::Relaxed);
    }

    fn end(&self) {
        self.began.store(0, Ordering::Relaxed);
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |d| d.as_secs())
}
