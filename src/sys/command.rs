//! Runs the master's helper programs: given as argument lists, with a deadline and bounded output.
//! The whole process group is killed when a limit is exceeded.

use super::process::{apart, leave_family};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Variables that Salt sets to `C` for commands (`salt/modules/cmdmod.py _run`).
pub const LOCALE: [&str; 13] = [
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
    "LANGUAGE",
];

/// Bytes kept of each output stream at most.
pub const OUTPUT_LIMIT: usize = 64 << 20;

/// A program to run.
#[derive(Clone, Debug, Default)]
pub struct Helper {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment variables to set or, with `None`, to remove; the rest is inherited.
    pub env: Vec<(String, Option<String>)>,
    /// Working directory; inherited if `None`.
    pub cwd: Option<String>,
    /// Standard input; empty if `None`.
    pub stdin: Option<Vec<u8>>,
    /// Redirect standard error to standard output.
    pub merge: bool,
}

/// Result of a finished program.
#[derive(Debug, Default)]
pub struct Output {
    /// Its process id.
    pub pid: u32,
    /// Exit code, or the negated signal number.
    pub code: i64,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error; empty when merged.
    pub stderr: Vec<u8>,
}

/// Why a program gave no output.
#[derive(Debug)]
pub enum HelperError {
    /// The program could not be started, or its output could not be read.
    Io(String, io::Error),
    /// It was killed at its deadline.
    TimedOut(String, Duration),
    /// It was killed because it wrote more than [`OUTPUT_LIMIT`].
    TooMuch(String),
}

impl fmt::Display for HelperError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HelperError::Io(program, e) => write!(f, "{program}: {e}"),
            HelperError::TimedOut(program, after) => {
                write!(
                    f,
                    "{program} was killed: not done after {} seconds",
                    after.as_secs()
                )
            }
            HelperError::TooMuch(program) => {
                write!(
                    f,
                    "{program} was killed: it wrote more than {OUTPUT_LIMIT} bytes"
                )
            }
        }
    }
}

impl std::error::Error for HelperError {}

enum Event {
    Read(usize, io::Result<Vec<u8>>),
    Exit(io::Result<std::process::ExitStatus>),
}

impl Helper {
    /// A program with its arguments.
    pub fn new<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Helper {
        Helper {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Helper::default()
        }
    }

