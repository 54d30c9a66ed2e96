//! The command line tools.
//!
//! One file per command with its options; [`output`] shows results. The mains in `src/bin` only call a `run`
//! function here and exit with its result.

#[cfg(feature = "gateways")]
pub mod api;
mod auth;
pub mod call;
mod common;
pub mod cp;
mod daemon;
#[cfg(feature = "gateways")]
pub mod federation_broker;
mod gateways;
pub mod key;
pub mod master;
pub mod migrate;
pub mod minion;
mod order;
pub mod output;
pub mod programs;
mod progress;
mod remote;
#[cfg(feature = "databases")]
pub mod returner;
pub mod run;
#[cfg(feature = "gateways")]
pub mod runtime;
pub mod salt;
pub mod saltfile;
pub mod start;
pub mod swarm;
pub mod syndic;
#[cfg(feature = "gateways")]
pub mod sysinspect_minion;

/// All commands with their options, for generating the manual pages and the like.
pub fn commands() -> Vec<clap::Command> {
    vec![
        #[cfg(feature = "gateways")]
        api::command(),
        call::command(),
        cp::command(),
        #[cfg(feature = "gateways")]
        federation_broker::command(),
        key::command(),
        master::command(),
        migrate::command(),
        minion::command(),
        #[cfg(feature = "databases")]
        returner::command(),
        run::command(),
        #[cfg(feature = "gateways")]
        runtime::command(),
        salt::command(),
        swarm::command(),
        syndic::command(),
        #[cfg(feature = "gateways")]
        sysinspect_minion::command(),
    ]
}
