//! Children that are this process fork_role in two, without a fresh execution of the program.
//!
//! A child shares with its parent, page by page, what neither of them writes: the parts of the program
//! and of its libraries that the loader has adapted, and the heap with the configuration. What an
//! execution would have brought besides is done here: descriptors that end with an execution are
//! closed, and environment, title, signals, standard input and random numbers become the child's own.
//!
//! Only a process of one thread may be fork_role: locks that another thread holds at that moment would
//! stay taken for ever in the child. Whoever splits takes care that the parent holds no secret that
//! the child must not have; [`in_child`] keeps secrets out of a parent.

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

/// Status of a child that could not become what it was to be (`EX_OSERR`).
const EXIT_BEGIN: i32 = 71;
/// Status of a child that panicked, as the main function's.
const EXIT_PANIC: i32 = 101;
/// More bytes than a thread's generator of random numbers has ready; it begins anew after these.
const RANDOM_AHEAD: usize = 512;

/// A child in a role: one that executed the program anew, or one that was fork_role off.
#[derive(Debug)]
pub enum RoleChild {
    /// Executed anew.
    Executed(Child),
    /// Split off.
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

    /// Its status if it has ended. Not to be asked again after that.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            RoleChild::Executed(child) => child.try_wait(),
            RoleChild::Split(pid) => Ok(status(waitpid(*pid, Some(WaitPidFlag::WNOHANG))?)),
        }
    }

    /// Waits for its end.
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

/// The status in the form of `wait(2)`; `None` for a change that is no end.
fn status(change: WaitStatus) -> Option<ExitStatus> {
    match change {
        WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
        WaitStatus::Signaled(_, signal, core) => {
            Some(ExitStatus::from_raw(signal as i32 | i32::from(core) << 7))
        }
        _ => None,
    }
}

/// Splits off a child in the role of `spec`, in a process group of its own and with its standard input
/// closed. The child calls `run` and ends with the status that it gives; nothing that the caller owns
/// is dropped there. SIGTERM and SIGINT reach it from [`signals::StopFlag::install`] on.
///
/// # Errors
/// Where a child could not become what an execution makes of it: this process has more than one
/// thread, or no room for titles ([`RoleSpec::exec`]). Then nothing has been done.
pub fn fork_role(
    spec: &RoleSpec,
    signals: &SignalPipe,
    run: impl FnOnce() -> i32,
) -> io::Result<RoleChild> {
    let own = Own::read()?;
    if own.title.1 < spec.title.len() + 2 {
        return Err(io::Error::other("no room for the title"));
    }
    let parent = Pid::this();
    // The words that made the room are empty; without this the process list shows blanks for them.
    own.end_title();
    if let Some(child) = fork(&own)? {
        return Ok(RoleChild::Split(child));
    }
    let begun = begin(spec, signals, &own, parent);
    end(|| match begun {
        Ok(()) => run(),
        Err(e) => {
            log::error!("{}: {e}", spec.role);
            EXIT_BEGIN
        }
    })
}

