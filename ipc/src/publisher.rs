//! Firing events.

use crate::{Error, Event, Framing, StampStyle};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A connection to the pull socket of a bus.
///
/// The bus never replies: a fired event has been handed to the kernel, nothing more is known.
/// `SIGPIPE` must be ignored, as it is by default in Rust programs.
#[derive(Debug)]
pub struct Publisher {
    path: PathBuf,
    framing: Framing,
    stamp: Option<StampStyle>,
    timeout: Duration,
    stream: Option<UnixStream>,
}

impl Publisher {
    /// Connects to `master_event_pull.ipc` or a minion's pull socket.
    ///
    /// [`Framing::Prefixed`], the default, suits every release since 3006.26, 3007.15 and 3008.2.
    pub fn connect(path: impl AsRef<Path>, framing: Framing) -> Result<Publisher, Error> {
        let mut publisher = Publisher::unconnected(path, framing);
        publisher.stream = Some(publisher.open()?);
        Ok(publisher)
    }

    /// One that connects when it sends an event: whether there is a bus then is an error of that event alone.
    pub fn unconnected(path: impl AsRef<Path>, framing: Framing) -> Publisher {
        Publisher {
            path: path.as_ref().to_owned(),
            framing,
            stamp: Some(StampStyle::default()),
            timeout: Duration::from_secs(5),
            stream: None,
        }
    }

    /// Sets how `_stamp` is added to events that have none; `None` sends them as they are.
    pub fn with_stamp(mut self, style: Option<StampStyle>) -> Publisher {
        self.stamp = style;
        self
    }

    /// Sets how long [`fire`](Publisher::fire) may wait for a busy bus; five seconds by default.
    /// Zero counts as one millisecond.
    pub fn with_timeout(mut self, timeout: Duration) -> Publisher {
        self.timeout = timeout.max(Duration::from_millis(1));
        if let Some(stream) = &self.stream
            && stream.set_write_timeout(Some(self.timeout)).is_err()
        {
            self.stream = None;
        }
        self
    }

    /// Sends one event. If the bus has restarted, reconnects once.
    ///
    /// [`Error::Timeout`]: the bus did not read; the event counts as not sent.
    pub fn fire(&mut self, event: &Event) -> Result<(), Error> {
        self.fire_all(std::slice::from_ref(event))
    }

    /// Sends events in order, in one write. After an error, listeners may still have received the first of them.
    ///
    /// # Errors
    /// As [`fire`](Publisher::fire).
    pub fn fire_all(&mut self, events: &[Event]) -> Result<(), Error> {
        let mut frames = Vec::new();
        for event in events {
            frames.extend_from_slice(&self.frame(event)?);
        }
        self.write(&frames)
    }

    fn write(&mut self, frames: &[u8]) -> Result<(), Error> {
        if let Some(stream) = &mut self.stream {
            match stream.write_all(frames) {
                Ok(()) => return Ok(()),
                // The rest of a truncated frame is dropped with its connection.
                Err(e) if gone(&e) => self.stream = None,
                Err(e) => return Err(self.fail(e)),
            }
        }
        let mut stream = self.open()?;
        let sent = stream.write_all(frames);
        self.stream = Some(stream);
        sent.map_err(|e| self.fail(e))
    }

    fn frame(&self, event: &Event) -> Result<Vec<u8>, Error> {
        let Some(style) = self.stamp else {
            return Ok(event.frame(self.framing));
        };
        if event.stamp_text().is_some() {
            return Ok(event.frame(self.framing));
        }
        let mut event = event.clone();
        event.stamp(style)?;
        Ok(event.frame(self.framing))
    }

    fn fail(&mut self, e: io::Error) -> Error {
        self.stream = None;
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout,
            _ if gone(&e) => Error::Closed,
            _ => Error::Io(e),
        }
    }

    fn open(&self) -> Result<UnixStream, Error> {
        let stream = UnixStream::connect(&self.path).map_err(|e| Error::connect(&self.path, e))?;
        stream
            .set_write_timeout(Some(self.timeout))
            .map_err(Error::Io)?;
        Ok(stream)
    }
}

fn gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::WriteZero
    )
}
