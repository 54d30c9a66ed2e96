//! MainProcess: the supervisor.
//!
//! Owns the children, the pid file, the instance lock and the memory file with the AES key, which it never
//! reads. Binds nothing, has no ZeroMQ context and no key, and a single thread: so its children can be forked
//! from it, and share its configuration and the loaded program.
//!
//! A child that exits is started again, at once if it had served for a while, else after a pause that doubles
//! up to ten seconds. It is then executed anew: nothing that made it exit, not even its memory layout, is in
//! the next one. A child that cannot bind (status 4) ends the master with that status. If the supervisor itself
//! is killed, its children get SIGTERM from the kernel. The service manager's watchdog is notified only while
//! all roles except the gateways serve and none of them is silent. On SIGTERM the request server first answers
//! pending requests, then all roles stop; those left after three seconds are killed.

mod places;

pub use places::{chown_logs, hand_over};

use self::places::{become_user, make_keys, make_places, prepare, take_over_key};
use super::reqserver::{EXIT_BIND, Pools};
use super::roles::{RoleInfo, TOPOLOGY};
use super::score;
use halite_config::MasterConfig;
use halite_sys::daemon::{InstanceLock, PidFile, Report};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::fork::{RoleChild, fork_role};
use halite_sys::memory::{IdleDetector, trim_memory};
use halite_sys::process::{READY_FD, RoleSpec, user_name};
use halite_sys::scoreboard::{BOARD_FD, BOARD_SLOT, Scoreboard};
use halite_sys::service::Service;
use halite_sys::shared::{SHARED_FD, SharedSecret};
use halite_sys::signals::SignalPipe;
use halite_sys::time::unix_now;
use halite_wire::Map;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Environment variable that passes the configuration directory to roles.
pub const CONFIG_DIR: &str = "HALITE_CONFIG_DIR";
/// Environment variable that passes the command line's log level to roles.
pub const LOG_LEVEL: &str = "HALITE_LOG_LEVEL";

const STOP_LIMIT: Duration = Duration::from_millis(2700);
const DRAIN_LIMIT: Duration = Duration::from_millis(1800);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A child that lived this long is not in a crash loop.
const SERVED: Duration = Duration::from_secs(5);
const START_LIMIT: Duration = Duration::from_secs(60);
/// This process in its report.
const ROLE: &str = "MainProcess";
/// Status line of a master that serves.
const SERVES: &str = "all roles serve";

struct Role {
    spec: RoleSpec,
    child: Option<RoleChild>,
    started: Instant,
    pause: Duration,
    due: Option<Instant>,
    ready: Option<std::fs::File>,
    served: bool,
    restarts: u64,
}

/// Runs the master until SIGTERM. `command` is the command line for the process list; `run` runs the role of
/// the given name in a child process and returns its exit status.
pub fn supervise(
    config: &MasterConfig,
    command: &str,
    report: &mut Report,
    run: &dyn Fn(&str) -> i32,
) -> Result<(), ExitError> {
    let starter = user_name();
    make_places(config)?;
    let lock_path = config.instance_lock();
    let Some(_lock) = InstanceLock::take(&lock_path)? else {
        return Err(ExitError::new(
            EXIT_BIND,
            format!(
                "another halite-master already runs with sock_dir {}; stop it, or give this one its own sock_dir",
                config.sock_dir.display()
            ),
        ));
    };
    let _pid = PidFile::write(&config.pidfile)
        .map_err(|e| ExitError::new(1, format!("pid file {}: {e}", config.pidfile.display())))?;
    become_user(config)?;
    prepare(config)?;
    let shared = SharedSecret::create()?;
    take_over_key(config, run)?;
    make_keys(config, &starter, &shared)?;
    let signals = SignalPipe::install()?;
    let mut roles = table(config, command);
    let board = Scoreboard::create(roles.len() + 1)?;
    inherit(&mut roles, &shared, &board);
    let mut service = Service::inherited();
    let mut watch = Watch {
        service: &mut service,
        report,
        board: &board,
        request_timeout: config.request_timeout,
    };
    let outcome = serve(&mut roles, &signals, &mut watch, run);
    service.stopping();
    shut_down(&mut roles, &signals);
    outcome
}

