//! halite: a Salt-compatible control plane.
//!
//! The rooms are crates of this workspace, each below `src/`; this one gathers them under one name, for the programs
//! in `src/bin` and for the integration tests.

#[cfg(feature = "gateways")]
pub use halite_arena as arena;
pub use halite_channel as channel;
pub use halite_cli as cli;
pub use halite_client as client;
#[cfg(feature = "gateways")]
pub use halite_cluster as cluster;
#[cfg(feature = "gateways")]
pub use halite_collective as collective;
pub use halite_config as config;
pub use halite_crypto as crypto;
#[cfg(feature = "databases")]
pub use halite_databases as databases;
pub use halite_engine as engine;
pub use halite_gateway as gateway;
pub use halite_jinja as jinja;
pub use halite_master as master;
pub use halite_minion as minion;
pub use halite_modules as modules;
pub use halite_python as python;
pub use halite_render as render;
pub use halite_returners as returners;
pub use halite_schedule as schedule;
pub use halite_states as states;
pub use halite_store as store;
pub use halite_syndic as syndic;
pub use halite_sys as sys;
#[cfg(feature = "gateways")]
pub use halite_sysinspect as sysinspect;
pub use halite_target as target;
pub use halite_transport as transport;
pub use halite_wire as wire;
pub use halite_wire::map;
