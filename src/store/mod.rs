//! What the master keeps: keys, session keys, jobs, minion data.

pub mod jobs;
pub mod keys;
pub mod minions;
pub mod open;
pub mod presence;
pub mod sessions;
