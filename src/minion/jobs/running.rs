//! The process of one job: its pending result, its exit, and signals to it and what it started.

use super::{Finished, Origin};
use halite_modules::execution::proc::Process;
use halite_wire::Map;
use halite_wire::ids::Jid;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// Longest result; a longer one is an error.
const MAX_RESULT: u64 = 512 << 20;
/// Bytes read from a result at once.
const CHUNK: usize = 64 << 10;
/// Size of the length prefix of a result.
const HEAD: usize = 8;

/// A job and its process.
pub(super) struct Running {
    pub jid: Jid,
    pub origin: Origin,
    pub load: Map,
    pub child: Child,
    pub out: UnixStream,
    pub result: Vec<u8>,
    pub closed: bool,
    /// Its result is delivered; the process may still be busy, for example writing to a database.
    pub delivered: bool,
}

impl Running {
    /// Reads what is available of the result.
    pub fn read(&mut self) {
        let mut chunk = [0u8; CHUNK];
        while !self.closed {
            match self.out.read(&mut chunk) {
                Ok(0) => self.closed = true,
                Ok(n) => self.result.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => {
                    log::warn!(jid:% = self.jid; "the result of job {} cannot be read: {e}", self.jid);
                    self.closed = true;
                }
            }
            if self.result.len() as u64 > MAX_RESULT {
                log::error!(
                    jid:% = self.jid;
                    "the result of job {} is over {} MiB",
                    self.jid,
                    MAX_RESULT >> 20
                );
                self.closed = true;
                signal_tree(self.child.id(), Signal::SIGKILL);
            }
        }
    }

    /// The exit status of its process, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        match self.child.try_wait() {
            Ok(status) => status,
            Err(e) => {
                log::error!(jid:% = self.jid; "cannot wait for the process of job {}: {e}", self.jid);
                Some(ExitStatus::from_raw(1 << 8))
            }
        }
    }

    /// Returns the result, once, when it is complete.
    pub fn deliver(&mut self) -> Option<Finished> {
        if self.delivered || !self.is_whole() {
            return None;
        }
        log::info!(jid:% = self.jid; "job {} has returned", self.jid);
        self.delivered = true;
        // The job waits for confirmation that all of it was read.
        let _ = self.out.shutdown(Shutdown::Both);
        let mut load = std::mem::take(&mut self.result);
        load.drain(..HEAD);
        Some(Finished {
            jid: self.jid.clone(),
            origin: self.origin.clone(),
            load,
        })
    }

    /// Whether the result is complete.
    fn is_whole(&self) -> bool {
        let Some((length, body)) = self.result.split_first_chunk::<HEAD>() else {
            return false;
        };
        u64::from_le_bytes(*length) == body.len() as u64 && !body.is_empty()
    }
}

/// Signals the process group of a job, and the commands below it, which have their own groups; returns those
/// commands.
pub(super) fn signal_tree(pid: u32, with: Signal) -> Vec<Process> {
    let below = Process::read(pid)
        .map(|p| p.descendants())
        .unwrap_or_default();
    below.iter().for_each(|process| signal(process, with));
    // It may have exited meanwhile, which is fine.
    let _ = killpg(raw(pid), with);
    below
}

pub(super) fn signal(process: &Process, with: Signal) {
    let _ = if process.group == process.pid {
        killpg(raw(process.pid), with)
    } else {
        kill(raw(process.pid), with)
    };
}

/// Whether it is still running: the same process, not another one with its pid.
pub(super) fn is_running(process: &Process) -> bool {
    Process::read(process.pid).is_some_and(|now| now.start == process.start)
}

/// Pids come from the kernel and fit; the fallback matches no process.
fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}
