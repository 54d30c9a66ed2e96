//! What a minion can do: execution modules, grains, beacons, returners, the file client and what templates may call.
//!
//! All of it runs in a job's process, in `halite-call` or in a thread of the minion; nothing here listens to a master.
//!
//! [`execution`] stands above all but [`beacons`], [`guard`] and [`masters`]. Templates and pillars call its functions;
//! they are given them as a [`render::CallerFactory`].

pub mod beacons;
pub mod bus;
pub mod context;
pub mod execution;
pub mod files;
pub mod grains;
pub mod guard;
pub mod local;
pub mod masters;
pub mod net;
pub mod pillar;
mod programs;
pub mod python;
pub mod render;
pub mod returners;
pub mod versions;

pub use grains::{COMPAT_VERSION, all_grains, default_shell};
