//! What the master keeps: keys, session keys, jobs, minion data, files.

pub mod files;
pub mod jobs;
pub mod keys;
pub mod minions;
pub mod open;
pub mod sessions;
