//! Free TCP ports.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// The claims of this process, until it ends: while one of its daemons restarts, no other test may take the port.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Ports that are reserved until they are released.
///
/// They are below the range that the kernel uses for outgoing connections: a port in that range could be
/// taken, or even be connected to itself, while a master restarts.
pub struct Ports(Vec<TcpListener>);

impl Ports {
    /// Reserves `count` ports of the loopback address.
    pub fn hold(count: usize) -> Ports {
        // Tests that run at the same time start at different numbers.
        let start = (std::process::id() as u16).wrapping_mul(61) % COUNT;
        let mut held = Vec::new();
        for _ in 0..COUNT {
            if held.len() == count {
                break;
            }
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            let port = FIRST + (start + step) % COUNT;
            held.extend(claim(port));
        }
        assert_eq!(held.len(), count, "no free ports from {FIRST} on");
        Ports(held)
    }

    /// Their numbers.
    pub fn numbers(&self) -> Vec<u16> {
        self.0
            .iter()
            .map(|held| {
                held.local_addr()
                    .expect("a bound socket has an address")
                    .port()
            })
            .collect()
    }

    /// Frees them, for a daemon that starts now.
    pub fn release(self) {}
}

/// Takes a port that no other test process has claimed. The claim is a name among the abstract sockets of the network
/// namespace.
fn claim(port: u16) -> io::Result<TcpListener> {
    let name = SocketAddr::from_abstract_name(format!("halite-test-port-{port}"))?;
    let claim = UnixListener::bind_addr(&name)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    claims.push(claim);
    Ok(listener)
}

/// Whether a process listens on this port.
pub fn listens(port: u16) -> bool {
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
