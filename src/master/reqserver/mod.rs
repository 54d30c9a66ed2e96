//! ReqServer, named `ReqServer MWorkerQueue` in the process list.
//!
//! Owns the queues between peers and workers. Binds `ret_port` of each transport and `workers.ipc` (ROUTER, on
//! which workers report as DEALER). Holds no RSA key; it reads session keys only to decrypt the first bytes of
//! a load, which tell its class.
//!
//! On failure: requests in flight are lost and their senders try again, as Salt's do; workers report to the new
//! instance by themselves. If it cannot bind it exits with status 4, which stops the master. On SIGTERM it
//! accepts nothing new, answers pending requests (for at most 1.5 s) and exits.
//!
//! Frames to a worker: sequence number (8 bytes), then origin and body of each request; the origin is the number of the
//! transport (1 byte, its place in `MasterConfig::ports`) and the peer's address. Frames from a
//! worker: `R`, pid (4 bytes) when it is idle; `D`, sequence number, a byte for each request (1 if its sender
//! was authenticated), then a reply for each; `H`, the same, for replies that wait until the cluster has what they
//! acknowledge. From the role `cluster`: `A`, the sequence number of such a group; `S`, authentication codes of requests that other masters have answered. An empty reply is not forwarded, so that the
//! peer tries again.

mod held;
mod pools;
mod ports;
mod replays;
mod sessions;

use super::auth_limit::AuthLimit;
use super::commands::{Class, Command};
use super::dispatch::{Dispatcher, GATHER, Limits, MOST_AT_ONCE};
use super::roles::{CLUSTER, Memory, MemoryWatch, Roles};
use super::score::Score;
use held::HeldAnswers;
use ports::{bind_fronts, bind_workers};
use replays::ReplayGuard;
use sessions::{Sessions, mac_prefix};

pub(crate) use pools::Pools;

use halite_config::{Acknowledge, MasterConfig};
use halite_crypto::CipherKind;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::memory::{keep_freed, trim_memory};
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_transport::front::{Incoming, Pressure, Received, RequestFront};
use halite_transport::poll::Poller;
use halite_transport::sockets::{Context, Message, Router};
use halite_wire::Value;
use halite_wire::envelope::{Body, Envelope, Head, Refusal};
use halite_wire::msgpack::{self, Profile};
use std::borrow::Cow;
use std::io;
use std::time::{Duration, Instant};

/// Exit status if an address cannot be bound, as in Salt (`salt/cli/daemons.py`).
pub const EXIT_BIND: i32 = 4;

/// Longest wait of a turn.
const TURN: Duration = Duration::from_millis(100);
/// How often connections are looked after.
const LOOK: Duration = Duration::from_millis(50);
const DRAIN: Duration = Duration::from_millis(1500);
/// Most messages read from one side before the other gets its turn.
const BURST: usize = 64;
/// A larger request is sent to a worker on its own.
const LARGE: usize = 64 * 1024;
/// Number of frames in the longest message of a worker.
const WORKER_PARTS: usize = 4 + MOST_AT_ONCE;

/// A request in progress: where the answer goes and what was requested.
struct Request {
    from: Vec<u8>,
    body: Message,
    /// What the worker is told: number of the transport, and address of the peer.
    origin: Vec<u8>,
    seal: Option<u64>,
}

impl Request {
    fn port(&self) -> u8 {
        self.origin.first().copied().unwrap_or_default()
    }

    fn peer(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.origin.get(1..).unwrap_or_default())
    }
}

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    keep_freed();
    let context = Context::new();
    let (back, fronts) = (bind_workers(config, &context)?, bind_fronts(config)?);
    let mut server = Server::new(config, fronts, back)?;
    roles.ready();
    let mut draining: Option<Instant> = None;
    loop {
        if stop.is_set() && draining.is_none() {
            draining = Some(Instant::now() + DRAIN);
        }
        if draining.is_some_and(|end| server.pending() == 0 || Instant::now() > end) {
            break;
        }
        server.turn(draining.is_none())?;
    }
    server.answer_held(Instant::now() + DRAIN + server.patience);
    log::debug!("request server: {:?}", server.dispatcher.counters);
    Ok(())
}

/// A request, whether its sender was authenticated, and the reply.
type RequestReply = (Request, bool, Message);

