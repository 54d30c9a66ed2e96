//! The command that runs functions on this host.

fn main() {
    std::process::exit(halite::cli::call::run());
}
