//! Thousands of simulated peers, and the benchmarks with small numbers.

mod arena_scale;
mod cluster_scale;
mod collective_scale;
mod compare;
mod soak;