struct Server {
    /// In the order of `MasterConfig::ports`.
    fronts: Vec<Box<dyn RequestFront>>,
    back: Router,
    dispatcher: Dispatcher<Request>,
    auth_limit: AuthLimit,
    pools: Pools,
    sessions: Sessions,
    seen: ReplayGuard,
    held: HeldAnswers<RequestReply>,
    patience: Duration,
    acknowledge: Acknowledge,
    last_tick: Instant,
    memory: MemoryWatch,
    last_look: Instant,
    reported: u64,
    ignored: u64,
    replays: u64,
    /// Returns that the cluster did not have in time.
    unconfirmed: u64,
    /// Replies not delivered because the peer was gone or did not read.
    undelivered: u64,
    unanswered: LogLimiter,
    late: LogLimiter,
    refusals: LogLimiter,
    score: Score,
}

impl Server {
    fn new(
        config: &MasterConfig,
        fronts: Vec<Box<dyn RequestFront>>,
        back: Router,
    ) -> io::Result<Server> {
        let pools = Pools::new(config);
        let limits = Limits {
            queue: config.request_queue_limit as usize,
            deadline: Duration::from_secs(config.request_timeout),
            sign_in: (config.auth_queue_timeout > 0)
                .then(|| Duration::from_secs(config.auth_queue_timeout)),
        };
        let cluster = config.cluster();
        let patience = cluster.as_ref().map_or(Duration::ZERO, |c| c.patience);
        // Numbers of an earlier start must not come again: the cluster may still acknowledge one.
        let first = unix_now() << 32;
        Ok(Server {
            fronts,
            back,
            held: HeldAnswers::new(patience),
            patience,
            acknowledge: cluster.map_or(Acknowledge::Local, |c| c.acknowledge),
            dispatcher: Dispatcher::new(limits, &pools.sizes(), first),
            auth_limit: AuthLimit::new(config.auth_rate_limit, config.auth_rate_burst),
            pools,
            sessions: Sessions::new(config),
            seen: ReplayGuard::open(&config.replays()).telling(config)?,
            last_tick: Instant::now(),
            memory: MemoryWatch::default(),
            last_look: Instant::now(),
            reported: 0,
            ignored: 0,
            replays: 0,
            unconfirmed: 0,
            undelivered: 0,
            unanswered: LogLimiter::default(),
            late: LogLimiter::default(),
            refusals: LogLimiter::default(),
            score: Score::inherited("request"),
        })
    }

    fn turn(&mut self, accept: bool) -> Result<(), ExitError> {
        let waiting = accept && self.fronts.iter().any(|front| front.has_waiting());
        let wait = if waiting {
            Duration::ZERO
        } else if self.dispatcher.gathers(Instant::now()) {
            GATHER
        } else if self.seen.has_news() {
            replays::GATHER
        } else {
            TURN
        };
        let mut poller = Poller::new();
        let back = poller.add(self.back.source());
        if accept {
            for front in &self.fronts {
                poller.add(front.source());
            }
        }
        poller.wait(Some(wait))?;
        let from_workers = poller.is_readable(back);
        let from_peers: Vec<bool> = (1..)
            .zip(&self.fronts)
            .map(|(at, front)| accept && (front.has_waiting() || poller.is_readable(at)))
            .collect();
        if from_workers {
            for _ in 0..BURST {
                if !self.worker_message()? {
                    break;
                }
            }
        }
        for port in (0..)
            .zip(from_peers)
            .filter_map(|(n, ready)| ready.then_some(n))
        {
            for _ in 0..BURST {
                if !self.peer_message(port)? {
                    break;
                }
            }
        }
        self.tend()?;
        self.assign()?;
        self.seen.tell(Instant::now());
        self.tick()
    }

    /// Looks after connections, and more often than after anything else: a flood takes a gigabyte in a second.
    fn tend(&mut self) -> Result<(), ExitError> {
        let now = Instant::now();
        if now.duration_since(self.last_look) < LOOK {
            return Ok(());
        }
        self.last_look = now;
        let memory = self.memory.look()?;
        let pressure = match memory {
            Memory::Enough => Pressure::None,
            Memory::Grows => Pressure::Growing,
            Memory::Scarce => Pressure::Scarce,
        };
        let mut closed = false;
        for front in &mut self.fronts {
            closed |= front.tend(pressure)?;
        }
        if closed {
            // What they had sent is free now, and must not count any more.
            trim_memory();
        }
        Ok(())
    }

    fn peer_message(&mut self, port: u8) -> Result<bool, ExitError> {
        let Some(front) = self.fronts.get_mut(usize::from(port)) else {
            return Ok(false);
        };
        match front.receive()? {
            Received::Request(request) => self.admit(port, request),
            Received::Malformed => self.ignored += 1,
            Received::Nothing => return Ok(false),
        }
        Ok(true)
    }

