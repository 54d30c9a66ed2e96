//! The master daemon.

fn main() {
    halite::cli::start::main(halite::cli::master::run);
}
