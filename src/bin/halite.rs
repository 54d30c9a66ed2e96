//! The command that runs functions on minions. In packages it is also the other commands for the master's host.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::programs::halite);
}
