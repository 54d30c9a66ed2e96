//! Receiving events.

use crate::event::split_body;
use crate::{Decoder, Error, Event, MAX_FRAME};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const CHUNK: usize = 64 << 10;

/// A connection to the pub socket of a bus. It receives every event fired after it connected.
///
/// Framing is detected for each frame, so it works with every release of Salt and with
/// halite. Keep reading: a stock master disconnects a slow listener; halite drops events
/// for it and reports how many.
#[derive(Debug)]
pub struct Subscriber {
    stream: UnixStream,
    decoder: Decoder,
    prefixes: Vec<String>,
    chunk: Box<[u8]>,
    wait: Wait,
}

/// The blocking mode the socket is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Forever,
    Not,
    For(Duration),
}

impl Subscriber {
    /// Connects to `master_event_pub.ipc` or a minion's pub socket.
    pub fn connect(path: impl AsRef<Path>) -> Result<Subscriber, Error> {
        let path = path.as_ref();
        let stream = UnixStream::connect(path).map_err(|e| Error::connect(path, e))?;
        Ok(Subscriber::over(stream))
    }

    /// Listens on a stream that is already connected.
    pub fn over(stream: UnixStream) -> Subscriber {
        Subscriber {
            stream,
            decoder: Decoder::new(MAX_FRAME),
            prefixes: Vec::new(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            wait: Wait::Forever,
        }
    }

    /// A listener that reconnects whenever the bus goes away.
    pub fn reconnecting(path: impl Into<PathBuf>) -> Reconnecting {
        Reconnecting {
            path: path.into(),
            prefixes: Vec::new(),
            pause: Duration::from_secs(1),
            live: None,
            tried: None,
            unreachable: false,
        }
    }

    /// Yields only events whose tag has this prefix; call again to add another prefix.
    ///
    /// The others still cross the socket: Salt cannot filter on the sending side.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Subscriber {
        self.prefixes.push(prefix.into());
        self
    }

    /// Sets the largest frame to accept, in bytes; [`MAX_FRAME`] by default. Call it before reading.
    pub fn with_max_frame(mut self, bytes: usize) -> Subscriber {
        self.decoder = Decoder::new(bytes);
        self
    }

    /// The next event, in bus order.
    ///
    /// With `timeout` `None` it waits forever, with zero not at all. `Ok(None)` means that the
    /// time is up. [`Error::Event`] concerns one event only; all other errors end the connection.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, Error> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut wait = timeout.map_or(Wait::Forever, Wait::of);
        loop {
            if let Some(event) = self.buffered()? {
                return Ok(Some(event));
            }
            if !self.fill(wait)? {
                return Ok(None);
            }
            let Some(end) = deadline else {
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            // A flood of filtered events must not block the caller past the timeout.
            if left.is_zero() {
                return self.buffered();
            }
            wait = Wait::of(left);
        }
    }

    /// The next event already received; never touches the socket.
    pub fn buffered(&mut self) -> Result<Option<Event>, Error> {
        while let Some(body) = self.decoder.next_body()? {
            let (tag, payload) = split_body(body)?;
            if self.prefixes.is_empty() || self.prefixes.iter().any(|p| tag.starts_with(p)) {
                return Ok(Some(Event {
                    tag: tag.to_owned(),
                    payload: payload.to_vec(),
                }));
            }
        }
        Ok(None)
    }

    /// Reads once; false when the time is up.
    fn fill(&mut self, wait: Wait) -> Result<bool, Error> {
        self.set_wait(wait).map_err(Error::Io)?;
        match self.stream.read(&mut self.chunk) {
            Ok(0) => Err(Error::Closed),
            Ok(n) => {
                self.decoder.push(&self.chunk[..n]);
                Ok(true)
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                io::ErrorKind::ConnectionReset => Err(Error::Closed),
                _ => Err(Error::Io(e)),
            },
        }
    }

    fn set_wait(&mut self, wait: Wait) -> io::Result<()> {
        if wait == self.wait {
            return Ok(());
        }
        if (wait == Wait::Not) != (self.wait == Wait::Not) {
            self.stream.set_nonblocking(wait == Wait::Not)?;
        }
        match wait {
            Wait::Not => {}
            Wait::Forever => self.stream.set_read_timeout(None)?,
            Wait::For(t) => self.stream.set_read_timeout(Some(t))?,
        }
        self.wait = wait;
        Ok(())
    }
}

impl Wait {
    fn of(time: Duration) -> Wait {
        if time.is_zero() {
            Wait::Not
        } else {
            Wait::For(time)
        }
    }
}

impl AsFd for Subscriber {
    /// Poll it for reading, level-triggered. After a wake-up, call [`next`](Subscriber::next)
    /// with a zero timeout until it yields `None`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for Subscriber {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

/// An endless iterator over the events of a bus that may stop and restart.
///
/// It yields one error each time the bus is lost or unreachable, since events may have been
/// missed; then it continues.
///
/// ```no_run
/// # use halite_ipc::Subscriber;
/// for event in Subscriber::reconnecting("/var/run/salt/master/master_event_pub.ipc") {
///     match event {
///         Ok(event) => println!("{}", event.tag),
///         Err(e) => eprintln!("{e}; trying again"),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Reconnecting {
    path: PathBuf,
    prefixes: Vec<String>,
    pause: Duration,
    live: Option<Subscriber>,
    /// When the last attempt to connect was made.
    tried: Option<Instant>,
    /// The last attempt failed, and the error was reported.
    unreachable: bool,
}

impl Reconnecting {
    /// Yields only events whose tag has this prefix; call again to add another prefix.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Reconnecting {
        self.prefixes.push(prefix.into());
        self
    }

    /// Sets the time between attempts to connect; one second by default, as in Salt
    /// (`tcp_reconnect_backoff`).
    pub fn with_pause(mut self, pause: Duration) -> Reconnecting {
        self.pause = pause;
        self
    }

    fn attempt(&mut self) -> Result<Event, Error> {
        let mut live = match self.live.take() {
            Some(live) => live,
            None => self.connect()?,
        };
        loop {
            match live.next(None) {
                Ok(Some(event)) => {
                    self.live = Some(live);
                    return Ok(event);
                }
                Ok(None) => {}
                Err(Error::Event(e)) => {
                    self.live = Some(live);
                    return Err(Error::Event(e));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Connects at most once per `pause`, because a bus may also accept and hang up at once.
    fn connect(&mut self) -> Result<Subscriber, Error> {
        if let Some(tried) = self.tried {
            thread::sleep(self.pause.saturating_sub(tried.elapsed()));
        }
        self.tried = Some(Instant::now());
        let mut live = Subscriber::connect(&self.path)?;
        live.prefixes.clone_from(&self.prefixes);
        self.unreachable = false;
        Ok(live)
    }
}

impl Iterator for Reconnecting {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let got = self.attempt();
            if !matches!(got, Err(Error::Connect { .. })) {
                return Some(got);
            }
            if !std::mem::replace(&mut self.unreachable, true) {
                return Some(got);
            }
        }
    }
}