fn table(config: &MasterConfig, command: &str) -> Vec<Role> {
    let mut out = Vec::new();
    let wanted = |r: &&RoleInfo| r.name != "main" && (r.is_enabled)(config);
    for info in TOPOLOGY.iter().filter(wanted) {
        if info.name == "worker" {
            for name in Pools::new(config).worker_names() {
                let title = format!("{command} ReqServer {name}");
                out.push(role(&name, title));
            }
        } else {
            out.push(role(info.name, format!("{command} {}", info.title)));
        }
    }
    out
}

/// Sets the environment of the roles: the shared key, the scoreboard and the role's slot. The first slot is the
/// supervisor's own.
fn inherit(roles: &mut [Role], shared: &SharedSecret, board: &Scoreboard) {
    for (n, role) in roles.iter_mut().enumerate() {
        role.spec.env = [
            (SHARED_FD, shared.fd()),
            (BOARD_FD, board.fd()),
            (BOARD_SLOT, n as i32 + 1),
        ]
        .map(|(name, number)| (name.to_owned(), OsString::from(number.to_string())))
        .into();
    }
}

fn role(name: &str, title: String) -> Role {
    Role {
        spec: RoleSpec {
            role: name.to_owned(),
            title,
            env: Vec::new(),
        },
        child: None,
        started: Instant::now(),
        pause: FIRST_PAUSE,
        due: Some(Instant::now()),
        ready: None,
        served: false,
        restarts: 0,
    }
}

impl Role {
    fn start(&mut self, signals: &SignalPipe, run: &dyn Fn(&str) -> i32) -> Result<(), ExitError> {
        let (read, write) = nix::unistd::pipe().map_err(std::io::Error::from)?;
        nix::fcntl::fcntl(
            &read,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
        )
        .map_err(std::io::Error::from)?;
        let mut spec = self.spec.clone();
        spec.env
            .push((READY_FD.to_owned(), write.as_raw_fd().to_string().into()));
        let child = match self.restarts {
            0 => fork_role(&spec, signals, || run(&spec.role)).or_else(|e| {
                log::debug!("{} is executed, not forked: {e}", self.spec.role);
                spec.spawn().map(RoleChild::Executed)
            }),
            _ => spec.spawn().map(RoleChild::Executed),
        };
        let child = child
            .map_err(|e| ExitError::new(1, format!("cannot start {}: {e}", self.spec.role)))?;
        log::debug!("{} is process {}", self.spec.role, child.id());
        self.child = Some(child);
        self.ready = Some(read.into());
        self.started = Instant::now();
        self.due = None;
        Ok(())
    }

    /// Whether the master's start waits for it. A gateway that cannot run must not affect the Salt minions.
    fn is_awaited(&self) -> bool {
        let given_up = is_gateway(&self.spec.role) && self.restarts > 0;
        !self.served && !given_up
    }

    /// Whether it runs and has reported that it serves.
    fn serves(&self) -> bool {
        self.child.is_some() && self.ready.is_none()
    }

    /// Checks whether the child has exited; if so, returns its status.
    fn reap(&mut self) -> Option<std::process::ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        self.ready = None;
        Some(status)
    }

    fn restart_later(&mut self, status: std::process::ExitStatus) {
        self.restarts += 1;
        self.pause = if self.started.elapsed() > SERVED {
            FIRST_PAUSE
        } else {
            (self.pause * 2).min(LONGEST_PAUSE)
        };
        let pause = if self.started.elapsed() > SERVED {
            Duration::ZERO
        } else {
            self.pause
        };
        self.due = Some(Instant::now() + pause);
        log::error!(
            "{} exited ({status}); restarting it in {pause:?}",
            self.spec.role
        );
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // The child is ours and not reaped yet, so its pid cannot have been reused.
            let _ = kill(Pid::from_raw(child.id()), signal);
        }
    }
}

