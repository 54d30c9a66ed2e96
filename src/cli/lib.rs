//! The command line tools.
//!
//! One file per command with its options; [`output`] shows results. Mains in `src/bin` only
//! call a `run` here and exit with what it returns.

mod auth;
pub mod call;
mod common;
pub mod cp;
mod daemon;
pub mod federation_broker;
mod gateways;
pub mod key;
pub mod master;
pub mod migrate;
pub mod minion;
mod order;
pub mod output;
mod remote;
pub mod returner;
pub mod run;
pub mod runtime;
pub mod salt;
mod saltfile;
mod start;
pub mod swarm;
pub mod syndic;
pub mod sysinspect_minion;

/// Every command with its options, for the manual pages and whatever else is made from them.
pub fn commands() -> Vec<clap::Command> {
    vec![
        call::command(),
        cp::command(),
        federation_broker::command(),
        key::command(),
        master::command(),
        migrate::command(),
        minion::command(),
        returner::command(),
        run::command(),
        runtime::command(),
        salt::command(),
        swarm::command(),
        syndic::command(),
        sysinspect_minion::command(),
    ]
}
