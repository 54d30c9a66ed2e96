//! Metrics from the scoreboard and the stores, for Prometheus and for `fleet.status`.
//!
//! Owns `master_status.ipc` (a client gets one text, then end of file) and, with `metrics_address`, a port with
//! `/metrics`, `/healthz` and `/ready`. Has no keys and does not talk to other roles: counters come from shared memory,
//! figures about the fleet from the stores.
//!
//! On failure only those who read metrics are affected. A port already in use is a warning.

mod arena;
mod cluster;
mod collective;
mod fleet;
mod record;
mod report;
mod text;

use fleet::FleetView;
use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_master::score;
use halite_store::Stores;
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::memory::{IdleDetector, trim_memory};
use halite_sys::scoreboard::Scoreboard;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_transport::http::{HttpServer, Page};
use halite_wire::Map;
use std::io::Write;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often to check for a stop.
const TURN: Duration = Duration::from_millis(250);
/// Interval of this role's sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let (board, own) = Scoreboard::inherited()?;
    let source = Arc::new(Source {
        config: config.clone(),
        board,
        own,
        fleet: Mutex::new(FleetView::new(Stores::open(config))),
        served: AtomicU64::new(0),
    });
    let status = bind_status(&config.master_status())?;
    let served = source.clone();
    std::thread::spawn(move || serve_status(&status, &served));
    let mut server = listen(&config.metrics_address);
    roles.ready();
    let (mut rest, mut served, mut due) = (IdleDetector::default(), 0, Instant::now());
    while !stop.is_set() {
        if Instant::now() >= due {
            due = Instant::now() + BEAT;
            source.beat();
            debug_report::write_if_asked("metrics", String::new);
            let before = std::mem::replace(&mut served, source.served.load(Ordering::Relaxed));
            if rest.is_due(served != before) {
                trim_memory();
            }
        }
        match &mut server {
            Some(server) => server.turn(TURN, &|path| page(path, &source))?,
            None => std::thread::sleep(TURN),
        }
    }
    Ok(())
}

/// Source of the texts.
struct Source {
    config: MasterConfig,
    board: Scoreboard,
    own: usize,
    fleet: Mutex<FleetView>,
    /// Number of texts served.
    served: AtomicU64,
}

impl Source {
    fn fleet(&self) -> MutexGuard<'_, FleetView> {
        // A view is replaced as a whole.
        self.fleet.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Reports that this role is alive.
    fn beat(&self) {
        if let Err(e) = score::put(&self.board, self.own, "metrics", Map::new()) {
            log::debug!("the scoreboard cannot be written: {e}");
        }
    }

    fn metrics(&self) -> String {
        self.served.fetch_add(1, Ordering::Relaxed);
        let mut view = self.fleet();
        let fleet = view.get(&self.config);
        report::render(&score::all(&self.board), fleet, &self.config)
    }

    /// Roles that do not serve, or have been silent for too long.
    fn silent(&self) -> Vec<String> {
        score::silent(&self.board, self.config.request_timeout)
    }
}

/// Listens on `metrics_address`, if set and available.
fn listen(address: &str) -> Option<HttpServer> {
    if address.is_empty() {
        return None;
    }
    let listener = address
        .to_socket_addrs()
        .and_then(|addresses| TcpListener::bind(addresses.collect::<Vec<_>>().as_slice()));
    match listener.and_then(HttpServer::new) {
        Ok(server) => Some(server),
        Err(e) => {
            log::warn!(
                "metrics_address {address}: {e}; metrics are only available with halite-run fleet.status"
            );
            None
        }
    }
}

fn page(path: &str, source: &Source) -> Page {
    let cluster = || score::cluster(&source.board, unix_now());
    let (status, text) = match path {
        "/metrics" => (200, source.metrics()),
        "/healthz" => match source.silent() {
            none if none.is_empty() => (200, "ok\n".to_owned()),
            some => (503, format!("not healthy: {}\n", some.join(", "))),
        },
        // For load balancers.
        "/ready" => match source.silent() {
            _ if cluster().is_draining => {
                (503, "minions are being sent to other masters\n".to_owned())
            }
            _ if cluster().is_apart => {
                let text = "this master takes no part in its cluster: its log says why\n";
                (503, text.to_owned())
            }
            none if none.is_empty() => (200, "ready\n".to_owned()),
            some => (503, format!("not healthy: {}\n", some.join(", "))),
        },
        _ => (404, "try /metrics, /healthz or /ready\n".to_owned()),
    };
    Page {
        status,
        kind: "text/plain; version=0.0.4; charset=utf-8",
        text,
    }
}

/// The socket of `fleet.status`, for the master's account only. The instance lock of `sock_dir` is held, so an
/// existing socket is stale.
fn bind_status(path: &Path) -> Result<UnixListener, ExitError> {
    let failed = |e: std::io::Error| ExitError::new(1, format!("{}: {e}", path.display()));
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

fn serve_status(listener: &UnixListener, source: &Source) {
    for stream in listener.incoming() {
        let served = stream.and_then(|stream| send_metrics(stream, source));
        if let Err(e) = served {
            log::debug!("master_status.ipc: {e}");
            // Without descriptors it would fail again and again.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn send_metrics(mut stream: UnixStream, source: &Source) -> std::io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(source.metrics().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_no_failure() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listen(&taken.local_addr().unwrap().to_string()).is_none());
        assert!(listen("").is_none() && listen("nonsense").is_none());
        assert!(listen("127.0.0.1:0").is_some());
    }
}
