//! The connection for publications. To add a transport, add a variant of [`Subscriber`].

use super::credentials::Credentials;
use super::interrupt::Stop;
use super::request;
use super::requester::{keepalive, tls};
use super::session::{Session, chance};
use halite_config::MinionConfig;
use halite_crypto::Crypticle;
use halite_sys::exit::ExitError;
use halite_transport::client::Server;
use halite_transport::poll::{Poller, Source};
use halite_transport::sockets::{Context, SubOptions, SubSocket};
use halite_transport::stream::{resolve, split};
use halite_transport::subscription::Subscription;
use halite_wire::Transport;
use halite_wire::topics::{BROADCAST, SYNDIC, of_minion, private};
use std::io;
use std::time::{Duration, Instant};

/// Largest publication, in bytes.
const MAX_PUBLICATION: i64 = 256 << 20;

/// How long to wait for a new connection for publications.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a publish port, over one of the transports.
pub enum Subscriber {
    /// A SUB socket of libzmq. It reconnects by itself.
    ZeroMq(SubSocket),
    /// `transport: tcp` or `ws`; `Err` if there is no address to connect to. It does not reconnect: the keys under which
    /// it says who it is may be outdated, so a new sign-in comes first.
    Framed(io::Result<Box<Subscription>>),
}

impl Subscriber {
    /// Ready when [`Subscriber::receive`] has something to do; `None` after a connection was lost. For
    /// [`Poller`].
    pub fn source(&self) -> Option<Source<'_>> {
        match self {
            Subscriber::ZeroMq(socket) => Some(socket.source()),
            Subscriber::Framed(Ok(open)) => Some(open.source()),
            Subscriber::Framed(Err(_)) => None,
        }
    }

    /// Whether [`Subscriber::receive`] would return something although its source is not ready.
    pub fn has_waiting(&self) -> bool {
        match self {
            Subscriber::ZeroMq(_) => false,
            Subscriber::Framed(open) => open.as_ref().is_ok_and(|open| open.has_waiting()),
        }
    }

    /// The next publication in its frames, if there is one.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&mut self) -> Result<Option<Vec<Vec<u8>>>, ExitError> {
        match self {
            Subscriber::ZeroMq(socket) => Ok(socket.receive()?),
            Subscriber::Framed(Ok(open)) => Ok(open.receive().map(|message| vec![message])),
            Subscriber::Framed(Err(_)) => Ok(None),
        }
    }

    /// Why the connection is lost; then another must be made.
    pub fn lost(&self) -> Option<&io::Error> {
        match self {
            Subscriber::ZeroMq(_) => None,
            Subscriber::Framed(Ok(open)) => open.lost(),
            Subscriber::Framed(Err(why)) => Some(why),
        }
    }
}

/// Connects to the publications at the address in `credentials`, with Salt's socket options (reference
/// `salt-protocol.md` 1.2). With `wait_until` it waits until the handshake is complete or the process must stop: once we
/// report ready, no job may be missed. If the master does not accept the connection in time, that is not an error; it is
/// established later.
///
/// # Errors
/// The address is invalid, or no sockets are left.
pub fn subscribe(
    session: &Session,
    context: &Context,
    credentials: &Credentials,
    syndic: bool,
    wait_until: Option<&Stop>,
) -> Result<Subscriber, ExitError> {
    let (config, url) = (session.config(), credentials.publish_url.as_str());
    let cannot = |e| ExitError::new(1, format!("cannot connect to {url}: {e}"));
    let (subscriber, connected) = match config.transport {
        Transport::ZeroMq => {
            let socket = SubSocket::new(context, &options(config, url, syndic)).map_err(cannot)?;
            let connected = match wait_until {
                None => socket.connect(url).map(|()| true),
                Some(stop) => {
                    socket.connect_and_wait(context, url, PATIENCE, stop.source(), || stop.is_set())
                }
            };
            (Subscriber::ZeroMq(socket), connected.map_err(cannot)?)
        }
        Transport::Tcp | Transport::Ws => {
            let terms = session.sign_in_config();
            let key = Crypticle::new(&credentials.aes);
            let claim = request::claim(&terms.id, terms.tok(), &key);
            match connect(config, url, &claim, wait_until) {
                Ok((open, connected)) => (Subscriber::Framed(Ok(Box::new(open))), connected),
                Err(e) => (Subscriber::Framed(Err(e)), false),
            }
        }
    };
    let waited = wait_until.is_some_and(|stop| !stop.is_set());
    match subscriber.lost() {
        Some(why) if waited => log::warn!(
            "no connection to {url}: {why}; no jobs can be received. Is the port of the option publish_port open on the master and in firewalls? The minion will keep trying"
        ),
        None if waited && !connected => log::warn!(
            "no connection to {url} after {} s: no jobs can be received. Is the port of the option publish_port open on the master and in firewalls? The minion will keep trying",
            PATIENCE.as_secs()
        ),
        _ => log::debug!("receiving publications from {url}"),
    }
    Ok(subscriber)
}