    fn admit(&mut self, port: u8, request: Incoming) {
        let Incoming { from, peer, body } = request;
        let sorted = match Envelope::parse(&body) {
            Ok(envelope) => self.sort(&envelope, body.len()),
            Err(refusal) => Err(refusal),
        };
        let (pool, class, seal) = match sorted {
            Ok(sorted) => sorted,
            Err(refusal) => return self.refuse(port, &from, &refusal),
        };
        let now = Instant::now();
        // Encrypted requests have a session and cost no RSA operation.
        if class == Class::Auth && seal.is_none() && !self.auth_limit.admits(&peer, now) {
            return;
        }
        let alone = body.len() > LARGE;
        let request = Request {
            from,
            body,
            origin: [&[port], peer.as_bytes()].concat(),
            seal,
        };
        // If the queue is full there is no answer: any answer would make a minion sign in again and add to the
        // load. It tries again after its own timeout.
        if self
            .dispatcher
            .submit(now, pool, class, alone, request)
            .is_ok()
        {
            self.seen.begin(seal);
        }
    }

    fn sort(
        &mut self,
        envelope: &Envelope,
        length: usize,
    ) -> Result<(usize, Class, Option<u64>), Refusal> {
        let (kind, id, load) = match &envelope.body {
            Body::Clear { load } => {
                let head = Head::of(load)?;
                let cmd = head.cmd.unwrap_or_default();
                if length > Command::max_clear(cmd) {
                    return Err(Refusal::BadLoad);
                }
                let class = match Class::of(cmd) {
                    // Credentials in a sign-in mean nothing, and must not hide it from its limit.
                    Class::Auth => Class::Auth,
                    _ if head.login => Class::Login,
                    class => class,
                };
                return Ok((self.pools.of(cmd), class, None));
            }
            Body::Sealed { enc, id, load, .. } => (CipherKind::of(enc), *id, *load),
        };
        let seal = mac_prefix(kind, load);
        if self.seen.contains(seal) {
            self.replays += 1;
            return Err(Refusal::BadLoad);
        }
        let cmd = self.sessions.peek(kind, id, load).unwrap_or_default();
        let class = Class::of(&cmd);
        // A stock minion repeats a pillar request unchanged (`AsyncReqChannel.crypted_transfer_decode_dictentry`).
        let seal = (class != Class::Pillar || kind == CipherKind::Gcm).then_some(seal);
        Ok((self.pools.of(&cmd), class, seal))
    }

    fn refuse(&mut self, port: u8, from: &[u8], refusal: &Refusal) {
        let reply = msgpack::encode(&refusal.reply(), Profile::Wire);
        self.answer(port, from, reply.into());
    }

    fn answer(&mut self, port: u8, from: &[u8], reply: Message) {
        if reply.is_empty() {
            return;
        }
        // The peer may be gone, or may not read answers; nobody else needs to know.
        let Some(front) = self.fronts.get_mut(usize::from(port)) else {
            return;
        };
        if let Err(e) = front.answer(from, reply) {
            self.undelivered += 1;
            if let Some(n) = self.unanswered.tick(self.last_tick) {
                log::info!("{n} replies could not be delivered, the last of them: {e}");
            }
        }
    }

    fn worker_message(&mut self) -> Result<bool, ExitError> {
        let Some(mut parts) = self.back.receive(WORKER_PARTS)? else {
            return Ok(false);
        };
        match parts.as_slice() {
            [name, kind, pid] if &**kind == b"R" => self.worker_ready(name, pid),
            [name, kind, seq] if &**kind == b"A" && &**name == CLUSTER.as_bytes() => {
                if let Some(seq) = number(seq) {
                    let answers = self.held.stored(seq);
                    self.send_all(answers);
                }
            }
            [name, kind, codes] if &**kind == b"S" && &**name == CLUSTER.as_bytes() => {
                self.seen.learn(codes);
            }
            [name, kind, seq, proven, replies @ ..]
                if matches!(&**kind, b"D" | b"H") && proven.len() == replies.len() =>
            {
                let Some(seq) = number(seq) else {
                    return Ok(true);
                };
                let now = Instant::now();
                let done = self.dispatcher.done(now, name, seq, replies.len());
                let (waits, proven) = (&**kind == b"H", proven.to_vec());
                let done = done.into_iter().zip(proven).zip(parts.drain(4..));
                let answers = done.filter_map(|((request, proven), reply)| {
                    request.map(|request| (request, proven == 1, reply))
                });
                let answers: Vec<RequestReply> = answers.collect();
                let ready = match waits {
                    true => self.held.hold(seq, without_bodies(answers), now),
                    false => Some(answers),
                };
                self.send_all(ready.unwrap_or_default());
            }
            _ => self.ignored += 1,
        }
        Ok(true)
    }

    fn send_all(&mut self, answers: Vec<RequestReply>) {
        for (request, is_proven, reply) in answers {
            self.seen.end(request.seal, is_proven);
            self.answer(request.port(), &request.from, reply);
        }
    }

