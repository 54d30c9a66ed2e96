//! halite's own small minion.
//!
//! Two threads, one more for each master, and a child process per job. The main thread ([`daemon`])
//! hears publications and looks after the jobs, and never waits for anything; the [`courier`] speaks to
//! a master's request port. A third thread serves the local event bus; what else has to wait (opening a
//! line, a pillar) has a thread for as long as it takes. The decisions ([`signin`], [`course`],
//! [`watch`], [`request`], [`publication`], [`timetable`]) do no IO. What jobs do is in [`modules`] and
//! [`grains`], which run in the job's process or in `halite-call`.

mod alarm;
mod aside;
pub mod ask;
pub mod beacons;
pub mod bus;
pub mod channel;
pub mod courier;
pub mod course;
pub mod daemon;
mod duties;
mod error;
pub mod files;
pub mod grains;
pub mod guard;
mod identity;
pub mod job;
pub mod jobs;
pub mod keys;
mod line;
pub mod link;
pub mod local;
mod lookout;
pub mod masters;
pub mod modules;
mod net;
pub mod pillar;
pub mod pillar_request;
pub mod publication;
pub mod queue;
pub mod rekey;
pub mod render;
pub mod request;
pub mod returners;
pub mod session;
pub(crate) mod setup;
pub mod signin;
pub mod spool;
pub mod subscribe;
pub mod sysinspect;
pub mod timetable;
pub mod versions;
pub mod watch;

#[cfg(test)]
mod testing;

pub use alarm::Alarm;
pub use error::MinionError;
pub use grains::COMPAT_VERSION;
pub use grains::all_grains;
pub use grains::default_shell;
pub use identity::Me;