/// Connects to the first address of the host in `url` that accepts, and returns whether it has within [`PATIENCE`]. Without
/// `wait_until` only the first is tried.
fn connect(
    config: &MinionConfig,
    url: &str,
    claim: &[u8],
    wait_until: Option<&Stop>,
) -> io::Result<(Subscription, bool)> {
    let (host, port) = split(url, 0)?;
    let addresses = resolve(host, port, config.ipv6 == Some(true))?;
    let tls = tls(config);
    let end = Instant::now() + PATIENCE;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (n, address) in (1u32..).zip(&addresses) {
        let server = Server {
            transport: config.transport,
            address: *address,
            host,
            keepalive: keepalive(config),
            tls: tls.as_ref(),
        };
        let mut open = match Subscription::open(&server, claim) {
            Ok(open) => open,
            Err(e) => {
                last = e;
                continue;
            }
        };
        let Some(stop) = wait_until else {
            return Ok((open, false));
        };
        let left = end.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() as u32 + 1).saturating_sub(n).max(1);
        let until = Instant::now() + share;
        while !open.is_ready() && !open.has_waiting() && open.lost().is_none() && !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut poller = Poller::new();
            poller.add(open.source());
            poller.add(stop.source());
            poller.wait(Some(left + Duration::from_millis(1)))?;
            open.advance();
        }
        match open.lost() {
            Some(e) => last = io::Error::new(e.kind(), e.to_string()),
            None if open.is_ready() => return Ok((open, true)),
            None if n as usize == addresses.len() || stop.is_set() => return Ok((open, false)),
            None => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

fn options(config: &MinionConfig, url: &str, syndic: bool) -> SubOptions {
    let wait = if config.recon_randomize {
        config.recon_default as f64 + config.recon_max as f64 * chance()
    } else {
        config.recon_default as f64
    };
    let topics: Vec<Vec<u8>> = if config.zmq_filtering {
        let syndic = syndic.then(|| SYNDIC.as_bytes().to_vec());
        [BROADCAST.as_bytes().to_vec(), of_minion(&config.id).into()]
            .into_iter()
            .chain(syndic)
            .collect()
    } else {
        vec![Vec::new()]
    };
    // What a halite master sends to us alone.
    let private = (config.handshake != "salt").then(|| private(&config.id).into_bytes());
    let topics = topics.into_iter().chain(private).collect();
    SubOptions {
        identity: config.id.as_bytes().to_vec(),
        max_message: MAX_PUBLICATION,
        reconnect: Duration::from_millis(wait as u64),
        reconnect_max: Duration::from_millis(config.recon_max),
        ipv6: config.ipv6 == Some(true) || url.starts_with("tcp://["),
        heartbeat: (config.zmq_heartbeat_ivl > 0).then(|| {
            (
                config.zmq_heartbeat_ivl,
                config.zmq_heartbeat_timeout.max(1),
            )
        }),
        keepalive: keepalive(config),
        topics,
    }
}
