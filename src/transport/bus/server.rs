//! The loop.

use super::BusOptions;
use super::counters::{BusCounters, Counters, add};
use super::handle::{BusHandle, Signals};
use super::listen::{self, BindError};
use super::sink::{Context, Sink};
use super::source::{Source, Turn};
use crossbeam_channel::{Receiver, Sender, bounded};
use halite_ipc::{Event, MAX_FRAME, MAX_TAG, frame};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PULL: u64 = 0;
const PUBL: u64 = 1;
const WAKE: u64 = 2;
const STOP: u64 = 3;
const FIRST: u64 = 16;

const CHUNK: usize = 64 << 10;
/// Events of the own process per turn.
const INBOX: usize = 1024;
/// Connections accepted per turn and socket.
const ACCEPTS: usize = 64;
/// Time without accepting after the system ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// Time between log lines of one kind.
const REPORT: Duration = Duration::from_secs(60);

/// A bus: both sockets, their connections and the queues between them.
pub struct BusServer {
    cx: Context,
    pull: Door,
    publ: Door,
    sources: HashMap<u64, Source>,
    sinks: HashMap<u64, Sink>,
    next_token: u64,
    inbox: Receiver<Event>,
    sender: Sender<Event>,
    signals: Arc<Signals>,
    chunk: Box<[u8]>,
    /// Drops that are in the log, and when it was written.
    reported: u64,
    last_report: Option<Instant>,
    bad: Throttle,
    refused: Throttle,
}

/// A listening socket.
struct Door {
    token: u64,
    listener: UnixListener,
    /// Accepting is suspended until then.
    closed_until: Option<Instant>,
}

impl BusServer {
    /// Offers both sockets; events are taken and handed on once [`run`](BusServer::run) is called.
    pub fn bind(pull: &Path, publ: &Path, options: BusOptions) -> Result<BusServer, BindError> {
        let pull_at = listen::bind(pull, options.pull_mode, options.backlog)?;
        let publ_at = listen::bind(publ, options.pub_mode, options.backlog)?;
        BusServer::over(pull_at, publ_at, options).map_err(|source| BindError::Io {
            path: pull.to_owned(),
            source,
        })
    }

