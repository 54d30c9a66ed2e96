//! The command that runs functions on the master's host.

fn main() {
    halite::cli::start::main(halite::cli::run::run);
}
