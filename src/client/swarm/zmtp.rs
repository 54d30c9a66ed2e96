//! A ZMTP 3.1 connection with the NULL mechanism, non-blocking, as small as a simulated
//! minion needs it: REQ and SUB ends that connect (reference `salt-protocol.md` 1.1, 1.3).
//!
//! libzmq would take two descriptors and a place in one big poll per socket; ten thousand
//! minions in one process need one descriptor each and `epoll`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Frame flag: more frames of this message follow.
const MORE: u8 = 1;
/// Frame flag: the length takes eight bytes.
const LONG: u8 = 2;
/// Frame flag: a command, not a message.
const COMMAND: u8 = 4;
/// Bytes of the greeting.
const GREETING: usize = 64;
/// No reply or publication of a master is larger.
const MAX_FRAME: u64 = 256 << 20;

/// Which end of a socket pair this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks; one request at a time.
    Req,
    /// Subscribes to everything.
    Sub,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Req => "REQ",
            Kind::Sub => "SUB",
        }
    }
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The peer is ready: messages may flow.
    Ready,
    /// A whole message, without the empty frame of a reply.
    Message(Vec<Vec<u8>>),
    /// The answer to a ping of ours.
    Pong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Greeting,
    Handshake,
    Ready,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    kind: Kind,
    phase: Phase,
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    written: usize,
    frames: Vec<Vec<u8>>,
    waiting: Vec<Vec<u8>>,
}

impl Connection {
    /// Begins to connect. Call [`Connection::progress`] whenever the descriptor becomes
    /// readable or writable; it reads and writes to exhaustion, as edge-triggered polls want.
    pub fn open(address: SocketAddr, kind: Kind) -> io::Result<Connection> {
        let stream = connect(address)?;
        stream.set_nodelay(true)?;
        let mut greeting = [0u8; GREETING];
        greeting[0] = 0xff;
        greeting[8] = 1;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[11] = 1;
        greeting[12..16].copy_from_slice(b"NULL");
        Ok(Connection {
            stream,
            kind,
            phase: Phase::Connecting,
            input: Vec::new(),
            read: 0,
            output: greeting.to_vec(),
            written: 0,
            frames: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// Sends a request; held back until the peer is ready.
    pub fn request(&mut self, body: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(body.len() + 11);
        frame(&mut out, MORE, b"");
        frame(&mut out, 0, body);
        if self.phase != Phase::Ready {
            self.waiting.push(out);
            return Ok(());
        }
        self.output.extend_from_slice(&out);
        self.flush()
    }

    /// Asks the peer to show that it has processed what came before.
    pub fn ping(&mut self) -> io::Result<()> {
        command(&mut self.output, b"PING", &[0, 0]);
        self.flush()
    }

    /// Writes and reads what is possible now; calls `each` for everything that came in.
    ///
    /// # Errors
    /// When the connection is over, whoever ended it.
    pub fn progress(&mut self, each: &mut dyn FnMut(Input)) -> io::Result<()> {
        if self.phase == Phase::Connecting {
            if let Some(e) = self.stream.take_error()? {
                return Err(e);
            }
            if self.stream.peer_addr().is_err() {
                return Ok(());
            }
            self.phase = Phase::Greeting;
        }
        self.flush()?;
        let ended = self.fill()?;
        while self.step(each)? {}
        self.input.drain(..self.read);
        self.read = 0;
        self.flush()?;
        if ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.phase == Phase::Connecting {
            return Ok(());
        }
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is there; `true` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0u8; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(n) => self.input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes one greeting or frame from the input; `false` if none is whole.
    fn step(&mut self, each: &mut dyn FnMut(Input)) -> io::Result<bool> {
        if self.phase == Phase::Greeting {
            let Some(greeting) = self.input.get(..GREETING) else {
                return Ok(false);
            };
            if greeting[0] != 0xff
                || greeting[9] != 0x7f
                || greeting[10] < 3
                || !greeting[12..].starts_with(b"NULL\0")
            {
                return Err(broken(
                    "the peer does not speak ZMTP 3 with the NULL mechanism",
                ));
            }
            self.read = GREETING;
            let mut ready = Vec::new();
            property(&mut ready, b"Socket-Type", self.kind.name().as_bytes());
            property(&mut ready, b"Identity", b"");
            command(&mut self.output, b"READY", &ready);
            self.phase = Phase::Handshake;
            return Ok(true);
        }
        let Some((flags, body)) = self.next_frame()? else {
            return Ok(false);
        };
        if flags & COMMAND != 0 {
            self.take_command(&body, each)?;
        } else if self.phase != Phase::Ready {
            return Err(broken("a message came before READY"));
        } else {
            self.take_frame(flags, body, each);
        }
        Ok(true)
    }

    fn next_frame(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let rest = &self.input[self.read..];
        let Some(flags) = rest.first().copied() else {
            return Ok(None);
        };
        let head = if flags & LONG != 0 { 9 } else { 2 };
        let Some(length) = rest.get(1..head) else {
            return Ok(None);
        };
        let length = length.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        if length > MAX_FRAME {
            return Err(broken("a frame is too long"));
        }
        let end = head + length as usize;
        let Some(body) = rest.get(head..end) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.read += end;
        Ok(Some((flags, body)))
    }

    fn take_command(&mut self, body: &[u8], each: &mut dyn FnMut(Input)) -> io::Result<()> {
        let Some((name, data)) = body
            .split_first()
            .and_then(|(n, rest)| rest.split_at_checked(usize::from(*n)))
        else {
            return Err(broken("a command without a name"));
        };
        match name {
            b"READY" => {
                self.phase = Phase::Ready;
                if self.kind == Kind::Sub {
                    command(&mut self.output, b"SUBSCRIBE", b"");
                }
                for request in std::mem::take(&mut self.waiting) {
                    self.output.extend_from_slice(&request);
                }
                each(Input::Ready);
            }
            b"PING" => {
                let context = data.get(2..).unwrap_or_default();
                command(&mut self.output, b"PONG", context);
            }
            b"PONG" => each(Input::Pong),
            b"ERROR" => return Err(broken("the peer refused the handshake")),
            _ => {}
        }
        Ok(())
    }

    fn take_frame(&mut self, flags: u8, body: Vec<u8>, each: &mut dyn FnMut(Input)) {
        self.frames.push(body);
        if flags & MORE != 0 {
            return;
        }
        let mut frames = std::mem::take(&mut self.frames);
        if self.kind == Kind::Req && frames.first().is_some_and(Vec::is_empty) {
            frames.remove(0);
        }
        each(Input::Message(frames));
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Begins to connect without waiting for the outcome.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    use nix::errno::Errno;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, SockType::Stream, flags, None)?;
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(fd)),
        Err(e) => Err(e.into()),
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Appends a frame.
pub fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    if body.len() < 256 {
        out.extend_from_slice(&[flags, body.len() as u8]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(body);
}

fn command(out: &mut Vec<u8>, name: &[u8], data: &[u8]) {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name);
    body.extend_from_slice(data);
    frame(out, COMMAND, &body);
}

fn property(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}