    fn over(pull: UnixListener, publ: UnixListener, options: BusOptions) -> io::Result<BusServer> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags)?;
        let input = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(&pull, input(PULL))?;
        epoll.add(&publ, input(PUBL))?;
        epoll.add(&wake, input(WAKE))?;
        let (sender, inbox) = bounded(4096);
        Ok(BusServer {
            cx: Context {
                options,
                counters: Arc::new(Counters::default()),
                epoll,
            },
            pull: Door::new(PULL, pull),
            publ: Door::new(PUBL, publ),
            sources: HashMap::new(),
            sinks: HashMap::new(),
            next_token: FIRST,
            inbox,
            sender,
            signals: Arc::new(Signals {
                wake,
                woken: AtomicBool::new(false),
                stop: AtomicBool::new(false),
            }),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            reported: 0,
            last_report: None,
            bad: Throttle::default(),
            refused: Throttle::default(),
        })
    }

    /// A way in for other threads of this process.
    pub fn handle(&self) -> BusHandle {
        BusHandle {
            inbox: self.sender.clone(),
            signals: self.signals.clone(),
            counters: self.cx.counters.clone(),
            stamp: self.cx.options.stamp,
        }
    }

    /// What has been done so far.
    pub fn counters(&self) -> BusCounters {
        self.cx.counters.snapshot()
    }

    /// Serves until [`BusHandle::stop`] is called or `stop` becomes readable (it is not read).
    ///
    /// Errors are those of epoll itself; no peer can cause one.
    pub fn run(&mut self, stop: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if let Some(fd) = stop {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
            self.cx.epoll.add(fd, event)?;
        }
        let ended = self.serve();
        if let Some(fd) = stop {
            self.cx.epoll.delete(fd)?;
        }
        ended
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut ready = [EpollEvent::empty(); 256];
        loop {
            let n = match self.cx.epoll.wait(&mut ready, self.patience()) {
                Ok(n) => n,
                Err(Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            let mut stop = false;
            for event in &ready[..n] {
                match event.data() {
                    PULL | PUBL => self.accept(event.data()),
                    WAKE => self.signals.acknowledge(),
                    STOP => stop = true,
                    token => self.peer(token, event.events()),
                }
            }
            self.drain_inbox();
            self.send();
            self.housekeeping();
            if stop || self.signals.stop.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
        }
    }

    /// How long nothing has to happen.
    fn patience(&self) -> EpollTimeout {
        if !self.inbox.is_empty() {
            return EpollTimeout::ZERO;
        }
        let due = [
            self.pull.closed_until,
            self.publ.closed_until,
            self.report_due(),
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return EpollTimeout::NONE;
        };
        let wait = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX)
    }

    fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPTS {
            let door = if token == PULL {
                &self.pull
            } else {
                &self.publ
            };
            match door.listener.accept() {
                Ok((stream, _)) => self.admit(token, stream),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return self.suspend(token, &e),
                },
            }
        }
    }

    /// Out of descriptors or memory: the door stays shut for a while, for it would be
    /// reported as ready over and over again.
    fn suspend(&mut self, token: u64, why: &io::Error) {
        if let Some(n) = self.refused.tick() {
            log::error!(
                "event bus: cannot accept connections: {why} ({n} times); raise the limit of open files"
            );
        }
        let door = if token == PULL {
            &mut self.pull
        } else {
            &mut self.publ
        };
        door.set(false, &self.cx.epoll);
    }

    fn admit(&mut self, door: u64, stream: UnixStream) {
        let counters = &self.cx.counters;
        if self.sources.len() + self.sinks.len() >= self.cx.options.max_connections {
            add(&counters.refused, 1);
            if let Some(n) = self.refused.tick() {
                let limit = self.cx.options.max_connections;
                log::warn!("event bus: turned {n} connections away, the limit is {limit}");
            }
            return;
        }
        let token = self.next_token;
        self.next_token += 1;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        let registered = stream
            .set_nonblocking(true)
            .and_then(|()| Ok(self.cx.epoll.add(&stream, event)?));
        if let Err(e) = registered {
            log::error!("event bus: cannot serve a connection: {e}");
            return;
        }
        let pid = getsockopt(&stream, PeerCredentials).map_or(0, |c| c.pid());
        if door == PULL {
            let max = MAX_FRAME.max(self.cx.options.max_event_size.saturating_add(MAX_TAG + 64));
            self.sources.insert(token, Source::new(stream, pid, max));
        } else {
            self.sinks.insert(token, Sink::new(stream, token, pid));
        }
        self.count_peers();
    }

    fn peer(&mut self, token: u64, flags: EpollFlags) {
        if self.sources.contains_key(&token) {
            return self.read(token);
        }
        // Whoever was closed earlier in this turn is not there any more.
        let Some(sink) = self.sinks.get_mut(&token) else {
            return;
        };
        let gone = flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR)
            || (flags.contains(EpollFlags::EPOLLIN)
                && sink.ignore_input(&mut self.chunk, &self.cx).is_err())
            || (flags.contains(EpollFlags::EPOLLOUT) && sink.flush(&self.cx).is_err());
        if gone {
            self.remove_sink(token);
        }
    }

    fn read(&mut self, token: u64) {
        let Some(source) = self.sources.get_mut(&token) else {
            return;
        };
        let cx = &self.cx;
        let sinks = &mut self.sinks;
        let mut gone = Vec::new();
        let max = cx.options.max_event_size;
        let turn = source.turn(&mut self.chunk, max, &cx.counters, |body| {
            broadcast(sinks, body, cx, &mut gone);
        });
        let (pid, torn) = (source.pid, source.torn());
        match turn {
            Turn::Open => {}
            Turn::Done => {
                add(&cx.counters.bad_frames, u64::from(torn));
                self.sources.remove(&token);
            }
            Turn::Bad(why) => {
                add(&cx.counters.bad_frames, 1);
                if let Some(n) = self.bad.tick() {
                    log::warn!("event bus: cut off process {pid}: {why} ({n} such senders)");
                }
                self.sources.remove(&token);
            }
            Turn::Failed(e) => {
                log::debug!("event bus: reading from process {pid} failed: {e}");
                self.sources.remove(&token);
            }
        }
        gone.into_iter().for_each(|token| self.remove_sink(token));
        self.count_peers();
    }

    fn drain_inbox(&mut self) {
        let mut gone = Vec::new();
        for event in self.inbox.try_iter().take(INBOX) {
            add(&self.cx.counters.events_in, 1);
            broadcast(&mut self.sinks, &event.body(), &self.cx, &mut gone);
        }
        gone.into_iter().for_each(|token| self.remove_sink(token));
    }

    fn send(&mut self) {
        let cx = &self.cx;
        let gone: Vec<u64> = self
            .sinks
            .iter_mut()
            .filter_map(|(token, sink)| sink.send(cx).err().map(|_| *token))
            .collect();
        gone.into_iter().for_each(|token| self.remove_sink(token));
    }

    fn remove_sink(&mut self, token: u64) {
        if let Some(sink) = self.sinks.remove(&token) {
            report(&sink);
            self.reported += sink.dropped - sink.reported;
            self.count_peers();
        }
    }

    fn count_peers(&mut self) {
        let counters = &self.cx.counters;
        let set = |counter: &std::sync::atomic::AtomicU64, n: usize| {
            counter.store(n as u64, Ordering::Relaxed);
        };
        set(&counters.publishers, self.sources.len());
        set(&counters.subscribers, self.sinks.len());
    }

    fn housekeeping(&mut self) {
        let now = Instant::now();
        for door in [&mut self.pull, &mut self.publ] {
            if door.closed_until.is_some_and(|t| t <= now) {
                door.set(true, &self.cx.epoll);
            }
        }
        if self.report_due().is_some_and(|t| t <= now) {
            for sink in self.sinks.values_mut() {
                report(sink);
                self.reported += sink.dropped - sink.reported;
                sink.reported = sink.dropped;
            }
            self.last_report = Some(now);
        }
    }

    /// When to log lost events next, if there are any that the log does not show yet.
    fn report_due(&self) -> Option<Instant> {
        if self.cx.counters.dropped.load(Ordering::Relaxed) == self.reported {
            return None;
        }
        Some(self.last_report.map_or_else(Instant::now, |t| t + REPORT))
    }
}

