//! The event loop of one thread of a swarm.

use super::answer::{Facts, answer, target};
use super::minion::{Minion, Return, Task};
use super::session::{Fault, Publication, SignIn};
use super::stats::{Op, Stats};
use super::zmtp::{Connection, Input, Kind};
use super::{Options, Shared};
use crate::target::Target;
use crate::wire::ids::JidClock;
use crate::wire::{Map, Value};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often time-outs are looked for.
const TICK: Duration = Duration::from_millis(50);
/// Pause after a lost connection or a refused sign-in; spread by the minion's number.
const PAUSE: Duration = Duration::from_millis(100);

/// The publication opened last: minions of one master share what they would all compute.
struct Opened {
    bytes: Vec<u8>,
    key: String,
    publication: Publication,
    target: Option<Target>,
}

pub(super) struct Shard {
    options: Arc<Options>,
    shared: Arc<Shared>,
    epoll: Epoll,
    minions: Vec<Minion>,
    sign_in_queue: VecDeque<usize>,
    signing_in: usize,
    stats: Stats,
    opened: Option<Opened>,
    grains: Map,
    jids: JidClock,
    round_jid: String,
    cursor: usize,
    returning: usize,
}

impl Shard {
    pub fn new(
        options: Arc<Options>,
        shared: Arc<Shared>,
        number: usize,
        shards: usize,
    ) -> io::Result<Shard> {
        let minions: Vec<Minion> = (number..options.minions)
            .step_by(shards)
            .map(|n| Minion::new(&options, n))
            .collect();
        Ok(Shard {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            sign_in_queue: VecDeque::new(),
            signing_in: 0,
            stats: Stats::default(),
            opened: None,
            grains: crate::map! {"os" => "Swarm", "os_family" => "Swarm", "kernel" => "Linux", "saltversion" => "3006.28"},
            jids: JidClock::default(),
            round_jid: String::new(),
            cursor: 0,
            returning: 0,
            minions,
            options,
            shared,
        })
    }

