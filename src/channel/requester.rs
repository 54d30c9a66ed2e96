//! The client of a master's request port: one request, one reply, a new connection after each failure
//! (`salt/transport/zeromq.py AsyncReqMessageClient`).
//!
//! Unlike [that of `transport`](halite_transport::sockets::Requester) it can be interrupted: when the process must stop, and
//! when new keys make waiting for the reply pointless. To add a transport, add a variant of `Connection`.

use super::interrupt::{Stop, Waker};
use halite_config::MinionConfig;
use halite_transport::poll::{Polled, Poller, Source};
use halite_transport::sockets::{Context, KeepAlive, ReqOptions, ReqSocket};
use std::io;
use std::time::{Duration, Instant};

/// Largest reply, in bytes; the socket refuses larger ones (`max_request_size` of any master is far below).
const MAX_ANSWER: i64 = 512 << 20;

/// The result of a request.
#[derive(Debug, PartialEq)]
pub enum RequestResult {
    /// The reply.
    Bytes(Vec<u8>),
    /// No reply in time.
    Silence,
    /// A [`Waker`] interrupted the wait.
    Interrupted,
    /// The process must stop.
    Stopped,
}

/// A connection to a request port, over one of the transports. It cannot be used for anything else while a reply is due.
enum Connection {
    /// A REQ socket of libzmq.
    ZeroMq(ReqSocket),
}

impl Connection {
    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        match self {
            Connection::ZeroMq(socket) => Ok(socket.send(body)?),
        }
    }

    /// Readable when [`Connection::receive`] would find something.
    fn source(&self) -> Source<'_> {
        match self {
            Connection::ZeroMq(socket) => socket.source(),
        }
    }

    /// The reply, after the source became readable; `None` if it is not complete yet.
    fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Connection::ZeroMq(socket) => Ok(Some(socket.receive()?)),
        }
    }
}

/// A client of one master's request port.
pub struct Requester {
    context: Context,
    url: String,
    ipv6: bool,
    keepalive: KeepAlive,
    connection: Option<Connection>,
}

impl Requester {
    /// A client of `url`; it connects when first used.
    pub fn new(context: &Context, config: &MinionConfig, url: &str) -> Requester {
        Requester {
            context: context.clone(),
            url: url.to_owned(),
            ipv6: config.ipv6 == Some(true) || url.starts_with("tcp://["),
            keepalive: keepalive(config),
            connection: None,
        }
    }

    /// Switches to another master.
    pub fn set_url(&mut self, url: &str) {
        if self.url != url {
            self.url = url.to_owned();
            self.ipv6 |= url.starts_with("tcp://[");
            self.connection = None;
        }
    }

    /// Closes the connection; the next request opens a new one.
    pub fn close(&mut self) {
        self.connection = None;
    }

    /// Sends `body` and waits for the reply.
    ///
    /// # Errors
    /// The address is invalid, or no sockets are left.
    pub fn request(
        &mut self,
        body: &[u8],
        timeout: Duration,
        stop: &Stop,
        wake: Option<&Waker>,
    ) -> io::Result<RequestResult> {
        // The connection is kept only if the reply arrives.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        connection.send(body)?;
        let end = Instant::now() + timeout;
        loop {
            if stop.is_set() {
                return Ok(RequestResult::Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            let mut poller = Poller::new();
            let answer = poller.add(connection.source());
            poller.add(stop.source());
            if let Some(wake) = wake {
                poller.add(wake.source());
            }
            match poller.wait(Some(left))? {
                Polled::TimedOut => return Ok(RequestResult::Silence),
                Polled::Interrupted => continue,
                Polled::Ready => {}
            }
            if poller.is_readable(answer) {
                let Some(bytes) = connection.receive()? else {
                    continue;
                };
                self.connection = Some(connection);
                return Ok(RequestResult::Bytes(bytes));
            }
            if wake.is_some_and(Waker::take) {
                return Ok(RequestResult::Interrupted);
            }
        }
    }

    fn connect(&self) -> io::Result<Connection> {
        let options = ReqOptions {
            keepalive: self.keepalive,
            ipv6: self.ipv6,
            max_answer: Some(MAX_ANSWER),
        };
        ReqSocket::connect(&self.context, &self.url, &options)
            .map(Connection::ZeroMq)
            .map_err(|e| {
                io::Error::other(format!(
                    "cannot connect to {}: {e}; see the option `master`",
                    self.url
                ))
            })
    }
}

/// The `tcp_keepalive*` options of a minion.
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
    use halite_transport::front::{Received, RequestFront, ZeroMqFront, ZeroMqOptions};
    use halite_transport::sockets::ipc_url;
    use std::sync::Arc;

    /// A minion gets a signal whenever one of its jobs ends, which must not interrupt a request.
    #[test]
    fn signals_do_not_end_a_question() {
        use nix::sys::pthread::{pthread_kill, pthread_self};
        use nix::sys::signal::Signal;
        use std::sync::atomic::{AtomicBool, Ordering};

        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let url = ipc_url(&dir.path().join("requests.ipc"));
        let context = Context::new();
        let options = ZeroMqOptions {
            backlog: 10,
            max_message: 1000,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 10,
            heartbeat: Duration::from_secs(3600),
        };
        let mut server = ZeroMqFront::new(&context, &options).unwrap();
        server.bind(&url).unwrap();
        let config = MinionConfig::from_map(Default::default(), std::path::Path::new("/")).unwrap();
        let mut requester = Requester::new(&context, &config, &url);
        let stop = Stop::never().unwrap();
        let done = &AtomicBool::new(false);
        let asking = pthread_self();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let mut poller = Poller::new();
                    poller.add(server.source());
                    poller.wait(Some(Duration::from_millis(50))).unwrap();
                    if let Received::Request(request) = server.receive().unwrap() {
                        let answer = b"answer".to_vec().into();
                        server.answer(&request.from, answer).unwrap();
                    }
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    pthread_kill(asking, Signal::SIGUSR2).unwrap();
                }
            });
            let ended = (0..40_000).find_map(|_| {
                let answer = requester.request(b"question", Duration::from_secs(60), &stop, None);
                answer.is_err().then_some(answer)
            });
            done.store(true, Ordering::Relaxed);
            assert!(ended.is_none(), "{ended:?}");
        });
    }
}
