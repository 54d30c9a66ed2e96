//! The job cache on disk.
//!
//! [`JobLog`] keeps one append-only file per job (jobs that minions start by themselves share files) in directories
//! of ten minutes each. Any number of worker processes append, with one write each, and any number of
//! processes read. An acknowledged return has been passed to the kernel: `kill -9` of every process loses nothing.
//! Reading a job's thousand returns is one sequential read, and old jobs are removed one directory at a time.
//! `docs/performance.md` compares this with SQLite and redb.

mod batches;
mod disk;
mod follow;
mod joblog;
mod shared_segment;
mod stock;
pub mod transfer;

pub use batches::BatchIndex;
pub use joblog::JobLog;
pub use stock::StockLayout;
