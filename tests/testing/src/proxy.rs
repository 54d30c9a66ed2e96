//! A network that can be cut, heard and changed: a relay in front of a TCP port.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

const OPEN: u8 = 0;
/// Nothing is forwarded, and connections stay open.
const CUT: u8 = 1;
/// Nothing that the server sends is forwarded.
const DEAF: u8 = 2;

/// The relay; dropping it closes its connections.
pub struct Proxy {
    /// Its port.
    pub port: u16,
    state: Arc<State>,
}

struct State {
    /// Where new connections go.
    port: AtomicU16,
    /// Its own address towards the server, and what it sends there first.
    from: Ipv4Addr,
    hello: Vec<u8>,
    mode: AtomicU8,
    streams: Mutex<Vec<TcpStream>>,
    heard: Mutex<Vec<u8>>,
    changes: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Proxy {
    /// A relay to a port of this host.
    pub fn to(port: u16) -> Proxy {
        Proxy::balancer(port, Ipv4Addr::LOCALHOST, &[])
    }

    /// A load balancer: a relay that connects from this address, and begins each connection with `hello`.
    pub fn balancer(port: u16, from: Ipv4Addr, hello: &[u8]) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            port: AtomicU16::new(port),
            from,
            hello: hello.to_vec(),
            mode: AtomicU8::new(OPEN),
            streams: Mutex::default(),
            heard: Mutex::default(),
            changes: Mutex::default(),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, shared.port.load(Ordering::SeqCst), &shared);
            }
        });
        Proxy { port: own, state }
    }

    /// All that went through, in both directions, and has not been taken yet.
    pub fn take_heard(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.heard.lock().unwrap())
    }

    /// From now on, `from` is replaced by `to`, which has the same length, or nothing any more if both are empty.
    pub fn change(&self, from: &[u8], to: &[u8]) {
        let mut changes = self.state.changes.lock().unwrap();
        match from.is_empty() {
            true => changes.clear(),
            false => changes.push((from.to_vec(), to.to_vec())),
        }
    }

    /// Sends new connections to another port of this host, and closes the old ones.
    pub fn redirect(&self, port: u16) {
        self.state.port.store(port, Ordering::SeqCst);
        self.mend();
    }

    /// From now on nothing is forwarded; connections stay open, as when a cable is pulled.
    pub fn cut(&self) {
        self.state.mode.store(CUT, Ordering::SeqCst);
    }

    /// From now on nothing that the server sends is forwarded.
    pub fn deafen(&self) {
        self.state.mode.store(DEAF, Ordering::SeqCst);
    }

    /// Forwards new connections again; closes the old ones.
    pub fn mend(&self) {
        self.state.mode.store(OPEN, Ordering::SeqCst);
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(client: TcpStream, port: u16, state: &Arc<State>) {
    state
        .streams
        .lock()
        .unwrap()
        .push(client.try_clone().unwrap());
    if state.mode.load(Ordering::SeqCst) == CUT {
        return;
    }
    let begun = connect_from(state.from, port).and_then(|mut server| {
        server.write_all(&state.hello)?;
        Ok(server)
    });
    let Ok(server) = begun else {
        let _ = client.shutdown(Shutdown::Both);
        return;
    };
    state
        .streams
        .lock()
        .unwrap()
        .push(server.try_clone().unwrap());
    relay(
        client.try_clone().unwrap(),
        server.try_clone().unwrap(),
        state.clone(),
        &[CUT],
    );
    relay(server, client, state.clone(), &[CUT, DEAF]);
}

/// Connects to a port of this host from one of the addresses of its loopback interface.
///
/// # Errors
/// Nobody listens.
pub fn connect_from(from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let at = |address, port| SockaddrIn::from(SocketAddrV4::new(address, port));
    let (family, flags) = (AddressFamily::Inet, SockFlag::SOCK_CLOEXEC);
    let tcp = socket(family, SockType::Stream, flags, None)?;
    bind(tcp.as_raw_fd(), &at(from, 0))?;
    connect(tcp.as_raw_fd(), &at(Ipv4Addr::LOCALHOST, port))?;
    Ok(TcpStream::from(tcp))
}

fn relay(mut from: TcpStream, mut to: TcpStream, state: Arc<State>, lost: &'static [u8]) {
    std::thread::spawn(move || {
        let mut chunk = [0u8; 16 << 10];
        let mut broken = false;
        loop {
            match from.read(&mut chunk) {
                Ok(n) if n > 0 => {
                    // Data was lost, so nothing more may be forwarded in this direction.
                    broken |= lost.contains(&state.mode.load(Ordering::SeqCst));
                    for (from, to) in state.changes.lock().unwrap().iter() {
                        let mut at = 0;
                        while let Some(found) = find(&chunk[at..n], from) {
                            at += found;
                            chunk[at..at + to.len()].copy_from_slice(to);
                            at += to.len();
                        }
                    }
                    state.heard.lock().unwrap().extend_from_slice(&chunk[..n]);
                    if !broken && to.write_all(&chunk[..n]).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
        if state.mode.load(Ordering::SeqCst) == OPEN {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        }
    });
}

/// Whether a text is somewhere in what was heard.
pub fn contains(heard: &[u8], text: &str) -> bool {
    find(heard, text.as_bytes()).is_some()
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}
