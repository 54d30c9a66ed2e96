//! The child process that asks PAM, LDAP and OpenID providers.
//!
//! It is this program again: it reads one question from standard input, writes the answer to standard output
//! and exits. Whatever a PAM module does (hang, print, crash), the worker waits no longer than the deadline
//! here.

use super::{ldap, oidc};
use halite_sys::{pam, process};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the role.
pub const ROLE: &str = "authenticate";
/// Longest time for an answer. PAM delays 2 or 3 seconds after a wrong password.
const DEADLINE: Duration = Duration::from_secs(20);
/// Largest question and answer.
const LARGEST: u64 = 1 << 20;

/// Asks a child; returns the user's groups if the user is authenticated.
///
/// # Errors
/// Why the user is not, for the log.
pub fn ask(question: &Map) -> Result<Vec<String>, String> {
    let mut child = start().map_err(|e| format!("cannot start the child: {e}"))?;
    let answer = talk(&mut child, &msgpack::encode_map(question, Profile::Wire));
    // A child that has answered exits by itself; one that has not must be killed.
    if answer.is_err() {
        kill_all(&child);
    }
    let _ = child.wait();
    let map = msgpack::decode(&answer.map_err(|e| e.to_string())?)
        .ok()
        .and_then(Value::into_map)
        .ok_or("the child exited without an answer")?;
    if map.get("proven").and_then(Value::as_bool) != Some(true) {
        return Err(map.str("why").unwrap_or("no reason given").to_owned());
    }
    Ok(map.get("groups").map(Value::str_list).unwrap_or_default())
}

fn start() -> io::Result<Child> {
    Command::new(process::program()?)
        .arg0("halite-master authenticate")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env(process::ROLE, ROLE)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Kills a child and the programs that PAM modules have started in it, which would stay for ever after each login that they
/// held up.
fn kill_all(child: &Child) {
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = killpg(group, Signal::SIGKILL);
}

fn talk(child: &mut Child, question: &[u8]) -> io::Result<Vec<u8>> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    // A question is far smaller than a pipe's buffer, so this does not block.
    stdin.write_all(question)?;
    drop(stdin);
    let end = Instant::now() + DEADLINE;
    let mut answer = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let millis = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        match nix::poll::poll(&mut fds, millis) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
            Ok(0) => {
                return Err(io::Error::other(format!(
                    "no answer within {} seconds",
                    DEADLINE.as_secs()
                )));
            }
            Ok(_) => {}
        }
        let mut part = [0; 4096];
        match stdout.read(&mut part)? {
            0 => return Ok(answer),
            n if answer.len() as u64 + n as u64 > LARGEST => {
                return Err(io::Error::other("the answer is too long"));
            }
            n => answer.extend_from_slice(&part[..n]),
        }
    }
}

/// The child's side: one question, one answer. Returns the exit status.
pub fn run() -> i32 {
    process::set_name(ROLE);
    // The child is killed if the worker dies; the alarm is for a worker that died before this line.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    nix::unistd::alarm::set(DEADLINE.as_secs() as u32 + 5);
    match serve() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn serve() -> io::Result<()> {
    // What a PAM module prints must not end up in the answer.
    let mut out = File::from(nix::unistd::dup(io::stdout())?);
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    let mut question = Vec::new();
    io::stdin().take(LARGEST).read_to_end(&mut question)?;
    let question = msgpack::decode(&question)
        .ok()
        .and_then(Value::into_map)
        .unwrap_or_default();
    let answer = match decide(&question) {
        Ok(groups) => halite_wire::map! {"proven" => true, "groups" => groups},
        Err(why) => halite_wire::map! {"proven" => false, "why" => why},
    };
    out.write_all(&msgpack::encode_map(&answer, Profile::Wire))
}

fn decide(question: &Map) -> Result<Vec<String>, String> {
    let user = question.str("user").unwrap_or_default();
    let password = question.str("password").unwrap_or_default();
    let settings = question
        .get("settings")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    match question.str("system") {
        Some("pam") => {
            let service = settings.str("service").unwrap_or("login");
            pam::check(service, user, password)?;
            pam::groups(user)
        }
        Some("ldap") => ldap::check(&settings, user, password),
        Some("oidc") => oidc::check(&settings, user, password),
        _ => Err("the question names no system".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_login_that_took_too_long() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo started; wait"])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut said = [0; 8];
        out.read_exact(&mut said).unwrap();
        kill_all(&child);
        child.wait().unwrap();
        // The end of the file comes when nobody has its other side any more.
        let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLIN)];
        assert_eq!(nix::poll::poll(&mut fds, 10_000_u16), Ok(1));
        assert_eq!(out.read(&mut said).unwrap(), 0);
    }
}
