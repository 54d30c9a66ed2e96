//! One question, one answer, on port 4506; a fresh connection after each failure
//! (`salt/transport/zeromq.py AsyncReqMessageClient`).
//!
//! Unlike [`Requester`](halite_transport::sockets::Requester) it can be interrupted: by the
//! end of the process, and by news that make waiting for this answer pointless.

use halite_config::MinionConfig;
use halite_sys::signals::StopFlag;
use halite_transport::sockets::{KeepAlive, again};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Answers over this are refused by the socket (`max_request_size` of any master is far below).
const MAX_ANSWER: i64 = 512 << 20;

/// What ends a wait early: the end of the process. Nobody reads from the stream, so that
/// clones in any number of threads see it.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: StopFlag,
    stream: Arc<UnixStream>,
    /// Keeps the stream silent where no signal is watched.
    _other_end: Option<Arc<UnixStream>>,
}

impl Stop {
    /// Watches a flag. Clone the result rather than call this again: it stays registered for ever.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn of(flag: &StopFlag) -> io::Result<Stop> {
        Ok(Stop {
            flag: flag.clone(),
            stream: Arc::new(flag.descriptor()?),
            _other_end: None,
        })
    }

    /// Never stops a wait: signals keep their usual effect on the process.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn never() -> io::Result<Stop> {
        let (stream, other) = UnixStream::pair()?;
        Ok(Stop {
            flag: StopFlag::default(),
            stream: Arc::new(stream),
            _other_end: Some(Arc::new(other)),
        })
    }

    /// Whether it is time to end.
    pub fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    /// What wakes a poll when it is time to end.
    pub fn poll_item(&self) -> zmq::PollItem<'_> {
        zmq::PollItem::from_fd(self.stream.as_raw_fd(), zmq::POLLIN)
    }

    /// Sleeps; `false` if it is time to end.
    pub fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
            let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            // A signal interrupts it, which the loop sees.
            let _ = poll(&mut fds, PollTimeout::from(millis));
        }
        false
    }
}

/// Wakes somebody who waits for an answer.
#[derive(Clone, Debug)]
pub struct Wake(Arc<EventFd>);

impl Wake {
    /// A new one.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new() -> io::Result<Wake> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Wake(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes.
    pub fn wake(&self) {
        // Fails only when it is awake already.
        let _ = self.0.write(1);
    }

    /// A way to wake that does not keep its descriptor open when nobody waits there any more.
    pub fn distant(&self) -> DistantWake {
        DistantWake(Arc::downgrade(&self.0))
    }

    /// Takes the mark away; whether there was one.
    pub fn take(&self) -> bool {
        self.0.read().is_ok()
    }
}

/// Wakes somebody who may be gone.
#[derive(Clone, Debug)]
pub struct DistantWake(Weak<EventFd>);

impl DistantWake {
    /// Wakes; `false` if there is nobody any more.
    pub fn wake(&self) -> bool {
        let there = self.0.upgrade().map(Wake);
        there.inspect(Wake::wake).is_some()
    }

    /// Whether somebody is there.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }
}

/// How a question ended.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// With these bytes.
    Bytes(Vec<u8>),
    /// Nobody answered in time.
    Silence,
    /// The wait was interrupted by [`Wake`].
    Interrupted,
    /// The process is to end.
    Stopped,
}

/// A client of one master's request port.
pub struct Asker {
    context: zmq::Context,
    url: String,
    ipv6: bool,
    keepalive: KeepAlive,
    socket: Option<zmq::Socket>,
}

impl Asker {
    /// A client of `url`; it connects when first used.
    pub fn new(context: &zmq::Context, config: &MinionConfig, url: &str) -> Asker {
        Asker {
            context: context.clone(),
            url: url.to_owned(),
            ipv6: config.ipv6 == Some(true) || url.starts_with("tcp://["),
            keepalive: keepalive(config),
            socket: None,
        }
    }

    /// Asks another master from now on.
    pub fn turn_to(&mut self, url: &str) {
        if self.url != url {
            self.url = url.to_owned();
            self.ipv6 |= url.starts_with("tcp://[");
            self.socket = None;
        }
    }

    /// Closes the connection; the next question opens a new one.
    pub fn close(&mut self) {
        self.socket = None;
    }

