//! halite's own small minion.
//!
//! Two threads, one more for each master, and a child process per job. The main thread ([`daemon`])
//! hears publications and looks after the jobs, and never waits for anything; the [`courier`] speaks to
//! a master's request port. A third thread serves the local event bus; what else has to wait (opening a
//! line, a pillar) has a thread for as long as it takes. The decisions ([`watch`], [`timetable`]
//! and those of [`halite_channel`]) do no IO. What jobs do is in [`halite_modules`].

mod background;
mod beacon_runner;
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
