//! See `halite::cli::syndic`.

fn main() {
    std::process::exit(halite::cli::syndic::run());
}