    /// Runs the program until it exits or `limit` has passed.
    ///
    /// # Errors
    /// See [`HelperError`]. A nonzero exit code is not an error.
    pub fn run(&self, limit: Duration) -> Result<Output, HelperError> {
        let name = || self.argv.first().cloned().unwrap_or_default();
        let began = Instant::now();
        let child = self.spawn().map_err(|e| HelperError::Io(name(), e))?;
        let pid = child.id();
        let group = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
        let result = collect(child, self.merge, began + limit);
        if !matches!(&result, Ok(Some(_))) {
            // The group may be gone already.
            let _ = killpg(group, Signal::SIGKILL);
        }
        match result {
            Ok(Some(output)) => Ok(Output { pid, ..output }),
            Ok(None) => Err(HelperError::TimedOut(name(), limit)),
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => Err(HelperError::TooMuch(name())),
            Err(e) => Err(HelperError::Io(name(), e)),
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let (program, args) = self.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        apart(leave_family(&mut command)).args(args);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        if self.merge {
            let (reader, writer) = io::pipe()?;
            command.stderr(writer.try_clone()?).stdout(writer);
            let mut child = command.spawn()?;
            // The command keeps its copies of the write end until it is dropped.
            drop(command);
            self.feed(&mut child);
            child.stdout = Some(std::process::ChildStdout::from(std::os::fd::OwnedFd::from(
                reader,
            )));
            return Ok(child);
        }
        let mut child = command.spawn()?;
        self.feed(&mut child);
        Ok(child)
    }

    fn feed(&self, child: &mut Child) {
        if let (Some(mut pipe), Some(input)) = (child.stdin.take(), self.stdin.clone()) {
            // A program may close the pipe without reading all of its input; that is no error.
            std::thread::spawn(move || io::Write::write_all(&mut pipe, &input));
        }
    }
}

/// Returns `None` if the deadline passes first.
fn collect(mut child: Child, merge: bool, deadline: Instant) -> io::Result<Option<Output>> {
    let (sender, events) = channel();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let mut open = 1;
    if let Some(pipe) = stdout {
        open += 1;
        read(0, pipe, sender.clone());
    }
    if let Some(pipe) = stderr.filter(|_| !merge) {
        open += 1;
        read(1, pipe, sender.clone());
    }
    std::thread::spawn(move || sender.send(Event::Exit(child.wait())));
    gather(&events, open, deadline)
}

fn gather(events: &Receiver<Event>, open: usize, deadline: Instant) -> io::Result<Option<Output>> {
    let mut output = Output::default();
    for _ in 0..open {
        let left = deadline.saturating_duration_since(Instant::now());
        match events.recv_timeout(left) {
            Ok(Event::Read(0, bytes)) => output.stdout = bytes?,
            Ok(Event::Read(_, bytes)) => output.stderr = bytes?,
            Ok(Event::Exit(status)) => {
                let status = status?;
                output.code = match (status.code(), status.signal()) {
                    (Some(code), _) => code.into(),
                    (None, Some(signal)) => -i64::from(signal),
                    (None, None) => -1,
                };
            }
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(output))
}

fn read(which: usize, mut pipe: impl Read + Send + 'static, sender: Sender<Event>) {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let result = (&mut pipe)
            .take(OUTPUT_LIMIT as u64 + 1)
            .read_to_end(&mut bytes)
            .and_then(|n| {
                if n > OUTPUT_LIMIT {
                    Err(io::ErrorKind::FileTooLarge.into())
                } else {
                    Ok(bytes)
                }
            });
        // The receiver is gone after the deadline.
        let _ = sender.send(Event::Read(which, result));
    });
}

/// Limits for [`output`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the program may take.
    pub time: Duration,
    /// Bytes that it may print at most.
    pub output: usize,
}

/// Runs a program and returns what it printed.
///
/// # Errors
/// The program cannot be started, fails, takes too long or prints too much.
pub fn output(words: &[String], limits: Limits) -> Result<Vec<u8>, String> {
    let program = words.first().ok_or("there is no program to run")?;
    let done = Helper::new(words.iter().cloned())
        .run(limits.time)
        .map_err(|e| e.to_string())?;
    if done.code != 0 {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!(
            "{program} ended with {}: {}",
            done.code,
            said.trim_end()
        ));
    }
    if done.stdout.len() > limits.output {
        return Err(format!(
            "{program} printed more than {} bytes",
            limits.output
        ));
    }
    Ok(done.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_code() {
        let out = Helper::new(["sh", "-c", "echo a; echo b >&2; exit 3"])
            .run(LONG)
            .unwrap();
        assert_eq!(
            (out.code, out.stdout, out.stderr),
            (3, b"a\n".to_vec(), b"b\n".to_vec())
        );
        let merged = Helper {
            merge: true,
            ..Helper::new(["sh", "-c", "echo a; echo b >&2"])
        };
        assert_eq!(merged.run(LONG).unwrap().stdout, b"a\nb\n");
        let fed = Helper {
            stdin: Some(b"x".to_vec()),
            ..Helper::new(["cat"])
        };
        assert_eq!(fed.run(LONG).unwrap().stdout, b"x");
    }

    #[test]
    fn deadline_ends_the_whole_group() {
        let began = Instant::now();
        let helper = Helper::new(["sh", "-c", "sleep 1000 & sleep 1000"]);
        let e = helper.run(Duration::from_millis(100)).unwrap_err();
        assert!(matches!(e, HelperError::TimedOut(..)), "{e}");
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn what_is_not_there() {
        let e = Helper::new(["/nonexistent/x"]).run(LONG).unwrap_err();
        assert!(e.to_string().starts_with("/nonexistent/x: "), "{e}");
    }
}
