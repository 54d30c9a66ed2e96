//! The connection on which publications come.

use super::MinionError;
use super::ask::{Stop, keepalive};
use super::publication::{BROADCAST, SYNDIC, topic};
use super::session::chance;
use halite_config::MinionConfig;
use halite_transport::sockets::again;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Largest publication.
const MAX_PUBLICATION: i64 = 256 << 20;

/// Stack of our threads.
pub const STACK: usize = 512 << 10;

/// How long a new connection for publications is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects to the publications at `url`, with Salt's socket options (reference `salt-protocol.md` 1.2). With `greeted` it
/// waits until the master has taken the connection, or until it is time to end: whoever says that it is there must hear the
/// job that comes next. A master that does not take it is no error; the connection comes when it can.
pub fn subscribe(
    config: &MinionConfig,
    context: &zmq::Context,
    url: &str,
    syndic: bool,
    greeted: Option<&Stop>,
) -> Result<zmq::Socket, MinionError> {
    let cannot = |e| MinionError::new(1, format!("cannot connect to {url}: {e}"));
    let socket = again(|| subscriber(config, context, url, syndic)).map_err(cannot)?;
    let connected = match greeted {
        None => again(|| socket.connect(url)).map(|()| true),
        Some(stop) => connect_and_wait(&socket, context, url, stop),
    };
    if !connected.map_err(cannot)? && !greeted.is_some_and(Stop::is_set) {
        log::warn!(
            "no connection to {url} after {} s: no job can come. Is the port of the option publish_port open at the master and on the way there? The minion goes on trying",
            PATIENCE.as_secs()
        );
    }
    log::debug!("publications come from {url}");
    Ok(socket)
}

/// Whether the master greeted within [`PATIENCE`].
fn connect_and_wait(
    socket: &zmq::Socket,
    context: &zmq::Context,
    url: &str,
    stop: &Stop,
) -> zmq::Result<bool> {
    // Names of one context.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = || {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("inproc://subscription-{n}")
    };
    let events = context.socket(zmq::PAIR)?;
    let place = name();
    again(|| socket.monitor(&place, zmq::SocketEvent::HANDSHAKE_SUCCEEDED as i32))?;
    again(|| events.connect(&place))?;
    again(|| socket.connect(url))?;
    let end = Instant::now() + PATIENCE;
    let mut greeted = false;
    while !greeted && !stop.is_set() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let mut items = [events.as_poll_item(zmq::POLLIN), stop.poll_item()];
        let millis = i64::try_from(left.as_millis() + 1).unwrap_or(i64::MAX);
        match zmq::poll(&mut items, millis) {
            Ok(_) | Err(zmq::Error::EINTR) => greeted = items[0].is_readable(),
            Err(e) => return Err(e),
        }
    }
    // One who listens to nothing takes the place of the first: events that nobody takes would stop ZeroMQ's thread.
    again(|| socket.monitor(&name(), 0))?;
    Ok(greeted)
}

fn subscriber(
    config: &MinionConfig,
    context: &zmq::Context,
    url: &str,
    syndic: bool,
) -> zmq::Result<zmq::Socket> {
    let wait = match config.recon_randomize {
        true => config.recon_default as f64 + config.recon_max as f64 * chance(),
        false => config.recon_default as f64,
    };
    let socket = context.socket(zmq::SUB)?;
    socket.set_identity(config.id.as_bytes())?;
    socket.set_linger(0)?;
    socket.set_maxmsgsize(MAX_PUBLICATION)?;
    let millis = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    socket.set_reconnect_ivl(millis(wait as u64).max(1))?;
    socket.set_reconnect_ivl_max(millis(config.recon_max))?;
    socket.set_ipv6(config.ipv6 == Some(true) || url.starts_with("tcp://["))?;
    if config.zmq_heartbeat_ivl > 0 {
        socket.set_heartbeat_ivl(config.zmq_heartbeat_ivl)?;
        socket.set_heartbeat_timeout(config.zmq_heartbeat_timeout.max(1))?;
    }
    keepalive(config).apply(&socket)?;
    if config.zmq_filtering {
        socket.set_subscribe(BROADCAST.as_bytes())?;
        socket.set_subscribe(topic(&config.id).as_bytes())?;
        if syndic {
            socket.set_subscribe(SYNDIC.as_bytes())?;
        }
    } else {
        socket.set_subscribe(b"")?;
    }
    Ok(socket)
}
