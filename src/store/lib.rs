//! What the master keeps: keys, session keys, jobs, minion data, files.

pub mod audit;
pub mod files;
pub mod gateways;
pub mod git;
pub mod jobs;
pub mod keys;
pub mod mine;
pub mod minions;
pub mod moving;
pub mod open;
pub mod presence;
pub mod remembered;
pub mod sessions;
pub mod tokens;
