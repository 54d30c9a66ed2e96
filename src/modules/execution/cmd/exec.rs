//! Runs one command in its own process group. Its output is bounded; the whole group is killed when the command
//! exceeds its timeout or the output limit.

use super::super::CallError;
use super::user::{Identity, IdentityGuard};
use crate::execution::declare::Result;
use halite_sys::held_path::HeldDir;
use halite_sys::process::apart;
use halite_sys::pseudo_terminal::{self, lead_session};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Maximum bytes kept per stream.
pub const OUTPUT_LIMIT: usize = 64 << 20;

/// What a terminal turns into the end of the input (`VEOF`).
const END_OF_INPUT: u8 = 4;

/// A command to run.
#[derive(Clone, Debug, Default)]
pub struct CommandSpec {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Standard input, if any.
    pub stdin: Option<Vec<u8>>,
    /// Redirect standard error to standard output.
    pub merge: bool,
    /// File creation mask.
    pub umask: Option<u32>,
    /// The user to run as.
    pub identity: Option<Identity>,
    /// Timeout.
    pub timeout: Option<Duration>,
    /// Start only; no input, no output.
    pub background: bool,
    /// Run it with a terminal; without `stdin`, that is also its input, which is at its end.
    pub terminal: bool,
    /// Maximum bytes of output per stream.
    pub limit: usize,
}

/// How a command ended.
#[derive(Debug)]
pub enum CommandEnd {
    /// It exited.
    Finished(Finished),
    /// It was killed after its timeout.
    TimedOut(u32),
    /// It keeps running in the background.
    Background(u32),
}

/// The result of a finished command.
#[derive(Debug)]
pub struct Finished {
    /// Process id.
    pub pid: u32,
    /// Exit code, or the negated signal number.
    pub code: i64,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error; empty when merged.
    pub stderr: Vec<u8>,
}

enum Event {
    Read(usize, io::Result<Option<Vec<u8>>>),
    Exit(io::Result<ExitStatus>),
}

/// Starts the command.
///
/// # Errors
/// The system's error.
pub fn start(spec: &CommandSpec) -> io::Result<(Child, Vec<File>)> {
    let (program, args) = spec.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(k, v)| (k, v)))
        .stdin(match spec.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
    let terminal = spec.terminal && !spec.background;
    if terminal {
        lead_session(&mut command);
    } else {
        apart(&mut command);
    }
    // As in stock, the user need not be able to reach it. Where links of others lead to it, the user has to.
    let dir = spec
        .identity
        .as_ref()
        .and_then(|_| HeldDir::by_links_of_root(Path::new(&spec.cwd)).ok());
    match &dir {
        Some(dir) => command.current_dir(dir.path()),
        None => command.current_dir(&spec.cwd),
    };
    let mut readers = Vec::new();
    if spec.background {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    } else {
        let (reader, writer) = output(spec)?;
        if terminal && spec.stdin.is_none() {
            // A program that asks for something finds the end of its input instead of waiting.
            (&reader).write_all(&[END_OF_INPUT])?;
            command.stdin(writer.try_clone()?);
        }
        readers.push(reader);
        if spec.merge {
            command.stderr(writer.try_clone()?);
        } else {
            let (reader, writer) = output(spec)?;
            readers.push(reader);
            command.stderr(writer);
        }
        command.stdout(writer);
    }
    let _guard = IdentityGuard::take(spec.umask, spec.identity.as_ref())?;
    let child = command.spawn()?;
    Ok((child, readers))
}

/// Both ends of an output stream: a pipe or a terminal.
fn output(spec: &CommandSpec) -> io::Result<(File, File)> {
    if spec.terminal {
        let owner = spec.identity.as_ref().map(|identity| identity.uid);
        let both = pseudo_terminal::open(owner)?;
        return Ok((both.controller, both.terminal));
    }
    let (reader, writer) = io::pipe()?;
    Ok((OwnedFd::from(reader).into(), OwnedFd::from(writer).into()))
}

/// Waits for the command and collects its output.
///
/// # Errors
/// [`CallError::Command`] if the output exceeds the limit or a system call fails.
pub fn wait_for(spec: &CommandSpec, mut child: Child, readers: Vec<File>) -> Result<CommandEnd> {
    let pid = child.id();
    if spec.background {
        return Ok(CommandEnd::Background(pid));
    }
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), spec.stdin.clone()) {
        // A command that does not read its input closes the pipe early; that is no error.
        std::thread::spawn(move || pipe.write_all(&input));
    }
    // A program that has closed its terminal is hung up if nobody holds the other end until it has exited.
    let held = readers.iter().filter(|_| spec.terminal);
    let _held: Vec<File> = held
        .map(File::try_clone)
        .collect::<io::Result<_>>()
        .map_err(lost)?;
    let streams = readers.len();
    let (send, events) = channel();
    for (i, reader) in readers.into_iter().enumerate() {
        collect(i, reader, spec.limit, send.clone());
    }
    std::thread::spawn(move || send.send(Event::Exit(child.wait())));
    let end = wait(spec, pid, streams, &events);
    if !matches!(end, Ok(CommandEnd::Finished(_))) {
        kill(pid);
    }
    end
}

fn collect(i: usize, reader: File, limit: usize, send: Sender<Event>) {
    std::thread::spawn(move || {
        let mut data = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = match reader.take(most).read_to_end(&mut data) {
            // Nobody has the terminal open any more.
            Err(e) if e.raw_os_error() == Some(nix::libc::EIO) => Ok(0),
            read => read,
        };
        let event = read.map(|_| (data.len() <= limit).then_some(data));
        // The receiver is gone after a timeout.
        let _ = send.send(Event::Read(i, event));
    });
}

fn wait(
    spec: &CommandSpec,
    pid: u32,
    streams: usize,
    events: &Receiver<Event>,
) -> Result<CommandEnd> {
    let deadline = spec.timeout.and_then(|t| Instant::now().checked_add(t));
    let mut output = [Vec::new(), Vec::new()];
    let mut open = streams;
    let mut status = None;
    loop {
        if let (0, Some(status)) = (open, status) {
            let [stdout, stderr] = output;
            return Ok(CommandEnd::Finished(Finished {
                pid,
                code: code(status),
                stdout,
                stderr,
            }));
        }
        let event = match deadline {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(Event::Exit(result)) => status = Some(result.map_err(lost)?),
            Ok(Event::Read(i, result)) => {
                let Some(data) = result.map_err(lost)? else {
                    return Err(CallError::Command(format!(
                        "The command wrote more than {} MiB and was killed; redirect its output to a file",
                        spec.limit >> 20
                    )));
                };
                output[i] = data;
                open -= 1;
            }
            Err(RecvTimeoutError::Timeout) => return Ok(CommandEnd::TimedOut(pid)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(lost(io::ErrorKind::BrokenPipe.into()));
            }
        }
    }
}

fn lost(e: io::Error) -> CallError {
    CallError::Command(format!("Lost the command: {e}"))
}

fn code(status: ExitStatus) -> i64 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.into(),
        (None, Some(signal)) => -i64::from(signal),
        (None, None) => 1,
    }
}

/// Kills the whole process group. No error if it is already gone.
fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