fn report(sink: &Sink) {
    let lost = sink.dropped - sink.reported;
    if lost > 0 {
        let (pid, all, queued) = (sink.pid, sink.dropped, sink.queued());
        log::warn!(
            "event bus: listener process {pid} is too slow and lost {lost} events ({all} in all, {queued} waiting)"
        );
    }
}

/// Queues one event for every listener; those found gone are named in `gone`.
fn broadcast(sinks: &mut HashMap<u64, Sink>, body: &[u8], cx: &Context, gone: &mut Vec<u64>) {
    if sinks.is_empty() {
        return;
    }
    let frame: Arc<[u8]> = frame::encode(body, cx.options.framing).into();
    for (token, sink) in sinks {
        if sink.offer(&frame, cx).is_err() {
            gone.push(*token);
        }
    }
}

/// What a listener gets in place of `count` events that it lost.
pub(super) fn dropped_notice(count: u64, options: &BusOptions) -> Option<Arc<[u8]>> {
    let data = crate::map! { "count" => count };
    let mut event = Event::new("halite/bus/dropped", &data).ok()?;
    event.restamp(options.stamp).ok()?;
    Some(event.frame(options.framing).into())
}

impl Door {
    fn new(token: u64, listener: UnixListener) -> Door {
        Door {
            token,
            listener,
            closed_until: None,
        }
    }

    fn set(&mut self, open: bool, epoll: &Epoll) {
        let flags = if open {
            EpollFlags::EPOLLIN
        } else {
            EpollFlags::empty()
        };
        let mut event = EpollEvent::new(flags, self.token);
        // Should even this fail, it is tried again after the pause.
        let done = epoll.modify(&self.listener, &mut event).is_ok();
        self.closed_until = (!open || !done).then(|| Instant::now() + ACCEPT_PAUSE);
    }
}

/// Lets one message through per minute and counts those it holds back.
#[derive(Default)]
struct Throttle {
    last: Option<Instant>,
    held: u64,
}

impl Throttle {
    /// How many there were since the last message, when one is due now.
    fn tick(&mut self) -> Option<u64> {
        self.held += 1;
        if self.last.is_some_and(|t| t.elapsed() < REPORT) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.held))
    }
}
