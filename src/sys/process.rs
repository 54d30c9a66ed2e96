//! Starting this program again in another role.
//!
//! A role is a fresh execution of the same binary, so no ZeroMQ context, lock or secret of the parent is
//! inherited by accident. The title in the process list is simply `argv[0]`, so parameters of the role are
//! passed in environment variables. A parent that has none of these may fork a role instead ([`super::fork`]).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Environment variable that names the role.
pub const ROLE: &str = "HALITE_ROLE";
const ARGS: &str = "HALITE_ARGS";
/// Environment variable with the descriptor on which a role reports that it serves.
pub const READY_FD: &str = "HALITE_READY_FD";
/// Environment variable with the command line that a role shows.
pub const TITLE: &str = "HALITE_TITLE";
/// Cannot occur in an argument of ours; the process list shows only the title.
const SEPARATOR: &str = "\u{1f}";
const PARENT: &str = "HALITE_PARENT";

/// Empty arguments behind the title of a process that forks: its children have longer titles.
const TITLE_ROOM: usize = 64;

/// Longest name the kernel keeps for a task.
const COMM_LEN: usize = 15;

/// How to start a role process.
#[derive(Clone, Debug)]
pub struct RoleSpec {
    /// Role name, read back with [`role`].
    pub role: String,
    /// Title in the process list.
    pub title: String,
    /// Additional environment variables.
    pub env: Vec<(String, OsString)>,
}

impl RoleSpec {
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(program()?);
        command
            .arg0(&self.title)
            .envs(self.variables(std::process::id().cast_signed()));
        Ok(command)
    }

    /// The environment of the role, a child of `parent`.
    pub(super) fn variables(&self, parent: i32) -> Vec<(&str, OsString)> {
        let mut out = vec![
            (ARGS, arguments().join(OsStr::new(SEPARATOR))),
            (ROLE, OsString::from(&self.role)),
            (PARENT, parent.to_string().into()),
        ];
        out.extend(self.env.iter().map(|(k, v)| (k.as_str(), v.clone())));
        out
    }

    /// Starts the role as a child with its standard input closed, in its own process group: Ctrl-C in a
    /// terminal reaches only the supervisor, which stops the roles in order.
    pub fn spawn(&self) -> io::Result<Child> {
        self.command()?
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
    }

    /// Starts a role that works on its own and may outlive its parent. It reads `order` from standard input, an
    /// anonymous memory file.
    pub fn spawn_detached(&self, order: &[u8]) -> io::Result<Child> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use std::io::{Seek, Write};
        let mut file = std::fs::File::from(memfd_create(c"halite-order", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(order)?;
        file.rewind()?;
        self.command()?
            .env_remove(PARENT)
            .env_remove(crate::shared::SHARED_FD)
            .env_remove(crate::scoreboard::BOARD_FD)
            .process_group(0)
            .stdin(file)
            .spawn()
    }

    /// Becomes the role, keeping the process id. Returns only on failure. Reserves room in the process list for
    /// the titles of forked children.
    pub fn exec(&self) -> io::Error {
        match self.command() {
            Ok(mut command) => command
                .args(std::iter::repeat_n("", TITLE_ROOM))
                .env_remove(PARENT)
                .exec(),
            Err(e) => e,
        }
    }
}

/// This program, for starting it again: the running executable, even if an upgrade has replaced the file since.
pub fn program() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() {
        return Ok(own.to_owned());
    }
    std::env::current_exe()
}

/// The write end of a pipe whose descriptor is in an environment variable. It is reopened and the inherited
/// descriptor closed, so that children of this process do not keep the pipe open.
pub fn take_inherited(variable: &str) -> Option<std::fs::File> {
    let fd: i32 = std::env::var(variable)
        .ok()?
        .parse()
        .ok()
        .filter(|fd| *fd > 2)?;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{fd}"))
        .ok()?;
    // It may be closed already.
    let _ = nix::unistd::close(fd);
    Some(file)
}

/// The arguments with which this family of processes was started, without the program name.
pub fn arguments() -> Vec<OsString> {
    use std::os::unix::ffi::OsStrExt;
    match std::env::var_os(ARGS) {
        None => std::env::args_os().skip(1).collect(),
        Some(all) if all.is_empty() => Vec::new(),
        Some(all) => all
            .as_bytes()
            .split(|b| *b == SEPARATOR.as_bytes()[0])
            .map(|a| OsStr::from_bytes(a).to_owned())
            .collect(),
    }
}

/// Variables that tell a process of a family what it is.
pub const FAMILY: [&str; 8] = [
    ROLE,
    ARGS,
    PARENT,
    TITLE,
    READY_FD,
    crate::shared::SHARED_FD,
    crate::scoreboard::BOARD_FD,
    crate::scoreboard::BOARD_SLOT,
];

/// Clears the variables of a family for `command`, which may be another program of ours and would otherwise take over
/// this role's arguments.
pub fn leave_family(command: &mut Command) -> &mut Command {
    for variable in FAMILY {
        command.env_remove(variable);
    }
    command
}

