//! Signals turned into a flag and a descriptor to poll.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Set when SIGTERM, SIGINT or SIGQUIT has arrived.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Installs handlers for SIGTERM, SIGINT and SIGQUIT. Signals held back by `hold_stop` arrive then.
    pub fn install() -> io::Result<StopFlag> {
        let flag = StopFlag::default();
        for signal in STOPPING {
            signal_hook::flag::register(signal, flag.0.clone())?;
        }
        stop_signals().thread_unblock()?;
        Ok(flag)
    }

    /// A stream that becomes readable on SIGTERM, SIGINT or SIGQUIT, for loops that poll.
    pub fn descriptor(&self) -> io::Result<UnixStream> {
        let (read, write) = UnixStream::pair()?;
        for signal in STOPPING {
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

/// The signals that end a daemon.
const STOPPING: [i32; 3] = [SIGTERM, SIGINT, SIGQUIT];

fn stop_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT])
}

/// Unblocks all signals in the calling thread, except those that end a daemon, which stay blocked until
/// [`StopFlag::install`].
pub(super) fn hold_stop() -> io::Result<()> {
    Ok(stop_signals().thread_set_mask()?)
}

/// Set by SIGUSR1.
static REPORT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// For daemons: from here on, only SIGTERM, SIGINT and SIGQUIT end this process, beside what cannot be caught and
/// faults. SIGUSR1 asks for a report ([`take_report`]), all others do nothing. Programs that this process starts have
/// the default actions again.
///
/// # Errors
/// A handler cannot be installed.
pub(super) fn survive_others() -> io::Result<()> {
    let report = REPORT.get_or_init(Arc::default);
    signal_hook::flag::register(SIGUSR1, report.clone())?;
    let ignored = Arc::new(AtomicBool::new(false));
    let real_time = nix::libc::SIGRTMIN()..=nix::libc::SIGRTMAX();
    for signal in ENDING.into_iter().chain(real_time) {
        signal_hook::flag::register(signal, ignored.clone())?;
    }
    Ok(())
}

/// Signals whose default action ends a process, without faults and those that end a daemon.
const ENDING: [i32; 10] = [
    SIGHUP,
    SIGUSR2,
    nix::libc::SIGALRM,
    nix::libc::SIGVTALRM,
    nix::libc::SIGPROF,
    nix::libc::SIGIO,
    nix::libc::SIGPWR,
    nix::libc::SIGSTKFLT,
    nix::libc::SIGXCPU,
    nix::libc::SIGXFSZ,
];

/// Returns and clears whether SIGUSR1 has asked for a report.
pub(super) fn take_report() -> bool {
    REPORT
        .get()
        .is_some_and(|asked| asked.swap(false, Ordering::Relaxed))
}

/// A flag that SIGQUIT sets, beside stopping the process: a minion then leaves its jobs running.
///
/// # Errors
/// The handler cannot be installed.
pub fn quit_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGQUIT, flag.clone())?;
    Ok(flag)
}

/// A descriptor that becomes readable when one of the supervisor's signals arrives.
pub struct SignalPipe {
    read: UnixStream,
    handlers: Vec<SigId>,
    /// SIGTERM, SIGINT or SIGQUIT.
    pub stop: StopFlag,
    /// SIGHUP.
    pub reload: Arc<AtomicBool>,
}

impl SignalPipe {
    /// Installs handlers for SIGCHLD, SIGHUP, SIGUSR1 and the signals that end a daemon.
    pub fn install() -> io::Result<SignalPipe> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let stop = StopFlag::install()?;
        let reload = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, reload.clone())?;
        let mut handlers = Vec::new();
        for signal in STOPPING.into_iter().chain([SIGCHLD, SIGHUP, SIGUSR1]) {
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
