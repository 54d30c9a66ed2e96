//! Signals turned into a flag and a descriptor to poll.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

/// Set when SIGTERM or SIGINT has arrived.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Installs the handlers of SIGTERM and SIGINT.
    pub fn install() -> io::Result<StopFlag> {
        let flag = StopFlag::default();
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, flag.0.clone())?;
        }
        Ok(flag)
    }

    /// A stream that becomes readable with SIGTERM or SIGINT, for loops that poll.
    pub fn descriptor(&self) -> io::Result<UnixStream> {
        let (read, write) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(read)
    }

    /// Whether it is time to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks for the end, as a signal would.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for loops that take one.
    pub fn shared(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag shared, for threads.
    pub fn arc(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// A descriptor that becomes readable when one of the supervisor's signals arrives.
pub struct SignalPipe {
    read: UnixStream,
    /// SIGTERM or SIGINT.
    pub stop: StopFlag,
    /// SIGHUP.
    pub reload: Arc<AtomicBool>,
}

impl SignalPipe {
    /// Installs handlers of SIGCHLD, SIGTERM, SIGINT and SIGHUP.
    pub fn install() -> io::Result<SignalPipe> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let stop = StopFlag::install()?;
        let reload = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, reload.clone())?;
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(SignalPipe { read, stop, reload })
    }

    /// Waits for a signal, or for `extra` to become readable, at most `timeout` ms.
    pub fn wait(&self, extra: &[std::os::fd::BorrowedFd], timeout: u16) -> io::Result<()> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut fds = vec![PollFd::new(self.read.as_fd(), PollFlags::POLLIN)];
        fds.extend(extra.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::from(timeout)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let mut sink = [0u8; 64];
        while io::Read::read(&mut &self.read, &mut sink).is_ok_and(|n| n > 0) {}
        Ok(())
    }

    /// Takes the SIGHUP mark.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

impl AsRawFd for SignalPipe {
    fn as_raw_fd(&self) -> i32 {
        self.read.as_raw_fd()
    }
}
