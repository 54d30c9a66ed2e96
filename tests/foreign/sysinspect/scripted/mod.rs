//! Scripted sysinspect minions: connections that say what was captured, and what they hear.

pub mod replay;
pub mod swarm;

use serde_json::Value as Json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};
use testing::{Master, ports, wait_until};

/// How long an answer may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// How long something that must not come is waited for.
const QUIET: Duration = Duration::from_millis(150);

/// A master with the gateway on a free port.
pub fn master(settings: &str) -> (Master, u16) {
    let held = ports::Ports::hold(1);
    let port = held.numbers()[0];
    held.release();
    let master = Master::halite(&format!(
        "gateways: {{sysinspect: {{interface: 127.0.0.1, port: {port}, {settings}}}}}"
    ));
    wait_until("the gateway listens", || ports::listens(port));
    (master, port)
}

/// What came from the gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A frame, as JSON.
    Frame(Json),
    /// It has closed the connection.
    Closed,
    /// Nothing.
    Nothing,
}

/// A bare connection. Frames are cut and read here, without the codec of the program.
pub struct Wire {
    stream: TcpStream,
    kept: Vec<u8>,
}

impl Wire {
    pub fn connect(port: u16) -> Wire {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire {
            stream,
            kept: Vec::new(),
        }
    }

    /// Sends a body; a connection that the other side has closed takes it silently.
    pub fn say(&mut self, body: &str) {
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend(body.as_bytes());
        let _ = self.stream.write_all(&frame);
    }

    /// The next frame.
    pub fn hear(&mut self) -> Heard {
        self.within(LIMIT)
    }

    /// What has come already, if anything.
    pub fn glance(&mut self) -> Heard {
        self.within(QUIET)
    }

    fn within(&mut self, limit: Duration) -> Heard {
        let end = Instant::now() + limit;
        let mut buffer = [0; 8192];
        loop {
            if let Some((header, rest)) = self.kept.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*header) as usize;
                if rest.len() >= len {
                    let frame = serde_json::from_slice(&rest[..len]).unwrap();
                    self.kept.drain(..4 + len);
                    return Heard::Frame(frame);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Nothing;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            match self.stream.read(&mut buffer) {
                Ok(0) => return Heard::Closed,
                Ok(count) => self.kept.extend(&buffer[..count]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return Heard::Closed,
            }
        }
    }
}
