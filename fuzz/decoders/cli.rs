//! Saltfiles. The real commands need most of the workspace; these have options of each kind that Saltfiles tell apart.

// Whoever opens the files is not here.
#[allow(dead_code)]
#[path = "../../src/cli/saltfile.rs"]
pub mod saltfile;

use clap::{Arg, ArgAction, Command};

/// Some commands.
pub fn commands() -> Vec<Command> {
    let names = ["halite", "halite-call", "halite-cp", "halite-key"];
    names.map(command).into()
}

fn command(name: &'static str) -> Command {
    let valued = [
        "output",
        "timeout",
        "auth",
        "log-file-level",
        "pillar",
        "grains",
        "saltfile",
    ];
    let switches = [
        "static",
        "summary",
        "hide-timeout",
        "metadata",
        "make-token",
    ];
    Command::new(name)
        .args(valued.map(|long| Arg::new(long).long(long)))
        .args(switches.map(|long| Arg::new(long).long(long).action(ArgAction::SetTrue)))
        .arg(Arg::new("out_file").long("output-file").alias("out-file"))
        .arg(
            Arg::new("versions_report")
                .long("versions-report")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("verbose")
                .long("verbose")
                .short('v')
                .action(ArgAction::Count),
        )
        .arg(Arg::new("words").num_args(0..))
}
