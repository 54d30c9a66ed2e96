//! Signals turned into a flag and a descriptor to poll.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// Set when SIGTERM or SIGINT has arrived.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Installs handlers for SIGTERM and SIGINT. Signals held back by `hold_stop` arrive then.
    pub fn install() -> io::Result<StopFlag> {
        let flag = StopFlag::default();
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, flag.0.clone())?;
        }
        stop_signals().thread_unblock()?;
        Ok(flag)
    }

    /// A stream that becomes readable on SIGTERM or SIGINT, for loops that poll.
    pub fn descriptor(&self) -> io::Result<UnixStream> {
        let (read, write) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(read)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Requests a stop, as a signal would.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag by reference.
    pub fn shared(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag as an `Arc`, for threads.
    pub fn arc(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// SIGTERM and SIGINT.
fn stop_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT])
}

/// Unblocks all signals in the calling thread, except SIGTERM and SIGINT, which stay blocked until
/// [`StopFlag::install`].
pub(super) fn hold_stop() -> io::Result<()> {
    Ok(stop_signals().thread_set_mask()?)
}

/// Makes SIGUSR1 act as SIGTERM. The returned flag tells that it was SIGUSR1.
///
/// # Errors
/// The handler cannot be installed.
#[allow(unsafe_code)]
pub fn stop_on_usr1() -> io::Result<Arc<AtomicBool>> {
    let mark = Arc::new(AtomicBool::new(false));
    let set = mark.clone();
    let handler = move || {
        set.store(true, Ordering::Relaxed);
        let _ = signal_hook::low_level::raise(SIGTERM);
    };
    // SAFETY: a handler may write to an atomic and raise a signal (signal-safety(7)).
    unsafe { signal_hook::low_level::register(SIGUSR1, handler) }?;
    Ok(mark)
}

/// A descriptor that becomes readable when one of the supervisor's signals arrives.
pub struct SignalPipe {
    read: UnixStream,
    handlers: Vec<SigId>,
    /// SIGTERM or SIGINT.
    pub stop: StopFlag,
    /// SIGHUP.
    pub reload: Arc<AtomicBool>,
}

impl SignalPipe {
    /// Installs handlers for SIGCHLD, SIGTERM, SIGINT and SIGHUP.
    pub fn install() -> io::Result<SignalPipe> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let stop = StopFlag::install()?;
        let reload = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, reload.clone())?;
        let mut handlers = Vec::new();
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP] {
            let write = write.try_clone()?;
            handlers.push(signal_hook::low_level::pipe::register(signal, write)?);
        }
        Ok(SignalPipe {
            read,
            handlers,
            stop,
            reload,
        })
    }

    /// In a forked child: stops signals from writing to the pipe, which is the parent's.
    pub(super) fn release(&self) {
        for handler in &self.handlers {
            signal_hook::low_level::unregister(*handler);
        }
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

    /// Returns and clears the SIGHUP flag.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

impl AsRawFd for SignalPipe {
    fn as_raw_fd(&self) -> i32 {
        self.read.as_raw_fd()
    }
}
