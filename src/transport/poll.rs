//! Waiting for descriptors and libzmq sockets at once.
//!
//! A descriptor is level-triggered: it is readable as long as there is something to read. The descriptor of a libzmq
//! socket is edge-triggered: it signals a change, and then the state of the socket must be read (`ZMQ_EVENTS`). [`Poller`]
//! does so, so that a socket, too, is readable as long as a message waits, and a loop may read some and poll again.

use crate::sockets::Result;
use std::os::fd::RawFd;
use std::time::Duration;

/// Something a [`Poller`] can wait for.
#[derive(Clone, Copy)]
pub struct Source<'a>(Inner<'a>);

#[derive(Clone, Copy)]
enum Inner<'a> {
    Fd(RawFd),
    WritableFd(RawFd),
    Socket(&'a zmq::Socket),
}

impl<'a> Source<'a> {
    /// A level-triggered descriptor. It must stay open until the wait is over.
    pub fn fd(fd: RawFd) -> Source<'a> {
        Source(Inner::Fd(fd))
    }

    /// A descriptor that is ready when it is readable, writable or broken.
    pub fn writable_fd(fd: RawFd) -> Source<'a> {
        Source(Inner::WritableFd(fd))
    }

    pub(crate) fn socket(socket: &'a zmq::Socket) -> Source<'a> {
        Source(Inner::Socket(socket))
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// A source is readable.
    Ready,
    /// No source became readable in time.
    TimedOut,
    /// A signal interrupted the wait; no source was checked.
    Interrupted,
}

/// Waits until one of several sources is readable. Use each for one wait: add sources, wait, check them.
#[derive(Default)]
pub struct Poller<'a> {
    items: Vec<zmq::PollItem<'a>>,
}

impl<'a> Poller<'a> {
    /// A poller without sources.
    pub fn new() -> Poller<'a> {
        Poller {
            items: Vec::with_capacity(4),
        }
    }

    /// Adds a source and returns its index, for [`Poller::is_readable`].
    pub fn add(&mut self, source: Source<'a>) -> usize {
        self.items.push(match source.0 {
            Inner::Fd(fd) => zmq::PollItem::from_fd(fd, zmq::POLLIN),
            Inner::WritableFd(fd) => zmq::PollItem::from_fd(fd, zmq::POLLIN | zmq::POLLOUT),
            Inner::Socket(socket) => socket.as_poll_item(zmq::POLLIN),
        });
        self.items.len() - 1
    }

    /// Waits up to `limit`, in whole milliseconds, or without limit.
    ///
    /// # Errors
    /// A socket failed.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Polled> {
        let millis = limit.map_or(-1, |limit| {
            i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)
        });
        match zmq::poll(&mut self.items, millis) {
            Ok(0) => Ok(Polled::TimedOut),
            Ok(_) => Ok(Polled::Ready),
            Err(zmq::Error::EINTR) => Ok(Polled::Interrupted),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the source with that index was readable when the last wait ended.
    pub fn is_readable(&self, place: usize) -> bool {
        self.items
            .get(place)
            .is_some_and(zmq::PollItem::is_readable)
    }

    /// Whether the source with that index was readable, writable or broken when the last wait ended.
    pub fn is_ready(&self, place: usize) -> bool {
        let ready = |item: &zmq::PollItem<'_>| !item.get_revents().is_empty();
        self.items.get(place).is_some_and(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::{Context, Pull, Push, PushOptions};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_source_is_readable_until_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let (context, path) = (Context::new(), dir.path().join("pull.ipc"));
        let pull = Pull::new(&context).unwrap();
        pull.bind_ipc(&path).unwrap();
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let readable = |limit| {
            let mut poller = Poller::new();
            let places = [
                poller.add(pull.source()),
                poller.add(Source::fd(reader.as_raw_fd())),
            ];
            let polled = poller.wait(Some(Duration::from_millis(limit))).unwrap();
            (polled, places.map(|place| poller.is_readable(place)))
        };
        assert_eq!(readable(10), (Polled::TimedOut, [false, false]));
        let push = Push::connect(&context, &path, PushOptions::default()).unwrap();
        for message in [b"one", b"two"] {
            push.send(&[message]).unwrap();
        }
        // After one message is received the other still waits, without a new edge.
        for message in [b"one", b"two"] {
            assert_eq!(readable(60_000), (Polled::Ready, [true, false]));
            assert_eq!(pull.receive().unwrap(), Some(vec![message.to_vec()]));
        }
        assert_eq!(pull.receive().unwrap(), None);
        writer.write_all(b"x").unwrap();
        assert_eq!(readable(60_000), (Polled::Ready, [false, true]));
    }
}
