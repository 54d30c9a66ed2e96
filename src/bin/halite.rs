//! The command that runs functions on minions. In packages it is the other commands of the master's host, too.

use halite::cli::{cp, key, migrate, run, salt};

fn main() {
    std::process::exit(halite::cli::run_as(&[
        ("halite", salt::run),
        ("halite-cp", cp::run),
        ("halite-key", key::run),
        ("halite-migrate", migrate::run),
        ("halite-run", run::run),
    ]));
}
