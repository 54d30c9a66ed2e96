//! `log_file: udp://HOST[:PORT][/FACILITY]` and `file:///dev/log[/FACILITY]`: every line is a datagram `<priority>line` for a
//! syslog daemon, without the NUL that stock sends at its end (`salt/_logging/impl.py`, Python's `SysLogHandler`).

use super::journal::priority;
use log::Level;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrStorage, UnixAddr, sendto};
use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names of facilities with their numbers (RFC 5424, 6.2.1).
const FACILITIES: [(&str, u8); 20] = [
    ("KERN", 0),
    ("USER", 1),
    ("MAIL", 2),
    ("DAEMON", 3),
    ("AUTH", 4),
    ("SYSLOG", 5),
    ("LPR", 6),
    ("NEWS", 7),
    ("UUCP", 8),
    ("CRON", 9),
    ("AUTHPRIV", 10),
    ("FTP", 11),
    ("LOCAL0", 16),
    ("LOCAL1", 17),
    ("LOCAL2", 18),
    ("LOCAL3", 19),
    ("LOCAL4", 20),
    ("LOCAL5", 21),
    ("LOCAL6", 22),
    ("LOCAL7", 23),
];
/// `LOG_USER`, the facility if none is named.
const USER: u8 = 1;
/// The port of syslog over UDP.
const PORT: u16 = 514;
/// Longest line, in bytes; what exceeds it is cut off. A datagram over UDP holds no more than 65507.
const LONGEST: usize = 32 << 10;

/// Where a syslog daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogAddress {
    to: Place,
    facility: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Udp(String, u16),
    Socket(PathBuf),
}

impl SyslogAddress {
    /// The address that a value of `log_file` is; `None` for a path.
    ///
    /// # Errors
    /// It is neither; the text says why.
    pub fn of_log_file(text: &str) -> Option<Result<SyslogAddress, String>> {
        text.split_once("://").map(|_| text.parse())
    }
}

impl FromStr for SyslogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<SyslogAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (place, facility) = match rest.rsplit_once('/') {
            Some((place, name)) if name.to_ascii_uppercase().starts_with("LOG_") => {
                let name = name.to_ascii_uppercase();
                let known = FACILITIES.iter().find(|(f, _)| name[4..] == **f);
                let known = known.ok_or_else(|| {
                    format!("the syslog facility {name} is not known; one of LOG_USER, LOG_DAEMON, LOG_LOCAL0, ...")
                })?;
                (place, known.1)
            }
            _ => (rest, USER),
        };
        let to = match scheme {
            "udp" => {
                let host = place.trim_end_matches('/');
                if host.is_empty() || host.contains('/') {
                    return Err("an address is udp://HOST[:PORT][/LOG_FACILITY]".to_owned());
                }
                let (host, port) = match host.rsplit_once(':') {
                    Some((name, port)) if !port.contains(']') && !name.ends_with(':') => {
                        let port = port
                            .parse()
                            .map_err(|_| format!("{port} is not a port of UDP"))?;
                        (name, port)
                    }
                    _ => (host, PORT),
                };
                Place::Udp(host.trim_matches(['[', ']']).to_owned(), port)
            }
            "file" if Path::new(place).is_absolute() => Place::Socket(place.into()),
            "file" => return Err("an address is file:///PATH[/LOG_FACILITY]".to_owned()),
            _ => {
                return Err(format!(
                    "{scheme}:// is not supported; use udp://HOST, file:///dev/log or a path"
                ));
            }
        };
        Ok(SyslogAddress { to, facility })
    }
}

