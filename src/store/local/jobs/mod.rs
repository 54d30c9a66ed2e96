//! The job cache on disk.
//!
//! [`JobLog`] keeps one append-only file per job (jobs that minions start by themselves share files) in directories
//! of ten minutes each. Any number of worker processes append with one write each, any number of processes
//! read. An acknowledged return is in the kernel's hands: a `kill -9` of every process loses nothing. Reading
//! a job's thousand returns is one sequential read, and old jobs are removed by the directory. `docs/performance.md` has the
//! measurement beside SQLite and redb.

mod disk;
mod follow;
mod joblog;
mod shared_segment;
mod stock;
pub mod transfer;

pub use joblog::JobLog;
pub use stock::StockLayout;
