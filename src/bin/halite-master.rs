//! The master daemon.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::master::run);
}
