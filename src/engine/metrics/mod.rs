//! Metrics: what the scoreboard and the stores say, for Prometheus and for `fleet.status`.
//!
//! Owns `master_status.ipc` (whoever connects gets one text and the end of it) and, with
//! `metrics_address`, a port with `/metrics` and `/healthz`. Holds no keys, touches no other
//! role: counters come from shared memory, the fleet from the stores.
//!
//! When it fails: nobody notices but who reads it. A port that is taken is a warning.

mod arena;
mod collective;
mod fleet;
mod report;
mod text;

use fleet::FleetView;
use halite_config::MasterConfig;
use halite_master::roles::{RoleError, Roles};
use halite_master::score;
use halite_store::Stores;
use halite_sys::memory::{IdleDetector, trim_memory};
use halite_sys::scoreboard::Scoreboard;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_wire::{Map, Value};
use std::io::Write;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tiny_http::{Header, Method, Request, Response, Server};

/// How often the end is looked for.
const TURN: Duration = Duration::from_millis(250);
/// How often this role says that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let (board, own) = Scoreboard::inherited()?;
    let source = Arc::new(Source {
        config: config.clone(),
        board,
        own,
        fleet: Mutex::new(FleetView::new(Stores::open(config))),
        told: AtomicU64::new(0),
    });
    let status = bind_status(&config.master_status())?;
    let served = source.clone();
    std::thread::spawn(move || serve_status(&status, &served));
    let server = listen(&config.metrics_address);
    roles.ready();
    let (mut rest, mut told, mut due) = (IdleDetector::default(), 0, Instant::now());
    while !stop.is_set() {
        if Instant::now() >= due {
            due = Instant::now() + BEAT;
            source.beat();
            let before = std::mem::replace(&mut told, source.told.load(Ordering::Relaxed));
            if rest.is_due(told != before) {
                trim_memory();
            }
        }
        let Some(server) = &server else {
            std::thread::sleep(TURN);
            continue;
        };
        match server.recv_timeout(TURN) {
            Ok(Some(request)) => answer(request, &source),
            Ok(None) => {}
            Err(e) => log::debug!("a connection for metrics failed: {e}"),
        }
    }
    Ok(())
}

/// Where the texts come from.
struct Source {
    config: MasterConfig,
    board: Scoreboard,
    own: usize,
    fleet: Mutex<FleetView>,
    /// Texts that were asked for.
    told: AtomicU64,
}

impl Source {
    fn fleet(&self) -> MutexGuard<'_, FleetView> {
        // A view is made anew as a whole.
        self.fleet.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says that this role lives.
    fn beat(&self) {
        if let Err(e) = score::put(&self.board, self.own, "metrics", Map::new()) {
            log::debug!("the scoreboard cannot be written: {e}");
        }
    }

    fn metrics(&self) -> String {
        self.told.fetch_add(1, Ordering::Relaxed);
        let mut view = self.fleet();
        let fleet = view.get(&self.config);
        report::render(&score::all(&self.board), fleet, &self.config)
    }

    /// Roles that do not serve, or have said nothing for too long.
    fn silent(&self) -> Vec<String> {
        let records = score::all(&self.board);
        let down = records.iter().find_map(|r| r.get("down"));
        let mut out = down.map(Value::str_list).unwrap_or_default();
        let late = score::late(&records, unix_now(), self.config.request_timeout);
        out.extend(late.iter().map(ToString::to_string));
        out
    }
}

/// The port of `metrics_address`, if there is one and it can be had.
fn listen(address: &str) -> Option<Server> {
    if address.is_empty() {
        return None;
    }
    let listener = address
        .to_socket_addrs()
        .and_then(|addresses| TcpListener::bind(addresses.collect::<Vec<_>>().as_slice()));
    let served = listener
        .map_err(|e| e.to_string())
        .and_then(|l| Server::from_listener(l, None).map_err(|e| e.to_string()));
    match served {
        Ok(server) => Some(server),
        Err(e) => {
            log::warn!(
                "metrics_address {address}: {e}; metrics are only to be had with halite-run fleet.status"
            );
            None
        }
    }
}

fn answer(request: Request, source: &Source) {
    let (status, text) = match (request.method(), request.url()) {
        (Method::Get | Method::Head, "/metrics") => (200, source.metrics()),
        (Method::Get | Method::Head, "/healthz") => match source.silent() {
            none if none.is_empty() => (200, "ok\n".to_owned()),
            some => (503, format!("not healthy: {}\n", some.join(", "))),
        },
        _ => (404, "there are /metrics and /healthz\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut response = Response::from_string(text).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    // The peer may be gone; then there is nobody to tell.
    let _ = request.respond(response);
}

/// The socket of `fleet.status`, for the master's account alone. The instance lock of
/// `sock_dir` is held, so a socket that stands there is one left over.
fn bind_status(path: &Path) -> Result<UnixListener, RoleError> {
    let failed = |e: std::io::Error| RoleError::new(1, format!("{}: {e}", path.display()));
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
        let told = stream.and_then(|stream| tell(stream, source));
        if let Err(e) = told {
            log::debug!("master_status.ipc: {e}");
            // Out of descriptors it would fail again and again.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn tell(mut stream: UnixStream, source: &Source) -> std::io::Result<()> {
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