/// Lets a program lead a session of its own, so that it has no terminal of ours to type into (`TIOCSTI`), and gives it no
/// descriptors but its standard ones. libzmq's are not closed on `exec`, and what is written into its epoll instances are
/// pointers that our threads follow.
pub fn apart(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only system calls are made, none of which allocates or takes a lock.
    #[allow(unsafe_code)]
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, || {
            nix::unistd::setsid()?;
            // The descriptor that tells of a failed exec has to stay until then. Linux before 5.9 has no such call, and before
            // 5.11 no such flag.
            if nix::libc::syscall(
                nix::libc::SYS_close_range,
                3_u32,
                u32::MAX,
                nix::libc::CLOSE_RANGE_CLOEXEC,
            ) != 0
            {
                for number in 3..1024 {
                    nix::libc::fcntl(number, nix::libc::F_SETFD, nix::libc::FD_CLOEXEC);
                }
            }
            Ok(())
        })
    }
}

/// The role in which this process was started, if any.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Sets the short name of this process and ties its life to its parent: if a supervisor is killed, its roles
/// get SIGTERM instead of living on as orphans.
pub fn tie_to_parent(name: &str) {
    set_name(name);
    let Some(parent): Option<i32> = std::env::var(PARENT).ok().and_then(|p| p.parse().ok()) else {
        return;
    };
    if nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).is_err() {
        return;
    }
    // The parent may have died before the call above took effect.
    if nix::unistd::getppid().as_raw() != parent {
        std::process::exit(0);
    }
}

/// Sets the name of this process in the kernel's task list.
pub fn set_name(name: &str) {
    let short: String = name.chars().take(COMM_LEN).collect();
    if let Ok(short) = std::ffi::CString::new(short) {
        // Cosmetic; failure does no harm.
        let _ = nix::sys::prctl::set_name(&short);
    }
}

/// Keeps the memory of this process to itself: no core dump contains its keys, and no other process of the account
/// can read or trace it. For every program at its start; a program that it starts decides for itself.
pub fn protect_memory() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // The hard limit stays, so that jobs of a minion can have what the operator allows.
    let limited = getrlimit(Resource::RLIMIT_CORE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_CORE, 0, hard));
    if let Err(e) = limited.and_then(|()| nix::sys::prctl::set_dumpable(false)) {
        eprintln!("core dumps of this process cannot be prevented: {e}");
    }
}

/// Raises the soft limit of open descriptors towards `wanted`; returns the limit in force.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(soft);
    }
    let target = wanted.min(hard);
    setrlimit(Resource::RLIMIT_NOFILE, target, hard)?;
    Ok(target)
}

/// The fields of `/proc/<pid>/stat` from the third (the state) on, see proc(5). The name before them may
/// contain anything, even parentheses. Empty if the text has another format.
pub fn stat_fields(stat: &str) -> Vec<&str> {
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().collect()
}

/// Resident memory of this process in bytes; 0 if the kernel does not say.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok())
        .unwrap_or(0);
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten();
    pages * page.and_then(|n| u64::try_from(n).ok()).unwrap_or(4096)
}

/// Switches to the account `name` and its groups. Does nothing if the process already runs as that account.
pub fn drop_privileges(name: &str) -> io::Result<()> {
    use nix::unistd::{User, geteuid, initgroups, setgid, setuid};
    let user = User::from_name(name)?.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("The user is not available. The account {name:?} (option `user`) does not exist on this host"),
        )
    })?;
    if user.uid == geteuid() {
        return Ok(());
    }
    let own = user_name();
    if !geteuid().is_root() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "only root can change to the account {name:?}; start as {name}, or set the option `user` to {own:?}"
            ),
        ));
    }
    let login = std::ffi::CString::new(name).map_err(io::Error::other)?;
    initgroups(&login, user.gid)?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    Ok(())
}

/// Name of the account this process runs as.
pub fn user_name() -> String {
    let uid = nix::unistd::geteuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// Adds to the nice value of the calling thread and of threads that it starts later; returns the new value.
///
/// # Errors
/// The account may not raise the priority.
#[allow(unsafe_code)]
pub fn add_nice(increment: i32) -> std::io::Result<i32> {
    nix::errno::Errno::clear();
    // SAFETY: takes and returns a number.
    let now = unsafe { nix::libc::nice(increment) };
    // -1 is also a valid nice value.
    match nix::errno::Errno::last() {
        nix::errno::Errno::UnknownErrno => Ok(now),
        _ if now != -1 => Ok(now),
        error => Err(error.into()),
    }
}

/// The I/O priority of a process: class (0 none, 1 real time, 2 best effort, 3 idle) and level; `None` if there
/// is no such process or the kernel does not say.
pub fn io_priority(pid: i32) -> Option<(i64, i64)> {
    const WHO_PROCESS: i32 = 1;
    const CLASS_SHIFT: u32 = 13;
    // SAFETY: takes two numbers and touches no memory of this process.
    #[allow(unsafe_code)]
    let value = unsafe { nix::libc::syscall(nix::libc::SYS_ioprio_get, WHO_PROCESS, pid) };
    // The width of the result depends on the machine.
    #[allow(clippy::useless_conversion)]
    let value = i64::from(value);
    (value >= 0).then_some((value >> CLASS_SHIFT, value & ((1 << CLASS_SHIFT) - 1)))
}

/// Whether another process holds an `fcntl` lock on a file that we may write to.
pub fn is_locked(file: &std::fs::File) -> bool {
    let mut lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    let asked = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETLK(&mut lock));
    asked.is_ok() && lock.l_type != nix::libc::F_UNLCK as i16
}