    /// Sends `body` and waits for the answer.
    ///
    /// # Errors
    /// The address is none, or no sockets are left.
    pub fn ask(
        &mut self,
        body: &[u8],
        timeout: Duration,
        stop: &Stop,
        wake: Option<&Wake>,
    ) -> io::Result<Answer> {
        let answer = self.try_ask(body, timeout, stop, wake);
        if !matches!(answer, Ok(Answer::Bytes(_))) {
            // A REQ socket that waits for an answer can do nothing else: drop it.
            self.socket = None;
        }
        answer
    }

    fn try_ask(
        &mut self,
        body: &[u8],
        timeout: Duration,
        stop: &Stop,
        wake: Option<&Wake>,
    ) -> io::Result<Answer> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => again(|| self.connect()).map_err(|e| {
                io::Error::other(format!(
                    "cannot connect to {}: {e}; see the option `master`",
                    self.url
                ))
            })?,
        };
        again(|| socket.send(body, 0))?;
        let end = Instant::now() + timeout;
        loop {
            if stop.is_set() {
                return Ok(Answer::Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            let mut items = vec![socket.as_poll_item(zmq::POLLIN), stop.poll_item()];
            items.extend(wake.map(|w| zmq::PollItem::from_fd(w.as_raw_fd(), zmq::POLLIN)));
            let millis = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
            match zmq::poll(&mut items, millis) {
                Ok(0) => return Ok(Answer::Silence),
                Err(zmq::Error::EINTR) => continue,
                Err(e) => return Err(e.into()),
                Ok(_) => {}
            }
            if items[0].is_readable() {
                let bytes = again(|| socket.recv_bytes(0))?;
                self.socket = Some(socket);
                return Ok(Answer::Bytes(bytes));
            }
            if wake.is_some_and(Wake::take) {
                return Ok(Answer::Interrupted);
            }
        }
    }

    fn connect(&self) -> zmq::Result<zmq::Socket> {
        let socket = self.context.socket(zmq::REQ)?;
        socket.set_linger(0)?;
        socket.set_reconnect_ivl_max(5000)?;
        socket.set_maxmsgsize(MAX_ANSWER)?;
        self.keepalive.apply(&socket)?;
        socket.set_ipv6(self.ipv6)?;
        socket.connect(&self.url)?;
        Ok(socket)
    }
}

/// `tcp_keepalive*` of a minion.
pub fn keepalive(config: &MinionConfig) -> KeepAlive {
    KeepAlive {
        on: config.tcp_keepalive,
        idle: config.tcp_keepalive_idle,
        count: config.tcp_keepalive_cnt,
        interval: config.tcp_keepalive_intvl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minion hears of the end of each of its jobs by a signal, which must not be the end of a question.
    #[test]
    fn signals_do_not_end_a_question() {
        use nix::sys::pthread::{pthread_kill, pthread_self};
        use nix::sys::signal::Signal;
        use std::sync::atomic::{AtomicBool, Ordering};

        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::default()).unwrap();
        let context = zmq::Context::new();
        let server = context.socket(zmq::REP).unwrap();
        server.bind("tcp://127.0.0.1:*").unwrap();
        server.set_rcvtimeo(50).unwrap();
        let url = server.get_last_endpoint().unwrap().unwrap();
        let config = MinionConfig::from_map(Default::default(), std::path::Path::new("/")).unwrap();
        let mut asker = Asker::new(&context, &config, &url);
        let stop = Stop::never().unwrap();
        let done = &AtomicBool::new(false);
        let asking = pthread_self();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    if server.recv_bytes(0).is_ok() {
                        server.send("answer", 0).unwrap();
                    }
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    pthread_kill(asking, Signal::SIGUSR2).unwrap();
                }
            });
            let ended = (0..40_000).find_map(|_| {
                let answer = asker.ask(b"question", Duration::from_secs(60), &stop, None);
                answer.is_err().then_some(answer)
            });
            done.store(true, Ordering::Relaxed);
            assert!(ended.is_none(), "{ended:?}");
        });
    }

    #[test]
    fn who_is_gone_is_not_woken() {
        let wake = Wake::new().unwrap();
        let distant = wake.distant();
        assert!(distant.wake() && wake.take());
        drop(wake);
        assert!(!distant.wake() && !distant.is_there());
    }
}
