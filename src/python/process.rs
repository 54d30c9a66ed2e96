//! The process: `python3` with our program, the other end of a socket pair as its standard input.

use crate::{frame, marshal, sources};
use halite_sys::process::leave_family;
use halite_wire::Map;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a line that goes to the log.
const MAX_LINE: usize = 8192;
/// How long an interpreter may take until it runs our program.
const START: Duration = Duration::from_secs(60);
/// How long the last words of a host are waited for once it has ended.
const WORDS: Duration = Duration::from_secs(1);

/// A running host. Dropping it kills the process.
pub struct Process {
    /// Its number, which is that of its process group.
    pid: u32,
    child: Arc<Mutex<Child>>,
    /// The connection.
    pub stream: UnixStream,
    /// The kernel kills the host and what it has started in its group when this end is closed, whatever becomes of us.
    _life: PipeWriter,
    /// Gets a byte once no more is to be expected of what the host prints.
    over: PipeWriter,
    /// Ends when that is so, or everybody who could print has ended, and the log has everything.
    printed: Receiver<()>,
    /// The last line of it.
    last: Arc<Mutex<String>>,
}

impl Process {
    /// Starts a host that runs `sources`.
    ///
    /// # Errors
    /// The interpreter cannot be started, or does not run our program: text for an operator.
    pub fn start(python: &str, sources: &Map, limit: Option<Duration>) -> Result<Process, String> {
        let limit = limit.map_or(START, |limit| limit.clamp(Duration::from_millis(1), START));
        let mut process = Process::spawn(python).map_err(|e| {
            format!("{python} cannot be started ({e}); the option `python`, or `legacy_salt`, names the interpreter")
        })?;
        process.greet(sources, limit).map_err(|e| {
            use io::ErrorKind::{TimedOut, WouldBlock};
            match e.kind() {
                TimedOut | WouldBlock => format!(
                    "{python} did not run within {} seconds; the option `python`, or `legacy_salt`, names the interpreter",
                    limit.as_secs()
                ),
                _ => format!("{python} does not run ({})", process.ending()),
            }
        })?;
        Ok(process)
    }

    fn spawn(python: &str) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let (reader, writer) = io::pipe()?;
        let (life, held) = io::pipe()?;
        let (is_over, over) = io::pipe()?;
        let mut command = Command::new(python);
        // What this program tells its own children is none of users' code.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"HALITE_") {
                command.env_remove(name);
            }
        }
        leave_family(&mut command)
            // Isolated from PYTHON* variables, the user's packages and the working directory; leaves no files of
            // compiled code behind; installed packages are looked for when something needs them.
            .args(["-IBSu", "-c", sources::BOOTSTRAP])
            .process_group(0)
            // The program moves both away at once: what a function reads as standard input is empty.
            .stdin(OwnedFd::from(theirs))
            .stdout(life)
            .stderr(writer);
        let child = Arc::new(Mutex::new(command.spawn()?));
        // Our copies of its ends.
        drop(command);
        let last = Arc::<Mutex<String>>::default();
        let line = last.clone();
        let (end, printed) = channel();
        let (ended, pid) = (child.clone(), lock(&child).id());
        std::thread::spawn(move || {
            log_lines(reader, is_over, &line, end);
            reap(&ended);
        });
        Ok(Process {
            child,
            pid,
            stream: ours,
            _life: held,
            over,
            printed,
            last,
        })
    }

    /// Sends the program and waits until it runs.
    fn greet(&self, sources: &Map, limit: Duration) -> io::Result<()> {
        let mut body = Vec::new();
        marshal::encode_map(sources, &mut body);
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))?;
        frame::write(&self.stream, &body)?;
        frame::read(&self.stream)?;
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)
    }

    /// What it has printed so far was about something else.
    pub fn forget_words(&mut self) {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Kills it with all that it has started in its process group: it was not to go on.
    pub fn kill_all(&mut self) {
        let mut child = lock(&self.child);
        // Only while the number is its own.
        if child.try_wait().is_ok_and(|status| status.is_none())
            && let Ok(group) = i32::try_from(self.pid)
        {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }

    /// How the process ended, once it has closed the connection, and its last words.
    pub fn ending(&mut self) -> String {
        // Children of functions may hold the pipe open; their words are not waited for.
        let _ = self.printed.recv_timeout(WORDS);
        let mut child = lock(&self.child);
        if child.try_wait().is_ok_and(|status| status.is_none()) {
            // It has closed the connection, and lives on.
            let _ = child.kill();
        }
        let end = match child.wait() {
            Ok(status) => status.to_string(),
            Err(e) => e.to_string(),
        };
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_str() {
            "" => end,
            words => format!("{end}: {words}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process alone: what functions have started lives on after the end of a job, as in Salt. With it goes the
        // other end of the pipe, so that nobody is killed when ours is closed.
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
        drop(child);
        // What it has printed is in the log before the job ends, and we perhaps with it.
        let _ = self.over.write(b".");
        let _ = self.printed.recv_timeout(WORDS);
    }
}

/// Takes the end of a process that has ended by itself, so that it does not stay in the list of processes.
fn reap(child: &Mutex<Child>) {
    for _ in 0..10 {
        if !lock(child).try_wait().is_ok_and(|status| status.is_none()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What functions print goes to the log, in lines of limited length. `end` is dropped when there is no more, or when `over` has
/// a byte and nothing else waits to be read.
fn log_lines(from: PipeReader, over: PipeReader, last: &Mutex<String>, end: Sender<()>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut end = Some(end);
    loop {
        if end.is_some() && !has_more(&from, &over) {
            tell(&mut line, last);
            end = None;
        }
        let read = match from.fill_buf() {
            Ok(bytes) if !bytes.is_empty() => {
                let room = &bytes[..bytes.len().min(MAX_LINE - line.len())];
                let end = room.iter().position(|byte| *byte == b'\n');
                let read = end.map_or(room.len(), |at| at + 1);
                line.extend_from_slice(&room[..read]);
                read
            }
            Ok(_) => return tell(&mut line, last),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        from.consume(read);
        if line.ends_with(b"\n") || line.len() == MAX_LINE {
            tell(&mut line, last);
        }
    }
}

/// Waits for something to read, or the end; `false` if `over` has a byte, and there is nothing to read now.
fn has_more(from: &BufReader<PipeReader>, over: &PipeReader) -> bool {
    if !from.buffer().is_empty() {
        return true;
    }
    let wanted = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds = [wanted(from.get_ref().as_fd()), wanted(over.as_fd())];
    while let Err(nix::errno::Errno::EINTR) = poll(&mut fds, PollTimeout::NONE) {}
    fds[0].any() != Some(false)
}

fn tell(line: &mut Vec<u8>, last: &Mutex<String>) {
    if line.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    log::info!("Python: {text}");
    *last.lock().unwrap_or_else(PoisonError::into_inner) = text;
    line.clear();
}
