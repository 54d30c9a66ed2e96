//! The command that manages the keys of minions.

fn main() {
    std::process::exit(halite::cli::key::run());
}