    /// The cluster does not have in time what these answers acknowledge.
    fn answer_held(&mut self, now: Instant) {
        let answers = self.held.expired(now);
        self.unconfirmed += answers.len() as u64;
        match self.acknowledge {
            Acknowledge::Local => self.send_all(answers),
            Acknowledge::Quorum => {
                for (request, ..) in answers {
                    self.seen.end(request.seal, false);
                }
            }
        }
    }

    fn pending(&self) -> usize {
        self.dispatcher.pending() + self.held.len()
    }

    fn worker_ready(&mut self, name: &[u8], pid: &[u8]) {
        let Ok(pid) = <[u8; 4]>::try_from(pid) else {
            return;
        };
        let Some(pool) = self.pools.of_worker(name) else {
            return;
        };
        let fate = self.dispatcher.ready(pool, name, u32::from_be_bytes(pid));
        if fate.retried > 0 {
            log::warn!(
                "{} died while handling {} requests; they go to another worker",
                String::from_utf8_lossy(name),
                fate.retried
            );
        }
        for request in fate.lost {
            log::error!(
                "a request of {} crashed two workers; giving it up",
                request.peer()
            );
            self.fail(&request);
        }
    }

    /// Answers a request that is given up. It may have been executed, so it counts as seen.
    fn fail(&mut self, request: &Request) {
        self.seen.end(request.seal, true);
        let reply = msgpack::encode(&super::worker::HANDLER_FAILED.into(), Profile::Wire);
        self.answer(request.port(), &request.from, reply.into());
    }

    fn assign(&mut self) -> Result<(), ExitError> {
        let now = Instant::now();
        for request in self.dispatcher.outwaited(now) {
            self.seen.end(request.seal, false);
        }
        while let Some((worker, seq, requests)) = self.dispatcher.assign(now) {
            let seq = seq.to_be_bytes();
            let mut parts: Vec<&[u8]> = Vec::with_capacity(2 + 2 * requests.len());
            parts.extend([worker.as_slice(), &seq]);
            for request in requests {
                parts.extend([request.origin.as_slice(), &request.body]);
            }
            // A worker that died is detected when its successor reports; the request is kept.
            if let Err(e) = self.back.send(&parts) {
                log::warn!("cannot send to a worker: {e}");
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), ExitError> {
        let now = Instant::now();
        if now.duration_since(self.last_tick) < Duration::from_millis(250) {
            return Ok(());
        }
        self.last_tick = now;
        self.answer_held(now);
        for request in self.dispatcher.expire(now) {
            if let Some(n) = self.late.tick(now) {
                let peer = request.peer();
                log::warn!("a request of {peer} missed its deadline ({n} such requests)");
            }
            self.fail(&request);
        }
        let refused = self.dispatcher.counters.refused + self.ignored;
        self.refusals.add(refused - self.reported);
        self.reported = refused;
        if self.refusals.due(now).is_some() {
            log::warn!(
                "{} requests refused or ignored so far; waiting now: {:?}",
                refused,
                self.dispatcher.depths()
            );
        }
        if let Some(away) = self.auth_limit.report(now) {
            let last = away.last.map_or("?".to_owned(), |a| a.to_string());
            log::warn!(
                "{} sign-ins got no answer because their address exceeds auth_rate_limit, most recently {last}",
                away.count
            );
        }
        self.score.tick(|| {
            let dispatcher = &self.dispatcher;
            let counters = &dispatcher.counters;
            let (workers, idle) = dispatcher.workers();
            halite_wire::map! {
                "depth" => dispatcher.depths().map(Value::from).to_vec(),
                "taken" => counters.taken.map(Value::from).to_vec(),
                "oldest" => dispatcher.oldest(now).as_secs_f64(),
                "refused" => counters.refused, "expired" => counters.expired,
                "retried" => counters.retried, "replays" => self.replays, "learned" => self.seen.learned,
                "limited" => self.auth_limit.turned_away(), "outwaited" => counters.outwaited,
                "held" => self.held.len(), "unconfirmed" => self.unconfirmed, "ignored" => self.ignored, "undelivered" => self.undelivered,
                "workers" => workers, "idle" => idle,
                "latency" => counters.latencies.to_value(),
            }
        });
        Ok(())
    }
}

/// What waits for the cluster needs no requests any more.
fn without_bodies(mut answers: Vec<RequestReply>) -> Vec<RequestReply> {
    for (request, ..) in &mut answers {
        request.body = Vec::new().into();
    }
    answers
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().map(u64::from_be_bytes).ok()
}

#[cfg(test)]
mod tests;
