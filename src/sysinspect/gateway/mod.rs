//! Gateway: minions of sysinspect (the "Master/minion protocol", as its programs implement it).
//!
//! Owns the port of the gateway (4200), connections, sessions and the jobs that run on sysinspect minions. Listens to
//! `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the cache, keys to
//! the key store. Below `cachedir/gateways/sysinspect` it records the ids that registered here.
//!
//! `serve` has the sockets and runs in the loop of all gateways (`halite_gateway::frame`). `session` (which peers may
//! stay) and `jobs` (what a function sends and what completes it) decide without sockets or clocks.
//!
//! After a crash its minions connect to the new process, which knows nothing of running jobs; clients report these as
//! lost.

mod dialect;
mod grains;
mod jobs;
mod limits;
mod peer;
mod registry;
mod serve;
mod session;

use halite_gateway::Gateway;
use halite_gateway::frame::{EXIT_CONFIG, Frame, Protocol};
use halite_sys::exit::ExitError;
use serve::Server;

/// This gateway.
pub const GATEWAY: Gateway = Gateway {
    name: NAME,
    role: "gateway-sysinspect",
    start,
    fault: |_| None,
    runners: &[],
};
const NAME: &str = "sysinspect";

/// Binds the port.
///
/// # Errors
/// The port cannot be bound, or the master's key cannot be read.
fn start<'scope>(frame: &Frame<'scope, '_>) -> Result<Box<dyn Protocol + 'scope>, ExitError> {
    let settings = frame.config.sysinspect_gateway().ok_or_else(|| {
        ExitError::new(EXIT_CONFIG, "the option gateways has no entry sysinspect")
    })?;
    let server = Server::new(frame, &settings)?;
    Ok(Box::new(server))
}
