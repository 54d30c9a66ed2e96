//! The command that runs functions on this host.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::call::run);
}
