//! Pages for a few readers (metrics, statistics): one thread, and one request per connection.
//!
//! Anybody who can connect may ask, so everything that one can hold is limited: the number of connections (the
//! oldest is closed for a new one), the size of a request, and the time until its reply has been read.

use crate::acceptor::{PAUSE, next};
use halite_sys::log_limiter::LogLimiter;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Most connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// Most bytes of a request.
const MOST_HEAD: usize = 8 << 10;
/// How long a connection may last.
const PATIENCE: Duration = Duration::from_secs(10);

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Status code: 200, 404 or 503.
    pub status: u16,
    /// Its content type.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
}

/// A server for `GET` and `HEAD`.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    /// The oldest first.
    open: VecDeque<Connection>,
    closed_until: Option<Instant>,
    shortage: LogLimiter,
}

impl HttpServer {
    /// A server on a socket that listens.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(listener: TcpListener) -> io::Result<HttpServer> {
        listener.set_nonblocking(true)?;
        Ok(HttpServer {
            listener,
            open: VecDeque::new(),
            closed_until: None,
            shortage: LogLimiter::default(),
        })
    }

    /// Its address.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits at most for `wait` and serves who is there. `page` returns the page at a path, for any path.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn turn(&mut self, wait: Duration, page: &dyn Fn(&str) -> Page) -> io::Result<()> {
        self.wait(wait)?;
        let now = Instant::now();
        self.accept(now);
        self.serve(now, page);
        Ok(())
    }

    fn wait(&self, wait: Duration) -> io::Result<()> {
        let mut fds = Vec::with_capacity(self.open.len() + 1);
        for connection in &self.open {
            let flags = match connection.reply {
                Some(_) => PollFlags::POLLOUT,
                None => PollFlags::POLLIN,
            };
            fds.push(PollFd::new(connection.stream.as_fd(), flags));
        }
        if self.closed_until.is_none() {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let due = self.open.front().map(|oldest| oldest.deadline);
        let due = due.into_iter().chain(self.closed_until).min();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let millis = left.map_or(wait, |left| left.min(wait)).as_millis() + 1;
        let millis = u16::try_from(millis).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.closed_until.is_some_and(|until| now < until) {
            return;
        }
        self.closed_until = None;
        let mut tries = MOST_CONNECTIONS;
        let accept = |listener: &TcpListener| {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        loop {
            match next(&self.listener, &mut tries, accept) {
                Ok(Some(stream)) => self.open.push_back(Connection {
                    stream,
                    request: Vec::new(),
                    reply: None,
                    deadline: now + PATIENCE,
                }),
                Ok(None) => break,
                Err(e) => {
                    self.closed_until = Some(now + PAUSE);
                    if let Some(times) = self.shortage.tick(now) {
                        log::warn!(
                            "connections could not be accepted ({times} times since the last such line): {e}"
                        );
                    }
                    break;
                }
            }
        }
        let surplus = self.open.len().saturating_sub(MOST_CONNECTIONS);
        self.open.drain(..surplus);
    }

    fn serve(&mut self, now: Instant, page: &dyn Fn(&str) -> Page) {
        self.open.retain_mut(|connection| {
            now < connection.deadline && matches!(connection.go_on(page), Ok(true))
        });
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// What is left of the reply.
    reply: Option<Vec<u8>>,
    deadline: Instant,
}

impl Connection {
    /// Reads and writes what is possible now; `false` when it is finished.
    fn go_on(&mut self, page: &dyn Fn(&str) -> Page) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        let mut rest = loop {
            if let Some(reply) = self.reply.take() {
                break reply;
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(n) => self.request.extend_from_slice(&bytes[..n]),
                Err(e) => return waits(&e),
            }
            self.reply = reply(&self.request, page);
        };
        while !rest.is_empty() {
            match self.stream.write(&rest) {
                Ok(0) => return Ok(false),
                Ok(n) => drop(rest.drain(..n)),
                Err(e) => {
                    self.reply = Some(rest);
                    return waits(&e);
                }
            }
        }
        self.stream.shutdown(Shutdown::Both)?;
        Ok(false)
    }
}

/// Whether a connection is to be tried again later.
fn waits(e: &io::Error) -> io::Result<bool> {
    let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
    Ok(kinds.contains(&e.kind()))
}

/// The reply to a request; `None` if it is not complete.
fn reply(request: &[u8], page: &dyn Fn(&str) -> Page) -> Option<Vec<u8>> {
    let is_complete = request.ends_with(b"\r\n\r\n") || request.ends_with(b"\n\n");
    if !is_complete && request.len() < MOST_HEAD {
        return None;
    }
    let line = request.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let plain = |status, text: &str| Page {
        status,
        kind: "text/plain",
        text: text.to_owned(),
    };
    let (page, with_text) = match words[..] {
        _ if !is_complete => (plain(431, "the request is too long\n"), true),
        [method @ ("GET" | "HEAD"), target, version] if version.starts_with("HTTP/1.") => {
            let path = target.split('?').next().unwrap_or_default();
            (page(path), method == "GET")
        }
        [_, _, version] if version.starts_with("HTTP/1.") => {
            (plain(405, "there are GET and HEAD\n"), true)
        }
        _ => (plain(400, "this is not HTTP/1\n"), true),
    };
    let reason = match page.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let version = if words.last() == Some(&"HTTP/1.1") {
        "HTTP/1.1"
    } else {
        "HTTP/1.0"
    };
    let head = format!(
        "{version} {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.status,
        page.kind,
        page.text.len()
    );
    let text = if with_text { page.text.as_str() } else { "" };
    Some([head.as_bytes(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn page(path: &str) -> Page {
        let known = path == "/known";
        Page {
            status: if known { 200 } else { 404 },
            kind: "text/plain",
            text: "text".repeat(if known { 1 } else { 2 }),
        }
    }

    fn server() -> HttpServer {
        HttpServer::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap()
    }

    fn client(server: &HttpServer) -> TcpStream {
        let stream = TcpStream::connect(server.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// What a client gets for a request.
    fn told(server: &mut HttpServer, request: &[u8]) -> String {
        let mut stream = client(server);
        stream.write_all(request).unwrap();
        server.turn(SOON, &page).unwrap();
        while !server.open.is_empty() {
            server.turn(SOON, &page).unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_and_replies() {
        let mut server = server();
        let head = |version: &str| {
            format!(
                "{version} 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
            )
        };
        for (request, reply) in [
            (
                "GET /known HTTP/1.1\r\nHost: x\r\n\r\n",
                head("HTTP/1.1") + "text",
            ),
            ("GET /known?a=b HTTP/1.0\n\n", head("HTTP/1.0") + "text"),
            ("HEAD /known HTTP/1.1\r\n\r\n", head("HTTP/1.1")),
        ] {
            assert_eq!(told(&mut server, request.as_bytes()), reply, "{request}");
        }
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", 404),
            ("POST /known HTTP/1.1\r\n\r\n", 405),
            ("GET /known\r\n\r\n", 400),
            ("\r\n\r\n", 400),
        ] {
            let reply = told(&mut server, request.as_bytes());
            assert!(reply.contains(&format!(" {status} ")), "{reply}");
        }
        let long = told(&mut server, &[b'x'; MOST_HEAD]);
        assert!(long.starts_with("HTTP/1.0 431 "), "{long}");
    }

    #[test]
    fn silent_connections_are_closed_for_new_ones_and_in_time() {
        let mut server = server();
        let mut silent: Vec<TcpStream> = (0..MOST_CONNECTIONS + 10)
            .map(|_| {
                let stream = client(&server);
                server.turn(SOON, &page).unwrap();
                stream
            })
            .collect();
        assert_eq!(server.open.len(), MOST_CONNECTIONS);
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
        let mut stream = client(&server);
        write!(stream, "GET /known HTTP/1.1\r\n\r\n").unwrap();
        server.turn(SOON, &page).unwrap();
        while server.open.len() == MOST_CONNECTIONS {
            server.turn(SOON, &page).unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("text"), "{text}");
        server.serve(Instant::now() + PATIENCE, &page);
        assert!(server.open.is_empty());
    }
}
