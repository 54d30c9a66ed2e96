//! Runs `git` with an argument list (no shell), a clean environment and a time limit.

use super::access::{Access, PROTOCOLS};
use halite_sys::signals::StopFlag;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for commands that only read the mirror.
pub(crate) const LOCAL: Duration = Duration::from_secs(30);
/// Time limit for fetching.
pub(crate) const REMOTE: Duration = Duration::from_secs(600);
/// Most bytes of output that are read.
const MAX_OUTPUT: u64 = 256 << 20;
/// Most bytes of error messages that are read.
const MAX_MESSAGE: u64 = 64 << 10;
/// Variables of our environment that git gets.
const PASSED_ENV: [&str; 9] = [
    "PATH",
    "HOME",
    "SSH_AUTH_SOCK",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
];

/// One command on a mirror.
pub(crate) struct Git<'a> {
    /// The repository.
    pub dir: &'a Path,
    /// How its remote is reached; `None` for commands that do not contact it.
    pub access: Option<&'a Access>,
    /// Time limit.
    pub limit: Duration,
    /// Stops it early.
    pub stop: Option<&'a StopFlag>,
    /// Additional environment variables.
    pub env: &'a [(&'a str, &'a Path)],
}

impl<'a> Git<'a> {
    /// Commands that read the mirror in `dir`.
    pub fn local(dir: &'a Path) -> Git<'a> {
        Git {
            dir,
            access: None,
            limit: LOCAL,
            stop: None,
            env: &[],
        }
    }

    /// Runs `git <args>` with `input`; returns its output.
    pub fn run(&self, args: &[&str], input: &[u8]) -> io::Result<Vec<u8>> {
        let mut output = Vec::new();
        self.child(args, input, Stdio::piped(), &mut output)?;
        Ok(output)
    }

    /// Runs `git <args>` and writes its output to a file.
    pub fn run_into(&self, args: &[&str], file: File) -> io::Result<()> {
        self.child(args, b"", file.into(), &mut Vec::new())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args([
                "--no-pager",
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "core.fsmonitor=false",
            ])
            .args([
                "-c",
                "gc.autoDetach=false",
                "-c",
                "fetch.recurseSubmodules=false",
            ])
            .arg("--git-dir")
            .arg(self.dir)
            .args(args)
            .env_clear();
        for name in PASSED_ENV {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS", "true")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS.join(":"));
        command.envs(self.env.iter().copied());
        if let Some(access) = self.access {
            access.apply(&mut command);
        }
        // Its own process group, so that helpers of git are killed with it.
        command.process_group(0);
        command
    }

    fn child(
        &self,
        args: &[&str],
        input: &[u8],
        out: Stdio,
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| {
                io::Error::new(
                    e.kind(),
                    format!("git cannot be run: {e}; is it installed?"),
                )
            })?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut message = Vec::new();
        let status = thread::scope(|s| {
            s.spawn(move || {
                // Fails if the command has exited.
                let _ = stdin.map(|mut pipe| pipe.write_all(input));
            });
            s.spawn(|| stdout.map(|pipe| pipe.take(MAX_OUTPUT).read_to_end(output)));
            s.spawn(|| stderr.map(|pipe| pipe.take(MAX_MESSAGE).read_to_end(&mut message)));
            let end = Instant::now() + self.limit;
            let mut nap = Duration::from_millis(1);
            loop {
                if let Some(status) = child.try_wait()? {
                    return Ok(Some(status));
                }
                if Instant::now() > end || self.stop.is_some_and(StopFlag::is_set) {
                    let group = Pid::from_raw(child.id().cast_signed());
                    // Fails if it has just exited.
                    let _ = killpg(group, Signal::SIGKILL);
                    child.wait()?;
                    return Ok::<_, io::Error>(None);
                }
                thread::sleep(nap);
                nap = (nap * 2).min(Duration::from_millis(50));
            }
        })?;
        let name = args.first().copied().unwrap_or_default();
        let text = String::from_utf8_lossy(&message).trim().to_owned();
        match status {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(io::Error::other(format!("git {name}: {text}"))),
            None => Err(io::Error::other(format!(
                "git {name} was stopped, or took longer than {:?}",
                self.limit
            ))),
        }
    }
}
