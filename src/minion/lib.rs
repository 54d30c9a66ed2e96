//! halite's own small minion.
//!
//! Two threads, one more for each master, and a child process per job. The main thread ([`daemon`]) receives
//! publications, supervises the jobs, and never blocks; the [`return_sender`] talks to a master's request port.
//! A third thread serves the local event bus; other blocking work (opening a connection, fetching a pillar)
//! runs in a thread of its own. The state machines ([`watch`], [`timetable`] and those of [`halite_channel`])
//! do no IO. What jobs do is in [`halite_modules`].

mod background;
mod beacon_runner;
pub mod check;
pub mod daemon;
pub mod job;
pub mod jobs;
mod left_results;
mod master_connection;
pub mod return_sender;
pub mod setup;
pub mod spool;
pub mod timetable;
pub mod watch;
