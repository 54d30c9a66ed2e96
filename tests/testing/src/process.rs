//! Processes that are stopped when they are dropped.

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const TERM_LIMIT: Duration = Duration::from_secs(8);
const LOG_LINES: usize = 60;

/// A program in its own process group, with its output in a file.
///
/// Dropping it stops the group. During a panic, the end of the output is printed.
pub struct Process {
    name: String,
    child: Child,
    group: Pid,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`; standard output and error are appended to `log`.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Process {
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|e| panic!("{}: {e}", log.display()));
        let err = out.try_clone().expect("a file can be opened twice");
        command.stdout(out).stderr(err);
        Process::start_quiet(name, command, log)
    }

    /// Like [`Process::start`], but leaves standard output and error as set in `command`.
    pub fn start_quiet(name: &str, command: &mut Command, log: &Path) -> Process {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{name} ({:?}) does not start: {e}", command.get_program()));
        let group = Pid::from_raw(child.id() as i32);
        Process {
            name: name.into(),
            child,
            group,
            log: log.into(),
            ended: None,
        }
    }

    /// Its process id, which is also the id of its group.
    pub fn id(&self) -> i32 {
        self.group.as_raw()
    }

    /// Its status, once it has exited.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended
    }

    /// Panics with its output if it has exited.
    pub fn must_live(&mut self) {
        if let Some(status) = self.status() {
            panic!("{} ended ({status}):\n{}", self.name, self.tail());
        }
    }

    /// Everything it has printed.
    pub fn output(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |_| String::new(),
            |b| String::from_utf8_lossy(&b).into_owned(),
        )
    }

    /// The last lines of its output.
    pub fn tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        // Fails if it has exited.
        let _ = killpg(self.group, signal);
    }

    /// Sends SIGTERM to the process alone, as a service manager does, and waits for its end.
    pub fn terminate(&mut self) {
        let pid = Pid::from_raw(self.id());
        let sent = nix::sys::signal::kill(pid, Signal::SIGTERM);
        sent.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        crate::wait_until(&format!("{} ends", self.name), || self.status().is_some());
    }

    /// Stops the group: SIGTERM first, then SIGKILL for what is left.
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        if !self.gone_within(TERM_LIMIT) {
            self.signal(Signal::SIGKILL);
            self.gone_within(TERM_LIMIT);
        }
    }

    fn gone_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.status();
            if killpg(self.group, None) == Err(Errno::ESRCH) {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- last lines of {} ({}):\n{}\n---",
                self.name,
                self.log.display(),
                self.tail()
            );
        }
        self.stop();
    }
}
