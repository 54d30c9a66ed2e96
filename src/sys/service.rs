//! Notifications to the service manager: readiness, a status line, stopping, and the watchdog (`sd_notify(3)`,
//! `sd_watchdog_enabled(3)`).
//!
//! Nothing here waits for long: a manager that does not read must not block a daemon. Only the messages whose
//! loss would leave the manager with a wrong state (ready, reloading, stopping) wait, for at most a second.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Environment variables from the manager, meant for one process only.
pub const VARIABLES: [&str; 3] = [SOCKET, WATCHDOG_USEC, WATCHDOG_PID];
/// The manager's socket: a path, or an abstract name after `@`.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Watchdog timeout in microseconds.
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
/// The process that the watchdog timeout is meant for.
const WATCHDOG_PID: &str = "WATCHDOG_PID";
/// How long a message that must arrive waits for room in the socket's buffer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How soon a process that made no progress is checked again.
const LOOK: Duration = Duration::from_secs(1);

/// The service manager of this process, if it has one. Children do not notify it.
#[derive(Debug)]
pub struct Service {
    socket: Option<UnixDatagram>,
    watchdog: Watchdog,
    status: String,
}

impl Service {
    /// Connects to the manager named in the environment. Programs started with the environment of
    /// [`environment`](super::environment) do not see it: their notifications would not be about this process.
    pub fn inherited() -> Service {
        let socket = std::env::var_os(SOCKET).and_then(|name| connect(name.as_bytes()));
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let own = number(WATCHDOG_PID).is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = number(WATCHDOG_USEC).filter(|_| own && socket.is_some());
        hide_from_children();
        Service {
            socket,
            watchdog: Watchdog::new(limit.map(Duration::from_micros), Instant::now()),
            status: String::new(),
        }
    }

    /// Startup is complete.
    pub fn ready(&mut self, status: &str) {
        self.send_reliably(&format!("READY=1\nSTATUS={}", plain(status)));
        status.clone_into(&mut self.status);
    }

    /// Sets the status line; sent only if it changed.
    pub fn status(&mut self, status: &str) {
        if self.status != status {
            self.try_send(&format!("STATUS={}", plain(status)));
            status.clone_into(&mut self.status);
        }
    }

    /// A reload was done. Both its start and its end are sent now.
    pub fn reloaded(&mut self) {
        use nix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
            i128::from(now.tv_sec()) * 1_000_000 + i128::from(now.tv_nsec()) / 1000
        });
        self.send_reliably(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
        self.send_reliably("READY=1");
    }

    /// Stopping has started.
    pub fn stopping(&mut self) {
        self.send_reliably("STOPPING=1\nSTATUS=stopping");
    }

    /// Whether a watchdog notification is due.
    pub fn is_due(&self) -> bool {
        self.watchdog
            .left(Instant::now())
            .is_some_and(|t| t.is_zero())
    }

    /// Sends the watchdog notification if it is due and `alive` is true.
    pub fn beat(&mut self, alive: bool) {
        if self.watchdog.take(Instant::now(), alive) {
            self.try_send("WATCHDOG=1");
        }
    }

    /// Limits a waiting time so that the next watchdog notification is not late.
    pub fn at_most(&self, wait: Option<Duration>) -> Option<Duration> {
        wait.into_iter()
            .chain(self.watchdog.left(Instant::now()))
            .min()
    }

    /// Sleeps with `nap`, which returns `false` to stop early, and keeps sending watchdog notifications.
    pub fn sleep(&mut self, time: Duration, nap: impl Fn(Duration) -> bool) -> bool {
        let end = Instant::now() + time;
        loop {
            self.beat(true);
            let left = end.saturating_duration_since(Instant::now());
            if !nap(self.at_most(Some(left)).unwrap_or(left)) {
                return false;
            }
            if Instant::now() >= end {
                return true;
            }
        }
    }

    /// Sends a message that must arrive.
    fn send_reliably(&self, text: &str) {
        let Some(socket) = &self.socket else { return };
        let sent = socket
            .set_nonblocking(false)
            .and_then(|()| socket.send(text.as_bytes()));
        if let Err(e) = sent {
            log::warn!("cannot notify the service manager of {}: {e}", plain(text));
        }
        // If this fails, the next message may block, but no longer than this one.
        let _ = socket.set_nonblocking(true);
    }

    /// Sends a message that may get lost: the next one says as much.
    fn try_send(&self, text: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(e) = socket.send(text.as_bytes()) {
            log::debug!("cannot notify the service manager of {}: {e}", plain(text));
        }
    }
}