/// What SIGUSR1 asks for: each role, with its counters and threads.
fn report(roles: &[Role], board: &Scoreboard) -> String {
    let records = score::all(board);
    let mut out = String::new();
    for role in roles {
        let state = if role.serves() {
            "serves"
        } else {
            "does not serve"
        };
        out += &format!("{}: {state}, {} restarts\n", role.spec.title, role.restarts);
        let of_role = |r: &&Map| r.str("role") == Some(role.spec.role.as_str());
        if let Some(record) = records.iter().find(of_role) {
            out += &score::show(record);
        }
        if let Some(child) = &role.child {
            out += &debug_report::describe(child.id().cast_unsigned());
        }
    }
    out + ROLE + "\n"
}

/// Publishes how often each role was restarted, and which do not serve.
fn publish(board: &Scoreboard, roles: &[Role], since: u64) {
    let restarts: Map = roles
        .iter()
        .map(|r| (r.spec.role.as_str(), r.restarts))
        .collect();
    let down: Vec<String> = roles
        .iter()
        .filter(|r| !r.serves())
        .map(|r| r.spec.role.clone())
        .collect();
    let counters = halite_wire::map! {"restarts" => restarts, "since" => since, "down" => down};
    if let Err(e) = score::put(board, 0, "main", counters) {
        log::debug!("the restarts cannot be published: {e}");
    }
}

/// Reports the master's state to the service manager and the starting process.
struct Watch<'a> {
    service: &'a mut Service,
    report: &'a mut Report,
    board: &'a Scoreboard,
    /// How long a worker may be silent because of a request, in seconds.
    request_timeout: u64,
}

impl Watch<'_> {
    /// The master serves now.
    fn ready(&mut self) {
        self.report.ready();
        self.service.ready(SERVES);
    }

    /// Sends the watchdog notification, or sets the status line to what is wrong.
    fn beat(&mut self, roles: &[Role]) {
        if !self.service.is_due() {
            return;
        }
        let faults = self.faults(roles);
        self.service.beat(faults.is_empty());
        if faults.is_empty() {
            self.service.status(SERVES)
        } else {
            let faults = faults.join(", ");
            self.service.status(&format!("not healthy: {faults}"));
        }
    }

    /// Roles that do not serve, and those that hang. Gateways do not count: restarting everything because of
    /// one would take the master from the Salt minions.
    fn faults(&self, roles: &[Role]) -> Vec<String> {
        let down = roles.iter().filter(|r| !r.serves());
        let down = down.map(|r| r.spec.role.clone());
        let records = score::all(self.board);
        let late = score::late(&records, unix_now(), self.request_timeout);
        let late = late.iter().map(ToString::to_string);
        down.chain(late)
            .filter(|words| !is_gateway(words))
            .collect()
    }
}

fn is_gateway(role: &str) -> bool {
    role.starts_with("gateway-")
}

