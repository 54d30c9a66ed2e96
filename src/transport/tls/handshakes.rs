//! Handshakes of a port, in threads of their own: each costs a signature, and a fleet that comes back makes thousands. A
//! connection on which nothing has arrived yet has no TLS state.

use super::ServerTls;
use crate::balancers::Arrival;
use crate::connections::Connections;
use crate::stream::Stream;
use crate::wake::{self, Waker, Woken};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, unbounded};
use halite_sys::log_limiter::LogLimiter;
use halite_wire::Spoken;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv};
use openssl::ssl::{ErrorCode, Ssl, SslStream};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads of a port.
const MAX_THREADS: usize = 4;
/// Connections that a thread has not taken over yet.
const INBOX: usize = 1024;
/// Connections in their handshake, per thread.
const MAX_PENDING: usize = 4096;
const WOKEN: u64 = 0;
const STACK: usize = 256 << 10;

/// A connection whose handshake is complete.
pub(crate) struct Accepted {
    pub stream: Stream,
    /// Whose it is.
    pub peer: SocketAddr,
    /// The load balancer's end of it, if a header has named the peer.
    pub via: Option<SocketAddr>,
}

/// A thread, as the port sees it.
struct Worker {
    inbox: Sender<Arrival>,
    wake: Waker,
    handle: JoinHandle<()>,
}

/// The handshakes of one port.
pub(crate) struct Handshakes {
    tls: Arc<ServerTls>,
    threads: Vec<Worker>,
    next: usize,
    finished: Receiver<Accepted>,
    woken: Woken,
    overrun: LogLimiter,
}

impl Handshakes {
    /// Starts the threads. A handshake takes at most `limit`.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn start(tls: ServerTls, limit: Duration) -> io::Result<Handshakes> {
        let tls = Arc::new(tls);
        let (done, finished) = unbounded();
        let (wake, woken) = wake::pair()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = Vec::new();
        for _ in 0..cores.min(MAX_THREADS) {
            let (sender, inbox) = bounded(INBOX);
            let (wake_thread, thread_woken) = wake::pair()?;
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            epoll.add(&thread_woken, EpollEvent::new(EpollFlags::EPOLLIN, WOKEN))?;
            let thread = HandshakeThread {
                tls: tls.clone(),
                limit,
                epoll,
                inbox,
                woken: thread_woken,
                done: done.clone(),
                wake: wake.try_clone()?,
                pending: HashMap::new(),
                crowd: Connections::default(),
                next_token: WOKEN + 1,
                refusals: LogLimiter::default(),
            };
            let handle = std::thread::Builder::new()
                .name("tls".to_owned())
                .stack_size(STACK)
                .spawn(move || thread.run())?;
            threads.push(Worker {
                inbox: sender,
                wake: wake_thread,
                handle,
            });
        }
        Ok(Handshakes {
            tls,
            threads,
            next: 0,
            finished,
            woken,
            overrun: LogLimiter::default(),
        })
    }

    /// Readable when [`Handshakes::finished`] has something.
    pub fn descriptor(&self) -> impl AsFd + '_ {
        self.woken.as_fd()
    }

    /// Begins a handshake. If too many wait already, the connection is closed.
    pub fn begin(&mut self, arrival: Arrival) {
        self.next = (self.next + 1) % self.threads.len().max(1);
        let Some(thread) = self.threads.get(self.next) else {
            return;
        };
        match thread.inbox.try_send(arrival) {
            Ok(()) => thread.wake.wake(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                if let Some(times) = self.overrun.tick(Instant::now()) {
                    log::warn!("{times} connections were closed: too many TLS handshakes at once");
                }
            }
        }
    }

    /// The connections whose handshake is complete.
    pub fn finished(&mut self) -> Vec<Accepted> {
        self.woken.drain();
        self.finished.try_iter().collect()
    }

    /// Uses changed files from now on. Call it about once a second.
    ///
    /// # Errors
    /// A thread has ended, and the role must end as well.
    pub fn tend(&self) -> io::Result<()> {
        if self
            .threads
            .iter()
            .any(|thread| thread.handle.is_finished())
        {
            return Err(io::Error::other("a thread for TLS handshakes has ended"));
        }
        self.tls.refresh();
        Ok(())
    }
}

enum Stage {
    /// Nothing has arrived.
    Silent(TcpStream),
    Shaking(Box<SslStream<TcpStream>>),
}

struct Pending {
    stage: Stage,
    peer: SocketAddr,
    via: Option<SocketAddr>,
    since: Instant,
}

/// What became of a step.
enum Step {
    Wait(EpollFlags),
    Done,
    Failed(String),
}

struct HandshakeThread {
    tls: Arc<ServerTls>,
    limit: Duration,
    epoll: Epoll,
    inbox: Receiver<Arrival>,
    woken: Woken,
    done: Sender<Accepted>,
    wake: Waker,
    pending: HashMap<u64, Pending>,
    crowd: Connections,
    next_token: u64,
    refusals: LogLimiter,
}

