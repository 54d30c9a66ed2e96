//! Children forked from this process, without executing the program again.
//!
//! Parent and child share all pages that neither writes to: relocated parts of the program and its libraries,
//! and the heap with the configuration. What `exec` would do besides happens here: close-on-exec descriptors
//! are closed, and environment, title, signals, standard input and random numbers are reset.
//!
//! Only a single-threaded process may fork: a lock held by another thread would stay locked in the child for
//! ever. The caller makes sure that the parent holds no secret that the child must not have; [`in_child`] keeps
//! secrets out of a parent.

use super::process::{RoleSpec, stat_fields};
use super::signals::{self, SignalPipe};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ExitStatus};

/// Exit status of a child that could not be set up (`EX_OSERR`).
const EXIT_BEGIN: i32 = 71;
/// Exit status of a child that panicked, the same as for a panic in `main`.
const EXIT_PANIC: i32 = 101;
/// More bytes than a thread's random number generator buffers; drawing them makes it reseed.
const RANDOM_AHEAD: usize = 512;

/// A child process with a role, executed anew or forked.
#[derive(Debug)]
pub enum RoleChild {
    /// The program was executed again.
    Executed(Child),
    /// Forked from this process.
    Split(Pid),
}

impl RoleChild {
    /// Its process id.
    pub fn id(&self) -> i32 {
        match self {
            // A pid is never larger than an i32 holds.
            RoleChild::Executed(child) => child.id().cast_signed(),
            RoleChild::Split(pid) => pid.as_raw(),
        }
    }

    /// The exit status if it has exited. Do not call again after that.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            RoleChild::Executed(child) => child.try_wait(),
            RoleChild::Split(pid) => Ok(status(waitpid(*pid, Some(WaitPidFlag::WNOHANG))?)),
        }
    }

    /// Waits until it exits.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            RoleChild::Executed(child) => child.wait(),
            RoleChild::Split(pid) => wait(*pid),
        }
    }
}

fn wait(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match waitpid(pid, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
            Ok(change) => {
                if let Some(status) = status(change) {
                    return Ok(status);
                }
            }
        }
    }
}

/// Converts to a `wait(2)` status; `None` if the process has not exited.
fn status(change: WaitStatus) -> Option<ExitStatus> {
    match change {
        WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
        WaitStatus::Signaled(_, signal, core) => {
            Some(ExitStatus::from_raw(signal as i32 | i32::from(core) << 7))
        }
        _ => None,
    }
}

/// Forks a child in the role of `spec`, in its own process group and with its standard input closed. The child
/// calls `run` and exits with the status that it returns, without dropping anything the caller owns. SIGTERM
/// and SIGINT are blocked in it until [`signals::StopFlag::install`].
///
/// # Errors
/// This process has more than one thread, or no room for titles ([`RoleSpec::exec`]). Nothing has been done
/// then.
pub fn fork_role(
    spec: &RoleSpec,
    signals: &SignalPipe,
    run: impl FnOnce() -> i32,
) -> io::Result<RoleChild> {
    let stat = ProcStat::read()?;
    if stat.title.1 < spec.title.len() + 2 {
        return Err(io::Error::other("no room for the title"));
    }
    let parent = Pid::this();
    // The arguments that reserve room are empty; without this the process list shows blanks for them.
    stat.end_title();
    if let Some(child) = fork(&stat)? {
        return Ok(RoleChild::Split(child));
    }
    let begun = begin(spec, signals, &stat, parent);
    end(|| match begun {
        Ok(()) => run(),
        Err(e) => {
            log::error!("{}: {e}", spec.role);
            EXIT_BEGIN
        }
    })
}

/// Runs `work` in a child, so that nothing of it stays in the memory of this process. The inner error is that
/// of `work`.
///
/// # Errors
/// This process has more than one thread, or the child died without a report.
pub fn in_child(work: impl FnOnce() -> Result<(), String>) -> io::Result<Result<(), String>> {
    let stat = ProcStat::read()?;
    let parent = nix::unistd::getpid();
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    let Some(child) = fork(&stat)? else {
        let mut write = File::from(write);
        end(|| {
            // It does nothing on its own; the parent may have died before the call took effect.
            let tied = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM);
            if tied.is_err() || nix::unistd::getppid() != parent {
                return 1;
            }
            reseed();
            let _ = SigSet::empty().thread_set_mask();
            match work() {
                Ok(()) => 0,
                Err(why) => {
                    // Without a reader there is nobody to report to.
                    let _ = write.write_all(why.as_bytes());
                    1
                }
            }
        })
    };
    drop(write);
    let mut said = String::new();
    let heard = File::from(read).read_to_string(&mut said);
    let status = wait(child)?;
    heard?;
    match status.code() {
        Some(0) => Ok(Ok(())),
        Some(1) => Ok(Err(said)),
        _ => Err(io::Error::other(format!("a child ended ({status})"))),
    }
}

/// Exits from this process, a child, with the status of `run`.
fn end(run: impl FnOnce() -> i32) -> ! {
    // Unwinding further would drop what belongs to the parent, its pid file for one.
    let status = catch_unwind(AssertUnwindSafe(run)).unwrap_or(EXIT_PANIC);
    std::process::exit(status)
}