fn serve(
    roles: &mut [Role],
    signals: &SignalPipe,
    watch: &mut Watch,
    run: &dyn Fn(&str) -> i32,
) -> Result<(), ExitError> {
    let begun = Instant::now();
    let since = unix_now();
    let mut published: Option<Instant> = None;
    let mut announced = false;
    let mut rest = IdleDetector::default();
    while !signals.stop.is_set() {
        let mut worked = false;
        for role in roles.iter_mut() {
            if role.due.is_some_and(|due| due <= Instant::now()) {
                role.start(signals, run)?;
                worked = true;
            }
        }
        if worked || published.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            published = Some(Instant::now());
            publish(watch.board, roles, since);
            if rest.is_due(worked) {
                trim_memory();
            }
        }
        if announced {
            watch.beat(roles);
        }
        wait(roles, signals, watch.service.at_most(None))?;
        if signals.stop.is_set() {
            break;
        }
        for role in roles.iter_mut() {
            if let Some(status) = role.reap() {
                if status.code() == Some(EXIT_BIND) && !role.served {
                    let said = "The ports are not available to bind: the log names the address that another program uses";
                    let message = format!("{said} (role {})", role.spec.role);
                    return Err(ExitError::new(EXIT_BIND, message));
                }
                role.restart_later(status);
            }
        }
        if !announced && !roles.iter().any(Role::is_awaited) {
            announced = true;
            let out: Vec<_> = roles.iter().filter(|r| !r.served).collect();
            if out.is_empty() {
                log::info!("all roles serve, {:?} after the start", begun.elapsed())
            } else {
                out.iter().for_each(|r| {
                    log::error!(
                        "the master serves without {}; see above for why",
                        r.spec.role
                    );
                })
            }
            watch.ready();
        }
        if !announced && begun.elapsed() > START_LIMIT {
            let late: Vec<_> = roles
                .iter()
                .filter(|r| r.is_awaited())
                .map(|r| r.spec.role.as_str())
                .collect();
            return Err(ExitError::new(
                1,
                format!(
                    "these roles did not become ready: {}; see the log",
                    late.join(", ")
                ),
            ));
        }
        debug_report::write_if_asked(ROLE, || report(roles, watch.board));
        if signals.take_reload() {
            log::warn!("SIGHUP: each role reopens its log files; other options need a restart");
            roles.iter().for_each(|r| r.signal(Signal::SIGHUP));
            watch.service.reloaded();
        }
    }
    Ok(())
}

/// Sleeps until a signal, a role's readiness or the next restart, at most for the given time.
fn wait(
    roles: &mut [Role],
    signals: &SignalPipe,
    at_most: Option<Duration>,
) -> Result<(), ExitError> {
    let now = Instant::now();
    let next = roles
        .iter()
        .filter_map(|r| r.due)
        .map(|due| due.saturating_duration_since(now))
        .chain(at_most)
        .min()
        .unwrap_or(Duration::from_secs(1))
        .min(Duration::from_secs(1));
    let pending: Vec<BorrowedFd> = roles
        .iter()
        .filter_map(|r| r.ready.as_ref())
        .map(|f| f.as_fd())
        .collect();
    signals.wait(&pending, next.as_millis() as u16 + 1)?;
    for role in roles.iter_mut() {
        let Some(pipe) = &mut role.ready else {
            continue;
        };
        if !readable(pipe) {
            continue;
        }
        let mut pid = [0u8; 4];
        // End of file without a pid: the role exited before it was ready, which `reap` notices.
        role.served |= pipe.read(&mut pid).is_ok_and(|n| n == 4);
        role.ready = None;
    }
    Ok(())
}

fn readable(file: &std::fs::File) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0)
}

fn shut_down(roles: &mut [Role], signals: &SignalPipe) {
    log::info!("shutting down");
    let end = Instant::now() + STOP_LIMIT;
    // The request server first: it answers pending requests while workers are still running.
    if let Some(request) = roles.iter_mut().find(|r| r.spec.role == "request") {
        request.signal(Signal::SIGTERM);
        let drained = Instant::now() + DRAIN_LIMIT;
        while request.child.is_some() && Instant::now() < drained {
            let _ = signals.wait(&[], 20);
            request.reap();
        }
    }
    // Those that others use have started first, and are told last.
    let order = roles.iter().rev();
    order.for_each(|r| r.signal(Signal::SIGTERM));
    while roles.iter().any(|r| r.child.is_some()) && Instant::now() < end {
        let _ = signals.wait(&[], 20);
        roles.iter_mut().for_each(|r| {
            r.reap();
        });
    }
    for role in roles.iter_mut() {
        role.signal(Signal::SIGKILL);
        if let Some(mut child) = role.child.take() {
            log::warn!("{} did not stop in time and was killed", role.spec.role);
            let _ = child.wait();
        }
    }
}