impl fmt::Display for SyslogAddress {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.to {
            Place::Udp(host, port) => write!(f, "udp://{host}:{port}"),
            Place::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How long to wait for a daemon whose queue is full: it is short, ten lines in Linux.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long nothing is waited for after that, so that a daemon that hangs does not hold up this one.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// A syslog daemon. Lines that it does not take are counted, and told of when it is back.
#[derive(Debug)]
pub(super) struct Syslog {
    socket: Socket,
    facility: u8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines that could not be sent by this process: one that was forked has lost none yet.
    lost: u64,
    process: u32,
    /// Until when nothing is waited for.
    impatient: Option<Instant>,
    /// The last line, put together.
    datagram: Vec<u8>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket, SocketAddr),
    /// By path each time: the daemon may be started anew.
    Unix(UnixDatagram, UnixAddr),
}

impl Syslog {
    /// Prepares to send; a name is resolved now.
    ///
    /// # Errors
    /// The name has no address, or no sockets are left.
    pub fn open(address: &SyslogAddress) -> io::Result<Syslog> {
        let socket = match &address.to {
            Place::Udp(host, port) => {
                let to = (host.as_str(), *port).to_socket_addrs()?.next();
                let to = to.ok_or_else(|| io::Error::other("the name has no address"))?;
                let any: SocketAddr = match to {
                    SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
                    SocketAddr::V6(_) => ([0; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Socket::Udp(socket, to)
            }
            Place::Socket(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Socket::Unix(socket, UnixAddr::new(path)?)
            }
        };
        Ok(Syslog {
            socket,
            facility: address.facility,
            state: Mutex::default(),
        })
    }

    /// Whether the daemon's socket is there; unknown, and true, for UDP.
    pub fn is_there(&self) -> bool {
        match &self.socket {
            Socket::Udp(..) => true,
            Socket::Unix(_, to) => {
                let path = to.path().and_then(|path| std::fs::metadata(path).ok());
                path.is_some_and(|meta| meta.file_type().is_socket())
            }
        }
    }

    /// The descriptor of its socket.
    pub fn descriptor(&self) -> i32 {
        match &self.socket {
            Socket::Udp(socket, _) => socket.as_raw_fd(),
            Socket::Unix(socket, _) => socket.as_raw_fd(),
        }
    }

    /// Sends a line.
    pub fn send(&self, level: Level, line: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if state.process != process {
            (state.process, state.lost) = (process, 0);
        }
        if state.lost > 0 {
            let told = format!(
                "{} lines of the log could not be sent to syslog",
                state.lost
            );
            if self.write(&mut state, Level::Warn, &told).is_ok() {
                state.lost = 0;
            }
        }
        if state.lost > 0 || self.write(&mut state, level, line).is_err() {
            state.lost += 1;
        }
    }

    fn write(&self, state: &mut State, level: Level, line: &str) -> io::Result<()> {
        let line = line.trim_end_matches('\n');
        let end = (0..=LONGEST.min(line.len()))
            .rev()
            .find(|at| line.is_char_boundary(*at));
        let line = &line[..end.unwrap_or(0)];
        state.datagram.clear();
        let number = self.facility * 8 + priority(level);
        write!(state.datagram, "<{number}>{line}")?;
        let flags = match state.impatient {
            Some(until) if Instant::now() < until => MsgFlags::MSG_DONTWAIT,
            _ => MsgFlags::empty(),
        };
        let sent = match &self.socket {
            Socket::Udp(socket, to) => sendto(
                socket.as_raw_fd(),
                &state.datagram,
                &SockaddrStorage::from(*to),
                flags,
            ),
            Socket::Unix(socket, to) => sendto(socket.as_raw_fd(), &state.datagram, to, flags),
        };
        if sent == Err(Errno::EAGAIN) && flags.is_empty() {
            state.impatient = Some(Instant::now() + IMPATIENCE);
        }
        Ok(sent.map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text: &str| SyslogAddress::of_log_file(text).unwrap().unwrap();
        let udp = |host: &str, port, facility| SyslogAddress {
            to: Place::Udp(host.to_owned(), port),
            facility,
        };
        assert_eq!(of("udp://loghost"), udp("loghost", 514, 1));
        assert_eq!(of("udp://loghost/"), udp("loghost", 514, 1));
        assert_eq!(of("udp://h:10514/LOG_LOCAL3"), udp("h", 10514, 19));
        assert_eq!(of("udp://[::1]:99/log_daemon"), udp("::1", 99, 3));
        assert_eq!(of("udp://[::1]"), udp("::1", 514, 1));
        let socket = |path: &str, facility| SyslogAddress {
            to: Place::Socket(path.into()),
            facility,
        };
        assert_eq!(of("file:///dev/log"), socket("/dev/log", 1));
        assert_eq!(of("file:///dev/log/LOG_DAEMON"), socket("/dev/log", 3));
        assert_eq!(SyslogAddress::of_log_file("/var/log/salt/master"), None);
        for bad in [
            "tcp://h",
            "udp://",
            "udp://h:x",
            "udp://h:70000",
            "udp://h/LOG_NO",
            "udp://h/daemon",
            "file://dev/log",
            "file://",
        ] {
            assert!(SyslogAddress::of_log_file(bad).unwrap().is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_arrive_and_lost_ones_are_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let address = format!("file://{}/LOG_LOCAL0", path.display());
        let syslog = Syslog::open(&address.parse().unwrap()).unwrap();
        assert!(!syslog.is_there());
        syslog.send(Level::Error, "nobody hears this\n");
        syslog.send(Level::Error, "nor this\n");
        let daemon = UnixDatagram::bind(&path).unwrap();
        daemon.set_nonblocking(true).unwrap();
        let heard = || {
            let mut bytes = vec![0; 64 << 10];
            let n = daemon.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..n].to_vec()).unwrap()
        };
        syslog.send(Level::Info, "a\n");
        assert_eq!(
            heard(),
            "<132>2 lines of the log could not be sent to syslog"
        );
        assert_eq!(heard(), "<134>a");
        // Nobody reads: the queue is soon full.
        (0..2000).for_each(|_| syslog.send(Level::Info, "x"));
        while daemon.recv(&mut [0; 64]).is_ok() {}
        syslog.send(Level::Info, "y");
        let told = heard();
        assert!(told.starts_with("<132>"), "{told}");
        assert_eq!(heard(), "<134>y");
        syslog.send(Level::Debug, &"ä".repeat(20_000));
        let long = heard();
        assert!(long.starts_with("<135>ä") && long.len() <= LONGEST + 5);
    }

    #[test]
    fn over_udp() {
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = format!("udp://{}", daemon.local_addr().unwrap());
        let syslog = Syslog::open(&address.parse().unwrap()).unwrap();
        syslog.send(Level::Error, "b\n");
        let mut bytes = [0; 64];
        let n = daemon.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"<11>b");
    }
}