/// Does a piece of work in a child that ends with it, so that nothing of it stays in the memory of
/// this process. The inner error is the work's own.
///
/// # Errors
/// This process has more than one thread, or the child ended without a word.
pub fn in_child(work: impl FnOnce() -> Result<(), String>) -> io::Result<Result<(), String>> {
    let own = Own::read()?;
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    let Some(child) = fork(&own)? else {
        let mut write = File::from(write);
        end(|| {
            reseed();
            let _ = SigSet::empty().thread_set_mask();
            match work() {
                Ok(()) => 0,
                Err(why) => {
                    // Without a reader nobody is left to be told.
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

/// Ends this process, a child, with the status of `run`.
fn end(run: impl FnOnce() -> i32) -> ! {
    // What unwinds further would drop what belongs to the parent, its pid file for one.
    let status = catch_unwind(AssertUnwindSafe(run)).unwrap_or(EXIT_PANIC);
    std::process::exit(status)
}

/// What the kernel says of this process.
struct Own {
    threads: u64,
    /// Address and length of the words it was started with, which the process list shows.
    title: (usize, usize),
}

impl Own {
    fn read() -> io::Result<Own> {
        let text = std::fs::read_to_string("/proc/self/stat")?;
        Own::parse(&text).ok_or_else(|| io::Error::other("/proc/self/stat is not as it should be"))
    }

    fn parse(stat: &str) -> Option<Own> {
        let fields = stat_fields(stat);
        // proc(5) counts from 1.
        let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        let (from, to) = (field(48)?, field(49)?);
        let room = usize::try_from(to.checked_sub(from)?).ok()?;
        Some(Own {
            threads: field(20)?,
            title: (usize::try_from(from).ok()?, room),
        })
    }

    /// Writes the title over the words of the start, zeros behind it.
    fn retitle(&self, title: &[u8]) {
        let (_, room) = self.title;
        let mut area = vec![0u8; room.saturating_sub(1)];
        if let Some(place) = area.get_mut(..title.len()) {
            place.copy_from_slice(title);
            self.write(0, &area);
        }
        self.end_title();
    }

    /// Lets the process list show the words up to the first that is empty: the kernel takes them for a
    /// title when their last byte is no zero (`fs/proc/base.c`, `get_mm_cmdline`).
    fn end_title(&self) {
        self.write(self.title.1.saturating_sub(1), &[1]);
    }

    #[allow(unsafe_code)]
    fn write(&self, offset: usize, bytes: &[u8]) {
        let (at, room) = self.title;
        if at == 0 || offset + bytes.len() > room {
            return;
        }
        // SAFETY: the kernel names this range as the words with which this process was started. It
        // lies on its stack, is writable, and is read by nobody but copies made on demand
        // (`std::env::args`), of which none is being made: there is one thread.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (at + offset) as *mut u8, bytes.len())
        };
    }
}

/// Forks with all signals blocked in the child; in the parent they are as they were. `None` in the child.
fn fork(own: &Own) -> io::Result<Option<Pid>> {
    if own.threads != 1 {
        return Err(io::Error::other(format!(
            "{} threads run; only a process with one can be fork_role",
            own.threads
        )));
    }
    // What waits in a buffer would be written twice.
    let _ = io::stdout().flush();
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: there is one thread, so that no lock and no half-done allocation of another is copied.
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

/// Makes of a copy of the parent what an execution of the program would begin with.
fn begin(spec: &RoleSpec, signals: &SignalPipe, own: &Own, parent: Pid) -> io::Result<()> {
    nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    signals.release();
    close_private()?;
    let null = File::open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    // An account that gave up root's rights is closed to its own processes until it executes a program.
    nix::sys::prctl::set_dumpable(true)?;
    for (name, value) in spec.variables(parent.as_raw()) {
        // SAFETY: this process has one thread, so that nobody else reads the environment.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(name, value);
        }
    }
    own.retitle(std::ffi::OsStr::new(&spec.title).as_bytes());
    reseed();
    signals::hold_stop()?;
    Ok(())
}

/// Closes what an execution would close, except the log.
fn close_private() -> io::Result<()> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let log = super::logging::descriptors();
    let names = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<i32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|n| *n > 2 && !log.contains(n)) {
        // SAFETY: the number is only asked for its flags; one that is closed already is an error.
        #[allow(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = fcntl(descriptor, FcntlArg::F_GETFD);
        if flags.is_ok_and(|f| FdFlag::from_bits_retain(f).contains(FdFlag::FD_CLOEXEC)) {
            // Its owner is a value of the parent, which this process never touches or drops.
            let _ = nix::unistd::close(number);
        }
    }
    Ok(())
}

/// Throws away random numbers that the parent had ready, which another child would get as well. The
/// generator then notices that this is another process, and begins anew from the system's. Keys and
/// nonces do not come from it: they are taken from the system one by one.
fn reseed() {
    rand::RngCore::fill_bytes(&mut rand::thread_rng(), &mut [0; RANDOM_AHEAD]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read_whatever_the_name() {
        let fields: Vec<String> = (3..=52).map(|n| (n * 100).to_string()).collect();
        let own = Own::parse(&format!("7 (a) b) {}", fields.join(" "))).unwrap();
        assert_eq!((own.threads, own.title), (2000, (4800, 100)));
        assert!(Own::parse("7 (a) S 1").is_none());
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
