//! `halite-swarm`.

mod keys;
mod meter;
mod options;
mod report;
mod run;

use super::common::fail;
use super::start::parse;
use clap::CommandFactory;
use options::SwarmArgs;

/// The command with its options.
pub(super) fn command() -> clap::Command {
    SwarmArgs::command()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: SwarmArgs = match parse() {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run::perform(&options) {
        Ok(status) => status,
        Err(e) => fail(e, 1),
    }
}