impl HandshakeThread {
    fn run(mut self) {
        let mut ready = [EpollEvent::empty(); 256];
        let mut looked = Instant::now();
        loop {
            let n = match self.epoll.wait(&mut ready, EpollTimeout::from(1000u16)) {
                Ok(n) => n,
                Err(Errno::EINTR) => 0,
                Err(e) => return log::error!("TLS handshakes are impossible: {e}"),
            };
            let now = Instant::now();
            for event in ready.iter().take(n) {
                match event.data() {
                    WOKEN => {
                        // The other end is gone when the port is.
                        if !self.woken.drain() {
                            return;
                        }
                        while let Ok(arrival) = self.inbox.try_recv() {
                            self.add(arrival, now);
                        }
                    }
                    token => self.step(token),
                }
            }
            if now.duration_since(looked) >= Duration::from_secs(1) {
                looked = now;
                self.expire(now);
            }
        }
    }

    fn add(&mut self, arrival: Arrival, now: Instant) {
        let Arrival { tcp, peer, via } = arrival;
        let token = self.next_token;
        self.next_token += 1;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        if let Err(e) = self.epoll.add(&tcp, event) {
            return log::error!("cannot serve {peer}: {e}");
        }
        let pending = Pending {
            stage: Stage::Silent(tcp),
            peer,
            via,
            since: now,
        };
        self.pending.insert(token, pending);
        self.crowd.opened(token, peer);
        while self.crowd.len() > MAX_PENDING
            && let Some((surplus, _)) = self.crowd.take_surplus()
        {
            self.pending.remove(&surplus);
        }
    }

    fn step(&mut self, token: u64) {
        let Some(pending) = self.pending.remove(&token) else {
            return;
        };
        let mut stream = match pending.stage {
            Stage::Shaking(stream) => stream,
            Stage::Silent(stream) => match begin(&self.tls, stream) {
                Ok(Some(shaking)) => Box::new(shaking),
                // It hung up, or nothing has arrived after all.
                Ok(None) => return self.crowd.closed(token),
                Err(why) => {
                    self.crowd.closed(token);
                    return self.refuse(pending.peer, &why);
                }
            },
        };
        match advance(&mut stream) {
            Step::Wait(flags) => {
                let mut event = EpollEvent::new(flags, token);
                if self.epoll.modify(stream.get_ref(), &mut event).is_ok() {
                    let stage = Stage::Shaking(stream);
                    self.pending.insert(token, Pending { stage, ..pending });
                    return;
                }
                self.crowd.closed(token);
            }
            Step::Done => {
                self.crowd.closed(token);
                // The port adds it to its own set.
                if self.epoll.delete(stream.get_ref()).is_ok() {
                    let Pending { peer, via, .. } = pending;
                    let stream = Stream::Tls(stream);
                    // Nobody is there to receive it only when the port is closed.
                    let _ = self.done.send(Accepted { stream, peer, via });
                    self.wake.wake();
                }
            }
            Step::Failed(why) => {
                self.crowd.closed(token);
                self.refuse(pending.peer, &why);
            }
        }
    }

    fn refuse(&mut self, peer: SocketAddr, why: &str) {
        if let Some(times) = self.refusals.tick(Instant::now()) {
            log::warn!("{peer} was cut off: {why} ({times} such connections)");
        }
    }

    fn expire(&mut self, now: Instant) {
        let limit = self.limit;
        let late = |p: &Pending| now.duration_since(p.since) >= limit;
        let late: Vec<(u64, SocketAddr)> = self
            .pending
            .iter()
            .filter(|(_, p)| late(p))
            .map(|(token, p)| (*token, p.peer))
            .collect();
        for (token, peer) in late {
            self.pending.remove(&token);
            self.crowd.closed(token);
            self.refuse(peer, "it did not complete the TLS handshake");
        }
    }
}

/// Looks at the first byte; `None` if the peer has hung up.
fn begin(tls: &ServerTls, stream: TcpStream) -> Result<Option<SslStream<TcpStream>>, String> {
    let mut first = [0];
    match recv(stream.as_raw_fd(), &mut first, MsgFlags::MSG_PEEK) {
        Ok(0) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    if Spoken::of(first[0]) != Spoken::Tls {
        return Err(
            "it does not speak TLS; does its option `ssl` or `transport` differ?".to_owned(),
        );
    }
    let ssl = Ssl::new(&tls.context()).map_err(|e| e.to_string())?;
    let stream = SslStream::new(ssl, stream).map_err(|e| e.to_string())?;
    Ok(Some(stream))
}

fn advance(stream: &mut SslStream<TcpStream>) -> Step {
    match stream.accept() {
        Ok(()) => Step::Done,
        Err(e) => match e.code() {
            ErrorCode::WANT_READ => Step::Wait(EpollFlags::EPOLLIN),
            ErrorCode::WANT_WRITE => Step::Wait(EpollFlags::EPOLLOUT),
            _ => Step::Failed(super::handshake_failure(stream.ssl(), &e)),
        },
    }
}
