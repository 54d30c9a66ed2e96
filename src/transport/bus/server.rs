//! The event loop of a bus.

use super::BusOptions;
use super::counters::{BusCounters, Counters, add};
use super::handle::{BusHandle, Signals};
use super::listen::{self, BindError};
use super::repeats::Repeats;
use super::sink::{Context, Sink};
use super::source::{Defect, Source, Turn, check};
use crate::acceptor::Acceptor;
use crossbeam_channel::{Receiver, Sender, bounded};
use halite_ipc::{MAX_FRAME, MAX_TAG, frame};
use halite_sys::log_limiter::{LogLimiter, MINUTE};
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
/// Events of this process handled per turn.
const INBOX: usize = 1024;
/// Connections accepted per turn and socket.
const ACCEPTS: usize = 64;
/// How long a stopping bus keeps delivering events fired before.
const GRACE: Duration = Duration::from_millis(500);

/// Callback that receives the bodies of events.
pub type Tap = Box<dyn FnMut(&[u8]) + Send>;

/// A bus: both sockets, their connections and queues.
pub struct BusServer {
    cx: Context,
    pull: Acceptor<UnixListener>,
    publ: Acceptor<UnixListener>,
    sources: HashMap<u64, Source>,
    sinks: HashMap<u64, Sink>,
    next_token: u64,
    inbox: Receiver<Vec<u8>>,
    sender: Sender<Vec<u8>>,
    signals: Arc<Signals>,
    tap: Option<Tap>,
    repeats: Repeats,
    chunk: Box<[u8]>,
    /// Until when senders wait for a listener that is behind.
    held_until: Option<Instant>,
    /// Whether the bus is stopping: then senders do not wait any more.
    finishing: bool,
    /// Dropped events already logged, when, and when to log again.
    reported: u64,
    last_report: Option<Instant>,
    report_at: Option<Instant>,
    bad: LogLimiter,
    defects: LogLimiter,
    refused: LogLimiter,
}

impl BusServer {
    /// Binds both sockets; events are processed once [`run`](BusServer::run) is called.
    pub fn bind(pull: &Path, publ: &Path, options: BusOptions) -> Result<BusServer, BindError> {
        let pull_at = listen::bind(pull, options.pull_mode, options.backlog)?;
        let publ_at = listen::bind(publ, options.pub_mode, options.backlog)?;
        BusServer::over(pull_at, publ_at, options).map_err(|source| BindError::Io {
            path: pull.to_owned(),
            source,
        })
    }

