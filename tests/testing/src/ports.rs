//! Free TCP ports.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

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
            held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
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

/// Whether a process listens on this port.
pub fn listens(port: u16) -> bool {
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
