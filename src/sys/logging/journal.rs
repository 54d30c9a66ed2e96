//! The native protocol of systemd's journal: one datagram of `NAME=value` lines per record, or a sealed memory
//! file if it is too large for a datagram (systemd.io, "Native Journal Protocol").
//!
//! Written here because crates for it either link libsystemd or carry a second logging implementation.

use super::fields::Fields;
use super::salt::on_one_line;
use log::{Level, Record};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The journal's socket.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Environment variable with device and inode of the stream that connects this process to the journal.
const STREAM: &str = "JOURNAL_STREAM";

/// A connection to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    /// `SYSLOG_IDENTIFIER`.
    program: String,
}

impl Journal {
    /// Connects to the journal if standard error already goes there.
    pub fn of_stderr() -> Option<Journal> {
        let stream = std::env::var(STREAM).ok()?;
        let meta = std::fs::metadata("/proc/self/fd/2").ok()?;
        if !is_stream(&stream, meta.dev(), meta.ino()) {
            return None;
        }
        Journal::open(Path::new(SOCKET)).ok()
    }

    fn open(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journal {
            socket,
            program: program(),
        })
    }

    /// The descriptor of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Sends a record.
    ///
    /// # Errors
    /// The journal is gone; write the line elsewhere.
    pub fn send(&self, record: &Record) -> io::Result<()> {
        let text = self.text(record);
        match self.socket.send(text.as_bytes()) {
            Ok(_) => Ok(()),
            Err(e) if e.raw_os_error() == Some(nix::libc::EMSGSIZE) => self.send_file(&text),
            Err(e) if e.raw_os_error() == Some(nix::libc::ENOBUFS) => self.send_file(&text),
            Err(e) if e.kind() == ErrorKind::Interrupted => self.send(record),
            Err(e) => Err(e),
        }
    }

    fn text(&self, record: &Record) -> String {
        let mut text = format!("PRIORITY={}\n", priority(record.level()));
        let mut put = |name: &str, value: String| {
            // A value without line ends needs no length field.
            let _ = writeln!(text, "{name}={}", on_one_line(value));
        };
        put("MESSAGE", record.args().to_string());
        put("SYSLOG_IDENTIFIER", self.program.clone());
        put("LOGGER", super::logger_name(record.target()));
        for (field, value) in Fields::of(record).iter() {
            put(field.in_journal(), value.to_owned());
        }
        text
    }

    fn send_file(&self, text: &str) -> io::Result<()> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create(c"halite-log", flags)?);
        file.write_all(text.as_bytes())?;
        // The journal accepts only memory files that can no longer change.
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::all()))?;
        let descriptors = [file.as_raw_fd()];
        let message = [ControlMessage::ScmRights(&descriptors)];
        let to = self.socket.as_raw_fd();
        sendmsg::<()>(to, &[], &message, MsgFlags::empty(), None)?;
        Ok(())
    }
}

/// Whether a value of [`STREAM`] names this device and inode.
fn is_stream(text: &str, device: u64, inode: u64) -> bool {
    let numbers = text.split_once(':');
    let numbers = numbers.and_then(|(d, i)| Some((d.parse().ok()?, i.parse().ok()?)));
    numbers == Some((device, inode))
}

/// The program's name, from the running executable: titles of roles and symlinks do not matter.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The kernel appends this after an upgrade.
    name.trim_end_matches(" (deleted)").to_owned()
}

/// The number of a level (`syslog(3)`).
pub(super) fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::cmsg_space;
    use nix::sys::socket::{ControlMessageOwned, recvmsg};
    use std::io::{IoSliceMut, Read, Seek};
    use std::os::fd::{FromRawFd, OwnedFd};

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = vec![0; 1 << 16];
        let mut space = cmsg_space!([i32; 1]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::empty();
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).unwrap();
        let n = message.bytes;
        let passed = message.cmsgs().unwrap().find_map(|c| match c {
            ControlMessageOwned::ScmRights(fds) => Some(fds[0]),
            _ => None,
        });
        let Some(fd) = passed else {
            return String::from_utf8(bytes[..n].to_vec()).unwrap();
        };
        // SAFETY: the kernel has just made this descriptor for this process.
        #[allow(unsafe_code)]
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        assert!(file.set_len(0).is_err(), "it is not sealed");
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn records_arrive_whatever_their_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::open(&path).unwrap();
        let values: &dyn log::kv::Source = &[("minion", "web1"), ("peer", "192.0.2.1:1")];
        let send = |args: std::fmt::Arguments| {
            let mut record = Record::builder();
            record.level(Level::Warn).target("halite_master::x");
            journal.send(&record.key_values(&values).args(args).build())
        };
        send(format_args!("a\nPRIORITY=0")).unwrap();
        let lines = heard(&socket);
        let lines: Vec<&str> = lines.lines().collect();
        let program = format!("SYSLOG_IDENTIFIER={}", program());
        assert_eq!(
            lines,
            [
                "PRIORITY=4",
                "MESSAGE=a\\nPRIORITY=0",
                program.as_str(),
                "LOGGER=halite.master.x",
                "HALITE_MINION=web1",
                "HALITE_PEER=192.0.2.1:1",
            ]
        );
        let large = "x".repeat(4 << 20);
        send(format_args!("{large}")).unwrap();
        let text = heard(&socket);
        assert!(text.contains(&format!("\nMESSAGE={large}\n")));
        drop(socket);
        assert!(send(format_args!("b")).is_err());
    }

    #[test]
    fn only_the_stream_of_the_journal_counts() {
        assert!(is_stream("8:12", 8, 12));
        for other in ["", "8", "8:13", "9:12", "8:12:1", "a:b"] {
            assert!(!is_stream(other, 8, 12), "{other}");
        }
    }
}
