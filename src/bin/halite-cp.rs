//! The command that copies files to minions.

fn main() {
    std::process::exit(halite::cli::cp::run());
}
