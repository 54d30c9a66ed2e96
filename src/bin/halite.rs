//! The command that runs functions on minions.

fn main() {
    std::process::exit(halite::cli::salt::run());
}
