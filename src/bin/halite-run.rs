//! The command that runs functions on the master's host.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::run::run);
}
