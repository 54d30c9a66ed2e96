//! The connection for publications. To add a transport, add a variant of [`Subscriber`].

use super::interrupt::Stop;
use super::publication::{BROADCAST, SYNDIC, topic};
use super::requester::keepalive;
use super::session::chance;
use halite_config::MinionConfig;
use halite_sys::exit::ExitError;
use halite_transport::poll::Source;
use halite_transport::sockets::{Context, SubOptions, SubSocket};
use std::time::Duration;

/// Largest publication, in bytes.
const MAX_PUBLICATION: i64 = 256 << 20;

/// How long to wait for a new connection for publications.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a publish port, over one of the transports. It reconnects by itself.
pub enum Subscriber {
    /// A SUB socket of libzmq.
    ZeroMq(SubSocket),
}

impl Subscriber {
    /// Readable as long as [`Subscriber::receive`] would find something; for
    /// [`Poller`](halite_transport::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        match self {
            Subscriber::ZeroMq(socket) => socket.source(),
        }
    }

    /// The next publication in its frames, if there is one.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>, ExitError> {
        match self {
            Subscriber::ZeroMq(socket) => Ok(socket.receive()?),
        }
    }
}

/// Connects to the publications at `url`, with Salt's socket options (reference `salt-protocol.md` 1.2). With `wait_until` it
/// waits until the handshake is complete or the process must stop: once we report ready, no job may be missed. If the
/// master does not accept the connection in time, that is not an error; it is established later.
///
/// # Errors
/// The address is invalid, or no sockets are left.
pub fn subscribe(
    config: &MinionConfig,
    context: &Context,
    url: &str,
    syndic: bool,
    wait_until: Option<&Stop>,
) -> Result<Subscriber, ExitError> {
    let cannot = |e| ExitError::new(1, format!("cannot connect to {url}: {e}"));
    let socket = SubSocket::new(context, &options(config, url, syndic)).map_err(cannot)?;
    let connected = match wait_until {
        None => socket.connect(url).map(|()| true),
        Some(stop) => {
            socket.connect_and_wait(context, url, PATIENCE, stop.source(), || stop.is_set())
        }
    };
    if !connected.map_err(cannot)? && !wait_until.is_some_and(Stop::is_set) {
        log::warn!(
            "no connection to {url} after {} s: no jobs can be received. Is the port of the option publish_port open on the master and in firewalls? The minion will keep trying",
            PATIENCE.as_secs()
        );
    }
    log::debug!("receiving publications from {url}");
    Ok(Subscriber::ZeroMq(socket))
}

fn options(config: &MinionConfig, url: &str, syndic: bool) -> SubOptions {
    let wait = if config.recon_randomize {
        config.recon_default as f64 + config.recon_max as f64 * chance()
    } else {
        config.recon_default as f64
    };
    let topics = if config.zmq_filtering {
        let syndic = syndic.then(|| SYNDIC.as_bytes().to_vec());
        [BROADCAST.as_bytes().to_vec(), topic(&config.id).into()]
            .into_iter()
            .chain(syndic)
            .collect()
    } else {
        vec![Vec::new()]
    };
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
