//! Running a helper program for its output: by argv, never through a shell, with limits.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a program may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time until it is ended with everything in its process group.
    pub time: Duration,
    /// Octets of standard output.
    pub output: usize,
}

/// Runs `words` and gives its standard output. Standard error is the caller's; standard input
/// is empty.
///
/// # Errors
/// It cannot be started, ends with another status than 0, or exceeds a limit.
pub fn output(words: &[String], limits: Limits) -> io::Result<Vec<u8>> {
    let Some((program, args)) = words.split_first().filter(|(p, _)| !p.is_empty()) else {
        return Err(io::Error::other("the command is empty"));
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("{program} does not start: {e}")))?;
    let end = Instant::now() + limits.time;
    let read = read(&mut child, program, limits, end);
    let status = match &read {
        Ok(_) => wait(&mut child, end),
        Err(_) => None,
    };
    let Some(status) = status else {
        kill(&mut child);
        read?;
        return Err(late(program, limits));
    };
    let out = read?;
    if status.success() {
        return Ok(out);
    }
    Err(io::Error::other(format!("{program} ended with {status}")))
}

fn late(program: &str, limits: Limits) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "{program} took longer than {} seconds",
            limits.time.as_secs_f32()
        ),
    )
}

fn read(child: &mut Child, program: &str, limits: Limits, end: Instant) -> io::Result<Vec<u8>> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let Some(mut pipe) = child.stdout.take() else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    let mut piece = [0u8; 16 * 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(program, limits));
        }
        let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let n = pipe.read(&mut piece)?;
        if n == 0 {
            return Ok(out);
        }
        if out.len() + n > limits.output {
            return Err(io::Error::other(format!(
                "{program} printed more than {} bytes",
                limits.output
            )));
        }
        out.extend_from_slice(&piece[..n]);
    }
}

/// Its status; `None` if it does not end in time after closing its output.
fn wait(child: &mut Child, end: Instant) -> Option<std::process::ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let group = nix::unistd::Pid::from_raw(pid);
        // The group is its own, made above; whoever has ended needs no signal.
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, millis: u64, output: usize) -> io::Result<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let limits = Limits {
            time: Duration::from_millis(millis),
            output,
        };
        super::output(&words, limits).map(|o| String::from_utf8(o).unwrap())
    }

    #[test]
    fn outputs_and_limits() {
        assert_eq!(run("echo a $(b)", 20_000, 100).unwrap(), "a $(b)\n");
        assert!(run("false", 20_000, 100).is_err());
        assert!(run("/no/such", 20_000, 100).is_err());
        assert!(run("seq 1000", 20_000, 100).is_err());
        assert_eq!(
            run("sleep 100", 50, 100).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }
}
