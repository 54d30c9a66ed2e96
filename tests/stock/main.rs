//! Halite beside stock Salt: fleets of both, and the same questions to both.

mod between;
mod cluster;
mod files;
mod interop;
mod migrate;
mod modules;
mod orchestrate;
mod pillar;
mod python;
mod returners;
mod rpm;
mod runner;
mod schedule;
mod standalone;
mod syndic;
mod transports;