    /// Runs until the swarm is told to stop.
    pub fn run(&mut self) -> io::Result<Stats> {
        for n in 0..self.minions.len() {
            self.want_sign_in(n);
        }
        let mut events = vec![EpollEvent::empty(); 512];
        let mut ticked = Instant::now();
        while !self.shared.stop.load(Ordering::Acquire) {
            self.begin_sign_ins();
            self.begin_returns();
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(10u8)) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(e.into()),
            };
            for event in &events[..count] {
                let token = event.data() as usize;
                let kind = if token & 1 == 0 { Kind::Req } else { Kind::Sub };
                self.progress(token / 2, kind);
            }
            if ticked.elapsed() > TICK {
                ticked = Instant::now();
                self.tick();
            }
        }
        Ok(std::mem::take(&mut self.stats))
    }

    fn progress(&mut self, n: usize, kind: Kind) {
        let minion = &mut self.minions[n];
        let slot = if kind == Kind::Req {
            &mut minion.req
        } else {
            &mut minion.sub
        };
        let Some(connection) = slot else { return };
        let mut inputs = Vec::new();
        let outcome = connection.progress(&mut |input| inputs.push(input));
        for input in inputs {
            self.input(n, kind, input);
        }
        if let Err(e) = outcome {
            self.lost(n, kind, &e);
        }
    }

    fn input(&mut self, n: usize, kind: Kind, input: Input) {
        match (kind, input) {
            (Kind::Sub, Input::Ready) => self.ping(n),
            (Kind::Sub, Input::Pong) => {
                // The first answer may overtake the subscription within the master, the second cannot.
                self.minions[n].pongs += 1;
                if self.minions[n].pongs == 1 {
                    self.ping(n);
                } else {
                    self.minions[n].subscribed = true;
                    self.count_ready(n);
                }
            }
            (Kind::Sub, Input::Message(mut frames)) => match frames.pop() {
                Some(body) if frames.len() <= 1 => self.publication(n, body),
                _ => self.stats.error("a publication has too many frames"),
            },
            (Kind::Req, Input::Message(frames)) => match <[Vec<u8>; 1]>::try_from(frames) {
                Ok([body]) => self.reply(n, &body),
                Err(_) => self.stats.error("a reply has not exactly one frame"),
            },
            (Kind::Req, _) => {}
        }
    }

    fn ping(&mut self, n: usize) {
        let sent = self.minions[n].sub.as_mut().map(Connection::ping);
        if let Some(Err(e)) = sent {
            self.lost(n, Kind::Sub, &e);
        }
    }

    /// A connection is over: what was under way on it is done again on the next.
    fn lost(&mut self, n: usize, kind: Kind, _why: &io::Error) {
        self.stats.note("connections lost or refused");
        if kind == Kind::Sub {
            self.minions[n].sub = None;
            self.minions[n].subscribed = false;
            self.count_ready(n);
            self.pause(n);
            return;
        }
        self.minions[n].req = None;
        match self.minions[n].task.take() {
            // A master that is away has not turned it down: this is no attempt.
            Some(Task::Return(item, _)) => {
                self.pause(n);
                self.minions[n].queue.push_front(*item);
            }
            task => {
                self.minions[n].task = task;
                self.repeat(n);
            }
        }
    }

    /// Puts the task at hand back.
    fn repeat(&mut self, n: usize) {
        self.pause(n);
        match self.minions[n].task.take() {
            Some(Task::SignIn(_)) => {
                self.signing_in -= 1;
                self.minions[n].wants_sign_in = true;
            }
            Some(Task::Return(item, _)) => self.retry(n, *item),
            None => {}
        }
    }

    fn retry(&mut self, n: usize, mut item: Return) {
        item.tries += 1;
        if item.tries < self.options.tries {
            self.minions[n].queue.push_front(item);
            return;
        }
        self.stats.error(format!(
            "a {} was not acknowledged in {} attempts",
            item.op.name(),
            item.tries
        ));
        self.shared.failed.fetch_add(1, Ordering::AcqRel);
        self.ended(item.op);
    }

    fn ended(&mut self, op: Op) {
        if op == Op::Return {
            self.returning -= 1;
            self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn pause(&mut self, n: usize) {
        let spread = Duration::from_millis(n as u64 * 7 % 100);
        self.minions[n].pause = Some(Instant::now() + PAUSE + spread);
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let rounds = self.shared.rounds.load(Ordering::Acquire);
        for n in 0..self.minions.len() {
            if self.minions[n].task.is_some()
                && now.duration_since(self.minions[n].sent) > self.options.timeout
            {
                self.stats.note("time-outs");
                self.minions[n].req = None;
                self.repeat(n);
            }
            if self.minions[n].pause.is_some_and(|p| p <= now) {
                self.minions[n].pause = None;
                if self.minions[n].wants_sign_in {
                    self.sign_in_queue.push_back(n);
                }
                self.subscribe(n);
                self.next_task(n);
            }
            let minion = &mut self.minions[n];
            if minion.rounds < rounds
                && minion.session.is_some()
                && !minion.wants_sign_in
                && minion.task.is_none()
            {
                minion.rounds += 1;
                self.want_sign_in(n);
            }
        }
    }

    fn want_sign_in(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if minion.wants_sign_in || matches!(minion.task, Some(Task::SignIn(_))) {
            return;
        }
        minion.wants_sign_in = true;
        minion.sign_in_since = None;
        if minion.pause.is_none() {
            self.sign_in_queue.push_back(n);
        }
    }

    fn begin_sign_ins(&mut self) {
        while self.signing_in < self.options.sign_ins {
            let Some(n) = self.sign_in_queue.pop_front() else {
                return;
            };
            // While another task is at hand or a pause runs, the minion comes back to it later.
            if self.minions[n].wants_sign_in
                && self.minions[n].task.is_none()
                && self.minions[n].pause.is_none()
            {
                self.sign_in(n);
            }
        }
    }

    fn sign_in(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        let (sign_in, request) =
            match SignIn::begin(&minion.id, &minion.keys, minion.pinned.as_ref()) {
                Ok(begun) => begun,
                Err(e) => return self.stats.error(e.to_string()),
            };
        minion.wants_sign_in = false;
        minion.sign_in_since.get_or_insert_with(Instant::now);
        minion.task = Some(Task::SignIn(sign_in));
        self.signing_in += 1;
        self.send(n, &request);
    }

    /// Sends the next return, if the minion is free to.
    fn next_task(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if minion.task.is_some() || minion.wants_sign_in || minion.pause.is_some() {
            return;
        }
        let Some(session) = &minion.session else {
            return;
        };
        let Some(mut item) = minion.queue.pop_front() else {
            return;
        };
        item.since.get_or_insert_with(Instant::now);
        let (request, nonce) = session.seal(&minion.id, &minion.keys, &item.load);
        minion.task = Some(Task::Return(Box::new(item), nonce));
        self.send(n, &request);
    }

    fn send(&mut self, n: usize, request: &[u8]) {
        self.minions[n].sent = Instant::now();
        if self.minions[n].req.is_none() {
            match self.connect(n, Kind::Req, self.options.master) {
                Ok(connection) => self.minions[n].req = Some(connection),
                Err(e) => return self.lost(n, Kind::Req, &e),
            }
        }
        let sent = self.minions[n].req.as_mut().map(|c| c.request(request));
        if let Some(Err(e)) = sent {
            self.lost(n, Kind::Req, &e);
        }
    }

    fn connect(&self, n: usize, kind: Kind, address: SocketAddr) -> io::Result<Connection> {
        let connection = Connection::open(address, kind)?;
        let token = n as u64 * 2 + u64::from(kind == Kind::Sub);
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        self.epoll.add(&connection, EpollEvent::new(flags, token))?;
        Ok(connection)
    }

    fn subscribe(&mut self, n: usize) {
        if !self.options.subscribe || self.minions[n].sub.is_some() {
            return;
        }
        let Some(session) = &self.minions[n].session else {
            return;
        };
        let port = self.options.publish_port.unwrap_or(session.publish_port);
        self.minions[n].pongs = 0;
        match self.connect(
            n,
            Kind::Sub,
            SocketAddr::new(self.options.master.ip(), port),
        ) {
            Ok(connection) => self.minions[n].sub = Some(connection),
            Err(e) => self.lost(n, Kind::Sub, &e),
        }
    }

    fn count_ready(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        let ready = minion.session.is_some() && (minion.subscribed || !self.options.subscribe);
        if ready && !minion.counted_ready {
            self.shared.ready.fetch_add(1, Ordering::AcqRel);
        } else if !ready && minion.counted_ready {
            self.shared.ready.fetch_sub(1, Ordering::AcqRel);
        }
        minion.counted_ready = ready;
    }

    fn reply(&mut self, n: usize, body: &[u8]) {
        match self.minions[n].task.take() {
            Some(Task::SignIn(sign_in)) => self.signed_in(n, &sign_in, body),
            Some(Task::Return(item, nonce)) => self.acknowledged(n, *item, &nonce, body),
            None => self.stats.error("a reply to no request"),
        }
        if self.minions[n].wants_sign_in && self.minions[n].pause.is_none() {
            self.sign_in_queue.push_back(n);
        }
        self.next_task(n);
    }

    fn signed_in(&mut self, n: usize, sign_in: &SignIn, body: &[u8]) {
        self.signing_in -= 1;
        let minion = &mut self.minions[n];
        let mut session = match sign_in.finish(&minion.keys, minion.pinned.as_ref(), body) {
            Ok(session) => session,
            Err(fault) => {
                match fault {
                    Fault::Pending => self.stats.note("sign-ins that wait for acceptance"),
                    other => self.stats.error(other.to_string()),
                }
                minion.wants_sign_in = true;
                return self.pause(n);
            }
        };
        let took = minion
            .sign_in_since
            .take()
            .map(|s| s.elapsed())
            .unwrap_or_default();
        let op = if minion.pinned.is_some() {
            Op::SignInAgain
        } else {
            Op::SignIn
        };
        minion.pinned.get_or_insert_with(|| session.master.clone());
        if let Some(earlier) = &minion.session {
            session.follow(earlier);
        }
        minion.session = Some(session);
        self.stats.done(op, took);
        if op == Op::SignInAgain {
            self.shared.again.fetch_add(1, Ordering::AcqRel);
        }
        self.subscribe(n);
        self.count_ready(n);
        for body in std::mem::take(&mut self.minions[n].held) {
            if !self.open(n, &body) {
                self.stats
                    .error("a publication cannot be opened after a new sign-in");
            }
        }
    }

    fn acknowledged(&mut self, n: usize, item: Return, nonce: &str, body: &[u8]) {
        let minion = &mut self.minions[n];
        let Some(session) = &minion.session else {
            return;
        };
        match session.open(nonce, body) {
            Ok(Value::Nil) => {}
            Ok(_) => return self.wrong(item, "the answer to a return is not empty"),
            Err(Fault::SignInAgain) => {
                self.stats
                    .note("requests answered with a wish for a new sign-in");
                self.want_sign_in(n);
                return self.retry(n, item);
            }
            Err(fault) => return self.wrong(item, &fault.to_string()),
        }
        let took = item.since.map(|s| s.elapsed()).unwrap_or_default();
        self.stats.done(item.op, took);
        if self.options.record
            && let Ok(mut record) = self.shared.record.lock()
        {
            record.push((
                item.load.str("jid").unwrap_or_default().to_owned(),
                minion.id.clone(),
            ));
        }
        let counter = if item.op == Op::Return {
            &self.shared.returned
        } else {
            &self.shared.answered
        };
        counter.fetch_add(1, Ordering::AcqRel);
        self.ended(item.op);
    }

    fn wrong(&mut self, item: Return, why: &str) {
        self.stats.error(why);
        self.shared.failed.fetch_add(1, Ordering::AcqRel);
        self.ended(item.op);
    }

    fn publication(&mut self, n: usize, body: Vec<u8>) {
        if !self.open(n, &body) {
            self.stats.note("publications under a new key");
            self.minions[n].held.push(body);
            self.want_sign_in(n);
        }
        self.next_task(n);
    }

    /// Opens and answers a publication; `false` if it needs another key.
    fn open(&mut self, n: usize, body: &[u8]) -> bool {
        let minion = &mut self.minions[n];
        let Some(session) = &mut minion.session else {
            return false;
        };
        let known = self
            .opened
            .as_ref()
            .is_some_and(|o| o.bytes == body && o.key == session.key_text());
        if !known {
            match session.publication(body) {
                Ok(publication) => {
                    self.opened = Some(Opened {
                        bytes: body.to_vec(),
                        key: session.key_text().to_owned(),
                        target: target(&publication.load),
                        publication,
                    });
                }
                Err(Fault::SignInAgain) => return false,
                Err(fault) => {
                    self.stats.error(fault.to_string());
                    return true;
                }
            }
        }
        let Some(opened) = &self.opened else {
            return true;
        };
        if !session.take_serial(&opened.publication) {
            self.stats.error("a publication came twice or out of order");
            return true;
        }
        let job = &opened.publication.load;
        let facts = Facts {
            id: &minion.id,
            grains: &self.grains,
        };
        if !opened.target.as_ref().is_some_and(|t| t.matches(&facts)) {
            return true;
        }
        let Some(jid) = job.str("jid") else {
            self.stats.error("a publication has no jid");
            return true;
        };
        if !minion.new_jid(jid) {
            self.stats.note("jobs seen twice");
            return true;
        }
        let load = answer(&minion.id, job, &|jid| minion.running(jid));
        let item = Return {
            load,
            op: Op::Answer,
            since: None,
            tries: 0,
            job: job.clone(),
        };
        minion.queue.push_back(item);
        true
    }

    /// Has minions in turn begin returns of their own, all of one round under one jid.
    fn begin_returns(&mut self) {
        let concurrency = self.shared.concurrency.load(Ordering::Acquire);
        while self.returning < concurrency {
            let taken =
                self.shared
                    .quota
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                        left.checked_sub(1)
                    });
            if taken.is_err() {
                return;
            }
            if self.options.master_jids {
                "req".clone_into(&mut self.round_jid);
            } else if self.cursor == 0 {
                self.round_jid = self.jids.next().to_string();
            }
            let n = self.cursor;
            self.cursor = (n + 1) % self.minions.len();
            let minion = &mut self.minions[n];
            let load = crate::map! {
                "cmd" => "_return", "id" => minion.id.as_str(), "success" => true, "return" => true, "retcode" => 0,
                "jid" => self.round_jid.as_str(), "fun" => "test.ping", "fun_args" => Vec::<Value>::new(),
            };
            minion.queue.push_back(Return {
                load,
                op: Op::Return,
                since: None,
                tries: 0,
                job: Map::new(),
            });
            self.returning += 1;
            self.shared.under_way.fetch_add(1, Ordering::AcqRel);
            self.next_task(n);
        }
    }
}
