//! The command that copies files to minions.

fn main() {
    halite::cli::start::main(halite::cli::cp::run);
}
