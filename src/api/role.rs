//! The role `api`, named `SaltAPI` in the process list, or the daemon `halite-api`.
//!
//! Owns the sessions of clients. Binds the tcp port of the option `api` (or `rest_cherrypy`). Connects to `ret_port`, for every
//! command, and to `master_event_pub.ipc`. Has no keys of the master, and reads nothing of it but its options and a key for a few
//! questions.
//!
//! On failure: its successor knows no sessions, so that clients have to log in again. Jobs and runners that it has started go on.

use crate::events::Bus;
use crate::limits::{Place, Shares};
use crate::service::{COMMANDS, FOLLOWED, LOGINS, PROVIDERS, Service};
use crate::tls::Certificate;
use halite_client::local::connect_within;
use halite_config::{ApiConfig, MasterConfig};
use halite_master::score::Score;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

/// How long a client waits for a master that is not there.
const MASTER: Duration = Duration::from_secs(3);
/// How often to look for a stop.
const TURN: Duration = Duration::from_millis(200);
/// How often to look for sessions that have expired, and for changed certificates.
const LOOK: Duration = Duration::from_secs(1);
/// Most time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Most connections; further ones wait in the backlog.
const CONNECTIONS: usize = 4096;
/// Most of them from one address.
const OF_ADDRESS: usize = 1024;
/// How long a client may take to read what was sent.
const WRITE: Duration = Duration::from_secs(60);
/// Most bytes of a head.
const HEAD_BYTES: usize = 64 << 10;
/// Threads that serve connections.
const THREADS: usize = 2;

/// Runs the role until it is stopped.
///
/// # Errors
/// The port cannot be bound.
pub(super) fn run(
    config: &MasterConfig,
    api: &ApiConfig,
    stop: &StopFlag,
    ready: &dyn Fn(),
    alive: &mut dyn FnMut(),
) -> Result<(), ExitError> {
    connect_within(MASTER);
    let bus = Bus::start(config, stop)?;
    let certificate = api.tls.as_ref().map(Certificate::load).transpose();
    let certificate = certificate.map_err(|e| {
        let why = "ssl_crt and ssl_key of `api` are a certificate and its key, which this account must be able to read";
        ExitError::new(e.status, format!("{e}: {why}"))
    })?;
    let certificate = certificate.map(Arc::new);
    let service = Arc::new(Service::new(config, api, bus, stop));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(COMMANDS + FOLLOWED + LOGINS + PROVIDERS)
        .enable_all()
        .build()
        .map_err(ExitError::from)?;
    let address = format!("{}:{}", api.host, api.port);
    let served = runtime.block_on(async {
        let listener = TcpListener::bind((api.host.as_str(), api.port)).await;
        let listener = listener.map_err(|e| {
            let why =
                "port of `api`: another program has it, or it is below 1024, which takes root";
            ExitError::new(1, format!("{address}: {e}; {why}"))
        })?;
        log::info!("api: listens on {address}");
        ready();
        let accepting = tokio::spawn(accept(listener, service.clone(), certificate.clone()));
        let mut score = Score::inherited(crate::API);
        let mut looked = Instant::now();
        while !stop.is_set() {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                service.sessions.expire();
                if let Some(certificate) = &certificate {
                    certificate.refresh();
                }
            }
            score.tick(|| counters(&service));
            alive();
            tokio::time::sleep(TURN).await;
        }
        accepting.abort();
        Ok(())
    });
    // A command that still waits for its minions is not waited for.
    runtime.shutdown_background();
    served
}

fn counters(service: &Service) -> Map {
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    halite_wire::map! {
        "requests" => count(&service.counters.requests), "refused" => count(&service.counters.refused),
        "limited" => count(&service.counters.limited),
        "failed" => count(&service.counters.failed), "listeners" => count(&service.counters.listeners),
        "sessions" => service.sessions.count() as u64,
    }
}

async fn accept(
    listener: TcpListener,
    service: Arc<Service>,
    certificate: Option<Arc<Certificate>>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let shares = Shares::default();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let service = service.clone();
                let acceptor = certificate.as_ref().map(|one| one.acceptor());
                let Ok(share) = shares.take(&peer.ip().to_string(), OF_ADDRESS) else {
                    continue;
                };
                let place: Place = Arc::new((place, share));
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    match acceptor {
                        None => serve(stream, peer, service, &place).await,
                        Some(acceptor) => {
                            let opened = tokio::time::timeout(HEAD, acceptor.accept(stream)).await;
                            match opened {
                                Ok(Ok(stream)) => serve(stream, peer, service, &place).await,
                                Ok(Err(e)) => log::debug!("api: TLS with {peer}: {e}"),
                                Err(_) => log::debug!("api: TLS with {peer}: it takes too long"),
                            }
                        }
                    }
                    drop(place);
                });
            }
            // No file descriptors are left.
            Err(e) => {
                log::warn!("api: {e}");
                tokio::time::sleep(TURN).await;
            }
        }
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Arc<Service>,
    place: &Place,
) {
    let place = place.clone();
    let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        let service = service.clone();
        // A WebSocket keeps it.
        request.extensions_mut().insert(place.clone());
        async move { Ok::<_, std::convert::Infallible>(service.answer(request, peer).await) }
    });
    let mut stream = TimeoutStream::new(stream);
    // Whoever reads nothing must not keep an answer in memory.
    stream.set_write_timeout(Some(WRITE));
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), answer)
        .with_upgrades()
        .await;
    if let Err(e) = ended {
        log::debug!("api: connection of {peer}: {e}");
    }
}
