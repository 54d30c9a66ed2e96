//! What the master keeps: keys, session keys, jobs, minion data.

pub mod jobs;
pub mod keys;
pub mod mine;
pub mod minions;
pub mod open;
pub mod sessions;
