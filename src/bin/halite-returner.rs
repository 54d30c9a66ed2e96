//! See `halite::cli::returner`.

fn main() {
    std::process::exit(halite::cli::returner::run());
}
