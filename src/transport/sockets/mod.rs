//! libzmq: its context, sockets with the options that Salt's peers expect (reference `salt-protocol.md` 1.2), errors.
//!
//! No other crate names `zmq`: what they need of it has a type here. A context never crosses an `exec`; a socket stays in
//! its thread.

mod error;
mod local;
mod message;
mod request;
mod subscribe;

pub use error::Error;
pub use local::{Dealer, Pull, Push, PushOptions, Router};
pub use message::Message;
pub use request::{ReqOptions, ReqSocket, Requester};
pub use subscribe::{SubOptions, SubSocket};

use std::io;
use std::path::Path;
use std::time::Duration;

/// A result of libzmq.
pub type Result<T> = std::result::Result<T, Error>;

/// The version of libzmq, as `major.minor.patch`.
pub fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch}")
}

/// A context of libzmq: its threads, shared by all sockets that are made with it. A clone is the same context.
#[derive(Clone, Default)]
pub struct Context(zmq::Context);

impl Context {
    /// A new one. It starts no thread before its first socket.
    pub fn new() -> Context {
        Context::default()
    }

    pub(crate) fn socket(&self, kind: zmq::SocketType) -> zmq::Result<zmq::Socket> {
        self.0.socket(kind)
    }
}

/// TCP keepalive of a socket: `tcp_keepalive*` options; -1 leaves a value to the system.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// Whether it is on at all.
    pub on: bool,
    /// Seconds of silence before the first probe.
    pub idle: i32,
    /// Probes before the connection counts as dead.
    pub count: i32,
    /// Seconds between probes.
    pub interval: i32,
}

impl KeepAlive {
    /// Values of Salt's request server.
    pub const REQUEST_SERVER: KeepAlive = KeepAlive {
        on: true,
        idle: 60,
        count: 3,
        interval: 15,
    };

    /// Applies them.
    pub(crate) fn apply(&self, socket: &zmq::Socket) -> zmq::Result<()> {
        socket.set_tcp_keepalive(i32::from(self.on))?;
        socket.set_tcp_keepalive_idle(self.idle)?;
        socket.set_tcp_keepalive_cnt(self.count)?;
        socket.set_tcp_keepalive_intvl(self.interval)
    }
}

/// `ipc://` address of a socket file.
pub fn ipc_url(path: &Path) -> String {
    format!("ipc://{}", path.display())
}

/// `tcp://` address; IPv6 addresses get their brackets.
pub fn tcp_url(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("tcp://[{host}]:{port}")
    } else {
        format!("tcp://{host}:{port}")
    }
}

/// Binds with an error that names address and remedy.
pub(crate) fn bind(socket: &zmq::Socket, url: &str) -> io::Result<()> {
    socket.bind(url).map_err(|e| cannot_bind(url, e))
}

/// Why an address cannot be bound, with a remedy.
pub(crate) fn cannot_bind(url: &str, why: zmq::Error) -> io::Error {
    let remedy = match why {
        zmq::Error::EADDRINUSE => "another process uses it: stop that one or choose another port",
        zmq::Error::EADDRNOTAVAIL | zmq::Error::ENODEV => {
            "this host has no such address: check the option `interface`"
        }
        zmq::Error::EACCES => "this account may not use it",
        _ => "check address and permissions",
    };
    io::Error::new(
        io::Error::from(why).kind(),
        format!("cannot bind {url}: {why}; {remedy}"),
    )
}

/// Binds a socket file that only the account of this process may connect to.
pub(crate) fn bind_ipc(socket: &zmq::Socket, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    bind(socket, &ipc_url(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
}

/// Repeats a call that a signal has interrupted. libzmq gives up with `EINTR` whenever one arrives while it looks for
/// commands of its own threads, so that any call may end like that in a process that hears of its children.
///
/// # Errors
/// Those of the call, but for that one.
pub(crate) fn again<T>(mut call: impl FnMut() -> zmq::Result<T>) -> zmq::Result<T> {
    loop {
        match call() {
            Err(zmq::Error::EINTR) => {}
            other => return other,
        }
    }
}

/// Sends a message of several parts; signals do not divide it. With `SNDMORE` among the flags the last part is not the
/// last of the message.
///
/// # Errors
/// The socket takes nothing, now (`DONTWAIT`) or ever.
pub(crate) fn send_parts<P: AsRef<[u8]>>(
    socket: &zmq::Socket,
    parts: &[P],
    flags: i32,
) -> zmq::Result<()> {
    let last = parts.len().saturating_sub(1);
    for (at, part) in parts.iter().enumerate() {
        let more = if at < last { zmq::SNDMORE } else { 0 };
        again(|| socket.send(part.as_ref(), flags | more))?;
    }
    Ok(())
}

/// Sends the last or, with `SNDMORE`, another part of a message whose parts before it are sent. It is moved, not copied:
/// it may be a piece of a file. What a signal takes away cannot be repeated, but the message must go on or end; the part is
/// empty then.
///
/// # Errors
/// As for [`send_parts`].
pub(crate) fn send_moved(
    socket: &zmq::Socket,
    part: impl Into<zmq::Message>,
    flags: i32,
) -> zmq::Result<()> {
    match socket.send(part.into(), flags) {
        Err(zmq::Error::EINTR) => again(|| socket.send(b"".as_slice(), flags)),
        sent => sent,
    }
}

/// Receives all parts of a message; signals do not divide it.
///
/// # Errors
/// There is none (`EAGAIN` with `DONTWAIT`), or the socket is broken.
pub(crate) fn recv_parts(socket: &zmq::Socket, flags: i32) -> zmq::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    loop {
        let part = again(|| socket.recv_msg(flags))?;
        parts.push(part.to_vec());
        if !part.get_more() {
            return Ok(parts);
        }
    }
}

/// The same, as far as parts are there: `None` if there is no message.
///
/// # Errors
/// The socket is broken.
pub(crate) fn next_parts(socket: &zmq::Socket) -> Result<Option<Vec<Vec<u8>>>> {
    match recv_parts(socket, zmq::DONTWAIT) {
        Ok(parts) => Ok(Some(parts)),
        Err(zmq::Error::EAGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The next message with its parts as libzmq has them, if there is one. Of its parts, one more than `most` at most: the
/// rest is read and dropped.
///
/// # Errors
/// The socket is broken.
pub(crate) fn next_messages(socket: &zmq::Socket, most: usize) -> Result<Option<Vec<Message>>> {
    let mut parts = Vec::with_capacity(5);
    loop {
        let flags = if parts.is_empty() { zmq::DONTWAIT } else { 0 };
        match again(|| socket.recv_msg(flags)) {
            Ok(part) => {
                let more = part.get_more();
                if parts.len() <= most {
                    parts.push(Message::from(part));
                }
                if !more {
                    return Ok(Some(parts));
                }
            }
            Err(zmq::Error::EAGAIN) if parts.is_empty() => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Milliseconds for a socket option; what is too long is as long as can be.
fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