/// Facts about this process from `/proc/self/stat`.
struct ProcStat {
    threads: u64,
    /// Address and length of the program's arguments, which the process list shows.
    title: (usize, usize),
}

impl ProcStat {
    fn read() -> io::Result<ProcStat> {
        let text = std::fs::read_to_string("/proc/self/stat")?;
        ProcStat::parse(&text).ok_or_else(|| io::Error::other("cannot parse /proc/self/stat"))
    }

    fn parse(stat: &str) -> Option<ProcStat> {
        let fields = stat_fields(stat);
        // proc(5) counts from 1.
        let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        let (from, to) = (field(48)?, field(49)?);
        let room = usize::try_from(to.checked_sub(from)?).ok()?;
        Some(ProcStat {
            threads: field(20)?,
            title: (usize::try_from(from).ok()?, room),
        })
    }

    /// Overwrites the program's arguments with the title, padded with zeros.
    fn retitle(&self, title: &[u8]) {
        let (_, room) = self.title;
        let mut area = vec![0u8; room.saturating_sub(1)];
        if let Some(place) = area.get_mut(..title.len()) {
            place.copy_from_slice(title);
            self.write(0, &area);
        }
        self.end_title();
    }

    /// Makes the process list show the arguments up to the first empty one only: the kernel treats them as a
    /// title when their last byte is not zero (`fs/proc/base.c`, `get_mm_cmdline`).
    fn end_title(&self) {
        self.write(self.title.1.saturating_sub(1), &[1]);
    }

    #[allow(unsafe_code)]
    fn write(&self, offset: usize, bytes: &[u8]) {
        let (at, room) = self.title;
        if at == 0 || offset + bytes.len() > room {
            return;
        }
        // SAFETY: the kernel reports this range as the arguments of this process. It is on the stack, writable,
        // and only read when a copy is made on demand (`std::env::args`), which cannot happen now: there is one
        // thread.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (at + offset) as *mut u8, bytes.len())
        };
    }
}

/// Forks with all signals blocked in the child; the parent's mask is restored. Returns `None` in the child.
fn fork(stat: &ProcStat) -> io::Result<Option<Pid>> {
    if stat.threads != 1 {
        return Err(io::Error::other(format!(
            "{} threads run; only a process with one can fork",
            stat.threads
        )));
    }
    // Buffered output would be written twice.
    let _ = io::stdout().flush();
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: there is one thread, so no other thread holds a lock or is in the middle of an allocation.
    #[allow(unsafe_code)]
    let forked = unsafe { nix::unistd::fork() };
    match forked {
        Ok(ForkResult::Child) => Ok(None),
        Ok(ForkResult::Parent { child }) => {
            before.thread_set_mask()?;
            Ok(Some(child))
        }
        Err(e) => {
            before.thread_set_mask()?;
            Err(e.into())
        }
    }
}

/// Resets a forked child to the state of a freshly executed program.
fn begin(spec: &RoleSpec, signals: &SignalPipe, stat: &ProcStat, parent: Pid) -> io::Result<()> {
    nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    signals.release();
    close_private()?;
    let null = File::open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    for (name, value) in spec.variables(parent.as_raw()) {
        // SAFETY: this process has one thread, so nobody else reads the environment.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(name, value);
        }
    }
    stat.retitle(std::ffi::OsStr::new(&spec.title).as_bytes());
    reseed();
    signals::hold_stop()?;
    Ok(())
}

/// Closes the descriptors that `exec` would close, except those of the log.
fn close_private() -> io::Result<()> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let log = super::logging::descriptors();
    let names = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<i32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|n| *n > 2 && !log.contains(n)) {
        // SAFETY: only the flags of the descriptor are read; one that is closed already gives an error.
        #[allow(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = fcntl(descriptor, FcntlArg::F_GETFD);
        if flags.is_ok_and(|f| FdFlag::from_bits_retain(f).contains(FdFlag::FD_CLOEXEC)) {
            // The owner is a value of the parent, which this process never touches or drops.
            let _ = nix::unistd::close(number);
        }
    }
    Ok(())
}

/// Discards random numbers buffered in the parent, which other children would get as well. The generator then
/// notices the fork and reseeds from the system. Keys and nonces do not come from it: they are read directly
/// from the system.
fn reseed() {
    rand::RngCore::fill_bytes(&mut rand::thread_rng(), &mut [0; RANDOM_AHEAD]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read_whatever_the_name() {
        let fields: Vec<String> = (3..=52).map(|n| (n * 100).to_string()).collect();
        let stat = ProcStat::parse(&format!("7 (a) b) {}", fields.join(" "))).unwrap();
        assert_eq!((stat.threads, stat.title), (2000, (4800, 100)));
        assert!(ProcStat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn ends_have_the_form_of_the_system() {
        let pid = Pid::from_raw(7);
        let code = status(WaitStatus::Exited(pid, 4)).unwrap();
        assert_eq!((code.code(), code.signal()), (Some(4), None));
        let killed = status(WaitStatus::Signaled(
            pid,
            nix::sys::signal::Signal::SIGKILL,
            false,
        ));
        assert_eq!(killed.unwrap().signal(), Some(9));
        assert!(status(WaitStatus::StillAlive).is_none());
    }
}
