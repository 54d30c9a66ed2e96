//! What the master keeps: keys, session keys, jobs, minion data, files.

pub mod audit;
pub mod cached_data;
pub mod files;
pub mod gateways;
pub mod git;
pub mod jobs;
pub mod keys;
pub mod mine;
pub mod minions;
pub mod open;
pub mod presence;
pub mod sessions;
pub mod tokens;
pub mod transfer;
