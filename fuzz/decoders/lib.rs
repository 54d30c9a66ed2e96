//! The part of the crate `halite` that the targets use.

pub mod cli;
pub mod python;

pub use halite_arena as arena;
pub use halite_cluster as cluster;
pub use halite_collective as collective;
pub use halite_crypto as crypto;
pub use halite_jinja as jinja;
pub use halite_store as store;
pub use halite_sysinspect as sysinspect;
pub use halite_target as target;
pub use halite_wire as wire;
pub use halite_wire::map;
