//! The command that runs functions on this host.

fn main() {
    halite::cli::start::main(halite::cli::call::run);
}