/// Hides the manager's variables from programs started by this process: some, such as those that run
/// containers, would act as if they were the service.
fn hide_from_children() {
    for name in VARIABLES {
        if std::env::var_os(name).is_some() {
            super::environment::set(name, None);
        }
    }
}

fn connect(name: &[u8]) -> Option<UnixDatagram> {
    let open = || {
        let address = match name {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    };
    open()
        .inspect_err(|e| log::warn!("{SOCKET}: {e}; the service manager is not notified"))
        .ok()
}

/// Makes a text fit on one line.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Schedules watchdog notifications: at half of the manager's timeout.
#[derive(Debug)]
struct Watchdog {
    every: Option<Duration>,
    due: Instant,
}

impl Watchdog {
    fn new(limit: Option<Duration>, now: Instant) -> Watchdog {
        Watchdog {
            every: limit.filter(|l| !l.is_zero()).map(|l| l / 2),
            due: now,
        }
    }

    /// Time until the next one is due; `None` if there is no watchdog.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.every?;
        Some(self.due.saturating_duration_since(now))
    }

    /// Whether to send one now.
    fn take(&mut self, now: Instant, alive: bool) -> bool {
        let Some(every) = self.every.filter(|_| now >= self.due) else {
            return false;
        };
        self.due = now + if alive { every } else { every.min(LOOK) };
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_at_half_the_patience() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut dog = Watchdog::new(Some(Duration::from_secs(10)), start);
        assert!(dog.take(at(0), true));
        assert_eq!(dog.left(at(1000)), Some(Duration::from_secs(4)));
        assert!(!dog.take(at(4999), true));
        assert!(dog.take(at(5000), true));
        assert!(!dog.take(at(10_000), false), "there is no progress");
        assert!(!dog.take(at(10_500), true));
        assert!(dog.take(at(11_000), true), "as soon as there is some");
    }

    #[test]
    fn nothing_is_told_to_nobody() {
        let now = Instant::now();
        for limit in [None, Some(Duration::ZERO)] {
            let mut dog = Watchdog::new(limit, now);
            assert_eq!((dog.left(now), dog.take(now, true)), (None, false));
        }
    }

    #[test]
    fn words_arrive_at_both_kinds_of_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let abstract_name = format!("halite-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (listener, name) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.as_os_str().as_bytes().to_vec(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{abstract_name}").into_bytes(),
            ),
        ] {
            let mut service = Service {
                socket: connect(&name),
                watchdog: Watchdog::new(Some(Duration::from_secs(3600)), Instant::now()),
                status: String::new(),
            };
            service.ready("a\nb");
            service.status("a\nb");
            service.beat(false);
            service.reloaded();
            service.stopping();
            let heard = || {
                let mut bytes = [0; 200];
                let n = listener.recv(&mut bytes).unwrap();
                String::from_utf8(bytes[..n].to_vec()).unwrap()
            };
            assert_eq!(heard(), "READY=1\nSTATUS=a b");
            assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
            assert_eq!(heard(), "READY=1");
            assert_eq!(heard(), "STOPPING=1\nSTATUS=stopping");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let service = Service {
            socket: connect(path.as_os_str().as_bytes()),
            watchdog: Watchdog::new(None, Instant::now()),
            status: String::new(),
        };
        (0..5000).for_each(|_| service.try_send("WATCHDOG=1"));
    }
}