    fn over(
        pull: UnixListener,
        publ: UnixListener,
        mut options: BusOptions,
    ) -> io::Result<BusServer> {
        if options.queue_frames == 0 {
            options.queue_frames = usize::MAX;
        }
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
            pull: Acceptor::new(PULL, pull),
            publ: Acceptor::new(PUBL, publ),
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
            tap: None,
            repeats: Repeats::default(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            held_until: None,
            finishing: false,
            reported: 0,
            last_report: None,
            report_at: None,
            bad: LogLimiter::default(),
            defects: LogLimiter::default(),
            refused: LogLimiter::default(),
        })
    }

    /// A handle for other threads of this process.
    pub fn handle(&self) -> BusHandle {
        BusHandle {
            inbox: self.sender.clone(),
            signals: self.signals.clone(),
            counters: self.cx.counters.clone(),
            stamp: self.cx.options.stamp,
            max_event_size: self.cx.options.max_event_size,
        }
    }

    /// Calls `tap` with the body of every event that another process fires, before it is delivered, but not for
    /// events of [`BusHandle::fire`]. `tap` runs in the thread of the bus and must not block.
    pub fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// A snapshot of the counters.
    pub fn counters(&self) -> BusCounters {
        self.cx.counters.snapshot()
    }

    /// Serves until [`BusHandle::stop`] is called or `stop` becomes readable (it is not read).
    /// Events fired by then are still delivered, for up to half a second.
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
        ended?;
        self.finish()
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let (_, stop) = self.turn(self.patience())?;
            if stop || self.signals.stop.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
        }
    }

    /// Continues until senders are silent and listeners have everything, or time is up.
    fn finish(&mut self) -> io::Result<()> {
        let end = Instant::now() + GRACE;
        self.finishing = true;
        self.regulate();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let waiting = self.sinks.values().any(|sink| sink.queued() > 0);
            let wait = if waiting && self.inbox.is_empty() {
                left
            } else {
                Duration::ZERO
            };
            let wait = EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::ZERO);
            let (ready, _) = self.turn(wait)?;
            let idle = ready == 0 && self.inbox.is_empty();
            if left.is_zero() || (idle && !waiting) {
                self.sinks.values().for_each(report);
                return Ok(());
            }
        }
    }

    /// Waits once and serves the ready descriptors. Returns how many there were, and whether the stop signal was among them.
    fn turn(&mut self, wait: EpollTimeout) -> io::Result<(usize, bool)> {
        let mut ready = [EpollEvent::empty(); 256];
        let n = match self.cx.epoll.wait(&mut ready, wait) {
            Ok(n) => n,
            Err(Errno::EINTR) => return Ok((1, false)),
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
        self.regulate();
        self.housekeeping();
        Ok((n, stop))
    }

    /// How long the loop may wait.
    fn patience(&self) -> EpollTimeout {
        if !self.inbox.is_empty() && self.held_until.is_none() {
            return EpollTimeout::ZERO;
        }
        let due = [
            self.pull.closed_until,
            self.publ.closed_until,
            self.report_at,
            self.held_until,
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return EpollTimeout::NONE;
        };
        let wait = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX)
    }

    fn accept(&mut self, token: u64) {
        let mut tries = ACCEPTS;
        loop {
            let acceptor = if token == PULL {
                &self.pull
            } else {
                &self.publ
            };
            match acceptor.next(&mut tries, UnixListener::accept) {
                Ok(Some((stream, _))) => self.admit(token, stream),
                Ok(None) => return,
                Err(e) => return self.suspend(token, &e),
            }
        }
    }

    /// Suspends accepting for a while.
    fn suspend(&mut self, token: u64, why: &io::Error) {
        if let Some(n) = self.refused.tick(Instant::now()) {
            log::error!(
                "event bus: cannot accept connections: {why} ({n} times); raise the limit of open files"
            );
        }
        let acceptor = if token == PULL {
            &mut self.pull
        } else {
            &mut self.publ
        };
        acceptor.set_open(false, &self.cx.epoll);
    }

    fn admit(&mut self, acceptor: u64, stream: UnixStream) {
        let counters = &self.cx.counters;
        if self.sources.len() + self.sinks.len() >= self.cx.options.max_connections {
            add(&counters.refused, 1);
            if let Some(n) = self.refused.tick(Instant::now()) {
                let limit = self.cx.options.max_connections;
                log::warn!("event bus: refused {n} connections, the limit is {limit}");
            }
            return;
        }
        let token = self.next_token;
        self.next_token += 1;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        let waits = acceptor == PULL && self.held_until.is_some();
        let registered = stream.set_nonblocking(true).and_then(|()| {
            if waits {
                return Ok(());
            }
            Ok(self.cx.epoll.add(&stream, event)?)
        });
        if let Err(e) = registered {
            log::error!("event bus: cannot serve a connection: {e}");
            return;
        }
        let pid = getsockopt(&stream, PeerCredentials).map_or(0, |c| c.pid());
        if acceptor == PULL {
            let max = MAX_FRAME.max(self.cx.options.max_event_size.saturating_add(MAX_TAG + 64));
            self.sources.insert(token, Source::new(stream, pid, max));
        } else {
            let counted = self.cx.counters.add_listener(token, pid);
            self.sinks.insert(token, Sink::new(stream, token, counted));
        }
        self.count_peers();
    }

    fn peer(&mut self, token: u64, flags: EpollFlags) {
        if self.sources.contains_key(&token) {
            return self.read(token);
        }
        // A connection closed earlier in this turn is gone.
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
        if self.listeners_behind().is_some() {
            // `regulate` stops the reading for a moment.
            return;
        }
        let Some(source) = self.sources.get_mut(&token) else {
            return;
        };
        let mut turn = source.fill(&mut self.chunk);
        if matches!(turn, Turn::Open) {
            // A listener that connected before an event was fired must receive it, so accept
            // between reading and delivering.
            self.accept(PUBL);
            turn = self.deliver(token);
        }
        self.close_source(token, turn);
    }

    fn deliver(&mut self, token: u64) -> Turn {
        let Some(source) = self.sources.get_mut(&token) else {
            return Turn::Closed;
        };
        let cx = &self.cx;
        let sinks = &mut self.sinks;
        let tap = &mut self.tap;
        let repeats = &mut self.repeats;
        let mut gone = Vec::new();
        let mut defect = None;
        let turn = source.drain(|body| match check(body, cx.options.max_event_size) {
            Ok(tag) if cx.options.once.is_some_and(|once| once(tag)) && repeats.has(tag) => {
                add(&cx.counters.repeated, 1);
            }
            Ok(_) => {
                if let Some(tap) = tap {
                    tap(body);
                }
                broadcast(sinks, body, cx, &mut gone);
            }
            Err(why) => {
                match why {
                    Defect::TooLarge => add(&cx.counters.oversized, 1),
                    Defect::Malformed => add(&cx.counters.bad_events, 1),
                }
                defect = Some(why);
            }
        });
        if let Some(why) = defect
            && let Some(n) = self.defects.tick(Instant::now())
        {
            let pid = source.pid;
            log::warn!("event bus: process {pid} fired {why}; dropped ({n} such reads)");
        }
        gone.into_iter().for_each(|token| self.remove_sink(token));
        turn
    }

    /// Closes a sender that hung up, failed or sent an invalid frame.
    fn close_source(&mut self, token: u64, turn: Turn) {
        let Some(source) = self.sources.get(&token) else {
            return;
        };
        let pid = source.pid;
        let counters = &self.cx.counters;
        match turn {
            Turn::Open => return,
            Turn::Closed => add(&counters.bad_frames, u64::from(source.torn())),
            Turn::Bad(why) => {
                add(&counters.bad_frames, 1);
                if let Some(n) = self.bad.tick(Instant::now()) {
                    log::warn!("event bus: cut off process {pid}: {why} ({n} such senders)");
                }
            }
            Turn::Failed(e) => log::debug!("event bus: reading from process {pid} failed: {e}"),
        }
        self.sources.remove(&token);
        self.count_peers();
    }

    /// Until when senders should wait for listeners, if any is behind.
    fn listeners_behind(&mut self) -> Option<Instant> {
        if self.finishing {
            return None;
        }
        let now = Instant::now();
        let cx = &self.cx;
        let until = self
            .sinks
            .values_mut()
            .filter_map(|s| s.hold_until(now, cx));
        until.min()
    }

    /// Stops reading from senders while a listener is behind, and resumes it. What they send meanwhile waits in their
    /// sockets.
    fn regulate(&mut self) {
        let until = self.listeners_behind();
        let epoll = &self.cx.epoll;
        if until.is_some() != self.held_until.is_some() {
            for (token, source) in &self.sources {
                // Removed, since a sender that hung up would wake the loop all the time.
                let changed = match until {
                    Some(_) => epoll.delete(&source.stream),
                    None => epoll.add(&source.stream, EpollEvent::new(EpollFlags::EPOLLIN, *token)),
                };
                if let Err(e) = changed {
                    log::error!("event bus: cannot wait for process {}: {e}", source.pid);
                }
            }
        }
        self.held_until = until;
    }

    fn drain_inbox(&mut self) {
        let waiting = self.inbox.len().min(INBOX);
        if waiting == 0 || self.listeners_behind().is_some() {
            return;
        }
        self.accept(PUBL);
        let mut gone = Vec::new();
        for body in self.inbox.try_iter().take(waiting) {
            broadcast(&mut self.sinks, &body, &self.cx, &mut gone);
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
            self.cx.counters.remove_listener(token);
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
        for acceptor in [&mut self.pull, &mut self.publ] {
            if acceptor.closed_until.is_some_and(|t| t <= now) {
                acceptor.set_open(true, &self.cx.epoll);
            }
        }
        // Lost events are logged one second after the first, then once a minute.
        if self.cx.counters.dropped.load(Ordering::Relaxed) == self.reported {
            self.report_at = None;
            return;
        }
        let soon = now + Duration::from_secs(1);
        let due = self.last_report.map_or(soon, |t| soon.max(t + MINUTE));
        if *self.report_at.get_or_insert(due) > now {
            return;
        }
        for sink in self.sinks.values_mut() {
            report(sink);
            self.reported += sink.dropped - sink.reported;
            sink.reported = sink.dropped;
        }
        self.last_report = Some(now);
        self.report_at = None;
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

/// Queues one event for every listener; adds the tokens of closed ones to `gone`.
fn broadcast(sinks: &mut HashMap<u64, Sink>, body: &[u8], cx: &Context, gone: &mut Vec<u64>) {
    add(&cx.counters.events_in, 1);
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
