//! Wall time and CPU time of the parts of a run.

use super::options::{Mode, SwarmArgs};
use halite_client::swarm::stats::Op;
use halite_sys::procs;
use std::io;
use std::time::{Duration, Instant};

/// One part of a run.
pub(super) struct RunPart {
    /// What was counted in it; the first is its subject.
    pub ops: Vec<Op>,
    /// From start to end.
    pub wall: Duration,
    /// CPU time of the master's processes during it.
    pub cpu: Option<Duration>,
    /// Whether everything was done.
    pub complete: bool,
}

/// Measures wall time and, if requested, the master's CPU time.
pub(super) struct Meter {
    master: Option<u32>,
}

impl Meter {
    /// Finds the master's processes, if their CPU time is requested.
    pub(super) fn new(options: &SwarmArgs) -> io::Result<Meter> {
        if options.mode == Mode::Restart && options.master_pids.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "--master-pids: the master's processes are others after a restart",
            ));
        }
        let master = match options.master_pids.as_deref() {
            None => None,
            Some("auto") => Some(procs::find_master(options.ret_port)?),
            Some(text) => Some(text.parse().map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("--master-pids {text}: give a process id or `auto`"),
                )
            })?),
        };
        Ok(Meter { master })
    }

    fn cpu(&self) -> io::Result<Option<Duration>> {
        self.master.map(procs::cpu).transpose()
    }

    /// Measures `body`, which returns whether everything was done.
    pub(super) fn part(
        &self,
        ops: &[Op],
        body: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<RunPart> {
        let (begun, before) = (Instant::now(), self.cpu()?);
        let complete = body()?;
        let wall = begun.elapsed();
        let cpu = self
            .cpu()?
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(RunPart {
            ops: ops.to_vec(),
            wall,
            cpu,
            complete,
        })
    }
}
