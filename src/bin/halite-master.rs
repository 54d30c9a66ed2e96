//! The master daemon.

fn main() {
    std::process::exit(halite::cli::master::run());
}
