//! libzmq: its context, errors, and sockets with the options that Salt's peers expect (reference `salt-protocol.md` 1.2).
//!
//! No other crate uses `zmq`: this module wraps all they need. A context does not survive `exec`; a socket stays in its
//! thread.

mod error;
mod local;
mod message;
mod subscribe;

pub use error::Error;
pub use local::{Dealer, Pull, Push, PushOptions, Router};
pub use message::Message;
pub use subscribe::{SubOptions, SubSocket};

use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A result of libzmq.
pub type Result<T> = std::result::Result<T, Error>;

/// The version of libzmq, as `major.minor.patch`.
pub fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch}")
}

/// A context of libzmq: its threads, shared by all sockets created with it. A clone is the same context.
#[derive(Clone, Default)]
pub struct Context(zmq::Context);

impl Context {
    /// Creates a context. It starts no thread before its first socket.
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

    /// Sets the options on a TCP socket. Values that are not positive are left to the system.
    ///
    /// # Errors
    /// A value is invalid.
    pub(crate) fn apply_to(&self, socket: &impl AsFd) -> nix::Result<()> {
        setsockopt(socket, sockopt::KeepAlive, &self.on)?;
        let given = |value: i32| u32::try_from(value).ok().filter(|value| *value > 0);
        if let Some(idle) = given(self.idle) {
            setsockopt(socket, sockopt::TcpKeepIdle, &idle)?;
        }
        if let Some(count) = given(self.count) {
            setsockopt(socket, sockopt::TcpKeepCount, &count)?;
        }
        if let Some(interval) = given(self.interval) {
            setsockopt(socket, sockopt::TcpKeepInterval, &interval)?;
        }
        Ok(())
    }

    /// Sets the options on a socket of libzmq.
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

/// `tcp://` address; IPv6 addresses get brackets.
pub fn tcp_url(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("tcp://[{host}]:{port}")
    } else {
        format!("tcp://{host}:{port}")
    }
}

/// Binds; an error names the address and a remedy.
pub(crate) fn bind(socket: &zmq::Socket, url: &str) -> io::Result<()> {
    socket.bind(url).map_err(|e| cannot_bind(url, e))
}

/// The error for an address that cannot be bound, with a remedy.
pub(crate) fn cannot_bind(url: &str, why: zmq::Error) -> io::Error {
    let remedy = match why {
        zmq::Error::EADDRINUSE => "another process uses it: stop that one or choose another port",
        zmq::Error::EADDRNOTAVAIL | zmq::Error::ENODEV => {
            "this host has no such address: check the option `interface`"
        }
        zmq::Error::EACCES => "this user may not use it",
        _ => "check address and permissions",
    };
    io::Error::new(
        io::Error::from(why).kind(),
        format!("cannot bind {url}: {why}; {remedy}"),
    )
}

/// Binds a socket file that only the user of this process may connect to.
pub(crate) fn bind_ipc(socket: &zmq::Socket, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    bind(socket, &ipc_url(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
}

/// Repeats a call interrupted by a signal. libzmq fails with `EINTR` if a signal arrives while it checks for commands of
/// its own threads, so any call may do so in a process that handles SIGCHLD.
///
/// # Errors
/// Those of the call, except `EINTR`.
pub(crate) fn again<T>(mut call: impl FnMut() -> zmq::Result<T>) -> zmq::Result<T> {
    loop {
        match call() {
            Err(zmq::Error::EINTR) => {}
            other => return other,
        }
    }
}

/// Sends a message of several parts; signals do not split it. With `SNDMORE` among the flags, more parts may follow the
/// last one.
///
/// # Errors
/// The socket accepts nothing, now (`DONTWAIT`) or ever.
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

/// Sends the last part, or with `SNDMORE` another part, of a message whose earlier parts are sent. It is moved, not copied,
/// as it may be a large chunk of a file. If a signal interrupts the call the part is lost; since the message must continue
/// or end, an empty part is sent instead.
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

/// Receives all parts of a message; signals do not split it.
///
/// # Errors
/// There is none (`EAGAIN` with `DONTWAIT`), or the socket failed.
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

/// Receives all parts of a message without blocking; `None` if there is none.
///
/// # Errors
/// The socket failed.
pub(crate) fn next_parts(socket: &zmq::Socket) -> Result<Option<Vec<Vec<u8>>>> {
    match recv_parts(socket, zmq::DONTWAIT) {
        Ok(parts) => Ok(Some(parts)),
        Err(zmq::Error::EAGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The next message, if there is one, with its parts uncopied. At most `most` + 1 parts are returned; the rest are
/// dropped.
///
/// # Errors
/// The socket failed.
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

/// An `inproc` address for a monitor; names must be unique within a context.
fn monitor_address() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("inproc://monitor-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A socket with the events of the connections of another one (`zmq_socket_monitor(3)`); `events` is a mask.
pub(crate) fn monitor(context: &Context, of: &zmq::Socket, events: i32) -> Result<zmq::Socket> {
    let address = monitor_address();
    again(|| of.monitor(&address, events))?;
    let socket = context.socket(zmq::PAIR)?;
    // With a limit, libzmq's thread would wait for us.
    socket.set_rcvhwm(0)?;
    again(|| socket.connect(&address))?;
    Ok(socket)
}

/// Milliseconds for a socket option; saturates.
pub(crate) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
