//! ZeroMQ sockets with the options that Salt's peers expect
//! (reference `salt-protocol.md` 1.2).
//!
//! A context never crosses an `exec`; a socket stays in its thread.

use std::io;
use std::path::Path;
use std::time::Duration;

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
    pub fn apply(&self, socket: &zmq::Socket) -> zmq::Result<()> {
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
pub fn bind(socket: &zmq::Socket, url: &str) -> io::Result<()> {
    socket.bind(url).map_err(|e| cannot_bind(url, e))
}

/// Why an address cannot be bound, with a remedy.
pub(super) fn cannot_bind(url: &str, why: zmq::Error) -> io::Error {
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
pub fn bind_ipc(socket: &zmq::Socket, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    bind(socket, &ipc_url(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
}

/// Repeats a call that a signal has interrupted. libzmq gives up with `EINTR` whenever one arrives while it looks for
/// commands of its own threads, so that any call may end like that in a process that hears of its children.
///
/// # Errors
/// Those of the call, but for that one.
pub fn again<T>(mut call: impl FnMut() -> zmq::Result<T>) -> zmq::Result<T> {
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
pub fn send_parts<P: AsRef<[u8]>>(
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
pub fn send_moved(
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
pub fn recv_parts(socket: &zmq::Socket, flags: i32) -> zmq::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    loop {
        let part = again(|| socket.recv_msg(flags))?;
        parts.push(part.to_vec());
        if !part.get_more() {
            return Ok(parts);
        }
    }
}

/// A request client: one question, one answer, a fresh connection after each failure
/// (`salt/transport/zeromq.py AsyncReqMessageClient`).
pub struct Requester {
    context: zmq::Context,
    url: String,
    socket: Option<zmq::Socket>,
    keepalive: KeepAlive,
}

impl Requester {
    /// A client of `url`; it connects when first used.
    pub fn new(context: &zmq::Context, url: &str, keepalive: KeepAlive) -> Requester {
        Requester {
            context: context.clone(),
            url: url.to_owned(),
            socket: None,
            keepalive,
        }
    }

    /// Sends `body` and waits for the answer; `Ok(None)` when `timeout` passes first.
    pub fn ask(&mut self, body: &[u8], timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let answer = self.try_ask(body, timeout);
        if !matches!(answer, Ok(Some(_))) {
            // A REQ socket that waits for an answer can do nothing else: drop it.
            self.socket = None;
        }
        answer
    }

    fn try_ask(&mut self, body: &[u8], timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => again(|| self.connect())
                .map_err(|e| io::Error::other(format!("cannot connect to {}: {e}", self.url)))?,
        };
        again(|| socket.send(body, 0))?;
        let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let deadline = std::time::Instant::now() + timeout;
        let mut left = millis;
        loop {
            match socket.poll(zmq::POLLIN, left) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(zmq::Error::EINTR) => {
                    let rest = deadline.saturating_duration_since(std::time::Instant::now());
                    left = i64::try_from(rest.as_millis()).unwrap_or(i64::MAX);
                }
                Err(e) => return Err(e.into()),
            }
        }
        let answer = again(|| socket.recv_bytes(0))?;
        self.socket = Some(socket);
        Ok(Some(answer))
    }

    fn connect(&self) -> zmq::Result<zmq::Socket> {
        let socket = self.context.socket(zmq::REQ)?;
        socket.set_linger(0)?;
        socket.set_reconnect_ivl_max(5000)?;
        self.keepalive.apply(&socket)?;
        if self.url.starts_with("tcp://[") {
            socket.set_ipv6(true)?;
        }
        socket.connect(&self.url)?;
        Ok(socket)
    }
}
