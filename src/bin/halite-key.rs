//! The command that manages the keys of minions.

fn main() {
    halite::cli::start::main(halite::cli::key::run);
}
