//! The command that runs functions on the master's host.

fn main() {
    std::process::exit(halite::cli::cp::run());
}
