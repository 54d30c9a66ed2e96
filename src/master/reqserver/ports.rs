//! What the request server binds: the ports for requests of each transport, and the socket on which workers report.

use super::EXIT_BIND;
use halite_config::MasterConfig;
use halite_sys::exit::ExitError;
use halite_sys::process::raise_open_files;
use halite_transport::front::{
    RequestCodec, RequestFront, RequestOptions, RequestServer, Tcp, Ws, Zmtp,
};
use halite_transport::sockets::{Context, KeepAlive, Router};
use halite_transport::tls::ServerTls;
use halite_wire::Transport;
use halite_wire::tls::TlsOptions;
use std::time::Duration;

/// How often a silent peer is asked for a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(120);
/// How long a peer may take a break in the middle of a message, its handshake, or a reply to it.
const STALLED: Duration = Duration::from_secs(60);
/// Descriptors that are not for connections.
const OWN_FILES: u64 = 256;

/// The socket on which workers report.
pub(super) fn bind_workers(config: &MasterConfig, context: &Context) -> Result<Router, ExitError> {
    let back = Router::new(context)?;
    back.bind_ipc(&config.workers())
        .map_err(|e| ExitError::new(EXIT_BIND, e.to_string()))?;
    Ok(back)
}

/// The ports for requests: the one place that knows the transports.
pub(super) fn bind_fronts(config: &MasterConfig) -> Result<Vec<Box<dyn RequestFront>>, ExitError> {
    let ports = config.ports();
    let most = most_connections(config)? / ports.len().max(1);
    let mut fronts: Vec<Box<dyn RequestFront>> = Vec::new();
    for port in ports {
        let options = RequestOptions {
            backlog: config.zmq_backlog,
            max_message: usize::try_from(config.max_request_size).unwrap_or(usize::MAX),
            ipv6: config.ipv6 == Some(true) || port.interface.contains(':'),
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: most,
            heartbeat: HEARTBEAT,
            stalled: STALLED,
        };
        let (interface, number) = (&port.interface, port.ret_port);
        let bound: std::io::Result<Box<dyn RequestFront>> = match port.transport {
            Transport::ZeroMq => bind::<Zmtp>(interface, number, &options, config, None),
            Transport::Tcp => bind::<Tcp>(interface, number, &options, config, config.tls()),
            Transport::Ws => bind::<Ws>(interface, number, &options, config, config.tls()),
        };
        fronts.push(bound.map_err(|e| ExitError::new(EXIT_BIND, e.to_string()))?);
    }
    Ok(fronts)
}

/// Binds a port, with load balancers in front of it if there are any.
fn bind<C: RequestCodec + 'static>(
    interface: &str,
    port: u16,
    options: &RequestOptions,
    config: &MasterConfig,
    tls: Option<&TlsOptions>,
) -> std::io::Result<Box<dyn RequestFront>> {
    let mut front = RequestServer::<C>::bind(interface, port, options)?;
    let balancers = &config.proxy_protocol.0;
    if !balancers.is_empty() {
        front = front.with_balancers(balancers.as_slice().into())?;
    }
    if let Some(tls) = tls {
        front = front.with_tls(ServerTls::new(tls)?)?;
    }
    Ok(Box::new(front))
}

/// Most connections for requests: the role needs some descriptors for itself.
fn most_connections(config: &MasterConfig) -> Result<usize, ExitError> {
    let files = raise_open_files(config.max_open_files)?;
    let own = OWN_FILES.min(files / 4);
    Ok(usize::try_from(files - own).unwrap_or(usize::MAX))
}
