//! What runs on a minion: execution modules, grains, beacons, returners, the file client and templates.
//!
//! All of it runs in a job's process, in `halite-call` or in a thread of the minion; nothing here listens to a master.
//!
//! [`execution`] is above everything but [`beacons`], [`guard`] and [`masters`]. Templates and pillars get its
//! functions through a [`render::CallerFactory`].

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
