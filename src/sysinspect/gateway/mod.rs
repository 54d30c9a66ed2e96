//! Gateway: minions of sysinspect (the "Master/minion protocol" and what its programs made of it).
//!
//! Owns the port of the gateway (4200), connections, sessions and the jobs that run on sysinspect minions. Hears
//! `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the cache,
//! keys to the key store. Below `cachedir/gateways/sysinspect` it notes which ids came in here.
//!
//! One thread serves all connections (`serve.rs`); what it decides stands in `session.rs` (who may stay) and `jobs`
//! (what a function asks for and what ends it), which know neither sockets nor clocks. One thread hears
//! the bus, one writes (`clerk.rs`).
//!
//! When it fails: its minions connect again to its successor, which knows nothing of jobs that were running; clients call
//! them lost.

mod dialect;
mod grains;
mod jobs;
mod limits;
mod peer;
mod registry;
mod serve;
mod session;

use halite_config::{MasterConfig, SysinspectGateway};
use halite_gateway::Gateway;
use halite_gateway::{news, writer};
use halite_master::roles::{RoleError, Roles};
use halite_sys::signals::StopFlag;
use serve::Server;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Its name in the table of roles.
pub const ROLE: &str = "gateway-sysinspect";

/// This gateway.
pub const GATEWAY: Gateway = Gateway {
    role: ROLE,
    run,
    fault: |_| None,
    runners: &[],
};
/// Its name in the configuration and below `cachedir`.
const NAME: &str = "sysinspect";
/// Jobs that may wait for the loop; then the bus waits, and drops for this listener.
const WAITING: usize = 10_000;

/// Runs the role until it is told to stop.
///
/// # Errors
/// The port cannot be had, the master's key cannot be read, or a thread has ended.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let settings: SysinspectGateway = config
        .sysinspect_gateway()
        .ok_or_else(|| RoleError::new(64, "the option gateways asks for no sysinspect"))?;
    let (clerk, tasks) = writer::queue();
    let (news, heard) = crossbeam_channel::bounded(WAITING);
    let (ours, mut theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let server = Server::new(config, &settings, clerk, heard, ours)?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| writer::run(config, NAME, &tasks));
        let listener = scope.spawn(move || {
            news::hear(config, roles, stop, &mut |item| {
                if news.send(item).is_ok() {
                    // A bell that is full has been heard.
                    let _ = theirs.write(&[1]);
                }
            });
        });
        let alive = || !writer.is_finished() && !listener.is_finished();
        let done = server.run(stop, &alive);
        // The other threads end as well.
        stop.set();
        done
    })
}
