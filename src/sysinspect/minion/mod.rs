//! A minion for masters that speak sysinspect's protocol: `halite-sysinspect-minion`.
//!
//! It registers with a master whose key it verifies by fingerprint, sends its traits, answers pings, and runs
//! functions of halite's minion, each in its own process as [`halite_minion::jobs`] does. [`course`] is the state
//! machine, which does no IO and is tested in simulated time; [`serve`] has the socket.

pub mod command;
pub mod course;
mod results;
pub mod serve;
pub mod settings;
pub mod store;
pub mod traits;
mod trust;

pub use serve::run;
