//! The client of a master's request port, as a minion uses it: interrupted when the process must stop, and when new keys make
//! waiting for the reply pointless.

use super::interrupt::{Stop, Waker};
use halite_config::MinionConfig;
use halite_transport::requester::{self, Exchange, Interrupts, RequesterOptions};
use halite_transport::sockets::KeepAlive;
use halite_transport::tls::{ClientTls, Trust};
use std::io;
use std::time::Duration;

/// The result of a request.
#[derive(Debug, PartialEq)]
pub enum RequestResult {
    /// The reply.
    Bytes(Vec<u8>),
    /// No reply in time.
    Silence,
    /// The connection was lost after the request had been sent.
    Lost,
    /// A [`Waker`] interrupted the wait.
    Interrupted,
    /// The process must stop.
    Stopped,
}

/// A client of one master's request port.
pub struct Requester(requester::Requester);

impl Requester {
    /// A client of `url`; it connects when first used.
    pub fn new(config: &MinionConfig, url: &str) -> Requester {
        let options = RequesterOptions {
            transport: config.transport,
            tls: tls(config),
            keepalive: keepalive(config),
            ipv6: config.ipv6 == Some(true),
            connects_for: Duration::MAX,
        };
        Requester(requester::Requester::new(url, options))
    }

    /// Switches to another master.
    pub fn set_url(&mut self, url: &str) {
        self.0.set_url(url);
    }

    /// Closes the connection; the next request opens a new one.
    pub fn close(&mut self) {
        self.0.close();
    }

    /// Sends `body` and waits for the reply.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn request(
        &mut self,
        body: &[u8],
        timeout: Duration,
        stop: &Stop,
        wake: Option<&Waker>,
    ) -> io::Result<RequestResult> {
        let sources: Vec<_> = [Some(stop.source()), wake.map(Waker::source)]
            .into_iter()
            .flatten()
            .collect();
        let mut check = || match wake {
            _ if stop.is_set() => Some(RequestResult::Stopped),
            Some(wake) if wake.take() => Some(RequestResult::Interrupted),
            _ => None,
        };
        let mut interrupts = Interrupts {
            sources: &sources,
            check: &mut check,
        };
        Ok(match self.0.exchange(body, timeout, &mut interrupts)? {
            Exchange::Reply(bytes) => RequestResult::Bytes(bytes),
            Exchange::Silence => RequestResult::Silence,
            Exchange::Lost => RequestResult::Lost,
            Exchange::Interrupted(result) => result,
        })
    }
}

/// TLS of a minion's connections to its master.
pub fn tls(config: &MinionConfig) -> Option<ClientTls> {
    Some(ClientTls {
        options: config.tls()?.clone(),
        trust: Trust::Host,
    })
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
    use halite_transport::front::{Received, RequestFront, RequestOptions, RequestServer, Zmtp};
    use halite_transport::poll::Poller;
    use halite_transport::sockets::tcp_url;
    use std::sync::Arc;

    /// A minion gets a signal whenever one of its jobs ends, which must not interrupt a request.
    #[test]
    fn signals_do_not_end_a_question() {
        use nix::sys::pthread::{pthread_kill, pthread_self};
        use nix::sys::signal::Signal;
        use std::sync::atomic::{AtomicBool, Ordering};

        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::default()).unwrap();
        let options = RequestOptions {
            backlog: 10,
            max_message: 1000,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 10,
            heartbeat: Duration::from_secs(3600),
            stalled: Duration::from_secs(3600),
        };
        let mut server = RequestServer::<Zmtp>::bind("127.0.0.1", 0, &options).unwrap();
        let url = tcp_url("127.0.0.1", server.address().unwrap().port());
        let config = MinionConfig::from_map(Default::default(), std::path::Path::new("/")).unwrap();
        let mut requester = Requester::new(&config, &url);
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
            let ended = (0..4000).find_map(|_| {
                let answer = requester.request(b"question", Duration::from_secs(60), &stop, None);
                answer.is_err().then_some(answer)
            });
            done.store(true, Ordering::Relaxed);
            assert!(ended.is_none(), "{ended:?}");
        });
    }
}
